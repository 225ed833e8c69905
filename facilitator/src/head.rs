//! The newest block of a network. However many requests need it, it is read at most ten times per second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bursar_chain::ports::{Chain, ChainFault, Clock};

/// How long a block counts as the newest, in milliseconds. Shorter than the block time of any network.
const FRESH_MS_MAX: u64 = 100;

/// The newest known block of a network.
#[derive(Debug, Default)]
pub struct Head {
    /// The number of the block, and the monotonic time in milliseconds at which it was requested.
    // The lock is held for a single lookup.
    last_block: Mutex<Option<(u64, u64)>>,
    /// Number of calls of `forget`. If it changes while a node is asked, the node's answer is not stored.
    forget_count: AtomicU64,
    /// Allows one question at a time.
    query_lock: tokio::sync::Mutex<()>,
}

impl Head {
    /// The newest block.
    ///
    /// # Errors
    /// No node answers.
    pub async fn block(&self, chain: &dyn Chain, clock: &dyn Clock) -> Result<u64, ChainFault> {
        if let Some(block) = self.cached_block(clock.mono_ms()) {
            return Ok(block);
        }
        let _one = self.query_lock.lock().await;
        // Another request may have asked the node while this one waited.
        let asked_ms = clock.mono_ms();
        if let Some(block) = self.cached_block(asked_ms) {
            return Ok(block);
        }
        let forgotten = self.forget_count.load(Ordering::Acquire);
        let block = chain.block_number().await?;
        if forgotten != self.forget_count.load(Ordering::Acquire) {
            return Ok(block);
        }
        *self.last_block.lock().unwrap_or_else(PoisonError::into_inner) = Some((block, asked_ms));
        Ok(block)
    }

    /// Forgets the block, because there is a newer one.
    pub fn forget(&self) {
        self.forget_count.fetch_add(1, Ordering::AcqRel);
        *self.last_block.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn cached_block(&self, now_ms: u64) -> Option<u64> {
        let last = *self.last_block.lock().unwrap_or_else(PoisonError::into_inner);
        let (block, at_ms) = last?;
        (now_ms.saturating_sub(at_ms) < FRESH_MS_MAX).then_some(block)
    }
}
