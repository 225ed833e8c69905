//! The transactions of a loan, and their rehearsal: the approval and the supply or withdrawal are simulated in
//! sequence.

use alloy_primitives::{Address, Bytes, U256};
use bursar_chain::multicall::native_balance;
use bursar_chain::ports::{Chain, ReadCall, SimulatedCall};
use bursar_chain::simulate::{Simulation, SimulationMethod, Simulator};
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_domain::effects::Effects;
use bursar_domain::loans::{LoanAsk, LoanSize};
use bursar_domain::plan::StepPurpose;
use bursar_morpho::decode::{Decoded, decode_call};
use bursar_morpho::market::{BorrowRate, Market};
use bursar_morpho::views::{market, vault};
use bursar_morpho::{CallFault, LoanAmount, MarketParams, VenueId, calls, errors};
use bursar_submit::Call;

use super::foreign::AllowedChanges;
use super::network_read::{ReadNetwork, spender};
use super::venue_read::ReadVenue;
use crate::lanes::batch::chain_unavailable;
use crate::lanes::rehearsal::{APPROVAL_GAS, Part, PartKind, Sender};

/// The gas limit of a supply or withdrawal in a rehearsal. The executed step gets a limit from the gas that the
/// rehearsal used.
const LOAN_GAS: u64 = 3_000_000;

/// The input of a rehearsal.
pub(super) struct Rehearsal<'a> {
    pub(super) ask: &'a LoanAsk,
    pub(super) owner: Address,
    pub(super) network: &'a Network,
    pub(super) contracts: &'a Contracts,
    pub(super) own: &'a ReadNetwork,
    pub(super) venue: &'a ReadVenue,
    /// The parameters of the market; `None` for a vault.
    pub(super) params: Option<MarketParams>,
    /// Whether a supply buys an exact number of shares, so that the allowance limits their price.
    pub(super) buys_shares: bool,
}

/// A rehearsed plan.
#[derive(Debug, Clone)]
pub(super) struct LoanPlan {
    /// The parts in their order; the last one is the supply or withdrawal.
    pub(super) parts: Vec<Part>,
    /// The amount that moves, in the stablecoin's smallest unit.
    pub(super) assets: U256,
    pub(super) shares: U256,
    /// For a supply, the amount that its shares redeem for right after the supply.
    pub(super) worth: U256,
    pub(super) effects: Effects,
    pub(super) calls: Vec<Decoded>,
    /// Maximum price to offer for a unit of gas, in wei.
    pub(super) gas_price_max: u128,
    /// The highest possible cost of all steps, in wei.
    pub(super) cost: U256,
    /// The gas that the supply or withdrawal used in the rehearsal.
    pub(super) gas: u64,
}

/// Makes and rehearses the transactions of a loan.
///
/// # Errors
/// The loan would fail or do something else, gas is too expensive, or no node can rehearse it.
pub(super) async fn rehearse(
    chain: &dyn Chain,
    simulator: &Simulator,
    sender: &Sender<'_>,
    rehearsal: &Rehearsal<'_>,
) -> Result<LoanPlan, Refusal> {
    let fees = sender.offer()?;
    let mut parts = rehearsal.parts()?;
    let mut rehearsed = sender.rehearse(chain, simulator, &fees, &parts, rehearsal.reads()).await?;
    if let Some(reset) = rehearsal.reset_step()
        && rehearsed.simulated.failure().is_some_and(|(at, _failed)| at == 0)
    {
        // Some tokens refuse to change an allowance that is not zero.
        parts.insert(0, reset);
        rehearsed = sender.rehearse(chain, simulator, &fees, &parts, rehearsal.reads()).await?;
    }
    if let Some((_at, failed)) = rehearsed.simulated.failure() {
        return Err(failure(&failed.data));
    }
    let shown = rehearsal.check(&rehearsed.simulated, parts.len())?;
    rehearsed.set_gas_limits(&mut parts);
    let ceiling = sender.gas_price_max(&fees);
    let cost = rehearsed.worst_cost(&parts, ceiling)?;
    let calls: Vec<Decoded> = parts.iter().map(|part| rehearsal.decode_call(&part.call)).collect();
    // A call that the operator could not read is not executed without approval.
    let is_known = !calls.iter().any(|call| matches!(call, Decoded::Unknown { .. }));
    let main = rehearsed.simulated.calls.last().and_then(Option::as_ref);
    let gas = main.and_then(|call| call.gas_used).unwrap_or(LOAN_GAS);
    Ok(LoanPlan {
        parts,
        assets: shown.assets,
        shares: shown.shares,
        worth: shown.worth,
        effects: if is_known { shown.effects } else { Effects::Unproven },
        calls,
        gas_price_max: ceiling,
        cost,
        gas,
    })
}

pub(super) fn failure(data: &Bytes) -> Refusal {
    let reason = errors::reason(data);
    if reason.is_retryable() {
        return Refusal::new(Code::InsufficientLiquidity);
    }
    Refusal::because(Code::WouldFail, format!("The transaction would fail: {reason}."))
}

/// The result of simulating a plan.
struct SimulationResult {
    assets: U256,
    shares: U256,
    worth: U256,
    effects: Effects,
}

