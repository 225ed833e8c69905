//! Plans an exit from a Vault V2 by forced deallocations: how much each adapter must give, and the penalty for it.
//!
//! A plain withdrawal reaches only the idle balance and the liquidity adapter. A `forceDeallocate` moves assets of any
//! adapter to the idle balance. Its penalty is a fraction of these assets: the vault burns shares of the owner for
//! them and keeps the assets. So the exit of a whole position of worth `A` moves `A / (1 + penalty)` from adapters,
//! and the owner receives that amount.
//!
//! Source: `forceDeallocate` and `exit` of `VaultV2.sol`. Amounts are in the asset's smallest unit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use alloy_primitives::{Address, U256, uint};

use crate::calls::ForcedPart;
use crate::market::{MarketParams, WAD, mul_div_ceil};
use crate::vault::{FORCE_DEALLOCATE_PENALTY_MAX, force_deallocate_cost};
use crate::venue::VenueId;

/// Maximum number of forced deallocations in one transaction, because of the gas limit of a transaction.
pub const DEALLOCATIONS_MAX: usize = 16;

/// Denominator: a full exit moves a hundred-thousandth more than the position's worth.
///
/// The reserve is for interest that accrues until the transaction is in a block: 15 minutes at 30 % a year.
const FULL_EXIT_MARGIN_DIVISOR: U256 = uint!(100_000_U256);
/// Denominator: the share price may fall by a millionth until the transaction is in a block.
const PRICE_FALL_DIVISOR: U256 = uint!(1_000_000_U256);
/// Maximum number of smallest units by which roundings raise the amount that a withdrawal needs.
const ROUNDING_UNITS_MAX: U256 = uint!(2_U256);

/// An adapter's assets at one payer, and the penalty of their forced deallocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedSource {
    pub adapter: Address,
    /// The market of a market adapter; `None` for an adapter that lends to a MetaMorpho vault.
    pub market: Option<MarketParams>,
    /// The market or the vault to which the adapter lends.
    ///
    /// Several sources can have the same payer.
    pub payer: VenueId,
    /// The adapter's assets at the payer.
    pub supplied: U256,
    /// The adapter's `forceDeallocatePenalty`, with 18 decimals.
    pub penalty_e18: U256,
}

/// The money of a Vault V2 at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VaultFunds {
    /// The assets that a plain withdrawal can pay: the idle balance, and the assets from the liquidity adapter.
    pub plain_withdrawal_max: U256,
    /// The sources that only forced deallocations can reach.
    pub sources: Vec<ForcedSource>,
    /// The free assets of each payer that are not part of `plain_withdrawal_max`.
    ///
    /// A payer without an entry pays nothing.
    pub free_by_payer: BTreeMap<VenueId, U256>,
}

/// One forced deallocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedDeallocation {
    pub source: ForcedSource,
    pub assets: U256,
    /// The penalty: assets that stay in the vault, paid by shares of the owner.
    pub penalty: U256,
}

/// The forced deallocations of one exit, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForcedPlan {
    pub deallocations: Vec<ForcedDeallocation>,
    /// The total of the moved assets.
    pub assets: U256,
    /// The total of the penalties.
    pub penalty: U256,
}

/// Why an exit cannot be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoForcedPlan {
    /// A plain withdrawal can pay the amount.
    NothingMissing,
    /// Adapters cannot give enough now: the largest possible exit is `most`.
    TooLittle { most: U256 },
    /// The position cannot pay both the amount and the penalty: the largest possible exit is `most`.
    PenaltyUnpaid { penalty: U256, most: U256 },
    /// Only adapters with a penalty over 2 % could give enough. The official vault contract allows no such penalty.
    PenaltyTooHigh,
    /// A sum exceeds 256 bits.
    Overflow,
}

/// The amount that a selection of sources must reach.
#[derive(Clone, Copy)]
enum SelectionGoal {
    /// The assets that move.
    Assets(U256),
    /// The assets that move, and their penalties.
    AssetsAndPenalty(U256),
}

impl ForcedPlan {
    /// Returns the parts of its [call](crate::calls::forced_exit).
    pub fn parts(&self) -> Vec<ForcedPart> {
        let part = |taken: &ForcedDeallocation| {
            let ForcedSource { adapter, market, .. } = taken.source;
            ForcedPart { adapter, market, assets: taken.assets }
        };
        self.deallocations.iter().map(part).collect()
    }

    /// Returns the shares to redeem in a full exit, after the penalty's shares are deducted from all `shares`.
    ///
    /// `worth` is the worth of all `shares`. A few more shares are deducted, because the share price may fall until the
    /// transaction is in a block.
    pub fn shares_left(&self, shares: U256, worth: U256) -> Option<U256> {
        if self.penalty.is_zero() {
            return Some(shares);
        }
        let penalty = mul_div_ceil(self.penalty, shares, worth)?;
        let fall = mul_div_ceil(penalty, U256::ONE, PRICE_FALL_DIVISOR)?;
        let unit = mul_div_ceil(U256::ONE, shares, worth)?;
        shares.checked_sub(penalty)?.checked_sub(fall)?.checked_sub(unit)
    }
}

