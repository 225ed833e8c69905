//! The status of an agent's mandate.

use bursar_control::answers::MandateStatus;
use bursar_core::ids::AgentId;
use bursar_domain::State;
use bursar_domain::mandate_terms::stale_reasons;
use bursar_domain::mandates::{Purpose, SignedMandate};

/// Returns the status of an agent's newest mandate; `None` without one.
pub(crate) fn status(state: &State, agent: &AgentId) -> Option<MandateStatus> {
    match state.mandates.signed.get(agent) {
        Some(signed) => Some(signed_status(state, signed).0),
        None => state.mandates.unsigned.get(agent).map(|_open| MandateStatus::Unsigned),
    }
}

/// Returns the status of a signed mandate, and why it is stale.
pub(crate) fn signed_status(
    state: &State,
    signed: &SignedMandate,
) -> (MandateStatus, Vec<&'static str>) {
    if signed.issued.purpose == Purpose::Retirement {
        return (MandateStatus::Retired, Vec::new());
    }
    let reasons = stale_reasons(state, signed);
    let status = if reasons.is_empty() { MandateStatus::InForce } else { MandateStatus::Stale };
    (status, reasons)
}
