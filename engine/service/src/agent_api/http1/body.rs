//! A request's body: asked for by whoever answers, and only then read, within its size, time and pace.

use std::io;
use std::time::Duration;

use axum::body::Body;
use bursar_core::codes::Code;
use bursar_core::limits::{BODY_BYTES, BODY_BYTES_PER_S, BODY_GRACE_MS, BODY_MS, CHUNK_DIGITS};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connections::Room;
use super::framing::Framing;
use super::wire::{Broken, Wire};

/// Where the bytes are to go.
pub(super) type Asked = oneshot::Sender<Bytes>;

/// A body that asks for its bytes when it is first looked at. Who answers without looking leaves it on the
/// wire, where nobody has waited for it.
pub(super) fn on_demand() -> (Body, oneshot::Receiver<Asked>) {
    let (ask, asked) = oneshot::channel();
    let stream = futures::stream::once(async move {
        let (give, given) = oneshot::channel();
        // The connection ends with the answer to a body that cannot be read: nobody sees these errors.
        ask.send(give).map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
        given.await.map_err(io::Error::other)
    });
    (Body::from_stream(stream), asked)
}

/// Reads the body that the head announced. A peer that waits to be told so is told to send it, unless its
/// size is refused already.
pub(super) async fn read<S>(
    wire: &mut Wire<S>,
    framing: Framing,
    waits_for_continue: bool,
    room: &mut Room<'_>,
) -> Result<Bytes, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let announced = match framing {
        Framing::Empty => return Ok(Bytes::new()),
        Framing::Length(length) => Some(within_bound(length)?),
        Framing::Chunked => None,
    };
    if waits_for_continue && wire.buffer.is_empty() {
        wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let mut body = Reader { pace: Pace::start(wire.buffer.len()), wire, room };
    match announced {
        Some(length) => {
            while body.wire.buffer.len() < length {
                body.more(0).await?;
            }
            Ok(body.wire.buffer.split_to(length).freeze())
        }
        None => body.chunks().await,
    }
}

fn within_bound(length: u64) -> Result<usize, Code> {
    let length = usize::try_from(length).ok().filter(|length| *length <= BODY_BYTES);
    length.ok_or(Code::PayloadTooLarge)
}

#[derive(Debug)]
struct Reader<'a, 'b, S> {
    wire: &'a mut Wire<S>,
    pace: Pace,
    room: &'a mut Room<'b>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<'_, '_, S> {
    /// `kept` is what of the body has left the buffer already.
    async fn more(&mut self, kept: usize) -> Result<(), Broken> {
        self.pace.received += self.wire.more(self.pace.deadline()).await?;
        Ok(self.room.grow(kept.saturating_add(self.wire.buffer.len()))?)
    }

    /// Chunks without extensions, and no trailers: no agent sends them, and readers differ over them.
    async fn chunks(&mut self) -> Result<Bytes, Broken> {
        let mut body = BytesMut::new();
        loop {
            let size = self.size().await?;
            if size == 0 {
                self.line_end().await?;
                return Ok(body.freeze());
            }
            let total = u64::try_from(body.len()).unwrap_or(u64::MAX).saturating_add(size);
            let total = within_bound(total)?;
            while body.len() < total {
                if self.wire.buffer.is_empty() {
                    self.more(body.len()).await?;
                }
                let part = self.wire.buffer.len().min(total - body.len());
                body.extend_from_slice(&self.wire.buffer.split_to(part));
            }
            self.line_end().await?;
        }
    }

    async fn size(&mut self) -> Result<u64, Broken> {
        loop {
            let buffer = &self.wire.buffer;
            let digits = buffer.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits > CHUNK_DIGITS {
                return Err(Code::BadRequest.into());
            }
            if digits < buffer.len() {
                let text = std::str::from_utf8(buffer.get(..digits).unwrap_or_default());
                let size = text.ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                let size = size.ok_or(Code::BadRequest)?;
                self.wire.buffer.advance(digits);
                self.line_end().await?;
                return Ok(size);
            }
            self.more(0).await?;
        }
    }

    async fn line_end(&mut self) -> Result<(), Broken> {
        for expected in *b"\r\n" {
            if self.wire.buffer.is_empty() {
                self.more(0).await?;
            }
            if self.wire.buffer.first() != Some(&expected) {
                return Err(Code::BadRequest.into());
            }
            self.wire.buffer.advance(1);
        }
        Ok(())
    }
}

/// How long a body may take: at the deadline it is either too late or too slow.
#[derive(Debug)]
struct Pace {
    started: Instant,
    received: usize,
}

impl Pace {
    fn start(received: usize) -> Self {
        Self { started: Instant::now(), received }
    }

    fn deadline(&self) -> Instant {
        let received = u64::try_from(self.received).unwrap_or(u64::MAX);
        let earned = received.saturating_mul(1000) / BODY_BYTES_PER_S;
        let allowed = BODY_GRACE_MS.saturating_add(earned).min(BODY_MS);
        self.started + Duration::from_millis(allowed)
    }
}
