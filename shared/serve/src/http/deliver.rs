//! Whether the kernel accepted all bytes of a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// Put into `response.extensions_mut()`: the connection reports through it.
///
/// One report comes of all clones. A mutex and not a channel of its own: extensions must be `Clone`, and a sender of one
/// report is not.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Mutex<Option<oneshot::Sender<bool>>>>);

/// Resolves when the fate of a response is known.
///
/// `true`: the last byte of head and body was written and flushed to the kernel. `false`: the connection ended before
/// that, or no connection ever got the response. The peer may still fail to read what the kernel holds.
#[derive(Debug)]
pub struct Delivered(oneshot::Receiver<bool>);

/// The two ends of one report.
pub fn delivery() -> (Delivery, Delivered) {
    let (sender, receiver) = oneshot::channel();
    (Delivery(Arc::new(Mutex::new(Some(sender)))), Delivered(receiver))
}

impl Delivery {
    /// Reports that all bytes were written.
    pub(super) fn succeed(&self) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            let _nobody_waits = sender.send(true);
        }
    }

    /// Reports that they will not be, although clones may remain.
    pub(super) fn fail(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Future for Delivered {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(cx).map(|report| report.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delivery_that_no_connection_got_is_not_delivered() {
        let (delivery, delivered) = delivery();
        drop((delivery.clone(), delivery));
        assert!(!delivered.await);
    }

    #[tokio::test]
    async fn the_first_report_counts_whatever_clones_remain() {
        let (first, delivered) = delivery();
        let clone = first.clone();
        clone.succeed();
        first.fail();
        assert!(delivered.await);
        let (first, delivered) = delivery();
        let _clone = first.clone();
        first.fail();
        assert!(!delivered.await);
    }
}
