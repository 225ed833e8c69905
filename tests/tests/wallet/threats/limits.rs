//! Agents that send concurrent requests to exceed their limit, or flood the queue.

use std::sync::Arc;

use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::codes::Code;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::{decode_header, offer};
use bursar_tests::operator::{Expect, Operator};
use serde_json::json;

use crate::threats::stage::{
    authorized_count, engine_with, into_arc, offer_with, run_all, signed_atoms, unlimited_in_memory,
};

/// Requests that may be pending at once: per agent, and in total.
const HELD_PER_AGENT: usize = 20;
const HELD_TOTAL: usize = 500;

const LIMIT: u64 = 10_000_000;
/// Price of one payment in atoms; it does not divide the limit.
const PRICE: u64 = 30_007;
const CLIENTS: u64 = 64;
const PAYMENTS_PER_CLIENT: u64 = 20;

/// Every client asks for `PAYMENTS_PER_CLIENT` separate payments; returns the amounts of all that were signed.
async fn ask_concurrently(engine: &Arc<TestEngine>, agent: &Agent, round: u64) -> Vec<u64> {
    let clients = (0..CLIENTS).map(|client| {
        let (engine, agent) = (Arc::clone(engine), agent.clone());
        async move {
            let mut paid = Vec::new();
            for n in 0..PAYMENTS_PER_CLIENT {
                let n = (round * CLIENTS + client) * PAYMENTS_PER_CLIENT + n;
                let body = agent.ask(engine.now_s(), &offer(PRICE, n), None);
                let (status, answer) = engine.post("/sign", &body).await;
                match status {
                    200 => paid.push(signed_atoms(&answer)),
                    429 => assert!(
                        ["EXCEEDS_DAILY_LIMIT", "LIMIT_REACHED"]
                            .contains(&answer["code"].as_str().unwrap()),
                        "{answer}"
                    ),
                    _other => panic!("{status} {answer}"),
                }
            }
            paid
        }
    });
    run_all(clients).await.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_01_concurrent_requests_stay_within_the_limit() {
    for auth in ["hmac", "bearer"] {
        // Uses a journal on disk, where one commit covers many payments.
        let setup = Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() };
        let (engine, agent) = engine_with(setup, "--day 10 --txn 10 --auto 5", auth).await;
        let engine = into_arc(engine);
        let paid = ask_concurrently(&engine, &agent, 0).await;
        assert_eq!(paid.len() as u64, LIMIT / PRICE, "{auth}");
        assert!(paid.iter().all(|atoms| *atoms == PRICE) && paid.iter().sum::<u64>() <= LIMIT);
        assert_eq!(authorized_count(&engine), paid.len());
    }
}

