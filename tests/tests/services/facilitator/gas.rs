//! Signers without native coin: a payment whose gas cannot be paid is rejected, and one that cannot be sent is
//! withdrawn. A refusal is never followed by a charge.

use alloy_primitives::U256;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::ask;
use bursar_tests::lying_rpc::{LATE_DELAY, Lie, LyingRpc};
use bursar_tests::payer::{SignedPayment, TransferMethod, now_s};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::access::keys;
use crate::facilitator::stage::{BASE, SHOP, Stage, prepared_home};

const TIMEOUT: Duration = Duration::from_secs(20);

fn ample_coin() -> U256 {
    U256::from(10).pow(U256::from(20))
}

/// Settles new payments until one succeeds, for long enough that prices are refreshed.
async fn settle_until_paid(stage: &Stage, amount: u64) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let payer = stage.payer().await;
        let body = stage.pay(&payer, TransferMethod::Eip3009, amount).body(2);
        let (_status, answer) = stage.facilitator.post("/settle", &body).await;
        if answer["success"] == true {
            return answer;
        }
        assert!(Instant::now() < end, "{answer}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Mines 20 blocks, more than all pending transactions of a signer need.
async fn mine_until_quiet(stage: &Stage) {
    for _block in 0..20 {
        stage.chain.mine(1).await.expect("mined");
        sleep(Duration::from_millis(60)).await;
    }
}

async fn is_used(stage: &Stage, paid: &SignedPayment) -> bool {
    stage.chain.is_authorization_used(paid.terms.from, paid.terms.nonce).await.expect("answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn without_coin_nothing_is_accepted_and_a_top_up_is_seen_at_once() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    stage.fund_signers(U256::ZERO).await;
    let payer = stage.payer().await;
    // Balances are refreshed every few seconds.
    let body = stage.pay(&payer, TransferMethod::Eip3009, 700).body(2);
    let end = Instant::now() + TIMEOUT;
    while stage.verify(&body).await["isValid"] == true {
        assert!(Instant::now() < end, "it never saw that its signers have no coin");
        sleep(Duration::from_millis(100)).await;
    }
    let mut refused = Vec::new();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2] {
        let paid = stage.pay(&payer, method, 700);
        let verdict = stage.verify(&paid.body(2)).await;
        assert_eq!(verdict["invalidReason"], "facilitator_out_of_gas", "{verdict}");
        let answer = stage.settle_without_key(&paid.body(2)).await;
        assert_eq!(answer["errorReason"], "facilitator_out_of_gas", "{answer}");
        assert_eq!(answer["transaction"], "");
        refused.push(paid);
    }
    stage.fund_signers(ample_coin()).await;
    settle_until_paid(&stage, 900).await;
    mine_until_quiet(&stage).await;
    assert_eq!(stage.balance(SHOP).await, U256::from(900), "nothing that was refused has moved");
    assert!(!is_used(&stage, &refused[0]).await);
    // The same payment may be sent again: it was never accepted.
    assert_eq!(stage.settle_without_key(&refused[0].body(2)).await["success"], true);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_that_is_drained_after_the_acceptance_moves_nothing_when_it_is_funded_later() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 1200").await else { return };
    let before = stage.balance(SHOP).await;
    // This payment makes the facilitator cache a balance, which the drain then makes stale.
    let payer = stage.payer().await;
    let first =
        stage.settle_without_key(&stage.pay(&payer, TransferMethod::Eip3009, 100).body(2)).await;
    assert_eq!(first["success"], true, "{first}");
    stage.fund_signers(U256::ZERO).await;
    let mut refused = Vec::new();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Eip3009] {
        let paid = stage.pay(&payer, method, 700);
        let answer = stage.settle_without_key(&paid.body(2)).await;
        assert_eq!(answer["success"], false, "{answer}");
        assert_eq!(answer["transaction"], "", "no node has it: {answer}");
        let reason = answer["errorReason"].as_str().expect("a reason");
        let reasons = ["facilitator_out_of_gas", "settlement_withdrawn"];
        assert!(reasons.contains(&reason), "{answer}");
        refused.push(paid);
    }
    stage.fund_signers(ample_coin()).await;
    settle_until_paid(&stage, 900).await;
    mine_until_quiet(&stage).await;
    assert_eq!(stage.balance(SHOP).await - before, U256::from(1_000), "only the two successes");
    for paid in refused.iter().filter(|paid| paid.method == TransferMethod::Eip3009) {
        assert!(!is_used(&stage, paid).await);
    }
    stage.facilitator.stop().await;
}

