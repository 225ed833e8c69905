//! Polls for the newest block once on behalf of all waiters of a network.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use crate::ports::{Chain, Clock};

/// Notifies waiters of new blocks.
#[derive(Debug, Default)]
pub struct Follower {
    head: watch::Sender<u64>,
    /// The lock of the caller that polls for all callers. When this caller stops, the next caller in the queue takes
    /// over.
    poller: Mutex<()>,
}

/// A subscription to new blocks.
#[derive(Debug)]
pub struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Waits for a new block; returns `false` once the follower has ended.
    ///
    /// A block is new if it differs from the newest block at the last call. Cancel-safe.
    pub async fn next_block(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Follower {
    /// Returns a subscription that starts at the current block.
    pub fn waiter(&self) -> Waiter {
        Waiter(self.head.subscribe())
    }

    /// Polls the chain for all waiters, or waits for its turn to do so; never completes.
    ///
    /// The pause between polls is `poll_ms` milliseconds.
    ///
    /// Every waiter runs this concurrently, and one of them polls. A failing node does not change the interval: the
    /// endpoint's breaker limits the load. Calls `chain` again for each poll, because endpoints change.
    pub async fn run(
        &self,
        chain: impl Fn() -> Option<Arc<dyn Chain>>,
        clock: &dyn Clock,
        poll_ms: u64,
    ) {
        let _poller = self.poller.lock().await;
        loop {
            if let Some(chain) = chain()
                && let Ok(head) = chain.block_number().await
            {
                self.head.send_if_modified(|last| {
                    let changed = *last != head;
                    *last = head;
                    changed
                });
            }
            clock.sleep_until(clock.mono_ms().saturating_add(poll_ms)).await;
        }
    }
}
