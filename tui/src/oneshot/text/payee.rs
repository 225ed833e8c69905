//! Names of payees.

use bursar_control::answers::PayeeAnswer;

use crate::oneshot::sheet::{Sheet, quote_foreign};

pub(super) fn payee(to: &mut Sheet, payee: &PayeeAnswer) {
    let PayeeAnswer { address, network_title, label, .. } = payee;
    match label {
        Some(label) => {
            let label = quote_foreign(label.as_str());
            to.line(&format!("{address} on {network_title} is shown as {label}."));
        }
        None => to.line(&format!("{address} on {network_title} has no name now.")),
    }
}

pub(super) fn payees(to: &mut Sheet, payees: &[PayeeAnswer]) {
    if payees.is_empty() {
        to.line("No payee has a name.");
        return to.next("Name one:", "bursar payee name <address> <name>");
    }
    let row = |payee: &PayeeAnswer| {
        let label =
            payee.label.as_ref().map_or(String::new(), |label| quote_foreign(label.as_str()));
        [label, payee.address.clone(), payee.network_title.clone()]
    };
    to.table(["NAME", "ADDRESS", "NETWORK"], &payees.iter().map(row).collect::<Vec<_>>());
}
