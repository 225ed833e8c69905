//! Who makes the upstream work in vain: a payment that is good when it is verified can be worthless when it is
//! settled, and an answer can be made to fail. That costs the seller, so a payer may do it a few times.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;

/// How often in a while.
const MOST: u32 = 10;
/// Counted from the first.
const WHILE_MS: u64 = 10 * 60 * 1_000;
/// Payers that are told apart. When there are more, all are forgotten: each needs money of its own.
const PAYERS_MAX: usize = 65_536;

/// What payers did in vain. Not on disk: it is about minutes.
#[derive(Debug, Default)]
pub struct Strikes {
    // Held for one look-up.
    payers: Mutex<HashMap<Address, (u64, u32)>>,
}

impl Strikes {
    pub fn add(&self, payer: Address, now_ms: u64) {
        let mut payers = self.payers.lock().unwrap_or_else(PoisonError::into_inner);
        if payers.len() >= PAYERS_MAX && !payers.contains_key(&payer) {
            payers.clear();
        }
        let (since, count) = payers.entry(payer).or_insert((now_ms, 0));
        if now_ms.saturating_sub(*since) >= WHILE_MS {
            (*since, *count) = (now_ms, 0);
        }
        *count = count.saturating_add(1);
    }

    /// Whether a payer has to wait.
    pub fn is_out(&self, payer: Address, now_ms: u64) -> bool {
        let payers = self.payers.lock().unwrap_or_else(PoisonError::into_inner);
        payers.get(&payer).is_some_and(|(since, count)| {
            *count >= MOST && now_ms.saturating_sub(*since) < WHILE_MS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payer_is_out_for_a_while_and_nobody_else_is() {
        let (strikes, payer) = (Strikes::default(), Address::repeat_byte(1));
        for n in 0..MOST {
            assert!(!strikes.is_out(payer, 100), "{n}");
            strikes.add(payer, 100);
        }
        assert!(strikes.is_out(payer, 100 + WHILE_MS - 1));
        assert!(!strikes.is_out(Address::repeat_byte(2), 100));
        assert!(!strikes.is_out(payer, 100 + WHILE_MS));
        strikes.add(payer, 100 + WHILE_MS);
        assert!(!strikes.is_out(payer, 100 + WHILE_MS), "it begins anew");
    }
}
