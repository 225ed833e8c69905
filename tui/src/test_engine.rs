//! The engine's end of a link, driven by a test.

use bursar_control::wire::{Frame, ToClient, ToEngine};
use futures::{SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use zeroize::Zeroizing;

use crate::link::Link;

pub(crate) struct TestEngine(Framed<DuplexStream, LengthDelimitedCodec>);

impl TestEngine {
    pub(crate) fn pair() -> (Self, Link) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        (Self(Framed::new(theirs, LengthDelimitedCodec::new())), Link::over(ours))
    }

    pub(crate) async fn send(&mut self, message: &ToClient) {
        self.write(&Frame::json(message).unwrap()).await;
    }

    pub(crate) async fn send_secret(&mut self, id: u64, secret: &str) {
        self.write(&Frame::Secret { id, bytes: Zeroizing::new(secret.into()) }).await;
    }

    async fn write(&mut self, frame: &Frame) {
        // The client may have gone away. The test checks the client's result instead.
        let _gone = self.0.send(Bytes::from(frame.encode().to_vec())).await;
    }

    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        Some(Frame::decode(&self.0.next().await?.unwrap()).unwrap())
    }

    /// Returns the next message, or `None` once the client has gone.
    pub(crate) async fn message(&mut self) -> Option<ToEngine> {
        Some(self.frame().await?.message().unwrap())
    }

    /// Returns the next frame, which must be the secret that answers a prompt of command 1.
    pub(crate) async fn secret(&mut self) -> String {
        match self.frame().await {
            Some(Frame::Secret { id: 1, bytes }) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}
