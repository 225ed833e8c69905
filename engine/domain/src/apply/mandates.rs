//! Mandates: issued, signed, ended.

use std::sync::Arc;

use bursar_core::ids::AgentId;
use bursar_core::time::Utc;
use bursar_mandate::{MandateId, RegistryRefusal};
use bursar_x402::signature::Signature65;

use crate::mandates::{IssuedMandate, MandateEvent, Mandates, SignedMandate};
use crate::registrations::{Confirmed, Publication, Registration, Upload, UploadEnd};
use crate::state::State;

pub(super) fn apply(state: &mut State, event: &MandateEvent, at: Utc) {
    match event {
        MandateEvent::Issued(issued) => issue(state, issued),
        MandateEvent::Signed { id, signature, .. } => sign(state, *id, signature, at),
        MandateEvent::Ended { id, .. } => end(state, *id),
        MandateEvent::UploadBegun(upload) => begin_upload(state, upload),
        MandateEvent::UploadEnded { upload, end } => end_upload(state, upload, end, at),
    }
}

/// Adds a mandate to sign. The ids of policy versions that exist no longer are forgotten.
fn issue(state: &mut State, issued: &IssuedMandate) {
    let kept: Vec<u64> = state.policies.values().map(|record| record.serial).collect();
    let terms = &issued.draft.terms;
    let mandates = Arc::make_mut(&mut state.mandates);
    mandates.policy_ids.insert(issued.serial, terms.policy_id);
    mandates.policy_ids.retain(|serial, _id| kept.contains(serial));
    mandates.unsigned.insert(terms.agent.clone(), Arc::new(issued.clone()));
}

/// Puts a mandate in force, unless the signature is not its own.
fn sign(state: &mut State, id: MandateId, signature: &Signature65, at: Utc) {
    let mandates = Arc::make_mut(&mut state.mandates);
    let Some(issued) = mandates.find_unsigned(id).filter(|one| one.is_signed_by(signature)) else {
        return;
    };
    let (agent, issued) = (issued.draft.terms.agent.clone(), (**issued).clone());
    mandates.unsigned.remove(&agent);
    let signed = SignedMandate { issued, signature: *signature, at };
    mandates.signed.insert(agent, Arc::new(signed));
}

/// Removes a mandate that is not signed.
fn end(state: &mut State, id: MandateId) {
    Arc::make_mut(&mut state.mandates).unsigned.retain(|_agent, issued| issued.draft.id != id);
}

/// Records that the registry may have the agent's newest signed mandate.
fn begin_upload(state: &mut State, upload: &Upload) {
    let mandates = Arc::make_mut(&mut state.mandates);
    let newest = mandates.signed.get(&upload.agent);
    let Some(signed) = newest.filter(|signed| signed.issued.draft.id == upload.id) else { return };
    let issued = signed.issued.clone();
    let all = mandates.registrations.entry(upload.agent.clone()).or_default();
    let known = match all.iter().position(|one| one.base == upload.base) {
        Some(known) => known,
        None => {
            all.push(Registration { base: upload.base.clone(), publications: Vec::new() });
            all.len().saturating_sub(1)
        }
    };
    let Some(known) = all.get_mut(known) else { return };
    match known.publications.iter_mut().find(|one| one.id() == upload.id) {
        Some(publication) => publication.attempts = publication.attempts.saturating_add(1),
        None => known.publications.push(Publication {
            issued: Arc::new(issued),
            attempts: 1,
            last_confirmed: None,
        }),
    }
}

/// Records the registry's answer about a mandate.
fn end_upload(state: &mut State, upload: &Upload, end: &UploadEnd, at: Utc) {
    let mandates = Arc::make_mut(&mut state.mandates);
    let Some(all) = mandates.registrations.get_mut(&upload.agent) else { return };
    let Some(known) = all.iter_mut().find(|one| one.base == upload.base) else { return };
    let Some(publication) = known.publications.iter_mut().find(|one| one.id() == upload.id) else {
        return;
    };
    let is_gone = match end {
        UploadEnd::Published(entry) => {
            publication.attempts = 0;
            publication.last_confirmed = Some(Confirmed { entry: entry.clone(), at });
            false
        }
        UploadEnd::Absent => true,
        // A refusal of the mandate itself also holds for earlier attempts; any other refusal holds for this one.
        UploadEnd::Refused(refusal) => {
            publication.attempts = publication.attempts.saturating_sub(1);
            let is_known = publication.attempts > 0 || publication.last_confirmed.is_some();
            !(matches!(refusal, RegistryRefusal::Other(_)) && is_known)
        }
    };
    if is_gone {
        known.publications.retain(|one| one.id() != upload.id);
    }
    all.retain(|one| !one.publications.is_empty());
}

/// Doubts every confirmation of a journal that was accepted or restored: later answers of the registries are lost.
fn doubt_publications(state: &mut State) {
    let mandates = Arc::make_mut(&mut state.mandates);
    let all = mandates.registrations.values_mut().flatten();
    for publication in all.flat_map(|one| one.publications.iter_mut()) {
        publication.attempts = publication.attempts.max(1);
    }
}

/// Removes the unsigned mandate of a deleted agent. A signed one stays, because it can still be retired.
pub(super) fn forget_unsigned(state: &mut State, agent: &AgentId) {
    if state.mandates.unsigned.contains_key(agent) {
        Arc::make_mut(&mut state.mandates).unsigned.remove(agent);
    }
}

/// Removes what a journal that was accepted or restored no longer shows: unsigned mandates, and the answers of registries.
pub(super) fn doubt(state: &mut State) {
    Arc::make_mut(&mut state.mandates).unsigned.clear();
    doubt_publications(state);
}

/// Removes all mandates, because the wallet was deleted.
pub(super) fn clear(state: &mut State) {
    state.mandates = Arc::new(Mandates::default());
}
