//! The framed connection to an engine. Each frame of `bursar_control::wire` follows its length (u32, big-endian).
//! Except in the handshake, the link only decodes frames. It wipes its buffers, which may have held secrets.

mod connect;
mod handshake;
mod socket;

use std::fmt;

use bursar_control::wire::{Frame, FrameReader, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::FRAME_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

/// Any bidirectional stream: a socket, or a pipe inside the process.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to one engine.
pub struct Link {
    stream: Box<dyn Duplex>,
    reader: FrameReader,
}

/// One frame from the engine.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message in JSON.
    Message(ToClient),
    /// A secret that belongs to the reply of command `id`.
    Secret { id: u64, secret: Secret },
}

/// Bytes that are wiped when dropped and that `Debug` does not show.
#[derive(PartialEq, Eq)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    /// Creates a link without a handshake, to an engine in this process.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), reader: FrameReader::new(FRAME_BYTES_MAX) }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Fails if the message is longer than 1 MiB or the connection is lost.
    pub async fn send(&mut self, message: &ToEngine) -> Result<(), Fault> {
        let frame = Frame::json(message).map_err(|error| {
            Fault::because(Code::BadInput, "The command cannot be sent.").with_detail(error)
        })?;
        self.write(&frame).await
    }

    /// Answers a prompt of command `id` with a secret.
    ///
    /// # Errors
    /// Fails if the secret is longer than 1 MiB or the connection is lost.
    pub async fn send_secret(&mut self, id: u64, secret: Secret) -> Result<(), Fault> {
        self.write(&Frame::Secret { id, bytes: secret.0 }).await
    }

    async fn write(&mut self, frame: &Frame) -> Result<(), Fault> {
        let bytes = frame.packed();
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(Fault::because(Code::BadInput, "The command is longer than 1 MiB."));
        }
        self.stream.write_all(&bytes).await.map_err(connection_lost)?;
        self.stream.flush().await.map_err(connection_lost)
    }

    /// Returns the next frame.
    ///
    /// Cancel-safe: a partial frame remains in the reader.
    ///
    /// # Errors
    /// Fails if the connection is lost or the frame is invalid.
    pub async fn receive(&mut self) -> Result<Received, Fault> {
        loop {
            let count = self.stream.read(self.reader.buffer()).await.map_err(connection_lost)?;
            if count == 0 {
                return Err(connection_lost("end of stream"));
            }
            match self.reader.advance(count).map_err(|_malformed| not_understood())? {
                None => {}
                Some(Frame::Secret { id, bytes }) => {
                    return Ok(Received::Secret { id, secret: Secret(bytes) });
                }
                Some(json @ Frame::Json(_)) => {
                    return json
                        .message()
                        .map(Received::Message)
                        .map_err(|_unknown| not_understood());
                }
            }
        }
    }
}

/// Returns the fault of a connection that ended before the answer. The message warns that the command may have run;
/// the cause is only a detail.
fn connection_lost(cause: impl fmt::Display) -> Fault {
    let message = "The connection to the engine was lost before it answered, so the command may have run: \
         check with `bursar status`.";
    Fault::because(Code::EngineDown, message).with_detail(cause)
}

fn not_understood() -> Fault {
    let message = "This program does not understand the engine's answer: restart the engine, so that both \
         have the same version.";
    Fault::because(Code::VersionMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::grammar::Order;
    use bursar_control::wire::Asking;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn frames_travel_as_length_kind_and_body() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let mut link = Link::over(ours);
        link.send_secret(7, Secret(Zeroizing::new(b"hunter2!".to_vec()))).await.unwrap();
        let mut seen = [0; 21];
        theirs.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen[..5], &[0, 0, 0, 17, 1]);
        assert_eq!(&seen[5..], b"\0\0\0\0\0\0\0\x07hunter2!");

        let order = Box::new(Order::Freeze);
        link.send(&ToEngine::Run { id: 1, order, asking: Asking::Silent }).await.unwrap();
        let length = theirs.read_u32().await.unwrap();
        let mut body = vec![0; usize::try_from(length).unwrap()];
        theirs.read_exact(&mut body).await.unwrap();
        let text = r#"{"frame":"run","id":1,"order":"freeze","asking":"silent"}"#;
        assert_eq!(String::from_utf8_lossy(&body[1..]), text);
    }

    #[tokio::test]
    async fn an_oversized_malformed_or_missing_frame_is_a_fault() {
        for (bytes, code) in [
            (&b"\xff\xff\xff\xff"[..], Code::VersionMismatch),
            (b"\0\0\0\x02", Code::EngineDown),
            (b"", Code::EngineDown),
            (b"\0\0\0\x01\x09", Code::VersionMismatch),
            (b"\0\0\0\x03\0{}", Code::VersionMismatch),
        ] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            theirs.write_all(bytes).await.unwrap();
            drop(theirs);
            let fault = Link::over(ours).receive().await.unwrap_err();
            assert_eq!(fault.code, code, "{bytes:?}");
        }
    }

    #[test]
    fn a_received_secret_shows_nothing() {
        let secret = Secret(Zeroizing::new(b"hunter2!".to_vec()));
        let received = Received::Secret { id: 1, secret };
        assert_eq!(format!("{received:?}"), "Secret { id: 1, secret: Secret(…) }");
    }
}