/// The node claims a transaction that it does not have, denies one that it has, or forgets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_hash_is_returned_only_where_the_node_has_the_transaction() {
    for lie in [Lie::Drop, Lie::TimeoutAfterAccept, Lie::Forget, Lie::Underpriced, Lie::NonceTooLow]
    {
        let Some(chain) = full_chain_or_skip(BASE).await else { return };
        let node = LyingRpc::in_front_of(chain.url()).await;
        let url = node.url.clone();
        // The wait is longer than one probe, so a forgotten transaction is broadcast again,
        // unless the answer is due first.
        let stage = Stage::with_node(chain, &url, 1, "wait_ms = 700", "").await;
        let payer = stage.payer().await;
        let paid = stage.pay(&payer, TransferMethod::Eip3009, 700);
        stage.chain.set_automine(false).await.expect("set");
        node.queue_lies([lie]);
        let answer = stage.settle_without_key(&paid.body(2)).await;
        if answer["errorReason"] == "settlement_pending" {
            let known = stage
                .chain
                .request("eth_getTransactionByHash", json!([answer["transaction"]]))
                .await;
            assert!(!known.expect("answered").is_null(), "{lie:?}: {answer}");
        } else {
            assert_eq!(answer["success"], false, "{lie:?}: {answer}");
            assert_eq!(answer["transaction"], "", "{lie:?}: {answer}");
        }
        mine_until_quiet(&stage).await;
        let moved = stage.balance(SHOP).await == U256::from(700);
        let pending = answer["errorReason"] == "settlement_pending";
        assert_eq!(moved, pending, "{lie:?}: {answer}");
        // A withdrawn transaction consumes its nonce, so later transactions are not blocked.
        stage.chain.set_automine(true).await.expect("set");
        settle_until_paid(&stage, 900).await;
        stage.facilitator.stop().await;
    }
}

/// A broadcast is still in flight when the answer is due, and arrives later. The answer must not be a refusal, whatever
/// the node reports at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_in_flight_when_the_answer_is_due_is_not_reported_as_refused() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let node = LyingRpc::in_front_of(chain.url()).await;
    let url = node.url.clone();
    let stage = Stage::with_node(chain, &url, 1, "wait_ms = 300", "").await;
    let payer = stage.payer().await;
    stage.chain.set_automine(false).await.expect("set");
    node.queue_lies([Lie::Late]);
    let body = stage.pay(&payer, TransferMethod::Eip3009, 700).body(2);
    let (status, answer) = stage.facilitator.post("/settle", &body).await;
    assert_eq!(node.lies_told(), 1, "{answer}");
    assert_eq!(status, 503, "{answer}");
    sleep(LATE_DELAY).await;
    mine_until_quiet(&stage).await;
    // Whether or not the transaction was mined, a repeat now reports the true outcome.
    stage.chain.set_automine(true).await.expect("set");
    let moved = stage.balance(SHOP).await == U256::from(700);
    let mut answer = stage.settle_without_key(&body).await;
    for _repeat in 0..100 {
        if answer["errorReason"] != "settlement_pending" {
            break;
        }
        answer = stage.settle_without_key(&body).await;
    }
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(stage.balance(SHOP).await, U256::from(700), "once, {moved}");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_expires_while_no_node_answers_is_not_sent_afterwards() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let node = LyingRpc::in_front_of(chain.url()).await;
    let url = node.url.clone();
    let stage = Stage::with_node(chain, &url, 1, "wait_ms = 500", "").await;
    let payer = stage.payer().await;
    let mut terms = payer.terms(stage.network(), SHOP, 700);
    terms.valid_before_s = now_s() + 9;
    let paid = payer.pay(TransferMethod::Eip3009, &terms);
    // The node refuses the broadcast, then freezes until the payment has expired.
    stage.chain.set_automine(false).await.expect("set");
    node.queue_lies([Lie::Drop]);
    let answer = stage.settle_without_key(&paid.body(2)).await;
    assert_eq!(answer["success"], false, "{answer}");
    let sent = node.broadcast_transactions();
    node.freeze(Duration::from_secs(terms.valid_before_s.saturating_sub(now_s()) + 1));
    while now_s() <= terms.valid_before_s {
        sleep(Duration::from_millis(50)).await;
    }
    mine_until_quiet(&stage).await;
    let later: Vec<_> = node.broadcast_transactions().into_iter().skip(sent.len()).collect();
    assert!(
        !later.contains(&sent[0]),
        "the transaction was broadcast again after its payment expired"
    );
    assert_eq!(stage.balance(SHOP).await, U256::ZERO);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gas_is_bounded_by_price_by_value_and_by_the_day() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let url = chain.url().to_owned();
    let stage = Stage::with_node(chain, &url, 1, "", "").await;
    let payer = stage.payer().await;
    // The default limits allow the specification's smallest payment on a local chain.
    let least = stage.pay(&payer, TransferMethod::Eip3009, 10).body(2);
    assert_eq!(stage.settle_without_key(&least).await["success"], true);
    let refused = async |more: &str, reason: &str| {
        let other = Stage::with_node(stage.chain.clone(), &url, 1, "", more).await;
        let body = other.pay(&payer, TransferMethod::Eip3009, 10).body(2);
        assert_eq!(other.verify(&body).await["invalidReason"], reason, "{more}");
        assert_eq!(other.settle_without_key(&body).await["errorReason"], reason, "{more}");
        other.facilitator.stop().await;
    };
    refused("max_gas_price_gwei = \"0.01\"", "gas_too_high").await;
    refused("max_gas_share_percent = 20\nnative_usd = \"3500\"", "gas_too_high").await;
    refused("gas_budget_caller_percent = 0", "gas_budget_spent").await;
    refused("gas_budget_percent = 0", "gas_budget_spent").await;
    let coin = stage.coin();
    refused(&format!("min_amount = [\"{coin}=11\"]"), "amount_below_minimum").await;
    stage.facilitator.stop().await;
}

