//! Sends through lying nodes, by an engine that is killed, paused and restarted.
//!
//! In the end the money has moved once, no nonce is missing, and every broadcast transaction was
//! a version of the same send.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_control::answers::{Answer, SendAnswer};
use bursar_core::codes::Code;
use bursar_core::status::SendStatus;
use bursar_tests::lying_rpc::{Claim, Lie, LyingRpc};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::chain::sends::{GAS_MONEY, TO};
use crate::chain::stage::{POLL_INTERVAL, Stage, TIMEOUT, local_chain};

/// Disruptions of a run: none, a pause, or a kill at the first or second hit of a failpoint.
const DISRUPTIONS: [Option<&str>; 6] = [
    None,
    Some(PAUSE),
    Some("kill:outbox.signed:1"),
    Some("kill:outbox.send:1"),
    Some("kill:outbox.sent:1"),
    Some("kill:outbox.send:2"),
];

/// Pauses the engine as soon as the order is accepted, and resumes it after blocks were mined.
const PAUSE: &str = "pause";

const AMOUNT: u64 = 250_000_000_000_000_000;

async fn rpc_number(stage: &Stage, method: &str, params: Value) -> U256 {
    let answer = stage.chain.request(method, params).await.expect("answered");
    answer.as_str().expect("text").parse().expect("a number")
}

/// Runs one send, from the order to its end, through a node that tells these lies.
async fn send_through(lies: &[Lie], disruption: Option<&str>) {
    let Some(chain) = local_chain(BASE).await else { return };
    let rpc = LyingRpc::in_front_of(chain.url()).await;
    let start = StartOptions { rpc: Some(rpc.url.clone()), ..StartOptions::default() };
    let mut stage = Stage::set_up(chain, start.clone()).await;
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    stage.chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let case = format!("{lies:?}, {disruption:?}");
    let kill = disruption.filter(|disruption| *disruption != PAUSE);
    if let Some(disruption) = kill {
        assert_eq!(stage.engine.terminate(), Some(0));
        let fault = Some(disruption.to_owned());
        stage.start = StartOptions { fault, ..start.clone() };
        stage.start_again().await;
        stage.operator.must("wallet open").await;
    }
    let line = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    rpc.queue_lies(lies.iter().copied());
    let ordered = stage.operator.outcome(&line).await;
    assert!(ordered.reply.result.is_ok(), "{case}: {:?}", ordered.reply.result);

    if disruption == Some(PAUSE) {
        let pid = i32::try_from(stage.engine.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::STOP).expect("stopped");
        stage.chain.request("anvil_mine", json!(["0x5"])).await.expect("mined");
        stage.advance(30_000);
        sleep(POLL_INTERVAL * 5).await;
        kill_process(pid, Signal::CONT).expect("goes on");
    }
    let end = Instant::now() + TIMEOUT;
    let mut restarts = 0;
    loop {
        assert!(Instant::now() < end, "{case}: no end");
        if stage.engine.has_exited() {
            restarts += 1;
            stage.start = start.clone();
            stage.start_again().await;
            stage.operator.must("wallet open").await;
        }
        stage.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        stage.advance(1_500);
        sleep(POLL_INTERVAL).await;
        let Ok(outcome) = stage.operator.run("address sends").await else { continue };
        let Ok(Answer::Sends { sends }) = outcome.reply.result else { continue };
        let only = sends.first().unwrap_or_else(|| panic!("{case}: the send is forgotten"));
        if !matches!(only.status, SendStatus::Waiting | SendStatus::Sent | SendStatus::Included) {
            assert_eq!(only.status, SendStatus::Done, "{case}: {only:?}");
            break;
        }
    }
    // If a block includes the transaction before the node forgets it, the second hit never happens.
    let maybe = kill == Some("kill:outbox.send:2") && lies.contains(&Lie::Forget);
    let deaths = usize::from(kill.is_some());
    assert!(restarts == deaths || (maybe && restarts == 0), "{case}: {restarts} restarts");
    // If a block comes between two lies, the mined transaction is not sent again, and later lies are not used.
    assert!((1..=lies.len()).contains(&rpc.lies_told()), "{case}: {} lies", rpc.lies_told());
    assert_eq!(
        rpc_number(&stage, "eth_getBalance", json!([TO, "latest"])).await,
        U256::from(AMOUNT),
        "{case}"
    );
    // The nonces have no gap, no transaction is pending, and exactly one nonce is used.
    for tag in ["latest", "pending"] {
        let count = rpc_number(&stage, "eth_getTransactionCount", json!([stage.payer, tag])).await;
        assert_eq!(count, U256::ONE, "{case}");
    }
    let different: BTreeSet<String> = rpc.broadcast_transactions().into_iter().collect();
    assert!(!different.is_empty() && different.len() <= 4, "{case}: {} offers", different.len());
    assert_eq!(stage.engine.terminate(), Some(0), "{case}");
}

