//! Work that is due at a moment: ending expired holds and renewing allowances.

use bursar_core::card::ByLane;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::time::Moment;

use crate::agents::{Agent, Commission};
use crate::allowance::Renewal;
use crate::deadline::Deadline;
use crate::event::Event;
use crate::requests::Request;
use crate::state::State;

/// Returns the event that expires a held request.
pub(crate) fn expiry(id: RequestId, moment: &Moment) -> Event {
    Event::RequestExpired { id, repeatable_until: Deadline::after(moment) }
}

/// Returns the event that ends a held request, if its deadline has passed.
pub(crate) fn expiry_if_due(request: &Request, moment: &Moment) -> Option<Event> {
    request.is_hold_over(moment).then(|| expiry(request.id, moment))
}

/// Returns the event that starts the next day of the limit on unattended spending, if one is due.
///
/// Once the first day has begun, days also begin while a person has opened the wallet. So a clock that is set back finds
/// no earlier day with room left.
pub(crate) fn unattended_day_if_due(state: &State, moment: &Moment) -> Option<Event> {
    let counts = state.unattended.active || state.unattended.day.is_some();
    if counts { state.unattended.day_to_begin(moment) } else { None }
}

/// Returns the renewals of all allowances that are due.
pub(crate) fn renewals(state: &State, moment: &Moment) -> Vec<Event> {
    let given = state.agents.values().filter_map(|agent| Some((agent, agent.commission.as_ref()?)));
    given.flat_map(|(agent, commission)| renewal_if_due(agent, commission, moment).0).collect()
}

/// Returns the renewal event if one is due, and the amounts that then count as spent.
pub(crate) fn renewal_if_due(
    agent: &Agent,
    commission: &Commission,
    moment: &Moment,
) -> (Vec<Event>, ByLane<Usd>) {
    match commission.window.start.renewal(moment) {
        Renewal::Renew(start) => {
            (vec![Event::AllowanceRenewed { agent: agent.id.clone(), start }], ByLane::default())
        }
        Renewal::Keep | Renewal::HeldBack(_) => (Vec::new(), commission.window.spent),
    }
}
