//! A send through nodes that lie, by an engine that is killed, stopped and started again: in the end the
//! money has moved once, no nonce is missing, and nothing was broadcast that does anything else.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_core::answers::Answer;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::Start;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::sends::{GAS_MONEY, TO};
use crate::stage::{PATIENCE, PAUSE, Stage, local_chain};

/// Where the engine dies: nowhere, or at the first or second time that it gets there.
const DEATHS: [Option<&str>; 6] = [
    None,
    Some(PAUSE_IT),
    Some("kill:desk.signed:1"),
    Some("kill:desk.send:1"),
    Some("kill:desk.sent:1"),
    Some("kill:desk.send:2"),
];

/// Not dead: stopped as soon as the order stands, and woken when blocks have been made.
const PAUSE_IT: &str = "pause";

const AMOUNT: u64 = 250_000_000_000_000_000;

async fn number(stage: &Stage, method: &str, params: Value) -> U256 {
    let told = stage.chain.request(method, params).await.expect("told");
    told.as_str().expect("text").parse().expect("a number")
}

/// One send, from the order to its end, through a node that tells these lies.
async fn send_through(lies: &[Lie], death: Option<&str>) {
    let Some(chain) = local_chain(BASE).await else { return };
    let rpc = LyingRpc::before(chain.url()).await;
    let start = Start { rpc: Some(rpc.url.clone()), ..Start::default() };
    let mut stage = Stage::set(chain, start.clone()).await;
    stage.chain.request("anvil_setBalance", json!([stage.payer, GAS_MONEY])).await.expect("set");
    stage.chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let case = format!("{lies:?}, {death:?}");
    let kill = death.filter(|death| *death != PAUSE_IT);
    if let Some(death) = kill {
        assert_eq!(stage.engine.terminate(), Some(0));
        let fault = Some(death.to_owned());
        stage.start = Start { fault, ..start.clone() };
        stage.start_again().await;
        stage.operator.must("wallet open").await;
    }
    let line = format!("address send pay {TO} 0.25 --network base --confirm 0.25 --no-wait");
    rpc.tell(lies.iter().copied());
    let ordered = stage.operator.outcome(&line).await;
    assert!(ordered.reply.result.is_ok(), "{case}: {:?}", ordered.reply.result);

    if death == Some(PAUSE_IT) {
        let pid = i32::try_from(stage.engine.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::STOP).expect("stopped");
        stage.chain.request("anvil_mine", json!(["0x5"])).await.expect("mined");
        stage.go_ahead(30_000);
        sleep(PAUSE * 5).await;
        kill_process(pid, Signal::CONT).expect("goes on");
    }
    let end = Instant::now() + PATIENCE;
    let mut restarts = 0;
    loop {
        assert!(Instant::now() < end, "{case}: no end");
        if stage.engine.is_over() {
            restarts += 1;
            stage.start = start.clone();
            stage.start_again().await;
            stage.operator.must("wallet open").await;
        }
        stage.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        stage.go_ahead(1_500);
        sleep(PAUSE).await;
        let Ok(outcome) = stage.operator.run("address sends").await else { continue };
        let Ok(Answer::Sends { sends }) = outcome.reply.result else { continue };
        let only = sends.first().unwrap_or_else(|| panic!("{case}: the send is forgotten"));
        if !matches!(only.status.as_str(), "waiting" | "sent" | "included") {
            assert_eq!(only.status, "done", "{case}: {only:?}");
            break;
        }
    }
    // What a block takes before the node forgets it is sent once, and nobody gets to the second time.
    let maybe = kill == Some("kill:desk.send:2") && lies.contains(&Lie::Forget);
    let deaths = usize::from(kill.is_some());
    assert!(restarts == deaths || (maybe && restarts == 0), "{case}: {restarts} restarts");
    // A block may come between two of them: what is mined is sent no more, and nobody is lied to.
    assert!((1..=lies.len()).contains(&rpc.told()), "{case}: {} lies", rpc.told());
    assert_eq!(
        number(&stage, "eth_getBalance", json!([TO, "latest"])).await,
        U256::from(AMOUNT),
        "{case}"
    );
    // No gap, nothing that waits, and no nonce used but this one.
    for tag in ["latest", "pending"] {
        let count = number(&stage, "eth_getTransactionCount", json!([stage.payer, tag])).await;
        assert_eq!(count, U256::ONE, "{case}");
    }
    let different: BTreeSet<String> = rpc.broadcast().into_iter().collect();
    assert!(!different.is_empty() && different.len() <= 4, "{case}: {} offers", different.len());
    assert_eq!(stage.engine.terminate(), Some(0), "{case}");
}

/// A few cases at a time: each has a chain and an engine of its own.
async fn all(cases: Vec<(Vec<Lie>, Option<&'static str>)>) {
    use futures::StreamExt;
    futures::stream::iter(cases)
        .for_each_concurrent(4, |(lies, death)| async move { send_through(&lies, death).await })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_18_each_lie_with_a_death_at_each_boundary_moves_the_money_once() {
    let lies = Lie::ALL.into_iter().filter(|lie| *lie != Lie::WrongChainId);
    let cases = lies.flat_map(|lie| {
        DEATHS
            .into_iter()
            .filter(move |death| {
                // Only what is lost, forgotten or refused is sent a second time.
                *death != Some("kill:desk.send:2")
                    || matches!(lie, Lie::Drop | Lie::Forget | Lie::NonceTooLow)
            })
            .map(move |death| (vec![lie; if lie == Lie::CountBehind { 3 } else { 1 }], death))
    });
    all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_several_lies_in_a_row_move_the_money_once() {
    all(vec![
        (vec![Lie::Drop, Lie::Drop, Lie::Drop], None),
        (vec![Lie::Underpriced, Lie::TimeoutAfterAccept], None),
        (vec![Lie::NonceTooLow, Lie::WrongReceipt, Lie::InventedReceipt], None),
        (vec![Lie::Forget, Lie::AlreadyKnown], None),
        (vec![Lie::Reorg, Lie::InventedReceipt], Some("kill:desk.sent:1")),
    ])
    .await;
}