/// Runs a few cases at a time, each with its own chain and engine.
async fn run_cases(cases: Vec<(Vec<Lie>, Option<&'static str>)>) {
    use futures::StreamExt;
    futures::stream::iter(cases)
        .for_each_concurrent(4, |(lies, disruption)| async move {
            send_through(&lies, disruption).await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_18_each_lie_with_a_death_at_each_boundary_moves_the_money_once() {
    let lies = Lie::ALL.into_iter().filter(|lie| *lie != Lie::WrongChainId);
    let cases = lies.flat_map(|lie| {
        DISRUPTIONS
            .into_iter()
            .filter(move |disruption| {
                // Only a lost, forgotten or refused transaction is sent a second time.
                *disruption != Some("kill:outbox.send:2")
                    || matches!(lie, Lie::Drop | Lie::Forget | Lie::NonceTooLow)
            })
            .map(move |disruption| {
                (vec![lie; if lie == Lie::CountBehind { 3 } else { 1 }], disruption)
            })
    });
    run_cases(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_several_lies_in_a_row_move_the_money_once() {
    run_cases(vec![
        (vec![Lie::Drop, Lie::Drop, Lie::Drop], None),
        (vec![Lie::Underpriced, Lie::TimeoutAfterAccept], None),
        (vec![Lie::NonceTooLow, Lie::WrongReceipt, Lie::InventedReceipt], None),
        (vec![Lie::Forget, Lie::AlreadyKnown], None),
        (vec![Lie::Reorg, Lie::InventedReceipt], Some("kill:outbox.sent:1")),
    ])
    .await;
}

/// A gas price, in wei, that would cost more than the whole balance.
const ABSURD_PRICE: u128 = 1_000_000_000_000_000_000;
/// Number of answers that make up a price: the newest block, the tip, and the gas price itself.
const ANSWERS_OF_A_PRICE: usize = 3;
const NATIVE_BALANCE: u128 = 1_000_000_000_000_000_000_000_000;

/// Sets up a stage with this balance, in wei as hex, whose node lies on request.
async fn stage_with(coins: &str) -> Option<(Stage, LyingRpc)> {
    let chain = local_chain(BASE).await?;
    let rpc = LyingRpc::in_front_of(chain.url()).await;
    let start = StartOptions { rpc: Some(rpc.url.clone()), ..StartOptions::default() };
    let stage = Stage::set_up(chain, start).await;
    stage.chain.request("anvil_setBalance", json!([stage.payer, coins])).await.expect("set");
    Some((stage, rpc))
}

fn send_order() -> String {
    format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait")
}

async fn sends(stage: &mut Stage) -> Vec<SendAnswer> {
    match stage.operator.must("address sends").await {
        Answer::Sends { sends } => sends,
        other => panic!("{other:?}"),
    }
}

/// Mines a block and advances the engine's time.
async fn next_block(stage: &mut Stage) {
    stage.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
    stage.advance(1_500);
    sleep(POLL_INTERVAL).await;
}

async fn assert_moved(stage: &Stage, amount: u64, transactions: u64) {
    let moved = rpc_number(stage, "eth_getBalance", json!([TO, "latest"])).await;
    let count = json!([stage.payer, "pending"]);
    let sent = rpc_number(stage, "eth_getTransactionCount", count).await;
    assert_eq!((moved, sent), (U256::from(amount), U256::from(transactions)));
}

/// Asserts that the only send completes, once.
async fn assert_sent_once(stage: &mut Stage) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let all = sends(stage).await;
        let [only] = all.as_slice() else { panic!("{all:?}") };
        if only.status == SendStatus::Done {
            break;
        }
        let accepts_another_request =
            matches!(only.status, SendStatus::Waiting | SendStatus::Sent | SendStatus::Included);
        assert!(accepts_another_request && Instant::now() < end, "{only:?}");
        next_block(stage).await;
    }
    assert_moved(stage, AMOUNT, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_an_absurd_price_of_gas_is_not_offered() {
    let Some((mut stage, rpc)) = stage_with(GAS_MONEY).await else { return };
    // The node lies when the order arrives: the send is refused, and leaves no record.
    rpc.claim_after(0, Claim::GasPrice(ABSURD_PRICE));
    let refused = stage.operator.run_refused(&send_order()).await;
    assert_eq!(refused.code, Code::ChainUnavailable, "{}", refused.message);
    assert!(refused.message.contains("maximum"), "{}", refused.message);
    assert!(sends(&mut stage).await.is_empty());
    rpc.be_honest();
    // The node lies from the first price after the order: the send stays pending, and nothing is broadcast.
    rpc.claim_after(ANSWERS_OF_A_PRICE, Claim::GasPrice(ABSURD_PRICE));
    let before = rpc.claims_made();
    stage.operator.must(&send_order()).await;
    let end = Instant::now() + TIMEOUT;
    while rpc.claims_made() < before + 4 * ANSWERS_OF_A_PRICE {
        assert!(Instant::now() < end, "it asked for no price");
        next_block(&mut stage).await;
    }
    assert_eq!(rpc.broadcast_transactions(), Vec::<String>::new());
    let all = sends(&mut stage).await;
    assert_eq!(all[0].status, SendStatus::Waiting, "{all:?}");
    assert_moved(&stage, 0, 0).await;
    // The send continues once the price is right.
    rpc.be_honest();
    assert_sent_once(&mut stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_a_wrong_balance_moves_nothing_that_is_not_there() {
    // The balance is a tenth of a coin, in wei.
    let Some((mut stage, rpc)) = stage_with("0x16345785d8a0000").await else { return };
    // The node claims too high a balance: the order is accepted, and the chain refuses the transaction.
    rpc.claim_after(0, Claim::Balance(NATIVE_BALANCE));
    stage.operator.must(&send_order()).await;
    let end = Instant::now() + TIMEOUT;
    while rpc.broadcast_transactions().is_empty() {
        assert!(Instant::now() < end, "it was never tried");
        next_block(&mut stage).await;
    }
    for _block in 0..10 {
        next_block(&mut stage).await;
    }
    assert_moved(&stage, 0, 0).await;
    // With enough coins the send is made, once.
    rpc.be_honest();
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    assert_sent_once(&mut stage).await;

    // The node claims too low a balance: the order is refused.
    rpc.claim_after(0, Claim::Balance(0));
    let broadcast = rpc.broadcast_transactions().len();
    let refused = stage.operator.run_refused(&send_order()).await;
    assert_eq!(refused.code, Code::InsufficientFunds, "{}", refused.message);
    assert_eq!((sends(&mut stage).await.len(), rpc.broadcast_transactions().len()), (1, broadcast));
    assert_moved(&stage, AMOUNT, 1).await;
}
