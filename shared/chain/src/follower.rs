//! One look at the newest block for everybody who waits on a network: at its own pace, and only while
//! somebody waits.

use tokio::sync::watch;

use crate::ports::{Chain, Clock};

/// Tells waiters that another block may have been made.
#[derive(Debug)]
pub struct Follower {
    beats: watch::Sender<u64>,
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
    pub fn new() -> Self {
        Self { beats: watch::Sender::new(0) }
    }

    pub fn waiter(&self) -> Waiter {
        Waiter(self.beats.subscribe())
    }

    /// Looks every `poll_ms` while somebody waits, until it is dropped. A node that does not answer is asked
    /// again at the same pace: its breaker spares it.
    pub async fn run(&self, chain: &dyn Chain, clock: &dyn Clock, poll_ms: u64) {
        while self.beats.receiver_count() > 0 {
            if let Ok(head) = chain.block_number().await {
                // The same number is told once: a waiter that came in between has it from its own look.
                self.beats.send_if_modified(|last| {
                    let other = *last != head;
                    *last = head;
                    other
                });
            }
            clock.sleep_until(clock.mono_ms().saturating_add(poll_ms)).await;
        }
    }
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}
