//! The operator's withdrawal from a Vault V2 whose free assets do not suffice: forced deallocations take the missing
//! assets from other adapters, for a penalty. Agents never use it.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::ReadCall;
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_domain::loans::{LoanAsk, LoanQuote, LoanSize};
use bursar_domain::plan::StepPurpose;
use bursar_domain::{Refusal, loan_text};
use bursar_morpho::decode::decode_parts;
use bursar_morpho::views::vault;
use bursar_morpho::{ForcedPlan, LoanAmount, NoForcedPlan, VenueId, calls};
use bursar_submit::Call;

use super::forced_effects::{ExpectedEffects, Outflow};
use super::forced_read::ForcedReader;
use super::foreign::AllowedChanges;
use super::lane::Lending;
use super::measure::{LoanNetwork, check_exit_gate, preview, venue_of};
use super::network_read::{LoanTarget, NetworkReader, ReadNetwork};
use super::operator::{ForcedCost, OwnWithdrawal, WithdrawalOrder, check_gas};
use super::position_read::ReadPosition;
use super::venue_read::ReadVenue;
use crate::lanes::batch::chain_unavailable;
use crate::lanes::rehearsal::{Part, PartKind, Sender};

/// The gas limit of the transaction in its rehearsal.
const FORCED_EXIT_GAS: u64 = 8_000_000;

/// A forced exit that was planned from the state of one block.
struct PlannedExit {
    vault: Address,
    own: ReadNetwork,
    position: ReadPosition,
    plan: ForcedPlan,
    /// The amount of the withdrawal that follows the forced deallocations.
    exit: LoanAmount,
}

impl Lending {
    /// Plans and rehearses a withdrawal with forced deallocations.
    ///
    /// # Errors
    /// The amount is invalid, a plain withdrawal suffices, the venue is not a Vault V2, the adapters cannot give
    /// enough, the transaction would fail or do something else, or no node answers.
    pub async fn plan_forced_withdrawal(
        &self,
        order: WithdrawalOrder<'_>,
    ) -> Result<OwnWithdrawal, Refusal> {
        let ask = order.ask()?;
        let LoanNetwork { network, contracts } = LoanNetwork::of(ask.chain)?;
        let (chain, block) = self.at_newest_block(network).await?;
        let reader = self.reader(&*chain, network, contracts, order.owner);
        let reader = NetworkReader { block: Some(block), ..reader };
        let (planned, venue) = plan(&reader, &ask, block).await?;
        let facts = chain.fee_facts().await.map_err(|_fault| chain_unavailable())?;
        let owner = order.owner;
        let (block_time, native) = (planned.own.block_time, planned.own.native);
        let sender = Sender { owner, gas: &network.gas, facts: &facts, block_time, native };
        let fees = sender.offer()?;
        let mut parts = [planned.part(owner)?];
        let simulator = self.simulators.of(ask.chain);
        let reads = planned.reads(&reader);
        let rehearsed = sender.rehearse(&*chain, &simulator, &fees, &parts, reads).await?;
        let expected = planned.expected_effects(&ask, &reader);
        let Outflow { assets, shares } = expected.check(&rehearsed.simulated)?;
        rehearsed.set_gas_limits(&mut parts);
        let ceiling = sender.gas_price_max(&fees);
        let cost = rehearsed.worst_cost(&parts, ceiling)?;
        check_gas(planned.own.native, cost)?;
        let [Part { call, .. }] = parts;
        let name = venue.facts.name.clone();
        let quote = LoanQuote {
            venue: Some(Box::new(venue.facts)),
            assets: Atoms(assets),
            shares,
            calls: decode_parts(contracts.singleton, call.to, &call.data),
            ..LoanQuote::default()
        };
        let PlannedExit { position, plan, .. } = planned;
        Ok(OwnWithdrawal {
            texts: loan_text::calls(&ask, &quote),
            forced: Some(ForcedCost {
                penalty: Atoms(plan.penalty),
                deallocations: plan.deallocations,
            }),
            call,
            assets: Atoms(assets),
            position: Atoms(position.worth),
            name,
            gas_price_max: ceiling,
            cost,
        })
    }
}

