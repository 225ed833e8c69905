//! Trades: the verdict on a request, and on fresh prices before each signature of its plan.

use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::policy::Policy;

use super::intake::Intake;
use crate::approval::check_floor;
use crate::approver::Approver;
use crate::assess::trading::{self, TradeContext};
use crate::assess::{Verdict, clock_is_off};
use crate::command::Command;
use crate::plan::Execution;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;
use crate::trades::{TradeAsk, TradeQuote};

/// Applies the policy to a new trade.
pub(super) fn verdict(intake: &Intake<'_>, trade: &TradeAsk) -> Verdict {
    let Intake { state, command, from, policy, spent, queue } = *intake;
    trading::assess(&TradeContext {
        ask: trade,
        quote: &trade.quote,
        policy,
        network_enabled: state.is_network_enabled(trade.chain),
        trusted: command.trusted,
        is_clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        commitments: state.commitments(
            from,
            trade.chain,
            trade.token_in.address,
            &command.moment,
            None,
        ),
        spent: spent.trade,
        reserved: queue.reserved.trade,
        held_by_agent: queue.count_of_agent,
        held_in_all: queue.count_in_all,
    })
}

/// Returns the least output that an approval accepts, and the value that counts against the daily volume.
pub(super) fn floor_and_counted_value(
    trade: &TradeAsk,
    quote: &TradeQuote,
    policy: &Policy,
) -> (Atoms, Usd) {
    let floor = trade.floor(&trade.quote).max(trade.floor(quote));
    (floor, trading::counted_value(quote, &policy.trading))
}

/// Checks a fresh quote against the least output and the policy, before the next signature for a swap.
pub(super) fn still_allowed(
    state: &State,
    command: &Command,
    request: &Request,
    (trade, execution): (&TradeAsk, &Execution),
    quote: &TradeQuote,
) -> Result<(), Refusal> {
    check_floor(trade, quote)?;
    if quote.out.0 < execution.floor.0 {
        return Err(Refusal::new(Code::PriceMoved));
    }
    let gone = || Refusal::new(Code::AgentNotCommissioned);
    let agent = state.agents.get(&request.agent).ok_or_else(gone)?;
    let policy = state.policy_of(agent).ok_or_else(gone)?;
    let spent = state.spent(agent, &command.moment).trade;
    let verdict = trading::assess(&TradeContext {
        ask: trade,
        quote,
        policy,
        network_enabled: state.is_network_enabled(trade.chain),
        trusted: command.trusted,
        is_clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        commitments: state.commitments(
            request.from,
            trade.chain,
            trade.token_in.address,
            &command.moment,
            Some(execution.started),
        ),
        spent,
        // Excludes the plan's own reservation.
        reserved: agent.reserved.trade.left_after(execution.reserved()),
        held_by_agent: 0,
        held_in_all: 0,
    });
    match (verdict, execution.by) {
        (Verdict::Refuse(refusal), _any) => Err(refusal),
        (Verdict::Hold(_), Approver::Policy) => Err(Refusal::because(
            Code::PriceMoved,
            "The price moved, so the trade now needs the operator's approval: request it again.",
        )),
        (Verdict::Act, _) | (Verdict::Hold(_), Approver::Operator(_)) => Ok(()),
    }
}
