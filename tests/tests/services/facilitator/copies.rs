//! A success is returned once: of many requests with the same payment, one caller receives it.

use std::collections::BTreeMap;

use bursar_tests::payer::TransferMethod;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use crate::facilitator::stage::{BASE, Stage};

fn outcomes(answers: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        let outcome = if answer["success"] == true {
            "success".to_owned()
        } else {
            answer["errorReason"].as_str().expect("a reason").to_owned()
        };
        *counts.entry(outcome).or_default() += 1;
    }
    counts
}

/// Waits until the transaction of a payment is in the node's pool.
async fn wait_until_sent(stage: &Stage) {
    let signer = stage.home.signers[0];
    let count = json!([signer, "pending"]);
    while stage.chain.request("eth_getTransactionCount", count.clone()).await.expect("answered")
        == "0x0"
    {
        sleep(Duration::from_millis(10)).await;
    }
}

fn expected_one_success(copies: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("success".to_owned(), 1), ("duplicate_settlement".to_owned(), copies - 1)])
}

#[tokio::test(flavor = "multi_thread")]
async fn of_simultaneous_copies_one_receives_the_success_and_the_others_its_hash() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for (method, copies) in [
        (TransferMethod::Eip3009, 16),
        (TransferMethod::Permit2, 16),
        (TransferMethod::Prism, 16),
        (TransferMethod::Eip3009, 100),
    ] {
        let payer = stage.payer().await;
        let body = stage.pay(&payer, method, 5_000).body(2);
        let answers = join_all((0..copies).map(|_one| stage.settle_without_key(&body))).await;
        assert_eq!(outcomes(&answers), expected_one_success(copies), "{method:?}");
        let success = answers.iter().find(|answer| answer["success"] == true).expect("one");
        for answer in answers.iter().filter(|answer| answer["success"] == false) {
            assert_eq!(answer["transaction"], "", "{answer}");
            assert_eq!(answer["extra"]["transaction"], success["transaction"], "{answer}");
            let hash = success["transaction"].as_str().expect("a hash");
            assert!(answer["errorMessage"].as_str().expect("text").contains(hash), "{answer}");
        }
        // A later request does not receive the success either.
        assert_eq!(stage.settle_without_key(&body).await["errorReason"], "duplicate_settlement");
        let verdict = stage.verify(&body).await;
        assert_eq!(verdict["invalidReason"], "duplicate_settlement", "{verdict}");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_was_returned_is_not_returned_again_after_a_restart() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    assert_eq!(stage.settle_without_key(&body).await["success"], true);
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    assert_eq!(stage.settle_without_key(&body).await["errorReason"], "duplicate_settlement");
    assert_eq!(stage.verify(&body).await["invalidReason"], "duplicate_settlement");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_that_repeats_its_key_receives_the_success_again_and_no_other() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    let by = async |key: &str| stage.facilitator.post_with_key("/settle", &body, key).await.1;
    let first = by("mine").await;
    assert_eq!(first["success"], true, "{first}");
    for _again in 0..3 {
        assert_eq!(by("mine").await, first);
        assert_eq!(by("another").await["errorReason"], "duplicate_settlement");
        assert_eq!(stage.settle_without_key(&body).await["errorReason"], "duplicate_settlement");
    }
    let (_status, verdict) = stage.facilitator.post_with_key("/verify", &body, "mine").await;
    assert_eq!(
        verdict["isValid"], true,
        "its merchant may verify before it settles again: {verdict}"
    );
    let (_status, verdict) = stage.facilitator.post_with_key("/verify", &body, "another").await;
    assert_eq!(verdict["invalidReason"], "duplicate_settlement", "{verdict}");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_answer_leaves_the_success_to_the_first_repeat() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 300").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    stage.chain.set_automine(false).await.expect("set");
    let pending = stage.settle_without_key(&body).await;
    assert_eq!(pending["errorReason"], "settlement_pending", "{pending}");
    // A merchant verifies before it settles again.
    assert_eq!(stage.verify(&body).await["isValid"], true);
    stage.chain.set_automine(true).await.expect("set");
    stage.chain.mine(1).await.expect("mined");
    let mut answers = Vec::new();
    for _copy in 0..8 {
        answers.push(stage.settle_without_key(&body).await);
        while answers.last().is_some_and(|last| last["errorReason"] == "settlement_pending") {
            answers.pop();
            answers.push(stage.settle_without_key(&body).await);
        }
    }
    assert_eq!(outcomes(&answers), expected_one_success(8));
    assert_eq!(answers[0]["success"], true);
    assert_eq!(answers[0]["transaction"], pending["transaction"]);
    stage.facilitator.stop().await;
}

