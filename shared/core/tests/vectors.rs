//! The handbook's vectors, read from `tests/vectors`. Fails if a file is missing or has fewer cases than its README
//! says, and names every failing case.

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

/// The depth limit of a request body.
const BODY_DEPTH_MAX: usize = 127;

fn rows(path: &str, table: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file[table].as_array().unwrap().clone()
}

/// Collects failures, so that one run names every failing case.
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
fn accepted_vectors_canonicalize_as_in_python() {
    let cases = rows(CANONICAL, "cases");
    let mut failures = Failures::default();
    let (mut accepted, mut refused) = (0, 0);
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let read = parse(&wire(case), BODY_DEPTH_MAX);
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

/// Every HMAC of the file matches the text next to it.
///
/// For accepted cases that is our canonical text. Cases that we refuse but Python accepts (a lone surrogate, a
/// duplicate key) are checked with Python's text.
#[test]
fn vector_hmacs_match_their_canonical_texts() {
    let mut failures = Failures::default();
    let mut seen = 0;
    for case in rows(CANONICAL, "cases") {
        let Some(wanted) = case["hmac_sha256"].as_str() else { continue };
        seen += 1;
        let id = case["id"].as_str().unwrap();
        let text = match (case["advice"].as_str(), parse(&wire(&case), BODY_DEPTH_MAX)) {
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
fn compact_form_of_every_vector_parses_to_the_same_value() {
    let mut failures = Failures::default();
    for case in rows(CANONICAL, "cases") {
        if let Ok(value) = parse(&wire(&case), BODY_DEPTH_MAX) {
            let again = parse(value.to_compact().as_bytes(), BODY_DEPTH_MAX);
            failures.check(case["id"].as_str().unwrap(), again, Ok(value));
        }
    }
    failures.assert_none();
}

#[test]
fn url_vectors_get_the_expected_verdict() {
    let cases = rows(DOMAINS, "cases");
    let mut failures = Failures::default();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let url = case["url"].as_str().unwrap();
        let verdict = match lists(case).check(url) {
            HostVerdict::Allowed => "allow",
            HostVerdict::Blocked | HostVerdict::NotAllowed => "deny",
            HostVerdict::Invalid => "invalid",
        };
        failures.check(id, verdict, case["expect"].as_str().unwrap());
        failures.check(id, host_of(url).ok().as_deref(), case["host"].as_str());
    }
    failures.assert_none();
    assert_eq!(cases.len(), 123);
}

/// Each `deny` vector has the reason that follows from the lists alone.
///
/// The reason is `Blocked` if a host is on the block list, otherwise `NotAllowed`.
#[test]
fn the_block_list_takes_precedence_as_the_reason() {
    let mut failures = Failures::default();
    for case in rows(DOMAINS, "cases").iter().filter(|case| case["expect"] == "deny") {
        let mut lists = lists(case);
        let verdict = lists.check(case["url"].as_str().unwrap());
        lists.allowed.clear();
        let by_block_list = lists.check(case["url"].as_str().unwrap()) == HostVerdict::Blocked;
        let wanted = if by_block_list { HostVerdict::Blocked } else { HostVerdict::NotAllowed };
        failures.check(case["id"].as_str().unwrap(), verdict, wanted);
    }
    failures.assert_none();
}

#[test]
fn host_entry_vectors_are_normalized_or_refused() {
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
fn url_pair_vectors_pass_are_held_or_are_refused() {
    let pairs = rows(DOMAINS, "pairs");
    let mut failures = Failures::default();
    for (place, row) in pairs.iter().enumerate() {
        let (request, resource) = (row["request_url"].as_str(), row["resource_url"].as_str());
        let verdict = lists(row).check_pair(request, resource);
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