/// Prism accepts payments from one known signer, so only that signer's coin counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_prism_payment_needs_the_coin_of_the_only_signer_that_may_send_it() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    let mut refused = 0;
    for signer in &stage.home.signers {
        let drain = json!([signer, U256::ZERO]);
        stage.chain.request("anvil_setBalance", drain).await.expect("set");
        // This is long enough for two balance refreshes: the second one sees the drained signer.
        sleep(Duration::from_millis(2_500)).await;
        settle_until_paid(&stage, 100).await;
        sleep(Duration::from_millis(500)).await;
        let payer = stage.payer().await;
        let body = stage.pay(&payer, TransferMethod::Prism, 700).body(2);
        let verdict = stage.verify(&body).await;
        let answer = stage.settle_without_key(&body).await;
        if answer["success"] == true {
            assert_eq!(verdict["isValid"], true, "{verdict}");
        } else {
            assert_eq!(verdict["invalidReason"], "facilitator_out_of_gas", "{verdict}");
            assert_eq!(answer["errorReason"], "facilitator_out_of_gas", "{answer}");
            refused += 1;
        }
        let fund = json!([signer, ample_coin()]);
        stage.chain.request("anvil_setBalance", fund).await.expect("set");
    }
    assert_eq!(refused, 1, "one of the two sends them");
    stage.facilitator.stop().await;
}

/// A caller whose budget for today is spent is refused, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_spent_gas_budget_stays_spent_after_a_restart() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let url = chain.url().to_owned();
    let more = "gas_budget_caller_percent = 10\nconfirmations = 1";
    let home = prepared_home(&chain, &url, 1, "", more).await;
    // Every block has the same base fee. The coin is 13 times the most that one payment may cost, so ten percent of it
    // pays for a few payments.
    let gwei = U256::from(1_000_000_000_u64);
    let most = gwei * U256::from(2) * U256::from(260_000);
    let coin = json!([home.signers[0], most * U256::from(13)]);
    chain.request("anvil_setBalance", coin).await.expect("set");
    let steady = async |chain: &Devnet| {
        let fee = json!([gwei]);
        chain.request("anvil_setNextBlockBaseFeePerGas", fee).await.expect("set");
    };
    steady(&chain).await;
    chain.mine(1).await.expect("mined");
    let facilitator = home.start().await;
    let stage = Stage { chain, facilitator, home };
    let payer = stage.payer().await;
    let pay = async |stage: &Stage| {
        stage.settle_without_key(&stage.pay(&payer, TransferMethod::Eip3009, 10).body(2)).await
    };
    let mut paid = 0;
    let spent = loop {
        assert!(paid < 30, "no budget was ever spent");
        steady(&stage.chain).await;
        let answer = pay(&stage).await;
        if answer["success"] == true {
            paid += 1;
        } else if answer["errorReason"] != "facilitator_out_of_gas" {
            break answer;
        }
    };
    assert_eq!(spent["errorReason"], "gas_budget_spent", "after {paid}: {spent}");
    assert!(paid >= 1, "{spent}");
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    assert_eq!(pay(&stage).await["errorReason"], "gas_budget_spent", "the day goes on");
    stage.facilitator.stop().await;
}

