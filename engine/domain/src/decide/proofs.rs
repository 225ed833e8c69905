//! Proofs of receipts: an anchor and a statement are recorded before anything is signed.

use bursar_core::codes::Code;

use crate::command::Command;
use crate::decision::{Decision, Effect, require_sealed};
use crate::event::Event;
use crate::proofs::{ProofAction, ProofEvent, Statement};
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn decide(
    state: &State,
    command: &Command,
    action: &ProofAction,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    match action {
        ProofAction::Anchor(anchor) if anchor.through > state.seq => {
            Err(Refusal::because(Code::InternalError, "The anchor names an entry of the future."))
        }
        ProofAction::Anchor(anchor) => {
            Ok(Decision::done(vec![Event::Proof(ProofEvent::Anchored(*anchor))]))
        }
        ProofAction::State(statement) => state_receipt(state, statement),
    }
}

/// Permits the signature of a statement by an address of the wallet.
fn state_receipt(state: &State, statement: &Statement) -> Result<Decision, Refusal> {
    let mut addresses = state.wallet.iter().flat_map(|wallet| wallet.addresses.values());
    if !addresses.any(|known| known.address == statement.signer) {
        let message = "The wallet no longer has the paying address, so its key cannot sign.";
        return Err(Refusal::because(Code::NothingFound, message));
    }
    let event = Event::Proof(ProofEvent::Stated(Box::new(statement.clone())));
    let effects = vec![Effect::SignStatement(Box::new(statement.clone()))];
    Ok(Decision { effects, ..Decision::done(vec![event]) })
}
