//! Agents and merchants that lie about the payment's destination: every vector through `/sign`.

use bursar_control::card_text;
use bursar_core::hosts::{HostEntry, HostLists};
use bursar_core::ids::Name;
use bursar_domain::Action;
use bursar_tests::agent::Agent;
use bursar_tests::engine::TestEngine;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::threats::stage::{
    POLICY, authorized_count, cases, engine_with, offer_with, unlimited_in_memory, vectors,
};

/// Sets the policy's host lists directly: some entries of the vectors cannot be typed on a command line.
async fn set_lists(engine: &TestEngine, case: &Value) {
    let name: Name = "p".parse().unwrap();
    let view = engine.engine.core().view();
    let mut policy = view.state.policy(&name).expect("the policy").policy.clone();
    let read = |list: &str| {
        let texts = case[list].as_array().unwrap().iter();
        texts.map(|text| HostEntry::parse(text.as_str().unwrap()).unwrap()).collect()
    };
    policy.payments.hosts = HostLists { allowed: read("allowed"), blocked: read("blocked") };
    let policy = Box::new(policy);
    engine.engine.core().act(Action::EditPolicy { name, policy }).await.expect("edited");
}

/// Asks with these two URLs; returns status and code.
async fn ask(
    engine: &TestEngine,
    agent: &Agent,
    n: usize,
    request: Option<&str>,
    resource: Option<&str>,
) -> (u16, String) {
    let header = offer_with(1_000, n, |offer| {
        offer["error"] = json!(format!("payment {n}"));
        match resource {
            Some(url) => offer["resource"]["url"] = json!(url),
            None => drop(offer.as_object_mut().unwrap().remove("resource")),
        }
    });
    let body = agent.ask(engine.now_s(), &header, request);
    let (status, answer) = engine.post("/sign", &body).await;
    (status, answer["code"].as_str().unwrap_or_default().to_owned())
}

/// A challenge may name a URL at its top and one in each offer; one blocked URL refuses it.
#[tokio::test]
async fn t_03_every_url_of_a_challenge_is_checked_and_shown() {
    const ALLOWED_URL: &str = "https://api.example.com/a";
    const UNLISTED_URL: &str = "https://elsewhere.test/b";
    const BLOCKED_URL: &str = "https://evil.example.com/c";
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let lists = json!({"allowed": ["example.com"], "blocked": ["evil.example.com"]});
    set_lists(&engine, &lists).await;
    let mut n = 0;
    for (request, top, own, second, wanted) in [
        (Some(ALLOWED_URL), ALLOWED_URL, ALLOWED_URL, ALLOWED_URL, (200, "")),
        (Some(ALLOWED_URL), ALLOWED_URL, UNLISTED_URL, ALLOWED_URL, (202, "APPROVAL_REQUIRED")),
        (Some(ALLOWED_URL), ALLOWED_URL, ALLOWED_URL, UNLISTED_URL, (202, "APPROVAL_REQUIRED")),
        (Some(ALLOWED_URL), UNLISTED_URL, ALLOWED_URL, ALLOWED_URL, (202, "APPROVAL_REQUIRED")),
        (Some(ALLOWED_URL), ALLOWED_URL, "no url", ALLOWED_URL, (202, "APPROVAL_REQUIRED")),
        (None, ALLOWED_URL, ALLOWED_URL, ALLOWED_URL, (200, "")),
        (None, ALLOWED_URL, UNLISTED_URL, ALLOWED_URL, (403, "DOMAIN_NOT_ALLOWED")),
        (None, ALLOWED_URL, ALLOWED_URL, UNLISTED_URL, (403, "DOMAIN_NOT_ALLOWED")),
        (None, ALLOWED_URL, ALLOWED_URL, "no url", (403, "DOMAIN_NOT_ALLOWED")),
        (Some(ALLOWED_URL), BLOCKED_URL, ALLOWED_URL, ALLOWED_URL, (403, "DOMAIN_NOT_ALLOWED")),
        (Some(ALLOWED_URL), ALLOWED_URL, BLOCKED_URL, ALLOWED_URL, (403, "DOMAIN_NOT_ALLOWED")),
        (Some(ALLOWED_URL), ALLOWED_URL, ALLOWED_URL, BLOCKED_URL, (403, "DOMAIN_NOT_ALLOWED")),
        (Some(ALLOWED_URL), ALLOWED_URL, UNLISTED_URL, BLOCKED_URL, (403, "DOMAIN_NOT_ALLOWED")),
    ] {
        for version in [1, 2] {
            n += 1;
            let header = offer_with(1_000, n, |offer| {
                offer["error"] = json!(format!("payment {n}"));
                offer["resource"] = json!({"url": top});
                let first = &mut offer["accepts"][0];
                first["resource"] = json!(own);
                if version == 1 {
                    first["maxAmountRequired"] = first["amount"].take();
                    first["network"] = json!("base");
                }
                let mut other = first.clone();
                other["resource"] = json!(second);
                offer["accepts"].as_array_mut().unwrap().push(other);
                offer["x402Version"] = json!(version);
            });
            let body = agent.ask(engine.now_s(), &header, request);
            let (status, answer) = engine.post("/sign", &body).await;
            let reply = (status, answer["code"].as_str().unwrap_or_default());
            assert_eq!(reply, wanted, "{version}: {request:?} {top} {own} {second}: {answer}");
            if status == 202 {
                let id = answer["request_id"].as_str().unwrap();
                let shown = engine.operator().must(&format!("receipt {id}")).await.data();
                let listed = engine.operator().must("requests").await.data();
                for url in [top, own, second] {
                    assert!(listed.to_string().contains(url), "{url}: {listed}");
                    assert!(shown.to_string().contains(url), "{url}: {shown}");
                }
                engine.operator().must(&format!("deny {id}")).await;
            }
        }
    }
    let header = offer_with(1_000, 99, |offer| {
        let first = offer["accepts"][0].clone();
        let each = (0..9).map(|n| {
            let mut one = first.clone();
            one["resource"] = json!(format!("https://api.example.com/{n}"));
            one
        });
        offer["accepts"] = each.collect::<Vec<_>>().into();
    });
    let (status, answer) =
        engine.post("/sign", &agent.ask(engine.now_s(), &header, Some(ALLOWED_URL))).await;
    assert_eq!((status, answer["code"].as_str()), (400, Some("INVALID_X402_FORMAT")), "{answer}");
}

