//! A receipt in plain words, in the order of events. Programs read its JSON form with `--json`.

use bursar_control::answers::ReceiptAnswer;
use bursar_core::money::Usd;
use bursar_core::text::{host_note, quoted};
use serde_json::Value;

use crate::oneshot::sheet::{Sheet, quote_foreign, quote_shell_word};

/// The fields of the receipt's JSON form, with their names for people. All other fields except those in
/// [`HIDDEN_FIELDS`] follow under their JSON names.
const NAMES: [(&str, &str); 27] = [
    ("transactionId", "request"),
    ("timestamp", "asked"),
    ("status", "status"),
    ("rejection.reason", "because"),
    ("failure.reason", "because"),
    ("intent.agent.name", "agent"),
    ("intent.agent.id", "agent code"),
    ("payment.amount.formatted", "amount"),
    ("payment.amount.micro", "worth"),
    ("payment.recipient", "to"),
    ("payment.network", "network"),
    ("payment.asset", "token"),
    ("payment.requestUrl", "called"),
    ("payment.resource", "resource"),
    ("payment.otherResources", "and"),
    ("trade.formatted", "trade"),
    ("trade.network", "network"),
    ("trade.pool", "pool"),
    ("trade.minimumOut", "at least"),
    ("authorization.wallet.id", "from"),
    ("authorization.wallet.address", "address"),
    ("authorization.method", "allowed by"),
    ("authorization.authorizedAt", "allowed"),
    ("trade.txHash", "transaction"),
    ("settlement.txHash", "transaction"),
    ("settlement.settledAt", "settled"),
    ("settlement.verification", "on the chain"),
];

/// Fields that are not printed: they describe the form itself, or repeat the amount.
const HIDDEN_FIELDS: [&str; 4] = ["type", "version", "intent.type", "payment.amount.atomic"];

/// Columns of a value before it wraps. A whole hash takes 66 columns; with the longest name in [`NAMES`], 80 columns.
const WIDTH: usize = 66;

/// Shows a receipt of which only the form is known.
pub(super) fn form(to: &mut Sheet, form: &Value) {
    let answer =
        ReceiptAnswer { form: form.clone(), payee_name: None, refused: None, origins_only: false };
    rows(to, &answer);
}

pub(super) fn receipt(to: &mut Sheet, answer: &ReceiptAnswer) {
    rows(to, answer);
    next(to, answer);
}

fn rows(to: &mut Sheet, answer: &ReceiptAnswer) {
    let mut rest = Vec::new();
    flatten(&mut rest, "", &answer.form);
    let mut rows = Vec::new();
    for (path, name) in NAMES {
        let within = format!("{path}.");
        let is_shown = |at: &str| at == path || at.starts_with(&within);
        if rest.iter().any(|(at, _value)| is_shown(at)) {
            rest.retain(|(at, _value)| !is_shown(at));
            push(&mut rows, name, &describe_field(path, answer));
        }
    }
    rest.retain(|(at, _value)| !HIDDEN_FIELDS.contains(&at.as_str()));
    for (at, value) in &rest {
        push(&mut rows, at, &escape(value));
    }
    to.rows(&rows);
}

/// Adds a value in full, because only the receipt shows the whole request. The lines after the first are indented, so
/// that foreign text never begins in the column of our own names.
fn push<'a>(rows: &mut Vec<(&'a str, String)>, name: &'a str, value: &str) {
    let mut name = name;
    let mut chars = value.chars().peekable();
    loop {
        rows.push((name, chars.by_ref().take(WIDTH).collect()));
        name = "";
        if chars.peek().is_none() {
            return;
        }
    }
}

/// Prints the command that changes the limit which refused the payment, or a command that shows the policy.
fn next(to: &mut Sheet, answer: &ReceiptAnswer) {
    let Some(refused) = &answer.refused else { return };
    match (&refused.policy, &refused.option) {
        (Some(policy), Some(option)) => {
            let command = format!("bursar policy edit {} {option} <USD>", quote_shell_word(policy));
            to.next("To allow it", &command);
        }
        (Some(policy), None) => {
            to.next(
                "See the rules with",
                &format!("bursar policy show {}", quote_shell_word(policy)),
            );
        }
        (None, _) => {}
    }
}

fn value_at<'a>(receipt: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(receipt, |value, name| value.get(name).unwrap_or(&Value::Null))
}

fn describe_field(path: &str, answer: &ReceiptAnswer) -> String {
    let receipt = &answer.form;
    let value = value_at(receipt, path);
    match (path, value.as_str()) {
        ("rejection.reason", _) if let Some(refused) = &answer.refused => refused.why.clone(),
        // Without the note, a stored origin would look like the whole URL that was called.
        ("payment.requestUrl" | "payment.resource", Some(url)) => {
            let path = if answer.origins_only { "  (path not stored)" } else { "" };
            format!("{}{path}", with_host(url))
        }
        ("payment.otherResources", _) => {
            let urls = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            urls.map(with_host).collect::<Vec<_>>().join("  ")
        }
        ("status", Some(status)) => status_text(status),
        ("authorization.method", Some("auto")) => "the policy, without asking".to_owned(),
        ("authorization.method", Some("manual")) => "you".to_owned(),
        ("payment.amount.micro", _) => match value.as_u64() {
            Some(micro) => format!("{} USD", Usd(micro)),
            None => escape(value),
        },
        ("payment.recipient", Some(address)) => match &answer.payee_name {
            Some(name) => format!("{address}  {}", quote_foreign(name.as_str())),
            None => escape(value),
        },
        ("settlement.verification", _) => verification(value),
        _as_it_is => escape(value),
    }
}

