//! What a transaction should offer for gas, from what a node says and what the network's row allows.
//! Integer arithmetic that overflows is a fault: a node may say anything.

use alloy_primitives::U256;
use bursar_core::networks::{FeeModel, Gas};

use crate::call::{Call, Fees};

/// What a node says about fees, in wei a unit of gas. Models need different ones of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeeFacts {
    /// `baseFeePerGas` of the newest block.
    pub base_fee: Option<u128>,
    /// `eth_maxPriorityFeePerGas`.
    pub tip: Option<u128>,
    /// `eth_gasPrice`.
    pub gas_price: Option<u128>,
    /// The gas of all transactions of a block together, at most.
    pub block_gas: Option<u64>,
    /// The number of the newest block.
    pub block: Option<u64>,
}

/// What to offer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeQuote {
    /// With room for the base fee to rise.
    pub fees: Fees,
    /// What the next block is expected to want: an offer below it would only wait.
    pub needed: u128,
}

/// Why there is no offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeeFault {
    #[error("the node did not report the price of gas")]
    Unknown,
    #[error("the node reports an impossibly high price of gas")]
    Absurd,
}

/// The offer of a network's fee model.
///
/// # Errors
/// [`FeeFault`] where the node left out what the model needs, or said nonsense.
pub fn quote(gas: &Gas, facts: &FeeFacts) -> Result<FeeQuote, FeeFault> {
    match gas.model {
        FeeModel::Eip1559 | FeeModel::OpStack => {
            let base = facts.base_fee.ok_or(FeeFault::Unknown)?;
            // A tip is really paid: a node's idea of it is followed up to the base fee, or ten times the row's.
            let most = base.max(gas.tip.saturating_mul(10));
            let tip = facts.tip.unwrap_or(0).min(most).max(gas.tip);
            let needed = base.checked_add(base / 8).and_then(|next| next.checked_add(tip));
            let max_fee = base.checked_mul(2).and_then(|twice| twice.checked_add(tip));
            match (needed, max_fee) {
                (Some(needed), Some(max_fee)) => {
                    Ok(FeeQuote { fees: Fees::Dynamic { max_fee, tip }, needed })
                }
                _overflow => Err(FeeFault::Absurd),
            }
        }
        // The sequencer takes transactions as they come and ignores tips (Arbitrum Nitro).
        FeeModel::Arbitrum => {
            let base = facts.base_fee.ok_or(FeeFault::Unknown)?;
            let max_fee = base.checked_mul(2).ok_or(FeeFault::Absurd)?;
            Ok(FeeQuote { fees: Fees::Dynamic { max_fee, tip: 0 }, needed: base })
        }
        FeeModel::Legacy => {
            let gas_price = facts.gas_price.ok_or(FeeFault::Unknown)?;
            Ok(FeeQuote { fees: Fees::Legacy { gas_price }, needed: gas_price })
        }
        FeeModel::Free => Ok(FeeQuote { fees: Fees::Legacy { gas_price: 0 }, needed: 0 }),
    }
}

/// The offer within a ceiling; `None` where the ceiling is below what the next block wants.
pub fn within(quote: &FeeQuote, ceiling: u128) -> Option<Fees> {
    if quote.needed > ceiling {
        return None;
    }
    Some(match quote.fees {
        Fees::Legacy { gas_price } => Fees::Legacy { gas_price },
        Fees::Dynamic { max_fee, tip } => {
            let max_fee = max_fee.min(ceiling);
            Fees::Dynamic { max_fee, tip: tip.min(max_fee) }
        }
    })
}

/// What replaces an offer on the same nonce: 12.5 % more in every part, which every client's mempool
/// takes for a replacement, or what is asked now if that is more. `None` above the ceiling.
pub fn bump(before: &Fees, quote: &FeeQuote, ceiling: u128) -> Option<Fees> {
    let bumped = match (*before, quote.fees) {
        (Fees::Legacy { gas_price }, now) => {
            let raised = raised(gas_price)?;
            Fees::Legacy { gas_price: now.most().min(ceiling).max(raised) }
        }
        (Fees::Dynamic { max_fee, tip }, now) => {
            let asked_tip = match now {
                Fees::Dynamic { tip, .. } => tip,
                Fees::Legacy { .. } => 0,
            };
            let max_fee = raised(max_fee)?;
            let tip = raised(tip)?;
            // What is asked now may be above the ceiling without need: it is followed up to there.
            let wished = now.most().min(ceiling).max(max_fee);
            Fees::Dynamic { max_fee: wished, tip: asked_tip.min(wished).max(tip) }
        }
    };
    (bumped.most() <= ceiling).then_some(bumped)
}

/// An eighth more, rounded up, and at least 1 wei: a replacement of nothing by nothing is refused.
fn raised(fee: u128) -> Option<u128> {
    fee.checked_add(fee.div_ceil(8).max(1))
}

