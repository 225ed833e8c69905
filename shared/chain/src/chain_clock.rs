//! Compares this machine's clock with the block timestamps of a chain.

use bursar_core::limits::{CHAIN_IDLE_AFTER_MS, CLOCK_OFF_CHAIN_MS_MAX, CLOCK_OFF_CHAIN_WARN_MS};

use crate::ports::{Chain, ChainFault, Clock};

/// Returns by how many milliseconds our clock is ahead of the newest block, or `None` if the chain is idle.
///
/// If the newest block seems old, the function waits [`CHAIN_IDLE_AFTER_MS`] for another block, because an idle chain
/// proves nothing about the clock.
///
/// # Errors
/// No node answers.
pub async fn clock_lead_ms(
    chain: &dyn Chain,
    clock: &dyn Clock,
) -> Result<Option<i64>, ChainFault> {
    let first = chain.block_time().await?;
    let now = clock.now();
    let apart = now.utc.since_ms(first);
    if apart <= CLOCK_OFF_CHAIN_WARN_MS {
        return Ok(Some(apart));
    }
    clock.sleep_until(now.mono_ms.saturating_add(CHAIN_IDLE_AFTER_MS)).await;
    let second = chain.block_time().await?;
    Ok((second > first).then(|| clock.utc().since_ms(second)))
}

/// Returns whether a clock that is this far ahead is too wrong to use; a negative value means behind.
///
/// A wrong clock matters because it decides which authorizations are valid.
pub fn is_wrong(ahead_ms: i64) -> bool {
    ahead_ms.saturating_abs() > CLOCK_OFF_CHAIN_MS_MAX
}
