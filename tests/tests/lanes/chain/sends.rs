//! The command `address send`, from the control socket to a settled transaction.

use alloy_primitives::{Address, U256};
use bursar_control::answers::{Answer, SendAnswer};
use bursar_core::codes::Code;
use bursar_core::status::SendStatus;
use bursar_tests::counting_rpc::CountingRpc;
use bursar_tests::limited_rpc::LimitedRpc;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::chain::stage::{POLL_INTERVAL, Stage, TIMEOUT, local_chain};

pub(crate) const TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
/// The address of USDC with a wrong checksum.
const WRONG_CHECKSUM_ADDRESS: &str = "0x833589fcD6eDb6E08f4c7C32D4f71b54bdA02913";
/// Ten coins, in wei.
pub(crate) const GAS_MONEY: &str = "0x8ac7230489e80000";

async fn stage() -> Option<Stage> {
    let chain = local_chain(BASE).await?;
    let start = StartOptions { rpc: Some(chain.url().to_owned()), ..StartOptions::default() };
    let stage = Stage::set_up(chain, start).await;
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    Some(stage)
}

fn payee() -> Address {
    TO.parse().expect("an address")
}

async fn native_balance(stage: &Stage, of: Address) -> U256 {
    let held =
        stage.chain.request("eth_getBalance", json!([of, "latest"])).await.expect("answered");
    held.as_str().expect("text").parse().expect("a number")
}

async fn order_send(stage: &mut Stage, line: &str) -> SendAnswer {
    match stage.operator.must(line).await {
        Answer::Send(sent) => sent,
        other => panic!("{other:?}"),
    }
}

