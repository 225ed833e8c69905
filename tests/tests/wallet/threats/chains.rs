//! Nodes that serve another chain, and clocks that are wrong.

use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::Clock;
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::card::HoldReason;
use bursar_core::time::Utc;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::threats::node::{Block, BlockTimeChain, Node};
use crate::threats::stage::{
    POLICY, authorized_count, engine_with, offer_with, terms, unlimited_in_memory,
};

const SMALL: u64 = 12_000;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)))
}

async fn pay(
    engine: &TestEngine,
    agent: &Agent,
    n: usize,
    change: impl FnOnce(&mut Value),
) -> (u16, Value) {
    let header = offer_with(SMALL, n, change);
    engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await
}

async fn pending_requests(engine: &TestEngine) -> Vec<RequestAnswer> {
    match engine.operator().must("requests").await {
        Answer::Requests { requests } => requests,
        other => panic!("{other:?}"),
    }
}

/// Returns why the only pending request is held, and denies it.
async fn hold_reason(engine: &TestEngine) -> HoldReason {
    let waiting = pending_requests(engine).await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    engine.operator().must(&format!("deny {}", waiting[0].id)).await;
    waiting[0].card.as_ref().expect("a card").hold
}

#[tokio::test]
async fn t_12_a_node_of_another_chain_confirms_nothing() {
    for foreign in [1, 84_532, 84_530, 8_454, 0, u64::MAX] {
        // All other answers of this node would let a payment through.
        let node = Node::start(&clock(), foreign).await;
        let (engine, agent) = engine_with(node.setup(), POLICY, "hmac").await;
        let renamed = |offer: &mut Value| offer["accepts"][0]["extra"]["name"] = json!("Dollar");
        let (status, answer) = pay(&engine, &agent, 1, renamed).await;
        assert_eq!(status, 202, "chain {foreign}: {answer}");
        assert_eq!(hold_reason(&engine).await, HoldReason::DomainContradicted);
        // The node cannot block payments either: one that needs no chain call is signed.
        assert_eq!(pay(&engine, &agent, 2, |_offer| ()).await.0, 200, "chain {foreign}");
        assert_eq!((node.requests(), engine.engine.core().now().chain_hint), (0, None));
        assert_eq!(authorized_count(&engine), 1);

        // The same node serves our chain, and the cached refusal has expired.
        node.serve_chain(BASE.0);
        engine.clock.advance(60_001);
        let (status, answer) = pay(&engine, &agent, 3, renamed).await;
        assert_eq!(status, 200, "{answer}");
        // The node is refused again after it switched chains and a day has passed.
        node.serve_chain(foreign);
        engine.clock.advance(24 * 3_600_000);
        let (status, answer) = pay(&engine, &agent, 4, renamed).await;
        assert_eq!(status, 202, "{answer}");
    }
}

#[tokio::test]
async fn t_12_no_payment_on_a_disabled_or_unknown_chain() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let on = |network: Value| move |offer: &mut Value| offer["accepts"][0]["network"] = network;
    let mut n = 0;
    let mut result_on = async |network: Value| {
        n += 1;
        let (status, answer) = pay(&engine, &agent, n, on(network)).await;
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    };
    let off = (403, "NETWORK_DISABLED".to_owned());
    for network in [json!("eip155:1"), json!("eip155:84532"), json!("base-sepolia")] {
        assert_eq!(result_on(network.clone()).await, off, "{network}");
    }
    let unknown = (400, "UNKNOWN_NETWORK".to_owned());
    for network in [
        json!("eip155:99999"),
        json!("eip155:08453"),
        json!("eip155:8453 "),
        json!("eip155:0x2105"),
        json!("EIP155:8453"),
        json!("eip155:18446744073709560069"),
        json!("solana:mainnet"),
        json!("eip155:"),
        json!(""),
    ] {
        assert_eq!(result_on(network.clone()).await, unknown, "{network}");
    }
    assert_eq!(result_on(json!("eip155:8453")).await.0, 200);
    // Of two offers, the one on an enabled chain is chosen and signed for that chain.
    let both = |offer: &mut Value| {
        let mut first = offer["accepts"][0].clone();
        first["network"] = json!("eip155:84532");
        first["payTo"] = json!("0x00000000000000000000000000000000DeaDBeef");
        let list = offer["accepts"].as_array_mut().unwrap();
        list.insert(0, first);
    };
    let (status, answer) = pay(&engine, &agent, 100, both).await;
    assert_eq!(status, 200, "{answer}");
    assert_ne!(terms(&answer)["to"], "0x00000000000000000000000000000000DeaDBeef");

    let mut operator = engine.operator();
    operator.must("network disable 8453").await;
    for network in [json!("eip155:8453"), json!("base"), json!(8453), json!("8453")] {
        assert_eq!(result_on(network.clone()).await, off, "{network}");
    }
    operator.must("network enable 8453").await;
    operator.must("policy edit p --networks 4663").await;
    let refused = (403, "NETWORK_NOT_ALLOWED_BY_POLICY".to_owned());
    assert_eq!(result_on(json!("eip155:8453")).await, refused);
    assert_eq!(authorized_count(&engine), 2);
}

