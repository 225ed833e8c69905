//! Settlements and their verification, for programs that pay in both versions of x402.
//!
//! The engine trusts no report: it finds the payment on the chain itself.

use std::path::Path;

use alloy_primitives::{Address, B256, U256, hex};
use bursar_control::answers::Answer;
use bursar_core::edition::EditionName;
use bursar_core::limits::SETTLEMENT_CHECK_MS_MAX;
use bursar_devnet::Devnet;
use bursar_tests::agent::Agent;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::chain::programs::{Buyer, CASES};
use crate::chain::relay::RecordingNode;
use crate::chain::stage::{POLL_INTERVAL, SMALL_PRICE, Stage, local_chain, merchant_address};

/// The same item in version 2 and in version 1.
const PATHS: [&str; 2] = ["/small", "/v1/small"];

bursar_tests::in_every_edition! {
    (flavor = "multi_thread", worker_threads = 2)
    programs_that_report_are_verified_in_both_versions
    the_example_agents_are_verified_in_both_versions
    a_settled_payment_gets_no_second_header
    after_kill_9_a_locked_engine_verifies_settlements_by_itself
    an_unmined_transaction_verifies_no_payment
    another_transfer_of_the_same_amount_is_not_this_payment
    a_reported_failed_transaction_does_not_undo_a_settled_payment
    a_payment_whose_transaction_reverted_has_failed_once_its_block_is_final
}

/// Starts an engine that reads the chain through a relay.
pub(crate) async fn stage_with_relay(edition: EditionName) -> Option<(Stage, RecordingNode)> {
    let chain = local_chain(BASE).await?;
    let relay = RecordingNode::in_front_of(&chain).await;
    let rpc = Some(relay.url.clone());
    let start = StartOptions { edition, rpc, ..StartOptions::default() };
    Some((Stage::set_up(chain, start).await, relay))
}

/// A payment that the merchant has settled.
#[derive(Debug)]
struct SettledPayment {
    /// The body that the agent sent to `/sign`.
    body: Value,
    id: String,
    tx_hash: B256,
}

async fn buy(stage: &Stage, agent: &Agent, path: &str) -> SettledPayment {
    let before = stage.balances().await;
    let mut body = stage.ask_for(agent, path).await;
    if agent.uses_bearer {
        body["idempotency_key"] = json!(format!("purchase-{}", stage.next_second()));
    }
    let (status, answer) = stage.ask(&body).await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    let (status, goods) = stage.request_with_payment(&stage.url(path), &answer).await;
    assert_eq!(status, 200, "{goods}");
    let (_terms, tx_hash) = stage.latest_settlement(SMALL_PRICE).await;
    stage.assert_moved(before, SMALL_PRICE).await;
    let id = answer["transaction_id"].as_str().expect("an id").to_owned();
    SettledPayment { body, id, tx_hash }
}

pub(crate) async fn report_settled(stage: &Stage, agent: &Agent, id: &str, tx_hash: B256) {
    let (status, answer) = stage.report(agent, id, "settled", &tx_hash.to_string()).await;
    let wanted = json!({ "status": "ok", "transaction_id": id, "new_status": "settled" });
    assert_eq!((status, answer), (200, wanted));
}

/// Waits until the engine has verified that this transaction, in its block, is the payment.
pub(crate) async fn assert_verified(stage: &mut Stage, id: &str, tx_hash: B256) {
    let receipt = stage.receipt_with_verdict(id, "verified").await;
    assert_eq!(receipt["status"], "payment-completed", "{receipt}");
    let settlement = &receipt["settlement"];
    assert_eq!(settlement["txHash"], tx_hash.to_string(), "{receipt}");
    let params = json!([tx_hash]);
    let mined = stage.chain.request("eth_getTransactionReceipt", params).await.expect("mined");
    let block = mined["blockNumber"].as_str().and_then(|text| text.strip_prefix("0x"));
    let block = u64::from_str_radix(block.expect("hex"), 16).expect("hex");
    assert_eq!(settlement["verification"]["block"], block, "{receipt}");
}