/// Plans the exit from the state of one block.
async fn plan(
    reader: &NetworkReader<'_>,
    ask: &LoanAsk,
    block: u64,
) -> Result<(PlannedExit, ReadVenue), Refusal> {
    let VenueId::Vault(vault) = ask.venue else {
        let message = "A market has no adapters: leave out --force-deallocate.";
        return Err(Refusal::because(Code::BadInput, message));
    };
    let wanted = LoanTarget { venue: ask.venue, preview: preview(ask) };
    let own = reader.read(&[ask.venue], Some(wanted)).await?;
    let venue = venue_of(&own)?;
    let position = own.positions.iter().find_map(|(_venue, position)| *position);
    let position = position.ok_or_else(chain_unavailable)?;
    let NetworkReader { chain, network, contracts, .. } = *reader;
    let forced = ForcedReader { chain, network, contracts, vault, block };
    let money = forced.read_money(venue.facts.free_liquidity.map(|free| free.0)).await?;
    check_exit_gate(&venue)?;
    let worth = position.worth;
    let (plan, exit) = match ask.size {
        LoanSize::Assets(Atoms(assets)) if assets <= worth => {
            (money.plan_assets(assets, worth), Some(LoanAmount::Assets(assets)))
        }
        LoanSize::All if !worth.is_zero() => (money.plan_all(worth), None),
        LoanSize::Assets(_) | LoanSize::All | LoanSize::Shares(_) => {
            let message = "The position is smaller than this withdrawal: see `positions`.";
            return Err(Refusal::because(Code::InsufficientFunds, message));
        }
    };
    let plan = plan.map_err(|fault| refusal(ask, fault))?;
    let shares = || plan.shares_left(position.shares, worth).map(LoanAmount::Shares);
    let exit = exit.or_else(shares).ok_or_else(chain_unavailable)?;
    Ok((PlannedExit { vault, own, position, plan, exit }, venue))
}

fn refusal(ask: &LoanAsk, fault: NoForcedPlan) -> Refusal {
    let text = |atoms| ask.assets_text(Atoms(atoms));
    match fault {
        NoForcedPlan::NothingMissing => Refusal::because(
            Code::BadInput,
            "A plain withdrawal can pay this without a penalty: leave out --force-deallocate.",
        ),
        NoForcedPlan::TooLittle { most } => {
            let message = format!(
                "The vault's adapters cannot give enough now, even by force: at most {} can be \
                 withdrawn.",
                text(most)
            );
            Refusal::because(Code::InsufficientLiquidity, message)
        }
        NoForcedPlan::PenaltyUnpaid { penalty, most } => {
            let message = format!(
                "The position does not cover this amount and the penalty of {}: `all` would bring about {}.",
                text(penalty),
                text(most)
            );
            Refusal::because(Code::InsufficientFunds, message)
        }
        NoForcedPlan::PenaltyTooHigh => Refusal::because(
            Code::WouldFail,
            "The exit needs an adapter with a penalty of over 2 %: nothing was sent.",
        ),
        NoForcedPlan::Overflow => chain_unavailable(),
    }
}

impl PlannedExit {
    fn part(&self, owner: Address) -> Result<Part, Refusal> {
        let data = calls::forced_exit(&self.plan.parts(), self.exit, owner);
        let data = data.map_err(|fault| {
            let message = format!("This withdrawal cannot be sent: {fault}.");
            Refusal::because(Code::InvalidRequest, message)
        })?;
        let call = Call { to: self.vault, value: U256::ZERO, data, gas_limit: FORCED_EXIT_GAS };
        Ok(Part { kind: PartKind::Step(StepPurpose::Withdrawal), call })
    }

    /// Returns the effects that the transaction must have.
    fn expected_effects(&self, ask: &LoanAsk, reader: &NetworkReader<'_>) -> ExpectedEffects {
        let NetworkReader { network, contracts, owner, .. } = *reader;
        ExpectedEffects {
            owner,
            vault: self.vault,
            singleton: contracts.singleton,
            allowed_changes: AllowedChanges::of(ask.venue, owner, network, contracts),
            assets: match ask.size {
                LoanSize::Assets(Atoms(assets)) => Some(assets),
                LoanSize::Shares(_) | LoanSize::All => None,
            },
            penalty: self.plan.penalty,
            coins: self.own.coins,
            allowance: self.own.allowance,
            shares: self.position.shares,
            worth: self.position.worth,
        }
    }

    /// Returns the reads that [`ExpectedEffects::check`] needs. They follow the transaction in the simulation.
    fn reads(&self, reader: &NetworkReader<'_>) -> Vec<ReadCall> {
        let (coin, owner) = (reader.network.stablecoin.address, reader.owner);
        vec![
            ReadCall { to: coin, data: token::balance_call(owner) },
            ReadCall { to: coin, data: token::allowance_call(owner, self.vault) },
            ReadCall { to: self.vault, data: vault::balance_call(owner) },
        ]
    }
}