/// A caller that has spent its share of the day does not reduce another caller's.
#[tokio::test(flavor = "multi_thread")]
async fn t_58_a_caller_that_spent_its_budget_leaves_another_caller_its_own() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let url = chain.url().to_owned();
    let more = "gas_budget_caller_percent = 10\nconfirmations = 1";
    let home = prepared_home(&chain, &url, 1, &keys(&["shop", "stall"]), more).await;
    // Ten percent of the coin pays for a few payments.
    let gwei = U256::from(1_000_000_000_u64);
    let coin = json!([home.signers[0], gwei * U256::from(2 * 260_000 * 13)]);
    chain.request("anvil_setBalance", coin).await.expect("set");
    chain.request("anvil_setNextBlockBaseFeePerGas", json!([gwei])).await.expect("set");
    chain.mine(1).await.expect("mined");
    let facilitator = home.start().await;
    let stage = Stage { chain, facilitator, home };
    let payer = stage.payer().await;
    let pay = async |caller: &str| {
        let fee = json!([gwei]);
        stage.chain.request("anvil_setNextBlockBaseFeePerGas", fee).await.expect("set");
        let body = stage.pay(&payer, TransferMethod::Eip3009, 10).body(2);
        let asked = stage.facilitator.request("POST", "/settle").json(&body);
        let answer = asked.header("x-api-key", format!("key of {caller}")).send().await;
        let answer: Value = answer.expect("answered").json().await.expect("JSON");
        match (answer["success"] == true, answer["errorReason"].as_str()) {
            (true, _) => "paid".to_owned(),
            (false, reason) => reason.unwrap_or_else(|| panic!("{answer}")).to_owned(),
        }
    };
    // Retries while the code is one of `while_it_is`: right after a price refresh, one payment may be refused.
    let end_of = async |caller: &str, while_it_is: &[&str]| {
        for _payment in 0..30 {
            let answer = pay(caller).await;
            if !while_it_is.contains(&answer.as_str()) {
                return answer;
            }
        }
        panic!("{caller}: still {while_it_is:?}")
    };
    let spent = end_of("shop", &["paid", "facilitator_out_of_gas"]).await;
    assert_eq!(spent, "gas_budget_spent");
    assert_eq!(end_of("stall", &["facilitator_out_of_gas"]).await, "paid");
    assert_eq!(pay("shop").await, "gas_budget_spent", "the first one's day goes on");
    stage.facilitator.stop().await;
}

/// One cent on a layer 2 with gas at 80 gwei is over the default ceiling.
#[tokio::test(flavor = "multi_thread")]
async fn t_58_the_default_ceiling_rejects_a_cent_at_80_gwei() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let body = stage.pay(&payer, TransferMethod::Eip3009, 10_000).body(2);
    assert_eq!(stage.verify(&body).await["isValid"], true);
    let fee = json!([U256::from(80_000_000_000_u64)]);
    stage.chain.request("anvil_setNextBlockBaseFeePerGas", fee).await.expect("set");
    stage.chain.mine(1).await.expect("mined");
    // The price is refreshed every few seconds.
    let end = Instant::now() + TIMEOUT;
    let verdict = loop {
        let verdict = stage.verify(&body).await;
        if verdict["isValid"] == false {
            break verdict;
        }
        assert!(Instant::now() < end, "{verdict}");
        sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(verdict["invalidReason"], "gas_too_high", "{verdict}");
    let answer = stage.settle_without_key(&body).await;
    assert_eq!(
        (&answer["errorReason"], &answer["transaction"]),
        (&json!("gas_too_high"), &json!(""))
    );
    mine_until_quiet(&stage).await;
    assert_eq!(stage.balance(SHOP).await, U256::ZERO);
    stage.facilitator.stop().await;
}