/// Asserts that the same body gets no second payment header.
async fn assert_paid_once(stage: &Stage, agent: &Agent, bought: &SettledPayment) {
    let (status, answer) = stage.ask(&bought.body).await;
    assert_eq!((status, &answer["code"]), (409, &json!("PAYMENT_ALREADY_SETTLED")), "{answer}");
    assert_eq!(answer["previous_transaction_id"], bought.id);
    let way_on = if agent.uses_bearer { "new idempotency_key" } else { "new timestamp" };
    assert!(answer["hint"].as_str().expect("a hint").contains(way_on), "{answer}");
    assert_eq!(answer["header_value"], Value::Null);
}

/// Programs with their kinds of proof: the helper that the wallet serves, and plain curl.
pub(crate) const PROGRAMS: [(&str, &str); 3] =
    [("helper", "hmac"), ("helper", "bearer"), ("curl", "bearer")];

/// Downloads the helper into a temporary folder.
pub(crate) async fn download_helper(stage: &Stage) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let helper = client.get(format!("{}/sign/helper", stage.engine.url)).send().await;
    let helper = helper.expect("the helper").text().await.expect("text");
    std::fs::write(folder.path().join("wallet_helper.py"), helper).expect("written");
    folder
}

/// Returns the command of one of [`PROGRAMS`] that buys the item at `url`.
pub(crate) fn program(name: &str, folder: &Path, url: &str) -> Command {
    let mut command = match name {
        "helper" => {
            let mut python = Command::new("python3");
            python.arg(folder.join("wallet_helper.py")).args(["pay", "--poll", "0.05"]);
            python
        }
        "curl" => {
            let mut shell = Command::new("sh");
            shell.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lanes/chain/pay.sh"));
            shell
        }
        other => panic!("{other}"),
    };
    command.arg(url);
    command
}

async fn programs_that_report_are_verified_in_both_versions(edition: EditionName) {
    let Some((mut stage, _relay)) = stage_with_relay(edition).await else { return };
    let folder = download_helper(&stage).await;
    for (name, auth) in PROGRAMS {
        let agent = stage.add_agent(&format!("{name}-{auth}"), auth).await;
        for path in PATHS {
            let before = stage.balances().await;
            let command = program(name, folder.path(), &stage.url(path));
            let answer = Buyer::start(command, &agent, &stage.engine.url).finish().await;
            assert_eq!(answer.exit, Some(0), "{name}: {}", answer.line);
            let (_terms, tx_hash) = stage.latest_settlement(SMALL_PRICE).await;
            stage.assert_moved(before, SMALL_PRICE).await;
            match name {
                "helper" => {
                    assert_eq!(answer.line["reported"], "settled", "{}", answer.line);
                    assert_eq!(answer.line["tx_hash"], tx_hash.to_string());
                }
                _curl => assert_eq!(answer.line["new_status"], "settled", "{}", answer.line),
            }
            let id = answer.line["transaction_id"].as_str().expect("an id");
            assert_verified(&mut stage, id, tx_hash).await;
        }
    }
}

async fn the_example_agents_are_verified_in_both_versions(edition: EditionName) {
    let Some((mut stage, _relay)) = stage_with_relay(edition).await else { return };
    for case in CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        for path in PATHS {
            let before = stage.balances().await;
            let answer = stage.send(&case, &agent, path).finish().await;
            stage.assert_bought(&answer, before, SMALL_PRICE).await;
            let tx_hash = answer.line["payment_response"]["transaction"].as_str().expect("a hash");
            let tx_hash = tx_hash.parse().expect("32 bytes");
            let id = answer.line["transaction_id"].as_str().expect("an id");
            report_settled(&stage, &agent, id, tx_hash).await;
            assert_verified(&mut stage, id, tx_hash).await;
        }
        // The same program buys the same item again, as a separate purchase.
        let before = stage.balances().await;
        let answer = stage.send(&case, &agent, PATHS[0]).finish().await;
        stage.assert_bought(&answer, before, SMALL_PRICE).await;
    }
}

