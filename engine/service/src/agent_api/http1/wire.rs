//! The bytes of one connection: what has arrived and is not used yet, and what goes out. Every wait for the
//! peer has an end.

use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{KEPT_BYTES, LINGER_BYTES, LINGER_MS, READ_BYTES, WRITE_MS};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// Why a request does not get the answer it asked for. Either way it is the connection's last.
#[derive(Debug)]
pub(super) enum Broken {
    /// The peer is told why.
    Refused(Fault),
    /// Nobody is there to be told.
    Gone,
}

impl From<Code> for Broken {
    fn from(code: Code) -> Self {
        Broken::Refused(Fault::new(code))
    }
}

/// A stream with what was read ahead of it.
#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    pub(super) buffer: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(READ_BYTES) }
    }

    /// Waits for more; how many bytes came, 0 at the end of the stream. Dropped while it waits, it has
    /// read nothing.
    pub(super) async fn read(&mut self) -> Result<usize, Broken> {
        self.buffer.reserve(READ_BYTES);
        self.stream.read_buf(&mut self.buffer).await.map_err(|_reset| Broken::Gone)
    }

    /// More of a request that has begun. A peer that ends its side in the middle may still read.
    pub(super) async fn more(&mut self, deadline: Instant) -> Result<usize, Broken> {
        match timeout_at(deadline, self.read()).await {
            Ok(Ok(0)) => Err(Code::BadRequest.into()),
            Ok(read) => read,
            Err(_elapsed) => Err(Code::RequestTimeout.into()),
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let patience = Duration::from_millis(WRITE_MS);
        match timeout(patience, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_reset)) => Err(Broken::Gone),
            Err(_elapsed) => Err(Broken::Gone),
        }
    }

    /// Gives back what a large request made the buffer grow to.
    pub(super) fn trim(&mut self) {
        if self.buffer.is_empty() {
            // What has been split off counts again once it is asked for, and would be kept by the next read.
            self.buffer.reserve(READ_BYTES);
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer = BytesMut::with_capacity(READ_BYTES);
            }
        }
    }

    /// Ends our side and reads away what still comes: a socket that is closed with unread data is reset,
    /// and the last answer may be lost with it.
    pub(super) async fn linger(mut self) {
        let until = Instant::now() + Duration::from_millis(LINGER_MS);
        if !matches!(timeout_at(until, self.stream.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        let mut read = 0;
        while read < LINGER_BYTES {
            self.buffer.clear();
            match timeout_at(until, self.read()).await {
                Ok(Ok(count)) if count > 0 => read += count,
                _ended_or_too_long => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_waits_keeps_no_large_buffer() {
        let (mut peer, server) = tokio::io::duplex(64);
        let mut wire = Wire::new(server);
        for size in [KEPT_BYTES / 2, KEPT_BYTES * 8, 10] {
            wire.buffer.extend_from_slice(&vec![0; size]);
            drop(wire.buffer.split_to(size / 3).freeze());
            drop(wire.buffer.split().freeze());
            wire.trim();
            peer.write_all(b"x").await.unwrap();
            assert!(matches!(wire.read().await, Ok(1)));
            assert!(wire.buffer.capacity() <= KEPT_BYTES, "{size}");
            wire.buffer.clear();
        }
    }
}
