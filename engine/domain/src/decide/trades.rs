//! Trades: the verdict on a request, and the steps of its plan.
//!
//! A plan is a row of transactions: allowances, the swap, and the revocation of what a failed plan leaves. The lane
//! orders each step with fresh prices, and the policy is applied again. One plan runs at a time for each address and
//! network, so no plan uses or overwrites the allowance of another.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_submit::{Input, Outcome};

use super::intake::Intake;
use super::outboxes;
use super::plans::{check_stops, ended, may_sign, plan_deadline};
use crate::approval::check_floor;
use crate::approver::Approver;
use crate::assess::trading::{self, TradeContext};
use crate::assess::{Verdict, clock_is_off};
use crate::command::{Approval, Command, Requote, StepOrder};
use crate::decision::{Decision, Reply, require_unlocked};
use crate::event::Event;
use crate::lines::is_acting;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;
use crate::trades::{
    Execution, StepPurpose, TradeAsk, TradeEnd, TradeQuote, outbox_key, submission_id,
};

/// Applies the policy to a new trade.
pub(super) fn verdict(intake: &Intake<'_>, trade: &TradeAsk) -> Verdict {
    let Intake { state, command, from, policy, spent, queue } = *intake;
    trading::assess(&TradeContext {
        ask: trade,
        quote: &trade.quote,
        policy,
        network_enabled: state.network_enabled(trade.chain),
        trusted: command.trusted,
        clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        promised: state.promised(from, trade.chain, trade.token_in.address, &command.moment, None),
        spent: spent.trade,
        reserved: queue.reserved.trade,
        held_by_agent: queue.by_agent,
        held_in_all: queue.in_all,
    })
}

/// Returns the event of an approval. The caller has applied the policy to the current prices.
pub(super) fn approved(
    state: &State,
    command: &Command,
    request: &Request,
    trade: &TradeAsk,
    approval: &Approval,
) -> Event {
    let quote = match &approval.quote {
        Some(Ok(Requote::Trade(quote))) => quote.clone(),
        Some(_) | None => Box::new(trade.quote.clone()),
    };
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent));
    Event::TradeApproved {
        id: request.id,
        by: approval.by,
        until: plan_deadline(&command.moment),
        floor: trade.floor(&trade.quote).max(trade.floor(&quote)),
        counted: policy.map_or(trade.counted, |policy| trading::counted(&quote, &policy.trading)),
        quote,
    }
}

/// Opens the next transaction of a plan, if prices and policy still allow it. Otherwise the trade ends.
pub(super) fn open_step(
    state: &State,
    command: &Command,
    order: &StepOrder,
) -> Result<Decision, Refusal> {
    let (request, plan) = acting_plan(state, command, order.id, order.index)?;
    if order.purpose != StepPurpose::Revocation {
        plan.check_continues()?;
        let allowed = check_first(plan.execution, order.purpose)
            .and_then(|()| still_allowed(state, command, request, &plan, &order.quote));
        if let Err(refusal) = allowed {
            let events = ended(request, plan.execution, TradeEnd::Rejected(refusal));
            return Ok(Decision::reply(events, Reply::Request(request.id)));
        }
    }
    let open = Input::Open {
        id: submission_id(request.id, order.index),
        call: order.call.clone(),
        ceiling: order.ceiling,
        until: order.until,
    };
    let key = outbox_key(plan.trade.chain, request.from);
    let mut decision = outboxes::apply_input(state, command, &key, &open)?;
    let quote = Box::new(order.quote.clone());
    let opened = Event::StepOpened { id: request.id, purpose: order.purpose, quote };
    decision.events.insert(0, opened);
    decision.reply = Reply::Request(request.id);
    Ok(decision)
}

/// Checks that the plan has not given this allowance before. A token that loses one would lose the next too, and each
/// costs gas.
fn check_first(execution: &Execution, purpose: StepPurpose) -> Result<(), Refusal> {
    let repeats = purpose != StepPurpose::Swap
        && execution.steps.iter().any(|step| {
            step.purpose == purpose && matches!(step.outcome, Some(Outcome::Succeeded { .. }))
        });
    if !repeats {
        return Ok(());
    }
    let message = "The token does not keep its approval: nothing was traded.";
    Err(Refusal::because(Code::WouldFail, message))
}

/// A trade and its execution.
pub(super) struct Plan<'a> {
    pub(super) trade: &'a TradeAsk,
    pub(super) execution: &'a Execution,
}

impl Plan<'_> {
    /// Checks that the swap is still to come.
    pub(super) fn check_continues(&self) -> Result<(), Refusal> {
        if self.execution.end.is_some() || self.execution.swap().is_some() {
            return Err(Refusal::new(Code::AlreadyDecided));
        }
        Ok(())
    }
}

/// Returns the plan that may take its next step now.
///
/// # Errors
/// The wallet is locked or its journal untrusted, `index` is not the number of the plan's steps, a step is open, the
/// agent is stopped, or another plan of the address and network acts first.
pub(super) fn acting_plan<'a>(
    state: &'a State,
    command: &Command,
    id: RequestId,
    index: usize,
) -> Result<(&'a Request, Plan<'a>), Refusal> {
    require_unlocked(command)?;
    if !command.trusted {
        return Err(Refusal::new(Code::JournalUntrusted));
    }
    let request = state.executing.get(&id).ok_or(Refusal::new(Code::RequestNotFound))?;
    let (Some(trade), Some(execution)) = (request.trade(), request.execution()) else {
        return Err(Refusal::new(Code::RequestNotFound));
    };
    if execution.steps.len() != index || execution.open_step().is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    check_stops(state, request)?;
    if !is_acting(state, request) {
        return Err(Refusal::new(Code::Busy));
    }
    Ok((request, Plan { trade, execution }))
}

/// Applies time, floor and policy to fresh prices, before the next signature for a swap.
pub(super) fn still_allowed(
    state: &State,
    command: &Command,
    request: &Request,
    plan: &Plan<'_>,
    quote: &TradeQuote,
) -> Result<(), Refusal> {
    let Plan { trade, execution } = *plan;
    // An allowance, a permit and the swap have the same conditions.
    may_sign(state, command, request, execution, StepPurpose::Swap)?;
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
        network_enabled: state.network_enabled(trade.chain),
        trusted: command.trusted,
        clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        promised: state.promised(
            request.from,
            trade.chain,
            trade.token_in.address,
            &command.moment,
            Some(execution.started),
        ),
        spent,
        // Without the plan's own reservation.
        reserved: agent.reserved.trade.left_after(execution.reserved()),
        held_by_agent: 0,
        held_in_all: 0,
    });
    match (verdict, execution.by) {
        (Verdict::Refuse(refusal), _any) => Err(refusal),
        (Verdict::Hold(_), Approver::Policy) => Err(Refusal::because(
            Code::PriceMoved,
            "The price moved so that the trade now needs the operator: request it again.",
        )),
        (Verdict::Act, _) | (Verdict::Hold(_), Approver::Operator(_)) => Ok(()),
    }
}
