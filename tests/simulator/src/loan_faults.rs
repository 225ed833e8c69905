//! Planted bugs in loans. They change the input of the rules, and the state after an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks;
use bursar_core::policy::LendingPolicy;
use bursar_domain::command::{Requote, StepOrder};
use bursar_domain::loan_context::operations;
use bursar_domain::loans::{Exposure, LendingKind, LoanAsk, LoanQuote, LoanSize, VenueFacts};
use bursar_domain::plan::{Execution, ExecutionEnd, Quote, StepPurpose};
use bursar_domain::{Action, Command, Event, LaneAsk, Refusal, Request, State};
use bursar_morpho::{Trust, VenueId};
use bursar_submit::{Event as OutboxEvent, SubmissionId};

use crate::evm::{Contracts, forge, venues};
use crate::faults::PlantedBug;

/// The memory of the planted bugs.
#[derive(Debug, Default)]
pub(crate) struct PlantMemory {
    /// The first exposure of each address that was read.
    exposures: BTreeMap<Address, Exposure>,
    /// Transactions that were in a block once.
    included: BTreeSet<SubmissionId>,
    /// Whether a process is starting and reads the journal.
    pub(crate) starts: bool,
}

/// Changes the input of a decision.
///
/// # Errors
/// Returns the refusal of a bug that refuses too much.
pub(crate) fn change_input(
    plant: PlantedBug,
    memory: &mut PlantMemory,
    state: &mut State,
    command: &mut Command,
) -> Result<(), Refusal> {
    match plant {
        PlantedBug::CeilingIgnored => change_policies(state, |lending| {
            lending.max_total.0 = lending.max_total.0.saturating_mul(1_000);
            lending.max_share = None;
        }),
        PlantedBug::DepositUnlimited => change_policies(state, |lending| {
            lending.max_deposit.0 = lending.max_deposit.0.saturating_mul(1_000);
        }),
        PlantedBug::UntrustedVenue => {
            change_policies(state, |lending| lending.curated_only = false);
        }
        PlantedBug::ComingLoansForgotten => forget_others(state, command, |_any| true),
        PlantedBug::WithdrawalLimited => return limit_withdrawal(state, command),
        PlantedBug::LoanFreedEarly => {
            let memory = &*memory;
            forget_others(state, command, |request| memory.was_included(request));
        }
        PlantedBug::JournalIgnored => {
            for lent in Arc::make_mut(&mut state.loans).lent.values_mut() {
                lent.net = Usd::ZERO;
            }
        }
        PlantedBug::StaleCard => use_first_quote(state, command),
        PlantedBug::ExitByAssets | PlantedBug::AdapterApproved | PlantedBug::LoanUnlimited => {
            if let Action::OpenStep(order) = &mut command.action {
                change_call(plant, state, order);
            }
        }
        _other => each_quote(state, &mut command.action, |state, from, loan, quote| match plant {
            PlantedBug::ExposureCached => {
                let first = memory.exposures.entry(from);
                quote.exposure = first.or_insert_with(|| quote.exposure.clone()).clone();
            }
            PlantedBug::UnreadableIgnored => {
                quote.exposure.unreadable.clear();
                if !quote.exposure.networks.contains(&loan.chain) {
                    quote.exposure.networks.push(loan.chain);
                }
            }
            PlantedBug::InterestForgotten => without_interest(state, from, &mut quote.exposure),
            PlantedBug::CuratorAlone => trust_by_curator(loan, quote),
            PlantedBug::MaxBelieved => {
                let kind = quote.venue.as_ref().map(|venue| venue.kind);
                if kind == Some(LendingKind::VaultV2) {
                    quote.withdrawable = Some(Atoms::default());
                }
            }
            _other => {}
        }),
    }
    Ok(())
}

/// Changes the state after an event. `before` is the request before the event.
pub(crate) fn change_state(
    plant: PlantedBug,
    memory: &mut PlantMemory,
    state: &mut State,
    before: Option<&Request>,
    event: &Event,
) {
    if let Event::Outbox { event: OutboxEvent::Included { id, .. }, .. } = event {
        memory.included.insert(*id);
    }
    match plant {
        PlantedBug::FreesTwice => subtract_returned_again(state, before, event),
        // The bug treats the transactions that the plan has sent like earlier, unrelated ones.
        PlantedBug::SuppliedAgain if memory.starts => {
            for request in Arc::make_mut(&mut state.executing).values_mut() {
                let is_supply = request.loan().is_some_and(LoanAsk::is_supply);
                let execution = is_supply.then(|| execution_mut(Arc::make_mut(request))).flatten();
                for step in execution.into_iter().flat_map(|one| &mut one.steps) {
                    step.purpose = StepPurpose::AllowanceReset;
                }
            }
        }
        _other => {}
    }
}

/// Subtracts the amount of a withdrawal a second time.
fn subtract_returned_again(state: &mut State, before: Option<&Request>, event: &Event) {
    let Event::ExecutionEnded { end, .. } = event else { return };
    let ExecutionEnd::Executed { received: Some(moved), .. } = end else { return };
    let Some((request, loan)) = before.and_then(|one| Some((one, one.loan()?))) else { return };
    let lent = &mut Arc::make_mut(&mut state.loans).lent;
    if !loan.is_supply()
        && let Some(lent) = lent.get_mut(&loan.place(request.from))
    {
        lent.net = lent.net.left_after(Usd(moved.0.saturating_to()));
    }
}

impl PlantMemory {
    fn was_included(&self, request: &Request) -> bool {
        let main = request.loan().and(request.execution()).and_then(Execution::main_step);
        main.is_some_and(|step| self.included.contains(&step.submission))
    }
}

