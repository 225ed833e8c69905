//! The domains that the host lists allow.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_domain::PaymentAsk;
use serde_json::Value;

use crate::support::clock::Clock;
use crate::support::{Answer, World, build};
use build::{ordinary_world, payment, policy};

fn payment_with_urls(request: Option<&str>, resource: Option<&str>) -> PaymentAsk {
    let own = |url: Option<&str>| url.map(str::to_owned);
    PaymentAsk { request_url: own(request), resource_url: own(resource), ..payment(1) }
}

fn world_with_lists(allowed: &[&str], blocked: &[&str]) -> World {
    let mut policy = policy();
    policy.payments.hosts = build::hosts(allowed, blocked);
    build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy)
}

const ALLOWED_URL: Option<&str> = Some("https://api.good.example/x");
const UNLISTED_URL: Option<&str> = Some("https://else.example/x");
const BLOCKED_URL: Option<&str> = Some("https://www.bad.example/x");

#[test]
fn a_blocked_domain_is_refused_at_every_amount_in_either_place() {
    for mut world in [
        world_with_lists(&[], &["bad.example"]),
        world_with_lists(&["good.example"], &["bad.example"]),
    ] {
        for (request, resource) in [
            (BLOCKED_URL, ALLOWED_URL),
            (ALLOWED_URL, BLOCKED_URL),
            (BLOCKED_URL, None),
            (None, BLOCKED_URL),
        ] {
            assert_eq!(
                world.refuses(payment_with_urls(request, resource)).code,
                Code::DomainNotAllowed
            );
        }
        world.signs(payment_with_urls(ALLOWED_URL, ALLOWED_URL));
    }
}

#[test]
fn the_block_list_wins_over_the_allow_list() {
    let mut world = world_with_lists(&["bad.example"], &["www.bad.example"]);
    assert_eq!(
        world.refuses(payment_with_urls(BLOCKED_URL, BLOCKED_URL)).code,
        Code::DomainNotAllowed
    );
    world.signs(payment_with_urls(Some("https://bad.example/"), None));
}

#[test]
fn outside_the_allow_list_is_refused_at_every_amount() {
    let mut world = world_with_lists(&["good.example"], &[]);
    for (request, resource) in [
        (UNLISTED_URL, ALLOWED_URL),
        (UNLISTED_URL, UNLISTED_URL),
        (UNLISTED_URL, None),
        (None, UNLISTED_URL),
    ] {
        assert_eq!(
            world.refuses(payment_with_urls(request, resource)).code,
            Code::DomainNotAllowed
        );
    }
    world.signs(payment_with_urls(ALLOWED_URL, None));
    world.signs(payment_with_urls(None, ALLOWED_URL));
}

#[test]
fn only_the_resource_outside_asks_the_operator_even_below_the_threshold() {
    let mut world = world_with_lists(&["good.example"], &[]);
    let answer = world.ask(payment_with_urls(ALLOWED_URL, UNLISTED_URL));
    assert_eq!(answer.hold_reason(), Some(HoldReason::ResourceOutsideAllowList));
}

#[test]
fn with_lists_a_url_is_required_and_without_lists_none() {
    let mut world = world_with_lists(&[], &["bad.example"]);
    for nothing in [None, Some("")] {
        assert_eq!(
            world.refuses(payment_with_urls(nothing, nothing)).code,
            Code::DomainUrlRequired
        );
    }
    ordinary_world().signs(payment_with_urls(None, None));
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
        let mut world = world_with_lists(&list("allowed"), &list("blocked"));
        let answer =
            world.ask(payment_with_urls(row["request_url"].as_str(), row["resource_url"].as_str()));
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