/// Ten thousand one-unit payments by one caller cost at most the caller's daily share of gas.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_payments_of_one_unit_cost_no_more_than_the_budget() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let url = chain.url().to_owned();
    let home = prepared_home(&chain, &url, 1, "", "").await;
    let coin = U256::from(10).pow(U256::from(16));
    chain.request("anvil_setBalance", json!([home.signers[0], coin])).await.expect("set");
    let facilitator = home.start().await;
    let stage = Stage { chain, facilitator, home };
    let payer = stage.payer().await;
    let bodies: Vec<Value> =
        (0..10_000).map(|_one| stage.pay(&payer, TransferMethod::Eip3009, 1).body(2)).collect();
    let asked = futures::stream::iter(&bodies).map(|body| stage.settle_without_key(body));
    let answers: Vec<Value> = asked.buffer_unordered(8).collect().await;
    let paid = answers.iter().filter(|answer| answer["success"] == true).count();
    let reasons = ["gas_budget_spent", "facilitator_out_of_gas"];
    let refused = answers
        .iter()
        .filter(|answer| reasons.contains(&answer["errorReason"].as_str().unwrap_or_default()));
    assert_eq!(paid + refused.count(), 10_000);
    assert!((1..5_000).contains(&paid), "{paid} were paid for");
    mine_until_quiet(&stage).await;
    let left =
        stage.chain.request("eth_getBalance", json!([stage.home.signers[0], "latest"])).await;
    let left: U256 = left.expect("answered").as_str().expect("text").parse().expect("a number");
    assert!(coin - left <= coin / U256::from(10), "{} of {coin} were spent", coin - left);
    assert_eq!(stage.balance(SHOP).await, U256::from(paid));
    stage.facilitator.stop().await;
}

/// Kills the process during a withdrawal and funds the signer later. A withdrawn payment does not move, and a payment
/// without an answer has exactly one outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_survives_a_kill_at_any_point() {
    for point in ["settle.before withdraw:1", "settle.after withdraw:1"] {
        let Some(chain) = full_chain_or_skip(BASE).await else { return };
        let home = prepared_home(&chain, chain.url(), 1, "wait_ms = 900", "").await;
        let mut process = home.start_process(Some(point));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let ready = async |url: &str| {
            let answer = client.get(format!("{url}/readyz")).send().await.expect("answered");
            answer.status() == 200
        };
        while !ready(&process.url).await {
            sleep(Duration::from_millis(20)).await;
        }
        // The facilitator still trusts the balance that it read a moment ago.
        let drain = json!([home.signers[0], U256::ZERO]);
        chain.request("anvil_setBalance", drain).await.expect("set");
        let payer = bursar_tests::payer::Payer::random();
        chain.mint(payer.address(), 10_000).await.expect("minted");
        let terms = payer.terms(chain.network(), SHOP, 700);
        let body = payer.pay(TransferMethod::Eip3009, &terms).body(2);
        assert_eq!(ask(&process.url, "/settle", &body).await, None, "{point}: it was not reached");
        assert!(!process.wait().success());
        let process = home.start_process(None);
        let fund = json!([home.signers[0], ample_coin()]);
        chain.request("anvil_setBalance", fund).await.expect("set");
        let end = Instant::now() + TIMEOUT;
        let answer = loop {
            assert!(Instant::now() < end, "{point}: no end");
            chain.mine(1).await.expect("mined");
            let used =
                chain.is_authorization_used(terms.from, terms.nonce).await.expect("answered");
            let pool = chain.request("txpool_status", json!([])).await.expect("answered");
            let count = json!([home.signers[0], "latest"]);
            let sent = chain.request("eth_getTransactionCount", count).await.expect("answered");
            if pool["pending"] == "0x0" && pool["queued"] == "0x0" && sent != "0x0" {
                break used;
            }
            sleep(Duration::from_millis(50)).await;
        };
        // No answer was sent. Before the withdrawal is committed, both outcomes are valid; after
        // it, the payment must not move.
        assert!(
            !(point.starts_with("settle.after") && answer),
            "{point}: it was withdrawn, and moved"
        );
        drop(process);
    }
}
