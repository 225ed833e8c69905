//! The order in which plans act: only one plan acts at a time for each address and network.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_submit::OutboxKey;

use crate::approval::may_work;
use crate::plan::{Execution, outbox_key};
use crate::requests::Request;
use crate::state::State;

/// Returns the outbox that a request's transactions pass through.
fn outbox_key_of(request: &Request) -> OutboxKey {
    outbox_key(request.ask.chain(), request.from)
}

/// Returns, for each address and network, the request whose plan may act now.
pub fn acting_plans(state: &State) -> BTreeMap<OutboxKey, &Arc<Request>> {
    let mut first: BTreeMap<OutboxKey, (Turn, &Arc<Request>)> = BTreeMap::new();
    for request in state.executing.values() {
        let Some(turn) = turn(state, request) else { continue };
        let slot = first.entry(outbox_key_of(request)).or_insert((turn, request));
        if turn < slot.0 {
            *slot = (turn, request);
        }
    }
    first.into_iter().map(|(key, (_turn, request))| (key, request)).collect()
}

/// Returns whether a plan may act now.
pub(crate) fn is_acting(state: &State, request: &Request) -> bool {
    acting_plans(state).get(&outbox_key_of(request)).is_some_and(|first| first.id == request.id)
}

/// The turn of a plan among the plans of its address and network; the smallest one acts.
///
/// A plan that has begun comes before all others, then the plan that was allowed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    waits: bool,
    started: u64,
}

/// Returns a plan's turn among the plans of its address and network; `None` if it blocks no other plan.
///
/// An ended plan revokes its allowance only while no other plan has begun, because the revocation would also remove
/// the allowance of that plan. The revocation of a stopped agent waits until the agent may work again.
fn turn(state: &State, request: &Request) -> Option<Turn> {
    let execution = request.execution()?;
    let agent = state.agents.get(&request.agent);
    let stopped = agent.is_some_and(|agent| may_work(state, agent).is_err());
    if stopped && is_idle_after_end(execution) {
        return None;
    }
    let begun = !execution.steps.is_empty() && !is_idle_after_end(execution);
    Some(Turn { waits: !begun, started: execution.started })
}

fn is_idle_after_end(execution: &Execution) -> bool {
    execution.end.is_some() && execution.open_step().is_none()
}
