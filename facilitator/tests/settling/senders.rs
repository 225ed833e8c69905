//! Tests of which signer sends which payment.

use alloy_primitives::U256;
use bursar_facilitator::book::record::State;
use bursar_facilitator::book::reservation::GasReservation;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::queue::DispatchLimits;
use bursar_facilitator::work::SenderRule;

use crate::stage::{COIN, Stage, StageConfig, caller_origin, signer};
use crate::withdrawals::{is_settled, reason};

#[tokio::test(start_paused = true)]
async fn the_least_busy_signer_is_next_and_none_has_more_in_flight_than_it_may() {
    let limits = DispatchLimits { in_flight_max: 2, batch_max: 1, ..StageConfig::default().limits };
    let plan = StageConfig { signers: 3, limits, wait_ms: 5_000, ..StageConfig::default() };
    let stage = Stage::with(plan).await;
    let settling: Vec<_> =
        (1..=8).map(|n| stage.spawn_settle(&stage.sign_payment(n, 10, u64::from(n)))).collect();
    stage.advance_clock(1_000).await;
    let mut senders: Vec<_> = stage.world.pool().iter().map(|tx| tx.from).collect();
    senders.sort_unstable();
    let mut expected: Vec<_> = (1..=3).flat_map(|n| [signer(n), signer(n)]).collect();
    expected.sort_unstable();
    assert_eq!(senders, expected);
    // A block frees all slots of the signers, long before it is final.
    stage.world.mine();
    stage.advance_clock(500).await;
    assert_eq!(stage.world.pool().len(), 2);
    stage.world.mine();
    for settling in settling {
        assert!(is_settled(&settling.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_signer_without_coin_sends_nothing_and_the_others_do() {
    let plan = StageConfig { signers: 3, ..StageConfig::default() };
    let mut stage = Stage::with(plan).await;
    stage.world.fund(signer(1), U256::ZERO);
    stage.world.fund(signer(3), U256::from(1_000));
    stage.keep_mining();
    for n in 1..=4 {
        assert!(is_settled(&stage.settle(&stage.sign_payment(n, 10, u64::from(n))).await));
    }
    assert!(stage.world.state().sent.iter().all(|tx| tx.from == signer(2)));
}

/// Prism accepts payments only from known senders. The payments are simulated as the first signer, so this signer sends
/// them.
#[tokio::test(start_paused = true)]
async fn only_the_first_signer_sends_prism_payments() {
    let stage = Stage::with(StageConfig { signers: 2, ..StageConfig::default() }).await;
    let network = &stage.settler.network;
    assert_eq!(network.bound_senders(SenderRule::FirstSigner), Some(vec![signer(1)]));
    assert_eq!(network.bound_senders(SenderRule::Any), None);
    assert_eq!(network.bound_senders(SenderRule::Only(signer(2))), Some(vec![signer(2)]));
    assert_eq!(network.simulated_sender(SenderRule::Any), signer(1));
}

/// A signer with enough coin for one transaction gets only one.
#[tokio::test(start_paused = true)]
async fn a_signer_has_no_more_in_flight_than_it_can_pay_for() {
    for poor in [1, 2] {
        let limits = DispatchLimits { batch_max: 1, ..StageConfig::default().limits };
        let plan = StageConfig { signers: 2, limits, wait_ms: 3_000, ..StageConfig::default() };
        let stage = Stage::with(plan).await;
        let price = stage.settler.price().await.unwrap();
        let one = price.cost(GasReservation { gas: 240_000, data_kilobytes: 1 }).unwrap();
        stage.world.fund(signer(poor), one + one / U256::from(2));
        let _price = stage.settler.look_up_price().await.unwrap();
        let settling: Vec<_> =
            (1..=5).map(|n| stage.spawn_settle(&stage.sign_payment(n, 10, u64::from(n)))).collect();
        stage.advance_clock(500).await;
        let pool = stage.world.pool();
        let of = |n: u8| pool.iter().filter(|tx| tx.from == signer(n)).count();
        assert_eq!((of(poor), of(3 - poor)), (1, 4));
        stage.world.mine();
        for settling in settling {
            assert!(is_settled(&settling.await.unwrap()));
        }
    }
}

/// The payment's caller has left, so only the queue can end the payment.
#[tokio::test(start_paused = true)]
async fn a_queued_payment_that_no_signer_sends_ends_when_it_expires() {
    let limits = DispatchLimits { in_flight_max: 1, batch_max: 1, ..StageConfig::default().limits };
    let stage = Stage::with(StageConfig { limits, ..StageConfig::default() }).await;
    let sent = stage.spawn_settle(&stage.sign_payment(1, 10, 1));
    stage.advance_clock(100).await;
    let pay = stage.sign_payment_valid_for(2, 10, 2, 60);
    let queued = stage.spawn_settle(&pay);
    stage.advance_clock(100).await;
    queued.abort();
    stage.advance_clock(1_000).await;
    assert_eq!(stage.record(&pay).await.unwrap().state, State::Queued);
    assert!(stage.usage(1).network_reserved.gas > 0);
    let before = stage.usage(1).network_reserved.gas;
    stage.advance_clock(60_000).await;
    let state = stage.record(&pay).await.unwrap().state;
    assert!(matches!(state, State::Failed { reason: Reason::Expired, .. }), "{state:?}");
    assert!(stage.usage(1).network_reserved.gas < before, "its gas is no longer reserved");
    sent.abort();
}

/// Gas in flight counts against the coin of the only signer. A payment is refused, although the signer could pay for it
/// alone.
#[tokio::test(start_paused = true)]
async fn gas_in_flight_counts_against_the_signers_coin() {
    let mut plan = StageConfig { wait_ms: 3_000, ..StageConfig::default() };
    (plan.config.gas_budget_caller_percent, plan.config.gas_budget_percent) = (100, 100);
    let stage = Stage::with(plan).await;
    let price = stage.settler.price().await.unwrap();
    let one = price.cost(GasReservation { gas: 240_000, data_kilobytes: 1 }).unwrap();
    // The signer has enough coin for one and a half transactions.
    stage.world.fund(signer(1), one + one / U256::from(2));
    stage.advance_clock(2_100).await;
    let _price = stage.settler.look_up_price().await.unwrap();
    let first = stage.spawn_settle(&stage.sign_payment(1, 10, 1));
    stage.advance_clock(100).await;
    let second = stage.settle(&stage.sign_payment(2, 10, 2)).await;
    assert_eq!(reason(&second), Some(Reason::OutOfGas), "{second:?}");
    stage.world.mine();
    assert!(is_settled(&first.await.unwrap()));
}

/// The cost of a transaction is subtracted from its signer's cached balance, before the next refresh.
#[tokio::test(start_paused = true)]
async fn a_transactions_cost_is_subtracted_from_the_cached_balance() {
    let mut plan = StageConfig { wait_ms: 1_800, ..StageConfig::default() };
    (plan.config.gas_budget_caller_percent, plan.config.gas_budget_percent) = (100, 100);
    plan.config.confirmations = 2;
    let stage = Stage::with(plan).await;
    let price = stage.settler.price().await.unwrap();
    stage
        .world
        .fund(signer(1), price.cost(GasReservation { gas: 240_000, data_kilobytes: 1 }).unwrap());
    stage.advance_clock(2_100).await;
    let before = stage.settler.look_up_price().await.unwrap().balances[&signer(1)];
    let first = stage.spawn_settle(&stage.sign_payment(1, 10, 1));
    stage.advance_clock(100).await;
    stage.world.mine();
    assert!(is_settled(&first.await.unwrap()));
    let left = stage.world.state().coin_balances[&signer(1)];
    assert!(left < before);
    let known = stage.settler.price().await.unwrap();
    assert_eq!(known.balances[&signer(1)], left, "without a lookup");
    let second = stage.settle(&stage.sign_payment(2, 10, 2)).await;
    assert_eq!(reason(&second), Some(Reason::OutOfGas), "{second:?}");
    assert_eq!(stage.world.state().sent.len(), 1);
    // The finality of its block costs nothing more.
    let price = stage.settler.look_up_price().await.unwrap();
    assert_eq!(price.balances[&signer(1)], left);
    stage.world.mine_many(3);
    stage.advance_clock(1_500).await;
    assert_eq!(stage.settler.price().await.unwrap().balances[&signer(1)], left);
}

/// A payment that arrives while a transaction is in flight waits for others, for at most 50 ms.
#[tokio::test(start_paused = true)]
async fn a_payment_waits_briefly_to_share_a_transaction() {
    let stage = Stage::with_defaults().await;
    let first = stage.spawn_settle(&stage.sign_payment(1, 10, 1));
    stage.advance_clock(200).await;
    assert_eq!(stage.world.pool().len(), 1);
    let rest = [
        stage.spawn_settle(&stage.sign_payment(2, 10, 2)),
        stage.spawn_settle(&stage.sign_payment(3, 10, 3)),
    ];
    stage.advance_clock(300).await;
    assert_eq!(stage.world.pool().len(), 2, "together, and soon");
    stage.world.mine();
    for settling in rest.into_iter().chain([first]) {
        assert!(is_settled(&settling.await.unwrap()));
    }
}

/// A transaction contains no more payments than its signer can pay for.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_as_large_as_its_signer_can_pay_for() {
    let limits = DispatchLimits { in_flight_max: 1, ..StageConfig::default().limits };
    let plan = StageConfig { wait_ms: 8_000, limits, ..StageConfig::default() };
    let mut stage = Stage::with(plan).await;
    let first = stage.spawn_settle(&stage.sign_payment(1, 10, 1));
    stage.advance_clock(100).await;
    let rest: Vec<_> =
        (2..=9).map(|n| stage.spawn_settle(&stage.sign_payment(n, 10, u64::from(n)))).collect();
    stage.advance_clock(300).await;
    let price = stage.settler.price().await.unwrap();
    // From now on the signer has enough coin for about three payments.
    stage
        .world
        .fund(signer(1), price.cost(GasReservation { gas: 600_000, data_kilobytes: 1 }).unwrap());
    let _price = stage.settler.look_up_price().await.unwrap();
    stage.keep_mining();
    assert!(is_settled(&first.await.unwrap()));
    let mut paid = 0;
    for rest in rest {
        paid += usize::from(is_settled(&rest.await.unwrap()));
    }
    assert!(paid > 1, "{paid} were paid for");
    let state = stage.world.state();
    assert!(state.sent.iter().all(|tx| tx.gas_limit <= 600_000));
}

/// Reserved gas is freed once the transaction is closed. It counts against the caller whose request was accepted.
#[tokio::test(start_paused = true)]
async fn gas_counts_for_the_caller_that_had_the_payment_accepted() {
    let mut stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let settlement = std::sync::Arc::clone(&stage.settlement);
    let request = pay.request.clone();
    let first =
        tokio::spawn(async move { settlement.settle(&request, &caller_origin(7).into()).await });
    stage.advance_clock(100).await;
    first.abort();
    assert!(stage.usage(7).caller_reserved.gas > 0);
    stage.keep_mining();
    // Another caller receives the success.
    let end = stage.settle_by(&pay, caller_origin(8)).await;
    assert!(is_settled(&end), "{end:?}");
    stage.ledger.mark_answered(pay.key, caller_origin(8), bursar_core::time::Utc(1)).await.unwrap();
    stage.advance_clock(10_000).await;
    assert!(!stage.usage(7).spent_caller.is_zero());
    assert!(stage.usage(8).spent_caller.is_zero());
    assert_eq!(COIN - stage.world.state().coin_balances[&signer(1)], stage.usage(7).spent_total);
}
