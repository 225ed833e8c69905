//! Planted bugs in trades. They change the input and output of the rules.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_domain::command::{Approval, Requote, StepOrder};
use bursar_domain::plan::{Execution, ExecutionEnd, Quote, StepPurpose, outbox_key};
use bursar_domain::trades::{TradeAsk, TradeQuote, Venue};
use bursar_domain::{Action, Command, Decision, Event, LaneAsk, Request, State, Status};
use bursar_submit::Outcome;

use crate::evm::{Contracts, forge};
use crate::faults::PlantedBug;

/// Changes the input of a decision.
pub(crate) fn change_input(plant: PlantedBug, state: &mut State, command: &mut Command) {
    let now = u64::try_from(command.moment.utc.seconds()).unwrap_or(0);
    match (plant, &mut command.action) {
        (PlantedBug::FloorFromFresh, Action::Approve(approval)) => {
            if let Some(quote) = fresh_quote(approval) {
                forget_quote(&mut state.held, approval.id, &quote);
            }
        }
        (PlantedBug::FloorFromFresh, Action::OpenStep(order)) => {
            let Quote::Trade(quote) = order.quote.clone() else { return };
            forget_quote(&mut state.executing, order.id, &quote);
            let Some(trade) = trade_of(state, order.id) else { return };
            let (chain, kept) = (trade.chain, 10_000 - u64::from(trade.slippage.0));
            let least = quote.out.0 * U256::from(kept) / U256::from(10_000);
            forge_swap(chain, order, &|_committed| least, &|deadline| deadline);
        }
        (PlantedBug::FloorFromFresh, Action::OrderPermit(order)) => {
            forget_quote(&mut state.executing, order.id, &order.quote);
        }
        (PlantedBug::SlippageTwice, Action::OpenStep(order)) => {
            let Some(trade) = trade_of(state, order.id) else { return };
            let (chain, kept) = (trade.chain, 10_000 - u64::from(trade.slippage.0));
            let least = |least: U256| least * U256::from(kept) / U256::from(10_000);
            forge_swap(chain, order, &least, &|deadline| deadline);
        }
        (PlantedBug::LocalDeadline, Action::OpenStep(order)) => {
            let Some(trade) = trade_of(state, order.id) else { return };
            let chain = trade.chain;
            let seconds = Contracts::of(chain).exchange.deadline_seconds;
            let deadline = |_chain_time: U256| U256::from(now + seconds);
            forge_swap(chain, order, &|least| least, &deadline);
        }
        (PlantedBug::UnlimitedApproval, Action::OpenStep(order))
            if order.purpose == StepPurpose::Allowance && order.quote.trade().is_some() =>
        {
            order.call.data = forge::approval_of(&order.call.data, U256::MAX);
        }
        (PlantedBug::AllowanceShared, Action::OpenStep(order))
            if order.purpose == StepPurpose::Allowance =>
        {
            // The approval looks as if the second plan had approved its own input after this one.
            if let Some(amount) = other_amount(state, order.id) {
                order.call.data = forge::approval_of(&order.call.data, amount);
            }
        }
        (PlantedBug::FillFromQuote, Action::EndExecution { id, end, .. }) => {
            let out =
                execution_of(state, *id).and_then(|execution| Some(execution.quote.trade()?.out));
            if let ExecutionEnd::Executed { received, .. } = &mut **end
                && out.is_some()
            {
                *received = out;
            }
        }
        (PlantedBug::FeeUncounted, Action::EndExecution { fee, .. }) => *fee = Some(U256::ZERO),
        (PlantedBug::RepeatExecuted, Action::Recall(recall)) => recall.prior.newest = None,
        (PlantedBug::RepeatExecuted, Action::Ask(ask)) if matches!(ask.ask, LaneAsk::Trade(_)) => {
            ask.prior.newest = None;
        }
        (PlantedBug::KeylessRepeated, Action::Recall(recall))
            if recall.identity.is_by_content() =>
        {
            recall.prior.newest = None;
        }
        (PlantedBug::KeylessRepeated, Action::Ask(ask))
            if ask.identity.is_by_content() && !matches!(ask.ask, LaneAsk::Payment(_)) =>
        {
            ask.prior.newest = None;
        }
        (PlantedBug::HookAutomatic, action) => {
            if let Some(hooks) = hooks_of(state, action) {
                for record in Arc::make_mut(&mut state.policies).values_mut() {
                    let trading = &mut Arc::make_mut(record).policy.trading;
                    trading.hooks = [hooks].into_iter().collect();
                }
            }
        }
        (PlantedBug::ValueByOutput, action) => {
            change_each_quote(action, |quote| quote.value_in = quote.value_out.or(quote.value_in));
        }
        (PlantedBug::FloorWithoutGas, action) => {
            change_each_quote(action, |quote| quote.plan_cost = U256::ZERO);
        }
        _other => {}
    }
}

/// Changes the output of a decision.
pub(crate) fn change_output(plant: PlantedBug, command: &Command, decision: &mut Decision) {
    if plant == PlantedBug::SwapAfterThaw && matches!(command.action, Action::Freeze) {
        // The plans are not stopped, so they continue after the thaw.
        decision.events.retain(|event| {
            !matches!(
                event,
                Event::ExecutionEnded { .. }
                    | Event::StepEnded { .. }
                    | Event::PlanClosed { .. }
                    | Event::Outbox { .. }
            )
        });
    }
}