/// The most a call can cost its signer, fees of a data layer apart. `None` on overflow.
pub fn most_cost(call: &Call, fees: &Fees) -> Option<U256> {
    let gas = U256::from(call.gas_limit).checked_mul(U256::from(fees.most()))?;
    gas.checked_add(call.value)
}

/// Gas for a batch of calls that are each allowed to fail (Multicall3 `aggregate3`): never
/// `eth_estimateGas`, whose search ends at a limit at which the outer call succeeds while inner ones ran
/// out of gas. `each` is what one call used where it was simulated alone; its half is added, because
/// the same call costs more in a block in which others touched less before it.
pub fn batch_gas(each: &[u64]) -> Option<u64> {
    const BASE: u64 = 60_000;
    /// What a transfer by authorization is known to need, whatever a simulation said.
    const FLOOR: u64 = 130_000;
    each.iter().try_fold(BASE, |sum, used| {
        let room = used.checked_add(used / 2)?.max(FLOOR);
        // A call gets 63/64 of the gas that is left (EIP-150).
        sum.checked_add(room)?.checked_add(room / 63)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gas(model: FeeModel) -> Gas {
        Gas { model, tip: 3, ..bursar_core::networks::NETWORKS[0].gas }
    }

    #[test]
    fn each_model_uses_its_own_facts() {
        let facts = FeeFacts {
            base_fee: Some(80),
            tip: Some(5),
            gas_price: Some(7),
            ..FeeFacts::default()
        };
        let dynamic = |max_fee, tip| Fees::Dynamic { max_fee, tip };
        for (model, fees, needed) in [
            (FeeModel::Eip1559, dynamic(165, 5), 95),
            (FeeModel::OpStack, dynamic(165, 5), 95),
            (FeeModel::Arbitrum, dynamic(160, 0), 80),
            (FeeModel::Legacy, Fees::Legacy { gas_price: 7 }, 7),
            (FeeModel::Free, Fees::Legacy { gas_price: 0 }, 0),
        ] {
            assert_eq!(quote(&gas(model), &facts), Ok(FeeQuote { fees, needed }), "{model:?}");
        }
        let silent = FeeFacts::default();
        for model in [FeeModel::Eip1559, FeeModel::OpStack, FeeModel::Arbitrum, FeeModel::Legacy] {
            assert_eq!(quote(&gas(model), &silent), Err(FeeFault::Unknown), "{model:?}");
        }
        let absurd = FeeFacts { base_fee: Some(u128::MAX), ..facts };
        assert_eq!(quote(&gas(FeeModel::Eip1559), &absurd), Err(FeeFault::Absurd));
        assert_eq!(quote(&gas(FeeModel::Arbitrum), &absurd), Err(FeeFault::Absurd));
    }

    #[test]
    fn an_offer_keeps_below_its_ceiling_or_is_not_made() {
        let asked = FeeQuote { fees: Fees::Dynamic { max_fee: 165, tip: 5 }, needed: 95 };
        assert_eq!(within(&asked, 1000), Some(asked.fees));
        assert_eq!(within(&asked, 100), Some(Fees::Dynamic { max_fee: 100, tip: 5 }));
        assert_eq!(within(&asked, 94), None);
    }

    #[test]
    fn a_replacement_offers_an_eighth_more_in_every_part() {
        let quiet = FeeQuote { fees: Fees::Dynamic { max_fee: 0, tip: 0 }, needed: 0 };
        let from = |max_fee, tip| Fees::Dynamic { max_fee, tip };
        assert_eq!(bump(&from(100, 7), &quiet, 1000), Some(from(113, 8)));
        assert_eq!(bump(&from(8, 0), &quiet, 1000), Some(from(9, 1)), "a tip of nothing rises too");
        assert_eq!(bump(&from(100, 7), &quiet, 112), None, "never above the ceiling");
        let busy = FeeQuote { fees: from(500, 9), needed: 400 };
        assert_eq!(bump(&from(100, 7), &busy, 1000), Some(from(500, 9)));
        assert_eq!(bump(&from(100, 7), &busy, 300), Some(from(300, 9)), "as far as the ceiling");
        let legacy = Fees::Legacy { gas_price: 100 };
        assert_eq!(bump(&legacy, &quiet, 1000), Some(Fees::Legacy { gas_price: 113 }));
        assert_eq!(bump(&Fees::Legacy { gas_price: u128::MAX }, &quiet, u128::MAX), None);
    }

    #[test]
    fn a_batch_has_gas_for_each_of_its_calls_whatever_was_estimated() {
        // Three of six runs with an estimate of 66,600 for one and 138,843 for two paid too few.
        assert!(batch_gas(&[1]).unwrap() > 66_600 + 100_000);
        assert!(batch_gas(&[1, 1]).unwrap() > 138_843 + 100_000);
        assert!(batch_gas(&[400_000]).unwrap() > 600_000);
        assert_eq!(batch_gas(&[u64::MAX]), None);
    }
}
