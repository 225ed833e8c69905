//! The domains that the host lists allow.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_domain::PaymentAsk;
use serde_json::Value;

use crate::support::clock::Clock;
use crate::support::{Answer, World, build};
use build::{ordinary, payment, policy};

fn urls(request: Option<&str>, resource: Option<&str>) -> PaymentAsk {
    let own = |url: Option<&str>| url.map(str::to_owned);
    PaymentAsk { request_url: own(request), resource_url: own(resource), ..payment(1) }
}

fn listed(allowed: &[&str], blocked: &[&str]) -> World {
    let mut policy = policy();
    policy.payments.hosts = build::hosts(allowed, blocked);
    build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy)
}

const INSIDE: Option<&str> = Some("https://api.good.example/x");
const OUTSIDE: Option<&str> = Some("https://else.example/x");
const BLOCKED: Option<&str> = Some("https://www.bad.example/x");

#[test]
fn a_blocked_domain_is_refused_at_every_amount_in_either_place() {
    for mut world in [listed(&[], &["bad.example"]), listed(&["good.example"], &["bad.example"])] {
        for (request, resource) in
            [(BLOCKED, INSIDE), (INSIDE, BLOCKED), (BLOCKED, None), (None, BLOCKED)]
        {
            assert_eq!(world.refuses(urls(request, resource)).code, Code::DomainNotAllowed);
        }
        world.signs(urls(INSIDE, INSIDE));
    }
}

#[test]
fn the_block_list_wins_over_the_allow_list() {
    let mut world = listed(&["bad.example"], &["www.bad.example"]);
    assert_eq!(world.refuses(urls(BLOCKED, BLOCKED)).code, Code::DomainNotAllowed);
    world.signs(urls(Some("https://bad.example/"), None));
}

#[test]
fn outside_the_allow_list_is_refused_at_every_amount() {
    let mut world = listed(&["good.example"], &[]);
    for (request, resource) in
        [(OUTSIDE, INSIDE), (OUTSIDE, OUTSIDE), (OUTSIDE, None), (None, OUTSIDE)]
    {
        assert_eq!(world.refuses(urls(request, resource)).code, Code::DomainNotAllowed);
    }
    world.signs(urls(INSIDE, None));
    world.signs(urls(None, INSIDE));
}

#[test]
fn only_the_resource_outside_asks_the_operator_even_below_the_threshold() {
    let mut world = listed(&["good.example"], &[]);
    let answer = world.ask(urls(INSIDE, OUTSIDE));
    assert_eq!(answer.held_for(), Some(HoldReason::ResourceOutsideAllowList));
}

#[test]
fn with_lists_a_url_is_required_and_without_lists_none() {
    let mut world = listed(&[], &["bad.example"]);
    for nothing in [None, Some("")] {
        assert_eq!(world.refuses(urls(nothing, nothing)).code, Code::DomainUrlRequired);
    }
    ordinary().signs(urls(None, None));
}

#[test]
fn url_pairs_are_decided_as_the_vectors_specify() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/domain-matching.json");
    let text = std::fs::read_to_string(path).expect("the vectors are there");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let pairs = file["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 10);
    for (place, row) in pairs.iter().enumerate() {
        let list = |key: &str| -> Vec<&str> {
            row[key].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
        };
        let mut world = listed(&list("allowed"), &list("blocked"));
        let answer = world.ask(urls(row["request_url"].as_str(), row["resource_url"].as_str()));
        let word = match &answer {
            Answer::Signs(_) => "allow",
            Answer::Holds(_, HoldReason::ResourceOutsideAllowList) => "hold",
            Answer::Refuses(..) => "deny",
            other => panic!("pair {place}: {other:?}"),
        };
        assert_eq!(Some(word), row["expect"].as_str(), "pair {place}");
        let url_required = answer.code() == Some(Code::DomainUrlRequired);
        let named = row["note"].as_str().is_some_and(|note| note.contains("DOMAIN_URL_REQUIRED"));
        assert_eq!(url_required, named, "pair {place}");
    }
}