#[tokio::test]
async fn t_03_both_urls_are_checked_against_the_host_lists() {
    let file = vectors("domain-matching.json");
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut signed = 0;
    for (n, pair) in cases(&file, "pairs", 10).iter().enumerate() {
        set_lists(&engine, pair).await;
        let (request, resource) = (pair["request_url"].as_str(), pair["resource_url"].as_str());
        let answer = ask(&engine, &agent, n, request, resource).await;
        let without_url = pair["note"].as_str().unwrap().contains("DOMAIN_URL_REQUIRED");
        let wanted = match pair["expect"].as_str().unwrap() {
            "allow" => (200, ""),
            "hold" => (202, "APPROVAL_REQUIRED"),
            "deny" if without_url => (403, "DOMAIN_URL_REQUIRED"),
            "deny" => (403, "DOMAIN_NOT_ALLOWED"),
            other => panic!("{other}"),
        };
        assert_eq!((answer.0, answer.1.as_str()), wanted, "{pair}");
        signed += usize::from(answer.0 == 200);
    }
    assert_eq!((signed, authorized_count(&engine)), (4, 4));
}

/// Both URLs are on the card that the operator approves.
#[tokio::test]
async fn t_03_the_operator_sees_both_urls() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 10 --txn 10 --auto 0", "hmac").await;
    let (mine, theirs) = ("https://shop.example/cart", "https://other.example/till");
    let answer = ask(&engine, &agent, 1, Some(mine), Some(theirs)).await;
    assert_eq!(answer.0, 202, "{answer:?}");
    let shown = engine.operator().must("requests").await;
    let bursar_control::answers::Answer::Requests { requests } = shown else { panic!("{shown:?}") };
    let lines = card_text::lines(requests[0].card.as_ref().expect("a card")).join("\n");
    for url in [mine, theirs] {
        assert!(lines.contains(url), "{url} is not on the card:\n{lines}");
    }
}

#[tokio::test]
async fn t_32_every_host_vector_gets_its_specified_decision() {
    let file = vectors("domain-matching.json");
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let (mut asked, mut signed) = (0, 0);
    for case in cases(&file, "cases", 123) {
        set_lists(&engine, case).await;
        let url = case["url"].as_str().unwrap();
        // Names the URL in the agent's request, then in the merchant's offer, then in both.
        for (request, resource) in [(Some(url), None), (None, Some(url)), (Some(url), Some(url))] {
            asked += 1;
            let answer = ask(&engine, &agent, asked, request, resource).await;
            let wanted = match case["expect"].as_str().unwrap() {
                "allow" => (200, ""),
                // An empty URL counts as missing.
                "invalid" if url.is_empty() => (403, "DOMAIN_URL_REQUIRED"),
                "deny" | "invalid" => (403, "DOMAIN_NOT_ALLOWED"),
                other => panic!("{other}"),
            };
            assert_eq!((answer.0, answer.1.as_str()), wanted, "{request:?} {resource:?} {case}");
            signed += usize::from(answer.0 == 200);
        }
    }
    assert_eq!((asked, signed), (123 * 3, authorized_count(&engine)));
    assert_eq!(signed, 3 * 43);
}

#[tokio::test]
async fn t_32_every_list_entry_vector_is_normalized_or_refused() {
    let file = vectors("domain-matching.json");
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut operator = engine.operator();
    let mut kept = 0;
    for row in cases(&file, "entries", 21) {
        let entry = row["entry"].as_str().unwrap();
        operator.must("policy edit p --allow-domains a.example").await;
        let line = format!("policy edit p --allow-domains \"{entry}\"");
        let wanted = match row["canonical"].as_str() {
            Some(canonical) => {
                kept += 1;
                operator.must(&line).await;
                json!([canonical])
            }
            None if entry.is_empty() => {
                // An empty argument clears the list. An empty entry within a list adds nothing.
                operator.must("policy edit p --allow-domains \"a.example,,\"").await;
                json!(["a.example"])
            }
            None => {
                assert!(operator.run(&line).await.is_err(), "{entry} was taken");
                json!(["a.example"])
            }
        };
        let (_, answer) = engine.post("/mandate", &agent.read(engine.now_s())).await;
        assert_eq!(answer["policy"]["allowed_domains"], wanted, "{row}");
    }
    assert_eq!((kept, BASE.0), (7, 8453));
}