fn execution_mut(request: &mut Request) -> Option<&mut Execution> {
    match &mut request.status {
        bursar_domain::Status::Executing(execution) => Some(execution),
        _other => None,
    }
}

/// Calls `change` for each measurement: with the state, the paying address and the loan.
fn each_quote(
    state: &State,
    action: &mut Action,
    mut change: impl FnMut(&State, Address, &LoanAsk, &mut LoanQuote),
) {
    let running = |id: &RequestId| state.executing.get(id).or_else(|| state.held.get(id)).cloned();
    match action {
        Action::Ask(ask) => {
            let agent = state.agents.get(&ask.agent);
            let given = agent.and_then(|agent| agent.commission.as_ref());
            let wallet = state.wallet.as_ref();
            let from = given.zip(wallet).and_then(|(given, one)| one.address(&given.label));
            let Some(from) = from.map(|known| known.address) else { return };
            if let LaneAsk::Loan(loan) = &mut ask.ask {
                let mut quote = loan.quote.clone();
                change(state, from, loan, &mut quote);
                loan.quote = quote;
            }
        }
        Action::Approve(approval) => {
            let Some(request) = running(&approval.id) else { return };
            if let (Requote::Plan(Quote::Loan(quote)), Some(loan)) =
                (&mut approval.quote, request.loan())
            {
                change(state, request.from, loan, quote);
            }
        }
        Action::OpenStep(order) => {
            let Some(request) = running(&order.id) else { return };
            if let (Quote::Loan(quote), Some(loan)) = (&mut order.quote, request.loan()) {
                change(state, request.from, loan, quote);
            }
        }
        _other => {}
    }
}

/// Replaces the measurement by the one from the agent's request.
fn use_first_quote(state: &State, command: &mut Command) {
    each_quote(state, &mut command.action, |_state, _from, loan, quote| {
        let as_of = quote.as_of_entry;
        *quote = LoanQuote { as_of_entry: as_of, ..loan.quote.clone() };
    });
}

/// Counts only the supplied amounts, without interest.
fn without_interest(state: &State, from: Address, exposure: &mut Exposure) {
    for (place, lent) in state.loans.used_by(from, |_any| true) {
        let known = exposure.positions.iter_mut();
        for (_chain, _venue, worth) in
            known.filter(|(chain, venue, _worth)| (*chain, *venue) == (place.chain, place.venue))
        {
            *worth = (*worth).min(lent.net);
        }
    }
}

fn trust_by_curator(loan: &LoanAsk, quote: &mut LoanQuote) {
    let Some(venue) = &mut quote.venue else { return };
    let table = networks::by_chain(loan.chain).and_then(|network| network.lending);
    let VenueFacts { curator, trust, .. } = &mut **venue;
    let is_known =
        table.zip(*curator).is_some_and(|(table, curator)| table.curators.contains(&curator));
    if is_known {
        *trust = Trust::Curated;
    }
}

/// Changes the call data of a step.
fn change_call(plant: PlantedBug, state: &State, order: &mut StepOrder) {
    let loan = state.executing.get(&order.id).and_then(|request| request.loan());
    let Some((loan, quote)) = loan.zip(order.quote.loan()) else { return };
    let is_allowance = order.purpose == StepPurpose::Allowance;
    match (plant, loan.venue) {
        (PlantedBug::LoanUnlimited, _any) if is_allowance => {
            order.call.data = forge::approval_of(&order.call.data, U256::MAX);
        }
        (PlantedBug::AdapterApproved, VenueId::Vault(_)) if is_allowance => {
            let adapter = venues::an_adapter(&Contracts::of(loan.chain));
            order.call.data = forge::approval_to(&order.call.data, adapter);
        }
        (PlantedBug::ExitByAssets, _any) if loan.size == LoanSize::All => {
            order.call.data = forge::exit_by_assets(&order.call.data, quote.assets.0);
        }
        _other => {}
    }
}

fn change_policies(state: &mut State, change: impl Fn(&mut LendingPolicy)) {
    for record in Arc::make_mut(&mut state.policies).values_mut() {
        change(&mut Arc::make_mut(record).policy.lending);
    }
}

/// Removes the loans other than the one that is judged.
fn forget_others(state: &mut State, command: &Command, forgets: impl Fn(&Request) -> bool) {
    let own = match &command.action {
        Action::Ask(ask) if matches!(ask.ask, LaneAsk::Loan(_)) => None,
        Action::OpenStep(order) => Some(order.id),
        Action::Approve(approval) => Some(approval.id),
        _other => return,
    };
    let is_kept = |one: &Request| Some(one.id) == own || one.loan().is_none() || !forgets(one);
    Arc::make_mut(&mut state.held).retain(|_id, one| is_kept(one));
    Arc::make_mut(&mut state.executing).retain(|_id, one| is_kept(one));
}

fn limit_withdrawal(state: &State, command: &Command) -> Result<(), Refusal> {
    let Action::Ask(ask) = &command.action else { return Ok(()) };
    let LaneAsk::Loan(loan) = &ask.ask else { return Ok(()) };
    let agent = state.agents.get(&ask.agent).filter(|_agent| !loan.is_supply());
    let Some(policy) = agent.and_then(|agent| state.policy_of(agent)) else { return Ok(()) };
    let done = agent.map_or(0, |agent| operations(state, &command.moment, agent, None));
    if done < policy.lending.operations_per_day {
        return Ok(());
    }
    Err(Refusal::new(Code::DailyOpsExceeded))
}
