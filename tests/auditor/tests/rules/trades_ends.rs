//! Trades: which ends their answers may report, and when.

use bursar_auditor::observations::*;

use crate::common::encode;
use crate::common::trading::*;
use crate::common::{BASE, COIN, MAIN, SHOP, approve, listed, refusal, refuses};

/// Plays an automatic trade until its swap is in a block without confirmations.
fn included(change: impl FnOnce(&mut Included)) -> (Trader, Transaction) {
    let mut trader = Trader::new(limits());
    let trade = buy(40);
    trader.starts(&trade, fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
    trader.sends(&tx);
    let swap = trader.swap_tx(&trade, floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.blocks(1);
    let mut included = Included {
        chain: BASE,
        hash: swap.hash.clone(),
        block: trader.block,
        block_s: trader.time_s(),
        succeeded: true,
        transfers: vec![
            transfer(WETH, V3_ROUTER, MAIN, 700),
            transfer(WETH, V3_ROUTER, SHOP, 1_000),
            transfer(SHARE, V3_ROUTER, MAIN, 10_000),
            transfer(WETH, V3_ROUTER, MAIN, 7),
        ],
        unwrapped: vec![],
        native_received: 0,
        pool_out: Some(800),
        gas_paid: 1,
    };
    change(&mut included);
    trader.accepts(Observation::Included(Box::new(included)));
    (trader, swap)
}

#[test]
fn auditor_rejects_a_fill_other_than_what_arrived() {
    for (told, right) in [
        (Some(707), true),
        (None, true),
        (Some(fair_output(40)), false),
        (Some(700), false),
        (Some(1_707), false),
        (Some(800), false),
    ] {
        let (mut trader, swap) = included(|_| {});
        trader.blocks(2);
        let ticket = trader.poll("one");
        let answer = answered_observation(ticket, "one", executed_state(&swap, told));
        if right {
            trader.accepts(answer);
        } else {
            trader.rejects("fill", answer);
        }
    }
}

#[test]
fn auditor_rejects_a_native_fill_other_than_what_arrived() {
    let fill = |told: u128, unwrapped: u128, received: u128| {
        let mut trader = Trader::new(limits());
        let trade = Trade { token_out: NATIVE.into(), ..buy(40) };
        trader.starts(&trade, fair_output(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let least = floor_of(fair_output(40), 50);
        let calls = [
            encode::exact_input_single((COIN, WETH), 500, V3_ROUTER, trade.amount_in, least),
            encode::unwrap_weth(least, MAIN),
        ];
        let data = encode::multicall(trader.time_s() + DEADLINE_S, &calls);
        let swap = trader.tx(V3_ROUTER, 0, data);
        trader.accepts(signs(&swap));
        trader.accepts(Observation::Broadcast(swap.clone()));
        trader.blocks(1);
        trader.accepts(Observation::Included(Box::new(Included {
            chain: BASE,
            hash: swap.hash.clone(),
            block: trader.block,
            block_s: trader.time_s(),
            succeeded: true,
            transfers: vec![],
            unwrapped: vec![(V3_ROUTER.into(), unwrapped), (SHOP.into(), 5)],
            native_received: received,
            pool_out: None,
            gas_paid: 1,
        })));
        trader.blocks(2);
        let ticket = trader.poll("one");
        let answer = answered_observation(ticket, "one", executed_state(&swap, Some(told)));
        trader.driver.auditor.observe(&answer).map_err(|found| found.rule.to_owned())
    };
    assert_eq!(fill(900, 900, 900), Ok(()));
    assert_eq!(fill(905, 900, 900), Err("fill".to_owned()));
    assert_eq!(fill(fair_output(40), 900, 900), Err("fill".to_owned()));
}

#[test]
fn auditor_rejects_an_execution_without_confirmations() {
    for (more, right) in [(0, false), (1, false), (2, true)] {
        let (mut trader, swap) = included(|_| {});
        trader.blocks(more);
        let ticket = trader.poll("one");
        let answer = answered_observation(ticket, "one", executed_state(&swap, None));
        if right {
            trader.accepts(answer);
        } else {
            trader.rejects("executed", answer);
        }
    }
    let (mut trader, swap) = included(|_| {});
    trader.accepts(Observation::Mined { chain: BASE, hash: swap.hash.clone(), succeeded: true });
    trader.polls("one", executed_state(&swap, None));
}

#[test]
fn auditor_rejects_an_execution_that_never_happened() {
    // The swap reverted, the answer names another transaction, a reorganization removed the swap, or nothing was
    // signed.
    let (mut trader, swap) = included(|i| i.succeeded = false);
    trader.blocks(2);
    trader.poll_rejects("executed", "one", executed_state(&swap, None));
    let (mut trader, swap) = included(|_| {});
    trader.blocks(2);
    let other = Transaction { hash: "0xother".into(), ..swap };
    trader.poll_rejects("executed", "one", executed_state(&other, None));
    let (mut trader, swap) = included(|_| {});
    trader.accepts(Observation::Unmined { chain: BASE, hash: swap.hash.clone() });
    trader.blocks(2);
    trader.poll_rejects("executed", "one", executed_state(&swap, None));
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.poll_rejects("executed", "one", executed_state(&tx, None));
}

#[test]
fn auditor_rejects_a_status_that_goes_back() {
    let (mut trader, swap) = included(|_| {});
    trader.blocks(2);
    trader.polls("one", executed_state(&swap, Some(707)));
    for state in [
        TradeState::Pending,
        TradeState::Executing,
        rejected_as(None),
        FAILED,
        executed_state(&swap, None),
    ] {
        trader.poll_rejects("I-p", "one", state);
    }
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    trader.poll_rejects("I-p", "one", TradeState::Pending);
    let ticket = trader.poll("one");
    let answer = refusal(404, "REQUEST_NOT_FOUND", None);
    trader.rejects("I-p", Observation::Answered { ticket, answer });
}

#[test]
fn polls_that_were_open_together_may_be_answered_in_any_order() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    let early = trader.poll("one");
    trader.approves(&buy(150), "one", Some(fair_output(150)));
    trader.polls("one", TradeState::Executing);
    trader.answers(early, "one", TradeState::Pending);
    trader.poll_rejects("I-p", "one", TradeState::Pending);
}

#[test]
fn auditor_rejects_executing_or_rejecting_without_a_cause() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.polls("one", TradeState::Pending);
    trader.poll_rejects("approvals", "one", TradeState::Executing);
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.poll_rejects("I-p", "one", rejected_as(None));
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.driver.advance_ms(899_999);
    trader.polls("one", TradeState::Pending);
    trader.driver.advance_ms(1);
    trader.poll_rejects("I-e", "one", TradeState::Pending);
    trader.polls("one", rejected_as(None));
}

#[test]
fn auditor_rejects_an_end_while_the_swap_may_have_an_effect() {
    for state in [rejected_as(None), FAILED] {
        let (mut trader, _) = included(|_| {});
        trader.poll_rejects("volume", "one", state.clone());
        // A reverted swap counts only with the network's confirmations.
        let (mut trader, _) = included(|i| i.succeeded = false);
        trader.poll_rejects("volume", "one", state.clone());
        let (mut trader, _) = included(|i| i.succeeded = false);
        trader.blocks(2);
        trader.polls("one", state);
    }
}

#[test]
fn permanent_revert_needs_no_receipt() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.accepts(Observation::Mined { chain: BASE, hash: swap.hash, succeeded: false });
    trader.polls("one", FAILED);
}

#[test]
fn our_own_cancellation_ends_a_trade_without_effect() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    let (to, data) = (MAIN.into(), String::new());
    let cancel = Transaction { to, data, hash: "0xcancel".into(), ..swap };
    trader.accepts(signs(&cancel));
    trader.accepts(Observation::Broadcast(cancel.clone()));
    trader.poll_rejects("volume", "one", FAILED);
    trader.accepts(Observation::Mined { chain: BASE, hash: cancel.hash, succeeded: true });
    trader.polls("one", FAILED);
}