/// Waits until the only send has ended, and mines blocks meanwhile.
async fn wait_for_end(stage: &mut Stage) -> SendAnswer {
    let end = Instant::now() + TIMEOUT;
    loop {
        let Answer::Sends { sends } = stage.operator.must("address sends").await else {
            panic!("no list")
        };
        let [only] = sends.as_slice() else { panic!("{sends:?}") };
        if !matches!(only.status, SendStatus::Waiting | SendStatus::Sent | SendStatus::Included) {
            return only.clone();
        }
        assert!(Instant::now() < end, "{only:?}");
        stage.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        sleep(POLL_INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coin_and_a_token_are_sent_once_each() {
    let Some(mut stage) = stage().await else { return };
    let coin = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    let answer = order_send(&mut stage, &coin).await;
    assert_eq!((answer.summary.as_str(), answer.to.as_str()), ("0.25 ETH", TO));
    let answer = wait_for_end(&mut stage).await;
    assert_eq!(answer.status, SendStatus::Done, "{answer:?}");
    assert_eq!(native_balance(&stage, payee()).await, U256::from(250_000_000_000_000_000u64));
    let token = format!("address send pay {TO} 1.5 --token usdc --yes --no-wait");
    order_send(&mut stage, &token).await;
    let end = Instant::now() + TIMEOUT;
    while stage.chain.balance_of(payee()).await.expect("a balance") != U256::from(1_500_000) {
        assert!(Instant::now() < end, "never moved");
        sleep(POLL_INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_goes_only_to_the_submit_endpoint_and_everything_else_only_to_the_node() {
    let Some(chain) = local_chain(BASE).await else { return };
    let (node, relay) =
        (CountingRpc::in_front_of(chain.url()).await, CountingRpc::in_front_of(chain.url()).await);
    let env = vec![("BURSAR_NETWORKS_8453_SUBMIT_RPC".to_owned(), relay.url.clone())];
    let start = StartOptions { rpc: Some(node.url.clone()), env, ..StartOptions::default() };
    let mut stage = Stage::set_up(chain, start).await;
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    let line = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    order_send(&mut stage, &line).await;
    assert_eq!(wait_for_end(&mut stage).await.status, SendStatus::Done);
    assert_eq!(native_balance(&stage, payee()).await, U256::from(250_000_000_000_000_000u64));
    let Answer::Doctor { checks } = stage.operator.must("doctor").await else { panic!() };
    let line = checks.iter().find(|check| check.check == "Base").expect("a line");
    let host = relay.url.trim_end_matches('/');
    assert!(line.finding.contains(host) && line.advice.is_none(), "{line:?}");

    let taken = relay.take_methods();
    assert!(taken.iter().any(|asked| asked == "eth_sendRawTransaction"), "{taken:?}");
    let usual = ["eth_chainId", "eth_sendRawTransaction"];
    assert!(taken.iter().all(|asked| usual.contains(&asked.as_str())), "{taken:?}");
    let read = node.take_methods();
    assert!(read.iter().any(|asked| asked.contains("eth_getTransactionReceipt")), "{read:?}");
    assert!(!read.iter().any(|asked| asked.contains("eth_sendRawTransaction")), "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_needs_no_large_batch_and_doctor_names_a_node_that_takes_none() {
    let Some(chain) = local_chain(BASE).await else { return };
    let node = LimitedRpc::in_front_of(chain.url(), 10).await;
    let start = StartOptions { rpc: Some(node.url.clone()), ..StartOptions::default() };
    let mut stage = Stage::set_up(chain, start).await;
    let Answer::Doctor { checks } = stage.operator.must("doctor").await else { panic!() };
    let line = checks.iter().find(|check| check.check == "batches on Base").expect("a line");
    assert!(
        line.finding.contains("does not accept a batch of 50 requests (batch too large"),
        "{line:?}"
    );
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    let line = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    order_send(&mut stage, &line).await;
    assert_eq!(wait_for_end(&mut stage).await.status, SendStatus::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_or_declined_send_is_refused_and_moves_nothing() {
    let Some(mut stage) = stage().await else { return };
    for (line, code) in [
        (format!("address send pay {TO} 0 --confirm 0"), Code::BadInput),
        (format!("address send pay {TO} 1.0000001 --token usdc --yes"), Code::BadInput),
        (format!("address send pay {TO} 21 --token usdc --confirm 21"), Code::InsufficientFunds),
        (format!("address send pay {TO} 10 --confirm 10"), Code::InsufficientFunds),
        (format!("address send nobody {TO} 1 --confirm 1"), Code::NothingFound),
        (format!("address send pay {} 1 --confirm 1", TO.replace("Bc6", "bC6")), Code::BadInput),
        ("address send pay pay 1 --confirm 1".to_owned(), Code::BadInput),
        (format!("address send pay {TO} 1 --token doge --confirm 1"), Code::NothingFound),
        (
            format!("address send pay {TO} 1 --token {WRONG_CHECKSUM_ADDRESS} --confirm 1"),
            Code::BadInput,
        ),
        (format!("address send pay {TO} 1 --network sepolia --confirm 1"), Code::NetworkDisabled),
        (format!("address send pay {TO} 1 --confirm 2"), Code::Declined),
    ] {
        let line = if line.contains("--network") { line } else { format!("{line} --network base") };
        let refused = stage.operator.run_refused(&line).await;
        assert_eq!(refused.code, code, "{line}: {}", refused.message);
    }
    stage.operator.must("wallet lock").await;
    let line = format!("address send pay {TO} 1 --confirm 1 --network base");
    assert_eq!(stage.operator.run_refused(&line).await.code, Code::WalletLocked);
    assert_eq!(native_balance(&stage, payee()).await, U256::ZERO);
}

/// Code of an expensive gas price oracle, which returns 0.3 coins for any call: PUSH8 and RETURN.
const EXPENSIVE_ORACLE_CODE: &str = "0x670429d069189e000060005260206000f3";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_fee_is_part_of_the_required_balance() {
    let Some(mut stage) = stage().await else { return };
    let oracle = bursar_core::networks::OP_GAS_PRICE_ORACLE;
    stage
        .chain
        .request("anvil_setCode", json!([oracle, EXPENSIVE_ORACLE_CODE]))
        .await
        .expect("set");
    // The balance is ten coins. The fee for data may take 0.6 of them.
    let line = format!("address send pay {TO} 9.5 --network base --confirm 9.5 --no-wait");
    let refused = stage.operator.run_refused(&line).await;
    assert_eq!(refused.code, Code::InsufficientFunds, "{}", refused.message);
    assert!(refused.message.contains("up to 0.6"), "{}", refused.message);
    order_send(&mut stage, &line.replace("9.5", "9.3")).await;
    assert_eq!(wait_for_end(&mut stage).await.status, SendStatus::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_engine_resumes_its_send() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(mut stage) = stage().await else { return };
    stage.chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let coin = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    order_send(&mut stage, &coin).await;
    let pid = i32::try_from(stage.engine.pid()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, Signal::STOP).expect("stopped");
    stage.chain.request("anvil_mine", json!(["0x8"])).await.expect("mined");
    stage.advance(60_000);
    sleep(POLL_INTERVAL * 10).await;
    kill_process(pid, Signal::CONT).expect("goes on");
    assert_eq!(wait_for_end(&mut stage).await.status, SendStatus::Done);
    assert_eq!(native_balance(&stage, payee()).await, U256::from(250_000_000_000_000_000u64));
}
