//! An engine that is stopped, killed or restarted between a request and its payment.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_devnet::merchant::Outcome;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::chain::programs::{NODE, PYTHON};
use crate::chain::stage::{
    LARGE_PRICE, NUMBERED_PRICE_BASE, POLL_INTERVAL, SMALL_PRICE, Stage, TIMEOUT, dollars,
    local_chain, open_shop, signed_terms,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_survives_a_restart_and_settles() {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions::default()).await;
    for auth in ["hmac", "bearer"] {
        let agent = stage.add_agent(auth, auth).await;
        let before = stage.balances().await;
        let body = stage.ask_for(&agent, "/large").await;
        let (status, answer) = stage.ask(&body).await;
        assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
        let id = answer["request_id"].as_str().expect("an id").to_owned();
        let card = stage.wait_for_only_held().await.card.expect("a card");

        assert_eq!(stage.engine.terminate(), Some(0));
        stage.start_again().await;
        let again = stage.wait_for_only_held().await;
        assert_eq!((&again.id, again.card.expect("a card").digest), (&id, card.digest));
        assert_eq!(stage.poll(&id).await.0, 202);
        let locked = stage.operator.run_refused(&format!("approve {id}")).await;
        assert_eq!(locked.code, Code::WalletLocked);

        stage.operator.must("wallet open").await;
        stage.operator.must(&format!("approve {id}")).await;
        let (status, answer) = stage.poll(&id).await;
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
        assert_eq!(stage.request_with_payment(&stage.url("/large"), &answer).await.0, 200);
        stage.latest_settlement(LARGE_PRICE).await;
        stage.assert_moved(before, LARGE_PRICE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_the_same_body_gets_the_same_header_and_pays_once() {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions::default()).await;
    let cases =
        ["/small", "/v1/small"].into_iter().flat_map(|path| [(path, "hmac"), (path, "bearer")]);
    for (path, auth) in cases {
        let agent = stage.add_agent(&format!("{auth}{}", path.replace('/', "-")), auth).await;
        let before = stage.balances().await;
        let body = stage.ask_for(&agent, path).await;
        let (status, answer) = stage.ask(&body).await;
        // Kills the engine at once: the entry that records the signature may not be committed yet.
        stage.engine.kill();
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
        let header = answer["header_value"].as_str().expect("a header");
        assert_eq!(stage.request_with_payment(&stage.url(path), &answer).await.0, 200);
        let (terms, _transaction) = stage.latest_settlement(SMALL_PRICE).await;

        stage.start_again().await;
        stage.operator.must("wallet open").await;
        assert_eq!(stage.ask(&body).await, (200, answer.clone()), "{auth}");

        // This merchant refuses the payment the second time. If a merchant has forgotten the
        // payment, the chain refuses it.
        assert_eq!(stage.request_with_payment(&stage.url(path), &answer).await.0, 402);
        let forgetful = open_shop(&stage.chain).await;
        let url = format!("{}{path}", forgetful.url());
        assert_eq!(stage.request_with_payment(&url, &answer).await.0, 402);
        let refused = forgetful.payments().pop().expect("a payment").outcome;
        let Outcome::Refused { reason } = refused else { panic!("{refused:?}") };
        assert!(reason.contains("authorization is used"), "{reason}");
        let (same, signature) = signed_terms(header);
        assert_eq!(same, terms);
        let replay = stage.chain.settle(&terms, &signature).await;
        assert!(replay.is_err(), "{replay:?}");
        stage.assert_moved(before, SMALL_PRICE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_payments_over_two_engines_have_ten_nonces_and_add_up() {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions::default()).await;
    let agent = stage.add_agent("bot", "hmac").await;
    let before = stage.balances().await;
    let (mut nonces, mut total) = (BTreeSet::new(), 0);
    for n in 0..10 {
        if n == 5 {
            assert_eq!(stage.engine.terminate(), Some(0));
            stage.start_again().await;
            stage.operator.must("wallet open").await;
        }
        let case = if n % 2 == 0 { PYTHON } else { NODE };
        let now = stage.balances().await;
        let answer = stage.send(&case, &agent, &format!("/{n}")).finish().await;
        stage.assert_bought(&answer, now, NUMBERED_PRICE_BASE + n).await;
        nonces.insert(stage.latest_settlement(NUMBERED_PRICE_BASE + n).await.0.nonce);
        total += NUMBERED_PRICE_BASE + n;
    }
    assert_eq!(nonces.len(), 10);
    stage.assert_moved(before, total).await;
    let [answer] = &stage.agents().await[..] else { panic!("one agent") };
    // Both amounts have six decimals, so a micro-dollar is the coin's smallest unit.
    let spent = dollars(&answer.spent_today);
    assert_eq!(U256::from(spent.0), before.payer - stage.balances().await.payer);
    assert_eq!(dollars(&answer.reserved), Usd::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_progress_is_answered_before_sigterm_ends_the_engine() {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions::default()).await;
    let agent = stage.add_agent("bot", "hmac").await;
    let before = stage.balances().await;
    let body = stage.ask_for(&agent, "/small").await.to_string();
    let address = stage.engine.url.strip_prefix("http://").expect("http").to_owned();
    let mut call = TcpStream::connect(&address).await.expect("connected");
    let head = format!(
        "POST /sign HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        body.len()
    );
    call.write_all(head.as_bytes()).await.expect("sent");
    // The server sends this when the handler asks for the body; from then on the call is in progress.
    let mut received = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    timeout(TIMEOUT, call.read_exact(&mut received)).await.expect("in time").expect("an answer");
    assert_eq!(&received, b"HTTP/1.1 100 Continue\r\n\r\n");

    stage.engine.request_stop();
    let end = Instant::now() + TIMEOUT;
    while TcpStream::connect(&address).await.is_ok() {
        assert!(Instant::now() < end, "the engine takes calls after SIGTERM");
        sleep(POLL_INTERVAL).await;
    }
    call.write_all(body.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let read = timeout(TIMEOUT, call.read_to_string(&mut answer)).await;
    read.expect("in time").expect("an answer");
    assert_eq!(stage.engine.wait_end(), Some(0));

    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(stage.request_with_payment(&stage.url("/small"), &answer).await.0, 200);
    stage.latest_settlement(SMALL_PRICE).await;
    stage.assert_moved(before, SMALL_PRICE).await;
    // The next engine has the payment on record.
    stage.start_again().await;
    let spent = dollars(&stage.agents().await[0].spent_today);
    assert_eq!(u128::from(spent.0), SMALL_PRICE);
}