async fn a_settled_payment_gets_no_second_header(edition: EditionName) {
    let Some((mut stage, _relay)) = stage_with_relay(edition).await else { return };
    let mut paid = Vec::new();
    for (path, auth) in PATHS.iter().flat_map(|path| ["hmac", "bearer"].map(|auth| (path, auth))) {
        let agent = stage.add_agent(&format!("{auth}{}", path.replace('/', "-")), auth).await;
        let bought = buy(&stage, &agent, path).await;
        report_settled(&stage, &agent, &bought.id, bought.tx_hash).await;
        // Checks after the agent's report, and again after the engine's verification.
        assert_paid_once(&stage, &agent, &bought).await;
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
        assert_paid_once(&stage, &agent, &bought).await;
        paid.push((agent, bought));
    }
    stage.engine.kill();
    stage.start_again().await;
    stage.operator.must("wallet open").await;
    for (agent, bought) in &paid {
        assert_paid_once(&stage, agent, bought).await;
        // The first purchase does not block another purchase of the same item.
        let path = bought.body["request_url"].as_str().expect("a URL");
        let path = path.strip_prefix(stage.merchant.url()).expect("our merchant's").to_owned();
        buy(&stage, agent, &path).await;
    }
}

async fn after_kill_9_a_locked_engine_verifies_settlements_by_itself(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let relay = RecordingNode::in_front_of(&chain).await;
    for path in PATHS {
        // This engine cannot reach the chain, so any verification comes from the next engine.
        let mut stage =
            Stage::set_up(chain.clone(), StartOptions { edition, ..StartOptions::default() }).await;
        let agent = stage.add_agent("bot", "bearer").await;
        let bought = buy(&stage, &agent, path).await;
        report_settled(&stage, &agent, &bought.id, bought.tx_hash).await;
        stage.engine.kill();
        assert_eq!(relay.probe_count(bought.tx_hash), 0);

        stage.start.rpc = Some(relay.url.clone());
        stage.start_again().await;
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
        assert_eq!(relay.probe_count(bought.tx_hash), 1);
        // The wallet is still locked.
        let (status, answer) = stage.ask(&bought.body).await;
        assert_eq!((status, &answer["code"]), (503, &json!("WALLET_LOCKED")), "{answer}");
        stage.operator.must("wallet open").await;
        assert_paid_once(&stage, &agent, &bought).await;
    }
}

async fn an_unmined_transaction_verifies_no_payment(edition: EditionName) {
    let Some((mut stage, relay)) = stage_with_relay(edition).await else { return };
    let mut paid = Vec::new();
    for path in PATHS {
        let agent = stage.add_agent(&format!("bot{}", path.replace('/', "-")), "bearer").await;
        let bought = buy(&stage, &agent, path).await;
        let wrong = B256::repeat_byte(if path == PATHS[0] { 0xab } else { 0xba });
        report_settled(&stage, &agent, &bought.id, wrong).await;
        relay.until_probed(&mut stage, wrong, 3).await;
        let receipt = stage.receipt(&bought.id).await;
        assert_eq!(receipt["status"], "payment-submitted", "by the agent's report: {receipt}");
        assert_eq!(receipt["settlement"]["settledAt"], Value::Null, "{receipt}");
        let settlement = &receipt["settlement"];
        assert_eq!(settlement["txHash"], wrong.to_string());
        assert_eq!(settlement["verification"]["status"], "pending", "{receipt}");
        assert_eq!(settlement["verification"]["block"], Value::Null, "{receipt}");
        assert_paid_once(&stage, &agent, &bought).await;
        paid.push((agent, bought));
    }
    // A day later the engine stops probing, and the hash can still be corrected.
    stage.advance(SETTLEMENT_CHECK_MS_MAX);
    for (agent, bought) in paid {
        let receipt = stage.receipt_with_verdict(&bought.id, "not_found").await;
        assert_eq!(receipt["status"], "payment-refuted", "{receipt}");
        let Answer::History(refuted) = stage.operator.must("history --status refuted").await else {
            panic!("no history")
        };
        assert!(refuted.requests.iter().any(|row| row.id == bought.id), "{refuted:?}");
        report_settled(&stage, &agent, &bought.id, bought.tx_hash).await;
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
    }
}

