//! The inputs with which the lanes judge a new request.

use alloy_primitives::Address;
use bursar_core::card::ByLane;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::time::Moment;

use crate::agents::Agent;
use crate::command::Command;
use crate::due::expiry_if_due;
use crate::state::State;

/// A new request's command, policy, address and queue.
pub(super) struct Intake<'a> {
    pub(super) state: &'a State,
    pub(super) command: &'a Command,
    /// The paying address.
    pub(super) from: Address,
    pub(super) policy: &'a Policy,
    pub(super) spent: ByLane<Usd>,
    pub(super) queue: &'a Queue,
}

/// The requests that wait for the operator or for a press on a device at this moment.
///
/// Expired holds reserve nothing, even before their expiry is recorded.
pub(super) struct Queue {
    pub(super) expired: Vec<RequestId>,
    /// Value that the agent's open requests reserve.
    pub(super) reserved: ByLane<Usd>,
    pub(super) count_of_agent: usize,
    pub(super) count_in_all: usize,
}

impl Queue {
    pub(super) fn now(state: &State, agent: &Agent, moment: &Moment) -> Self {
        let mut queue = Self {
            expired: Vec::new(),
            reserved: agent.reserved,
            count_of_agent: 0,
            count_in_all: 0,
        };
        for request in state.held.values() {
            let own = request.agent == agent.id;
            if expiry_if_due(request, moment).is_some() {
                queue.expired.push(request.id);
                if own {
                    let reserved = queue.reserved.of_mut(request.ask.lane());
                    *reserved = reserved.left_after(request.ask.usd());
                }
            } else {
                queue.count_in_all = queue.count_in_all.saturating_add(1);
                queue.count_of_agent = queue.count_of_agent.saturating_add(usize::from(own));
            }
        }
        let plans = state.plans_at_device();
        for request in state.waiting.values().chain(plans.filter(|one| one.is_running())) {
            queue.count_in_all = queue.count_in_all.saturating_add(1);
            queue.count_of_agent =
                queue.count_of_agent.saturating_add(usize::from(request.agent == agent.id));
        }
        queue
    }
}
