//! Each payment settles once, for any number of callers and repeats.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_devnet::Authorization;
use bursar_tests::payer::{SignedPayment, TransferMethod, now_s};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::stage::{BASE, SHOP, Stage};

const TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Returns an account's transaction count at `tag`: sent (`pending`) or mined (`latest`).
async fn transaction_count(stage: &Stage, signer: Address, tag: &str) -> u64 {
    let answer = stage.chain.request("eth_getTransactionCount", json!([signer, tag])).await;
    let answer = answer.expect("answered");
    let digits = answer.as_str().expect("text").trim_start_matches("0x").to_owned();
    u64::from_str_radix(&digits, 16).expect("hex")
}

async fn transaction_count_of_all(stage: &Stage, tag: &str) -> u64 {
    let mut sum = 0;
    for signer in &stage.home.signers {
        sum += transaction_count(stage, *signer, tag).await;
    }
    sum
}

async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not happen");
        sleep(POLL_INTERVAL).await;
    }
}

fn hash(answer: &Value) -> B256 {
    answer["transaction"].as_str().expect("text").parse().unwrap_or_else(|_no| panic!("{answer}"))
}

fn authorization_of(paid: &SignedPayment) -> (Authorization, Vec<u8>) {
    let terms = &paid.terms;
    let authorization = Authorization {
        from: terms.from,
        to: terms.to,
        value: terms.amount,
        valid_after: U256::from(terms.valid_after_s),
        valid_before: U256::from(terms.valid_before_s),
        nonce: terms.nonce,
    };
    let signature = paid.payload["signature"].as_str().expect("text");
    (authorization, hex::decode(&signature[2..]).expect("hex"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t_38_a_hundred_parallel_settles_of_one_payload_are_one_transaction() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 5_000).body(2);
    let before = stage.balance(SHOP).await;
    let answers = join_all((0..100).map(|_one| stage.settle(&body))).await;
    assert_eq!(answers[0]["success"], true, "{}", answers[0]);
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    assert_eq!(transaction_count_of_all(&stage, "latest").await, 1);
    assert_eq!(stage.balance(SHOP).await - before, U256::from(5_000));
    // The queue holds no duplicate either; a duplicate would be sent as soon as nothing is in flight.
    for _further in 0..3 {
        let payer = stage.payer().await;
        let reply = stage.settle(&stage.pay(&payer, TransferMethod::Prism, 1).body(2)).await;
        assert_eq!(reply["success"], true, "{reply}");
    }
    assert_eq!(transaction_count_of_all(&stage, "pending").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_payments_share_a_transaction_and_fail_alone() {
    let Some(stage) = Stage::set_up(BASE, 1, "in_flight = 1\nbatch_window_ms = 20").await else {
        return;
    };
    stage.chain.set_automine(false).await.expect("set");
    let mut bodies = Vec::new();
    for n in 0..12 {
        stage.chain.set_automine(true).await.expect("set");
        let payer = stage.payer().await;
        let method = if n % 2 == 0 { TransferMethod::Eip3009 } else { TransferMethod::Permit2 };
        bodies.push(stage.pay(&payer, method, 1_000 + n).body(2));
    }
    // Each payment is valid alone, but the payer can pay for only one of them.
    let poor = stage.payer().await;
    stage.chain.set_automine(false).await.expect("set");
    let whole = u64::try_from(crate::facilitator::stage::INITIAL_BALANCE).expect("small");
    let one = stage.pay(&poor, TransferMethod::Eip3009, whole).body(2);
    let other = stage.pay(&poor, TransferMethod::Eip3009, whole).body(2);
    let settles = bodies.iter().chain([&one, &other]).map(|body| stage.settle(body));
    let mining = async {
        for _block in 0..60 {
            sleep(Duration::from_millis(100)).await;
            stage.chain.mine(1).await.expect("mined");
        }
    };
    let answers = tokio::select! {
        answers = join_all(settles) => answers,
        () = mining => panic!("no answers"),
    };
    let (good, bad): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["success"] == true);
    assert_eq!((good.len(), bad.len()), (13, 1), "{answers:?}");
    assert_eq!(bad[0]["errorReason"], "insufficient_balance", "{}", bad[0]);
    let hashes: BTreeSet<B256> = good.iter().map(|answer| hash(answer)).collect();
    assert!(hashes.len() < 6, "{} transactions for 13 payments", hashes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmined_payment_is_pending_and_later_settles_under_the_same_hash() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 400").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 9_000).body(2);
    stage.chain.set_automine(false).await.expect("set");
    let pending = stage.settle(&body).await;
    assert_eq!(pending["success"], false);
    assert_eq!(pending["errorReason"], "settlement_pending");
    let on_its_way = hash(&pending);
    assert_eq!(stage.settle(&body).await, pending, "and still is");
    stage.chain.mine(1).await.expect("mined");
    wait_until("settled", async || stage.settle(&body).await["success"] == true).await;
    assert_eq!(hash(&stage.settle(&body).await), on_its_way);
    assert_eq!(transaction_count_of_all(&stage, "pending").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_that_another_sender_settled_first_is_a_duplicate() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    // Another sender settles the payment before the facilitator receives it.
    let paid = stage.pay(&payer, TransferMethod::Eip3009, 3_000);
    let (authorization, signature) = authorization_of(&paid);
    let theirs = stage.chain.settle(&authorization, &signature).await.expect("settled");
    let verdict = stage.verify(&paid.body(2)).await;
    assert_eq!(verdict["invalidReason"], "duplicate_settlement", "{verdict}");
    assert_eq!(verdict["extra"]["transaction"], json!(theirs), "{verdict}");
    let answer = stage.settle(&paid.body(2)).await;
    assert_names(&answer, theirs);
    assert_eq!(stage.settle(&paid.body(2)).await, answer);
    assert_eq!(transaction_count_of_all(&stage, "latest").await, 0, "nothing was sent for it");
    // Another sender settles the payment while our transaction is in flight.
    let paid = stage.pay(&payer, TransferMethod::Eip3009, 4_000);
    let (authorization, signature) = authorization_of(&paid);
    stage.chain.set_automine(false).await.expect("set");
    let body = paid.body(2);
    let brings_first = async {
        wait_until("sent", async || transaction_count_of_all(&stage, "pending").await == 1).await;
        // The other sender's transaction has a higher fee, so ours is mined after it and reverts.
        let account = stage.chain.request("eth_accounts", json!([])).await.expect("answered");
        let theirs = json!([{
            "from": account[0], "to": stage.coin(), "data": calldata(&authorization, &signature),
            "gas": "0x40000", "maxFeePerGas": "0x2540be4000", "maxPriorityFeePerGas": "0x174876e800",
        }]);
        let theirs = stage.chain.request("eth_sendTransaction", theirs).await.expect("sent");
        stage.chain.mine(1).await.expect("mined");
        theirs.as_str().expect("text").parse::<B256>().expect("a hash")
    };
    let (answer, theirs) = tokio::join!(stage.settle(&body), brings_first);
    assert_ne!(answer["success"], true, "{answer}");
    let mining = async {
        loop {
            stage.chain.mine(1).await.expect("mined");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let is_pending = async || stage.settle(&body).await["errorReason"] == "settlement_pending";
    let settled = wait_until("settled", async || !is_pending().await);
    tokio::select! {
        () = settled => {}
        () = mining => {}
    }
    assert_names(&stage.settle(&body).await, theirs);
}

/// Asserts that an answer refuses a payment because this transaction of another sender has settled it.
fn assert_names(answer: &Value, theirs: B256) {
    assert_eq!(answer["errorReason"], "duplicate_settlement", "{answer}");
    assert_eq!(answer["extra"]["transaction"], json!(theirs), "{answer}");
    let message = answer["errorMessage"].as_str().expect("text");
    assert!(message.contains("do not pay again"), "{message}");
}

fn calldata(authorization: &Authorization, signature: &[u8]) -> Bytes {
    sol! {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
    let call = transferWithAuthorizationCall {
        from: authorization.from,
        to: authorization.to,
        value: authorization.value,
        validAfter: authorization.valid_after,
        validBefore: authorization.valid_before,
        nonce: authorization.nonce,
        signature: Bytes::copy_from_slice(signature),
    };
    call.abi_encode().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn prism_payments_of_one_payer_are_sent_in_nonce_order() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    let payer = stage.payer().await;
    let pay = |nonce: u64, amount: u64| {
        let mut terms = payer.terms(stage.network(), SHOP, amount);
        terms.nonce = B256::from(U256::from(nonce));
        payer.pay(TransferMethod::Prism, &terms).body(2)
    };
    let before = stage.balance(SHOP).await;
    // The first payment is in flight before the others arrive, in any order.
    stage.chain.set_automine(false).await.expect("set");
    let first = pay(0, 1_000);
    // Each payment is signed only once, because a signature in another second makes a different payment.
    let later: Vec<Value> = [3, 1, 2].into_iter().map(|nonce| pay(nonce, 1_000 + nonce)).collect();
    let rest = async {
        wait_until("sent", async || transaction_count_of_all(&stage, "pending").await == 1).await;
        stage.chain.set_automine(true).await.expect("set");
        stage.chain.mine(1).await.expect("mined");
        join_all(later.iter().map(|body| stage.settle(body))).await
    };
    let (first, rest) = tokio::join!(stage.settle(&first), rest);
    assert_eq!(first["success"], true, "{first}");
    let early = rest.iter().filter(|answer| answer["success"] != true);
    for answer in early {
        assert_eq!(answer["errorReason"], "prism_invalid_nonce", "{answer}");
    }
    for body in &later {
        let answer = stage.settle(body).await;
        // A payment that arrived too early is sent again.
        assert!(
            answer["success"] == true || answer["errorReason"] == "prism_invalid_nonce",
            "{answer}"
        );
    }
    for (nonce, body) in [(1, &later[1]), (2, &later[2]), (3, &later[0])] {
        let answer = stage.settle(body).await;
        assert_eq!(answer["success"], true, "{nonce}: {answer}");
    }
    assert_eq!(stage.balance(SHOP).await - before, U256::from(4_006));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_expires_in_the_queue_is_never_sent() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 10000\nin_flight = 1").await else {
        return;
    };
    let (first, second) = (stage.payer().await, stage.payer().await);
    stage.chain.set_automine(false).await.expect("set");
    let lone = stage.pay(&first, TransferMethod::Eip3009, 1_000).body(2);
    let mut terms = second.terms(stage.network(), SHOP, 1_000);
    let blocks = async {
        wait_until("sent", async || transaction_count_of_all(&stage, "pending").await == 1).await;
        terms.valid_before_s = now_s() + 8;
        let short = second.pay(TransferMethod::Eip3009, &terms).body(2);
        // When the first payment is mined, less than `SETTLING_MARGIN_SECONDS` (6) of the second payment's validity is
        // left.
        let end = terms.valid_before_s;
        let mined = async {
            wait_until("expired", async || now_s() + 6 > end).await;
            stage.chain.set_automine(true).await.expect("set");
            stage.chain.mine(1).await.expect("mined");
        };
        tokio::join!(stage.settle(&short), mined).0
    };
    let (first, answer) = tokio::join!(stage.settle(&lone), blocks);
    assert_eq!(first["success"], true, "{first}");
    let expired = "invalid_exact_evm_payload_authorization_valid_before";
    assert_eq!(answer["errorReason"], expired, "{answer}");
    assert!(!stage.chain.is_authorization_used(terms.from, terms.nonce).await.expect("answered"));
    assert_eq!(transaction_count_of_all(&stage, "pending").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_payments_do_not_exceed_the_payers_balance() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = bursar_tests::payer::Payer::random();
    stage.chain.mint(payer.address(), 900).await.expect("minted");
    let bodies: Vec<Value> =
        (0..8).map(|_each| stage.pay(&payer, TransferMethod::Eip3009, 900).body(2)).collect();
    let answer = join_all(bodies.iter().map(|body| stage.settle(body))).await;
    let settled = answer.iter().filter(|answer| answer["success"] == true).count();
    let refused =
        answer.iter().filter(|answer| answer["errorReason"] == "insufficient_balance").count();
    // One payment settles, and the others cost no gas.
    assert_eq!((settled, refused), (1, 7), "{answer:?}");
    assert_eq!(transaction_count_of_all(&stage, "pending").await, 1);
    assert_eq!(stage.balance(SHOP).await, U256::from(900));
    stage.facilitator.stop().await;
}