/// Each row: the newest block relative to the clock, the expected number of probes, and whether an automatic payment is
/// held.
#[tokio::test]
async fn t_14_a_clock_that_disagrees_with_the_chain_holds_every_payment() {
    let asleep = Block::At(Utc::from_seconds(NEW_YEAR_S - 86_400));
    for (block, looks, held) in [
        (Block::Behind(0), 1, false),
        (Block::Behind(120), 1, false),
        (Block::Behind(599), 2, false),
        (Block::Behind(601), 2, true),
        (Block::Behind(86_400), 2, true),
        (Block::Behind(-599), 2, false),
        (Block::Behind(-601), 2, true),
        (Block::Behind(-86_400), 2, true),
        // Without a block there is nothing to compare the clock with.
        (Block::NoAnswer, 1, false),
        (asleep, 2, false),
    ] {
        let clock = clock();
        let chain = BlockTimeChain::new(&clock, block);
        let mut setup = Setup { clock, ..unlimited_in_memory() };
        setup.chains.insert(BASE, Arc::clone(&chain) as _);
        let (engine, agent) = engine_with(setup, POLICY, "hmac").await;
        // The first payment triggers a probe of the chain; a later probe checks that blocks are still produced.
        assert_eq!(pay(&engine, &agent, 1, |_offer| ()).await.0, 200, "{block:?}");
        for look in 1..=looks {
            if look > 1 {
                engine.clock.advance(15_000);
            }
            chain.until_probed(look).await;
        }
        let known = matches!(block, Block::Behind(_));
        assert_eq!(engine.engine.core().now().chain_hint.is_some(), known, "{block:?}");
        let (status, answer) = pay(&engine, &agent, 2, |_offer| ()).await;
        assert_eq!(status, if held { 202 } else { 200 }, "{block:?}: {answer}");
        if held {
            assert_eq!(hold_reason(&engine).await, HoldReason::ClockOff, "{block:?}");
        }
        assert_eq!(authorized_count(&engine), if held { 1 } else { 2 }, "{block:?}");
    }
}

/// An agent that never pays must not keep the engine from noticing a wrong clock.
#[tokio::test]
async fn t_14_trades_and_loans_compare_the_clock_with_the_chain_too() {
    let trade = json!({
        "token_in": "ETH", "token_out": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        "amount_in": "0.1", "chain_id": 8453, "fee_tier": 500,
    });
    let supply = json!({
        "action": "supply", "venue": "0xbeeF010f9cb27031ad51e3333f9aF9C6B1228183",
        "venue_kind": "vault", "chain_id": 8453, "amount": "5",
    });
    for (path, wanted) in [("/trade", trade), ("/position", supply)] {
        let clock = clock();
        let chain = BlockTimeChain::new(&clock, Block::Behind(86_400));
        let mut setup = Setup { clock, ..unlimited_in_memory() };
        setup.chains.insert(BASE, Arc::clone(&chain) as _);
        let (engine, agent) = engine_with(setup, "--trading --lending", "hmac").await;
        let now = engine.now_s();
        let body = match path {
            "/trade" => agent.trade(now, &wanted),
            _loan => agent.position(now, &wanted),
        };
        let (status, answer) = engine.post(path, &body).await;
        assert_eq!((status, answer["code"].as_str()), (502, Some("CHAIN_UNAVAILABLE")), "{path}");
        chain.until_probed(1).await;
        engine.clock.advance(15_000);
        chain.until_probed(2).await;
        assert!(engine.engine.core().now().chain_hint.is_some(), "{path}");
    }
}

