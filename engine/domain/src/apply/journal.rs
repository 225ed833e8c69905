//! Accepting an untrusted journal, and restoring a journal from a backup.

use std::sync::Arc;

use bursar_core::card::Lane;
use bursar_core::time::Utc;

use super::{mandates, payments};
use crate::allowance::{Window, WindowStart};
use crate::state::State;

/// Drops the unsigned transactions, authorizations and mandates of an accepted journal.
pub(super) fn accept(state: &mut State, at: Utc) {
    state.noted_entry = 0;
    Arc::make_mut(&mut state.outboxes).drop_unsigned(at);
    payments::drop_unsigned(state);
    mandates::doubt(state);
}

/// Counts the day's allowances as spent, because spending since the backup is unknown.
///
/// Reservations of held requests need no change: those requests have ended.
pub(super) fn restore(state: &mut State, start: &WindowStart, at: Utc) {
    state.restored = Some(at);
    mandates::doubt(state);
    state.unattended.begin(start.clone());
    state.unattended.spend_all();
    let policies = Arc::clone(&state.policies);
    for agent in Arc::make_mut(&mut state.agents).values_mut() {
        let agent = Arc::make_mut(agent);
        agent.failed_plans.use_up(at);
        let Some(commission) = &mut agent.commission else { continue };
        let policy = policies.get(&commission.policy.key());
        let daily = policy.map(|record| record.policy.daily()).unwrap_or_default();
        let window = &mut commission.window;
        if start.day > window.start.day {
            *window = Window::unspent(start.clone());
        }
        for lane in Lane::ALL {
            let spent = window.spent.of_mut(lane);
            *spent = (*spent).max(*daily.of(lane));
        }
        let operations = policy.map_or(0, |record| record.policy.lending.operations_per_day);
        window.operations = window.operations.max(operations);
    }
}
