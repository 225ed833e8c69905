//! Answers that are due before the payment is in a block. No payment is charged after its refusal.

use alloy_primitives::U256;
use bursar_facilitator::book::State;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::settle::queue::DispatchLimits;

use crate::stage::{COIN, SignedPayment, Stage, StageConfig, signer};
use crate::world::{BroadcastReaction, GWEI, Node};

pub(crate) fn reason(end: &Result<SettleOutcome, SettleError>) -> Option<Reason> {
    match end {
        Ok(SettleOutcome::Rejected(rejection)) => Some(rejection.reason),
        _other => None,
    }
}

pub(crate) fn is_settled(end: &Result<SettleOutcome, SettleError>) -> bool {
    matches!(end, Ok(SettleOutcome::Settled { .. }))
}

pub(crate) fn is_uncertain(end: &Result<SettleOutcome, SettleError>) -> bool {
    matches!(end, Err(SettleError::Unavailable(_)))
}

pub(crate) fn reason_of(record: &bursar_facilitator::book::Record) -> Option<Reason> {
    match &record.state {
        State::Failed { reason, .. } => Some(*reason),
        _other => None,
    }
}

/// Mines for 30 seconds, until nothing has been pending for a while.
async fn mine_until_quiet(stage: &mut Stage) {
    stage.keep_mining();
    stage.advance_clock(30_000).await;
    stage.stop_mining();
}