/// Formats a URL, with its host if the text of the URL does not show the host.
fn with_host(url: &str) -> String {
    let host = host_note(url).map_or(String::new(), |note| format!("  ({note})"));
    format!("{}{host}", escape(&Value::from(url)))
}

/// Describes the status. Only a payment that the chain confirmed is called paid.
fn status_text(status: &str) -> String {
    match status {
        "payment-required" => "waiting for your decision",
        "payment-rejected" => "not paid",
        "payment-verified" => "signed, so it counts as spent; the outcome is not reported yet",
        "payment-submitted" => "sent, reported by the agent; not confirmed by the chain",
        "payment-refuted" => "refuted: the chain contradicts the agent's report",
        "payment-failed" => "failed",
        "payment-completed" => "paid, confirmed by the chain",
        "trade-executing" => "being executed",
        "trade-completed" => "executed: its swap is final",
        "trade-rejected" => "not swapped",
        "trade-failed" => "failed: reverted, or its effect is unknown",
        other => return escape(&Value::from(other)),
    }
    .to_owned()
}

fn verification(value: &Value) -> String {
    let block = value.get("block").and_then(Value::as_u64);
    let block = block.map_or(String::new(), |block| format!(" in block {block}"));
    let detail = value.get("detail").filter(|detail| detail.is_string());
    let detail = detail.map_or(String::new(), |detail| format!(": {}", escape(detail)));
    let found = match value.get("status").and_then(Value::as_str) {
        Some("verified") => "confirmed".to_owned(),
        Some("pending") => "being checked".to_owned(),
        Some("failed") => "not this payment".to_owned(),
        Some("not_found") => "not found".to_owned(),
        Some("unavailable") => "not checked".to_owned(),
        _other => escape(value.get("status").unwrap_or(&Value::Null)),
    };
    format!("{found}{block}{detail}")
}

fn flatten(rows: &mut Vec<(String, Value)>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(rows, &format!("{name}{dot}{field}"), value);
            }
        }
        Value::Null => {}
        known => rows.push((name.to_owned(), known.clone())),
    }
}

/// Quotes text that is not plain, because other people wrote the URLs and reasons.
fn escape(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.: /+".contains(c));
    if plain { text.clone() } else { quoted(text, usize::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(receipt: &Value) -> String {
        text_by(&ReceiptAnswer {
            form: receipt.clone(),
            payee_name: None,
            refused: None,
            origins_only: false,
        })
    }

    fn text_by(answer: &ReceiptAnswer) -> String {
        let mut sheet = Sheet::new();
        super::receipt(&mut sheet, answer);
        sheet.as_str().to_owned()
    }

    #[test]
    fn long_url_in_a_receipt_is_shown_whole_and_indented() {
        let url = format!("https://a.example/{}END", "x status paid, seen".repeat(50));
        let told = text_of(&json!({ "payment": { "requestUrl": url } }));
        let whole: String = told.lines().map(|line| line.get(8..).unwrap_or_default()).collect();
        assert_eq!(whole.replace(' ', ""), format!("\"{url}\"").replace(' ', ""));
        for (nth, line) in told.lines().enumerate() {
            assert!(
                line.chars().count() < 80 && (nth == 0 || line.starts_with("        ")),
                "{line}"
            );
        }
    }

    #[test]
    fn refused_url_in_a_receipt_is_marked_as_origin_only() {
        let form = json!({ "payment": { "requestUrl": "https://a.example", "resource": null } });
        for (origins_only, count) in [(true, 1), (false, 0)] {
            let told = text_by(&ReceiptAnswer {
                form: form.clone(),
                payee_name: None,
                refused: None,
                origins_only,
            });
            assert_eq!(told.matches("(path not stored)").count(), count, "{told}");
        }
    }

    #[test]
    fn receipt_status_is_in_words_and_paid_only_if_confirmed_by_the_chain() {
        for (status, verification, words) in [
            ("payment-required", None, "waiting for your decision"),
            ("payment-rejected", None, "not paid"),
            ("payment-verified", None, "signed, so it counts as spent"),
            ("payment-submitted", Some("pending"), "sent, reported by the agent; not confirmed"),
            ("payment-refuted", Some("not_found"), "refuted: the chain contradicts"),
            ("payment-failed", Some("failed"), "failed"),
            ("payment-completed", Some("verified"), "paid, confirmed by the chain"),
        ] {
            let seen = verification.map(|status| json!({ "status": status, "block": 7 }));
            let receipt = json!({ "status": status, "settlement": { "verification": seen } });
            let told = text_of(&receipt);
            assert!(told.contains(words) && !told.contains("payment-"), "{told}");
            assert_eq!(
                told.contains("confirmed in block 7"),
                verification == Some("verified"),
                "{told}"
            );
        }
    }

    #[test]
    fn receipt_fields_without_a_name_are_still_printed() {
        let told = text_of(&json!({ "type": "AP2Receipt", "intent": { "mandateId": "m-1" } }));
        assert!(told.contains("intent.mandateId  m-1") && !told.contains("AP2"), "{told}");
    }
}