impl VaultFunds {
    /// Plans an exit of exactly `assets` from a position of this worth.
    ///
    /// # Errors
    /// Nothing is missing, adapters cannot give enough, or the position cannot pay the penalty.
    pub fn plan_assets(&self, assets: U256, worth: U256) -> Result<ForcedPlan, NoForcedPlan> {
        let missing = self.amount_to_force(assets)?;
        let plan = self.plan_for_goal(SelectionGoal::Assets(missing))?;
        if plan.assets < missing {
            return Err(self.too_little(SelectionGoal::Assets(missing), worth));
        }
        let both = assets.checked_add(plan.penalty).ok_or(NoForcedPlan::Overflow)?;
        // Each withdrawal rounds its shares up, so at least one unit of worth must remain.
        if !plan.penalty.is_zero() && both >= worth {
            let penalty = plan.penalty;
            return Err(NoForcedPlan::PenaltyUnpaid { penalty, most: self.largest_exit(worth)? });
        }
        Ok(plan)
    }

    /// Plans the exit of a whole position of this worth.
    ///
    /// # Errors
    /// Nothing is missing, or adapters cannot give enough.
    pub fn plan_all(&self, worth: U256) -> Result<ForcedPlan, NoForcedPlan> {
        let missing = self.amount_to_force(worth)?;
        let growth = mul_div_ceil(worth, U256::ONE, FULL_EXIT_MARGIN_DIVISOR);
        let with_growth =
            growth.and_then(|growth| missing.checked_add(growth)?.checked_add(ROUNDING_UNITS_MAX));
        let plan = self.plan_for_goal(SelectionGoal::AssetsAndPenalty(
            with_growth.ok_or(NoForcedPlan::Overflow)?,
        ))?;
        let both = plan.assets.checked_add(plan.penalty).ok_or(NoForcedPlan::Overflow)?;
        if both < missing {
            return Err(self.too_little(SelectionGoal::AssetsAndPenalty(missing), worth));
        }
        Ok(plan)
    }

    fn amount_to_force(&self, assets: U256) -> Result<U256, NoForcedPlan> {
        let missing = assets.saturating_sub(self.plain_withdrawal_max);
        if missing.is_zero() { Err(NoForcedPlan::NothingMissing) } else { Ok(missing) }
    }

    fn too_little(&self, goal: SelectionGoal, worth: U256) -> NoForcedPlan {
        let with_dear = self.choose_sources(goal, U256::MAX);
        let reaches = |plan: ForcedPlan| match goal {
            SelectionGoal::Assets(goal) => plan.assets >= goal,
            SelectionGoal::AssetsAndPenalty(goal) => {
                plan.assets.saturating_add(plan.penalty) >= goal
            }
        };
        if with_dear.is_some_and(reaches) {
            return NoForcedPlan::PenaltyTooHigh;
        }
        self.largest_exit(worth).map_or_else(|fault| fault, |most| NoForcedPlan::TooLittle { most })
    }

    /// Returns the largest amount that a position of this worth can pay out, after penalties.
    fn largest_exit(&self, worth: U256) -> Result<U256, NoForcedPlan> {
        let missing = worth.saturating_sub(self.plain_withdrawal_max);
        let plan = self.plan_for_goal(SelectionGoal::AssetsAndPenalty(missing))?;
        let both = plan.assets.checked_add(plan.penalty).ok_or(NoForcedPlan::Overflow)?;
        if both >= missing {
            return Ok(worth.saturating_sub(plan.penalty));
        }
        self.plain_withdrawal_max.checked_add(plan.assets).ok_or(NoForcedPlan::Overflow)
    }

    fn plan_for_goal(&self, goal: SelectionGoal) -> Result<ForcedPlan, NoForcedPlan> {
        self.choose_sources(goal, FORCE_DEALLOCATE_PENALTY_MAX).ok_or(NoForcedPlan::Overflow)
    }

    /// Takes from the source with the lowest penalty first; at equal penalties, from the source that can give most.
    /// The plan may miss the goal. Returns `None` if a sum exceeds 256 bits.
    fn choose_sources(&self, goal: SelectionGoal, penalty_max_e18: U256) -> Option<ForcedPlan> {
        let mut free = self.free_by_payer.clone();
        let allowed = self.sources.iter().filter(|one| one.penalty_e18 <= penalty_max_e18);
        let mut sources: Vec<&ForcedSource> = allowed.collect();
        sources.sort_by_key(|one| {
            let most = one.supplied.min(free.get(&one.payer).copied().unwrap_or_default());
            (one.penalty_e18, Reverse(most), one.adapter, one.payer)
        });
        let mut plan = ForcedPlan::default();
        for source in sources {
            let wanted = match goal {
                SelectionGoal::Assets(goal) => goal.saturating_sub(plan.assets),
                SelectionGoal::AssetsAndPenalty(goal) => {
                    let both = plan.assets.checked_add(plan.penalty)?;
                    let left = goal.saturating_sub(both);
                    mul_div_ceil(left, WAD, WAD.checked_add(source.penalty_e18)?)?
                }
            };
            let payer = free.entry(source.payer).or_default();
            let assets = wanted.min(source.supplied).min(*payer);
            if assets.is_zero() || plan.deallocations.len() >= DEALLOCATIONS_MAX {
                continue;
            }
            *payer = payer.checked_sub(assets)?;
            let penalty = penalty_of(assets, source.penalty_e18)?;
            plan.assets = plan.assets.checked_add(assets)?;
            plan.penalty = plan.penalty.checked_add(penalty)?;
            plan.deallocations.push(ForcedDeallocation { source: *source, assets, penalty });
        }
        Some(plan)
    }
}

/// Returns the penalty, even of a source above the maximum penalty, because plans without a maximum use such sources.
fn penalty_of(assets: U256, penalty_e18: U256) -> Option<U256> {
    match force_deallocate_cost(assets, penalty_e18) {
        Some(penalty) => Some(penalty),
        None => mul_div_ceil(assets, penalty_e18, WAD),
    }
}

#[cfg(test)]
mod tests;
