//! The operator's labels of payees.

use std::sync::Arc;

use bursar_core::payee_label::PayeeLabel;

use crate::payee::Payee;
use crate::state::State;

/// Gives a payee a label, or removes it.
pub(super) fn name(state: &mut State, payee: Payee, label: Option<&PayeeLabel>) {
    let names = Arc::make_mut(&mut state.payee_names);
    match label {
        Some(label) => names.insert(payee, label.clone()),
        None => names.remove(&payee),
    };
}
