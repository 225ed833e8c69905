//! Failed payments on a chain with the real facilitator, and the customer's answers.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_devnet::Call;
use bursar_tests::proxy::{
    Customer, PaymentHeader, PaymentRequired, SELLER, chat, receipt, streaming_chat,
};
use bursar_tests::upstream::{Behavior, answer, frames};
use reqwest::Response;
use serde_json::{Value, json};

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

sol! {
    function transfer(address to, uint256 value) external returns (bool);
}

fn whole_answer() -> Behavior {
    Behavior::Whole(answer("hello world"))
}

fn late_answer() -> Behavior {
    Behavior::Late(answer("hello world"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insufficient_balance_is_reported_without_an_upstream_call() {
    for chain in [BASE, ROBINHOOD] {
        let Some(stage) = Stage::set_up(chain, whole_answer()).await else { return };
        for (version, purse) in [(1, 0), (2, 1)] {
            let customer = stage.customer(purse).await;
            let response = customer.buy(version, &chat("hello")).await;
            assert!(response.headers().get("payment-response").is_none());
            let answer = PaymentRequired::read(response).await;
            for text in [&answer.v1["error"], &answer.v2["error"]] {
                let text = text.as_str().unwrap();
                assert!(text.starts_with("insufficient_balance"), "{text}");
            }
        }
        assert_eq!((stage.upstream.calls(), stage.earned().await), (0, U256::ZERO));
        stage.close().await;
    }
}

/// Sends a paid request, and runs `act` while the model works.
async fn act_during_request(
    stage: &mut Stage,
    customer: &Customer,
    (body, header): (&Value, &PaymentHeader),
    act: impl AsyncFnOnce(&mut Stage),
) -> Response {
    let asking = customer.request(body).header(header.name, &header.value).send();
    let asking = tokio::spawn(asking);
    while stage.upstream.calls() == 0 {
        tokio::task::yield_now().await;
    }
    act(stage).await;
    stage.upstream.open_gate(1);
    asking.await.expect("it ends").expect("answered")
}

/// Moves all of the payer's money elsewhere.
async fn spend_all(stage: &Stage, payer: Address) {
    let gas = U256::from(10).pow(U256::from(18));
    stage.chain.request("anvil_setBalance", json!([payer, gas])).await.expect("set");
    let value = stage.balance(payer).await;
    let call = transferCall { to: Address::repeat_byte(0x77), value };
    let call = Call::new(payer, stage.network().stablecoin.address, &call);
    stage.chain.send_as(&call).await.expect("sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payer_that_spends_the_money_during_the_request_gets_no_content() {
    let stream = || Behavior::LateStream(frames(&["hello", " world"]));
    for (chain, version, does, body, calls) in [
        (BASE, 1, late_answer(), chat("hello"), 1),
        (ROBINHOOD, 2, late_answer(), chat("hello"), 1),
        // An unpaid stream is not stored.
        (BASE, 2, stream(), streaming_chat("hello"), 2),
    ] {
        let Some(mut stage) = Stage::set_up(chain, does).await else { return };
        let customer = stage.customer(INITIAL_BALANCE).await;
        let payer = customer.payer.address();
        let header = customer.sign(version, &body).await;
        let act = async |stage: &mut Stage| spend_all(stage, payer).await;
        let response = act_during_request(&mut stage, &customer, (&body, &header), act).await;
        assert_eq!(response.status(), 402);
        assert_eq!(response.headers()["x-should-retry"], "false");
        let reply = receipt(&response);
        assert_eq!(
            (&reply["success"], &reply["errorReason"]),
            (&json!(false), &json!("insufficient_balance"))
        );
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"]["code"], "settlement_failed");
        assert_eq!(answer["x402"]["charged"], "no");
        assert!(!answer.to_string().contains("world"));
        assert_eq!(stage.earned().await, U256::ZERO);
        // Once the payer has money again, the same payment buys the answer.
        stage.chain.mint(payer, INITIAL_BALANCE).await.expect("minted");
        stage.upstream.open_gate(1);
        let response = customer.send(&body, &header).await;
        stage.assert_moved(&receipt(&response), payer, header.terms.amount).await;
        assert!(response.text().await.unwrap().contains("world"));
        assert_eq!(stage.upstream.calls(), calls);
        stage.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_facilitator_restarted_during_the_request_settles_once() {
    for version in [1, 2] {
        let Some(mut stage) = Stage::set_up(BASE, late_answer()).await else { return };
        let customer = stage.customer(INITIAL_BALANCE).await;
        let (body, payer) = (chat("hello"), customer.payer.address());
        let header = customer.sign(version, &body).await;
        let act = async |stage: &mut Stage| stage.restart_facilitator();
        let response = act_during_request(&mut stage, &customer, (&body, &header), act).await;
        stage.assert_moved(&receipt(&response), payer, header.terms.amount).await;
        assert_eq!(response.json::<Value>().await.unwrap(), answer("hello world"));
        assert_eq!((stage.upstream.calls(), stage.earned().await), (1, header.terms.amount));
        stage.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_block_the_answer_is_sent_and_the_receipt_follows() {
    for (chain, does, body) in [
        (BASE, whole_answer(), chat("hello")),
        (ROBINHOOD, Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        // Longer than a broadcast takes on a busy machine: a payment that is not sent within it is refused.
        let Some(stage) = Stage::with(chain, does, "wait_ms = 1500", "").await else { return };
        let customer = stage.customer(INITIAL_BALANCE).await;
        let header = customer.sign(2, &body).await;
        stage.chain.set_automine(false).await.expect("set");
        let response = customer.send(&body, &header).await;
        assert_eq!(response.status(), 200);
        let answer = receipt(&response);
        assert_eq!(answer["errorReason"], "settlement_pending", "{answer}");
        assert_eq!(answer["transaction"].as_str().map(str::len), Some(66), "{answer}");
        let text = response.text().await.unwrap();
        assert!(text.contains("world"));
        let balance = stage.chain.request("eth_call", balance_at_latest(&stage)).await;
        assert_eq!(balance.expect("an answer"), json!(format!("0x{:064x}", 0)));
        // A repeat before the block gets the same answer.
        let again = customer.send(&body, &header).await;
        assert_eq!(receipt(&again)["success"], json!(false));
        assert_eq!(again.text().await.unwrap(), text);
        stage.chain.set_automine(true).await.expect("set");
        stage.chain.mine(1).await.expect("mined");
        // The proxy notices the settlement by itself.
        let paid = loop {
            let again = customer.send(&body, &header).await;
            let paid = receipt(&again);
            assert_eq!(again.text().await.unwrap(), text);
            if paid["success"] == json!(true) {
                break paid;
            }
        };
        stage.assert_moved(&paid, customer.payer.address(), header.terms.amount).await;
        assert_eq!((stage.upstream.calls(), stage.earned().await), (1, header.terms.amount));
        stage.close().await;
    }
}

/// Returns the call for the seller's balance in the latest block, not in the pending one.
fn balance_at_latest(stage: &Stage) -> Value {
    let data = format!("0x70a08231{}", hex::encode(SELLER.into_word()));
    json!([{ "to": stage.network().stablecoin.address, "data": data }, "latest"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_payments_from_one_balance_buy_one_answer() {
    for (does, body) in [
        (whole_answer(), chat("hello")),
        (Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        let Some(stage) = Stage::with(BASE, does, "wait_ms = 200", "").await else { return };
        let customer = stage.customer(0).await;
        let mut headers = Vec::new();
        for _each in 0..6 {
            headers.push(customer.sign(2, &body).await);
        }
        let amount = headers[0].terms.amount;
        stage.chain.mint(customer.payer.address(), amount.to::<u128>()).await.expect("minted");
        // Each payment is valid alone.
        let all = headers.iter().map(|header| customer.send(&body, header));
        let mut sold = 0;
        for response in futures::future::join_all(all).await {
            let status = response.status().as_u16();
            let text = response.text().await.unwrap();
            assert_eq!(text.contains("world"), status == 200, "{status} {text}");
            sold += usize::from(status == 200);
        }
        // On a busy machine, the wait for settlements may end before any payment is settled.
        let earned = stage.earned().await;
        assert!(sold <= 1 && earned <= amount, "{sold} sold for {earned}");
        // Once the blocks are final, every other payment is refused as not charged.
        stage.chain.mine(30).await.expect("mined");
        let mut ends = Vec::new();
        for header in &headers {
            let mut response = customer.send(&body, header).await;
            while response.status() == 503 {
                stage.chain.mine(1).await.expect("mined");
                response = customer.send(&body, header).await;
            }
            ends.push(response.status().as_u16());
        }
        ends.sort_unstable();
        assert_eq!(ends, [200, 402, 402, 402, 402, 402]);
        assert_eq!(stage.earned().await, amount);
        stage.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payer_that_empties_its_balance_before_the_block_gets_no_content() {
    let Some(stage) = Stage::with(BASE, whole_answer(), "wait_ms = 3000", "").await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let payer = customer.payer.address();
    let (body, coin) = (chat("hello"), stage.network().stablecoin.address);
    let header = customer.sign(2, &body).await;
    let gas = U256::from(10).pow(U256::from(20));
    stage.chain.request("anvil_setBalance", json!([payer, gas])).await.expect("set");
    stage.chain.request("anvil_impersonateAccount", json!([payer])).await.expect("set");
    stage.chain.set_automine(false).await.expect("set");
    let asking = customer.request(&body).header(header.name, &header.value).send();
    let asking = tokio::spawn(asking);
    let waiting = async || {
        let answer = stage.chain.request("txpool_status", json!([])).await.expect("an answer");
        answer["pending"].as_str().expect("text").to_owned()
    };
    while waiting().await == "0x0" {
        tokio::task::yield_now().await;
    }
    // The payer's own transfer overtakes the settlement with a higher fee.
    let call = transferCall { to: Address::repeat_byte(0x77), value: U256::from(INITIAL_BALANCE) };
    let price = U256::from(10).pow(U256::from(12));
    let drain = json!({
        "from": payer, "to": coin, "gas": "0x30d40", "maxFeePerGas": price,
        "maxPriorityFeePerGas": price, "data": Bytes::from(call.abi_encode()),
    });
    stage.chain.request("eth_sendTransaction", json!([drain])).await.expect("sent");
    stage.chain.mine(1).await.expect("mined");
    stage.chain.set_automine(true).await.expect("set");
    let response = asking.await.expect("it ends").expect("answered");
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["error"]["code"], "settlement_unknown", "{answer}");
    assert!(!answer.to_string().contains("hello world"));
    assert_eq!(stage.balance(payer).await, U256::ZERO);
    stage.chain.mine(30).await.expect("mined");
    let mut response = customer.send(&body, &header).await;
    while response.status() == 503 {
        stage.chain.mine(1).await.expect("mined");
        response = customer.send(&body, &header).await;
    }
    assert_eq!(response.status(), 402);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["x402"]["charged"], "no", "{answer}");
    assert_eq!((stage.upstream.calls(), stage.earned().await), (1, U256::ZERO));
    stage.close().await;
}
