//! Reports mandates whose terms no longer hold.

use bursar_control::answers::CheckAnswer;
use bursar_domain::State;
use bursar_domain::mandate_terms::stale_reasons;
use bursar_domain::mandates::Purpose;

use crate::operator::support::mandate_status::registry_label;

const CHECK: &str = "mandates";

/// Describes the signed mandates; `None` if there are none.
pub(super) fn check(state: &State) -> Option<CheckAnswer> {
    still_published(state).or_else(|| stale(state))
}

/// Reports limits that a registry publishes although the operator retired them.
fn still_published(state: &State) -> Option<CheckAnswer> {
    let mandates = &state.mandates;
    let mut agents = mandates.registrations.keys();
    let (agent, base) = agents.find_map(|agent| {
        let registration = mandates.published_after_retirement(agent).next()?;
        Some((agent, &registration.base))
    })?;
    let host = registry_label(base);
    let advice = match state.settings.registry.as_ref() == Some(base) {
        true => format!("replace its limits there: bursar mandate retire {agent}"),
        false => format!("set registry.url to {host}, then: bursar mandate retire {agent}"),
    };
    let finding = format!("{agent}: retired here, still published at {host}");
    Some(CheckAnswer::warn(CHECK, finding, advice))
}

fn stale(state: &State) -> Option<CheckAnswer> {
    let signed = state.mandates.signed.values();
    let granted = signed.filter(|signed| signed.issued.purpose == Purpose::Grant);
    let granted: Vec<_> = granted.map(|signed| (signed, stale_reasons(state, signed))).collect();
    let stale = granted.iter().filter(|(_signed, reasons)| !reasons.is_empty());
    let stale: Vec<_> = stale.collect();
    let Some((first, reasons)) = stale.first() else {
        let count = granted.len();
        return (count > 0).then(|| CheckAnswer::ok(CHECK, format!("{count} in force")));
    };
    let agent = &first.issued.draft.terms.agent;
    let finding =
        format!("{} of {} stale: {agent} ({})", stale.len(), granted.len(), reasons.join("; "));
    let advice = match state.agents.contains_key(agent) {
        true => format!("sign one with the present terms: bursar mandate create {agent}"),
        false => format!("withdraw its limits: bursar mandate retire {agent}"),
    };
    Some(CheckAnswer::warn(CHECK, finding, advice))
}
