//! Nodes that lie about transactions: each payment still settles once, even if the facilitator is killed in between.

use alloy_primitives::U256;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::payer::{Payer, TransferMethod};
use futures::StreamExt;

use crate::facilitator::kills::{assert_no_gap_and_empty_pool, settle_all};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, prepared_home};

const PAYMENTS: u64 = 3;

/// Number of concurrent cases; each has its own chain.
const CONCURRENT_CASES: usize = 4;

async fn settle_through_lies(lies: Vec<Lie>, fault: Option<&str>) {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let case = format!("{lies:?}, {fault:?}");
    let node = LyingRpc::in_front_of(chain.url()).await;
    let home = prepared_home(&chain, &node.url, 1, "wait_ms = 1500\nin_flight = 2", "").await;
    let mut bodies = Vec::new();
    for n in 0..PAYMENTS {
        let payer = Payer::random();
        chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        let terms = payer.terms(chain.network(), SHOP, 1_000 + n);
        bodies.push(payer.pay(TransferMethod::Eip3009, &terms).body(2));
    }
    node.queue_lies(lies.iter().copied());
    let before = chain.balance_of(SHOP).await.expect("answered");
    let deaths = settle_all(&chain, &home, fault, &bodies, &case).await;
    assert_eq!(deaths, usize::from(fault.is_some()), "{case}");
    let moved = chain.balance_of(SHOP).await.expect("answered") - before;
    assert_eq!(moved, U256::from(3_003), "{case}");
    // Fewer broadcasts than lies may occur, because all three payments may share one transaction.
    assert!(node.lies_told() >= 1, "{case}: no lie was told");
    assert_no_gap_and_empty_pool(&chain, &home, &case).await;
}

/// Returns the lies that take effect within a test. A node of another chain is left out: it is
/// not used again for a minute.
fn lies() -> impl Iterator<Item = Lie> {
    Lie::ALL.into_iter().filter(|lie| *lie != Lie::WrongChainId)
}

async fn run_cases(cases: Vec<(Vec<Lie>, Option<&'static str>)>) {
    let cases = futures::stream::iter(cases);
    let each = cases.map(|(lies, fault)| settle_through_lies(lies, fault));
    each.buffer_unordered(CONCURRENT_CASES).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settlement_survives_every_node_lie() {
    run_cases(lies().map(|lie| (vec![lie], None)).collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settlement_survives_every_node_lie_and_a_kill_after_it() {
    run_cases(lies().map(|lie| (vec![lie], Some("outbox.sent:1"))).collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settlement_survives_several_node_lies_in_a_row() {
    let series = [
        vec![Lie::Drop, Lie::Forget, Lie::Underpriced],
        vec![Lie::Reorg, Lie::Forget, Lie::TimeoutAfterAccept],
        vec![Lie::NonceTooLow, Lie::AlreadyKnown, Lie::Drop],
        vec![Lie::InventedReceipt, Lie::WrongReceipt],
    ];
    run_cases(series.into_iter().map(|lies| (lies, None)).collect()).await;
}
