//! Penalties for payers who cause unpaid upstream calls. A payment can pass verification and then fail to settle, and a
//! customer can request an answer that takes too long. In both cases the seller bears the cost, so each payer gets a
//! limited number of such failures. Failures of the upstream and the facilitator do not count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;

/// Failures per window after which a payer is locked out.
const FAILURES_MAX: u32 = 10;
/// Length of the window, which starts at a payer's first failure.
const WINDOW_MS: u64 = 10 * 60 * 1_000;
/// Maximum number of tracked payers. A further payer clears the map, but an attacker needs a funded account for each
/// payer.
const PAYERS_MAX: usize = 65_536;

/// Recent failures by payer.
///
/// The failures are not persisted, because a window lasts only minutes.
#[derive(Debug, Default)]
pub struct PayerPenalties {
    // The lock is held for a single lookup.
    payers: Mutex<HashMap<Address, (u64, u32)>>,
}

impl PayerPenalties {
    /// Counts a failure of `payer`.
    pub fn add(&self, payer: Address, now_ms: u64) {
        let mut payers = self.payers.lock().unwrap_or_else(PoisonError::into_inner);
        if payers.len() >= PAYERS_MAX && !payers.contains_key(&payer) {
            payers.clear();
        }
        let (since, count) = payers.entry(payer).or_insert((now_ms, 0));
        if now_ms.saturating_sub(*since) >= WINDOW_MS {
            (*since, *count) = (now_ms, 0);
        }
        *count = count.saturating_add(1);
    }

    /// Returns how long the payer is still locked out, in milliseconds, or `None` if it is not.
    pub fn lockout_ms(&self, payer: Address, now_ms: u64) -> Option<u64> {
        let payers = self.payers.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = *payers.get(&payer)?;
        let left = WINDOW_MS.saturating_sub(now_ms.saturating_sub(since));
        (count >= FAILURES_MAX && left > 0).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_penalized_payer_is_locked_out_until_the_window_ends() {
        let (penalties, payer) = (PayerPenalties::default(), Address::repeat_byte(1));
        for n in 0..FAILURES_MAX {
            assert_eq!(penalties.lockout_ms(payer, 100), None, "{n}");
            penalties.add(payer, 100);
        }
        assert_eq!(penalties.lockout_ms(payer, 100), Some(WINDOW_MS));
        assert_eq!(penalties.lockout_ms(payer, 100 + WINDOW_MS - 1), Some(1));
        assert_eq!(penalties.lockout_ms(Address::repeat_byte(2), 100), None);
        assert_eq!(penalties.lockout_ms(payer, 100 + WINDOW_MS), None);
        penalties.add(payer, 100 + WINDOW_MS);
        assert_eq!(penalties.lockout_ms(payer, 100 + WINDOW_MS), None, "a new window starts");
    }
}
