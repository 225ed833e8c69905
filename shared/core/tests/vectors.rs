//! The vectors of the handbook, read as they lie in `tests/vectors`. A file that is missing or
//! shorter than its README says fails; every failing case is named.

#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bursar_core::canonical::to_python;
use bursar_core::hosts::{HostEntry, HostLists, HostRefusal, HostVerdict, PairVerdict, host_of};
use bursar_core::json::parse;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

const CANONICAL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/python-canonical-json.json");
const DOMAINS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/domain-matching.json");

/// The bound of a request body.
const DEPTH: usize = 127;

fn rows(path: &str, table: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file[table].as_array().unwrap().clone()
}

/// Collects what went wrong, so that one run names every failing case.
#[derive(Default)]
struct Failures(String);

impl Failures {
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, id: &str, got: T, wanted: T) {
        if got != wanted {
            writeln!(self.0, "{id}: got {got:?}, wanted {wanted:?}").unwrap();
        }
    }

    fn assert_none(self) {
        assert!(self.0.is_empty(), "failing cases:\n{}", self.0);
    }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn lists(row: &Value) -> HostLists {
    let read = |list: &Value| {
        texts(list).into_iter().map(|text| HostEntry::parse(text).unwrap()).collect()
    };
    HostLists { allowed: read(&row["allowed"]), blocked: read(&row["blocked"]) }
}

fn wire(case: &Value) -> Vec<u8> {
    match case["wire"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => BASE64_STANDARD.decode(case["wire_b64"].as_str().unwrap()).unwrap(),
    }
}

#[test]
fn what_the_vectors_accept_is_canonical_as_python_writes_it() {
    let cases = rows(CANONICAL, "cases");
    let mut failures = Failures::default();
    let (mut accepted, mut refused) = (0, 0);
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let read = parse(&wire(case), DEPTH);
        match case["advice"].as_str().unwrap() {
            "accept" => {
                accepted += 1;
                let text = read.map(|value| to_python(&value)).map_err(|e| e.to_string());
                failures.check(id, text, Ok(case["python"].as_str().unwrap().to_owned()));
            }
            "reject" => {
                refused += 1;
                failures.check(id, read.is_err(), true);
            }
            other => failures.check(id, other, "accept or reject"),
        }
    }
    failures.assert_none();
    assert_eq!((cases.len(), accepted, refused), (371, 318, 53));
}

/// Every HMAC of the file belongs to the text beside it. For what we accept the text is our own;
/// what we refuse but Python takes (a lone surrogate, a key twice) is checked with Python's text.
#[test]
fn the_hmac_of_every_canonical_text_agrees() {
    let mut failures = Failures::default();
    let mut seen = 0;
    for case in rows(CANONICAL, "cases") {
        let Some(wanted) = case["hmac_sha256"].as_str() else { continue };
        seen += 1;
        let id = case["id"].as_str().unwrap();
        let text = match (case["advice"].as_str(), parse(&wire(&case), DEPTH)) {
            (Some("accept"), Ok(value)) => to_python(&value),
            _ => case["python"].as_str().unwrap().to_owned(),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(b"vector-shared-secret-0001").unwrap();
        mac.update(text.as_bytes());
        failures.check(id, hex::encode(mac.finalize().into_bytes()), wanted.to_owned());
    }
    failures.assert_none();
    assert_eq!(seen, 341);
}

#[test]
fn a_value_written_compactly_is_still_the_same_message() {
    let mut failures = Failures::default();
    for case in rows(CANONICAL, "cases") {
        if let Ok(value) = parse(&wire(&case), DEPTH) {
            let again = parse(value.to_compact().as_bytes(), DEPTH);
            failures.check(case["id"].as_str().unwrap(), again, Ok(value));
        }
    }
    failures.assert_none();
}

#[test]
fn every_url_of_the_vectors_is_judged_as_they_say() {
    let cases = rows(DOMAINS, "cases");
    let mut failures = Failures::default();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let url = case["url"].as_str().unwrap();
        let verdict = match lists(case).judge(url) {
            HostVerdict::Allowed => "allow",
            HostVerdict::Blocked | HostVerdict::NotAllowed => "deny",
            HostVerdict::Invalid => "invalid",
        };
        failures.check(id, verdict, case["expect"].as_str().unwrap());
        failures.check(id, host_of(url).ok().as_deref(), case["host"].as_str());
    }
    failures.assert_none();
    assert_eq!(cases.len(), 119);
}

/// A `deny` of the vectors names its reason by the lists alone: with a host on the block list it is
/// `Blocked`, without one it is `NotAllowed`.
#[test]
fn the_block_list_is_named_as_the_reason_before_the_allow_list() {
    let mut failures = Failures::default();
    for case in rows(DOMAINS, "cases").iter().filter(|case| case["expect"] == "deny") {
        let mut lists = lists(case);
        let verdict = lists.judge(case["url"].as_str().unwrap());
        lists.allowed.clear();
        let by_block_list = lists.judge(case["url"].as_str().unwrap()) == HostVerdict::Blocked;
        let wanted = if by_block_list { HostVerdict::Blocked } else { HostVerdict::NotAllowed };
        failures.check(case["id"].as_str().unwrap(), verdict, wanted);
    }
    failures.assert_none();
}

#[test]
fn every_entry_of_the_vectors_is_kept_or_refused() {
    let entries = rows(DOMAINS, "entries");
    let mut failures = Failures::default();
    for row in &entries {
        let entry = row["entry"].as_str().unwrap();
        let kept = HostEntry::parse(entry).ok();
        failures.check(entry, kept.as_ref().map(HostEntry::as_str), row["canonical"].as_str());
    }
    failures.assert_none();
    assert_eq!(entries.len(), 21);
}

#[test]
fn every_pair_of_the_vectors_passes_is_held_or_is_refused() {
    let pairs = rows(DOMAINS, "pairs");
    let mut failures = Failures::default();
    for (place, row) in pairs.iter().enumerate() {
        let (request, resource) = (row["request_url"].as_str(), row["resource_url"].as_str());
        let verdict = lists(row).judge_pair(request, resource);
        let word = match verdict {
            PairVerdict::Pass => "allow",
            PairVerdict::Hold => "hold",
            PairVerdict::Refuse(_) => "deny",
        };
        let id = format!("pair {place} ({request:?}, {resource:?})");
        failures.check(&id, word, row["expect"].as_str().unwrap());
        let url_required = verdict == PairVerdict::Refuse(HostRefusal::UrlRequired);
        let named = row["note"].as_str().unwrap().contains("DOMAIN_URL_REQUIRED");
        failures.check(&id, url_required, named);
    }
    failures.assert_none();
    assert_eq!(pairs.len(), 10);
}