async fn assert_not_charged(stage: &mut Stage, pay: &SignedPayment) {
    let before = stage.shop_balance();
    mine_until_quiet(stage).await;
    assert_eq!(stage.shop_balance(), before, "a refused payment has moved");
    assert!(stage.world.pool().is_empty());
    assert_eq!(stage.settlement.ledger.open_count(), 0);
    assert!(reason_of(&stage.record(pay).await.unwrap()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_payment_is_settled_and_its_gas_is_accounted_for() {
    let mut stage = Stage::with_defaults().await;
    stage.keep_mining();
    let pay = stage.sign_payment(1, 700, 1);
    let end = stage.settle(&pay).await;
    let Ok(SettleOutcome::Settled { hash, repeated, right, .. }) = &end else { panic!("{end:?}") };
    assert!(!repeated && right.is_some());
    assert!(stage.world.is_known(hash.unwrap()));
    assert_eq!(stage.shop_balance(), 700);
    stage.advance_clock(10_000).await;
    let usage = stage.usage(1);
    assert_eq!(usage.total_reserved.gas, 0);
    let spent = COIN - stage.world.state().coin_balances[&signer(1)];
    assert_eq!((usage.spent_caller, usage.spent_total), (spent, spent));
    assert!(!spent.is_zero());
    assert_eq!(stage.world.state().sent.len(), 1, "broadcast once");
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_no_node_accepts_is_withdrawn_and_never_charged() {
    let funds = "insufficient funds for gas * price + value";
    let (out, withdrawn) = (Reason::OutOfGas, Reason::Withdrawn);
    let lies = [
        (BroadcastReaction::ConfirmWithoutTaking, withdrawn),
        (BroadcastReaction::Refuse(funds), out),
        (BroadcastReaction::Refuse("intrinsic gas too low"), withdrawn),
        (BroadcastReaction::Refuse("nonce too low"), withdrawn),
    ];
    for (lie, expected) in lies {
        let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
        // The node gives the same answer to each broadcast, until the answer to the caller is due.
        stage.world.state().broadcast_reactions = vec![lie.clone(); 3].into();
        let pay = stage.sign_payment(1, 700, 1);
        let end = stage.settle(&pay).await;
        assert_eq!(reason(&end), Some(expected), "{lie:?}: {end:?}");
        assert_eq!(reason_of(&stage.record(&pay).await.unwrap()), Some(expected));
        stage.world.state().broadcast_reactions.clear();
        assert_not_charged(&mut stage, &pay).await;
        let sent = stage.world.state().sent.clone();
        assert!(sent.last().unwrap().is_noop(), "{lie:?}: its nonce is used up");
        let usage = stage.usage(1);
        let cost = COIN - stage.world.state().coin_balances[&signer(1)];
        assert_eq!(usage.spent_caller, cost, "{lie:?}: doing nothing costs gas");
        assert!(!cost.is_zero());
        // The next payment uses the next nonce, and the withdrawn payment can be settled afterwards.
        stage.keep_mining();
        let next = stage.sign_payment(2, 300, 2);
        for pay in [&next, &pay] {
            let end = stage.settle(pay).await;
            assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{lie:?}: {end:?}");
            stage.advance_clock(3_000).await;
            assert!(is_settled(&stage.settle(pay).await), "{lie:?}");
        }
        assert_eq!(stage.shop_balance(), 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payment_known_to_a_node_is_pending_whatever_the_node_answered() {
    let lies = [
        None,
        Some(BroadcastReaction::TakeAndRefuse("already known")),
        Some(BroadcastReaction::TakeAndRefuse("nonce too low")),
        Some(BroadcastReaction::TakeAndBreak),
    ];
    for lie in lies {
        let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
        stage.world.state().broadcast_reactions.extend(lie.clone());
        let pay = stage.sign_payment(1, 700, 1);
        let end = stage.settle(&pay).await;
        let Ok(SettleOutcome::Pending { hash, payer }) = end else { panic!("{lie:?}: {end:?}") };
        assert!(stage.world.is_known(hash), "{lie:?}");
        assert_eq!(payer, Some(pay.terms.payer));
        mine_until_quiet(&mut stage).await;
        assert_eq!(stage.shop_balance(), 700, "{lie:?}");
        let again = stage.settle(&pay).await;
        assert!(
            matches!(again, Ok(SettleOutcome::Settled { hash: settled_hash, .. }) if settled_hash == Some(hash)),
            "{lie:?}"
        );
    }
}

/// One of several nodes did not answer the broadcast, and the others refused it. The silent node may have the
/// transaction.
#[tokio::test(start_paused = true)]
async fn a_silent_node_next_to_a_refusing_one_makes_the_outcome_unknown() {
    for silent in [false, true] {
        let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
        stage.world.state().broadcast_reactions = vec![BroadcastReaction::Refuse("busy"); 3].into();
        stage.world.state().other_node_silent = silent;
        let pay = stage.sign_payment(1, 700, 1);
        let end = stage.settle(&pay).await;
        assert_eq!(is_uncertain(&end), silent, "{end:?}");
        stage.world.state().broadcast_reactions.clear();
        stage.world.state().other_node_silent = false;
        mine_until_quiet(&mut stage).await;
        assert_eq!(stage.shop_balance(), 0);
        let record = stage.record(&pay).await.unwrap();
        assert_eq!(reason_of(&record), Some(Reason::Withdrawn), "now it is known");
    }
}

/// The node may have the transaction or receive it later, so the answer is not a refusal. The outcome is returned once
/// known.
#[tokio::test(start_paused = true)]
async fn an_unanswered_broadcast_is_not_refused_until_its_nonce_is_used() {
    for lie in
        [BroadcastReaction::Break, BroadcastReaction::Late(5_000), BroadcastReaction::Late(700)]
    {
        let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
        stage.world.state().broadcast_reactions.push_back(lie.clone());
        let pay = stage.sign_payment(1, 700, 1);
        let begun = stage.clock_ms();
        let end = stage.settle(&pay).await;
        let took = stage.clock_ms() - begun;
        if let BroadcastReaction::Late(700) = lie {
            // The broadcast arrives while the payment is being withdrawn, so the node has the transaction.
            assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
            continue;
        }
        assert!(is_uncertain(&end), "{lie:?}: {end:?}");
        assert!(took < 2_000, "{lie:?}: {took} ms");
        let record = stage.record(&pay).await.unwrap();
        assert_eq!(reason_of(&record), Some(Reason::UnexpectedSettle), "{lie:?}");
        mine_until_quiet(&mut stage).await;
        let record = stage.record(&pay).await.unwrap();
        if stage.shop_balance() == 0 {
            assert_eq!(reason_of(&record), Some(Reason::Withdrawn), "{lie:?}: now it is known");
        } else {
            assert!(matches!(record.state, State::Settled { .. }), "{lie:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_silent_at_the_deadline_makes_the_outcome_unknown_in_time() {
    for node in [Node::Down, Node::Mute] {
        let mut stage = Stage::with(StageConfig { wait_ms: 9_900, ..StageConfig::default() }).await;
        let pay = stage.sign_payment(1, 700, 1);
        let begun = stage.clock_ms();
        let settling = stage.spawn_settle(&pay);
        stage.advance_clock(3_000).await;
        stage.world.state().node = node;
        let end = settling.await.unwrap();
        assert!(is_uncertain(&end), "{node:?}: {end:?}");
        let took = stage.clock_ms() - begun;
        assert!((8_000..=10_000).contains(&took), "{node:?}: {took} ms");
        stage.world.state().node = Node::Answers;
        mine_until_quiet(&mut stage).await;
        let record = stage.record(&pay).await.unwrap();
        let moved = matches!(record.state, State::Settled { .. });
        assert_eq!(moved, stage.shop_balance() == 700, "{node:?}");
    }
}

/// A copy waits for a payment that is withdrawn meanwhile: it gets the refusal, and causes no new transaction.
#[tokio::test(start_paused = true)]
async fn a_waiting_copy_receives_the_withdrawal() {
    let mut stage = Stage::with(StageConfig { wait_ms: 4_000, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions = vec![BroadcastReaction::Refuse("busy"); 1_000].into();
    let pay = stage.sign_payment(1, 700, 1);
    let first = stage.spawn_settle(&pay);
    stage.advance_clock(2_000).await;
    let copy = stage.spawn_settle(&pay);
    assert_eq!(reason(&first.await.unwrap()), Some(Reason::Withdrawn));
    stage.world.state().broadcast_reactions.clear();
    stage.keep_mining();
    assert_eq!(reason(&copy.await.unwrap()), Some(Reason::Withdrawn));
    stage.advance_clock(30_000).await;
    assert_eq!(stage.shop_balance(), 0, "it was refused to both");
}

/// No node returns the cost of the no-op, so its upper bound counts.
#[tokio::test(start_paused = true)]
async fn a_cost_that_no_node_returns_is_estimated() {
    let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions =
        vec![BroadcastReaction::ConfirmWithoutTaking; 3].into();
    let pay = stage.sign_payment(1, 700, 1);
    assert_eq!(reason(&stage.settle(&pay).await), Some(Reason::Withdrawn));
    stage.world.state().broadcast_reactions.clear();
    stage.world.state().hides_receipts = true;
    stage.keep_mining();
    stage.advance_clock(120_000).await;
    let usage = stage.usage(1);
    let cost = COIN - stage.world.state().coin_balances[&signer(1)];
    assert!(usage.spent_caller > cost, "{} of {cost}", usage.spent_caller);
    assert_eq!(usage.total_reserved.gas, 0, "it is accounted for");
}

/// A node denied having the transaction, and mined it later. This is counted, and the payment is settled.
#[tokio::test(start_paused = true)]
async fn a_charge_after_a_refusal_is_counted_and_kept() {
    let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions =
        vec![BroadcastReaction::ConfirmWithoutTaking; 3].into();
    let pay = stage.sign_payment(1, 700, 1);
    assert_eq!(reason(&stage.settle(&pay).await), Some(Reason::Withdrawn));
    stage.world.state().broadcast_reactions.clear();
    let first = stage.world.state().sent[0].clone();
    assert!(
        !stage.metrics.text().contains("charged_after_refusal_total{network=\"eip155:8453\"} 1")
    );
    stage.world.put_in_pool(first.hash);
    stage.world.mine();
    mine_until_quiet(&mut stage).await;
    assert_eq!(stage.shop_balance(), 700);
    let record = stage.record(&pay).await.unwrap();
    assert!(matches!(record.state, State::Settled { hash, .. } if hash == first.hash));
    let text = stage.metrics.text();
    assert!(text.contains("charged_after_refusal_total{network=\"eip155:8453\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_payment_queued_behind_a_full_signer_is_withdrawn_unsigned() {
    let limits = DispatchLimits { in_flight_max: 1, batch_max: 1, ..StageConfig::default().limits };
    let mut stage =
        Stage::with(StageConfig { wait_ms: 1_000, limits, ..StageConfig::default() }).await;
    let (one, other) = (stage.sign_payment(1, 700, 1), stage.sign_payment(2, 300, 2));
    let (first, second) = (stage.spawn_settle(&one), stage.spawn_settle(&other));
    let ends = [first.await.unwrap(), second.await.unwrap()];
    let pending =
        ends.iter().filter(|end| matches!(end, Ok(SettleOutcome::Pending { .. }))).count();
    let rejection = ends.iter().filter(|end| reason(end) == Some(Reason::Withdrawn)).count();
    assert_eq!((pending, rejection), (1, 1), "{ends:?}");
    mine_until_quiet(&mut stage).await;
    assert_eq!(stage.world.state().sent.len(), 1, "the other one was never signed");
    assert!([700, 300].contains(&stage.shop_balance()));
}

/// Between the acceptance and the first attempt, the signer loses its coin or the gas price rises.
#[tokio::test(start_paused = true)]
async fn a_payment_queued_for_coin_or_cheaper_gas_is_withdrawn_for_that_reason() {
    let limits = DispatchLimits { in_flight_max: 1, batch_max: 1, ..StageConfig::default().limits };
    for dear in [false, true] {
        let plan = StageConfig { wait_ms: 6_000, limits, ..StageConfig::default() };
        let mut stage = Stage::with(plan).await;
        let (one, other) = (stage.sign_payment(1, 700, 1), stage.sign_payment(2, 300, 2));
        let first = stage.spawn_settle(&one);
        stage.advance_clock(100).await;
        let second = stage.spawn_settle(&other);
        stage.advance_clock(100).await;
        if dear {
            stage.world.state().base_fee = 100 * GWEI;
        } else {
            stage.world.fund(signer(1), U256::from(1));
        }
        // Another request refreshes the price.
        stage.advance_clock(2_500).await;
        let price = stage.settler.look_up_price().await.unwrap();
        assert_eq!(price.is_within_gas_price_max, !dear);
        let end = second.await.unwrap();
        let expected = if dear { Reason::GasTooHigh } else { Reason::OutOfGas };
        assert_eq!(reason(&end), Some(expected), "{end:?}");
        let _first = first.await.unwrap();
        stage.world.state().base_fee = GWEI;
        stage.world.fund(signer(1), COIN);
        mine_until_quiet(&mut stage).await;
        assert_eq!(stage.shop_balance(), 700);
    }
}

/// Waiting for the deadline, eight seconds later, would not change the answer.
#[tokio::test(start_paused = true)]
async fn a_payment_that_no_signer_can_pay_for_is_answered_before_the_deadline() {
    let funds = BroadcastReaction::Refuse("insufficient funds for gas * price + value");
    let mut stage = Stage::with(StageConfig { wait_ms: 8_000, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions = vec![funds; 100].into();
    let pay = stage.sign_payment(1, 700, 1);
    let began = tokio::time::Instant::now();
    let end = stage.settle(&pay).await;
    assert_eq!(reason(&end), Some(Reason::OutOfGas), "{end:?}");
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(4), "{took:?} of virtual time");
    stage.world.state().broadcast_reactions.clear();
    assert_not_charged(&mut stage, &pay).await;
    // A signer that is funded while the payment waits sends it.
    stage.keep_mining();
    let next = stage.sign_payment(2, 300, 2);
    assert!(is_settled(&stage.settle(&next).await));
}

/// All payments of a transaction get the same refusal, and none is charged.
#[tokio::test(start_paused = true)]
async fn all_payments_of_a_transaction_are_withdrawn_together() {
    let mut stage = Stage::with(StageConfig { wait_ms: 600, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions =
        vec![BroadcastReaction::ConfirmWithoutTaking; 6].into();
    // The first payment is sent alone, and the other payments wait to share a transaction.
    let pays: Vec<SignedPayment> =
        (1..=6).map(|n| stage.sign_payment(n, 100, u64::from(n))).collect();
    let settling: Vec<_> = pays.iter().map(|pay| stage.spawn_settle(pay)).collect();
    for settling in settling {
        let end = settling.await.unwrap();
        assert_eq!(reason(&end), Some(Reason::Withdrawn), "{end:?}");
    }
    let calls = stage.world.state().sent.iter().filter(|tx| !tx.is_noop()).count();
    assert!(calls < 6, "some went together");
    stage.world.state().broadcast_reactions.clear();
    assert_not_charged(&mut stage, &pays[5]).await;
    assert_eq!(stage.shop_balance(), 0);
}

/// The node may have the transaction or receive it later, so none of its payments is refused.
#[tokio::test(start_paused = true)]
async fn no_payment_of_a_transaction_is_refused_while_its_broadcast_is_unanswered() {
    for lie in [BroadcastReaction::Break, BroadcastReaction::Late(5_000)] {
        let mut stage = Stage::with(StageConfig { wait_ms: 600, ..StageConfig::default() }).await;
        stage.world.state().broadcast_reactions = vec![lie.clone(); 6].into();
        let pays: Vec<SignedPayment> =
            (1..=6).map(|n| stage.sign_payment(n, 100, u64::from(n))).collect();
        let settling: Vec<_> = pays.iter().map(|pay| stage.spawn_settle(pay)).collect();
        for settling in settling {
            let end = settling.await.unwrap();
            assert!(is_uncertain(&end), "{lie:?}: {end:?}");
        }
        stage.world.state().broadcast_reactions.clear();
        mine_until_quiet(&mut stage).await;
        let mut settled = 0;
        for pay in &pays {
            let record = stage.record(pay).await.unwrap();
            match &record.state {
                State::Settled { .. } => settled += 100,
                _ended => assert_eq!(reason_of(&record), Some(Reason::Withdrawn), "{lie:?}"),
            }
        }
        assert_eq!(stage.shop_balance(), settled, "{lie:?}");
    }
}