/// The owner's state after the plan, as the reads show it.
struct StateAfter {
    /// The balance of the stablecoin.
    coins: U256,
    allowance: U256,
    /// Shares in the venue.
    held_shares: U256,
    /// The amount that the previewed shares redeem for.
    worth_of_preview: U256,
}

impl Rehearsal<'_> {
    fn parts(&self) -> Result<Vec<Part>, Refusal> {
        let mut parts = Vec::with_capacity(3);
        let purpose = if self.ask.is_supply() {
            if self.own.allowance != self.venue.assets {
                let call = self.approval(self.venue.assets);
                parts.push(Part { kind: PartKind::Step(StepPurpose::Allowance), call });
            }
            StepPurpose::Supply
        } else {
            StepPurpose::Withdrawal
        };
        parts.push(Part { kind: PartKind::Step(purpose), call: self.loan_call()? });
        Ok(parts)
    }

    fn approval(&self, amount: U256) -> Call {
        Call {
            to: self.network.stablecoin.address,
            value: U256::ZERO,
            data: token::approve_call(spender(self.contracts, self.ask.venue), amount),
            gas_limit: APPROVAL_GAS,
        }
    }

    /// Returns the step that sets an allowance to zero before it is changed; `None` if the allowance is zero or
    /// already right.
    fn reset_step(&self) -> Option<Part> {
        let standing = self.own.allowance;
        let changes = self.ask.is_supply() && !standing.is_zero() && standing != self.venue.assets;
        changes.then(|| Part {
            kind: PartKind::Step(StepPurpose::AllowanceReset),
            call: self.approval(U256::ZERO),
        })
    }

    fn loan_call(&self) -> Result<Call, Refusal> {
        let (assets, shares, owner) = (self.venue.assets, self.venue.shares, self.owner);
        let by_assets = matches!(self.ask.size, LoanSize::Assets(_));
        let data = match (self.ask.venue, self.ask.is_supply()) {
            (VenueId::Vault(_), true) if self.buys_shares => calls::mint(shares, owner),
            (VenueId::Vault(_), true) => calls::deposit(assets, owner),
            (VenueId::Vault(_), false) if by_assets => calls::withdraw(assets, owner),
            // A full exit redeems shares, because a withdrawal by assets could leave some shares.
            (VenueId::Vault(_), false) => calls::redeem(shares, owner),
            (VenueId::Market(_), true) => {
                calls::supply(self.params()?, LoanAmount::Assets(assets), owner)
            }
            (VenueId::Market(_), false) => {
                let amount =
                    if by_assets { LoanAmount::Assets(assets) } else { LoanAmount::Shares(shares) };
                calls::withdraw_from_market(self.params()?, amount, owner)
            }
        };
        let data = data.map_err(|fault: CallFault| {
            Refusal::because(Code::InvalidRequest, format!("This loan cannot be sent: {fault}."))
        })?;
        let to = spender(self.contracts, self.ask.venue);
        Ok(Call { to, value: U256::ZERO, data, gas_limit: LOAN_GAS })
    }

    fn params(&self) -> Result<&MarketParams, Refusal> {
        self.params.as_ref().ok_or_else(chain_unavailable)
    }

    fn decode_call(&self, call: &Call) -> Decoded {
        if call.value.is_zero() {
            decode_call(self.contracts.singleton, call.to, &call.data)
        } else {
            Decoded::Unknown { to: call.to, selector: None }
        }
    }

    /// Returns the reads after the plan: the stablecoins, their allowance, the native coin, the shares, and the shares'
    /// worth.
    fn reads(&self) -> Vec<ReadCall> {
        let coin = self.network.stablecoin.address;
        let spender = spender(self.contracts, self.ask.venue);
        let mut reads = vec![
            ReadCall { to: coin, data: token::balance_call(self.owner) },
            ReadCall { to: coin, data: token::allowance_call(self.owner, spender) },
            native_balance(self.owner),
        ];
        match self.ask.venue {
            VenueId::Vault(to) => {
                reads.push(ReadCall { to, data: vault::balance_call(self.owner) });
                let data = vault::preview_redeem_call(self.venue.shares);
                reads.push(ReadCall { to, data });
            }
            VenueId::Market(id) => {
                let to = self.contracts.singleton;
                reads.push(ReadCall { to, data: market::position_call(id, self.owner) });
                reads.push(ReadCall { to, data: market::market_call(id) });
            }
        }
        reads
    }

    /// Checks the simulated effects of the plan.
    ///
    /// # Errors
    /// `WOULD_FAIL` if another amount moves than expected, if another token or allowance of ours changes, or if an
    /// allowance remains; `CHAIN_UNAVAILABLE` if no node can show the state after a plan of several transactions.
    fn check(&self, simulated: &Simulation, parts: usize) -> Result<SimulationResult, Refusal> {
        let wrong = |what: &str| {
            let message = format!("The transactions would have unexpected effects: {what}.");
            Refusal::because(Code::WouldFail, message)
        };
        let Some(reads) = &simulated.reads else {
            if parts > 1 || self.ask.is_supply() {
                let message = "No node can simulate this loan as a whole: see `doctor`.";
                return Err(Refusal::because(Code::ChainUnavailable, message));
            }
            let ReadVenue { assets, shares, .. } = *self.venue;
            return Ok(SimulationResult {
                assets,
                shares,
                worth: U256::ZERO,
                effects: Effects::Unproven,
            });
        };
        let after = self.after(reads).map_err(wrong)?;
        let shown = if self.ask.is_supply() {
            self.check_supply(&after)
        } else {
            self.check_withdrawal(&after)
        };
        let shown = shown.map_err(wrong)?;
        if simulated.method != SimulationMethod::SimulateV1 {
            return Ok(SimulationResult { effects: Effects::Unproven, ..shown });
        }
        let ours = AllowedChanges::of(self.ask.venue, self.owner, self.network, self.contracts);
        let calls = simulated.calls.iter().flatten();
        if calls.clone().flat_map(|call| &call.logs).any(|log| ours.is_foreign(log)) {
            return Err(wrong("another token or allowance of the paying address changes"));
        }
        let owner = self.owner;
        let mut transfers = calls.flat_map(|call| &call.native_transfers);
        if transfers.any(|one| (one.from == owner || one.to == owner) && !one.value.is_zero()) {
            return Err(wrong("the native coin moves"));
        }
        Ok(shown)
    }

    /// Checks the amounts that a supply moves.
    fn check_supply(&self, after: &StateAfter) -> Result<SimulationResult, &'static str> {
        let paid = self.own.coins.checked_sub(after.coins);
        let gained = after.held_shares.checked_sub(self.held_before());
        let (Some(paid), Some(gained)) = (paid, gained) else {
            return Err("money arrives, or shares leave");
        };
        let is_paid = paid == self.venue.assets
            || (self.buys_shares && !paid.is_zero() && paid < self.venue.assets);
        if !is_paid {
            return Err("the amount that leaves the paying address is not the deposited amount");
        }
        if gained.is_zero() {
            return Err("no shares arrive");
        }
        if !self.buys_shares && !after.allowance.is_zero() {
            return Err("an allowance remains");
        }
        // The preview is from an earlier block, so slightly fewer shares can arrive.
        let part = after.worth_of_preview.checked_mul(gained.min(self.venue.shares));
        let worth = part.and_then(|part| part.checked_div(self.venue.shares));
        let worth = worth.unwrap_or(U256::ZERO);
        Ok(SimulationResult { assets: paid, shares: gained, worth, effects: Effects::Proven })
    }

    /// Checks the amounts that a withdrawal moves.
    fn check_withdrawal(&self, after: &StateAfter) -> Result<SimulationResult, &'static str> {
        let gained = after.coins.checked_sub(self.own.coins);
        let given = self.held_before().checked_sub(after.held_shares);
        let (Some(gained), Some(given)) = (gained, given) else {
            return Err("money leaves, or shares arrive");
        };
        let by_assets = matches!(self.ask.size, LoanSize::Assets(_));
        if by_assets && gained != self.venue.assets {
            return Err("the amount that arrives is not the withdrawn amount");
        }
        if !by_assets && given != self.venue.shares {
            return Err("the number of shares that leave is not the number given back");
        }
        if gained.is_zero() || given.is_zero() {
            return Err("nothing arrives");
        }
        if after.allowance != self.own.allowance {
            return Err("an allowance changes");
        }
        Ok(SimulationResult {
            assets: gained,
            shares: given,
            worth: U256::ZERO,
            effects: Effects::Proven,
        })
    }

    fn held_before(&self) -> U256 {
        let position = self.own.positions.iter().find(|(venue, _one)| *venue == self.ask.venue);
        position
            .and_then(|(_venue, position)| position.as_ref())
            .map_or(U256::ZERO, |position| position.shares)
    }

    /// Reads the answers to [`Rehearsal::reads`].
    fn after(&self, reads: &[SimulatedCall]) -> Result<StateAfter, &'static str> {
        let answer = |at: usize| reads.get(at).filter(|read: &&SimulatedCall| read.ok);
        let number = |at: usize| {
            let read = answer(at).filter(|read| read.data.len() == 32);
            read.map(|read| U256::from_be_slice(&read.data))
        };
        let (Some(coins), Some(allowance)) = (number(0), number(1)) else {
            return Err("the stablecoin gives no valid answer");
        };
        let shares = || match self.ask.venue {
            VenueId::Vault(_) => Some((number(3)?, number(4)?)),
            VenueId::Market(_) => {
                let position = market::decode_position(&answer(3)?.data)?;
                let market: Market = market::decode_market(&answer(4)?.data)?;
                // The plan has just accrued the market's interest.
                let at = u64::try_from(market.last_update).ok()?;
                let market = market.accrue(BorrowRate::NoModel, at).ok()?;
                Some((position.supply_shares, market.assets_floor(self.venue.shares)?))
            }
        };
        let (held, worth_of_preview) = shares().ok_or("the venue gives no valid answer")?;
        Ok(StateAfter { coins, allowance, held_shares: held, worth_of_preview })
    }
}
