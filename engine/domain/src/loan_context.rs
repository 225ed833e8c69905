//! Everything besides the loan itself that the policy reads: other loans of its address and agent, and records of the
//! venue.

use alloy_primitives::Address;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_core::time::Moment;

use crate::agents::Agent;
use crate::assess::clock_is_off;
use crate::assess::lending::{LoanContext, total_lent};
use crate::loans::{LoanAsk, LoanQuote, Standing};
use crate::plan::{Execution, Volume};
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// The agent and the address of the loan that the policy judges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lender<'a> {
    pub(crate) agent: &'a Agent,
    /// The paying address.
    pub(crate) from: Address,
    /// The request, if it is recorded already: its own reservation must not count against it.
    pub(crate) request: Option<RequestId>,
    /// The journal entry that started the loan's plan, if it has one. Only plans of the address that started earlier
    /// count as commitments.
    pub(crate) started: Option<u64>,
}

/// Refuses a supply whose measured exposure is older than the newest loan of the address in the journal.
///
/// # Errors
/// `BUSY`: the caller must measure again.
pub(crate) fn check_current(
    state: &State,
    from: Address,
    ask: &LoanAsk,
    quote: &LoanQuote,
) -> Result<(), Refusal> {
    let mut own = state.loans.used_by(from, |_any| true);
    if ask.is_supply() && own.any(|(_place, lent)| lent.changed_entry > quote.as_of_entry) {
        let message = "Another loan of this address ended meanwhile: try again.";
        return Err(Refusal::because(Code::Busy, message));
    }
    Ok(())
}

/// Collects the values that the rules read. The caller fills in the lengths of the queues.
pub(crate) fn context<'a>(
    state: &State,
    moment: &Moment,
    trusted: bool,
    lender: Lender<'_>,
    policy: &'a Policy,
    (ask, quote): (&'a LoanAsk, &'a LoanQuote),
) -> LoanContext<'a> {
    let record = state.loans.venue(ask.chain, ask.venue);
    let standing = quote.venue.as_ref().map(|venue| Standing::of(venue, record));
    let Lender { agent, from, request, started } = lender;
    LoanContext {
        ask,
        quote,
        policy,
        network_enabled: state.is_network_enabled(ask.chain),
        trusted,
        is_clock_off: clock_is_off(moment),
        now: u64::try_from(moment.utc.seconds()).unwrap_or(0),
        commitments: state.commitments(from, ask.chain, ask.token_in(), moment, started),
        standing: standing.unwrap_or(Standing::Untrusted),
        best_price: record.and_then(|record| record.best_price),
        is_first_supply: !record.is_some_and(|record| record.is_used),
        // Without a reading of the loan's own network, the exposure is incomplete.
        total_lent: total_lent(&state.loans, from, &policy.networks, &quote.exposure)
            .filter(|_sum| quote.exposure.networks.contains(&ask.chain)),
        reserved: reserved(state, moment, from, &policy.networks, request),
        operations: operations(state, moment, agent, request),
        held_by_agent: 0,
        held_in_all: 0,
    }
}

/// Returns the value of the pending supplies from an address, by any agent, on these networks.
pub fn reserved(
    state: &State,
    moment: &Moment,
    from: Address,
    networks: &AllowedNetworks,
    without: Option<RequestId>,
) -> Usd {
    let mut sum = Usd::ZERO;
    let counts = |one: &&Request| one.from == from && networks.allows(one.ask.chain());
    for request in open_loans(state, moment, without).filter(counts) {
        let value = request.execution().map_or_else(|| request.ask.usd(), Execution::reserved);
        sum = Usd(sum.0.saturating_add(value.0));
    }
    sum
}

/// Returns the number of an agent's supplies and withdrawals in the allowance in force, including open ones.
pub fn operations(
    state: &State,
    moment: &Moment,
    agent: &Agent,
    without: Option<RequestId>,
) -> u32 {
    let done = agent.commission.as_ref().map_or(0, |given| given.window.operations_at(moment));
    let open = open_loans(state, moment, without).filter(|one| one.agent == agent.id).count();
    done.saturating_add(u32::try_from(open).unwrap_or(u32::MAX))
}

/// Returns the loans that are held or whose plan still reserves value, because its main transaction has no final
/// outcome.
fn open_loans<'a>(
    state: &'a State,
    moment: &'a Moment,
    without: Option<RequestId>,
) -> impl Iterator<Item = &'a Request> {
    let held = state.held.values().filter(|request| !request.is_hold_over(moment));
    let executing = state.executing.values().filter(|request| {
        request.execution().is_some_and(|execution| execution.volume == Volume::Reserved)
    });
    held.chain(executing)
        .map(|request| &**request)
        .filter(move |request| Some(request.id) != without)
        .filter(|request| matches!(request.ask, LaneAsk::Loan(_)))
}
