//! The operator's labels of payees.

use bursar_core::codes::Code;
use bursar_core::payee_label::PayeeLabel;

use crate::cards::own_label;
use crate::command::Command;
use crate::decision::{Decision, require_unlocked};
use crate::event::Event;
use crate::payee::Payee;
use crate::refusal::Refusal;
use crate::state::State;

/// Maximum number of labelled payees, because every snapshot copies all of them.
const LABELS_MAX: usize = 1_000;

/// Records a label, or removes it.
///
/// A label shows the operator where money goes, so the wallet must be unlocked.
///
/// # Errors
/// `NAME_TAKEN` if the payee has another label, or if a reader may mistake the label for another one. `IN_USE` if the
/// payee is an address of this wallet, or if [`LABELS_MAX`] payees have labels. `NOTHING_FOUND` if the payee to forget
/// has no label.
pub(super) fn name(
    state: &State,
    command: &Command,
    payee: Payee,
    label: Option<&PayeeLabel>,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let Some(label) = label else { return forget(state, payee) };
    if let Some(own) = own_label(state, payee.address) {
        let message = format!("This is an address of your wallet, labelled {own}.");
        return Err(Refusal::because(Code::InUse, message));
    }
    match state.payee_names.get(&payee) {
        Some(known) if known == label => return Ok(Decision::done(Vec::new())),
        Some(known) => {
            let message = format!("This payee is named \"{known}\": forget that name first.");
            return Err(Refusal::because(Code::NameTaken, message));
        }
        None => {}
    }
    let others = state.payee_names.iter().filter(|(other, _label)| other.address != payee.address);
    let own = state.wallet.iter().flat_map(|wallet| wallet.addresses.values());
    let taken = others
        .map(|(_payee, label)| label.as_str())
        .chain(own.map(|known| known.label.as_str()))
        .find(|taken| label.looks_like(taken));
    if let Some(taken) = taken {
        let message = format!("It can be mistaken for \"{taken}\", the name of another address.");
        return Err(Refusal::because(Code::NameTaken, message));
    }
    if state.payee_names.len() >= LABELS_MAX {
        let message = format!("There are {LABELS_MAX} names: forget one first.");
        return Err(Refusal::because(Code::InUse, message));
    }
    Ok(Decision::done(vec![Event::PayeeNamed { payee, label: Some(label.clone()) }]))
}

fn forget(state: &State, payee: Payee) -> Result<Decision, Refusal> {
    if !state.payee_names.contains_key(&payee) {
        let message = "This payee has no name: see `payee list`.";
        return Err(Refusal::because(Code::NothingFound, message));
    }
    Ok(Decision::done(vec![Event::PayeeNamed { payee, label: None }]))
}