/// Sends a call to the coin from an impersonated account and waits until it is mined.
///
/// Returns its hash, and whether it succeeded.
async fn call_coin(chain: &Devnet, from: Address, data: String) -> (B256, bool) {
    chain.request("anvil_impersonateAccount", json!([from])).await.expect("an account");
    let coins = "0xde0b6b3a7640000";
    chain.request("anvil_setBalance", json!([from, coins])).await.expect("coins for gas");
    let coin = chain.network().stablecoin.address;
    // With a fixed gas limit nothing is estimated, so a failing call is mined too.
    let call = json!({ "from": from, "to": coin, "gas": "0x989680", "data": data });
    let hash = chain.request("eth_sendTransaction", json!([call])).await.expect("sent");
    loop {
        let mined = chain.request("eth_getTransactionReceipt", json!([hash])).await;
        match mined.expect("an answer") {
            Value::Null => tokio::time::sleep(POLL_INTERVAL).await,
            mined => {
                let hash = hash.as_str().and_then(|text| text.parse().ok());
                return (hash.expect("32 bytes"), mined["status"] == "0x1");
            }
        }
    }
}

/// Call data of `transfer(address,uint256)`: the payment's amount to the merchant.
fn plain_transfer() -> String {
    let words = [merchant_address().into_word(), U256::from(SMALL_PRICE).into()].concat();
    format!("0xa9059cbb{}", hex::encode(words))
}

async fn another_transfer_of_the_same_amount_is_not_this_payment(edition: EditionName) {
    let Some((mut stage, _relay)) = stage_with_relay(edition).await else { return };
    let stranger = Address::repeat_byte(0x77);
    stage.chain.mint(stranger, 10 * SMALL_PRICE).await.expect("minted");
    for path in PATHS {
        let agent = stage.add_agent(&format!("bot{}", path.replace('/', "-")), "bearer").await;
        let (bought, twin) = (buy(&stage, &agent, path).await, buy(&stage, &agent, path).await);
        let (of_stranger, moved) = call_coin(&stage.chain, stranger, plain_transfer()).await;
        assert!(moved);
        let (of_payer, moved) = call_coin(&stage.chain, stage.payer, plain_transfer()).await;
        assert!(moved);
        // `twin` moved the same amount between the same two addresses, but by another authorization.
        for other in [of_stranger, of_payer, twin.tx_hash] {
            report_settled(&stage, &agent, &bought.id, other).await;
            let receipt = stage.receipt_with_verdict(&bought.id, "failed").await;
            let verification = &receipt["settlement"]["verification"];
            assert_eq!(verification["detail"], "this transaction does not contain this payment");
            assert_eq!(receipt["status"], "payment-refuted", "{receipt}");
            assert_paid_once(&stage, &agent, &bought).await;
        }
        report_settled(&stage, &agent, &bought.id, bought.tx_hash).await;
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
        // After the verification, no report changes the result.
        let (status, answer) =
            stage.report(&agent, &bought.id, "settled", &of_payer.to_string()).await;
        assert_eq!((status, &answer["new_status"]), (200, &json!("verified")), "{answer}");
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
    }
}

async fn a_reported_failed_transaction_does_not_undo_a_settled_payment(edition: EditionName) {
    let Some((mut stage, _relay)) = stage_with_relay(edition).await else { return };
    let pauper = Address::repeat_byte(0x78);
    for path in PATHS {
        let agent = stage.add_agent(&format!("bot{}", path.replace('/', "-")), "bearer").await;
        let bought = buy(&stage, &agent, path).await;
        let (reverted, moved) = call_coin(&stage.chain, pauper, plain_transfer()).await;
        assert!(!moved);
        report_settled(&stage, &agent, &bought.id, reverted).await;
        let receipt = stage.receipt_with_verdict(&bought.id, "failed").await;
        assert_eq!(receipt["status"], "payment-refuted", "another one made it: {receipt}");
        assert_paid_once(&stage, &agent, &bought).await;
        report_settled(&stage, &agent, &bought.id, bought.tx_hash).await;
        assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
    }
}

