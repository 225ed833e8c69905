//! Computes the gas price to offer from a node's report and the network's row. Overflow is an error, because a
//! node may report any number.

use alloy_primitives::U256;
use bursar_core::networks::{FeeModel, Gas};

use crate::call::{Call, Fees};

/// A node's report about the newest block and about fees, in wei per unit of gas.
///
/// Each fee model needs some of these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeeFacts {
    /// `baseFeePerGas` of the newest block.
    pub base_fee: Option<u128>,
    /// `eth_maxPriorityFeePerGas`.
    pub tip: Option<u128>,
    /// `eth_gasPrice`.
    pub gas_price: Option<u128>,
    /// The gas limit of a block.
    pub block_gas: Option<u64>,
    /// The number of the newest block.
    pub block: Option<u64>,
}

/// The offer for the current state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeQuote {
    /// A [`Fees::Dynamic`] offer includes a margin for a rising base fee.
    pub fees: Fees,
    /// The expected price in the next block, in wei; a lower offer would only wait.
    pub needed: u128,
}

/// Why no offer can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeeFault {
    #[error("the node did not report the price of gas")]
    Unknown,
    #[error("the node reports an impossibly high price of gas")]
    Implausible,
}

/// Returns the offer that the network's fee model requires.
///
/// # Errors
/// [`FeeFault`] if the node did not report the values that the model needs, or reported nonsense.
pub fn quote(gas: &Gas, facts: &FeeFacts) -> Result<FeeQuote, FeeFault> {
    match gas.model {
        FeeModel::Eip1559 | FeeModel::OpStack => {
            let base = facts.base_fee.ok_or(FeeFault::Unknown)?;
            // A high tip costs the signer money, so follow the node's value only up to the base fee or ten times
            // the row's tip, whichever is higher.
            let tip_max = base.max(gas.tip.saturating_mul(10));
            let tip = facts.tip.unwrap_or(0).min(tip_max).max(gas.tip);
            let needed = base.checked_add(base / 8).and_then(|next| next.checked_add(tip));
            let max_fee = base.checked_mul(2).and_then(|twice| twice.checked_add(tip));
            match (needed, max_fee) {
                (Some(needed), Some(max_fee)) => {
                    Ok(FeeQuote { fees: Fees::Dynamic { max_fee, tip }, needed })
                }
                _overflow => Err(FeeFault::Implausible),
            }
        }
        // The sequencer orders transactions by arrival and ignores tips (Arbitrum Nitro).
        FeeModel::Arbitrum => {
            let base = facts.base_fee.ok_or(FeeFault::Unknown)?;
            let max_fee = base.checked_mul(2).ok_or(FeeFault::Implausible)?;
            Ok(FeeQuote { fees: Fees::Dynamic { max_fee, tip: 0 }, needed: base })
        }
        FeeModel::Legacy => {
            let gas_price = facts.gas_price.ok_or(FeeFault::Unknown)?;
            Ok(FeeQuote { fees: Fees::Legacy { gas_price }, needed: gas_price })
        }
        FeeModel::Free => Ok(FeeQuote { fees: Fees::Legacy { gas_price: 0 }, needed: 0 }),
    }
}

