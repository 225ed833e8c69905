//! Reports whether the kernel accepted all bytes of a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// The sending end of a delivery report, to be put into `response.extensions_mut()`.
///
/// All clones share one report. It needs a mutex because extensions must be `Clone`, and a oneshot sender is not.
#[derive(Debug, Clone)]
pub struct DeliverySender(Arc<Mutex<Option<oneshot::Sender<bool>>>>);

/// Resolves once a response was delivered or can no longer be.
///
/// It resolves to `true` if the last byte of head and body was written and flushed to the kernel. The peer may still
/// fail to read bytes that the kernel holds. It resolves to `false` if the connection ended earlier, or if no
/// connection ever got the response.
#[derive(Debug)]
pub struct DeliveryReport(oneshot::Receiver<bool>);

/// Creates the two ends of a delivery report.
pub fn delivery() -> (DeliverySender, DeliveryReport) {
    let (sender, receiver) = oneshot::channel();
    (DeliverySender(Arc::new(Mutex::new(Some(sender)))), DeliveryReport(receiver))
}

impl DeliverySender {
    /// Reports that all bytes were written.
    pub(super) fn succeed(&self) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            let _nobody_waits = sender.send(true);
        }
    }

    /// Reports that the bytes will not be written, even if clones remain.
    pub(super) fn fail(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Future for DeliveryReport {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(cx).map(|report| report.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_delivery_reports_failure() {
        let (delivery, delivered) = delivery();
        drop((delivery.clone(), delivery));
        assert!(!delivered.await);
    }

    #[tokio::test]
    async fn the_first_delivery_report_wins_even_if_clones_remain() {
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