/// Changes the state after an event.
pub(crate) fn change_state(
    plant: PlantedBug,
    state: &mut State,
    before: Option<&Request>,
    event: &Event,
) {
    match (plant, event) {
        (PlantedBug::VolumeTwice, Event::ExecutionEnded { .. }) => {
            let reserved = execution(before).map_or(Usd::ZERO, Execution::reserved);
            return_volume(state, before, reserved);
        }
        (PlantedBug::FailuresUncounted, Event::ExecutionEnded { .. }) => {
            let agent =
                before.and_then(|request| Arc::make_mut(&mut state.agents).get_mut(&request.agent));
            if let Some(agent) = agent {
                Arc::make_mut(agent).failed_plans = Default::default();
            }
        }
        (PlantedBug::VolumeTwice, Event::RequestDenied { .. } | Event::RequestExpired { .. }) => {
            let trade = before.and_then(Request::trade);
            let counted = trade.map_or(Usd::ZERO, |trade| trade.counted_value);
            return_volume(state, before, counted);
        }
        (PlantedBug::VolumeOfDisplaced, Event::StepEnded { outcome: Outcome::NonceTaken, .. }) => {
            let reserved = execution(before).map_or(Usd::ZERO, Execution::reserved);
            let swap = execution(before).and_then(Execution::open_step);
            if swap.is_some_and(|step| step.purpose == StepPurpose::Swap) {
                return_volume(state, before, reserved);
            }
        }
        _other => {}
    }
}

/// Returns the input of another plan of the same address and token.
fn other_amount(state: &State, id: RequestId) -> Option<U256> {
    let own = state.executing.get(&id)?;
    let token = own.trade()?.token_in.address;
    let key = |request: &Request| outbox_key(request.ask.chain(), request.from);
    let others = state.executing.values().filter(|other| {
        let same = other.trade().is_some_and(|trade| trade.token_in.address == token);
        other.id != id && same && key(other) == key(own)
    });
    others.filter_map(|other| Some(other.trade()?.amount_in.0)).next()
}

fn return_volume(state: &mut State, before: Option<&Request>, amount: Usd) {
    let Some(agent) = before.map(|request| &request.agent) else { return };
    if let Some(agent) = Arc::make_mut(&mut state.agents).get_mut(agent)
        && let Some(given) = &mut Arc::make_mut(agent).commission
    {
        let spent = &mut given.window.spent.trade;
        *spent = spent.left_after(amount);
    }
}

fn execution(request: Option<&Request>) -> Option<&Execution> {
    request.and_then(Request::execution)
}

fn fresh_quote(approval: &Approval) -> Option<TradeQuote> {
    approval.quote.plan()?.trade().cloned()
}

type Requests = Arc<std::collections::BTreeMap<RequestId, Arc<Request>>>;

/// Replaces the quote at the request by the newest quote, so that the trade is measured only against that one.
fn forget_quote(requests: &mut Requests, id: RequestId, quote: &TradeQuote) {
    let Some(request) = Arc::make_mut(requests).get_mut(&id) else { return };
    let request = Arc::make_mut(request);
    if let LaneAsk::Trade(trade) = &mut request.ask {
        trade.quote = quote.clone();
    }
    if let Status::Executing(execution) = &mut request.status {
        execution.floor = Atoms::default();
    }
}

fn trade_of(state: &State, id: RequestId) -> Option<&TradeAsk> {
    state.executing.get(&id).and_then(|request| request.trade())
}

fn execution_of(state: &State, id: RequestId) -> Option<&Execution> {
    state.executing.get(&id).and_then(|request| request.execution())
}

fn forge_swap(
    chain: bursar_core::networks::ChainId,
    order: &mut StepOrder,
    least: &dyn Fn(U256) -> U256,
    deadline: &dyn Fn(U256) -> U256,
) {
    if order.purpose == StepPurpose::Swap {
        let forged = forge::ForgedTerms { least, deadline };
        order.call.data =
            forge::swap(&Contracts::of(chain), order.call.to, &order.call.data, &forged);
    }
}

fn hooks_of(state: &State, action: &Action) -> Option<alloy_primitives::Address> {
    let trade = match action {
        Action::Ask(ask) => match &ask.ask {
            LaneAsk::Trade(trade) => Some(&**trade),
            LaneAsk::Payment(_) | LaneAsk::Loan(_) => None,
        },
        Action::OpenStep(order) => trade_of(state, order.id),
        Action::OrderPermit(order) => trade_of(state, order.id),
        _other => None,
    };
    match trade?.venue {
        Venue::V4 { hooks, .. } => Some(hooks),
        Venue::Wrap | Venue::Unwrap | Venue::V3 { .. } | Venue::V3Path { .. } => None,
    }
}

fn change_each_quote(action: &mut Action, change: impl Fn(&mut TradeQuote)) {
    match action {
        Action::Ask(ask) => {
            if let LaneAsk::Trade(trade) = &mut ask.ask {
                change(&mut trade.quote);
            }
        }
        Action::Approve(approval) => {
            if let Requote::Plan(Quote::Trade(quote)) = &mut approval.quote {
                change(quote);
            }
        }
        Action::OpenStep(order) => {
            if let Quote::Trade(quote) = &mut order.quote {
                change(quote);
            }
        }
        Action::OrderPermit(order) => change(&mut order.quote),
        _other => {}
    }
}
