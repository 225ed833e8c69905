//! Sends and receives control frames over a stream.

use bursar_control::wire::{Frame, FrameReader, ToClient};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The reason why a session ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the client sent an invalid frame")]
    Malformed,
    #[error("the client did not prove the token, or has another version")]
    Refused,
    #[error("the client took too long")]
    TooSlow,
    #[error("evicted for a new connection, because this was the oldest one without a proof")]
    Evicted,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A stream in both directions that a session can run over.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream of control frames.
pub(super) struct Channel {
    stream: Box<dyn Duplex>,
    reader: FrameReader,
}

impl Channel {
    pub(super) fn new(stream: Box<dyn Duplex>, most: usize) -> Self {
        Self { stream, reader: FrameReader::new(most) }
    }

    /// Accepts frames of at most `most` bytes from now on.
    pub(super) fn set_frame_bytes_max(&mut self, most: usize) {
        self.reader.allow(most);
    }

    /// Returns the next frame, or `None` at the end of the stream. Cancel-safe: a partial frame stays in the reader.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, SessionError> {
        loop {
            let count = self.stream.read(self.reader.buffer()).await?;
            if count == 0 && self.reader.is_at_frame_boundary() {
                return Ok(None);
            }
            if count == 0 {
                return Err(SessionError::Malformed);
            }
            if let Some(frame) =
                self.reader.advance(count).map_err(|_error| SessionError::Malformed)?
            {
                return Ok(Some(frame));
            }
        }
    }

    pub(super) async fn send(&mut self, message: &ToClient) -> Result<(), SessionError> {
        let frame = Frame::json(message).map_err(|_error| SessionError::Malformed)?;
        self.send_frame(&frame).await
    }

    pub(super) async fn send_frame(&mut self, frame: &Frame) -> Result<(), SessionError> {
        // Some frames are secrets, so write from a wiped buffer: a codec's own buffer is not wiped.
        self.stream.write_all(&frame.packed()).await?;
        Ok(self.stream.flush().await?)
    }
}
