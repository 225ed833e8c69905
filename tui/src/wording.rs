//! Words for people in place of codes, such as "waiting" for the status `pending`, and "payment held" for the journal
//! entry `payment.held`.

use bursar_control::answers::VenueTrust;
use bursar_core::card::Lane;
use bursar_core::status::{EntryKind, PolicyVerdict, RequestStatus};

/// Returns the word for a request's status.
pub(crate) fn status(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Pending => "waiting",
        RequestStatus::AwaitingDevice => "waits for the Ledger",
        RequestStatus::NotSigned => "not signed",
        other => other.text(),
    }
}

/// Returns the words for a journal entry's kind, such as `policy set`.
pub(crate) fn kind(kind: EntryKind) -> String {
    if kind == EntryKind::TxTrouble {
        return "transaction delayed".to_owned();
    }
    if kind == EntryKind::TxWaitsAgain {
        return "transaction left its block".to_owned();
    }
    match kind.text().strip_prefix("tx.") {
        Some(what) => format!("transaction {}", what.replace('_', " ")),
        None => kind.text().replace(['.', '_'], " "),
    }
}

/// Returns the words for a rehearsal's verdict, which states what a policy would do.
pub(crate) fn verdict(lane: Lane, verdict: PolicyVerdict) -> &'static str {
    match (verdict, lane) {
        (PolicyVerdict::Act, Lane::Payment) => "paid without asking",
        (PolicyVerdict::Act, Lane::Trade | Lane::Loan) => "executed without asking",
        (PolicyVerdict::Hold, _) => "needs your approval",
        (PolicyVerdict::Refuse, _) => "refused",
    }
}

/// Returns the word for the trust in a venue.
pub(crate) fn trust(trust: VenueTrust) -> &'static str {
    match trust {
        VenueTrust::Curated => "curated",
        VenueTrust::Pinned => "pinned",
        VenueTrust::Confirmed => "yours",
        VenueTrust::New => "new",
        VenueTrust::Changed => "changed",
        VenueTrust::Refused => "refused",
    }
}

/// Returns a command as it is typed in a shell.
pub(crate) fn in_shell(command: &str) -> String {
    format!("bursar {command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_is_shown_as_waiting_and_codes_as_words() {
        assert_eq!(status(RequestStatus::Pending), "waiting");
        assert_eq!(status(RequestStatus::Denied), "denied");
        assert_eq!(kind(EntryKind::PaymentHeld), "payment held");
        assert_eq!(kind(EntryKind::TxCancelWanted), "transaction cancel wanted");
        assert_eq!(kind(EntryKind::TxTrouble), "transaction delayed");
        assert_eq!(kind(EntryKind::AgentCredentialReplaced), "agent credential replaced");
    }
}