async fn a_payment_whose_transaction_reverted_has_failed_once_its_block_is_final(
    edition: EditionName,
) {
    let Some((mut stage, relay)) = stage_with_relay(edition).await else { return };
    let pauper = Address::repeat_byte(0x78);
    let mut signed = Vec::new();
    for path in PATHS {
        let agent = stage.add_agent(&format!("bot{}", path.replace('/', "-")), "hmac").await;
        let (status, answer) = stage.ask(&stage.ask_for(&agent, path).await).await;
        assert_eq!(status, 200, "{answer}");
        let (reverted, moved) = call_coin(&stage.chain, pauper, plain_transfer()).await;
        assert!(!moved);
        let id = answer["transaction_id"].as_str().expect("an id").to_owned();
        report_settled(&stage, &agent, &id, reverted).await;
        relay.until_probed(&mut stage, reverted, 2).await;
        let receipt = stage.receipt(&id).await;
        assert_eq!(receipt["settlement"]["verification"]["status"], "pending", "{receipt}");
        signed.push((agent, id, reverted));
    }
    let blocks = stage.chain.network().gas.confirmations;
    stage.chain.request("anvil_mine", json!([blocks])).await.expect("blocks");
    for (agent, id, reverted) in signed {
        let receipt = stage.receipt_with_verdict(&id, "failed").await;
        assert_eq!(receipt["status"], "payment-failed", "{receipt}");
        let reason = "the chain reports that this transaction reverted";
        assert_eq!(receipt["failure"]["reason"], reason, "{receipt}");
        assert_eq!(receipt["settlement"]["settledAt"], Value::Null, "{receipt}");
        let (status, reply) = stage.report(&agent, &id, "settled", &reverted.to_string()).await;
        assert_eq!((status, &reply["new_status"]), (200, &json!("failed")), "{reply}");
    }
}

/// In the payments-only edition a report may have no proof: it starts our own look at the chain, which decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_settlement_verification_of_a_report_without_a_proof() {
    let Some((mut stage, _relay)) = stage_with_relay(EditionName::Payments).await else { return };
    let agent = stage.add_agent("bot", "hmac").await;
    let bought = buy(&stage, &agent, PATHS[0]).await;
    let report = async |stage: &Stage, id: &str, hash: B256| {
        let body = json!({ "agent_code": agent.id, "transaction_id": id, "event": "settled",
            "tx_hash": hash });
        let (status, answer) = stage.post("/callback", &body).await;
        assert_eq!((status, &answer["new_status"]), (200, &json!("submitted")), "{answer}");
    };
    report(&stage, &bought.id, bought.tx_hash).await;
    assert_verified(&mut stage, &bought.id, bought.tx_hash).await;
    assert_paid_once(&stage, &agent, &bought).await;
    // A transaction that reverted, once its block is final.
    let (status, answer) = stage.ask(&stage.ask_for(&agent, PATHS[0]).await).await;
    assert_eq!(status, 200, "{answer}");
    let pauper = Address::repeat_byte(0x78);
    let (reverted, moved) = call_coin(&stage.chain, pauper, plain_transfer()).await;
    assert!(!moved);
    let id = answer["transaction_id"].as_str().expect("an id");
    report(&stage, id, reverted).await;
    let blocks = stage.chain.network().gas.confirmations;
    stage.chain.request("anvil_mine", json!([blocks])).await.expect("blocks");
    let receipt = stage.receipt_with_verdict(id, "failed").await;
    assert_eq!(receipt["status"], "payment-failed", "{receipt}");
}
