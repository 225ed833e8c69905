//! hyper's view of one socket. hyper gets a head only once it is complete and checked, and no bytes beyond the current
//! request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

use super::chunks::Framing;
use super::edge::ServerState;
use super::head::{self, Head, HeadScan};
use super::progress::{ConnectionState, Phase, ResponseState};
use super::refusal::Refusal;
use super::slots::ConnectionGuard;

/// Space for one read of a head. Most heads fit into it.
const HEAD_READ_BYTES: usize = 2 << 10;
/// Space for one read of a body.
const BODY_READ_BYTES: usize = 16 << 10;
/// Maximum number of bytes that hyper gets at once.
///
/// hyper starts with a buffer of 8 KiB and doubles it after each read that fills it.
const HYPER_READ_BYTES: usize = (8 << 10) - 1;
/// Largest buffer that a connection keeps while it waits.
const IDLE_BUFFER_BYTES: usize = 4 << 10;

/// A socket with the bytes that hyper has not read yet.
#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    guard: ConnectionGuard,
    shared: Arc<ServerState>,
    buffer: BytesMut,
    /// Checked bytes at the front of the buffer, which hyper may read.
    checked_bytes: usize,
    scan: HeadScan,
    framing: Framing,
    /// Whether the peer has ended its side.
    peer_ended: bool,
    /// Whether hyper waits for input that was already read from the socket: [`Wire::await_request`] must wake hyper.
    awaits_request: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S, guard: ConnectionGuard, shared: Arc<ServerState>) -> Self {
        Self {
            stream,
            guard,
            shared,
            buffer: BytesMut::new(),
            checked_bytes: 0,
            scan: HeadScan::default(),
            framing: Framing::Complete,
            peer_ended: false,
            awaits_request: false,
        }
    }

    pub(super) fn link(&self) -> &Arc<ConnectionState> {
        &self.guard.link
    }

    /// Returns whether the peer has ended its side, so that it needs no orderly close.
    pub(super) fn has_ended(&self) -> bool {
        self.peer_ended
    }

    /// Waits for the next head. Returns `false` if no request can be served; the progress then has the refusal, if any.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if self.link().progress().is_refused() {
                return Poll::Ready(false);
            }
            match self.take_head() {
                Ok(Some(has_slot)) => return Poll::Ready(has_slot),
                Ok(None) => {}
                Err(refusal) => {
                    self.refuse(refusal);
                    return Poll::Ready(false);
                }
            }
            match ready!(self.poll_more(cx, HEAD_READ_BYTES)) {
                Ok(0) if self.buffer.is_empty() => return Poll::Ready(false),
                // The peer may still read after it has ended its side, so it gets a response.
                Ok(0) => self.refuse(Refusal::Malformed),
                Ok(_some) => {}
                Err(_reset) => {
                    self.peer_ended = true;
                    return Poll::Ready(false);
                }
            }
        }
    }

    /// Checks the part of a head that has arrived.
    ///
    /// Once it is complete, returns whether the connection still has its slot.
    fn take_head(&mut self) -> Result<Option<bool>, Refusal> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let now = self.shared.now();
        {
            let mut progress = self.guard.link.progress();
            if progress.phase == Phase::Idle {
                progress.enter(Phase::Head, now);
            }
        }
        let Some(end) = self.scan.advance(&self.buffer, &self.shared.bounds.head)? else {
            self.guard.grow(self.buffer.len())?;
            return Ok(None);
        };
        let head = self.buffer.get(..end).unwrap_or_default();
        let Head { framing } = head::check(head, &self.shared.bounds)?;
        let has_body = framing != Framing::Complete;
        (self.scan, self.framing, self.checked_bytes) = (HeadScan::default(), framing, end);
        let announced = if let Framing::Length(length) = framing { length } else { 0 };
        // An invalid body refuses the request only after hyper has read the head, so that the method is known.
        let checked = self.check_body();
        let whole = self.framing == Framing::Complete;
        let has_slot = self.guard.begin(!whole);
        let mut progress = self.guard.link.progress();
        (progress.has_body, progress.announced_bytes) = (has_body, announced);
        progress.received_bytes = self.checked_bytes;
        progress.enter(if whole { Phase::Received } else { Phase::Body }, now);
        if let Err(refusal) = checked {
            progress.refuse(refusal, now);
        }
        Ok(Some(has_slot))
    }

    /// Checks the part of the body that has arrived, and lets hyper read it.
    fn check_body(&mut self) -> Result<(), Refusal> {
        let arrived = self.buffer.get(self.checked_bytes..).unwrap_or_default();
        let taken = self.framing.advance(arrived, self.shared.bounds.body.bytes_max)?;
        self.checked_bytes += taken;
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal) {
        let now = self.shared.now();
        self.guard.link.progress().refuse(refusal, now);
    }

    /// Reads more into the buffer; returns 0 at the end of the stream. Cancel-safe: no bytes are lost.
    fn poll_more(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        self.buffer.reserve(room);
        let read = poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer);
        if read.is_pending() {
            self.trim();
        }
        let read = ready!(read);
        self.peer_ended |= matches!(read, Ok(0));
        Poll::Ready(read)
    }

    /// Reads more of a body that the route wants.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.link().progress().is_refused() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let count = ready!(self.poll_more(cx, BODY_READ_BYTES))?;
        let checked = match count {
            // The peer may still read after it has ended its side, so it gets a response.
            0 => Err(Refusal::Malformed),
            _some => self.check_body(),
        };
        let total = {
            let mut progress = self.guard.link.progress();
            progress.received_bytes = progress.received_bytes.saturating_add(count);
            progress.received_bytes
        };
        let is_whole = self.framing == Framing::Complete;
        let counted = checked.and_then(|()| self.guard.grow(total));
        let counted = counted.and_then(|()| if is_whole { self.guard.received() } else { Ok(()) });
        if let Err(refusal) = counted {
            self.refuse(refusal);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if is_whole {
            let now = self.shared.now();
            self.guard.link.progress().enter(Phase::Received, now);
        }
        Poll::Ready(Ok(()))
    }

    /// Watches for a peer that leaves during its request.
    ///
    /// With `allow_half_close`, a peer that ends its side does not cancel the request.
    fn poll_peer_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            let read = ready!(self.poll_more(cx, HEAD_READ_BYTES));
            let is_gone = !matches!(read, Ok(1..));
            if is_gone && !self.shared.bounds.allow_half_close {
                return Poll::Ready(read.map(|_end| ()));
            }
        }
        // The next request or the end of the stream was already read, so the socket will not wake hyper.
        self.awaits_request = true;
        Poll::Pending
    }

    /// Frees a buffer that a large request has grown.
    fn trim(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_BUFFER_BYTES {
            self.buffer = BytesMut::new();
        }
    }

    /// Copies checked bytes to hyper.
    fn copy_to_hyper(&mut self, out: &mut ReadBufCursor<'_>) {
        let count = self.checked_bytes.min(out.remaining()).min(HYPER_READ_BYTES);
        out.put_slice(self.buffer.get(..count).unwrap_or_default());
        self.buffer.advance(count);
        self.checked_bytes -= count;
    }

    /// Prepares the connection for its next request, after the response was sent.
    fn await_request(&mut self, cx: &mut Context<'_>) {
        self.trim();
        if !self.guard.set_idle() {
            // In the phase `Linger`, hyper reads the end of the stream instead of another head, and closes.
            self.guard.link.progress().enter(Phase::Linger, self.shared.now());
        }
        if std::mem::take(&mut self.awaits_request) {
            cx.waker().wake_by_ref();
        }
    }

    /// Sends `bytes`, ends our side, and discards arriving bytes within the limits.
    pub(super) async fn linger(mut self, bytes: &[u8]) {
        use tokio::io::AsyncWriteExt;
        let _idle_or_stopping = self.guard.set_idle();
        if !bytes.is_empty() && self.stream.write_all(bytes).await.is_err() {
            return;
        }
        if self.peer_ended || self.stream.shutdown().await.is_err() {
            return;
        }
        let mut discarded = 0;
        while discarded < self.shared.bounds.linger_bytes_max {
            self.buffer.clear();
            match std::future::poll_fn(|cx| self.poll_more(cx, BODY_READ_BYTES)).await {
                Ok(count @ 1..) => discarded += count,
                Ok(0) | Err(_) => return,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> hyper::rt::Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        while self.checked_bytes == 0 {
            let phase = self.link().progress().phase;
            match phase {
                Phase::Idle | Phase::Head => {
                    if !ready!(self.poll_head(cx)) {
                        return Poll::Ready(Ok(()));
                    }
                }
                Phase::Body => ready!(self.poll_body(cx))?,
                Phase::Received => return self.poll_peer_gone(cx),
                Phase::Linger => return Poll::Ready(Ok(())),
            }
        }
        self.copy_to_hyper(&mut out);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Records whether the peer is reading.
    fn record_stall<T>(&self, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut progress = self.guard.link.progress();
        match &wrote {
            Poll::Ready(_some) => progress.stalled_since_ms = None,
            Poll::Pending if progress.stalled_since_ms.is_none() => {
                progress.stalled_since_ms = Some(self.shared.now())
            }
            Poll::Pending => {}
        }
        drop(progress);
        wrote
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> hyper::rt::Write for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_stall(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.record_stall(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Flushes the socket, and completes the response once hyper has written its last byte.
    ///
    /// hyper flushes when its own buffer is empty, so this response is in the kernel after the flush.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.record_stall(flushed))?;
        let is_idle = {
            let mut progress = self.guard.link.progress();
            let is_sent = progress.response == ResponseState::Ended;
            if is_sent {
                progress.response = ResponseState::Open;
                if let Some(delivery) = progress.delivery.take() {
                    delivery.succeed();
                }
            }
            let is_idle = is_sent && progress.phase == Phase::Received && !progress.is_refused();
            if is_idle {
                progress.enter(Phase::Idle, self.shared.now());
            }
            is_idle
        };
        if is_idle {
            self.await_request(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// Does nothing: the connection's task closes the socket after it has discarded arriving bytes.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<S> Drop for Wire<S> {
    fn drop(&mut self) {
        if let Some(delivery) = self.guard.link.progress().delivery.take() {
            delivery.fail();
        }
    }
}
