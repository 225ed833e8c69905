//! Uploads of mandates to a registry: recorded before anything is sent, ended by the registry's answer.

use bursar_core::codes::Code;
use bursar_mandate::AgentMember;

use crate::command::Command;
use crate::decision::{Decision, require_sealed};
use crate::event::Event;
use crate::mandate_terms::stale_reasons;
use crate::mandates::{MandateEvent, Purpose, SignedMandate};
use crate::refusal::Refusal;
use crate::registrations::{Upload, UploadEnd};
use crate::state::State;

/// Records that the agent's newest signed mandate is going to the registry.
pub(super) fn begin(
    state: &State,
    command: &Command,
    upload: &Upload,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let newest = state.mandates.signed.get(&upload.agent);
    let Some(signed) = newest.filter(|signed| signed.issued.draft.id == upload.id) else {
        let message = "The agent has a newer mandate: run the command again.";
        return Err(Refusal::because(Code::RequestNoLongerValid, message));
    };
    if state.settings.registry.as_ref() != Some(&upload.base) {
        let message = "registry.url was changed: run the command again.";
        return Err(Refusal::because(Code::RequestNoLongerValid, message));
    }
    if signed.issued.draft.agent_member == AgentMember::Code {
        let message = "A registry knows agents by agent.id, and the mandates of this edition name agent.code: they \
                       cannot be published.";
        return Err(Refusal::because(Code::BadInput, message));
    }
    if signed.issued.purpose == Purpose::Grant {
        require_current(state, signed)?;
    }
    Ok(Decision::done(vec![Event::Mandate(MandateEvent::UploadBegun(upload.clone()))]))
}

/// Limits are published only while they hold and the agent may work.
fn require_current(state: &State, signed: &SignedMandate) -> Result<(), Refusal> {
    if state.frozen.is_some() {
        return Err(Refusal::new(Code::AgentsFrozen));
    }
    let id = &signed.issued.draft.terms.agent;
    if state.agents.get(id).is_some_and(|agent| agent.suspended) {
        let message = format!("It is suspended: `agent resume {id}` first.");
        return Err(Refusal::because(Code::AgentSuspended, message));
    }
    if state.restored.is_some_and(|restored| signed.at <= restored) {
        let message = format!(
            "The journal was restored after this mandate was signed, and a later retirement is lost: \
             `mandate create {id} --new` signs another."
        );
        return Err(Refusal::because(Code::RequestNoLongerValid, message));
    }
    let reasons = stale_reasons(state, signed);
    if reasons.is_empty() {
        return Ok(());
    }
    let next = match state.agents.contains_key(id) {
        true => format!("`mandate create {id}` signs one with the present terms"),
        false => format!("`mandate retire {id}` signs one with limits of zero"),
    };
    let message = format!("The mandate is stale ({}): {next}.", reasons.join("; "));
    Err(Refusal::because(Code::RequestNoLongerValid, message))
}

/// Records the registry's answer about a mandate that was sent there. Any other answer changes nothing.
pub(super) fn end(
    state: &State,
    command: &Command,
    upload: &Upload,
    end: &UploadEnd,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let known = state.mandates.registrations(&upload.agent).iter();
    let mut there = known.filter(|one| one.base == upload.base);
    if !there.any(|one| one.find(upload.id).is_some()) {
        return Ok(Decision::done(Vec::new()));
    }
    let ended = MandateEvent::UploadEnded { upload: upload.clone(), end: end.clone() };
    Ok(Decision::done(vec![Event::Mandate(ended)]))
}