/// Asks for an amount that the policy holds; returns the status with the request id or the code.
async fn hold(engine: &TestEngine, agent: &Agent, atoms: u64, n: u64) -> (u16, String) {
    let body = agent.ask(engine.now_s(), &offer(atoms, n), None);
    let (status, answer) = engine.post("/sign", &body).await;
    let reply = if status == 202 { &answer["request_id"] } else { &answer["code"] };
    (status, reply.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_01_held_requests_reserve_their_amount() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 10 --txn 10 --auto 1", "hmac").await;
    let engine = into_arc(engine);
    let mut operator = engine.operator();
    let mut waiting = Vec::new();
    for n in 0..3 {
        let (status, id) = hold(&engine, &agent, 2_000_000, 1_000_000 + n).await;
        assert_eq!(status, 202, "{id}");
        waiting.push(id);
    }
    let mut paid = ask_concurrently(&engine, &agent, 0).await;
    assert_eq!(paid.len() as u64, (LIMIT - 6_000_000) / PRICE);
    // A denied request frees exactly its amount.
    operator.must(&format!("deny {}", waiting.pop().unwrap())).await;
    paid.extend(ask_concurrently(&engine, &agent, 1).await);
    assert_eq!(paid.len() as u64, (LIMIT - 4_000_000) / PRICE);
    // Held requests reserved their amount, so all can be approved.
    for id in &waiting {
        operator.must(&format!("approve {id}")).await;
        let (_, answer) = engine.get(&format!("/sign/status/{id}")).await;
        paid.push(signed_atoms(&answer));
    }
    assert!(paid.iter().sum::<u64>() <= LIMIT, "{}", paid.iter().sum::<u64>());
    assert_eq!(authorized_count(&engine), paid.len());
}

async fn queue(operator: &mut Operator) -> Vec<RequestAnswer> {
    match operator.must("requests").await {
        Answer::Requests { requests } => requests,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn t_34_the_queue_is_bounded_and_keeps_its_order() {
    let engine = TestEngine::start(unlimited_in_memory()).await;
    engine.set_up_wallet("--day 1000000 --txn 10 --auto 0").await;
    let crowd = HELD_TOTAL / HELD_PER_AGENT;
    let mut agents = Vec::new();
    for n in 0..=crowd {
        agents.push(engine.add_agent(&format!("bot{n}"), "bearer").await);
    }
    let mut operator = engine.operator();
    // The bound of a single agent is lower.
    let greedy = engine.add_agent("greedy", "bearer").await;
    for n in 0..=HELD_PER_AGENT {
        let (status, answer) = hold(&engine, &greedy, 1_000_000, 1_000 + n as u64).await;
        let wanted = if n < HELD_PER_AGENT { 202 } else { 429 };
        assert_eq!(status, wanted, "request {n}: {answer}");
    }
    for waiting in queue(&mut operator).await {
        operator.must(&format!("deny {}", waiting.id)).await;
    }
    let mut taken = Vec::new();
    let mut n = 0;
    // Goes round-robin, so that one agent's requests are not adjacent.
    for round in 0..=HELD_PER_AGENT {
        for agent in &agents[..crowd] {
            n += 1;
            let (status, answer) = hold(&engine, agent, 1_000_000, n).await;
            if round < HELD_PER_AGENT {
                assert_eq!(status, 202, "{answer}");
                taken.push(answer);
            } else {
                assert_eq!((status, answer.as_str()), (429, "TOO_MANY_PENDING"));
            }
        }
        // Setting the clock back does not reorder the queue.
        engine.clock.jump_back(60_000);
    }
    assert_eq!(taken.len(), 500);
    let (status, answer) = hold(&engine, &agents[crowd], 1_000_000, 0).await;
    assert_eq!((status, answer.as_str()), (429, "TOO_MANY_PENDING"), "the queue is full");
    let shown: Vec<String> = queue(&mut operator).await.into_iter().map(|one| one.id).collect();
    assert_eq!(shown, taken, "in the order in which they came");

    // After one denial, the queue accepts exactly one more request.
    operator.must(&format!("deny {}", taken.remove(0))).await;
    let last = &agents[crowd];
    let (status, id) = hold(&engine, last, 1_000_000, 100_000).await;
    assert_eq!(status, 202, "{id}");
    taken.push(id);
    assert_eq!(hold(&engine, last, 1_000_000, 100_001).await.0, 429);
    let shown: Vec<String> = queue(&mut operator).await.into_iter().map(|one| one.id).collect();
    assert_eq!(shown, taken);
    // Small payments are signed at once, even with a full queue.
    operator.must("policy edit p --auto 1").await;
    let body = last.ask(engine.now_s(), &offer(1_000, 1), None);
    assert_eq!(engine.post("/sign", &body).await.0, 200);
    let unknown = operator.run_refused("approve 00000000").await;
    assert_eq!(unknown.code, Code::RequestNotFound);
}

/// An agent that pads its offers: memory and disk are bounded per day, and the echoed offer is stored only in the
/// payment's record.
#[tokio::test]
async fn t_34_padding_is_bounded_per_agent_and_day() {
    let (engine, agent) = engine_with(
        Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() },
        "--day 1000 --txn 10 --auto 5",
        "hmac",
    )
    .await;
    let padded = |n: usize, padding: usize| {
        let header = offer_with(1, n, |offer| {
            offer["accepts"][0]["extra"]["padding"] =
                json!(vec!["x".repeat(3_000); padding.min(4)]);
            offer["more"] = json!(vec!["y".repeat(3_000); padding.saturating_sub(4)]);
        });
        agent.ask(engine.now_s(), &header, None)
    };
    let mut answers = Vec::new();
    let (status, answer) = loop {
        let body = padded(answers.len(), 15);
        let (status, answer) = engine.post("/sign", &body).await;
        match status {
            200 if answers.len() <= 800 => answers.push((body, answer)),
            _refused => break (status, answer),
        }
    };
    assert_eq!((status, &answer["code"]), (429, &json!("TOO_MANY_TODAY")), "{answer}");
    assert!((700..=800).contains(&answers.len()), "{}", answers.len());
    // Unpadded offers, and padded ones of other agents, are still paid.
    assert_eq!(engine.post("/sign", &padded(9_000, 0)).await.0, 200);
    let other = engine.add_agent("other", "hmac").await;
    let header = offer_with(1, 9_001, |offer| offer["more"] = json!(vec!["y".repeat(3_000); 9]));
    assert_eq!(engine.post("/sign", &other.ask(engine.now_s(), &header, None)).await.0, 200);
    // Each answer contains its own offer: at first, when repeated, and after a restart.
    let whole = |answer: &serde_json::Value| {
        let sent = decode_header(answer["header_value"].as_str().unwrap());
        sent["accepted"]["extra"]["padding"].as_array().unwrap().len() == 4
    };
    for (body, answer) in answers.iter().take(3) {
        assert!(whole(answer));
        assert_eq!(engine.post("/sign", body).await.1["header_value"], answer["header_value"]);
        let id = answer["transaction_id"].as_str().unwrap();
        let polled = engine.get(&format!("/sign/status/{id}")).await.1;
        assert_eq!(polled["header_value"], answer["header_value"]);
    }
    // The state, and so each snapshot, contains no offers.
    let view = engine.engine.core().view();
    assert_eq!(
        view.state.agents[&agent.id.parse().unwrap()].open_payments as usize,
        answers.len() + 1
    );
    let waits = offer_with(6_000_000, 9_003, |offer| {
        offer["accepts"][0]["extra"]["padding"] = json!(["x".repeat(3_000)]);
    });
    assert_eq!(engine.post("/sign", &other.ask(engine.now_s(), &waits, None)).await.0, 202);
    let held = engine.engine.core().view().state.held.values().next().unwrap().clone();
    assert!(held.ask.payment().expect("a payment").echo.is_stripped(), "an offer is in the state");
    let journal = engine.folder.join("journal.redb");
    let history = engine.folder.join("journal-history.redb");
    let disk: u64 =
        [&journal, &history].iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
    assert!(disk < 64 << 20, "{disk}");
    let engine =
        engine.restart(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    engine.operator().must("wallet open").await;
    for (body, answer) in answers.iter().take(3) {
        assert_eq!(engine.post("/sign", body).await.1["header_value"], answer["header_value"]);
    }
    // After midnight the agent has a new padding budget.
    engine.clock.advance(24 * 3_600_000);
    let header = offer_with(1, 9_002, |offer| offer["more"] = json!(vec!["y".repeat(3_000); 9]));
    assert_eq!(engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await.0, 200);
}

/// An agent may have as many open payments as its rate allows in an hour; without a rate limit there is no bound.
#[tokio::test]
async fn t_34_open_payments_are_bounded_by_the_rate_limit() {
    let settings = "[server]\nrate_per_minute = 2\n";
    let setup = Setup { settings, ..unlimited_in_memory() };
    let (engine, agent) = engine_with(setup, "--day 1000 --txn 10 --auto 5", "hmac").await;
    let pay = async |n: u64| {
        let header = offer_with(1_000, n as usize, |offer| {
            offer["accepts"][0]["maxTimeoutSeconds"] = json!(3_600);
        });
        engine.clock.advance(30_000);
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    };
    // Two per minute: 119 open payments, below the bound of 120.
    for n in 0..119 {
        assert_eq!(pay(n).await, (200, String::new()), "{n}");
    }
    engine.operator().must("config set server.rate_per_minute 1").await;
    engine.clock.advance(30_000);
    assert_eq!(pay(200).await, (429, "TOO_MANY_OPEN".to_owned()));
    engine.operator().must("config set server.rate_per_minute 0").await;
    assert_eq!(pay(201).await, (200, String::new()));
}
