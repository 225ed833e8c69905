//! Penalties for payers who cause unpaid upstream calls. A payment can verify and then fail to settle, and a customer
//! can craft a request whose answer fails. The seller pays for both, so each payer gets a limited number of such
//! failures.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;

/// Failures per window after which a payer is locked out.
const FAILURES_MAX: u32 = 10;
/// Length of the window, which starts at a payer's first failure.
const WINDOW_MS: u64 = 10 * 60 * 1_000;
/// Maximum number of tracked payers. One more clears the map; an attacker needs a funded account for each.
const PAYERS_MAX: usize = 65_536;

/// Recent failures by payer. Not persisted, because a window lasts only minutes.
#[derive(Debug, Default)]
pub struct PayerPenalties {
    // Held for a single lookup.
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

    /// Whether the payer is locked out.
    pub fn is_locked_out(&self, payer: Address, now_ms: u64) -> bool {
        let payers = self.payers.lock().unwrap_or_else(PoisonError::into_inner);
        payers.get(&payer).is_some_and(|(since, count)| {
            *count >= FAILURES_MAX && now_ms.saturating_sub(*since) < WINDOW_MS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_penalized_payer_is_locked_out_until_the_window_ends() {
        let (penalties, payer) = (PayerPenalties::default(), Address::repeat_byte(1));
        for n in 0..FAILURES_MAX {
            assert!(!penalties.is_locked_out(payer, 100), "{n}");
            penalties.add(payer, 100);
        }
        assert!(penalties.is_locked_out(payer, 100 + WINDOW_MS - 1));
        assert!(!penalties.is_locked_out(Address::repeat_byte(2), 100));
        assert!(!penalties.is_locked_out(payer, 100 + WINDOW_MS));
        penalties.add(payer, 100 + WINDOW_MS);
        assert!(!penalties.is_locked_out(payer, 100 + WINDOW_MS), "a new window starts");
    }
}