#[test]
fn moved_price_ends_with_its_code() {
    let below = floor_of(fair_output(150), 50) - 1;
    for (fresh, code, right) in [
        (below, Some("PRICE_MOVED"), true),
        (below, None, false),
        (fair_output(150), Some("PRICE_MOVED"), false),
        (fair_output(150), Some("REQUOTE_FAILED"), true),
    ] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        trader.approves(&buy(150), "one", Some(fresh));
        if right {
            trader.polls("one", rejected_as(code));
        } else {
            trader.poll_rejects("price moved", "one", rejected_as(code));
        }
    }
}

#[test]
fn every_trade_ends_in_the_calm_phase() {
    for ends in [true, false] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair_output(40), "one");
        trader.accepts(Observation::Calm);
        for _ in 0..31 {
            trader.driver.advance_ms(60_000);
            trader.polls("one", TradeState::Executing);
        }
        if ends {
            trader.polls("one", FAILED);
            trader.accepts(Observation::Over);
        } else {
            trader.rejects("I-n", Observation::Over);
        }
    }
}

#[test]
fn lists_show_held_trades_and_one_card_for_one_policy() {
    let trade_of = |id: &str, card: &str| Listed { trade: true, ..listed(id, card) };
    let list = |trader: &mut Trader, held: Vec<Listed>| {
        trader.driver.order(Order::List, End::Held(held));
    };
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    list(&mut trader, vec![trade_of("one", "card")]);
    let ticket = trader.driver.open_order(Order::List);
    let end = End::Held(vec![trade_of("one", "other")]);
    trader.rejects("card", Observation::OrderEnded { ticket, end });
    let ticket = trader.driver.open_order(Order::List);
    trader.rejects("I-p", Observation::OrderEnded { ticket, end: End::Held(vec![]) });
    trader.approves(&buy(150), "one", Some(fair_output(150)));
    let ticket = trader.driver.open_order(Order::List);
    let end = End::Held(vec![trade_of("one", "card")]);
    trader.rejects("I-p", Observation::OrderEnded { ticket, end });

    // The wallet must refuse an operator's approval of an old card.
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    list(&mut trader, vec![trade_of("one", "card")]);
    let tight = TradingPolicy { daily: 299_000_000, ..limits() };
    let policy = Policy { trading: tight, ..crate::common::policy(100, 50, 20) };
    trader.order(Order::EditPolicy { name: "p".into(), policy });
    list(&mut trader, vec![trade_of("one", "new card")]);
    let old = Order::Approve { id: "one".into(), card: Some("card".into()) };
    trader.refuses(old.clone(), "CARD_CHANGED");
    let found = trader.driver.order_rejected(old, End::Decided { status: "executing".into() });
    assert_eq!(found.rule, "card");
}

