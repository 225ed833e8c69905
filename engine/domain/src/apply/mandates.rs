//! Mandates: issued, signed, ended.

use std::sync::Arc;

use bursar_core::ids::AgentId;
use bursar_core::time::Utc;
use bursar_mandate::MandateId;
use bursar_x402::signature::Signature65;

use crate::mandates::{IssuedMandate, MandateEvent, Mandates, SignedMandate};
use crate::state::State;

pub(super) fn apply(state: &mut State, event: &MandateEvent, at: Utc) {
    match event {
        MandateEvent::Issued(issued) => issue(state, issued),
        MandateEvent::Signed { id, signature, .. } => sign(state, *id, signature, at),
        MandateEvent::Ended { id, .. } => end(state, *id),
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

/// Removes the unsigned mandate of a deleted agent. A signed one stays, because it can still be retired.
pub(super) fn forget_unsigned(state: &mut State, agent: &AgentId) {
    if state.mandates.unsigned.contains_key(agent) {
        Arc::make_mut(&mut state.mandates).unsigned.remove(agent);
    }
}

/// Removes all unsigned mandates of a journal that was accepted or restored.
pub(super) fn drop_unsigned(state: &mut State) {
    Arc::make_mut(&mut state.mandates).unsigned.clear();
}

/// Removes all mandates, because the wallet was deleted.
pub(super) fn clear(state: &mut State) {
    state.mandates = Arc::new(Mandates::default());
}