/// Returns the offer within a ceiling, in wei, or `None` if the next block requires more.
pub fn offer_within(quote: &FeeQuote, ceiling: u128) -> Option<Fees> {
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

/// Returns the whole ceiling, in wei, as an offer, or `None` if the next block requires more.
///
/// The signer of a type 2 transaction pays only the price of the block. A legacy offer is paid in full, so it stays at
/// the current price.
pub fn offer_whole_ceiling(quote: &FeeQuote, ceiling: u128) -> Option<Fees> {
    Some(match offer_within(quote, ceiling)? {
        Fees::Dynamic { tip, .. } => Fees::Dynamic { max_fee: ceiling, tip },
        legacy @ Fees::Legacy { .. } => legacy,
    })
}

/// Returns the offer that replaces `before` on the same nonce.
///
/// It raises every part by 12.5 %, which every client's mempool accepts as a replacement, or to the current price if
/// that is higher. `None` if the offer would exceed the ceiling, in wei.
pub fn bump(before: &Fees, quote: &FeeQuote, ceiling: u128) -> Option<Fees> {
    let bumped = match (*before, quote.fees) {
        (Fees::Legacy { gas_price }, now) => {
            let raised = raised_by_eighth(gas_price)?;
            Fees::Legacy { gas_price: now.max_price().min(ceiling).max(raised) }
        }
        (Fees::Dynamic { max_fee, tip }, now) => {
            let current_tip = match now {
                Fees::Dynamic { tip, .. } => tip,
                Fees::Legacy { .. } => 0,
            };
            let max_fee = raised_by_eighth(max_fee)?;
            let tip = raised_by_eighth(tip)?;
            // The current price may be higher than necessary; follow it only up to the ceiling.
            let raised_fee = now.max_price().min(ceiling).max(max_fee);
            Fees::Dynamic { max_fee: raised_fee, tip: current_tip.min(raised_fee).max(tip) }
        }
    };
    (bumped.max_price() <= ceiling).then_some(bumped)
}

/// Raises a fee by an eighth, rounded up, and at least 1 wei. Nodes reject a replacement at the same price.
fn raised_by_eighth(fee: u128) -> Option<u128> {
    fee.checked_add(fee.div_ceil(8).max(1))
}

/// Returns the highest possible cost of a call for its signer, in wei, without data fees.
///
/// `None` on overflow.
pub fn max_cost(call: &Call, fees: &Fees) -> Option<U256> {
    let gas = U256::from(call.gas_limit).checked_mul(U256::from(fees.max_price()))?;
    gas.checked_add(call.value)
}

/// Returns the gas limit for a batch of calls (Multicall3 `aggregate3`).
///
/// `None` on overflow.
///
/// `each` is the gas of each call in a separate simulation. Half of it is added, because a call costs more if no
/// earlier transaction touched the same state. `eth_estimateGas` does not work here: each call may fail alone, so the
/// node accepts a limit at which the outer call succeeds while inner calls run out of gas.
pub fn batch_gas(each: &[u64]) -> Option<u64> {
    const BATCH_BASE_GAS: u64 = 60_000;
    /// Minimum gas for one call: a transfer by authorization needs this much, whatever the simulation reports.
    const CALL_GAS_MIN: u64 = 130_000;
    each.iter().try_fold(BATCH_BASE_GAS, |sum, used| {
        let room = used.checked_add(used / 2)?.max(CALL_GAS_MIN);
        // A call receives at most 63/64 of the remaining gas (EIP-150).
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
        assert_eq!(quote(&gas(FeeModel::Eip1559), &absurd), Err(FeeFault::Implausible));
        assert_eq!(quote(&gas(FeeModel::Arbitrum), &absurd), Err(FeeFault::Implausible));
    }

    #[test]
    fn an_offer_stays_within_its_ceiling() {
        let quote = FeeQuote { fees: Fees::Dynamic { max_fee: 165, tip: 5 }, needed: 95 };
        assert_eq!(offer_within(&quote, 1000), Some(quote.fees));
        assert_eq!(offer_within(&quote, 100), Some(Fees::Dynamic { max_fee: 100, tip: 5 }));
        assert_eq!(offer_within(&quote, 94), None);
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
    fn a_batch_has_gas_for_each_call_whatever_the_estimate() {
        // With `eth_estimateGas` as the limit (66,600 gas for one call, 138,843 for two), three of six runs settled
        // too few payments.
        assert!(batch_gas(&[1]).unwrap() > 66_600 + 100_000);
        assert!(batch_gas(&[1, 1]).unwrap() > 138_843 + 100_000);
        assert!(batch_gas(&[400_000]).unwrap() > 600_000);
        assert_eq!(batch_gas(&[u64::MAX]), None);
    }
}
