//! Reserves, spends and renews the allowances of agents. Sums saturate, because `decide` has already checked the
//! limits.

use bursar_core::card::Lane;
use bursar_core::ids::AgentId;
use bursar_core::money::Usd;

use super::agents;
use crate::allowance::{Window, WindowStart};
use crate::state::State;

pub(super) fn renew(state: &mut State, agent: &AgentId, start: &WindowStart) {
    change_window(state, agent, |window| *window = Window::unspent(start.clone()));
}

pub(super) fn reserve(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    agents::change(state, agent, |agent| {
        let reserved = agent.reserved.of_mut(lane);
        *reserved = Usd(reserved.0.saturating_add(usd.0));
    });
}

pub(super) fn unreserve(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    agents::change(state, agent, |agent| {
        let reserved = agent.reserved.of_mut(lane);
        *reserved = reserved.left_after(usd);
    });
}

pub(super) fn spend(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    state.unattended.spend(usd);
    count_volume(state, agent, lane, usd);
}

pub(super) fn count_volume(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    change_window(state, agent, |window| {
        let spent = window.spent.of_mut(lane);
        *spent = Usd(spent.0.saturating_add(usd.0));
    });
}

/// Counts a supply or a withdrawal.
pub(super) fn count_operation(state: &mut State, agent: &AgentId) {
    change_window(state, agent, |window| window.operations = window.operations.saturating_add(1));
}

fn change_window(state: &mut State, agent: &AgentId, change: impl FnOnce(&mut Window)) {
    agents::change(state, agent, |agent| {
        if let Some(commission) = &mut agent.commission {
            change(&mut commission.window);
        }
    });
}