#[test]
fn auditor_rejects_decisions_refused_or_accepted_wrongly() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    for (code, rule) in [
        ("REQUEST_NOT_FOUND", "I-p"),
        ("REQUEST_EXPIRED", "I-e"),
        ("REQUEST_ALREADY_PROCESSED", "approvals"),
    ] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        let found = trader.driver.order_rejected(approve("one"), refuses(code));
        assert_eq!(found.rule, rule);
    }
    trader.approves(&buy(150), "one", Some(fair_output(150)));
    let decided = |status: &str| End::Decided { status: status.into() };
    let again = trader.driver.order_rejected(approve("one"), decided("executing"));
    assert_eq!(again.rule, "approvals");
    let deny = Order::Deny { id: "one".into() };
    assert_eq!(trader.driver.order_rejected(deny, decided("denied")).rule, "approvals");
}

#[test]
fn trades_lost_in_a_crash_may_exist_and_count() {
    // The call got no answer: the trade may be held, or may not exist.
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(150));
    trader.open_call(&ask);
    let quoted = trader.quote(&buy(150), fair_output(150));
    trader.market(&buy(150), quoted);
    trader.driver.restart();
    // The daily volume left is 300 - 150 or 300, so both answers are possible.
    let ticket = trader.opens(&buy(151), fair_output(151));
    trader.accepts(answered_observation(ticket, "two", refused_for("EXCEEDS_DAILY_VOLUME")));
    trader.holds(&buy(200), fair_output(200), "three");
    // A repeat of the lost call returns its trade.
    let ticket = trader.open_call(&ask);
    let quoted = trader.quote(&buy(150), fair_output(150));
    trader.market(&buy(150), quoted);
    trader.answers(ticket, "one", TradeState::Pending);
    trader.polls("one", TradeState::Pending);

    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(40));
    trader.open_call(&ask);
    trader.driver.restart();
    // A poll shows the id of the lost request.
    trader.polls("one", rejected_as(None));
    let mut trader = Trader::new(limits());
    let ticket = trader.poll("never");
    trader.rejects("I-m", answered_observation(ticket, "never", TradeState::Pending));
}

#[test]
fn signed_step_lost_in_a_crash_may_be_sent_or_dropped() {
    for sent in [true, false] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair_output(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
        trader.sends(&tx);
        let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
        trader.accepts(signs(&swap));
        trader.driver.restart();
        if sent {
            trader.accepts(Observation::Broadcast(swap.clone()));
            let log = transfer(WETH, V3_ROUTER, MAIN, 707);
            trader.includes(&swap, true, vec![log]);
            trader.blocks(2);
            trader.polls("one", executed_state(&swap, Some(707)));
        } else {
            trader.polls("one", rejected_as(None));
        }
    }
}

#[test]
fn auditor_rejects_trading_without_proof_or_permission() {
    let mut trader = Trader::new(limits());
    trader.order(Order::Freeze);
    let ticket = trader.opens(&buy(40), fair_output(40));
    let frozen = refusal(403, "AGENTS_FROZEN", None);
    trader.accepts(Observation::Answered { ticket, answer: frozen });
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.rejects("I-i", answered_observation(ticket, "one", TradeState::Executing));
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair_output(40));
    let frozen = refusal(403, "AGENTS_FROZEN", None);
    trader.rejects("answers", Observation::Answered { ticket, answer: frozen });
}
