//! The status of an agent's mandate.

use bursar_chain::ports::EndpointLabel;
use bursar_control::answers::{MandateStatus, PublicationAnswer, RegistrationAnswer};
use bursar_core::ids::AgentId;
use bursar_core::text;
use bursar_domain::State;
use bursar_domain::mandate_terms::stale_reasons;
use bursar_domain::mandates::{Purpose, SignedMandate};
use bursar_domain::registrations::Publication;
use url::Url;

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
        let agent = &signed.issued.draft.terms.agent;
        let is_published = state.mandates.published_after_retirement(agent).next().is_some();
        let status = match is_published {
            true => MandateStatus::RetiredPublished,
            false => MandateStatus::Retired,
        };
        return (status, Vec::new());
    }
    let reasons = stale_reasons(state, signed);
    let status = if reasons.is_empty() { MandateStatus::InForce } else { MandateStatus::Stale };
    (status, reasons)
}

/// Returns scheme, host and port of a registry: its path and query may hold a key.
pub(crate) fn registry_label(base: &str) -> String {
    let url: Option<Url> = base.parse().ok();
    url.map_or_else(|| "the registry".to_owned(), |url| EndpointLabel::of(&url).to_string())
}

/// Describes the registries to which mandates of an agent were sent.
pub(crate) fn registrations(state: &State, agent: &AgentId) -> Vec<RegistrationAnswer> {
    let newest = state.mandates.signed.get(agent).map(|signed| signed.issued.draft.id);
    let publication = |one: &Publication| PublicationAnswer {
        mandate: one.id().to_string(),
        is_newest: newest == Some(one.id()),
        signer: one.issued.draft.terms.wallet.to_checksum(None),
        confirmed: one.confirmed().map(|known| text::utc(known.at)),
        registry_id: one.confirmed().map(|known| known.entry.id.clone()),
        url: one.confirmed().and_then(|known| known.entry.url.clone()),
    };
    let all = state.mandates.registrations(agent).iter();
    let all = all.map(|one| RegistrationAnswer {
        registry: registry_label(&one.base),
        is_set: state.settings.registry.as_ref() == Some(&one.base),
        mandates: one.publications.iter().map(publication).collect(),
    });
    all.collect()
}
