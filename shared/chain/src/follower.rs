//! One look at the newest block for everybody who waits on a network, at its own pace.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use crate::ports::{Chain, Clock};

/// Tells waiters that another block was made.
#[derive(Debug, Default)]
pub struct Follower {
    head: watch::Sender<u64>,
    /// Held by whoever looks for all. A queue of one: when he goes, the next takes over.
    turn: Mutex<()>,
}

/// One who waits.
#[derive(Debug)]
pub struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Ends when the newest block is another one than at the last call. Cancel-safe. `false` once the
    /// follower has ended.
    pub async fn next_block(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Follower {
    pub fn waiter(&self) -> Waiter {
        Waiter(self.head.subscribe())
    }

    /// Looks every `poll_ms` for all who wait, or waits for its turn to do so, until it is dropped: everybody
    /// who waits runs this beside, and one of them looks. A node that does not answer is asked again at the
    /// same pace: its breaker spares it. `chain` is asked anew each time: endpoints change.
    pub async fn run(
        &self,
        chain: impl Fn() -> Option<Arc<dyn Chain>>,
        clock: &dyn Clock,
        poll_ms: u64,
    ) {
        let _looks = self.turn.lock().await;
        loop {
            if let Some(chain) = chain()
                && let Ok(head) = chain.block_number().await
            {
                self.head.send_if_modified(|last| {
                    let other = *last != head;
                    *last = head;
                    other
                });
            }
            clock.sleep_until(clock.mono_ms().saturating_add(poll_ms)).await;
        }
    }
}
