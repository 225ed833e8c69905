//! Answers about loans match the OpenAPI document: it describes all their keys, with the right types.

use bursar_engine::agent_api::openapi::document;
use bursar_engine::edition::Edition;
use bursar_tests::offers::BASE;
use serde_json::{Value, json};

use crate::loans::stage::{MANUAL, Stage};

/// Returns a difference between a value and its schema in the document, or `None` if they match.
fn difference(all: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().expect("a name");
        return difference(all, &all[name], value).map(|what| format!("{name}: {what}"));
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let tried: Option<Vec<String>> =
            choices.iter().map(|choice| difference(all, choice, value)).collect();
        return tried.map(|all| all.join("; "));
    }
    if !is_of_type(&schema["type"], value) {
        return Some(format!("{value} is not of type {}", schema["type"]));
    }
    let allowed = schema["enum"].as_array().is_none_or(|all| all.contains(value));
    if !allowed || schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{value} is not allowed"));
    }
    let items = value.as_array().into_iter().flatten();
    if let Some(what) =
        items.map(|item| difference(all, &schema["items"], item)).find_map(|one| one)
    {
        return Some(what);
    }
    let (Some(object), Some(fields)) = (value.as_object(), schema["properties"].as_object()) else {
        return None;
    };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut missing = required.filter(|name| !object.contains_key(*name));
    if let Some(name) = missing.next() {
        return Some(format!("{name} is missing"));
    }
    object.iter().find_map(|(name, value)| match fields.get(name) {
        None => Some(format!("{name} is not described")),
        Some(field) => difference(all, field, value).map(|what| format!("{name}: {what}")),
    })
}

fn is_of_type(kind: &Value, value: &Value) -> bool {
    match kind {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(|kind| is_of_type(kind, value)),
        kind => match kind.as_str().expect("a type") {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            // Amounts of shares exceed 64 bits, and the test's JSON reader turns them into floats.
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other}"),
        },
    }
}

fn assert_described(name: &str, value: &Value) {
    let document = document(&Edition::full());
    let all = &document["components"]["schemas"];
    let found = difference(all, &all[name], value);
    assert_eq!(found, None, "{name}: {value:#}");
}

/// Checks the answers about venues, about limits, and about a request from its approval to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_about_loans_are_described() {
    let Some(mut stage) = Stage::on(BASE, MANUAL).await else { return };
    let venue = stage.contracts.lending.vaults()[0].to_checksum(None);
    let venues = stage.venues().await;
    assert_described("Venues", &venues);
    let kinds = venues["venues"].as_array().expect("a list").iter();
    let kinds: Vec<&Value> = kinds.map(|venue| &venue["kind"]).collect();
    assert!(kinds.contains(&&json!("vault")) && kinds.contains(&&json!("market")), "{kinds:?}");

    let (status, pending) = stage.supply(&venue, 1_000).await;
    assert_eq!(status, 202, "{pending}");
    assert_described("PositionResult", &pending);
    assert_described("PositionOpen", &stage.poll(&pending).await);
    stage.approve_held().await;
    let end = stage.end_of(&pending).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_described("PositionResult", &end);

    // Requests beyond the limit, for an unknown network, and without an amount.
    let (status, refused) = stage.supply(&venue, 2_001).await;
    assert_eq!((status, &refused["reason_code"]), (400, &json!("PER_DEPOSIT_EXCEEDED")));
    assert_described("PositionResult", &refused);
    let mut elsewhere = stage.request("supply", &venue);
    elsewhere["chain_id"] = json!(1);
    let (status, refused) = stage.request_position(&elsewhere).await;
    assert_eq!((status, &refused["code"]), (400, &json!("UNSUPPORTED_NETWORK")));
    assert_described("PositionResult", &refused);
    let bare = stage.request("supply", &venue);
    let (status, refused) = stage.request_position(&bare).await;
    assert_eq!((status, &refused["code"]), (400, &json!("BAD_REQUEST")));
    assert_described("Error", &refused);

    let mandate = stage.mandate().await;
    assert!(mandate["policy"]["morpho"]["deployed_usd"].is_number(), "{mandate}");
    assert_described("LendingPolicy", &mandate["policy"]["morpho"]);
    assert_described("Mandate", &mandate);
    assert_described("Venues", &stage.venues().await);
}

/// If a venue has no free money, the answer marks the request as retryable, and contains the time of the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_venue_is_answered_as_described() {
    let Some(mut stage) = Stage::on(BASE, crate::loans::stage::AUTOMATIC).await else { return };
    let venue = stage.contracts.lending.vaults()[0].to_checksum(None);
    let (status, answer) = stage.supply(&venue, 1_000).await;
    assert_eq!(status, 200, "{answer}");
    let market = stage.chain.loan_market().expect("a market");
    stage.chain.drain_market(&market, 0).await.expect("drained");
    let (status, dry) = stage.withdraw_all(&venue).await;
    assert_eq!((status, &dry["code"]), (503, &json!("INSUFFICIENT_LIQUIDITY")), "{dry}");
    assert_eq!((&dry["retryable"], &dry["retry_after"]), (&json!(true), &json!(60)));
    assert_described("PositionResult", &dry);
    assert_described("PositionPolled", &stage.poll(&dry).await);
}
