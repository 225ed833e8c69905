//! The entries of the device queue, and the turns of plans. A plan fixes the terms of its next step only once the
//! device is ready.

use alloy_primitives::Address;
use bursar_core::ids::RequestId;
use bursar_x402::signature::Signature65;
use tokio::sync::{mpsc, oneshot};

use crate::journal::SigningOrder;
use crate::ports::SignFault;

/// An entry of the queue.
#[derive(Debug)]
pub(super) enum Entry {
    Job(Box<Job>),
    Plan(WaitingPlan),
    /// An operator starts a try. The sender is dropped after the try.
    Retry(oneshot::Sender<()>),
}

/// A transaction or permit that waits for its device.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) order: SigningOrder,
    pub(super) answer: oneshot::Sender<Result<Signature65, SignFault>>,
}

/// Gives plans their turns at the devices.
#[derive(Debug, Clone)]
pub(crate) struct Turns(mpsc::Sender<Entry>);

/// A plan that waits for its turn.
#[derive(Debug)]
pub(super) struct WaitingPlan {
    pub(super) request: RequestId,
    pub(super) address: Address,
    pub(super) grant: oneshot::Sender<PlanTurn>,
}

/// The turn of a plan: the queue shows nothing else until the plan's signing order arrives or this value is dropped.
#[derive(Debug)]
pub(crate) struct PlanTurn(oneshot::Sender<()>);

impl Turns {
    pub(super) fn new(queue: mpsc::Sender<Entry>) -> Self {
        Self(queue)
    }

    /// Waits until the device of an address is ready for a plan. `None` if the plan has nothing to sign now, or if the
    /// engine stops.
    pub(crate) async fn take(&self, request: RequestId, address: Address) -> Option<PlanTurn> {
        let (granted, turn) = oneshot::channel();
        let waiting = WaitingPlan { request, address, grant: granted };
        self.0.send(Entry::Plan(waiting)).await.ok()?;
        turn.await.ok()
    }
}

/// Starts tries for an operator.
#[derive(Debug, Clone)]
pub(crate) struct Retries(mpsc::Sender<Entry>);

impl Retries {
    pub(super) fn new(queue: mpsc::Sender<Entry>) -> Self {
        Self(queue)
    }

    /// Starts a try of all waiting entries, and waits until it is over. It also tries a device that is left alone after
    /// a refusal.
    pub(crate) async fn start(&self) {
        let (tried, after) = oneshot::channel();
        // Without a queue, or with a full one, there is no try to wait for.
        if self.0.try_send(Entry::Retry(tried)).is_ok() {
            let _ended = after.await;
        }
    }
}

impl PlanTurn {
    /// Creates a turn. The receiver gets a message if an order follows, and is closed otherwise.
    pub(super) fn new() -> (Self, oneshot::Receiver<()>) {
        let (kept, is_kept) = oneshot::channel();
        (Self(kept), is_kept)
    }

    /// Returns whether the queue has moved on, so that this turn is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.is_closed()
    }

    /// Keeps the turn for the signing order that the outbox makes next.
    pub(crate) fn keep(self) {
        let _gone = self.0.send(());
    }
}