/// Sleep must not count as a clock error. Blocks continue while this machine sleeps, so an earlier block time says
/// nothing about the clock.
#[tokio::test]
async fn t_14_sleep_is_not_mistaken_for_a_wrong_clock() {
    let clock = clock();
    let chain = BlockTimeChain::new(&clock, Block::Behind(0));
    let mut setup = Setup { clock, ..unlimited_in_memory() };
    setup.chains.insert(BASE, Arc::clone(&chain) as _);
    let (engine, agent) = engine_with(setup, POLICY, "hmac").await;
    assert_eq!(pay(&engine, &agent, 1, |_offer| ()).await.0, 200);
    chain.until_probed(1).await;
    engine.clock.suspend(20 * 60 * 1000);
    let moment = engine.engine.core().now();
    assert_eq!(moment.chain_hint, Some(moment.utc), "twenty minutes later there as here");
    engine.clock.suspend(3 * 3_600_000);
    assert_eq!(engine.engine.core().now().chain_hint, None);
    assert_eq!(pay(&engine, &agent, 2, |_offer| ()).await.0, 200);
}

/// The wallet sets the validity times; the offer only requests a duration.
#[tokio::test]
async fn t_14_the_wallet_sets_the_validity_times() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let now = engine.now_s();
    let mut n = 0;
    for version in [1, 2] {
        for (asked, wanted) in [
            (None, Ok(300)),
            (Some(json!(null)), Ok(300)),
            (Some(json!(0)), Ok(30)),
            (Some(json!(29)), Ok(30)),
            (Some(json!(30)), Ok(30)),
            (Some(json!(31)), Ok(31)),
            (Some(json!(3600)), Ok(3600)),
            (Some(json!(3601)), Err(202)),
            (Some(json!(86_400)), Err(202)),
            (Some(json!(u32::MAX)), Err(202)),
            (Some(json!(u64::from(u32::MAX) + 1)), Err(400)),
            (Some(json!(i64::MAX)), Err(400)),
            (Some(json!(u64::MAX)), Err(400)),
            (Some(json!(-1)), Err(400)),
            (Some(json!("60")), Err(400)),
            (Some(json!(60.0)), Err(400)),
            (Some(json!(true)), Err(400)),
        ] {
            n += 1;
            let (status, answer) = pay(&engine, &agent, n, |offer| {
                offer["x402Version"] = json!(version);
                let first = offer["accepts"][0].as_object_mut().unwrap();
                first.remove("maxTimeoutSeconds");
                first.extend(asked.clone().map(|asked| ("maxTimeoutSeconds".to_owned(), asked)));
                if version == 1 {
                    let amount = first.remove("amount").unwrap();
                    first.insert("maxAmountRequired".into(), amount);
                    first.insert("network".into(), json!("base"));
                }
                // Times in the offer are ignored.
                first.insert("validAfter".into(), json!("0"));
                first.insert("validBefore".into(), json!("99999999999"));
            })
            .await;
            match wanted {
                Ok(seconds) => {
                    assert_eq!(status, 200, "v{version} {asked:?}: {answer}");
                    let terms = terms(&answer);
                    let after = if version == 1 { now - 600 } else { 0 };
                    let times = (&terms["validAfter"], &terms["validBefore"]);
                    let wanted = (json!(after.to_string()), json!((now + seconds).to_string()));
                    assert_eq!(times, (&wanted.0, &wanted.1), "v{version} {asked:?}");
                }
                Err(202) => {
                    assert_eq!(status, 202, "v{version} {asked:?}: {answer}");
                    assert_eq!(hold_reason(&engine).await, HoldReason::LongValidity);
                }
                Err(refused) => {
                    let reply = (status, answer["code"].as_str().unwrap());
                    assert_eq!(reply, (refused, "INVALID_X402_FORMAT"), "v{version} {asked:?}");
                }
            }
        }
    }
    assert_eq!(authorized_count(&engine), 2 * 7);
}

/// An approval signs validity times that start at the approval, not at the request.
#[tokio::test]
async fn t_14_validity_starts_at_the_approval() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 10 --txn 10 --auto 0", "hmac").await;
    let (status, answer) = pay(&engine, &agent, 1, |_offer| ()).await;
    assert_eq!(status, 202);
    let id = answer["request_id"].as_str().unwrap().to_owned();
    engine.clock.advance(14 * 60_000);
    let at = engine.clock.now().utc.seconds();
    engine.operator().must(&format!("approve {id}")).await;
    let (_, answer) = engine.get(&format!("/sign/status/{id}")).await;
    assert_eq!(terms(&answer)["validBefore"], (at + 60).to_string());
}
