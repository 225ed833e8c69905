//! Agents: registered, commissioned, changed and deleted.

use std::sync::Arc;

use bursar_core::card::ByLane;
use bursar_core::ids::{AgentId, Name};
use bursar_core::time::Utc;

use super::mandates;
use crate::agents::{Agent, Commission, Credential, FailedPlans, Refusals, Usage};
use crate::allowance::{Window, WindowStart};
use crate::state::State;

/// Changes an agent, if it exists.
pub(super) fn change(state: &mut State, id: &AgentId, change: impl FnOnce(&mut Agent)) {
    if let Some(agent) = Arc::make_mut(&mut state.agents).get_mut(id) {
        change(Arc::make_mut(agent));
    }
}

pub(super) fn register(
    state: &mut State,
    id: &AgentId,
    name: &Name,
    credential: &Credential,
    at: Utc,
) {
    let agent = Agent {
        id: id.clone(),
        name: name.clone(),
        credential: credential.clone(),
        created: at,
        suspended: false,
        commission: None,
        reserved: ByLane::default(),
        refusals: Refusals::default(),
        open_payments: 0,
        usage: Usage::default(),
        failed_plans: FailedPlans::default(),
    };
    Arc::make_mut(&mut state.agents).insert(id.clone(), Arc::new(agent));
}

/// Gives an agent a policy and an address. A running allowance continues; without one, `start` begins the first.
pub(super) fn commission(
    state: &mut State,
    id: &AgentId,
    policy: &Name,
    label: &Name,
    start: Option<&WindowStart>,
) {
    let restored = state.restored;
    let given = state.policies.get(&policy.key());
    let daily = given.map(|record| record.policy.daily());
    let operations = given.map_or(0, |record| record.policy.lending.operations_per_day);
    change(state, id, |agent| {
        let running = agent.commission.take().map(|given| given.window);
        let first = start.map(|start| {
            // A backup was restored after this allowance began, so the agent's spending may be missing: count the day
            // as spent.
            let lost = restored.is_some_and(|at| at >= start.utc && at >= agent.created);
            let spent = daily.filter(|_limits| lost).unwrap_or_default();
            let operations = if lost { operations } else { 0 };
            Window { start: start.clone(), spent, operations }
        });
        agent.commission = running.or(first).map(|window| Commission {
            policy: policy.clone(),
            label: label.clone(),
            window,
        });
    });
}

pub(super) fn delete(state: &mut State, id: &AgentId) {
    Arc::make_mut(&mut state.retired).insert(id.clone());
    Arc::make_mut(&mut state.agents).remove(id);
    mandates::forget_unsigned(state, id);
}
