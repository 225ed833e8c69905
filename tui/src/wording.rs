//! Words for people in place of codes. A payment that needs the operator's decision is "waiting" as a request and
//! "held" as an event. On the wire it stays `pending`, and `payment.held` in the journal.

/// Returns the word for a request's status.
pub(crate) fn status(code: &str) -> &str {
    match code {
        "pending" => "waiting",
        same => same,
    }
}

/// Returns the words for a journal entry's kind, like `policy set`.
pub(crate) fn kind(code: &str) -> String {
    match code {
        "payment.held" => "payment held".to_owned(),
        "tx.trouble" => "transaction delayed".to_owned(),
        "tx.waits_again" => "transaction left its block".to_owned(),
        other => match other.strip_prefix("tx.") {
            Some(what) => format!("transaction {}", what.replace('_', " ")),
            None => other.replace(['.', '_'], " "),
        },
    }
}

/// Returns the words for a rehearsal's verdict: what a policy would do.
pub(crate) fn verdict(code: &str) -> &str {
    match code {
        "act" => "paid without asking",
        "hold" => "needs your approval",
        "refuse" => "refused",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_is_shown_as_waiting_and_codes_as_words() {
        assert_eq!((status("pending"), status("denied")), ("waiting", "denied"));
        assert_eq!((verdict("hold"), verdict("refuse")), ("needs your approval", "refused"));
        assert_eq!(kind("payment.held"), "payment held");
        assert_eq!(kind("tx.cancel_wanted"), "transaction cancel wanted");
        assert_eq!(kind("agent.credential_replaced"), "agent credential replaced");
    }
}
