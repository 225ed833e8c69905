//! Compares the differences between our facilitator's answers and a reference's with a list.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;
use serde_json::Value;

/// A field that is not in an answer.
pub(crate) const ABSENT: &str = "(absent)";
/// An address written with or without the upper-case letters of its checksum.
pub(crate) const MIXED_CASE: &str = "(address in mixed case)";
pub(crate) const LOWER_CASE: &str = "(address in lower case)";
/// Any hash of 32 bytes.
pub(crate) const HASH: &str = "(hash)";
/// Any sentence for people.
pub(crate) const TEXT: &str = "(text)";

/// A field in which the answers to a case differ, and the reason.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) case: &'static str,
    pub(crate) field: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) reason: &'static str,
}

pub(crate) const fn differs(
    case: &'static str,
    field: &'static str,
    theirs: &'static str,
    ours: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { case, field, theirs, ours, reason }
}

/// Stands for a case: matches every pair of answers with these two values of the field.
pub(crate) const EVERY_CASE: &str = "every pair of answers with these values";

pub(crate) const REASON_ADDRESS_SPELLING: &str =
    "Addresses are compared by value. Ours are in lower case, theirs as they were sent.";
pub(crate) const REASON_NEXT_STEP: &str =
    "We add what to do next. The field is optional in the protocol.";
pub(crate) const REASON_SPECIFIED_NAME: &str =
    "The specification of this facilitator names the code.";
pub(crate) const REASON_ENVELOPE_FIRST: &str =
    "We compare the envelope before we read the payload. The field is optional.";
pub(crate) const REASON_PAYER_OMITTED: &str = "We leave the field out instead of an empty address.";
pub(crate) const REASON_SETTLED_ONCE: &str =
    "A payment is settled once. The code tells a repeat from a payment that would fail.";
pub(crate) const REASON_REPEAT_FINDS: &str =
    "A repeat of the same request finds the transaction that settled it.";

/// An answer's fields by their path. Addresses, hashes and sentences are replaced by their kind.
pub(crate) type Fields = BTreeMap<String, String>;

pub(crate) fn fields(status: u16, answer: &Value) -> Fields {
    let mut found = Fields::from([("(status)".to_owned(), status.to_string())]);
    collect("", answer, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut Fields) {
    if let Value::Object(members) = value {
        for (name, value) in members {
            let dot = if path.is_empty() { "" } else { "." };
            collect(&format!("{path}{dot}{name}"), value, found);
        }
        return;
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let kind = match text.parse::<Address>() {
        Ok(_address) if text == text.to_lowercase() => Some(LOWER_CASE),
        Ok(_address) => Some(MIXED_CASE),
        Err(_other) if text.len() == 66 && text.starts_with("0x") => Some(HASH),
        Err(_other) if path.ends_with("Message") && !text.is_empty() => Some(TEXT),
        Err(_other) => None,
    };
    let text = kind.map_or(text, str::to_owned);
    found.insert(path.to_owned(), text);
}

/// A differing field: its path, the reference's value and ours.
type FieldDifference = [String; 3];

fn differences(theirs: &Fields, ours: &Fields) -> BTreeSet<FieldDifference> {
    let value = |of: &Fields, name: &str| of.get(name).map_or(ABSENT, String::as_str).to_owned();
    let names = theirs.keys().chain(ours.keys());
    let all = names.map(|name| [name.clone(), value(theirs, name), value(ours, name)]);
    all.filter(|[_name, theirs, ours]| theirs != ours).collect()
}

/// The listed differences of a case.
fn listed_differences(
    rows: &[Difference],
    case: &str,
    found: &BTreeSet<FieldDifference>,
) -> BTreeSet<FieldDifference> {
    let everywhere = |row: &Difference| {
        row.case == EVERY_CASE
            && found.contains(&[row.field, row.theirs, row.ours].map(str::to_owned))
    };
    let rows = rows.iter().filter(|row| row.case == case || everywhere(row));
    rows.map(|row| [row.field, row.theirs, row.ours].map(str::to_owned)).collect()
}

/// Asserts that the answers to each case, the reference's first, differ as listed, and that each listed case exists.
pub(crate) fn assert_differ_as_listed(answers: &[(String, [Fields; 2])], rows: &[Difference]) {
    let mut wrong = Vec::new();
    for (case, [theirs, ours]) in answers {
        let found = differences(theirs, ours);
        let listed = listed_differences(rows, case, &found);
        if found != listed {
            wrong.push(format!("{case}: {found:#?} instead of {listed:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for row in rows {
        let is_known =
            row.case == EVERY_CASE || answers.iter().any(|(case, _answers)| case == row.case);
        assert!(is_known && !row.reason.is_empty(), "{row:?}");
    }
}