/// If a merchant repeats its request with its key and receives the success, no copy receives it.
#[tokio::test(flavor = "multi_thread")]
async fn a_success_returned_to_a_repeat_with_its_key_goes_to_no_copy() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 300").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    let by = async |key: &str| stage.facilitator.post_with_key("/settle", &body, key).await.1;
    stage.chain.set_automine(false).await.expect("set");
    assert_eq!(by("mine").await["errorReason"], "settlement_pending");
    stage.chain.set_automine(true).await.expect("set");
    stage.chain.mine(1).await.expect("mined");
    let mut answer = by("mine").await;
    while answer["errorReason"] == "settlement_pending" {
        answer = by("mine").await;
    }
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(stage.settle_without_key(&body).await["errorReason"], "duplicate_settlement");
    assert_eq!(by("another").await["errorReason"], "duplicate_settlement");
    assert_eq!(by("mine").await["success"], true);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_flight_fails_verification_for_other_callers() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 5000").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    stage.chain.set_automine(false).await.expect("set");
    let looks = async {
        wait_until_sent(&stage).await;
        while stage.verify(&body).await["isValid"] == true {
            sleep(Duration::from_millis(10)).await;
        }
        let verdict = stage.verify(&body).await;
        stage.chain.mine(1).await.expect("mined");
        verdict
    };
    let (settled, verdict) = tokio::join!(stage.settle_without_key(&body), looks);
    assert_eq!(verdict["invalidReason"], "duplicate_settlement", "{verdict}");
    assert_eq!(settled["success"], true, "{settled}");
    stage.facilitator.stop().await;
}

/// The caller disconnects while it waits: the next request receives the success.
#[tokio::test(flavor = "multi_thread")]
async fn an_undelivered_success_goes_to_the_next_request() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 8000").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    stage.chain.set_automine(false).await.expect("set");
    let address = stage.facilitator.running.address;
    let mut connection = TcpStream::connect(address).await.expect("connected");
    let text = body.to_string();
    let head = format!(
        "POST /settle HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    connection.write_all(head.as_bytes()).await.expect("sent");
    connection.write_all(text.as_bytes()).await.expect("sent");
    wait_until_sent(&stage).await;
    drop(connection);
    stage.chain.mine(1).await.expect("mined");
    let mut answer = stage.settle_without_key(&body).await;
    while answer["errorReason"] == "settlement_pending"
        || answer["errorReason"] == "duplicate_settlement"
    {
        // Waits until the facilitator notices that the connection is gone.
        sleep(Duration::from_millis(20)).await;
        answer = stage.settle_without_key(&body).await;
    }
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(stage.settle_without_key(&body).await["errorReason"], "duplicate_settlement");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_repeats_set_to_success_every_copy_receives_it() {
    let Some(stage) = Stage::set_up(BASE, 1, "repeats = \"success\"").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    let answers = join_all((0..16).map(|_one| stage.settle_without_key(&body))).await;
    assert_eq!(outcomes(&answers), BTreeMap::from([("success".to_owned(), 16)]));
    stage.facilitator.stop().await;
}
