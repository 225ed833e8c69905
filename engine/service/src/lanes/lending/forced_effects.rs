//! Checks the rehearsal of a forced exit: the assets arrive, the shares that leave are worth no more than the amount
//! and the penalty, and no other balance or allowance of the paying address changes.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::Log;
use bursar_chain::simulate::{Simulation, SimulationMethod};
use bursar_core::codes::Code;
use bursar_domain::Refusal;
use bursar_morpho::{VenueId, fill};

use super::foreign::AllowedChanges;
use super::rehearse::failure;

/// The permitted deviation of a rehearsal: one part in this many. The expected amounts use the prices of the previous
/// block.
const DEVIATION_DIVISOR: U256 = alloy_primitives::uint!(1_000_U256);

/// The effects that a forced exit must have, from the state of the block at which it was planned. Amounts are in the
/// stablecoin's smallest unit.
pub(super) struct ExpectedEffects {
    pub(super) owner: Address,
    pub(super) vault: Address,
    pub(super) singleton: Address,
    pub(super) allowed_changes: AllowedChanges,
    /// The assets that must arrive; `None` for a full exit.
    pub(super) assets: Option<U256>,
    pub(super) penalty: U256,
    /// The owner's balance of the stablecoin before the exit.
    pub(super) coins: U256,
    /// The vault's allowance for the owner's stablecoins before the exit.
    pub(super) allowance: U256,
    /// The owner's shares before the exit.
    pub(super) shares: U256,
    /// The value of the owner's shares.
    pub(super) worth: U256,
}

/// The assets that the owner receives in an exit, and the shares that it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outflow {
    /// The assets that arrive.
    pub(super) assets: U256,
    /// The shares that leave the owner, including those for the penalty.
    pub(super) shares: U256,
}

impl ExpectedEffects {
    /// Checks a simulation that ends with three reads: the owner's stablecoins, the vault's allowance, and the owner's
    /// shares.
    ///
    /// # Errors
    /// `WOULD_FAIL` or `INSUFFICIENT_LIQUIDITY` if the transaction fails or has other effects; `CHAIN_UNAVAILABLE` if
    /// no node can show the state after it.
    pub(super) fn check(&self, simulated: &Simulation) -> Result<Outflow, Refusal> {
        if let Some((_at, failed)) = simulated.failure() {
            return Err(failure(&failed.data));
        }
        let Some(reads) = &simulated.reads else {
            let message = "No node can simulate this withdrawal: see `doctor`.";
            return Err(Refusal::because(Code::ChainUnavailable, message));
        };
        let number = |at: usize| {
            let read = reads.get(at).filter(|read| read.ok && read.data.len() == 32);
            read.map(|read| U256::from_be_slice(&read.data))
        };
        let (Some(coins), Some(allowance), Some(held)) = (number(0), number(1), number(2)) else {
            return Err(mismatch("the stablecoin or the vault gives no valid answer"));
        };
        let assets = coins.checked_sub(self.coins).filter(|assets| !assets.is_zero());
        let assets = assets.ok_or_else(|| mismatch("nothing arrives"))?;
        let shares = self.shares.checked_sub(held).ok_or_else(|| mismatch("shares arrive"))?;
        if allowance != self.allowance {
            return Err(mismatch("an allowance changes"));
        }
        let left = Outflow { assets, shares };
        self.check_price(left)?;
        // The other simulation methods show no events.
        if simulated.method == SimulationMethod::SimulateV1 {
            let calls = simulated.calls.iter().flatten();
            let logs: Vec<&Log> = calls.clone().flat_map(|call| &call.logs).collect();
            self.check_logs(&logs, left)?;
            let mut moves = calls.flat_map(|call| &call.native_transfers);
            let ours = |account: Address| account == self.owner;
            if moves.any(|one| (ours(one.from) || ours(one.to)) && !one.value.is_zero()) {
                return Err(mismatch("the native coin moves"));
            }
        }
        Ok(left)
    }

    /// Checks that the right amount arrives, and that the shares that leave are worth no more than that amount and
    /// the penalty.
    fn check_price(&self, left: Outflow) -> Result<(), Refusal> {
        if self.assets.is_some_and(|assets| left.assets != assets) {
            return Err(mismatch("the amount that arrives is not the withdrawn amount"));
        }
        let unpriced = || mismatch("the shares have no price");
        let product = left.shares.checked_mul(self.worth);
        let priced = product.and_then(|product| product.checked_div(self.shares));
        let priced = priced.ok_or_else(unpriced)?;
        let paid = left.assets.checked_add(self.penalty).ok_or_else(unpriced)?;
        let deviation = priced.div_ceil(DEVIATION_DIVISOR);
        if paid.saturating_add(deviation) < priced {
            return Err(mismatch("more shares leave than the amount and the penalty are worth"));
        }
        Ok(())
    }

    /// Checks in the events that the penalty is as expected, and that no other balance or allowance of the owner
    /// changes.
    fn check_logs(&self, logs: &[&Log], left: Outflow) -> Result<(), Refusal> {
        if logs.iter().any(|log| self.allowed_changes.is_foreign(log)) {
            return Err(mismatch("another token or allowance of the paying address changes"));
        }
        let log = |log: &&Log| fill::Log {
            address: log.address,
            topics: log.topics.clone(),
            data: log.data.clone(),
        };
        let logs: Vec<fill::Log> = logs.iter().map(log).collect();
        let penalty = fill::penalty_amounts(self.vault, self.owner, &logs);
        let penalty = penalty.filter(|penalty| penalty.assets == self.penalty);
        let penalty =
            penalty.ok_or_else(|| mismatch("the penalty differs from the expected one"))?;
        let venue = VenueId::Vault(self.vault);
        let paid = fill::withdrawn_amounts(self.singleton, &venue, self.owner, &logs);
        let paid = paid.filter(|paid| paid.assets == left.assets);
        let paid =
            paid.ok_or_else(|| mismatch("the amount paid out is not the amount that arrives"))?;
        if penalty.shares.checked_add(paid.shares) != Some(left.shares) {
            return Err(mismatch("the number of shares that leave is not the number given back"));
        }
        Ok(())
    }
}

fn mismatch(what: &str) -> Refusal {
    let message = format!("The transaction would have unexpected effects: {what}.");
    Refusal::because(Code::WouldFail, message)
}

#[cfg(test)]
mod tests;
