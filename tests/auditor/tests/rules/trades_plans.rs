//! Trades: who may sign, and when; the order of a plan's steps, and allowances.

use bursar_auditor::observations::*;

use crate::common::encode;
use crate::common::trading::*;
use crate::common::{BASE, COIN, MAIN, SHOP, approve, refuses};

/// Plays a held trade until its approval.
fn approved() -> (Trader, Trade) {
    let mut trader = Trader::new(limits());
    let trade = buy(150);
    trader.holds(&trade, fair_output(150), "one");
    trader.approves(&trade, "one", Some(fair_output(150)));
    (trader, trade)
}

/// Plays an approved trade until its allowance is mined. Returns its swap, which is not signed yet.
fn allowed() -> (Trader, Trade, Transaction) {
    let (mut trader, trade) = approved();
    let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
    trader.sends(&tx);
    let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
    (trader, trade, swap)
}

#[test]
fn auditor_rejects_a_step_while_frozen_locked_suspended_or_off() {
    for (order, rule) in [
        (Order::Freeze, "I-g"),
        (Order::LockWallet, "I-f"),
        (Order::Suspend { agent: "HHH111".into() }, "I-i"),
    ] {
        let (mut trader, _, swap) = allowed();
        trader.order(order);
        trader.rejects(rule, signs(&swap));
    }
    let (mut trader, _, swap) = allowed();
    trader.order(Order::SwitchNetwork { chain: BASE, on: false });
    // A slow signer may finish late, but the wallet must not use its signature.
    trader.accepts(signs(&swap));
    trader.rejects("T-53", Observation::Broadcast(swap));
}

#[test]
fn auditor_rejects_a_step_that_a_thaw_unlock_or_resume_revived() {
    let agent = || "HHH111".to_owned();
    for (stop, go_on) in [
        (Order::Freeze, Order::Thaw { right: true }),
        (Order::LockWallet, Order::OpenWallet { right: true }),
        (Order::Suspend { agent: agent() }, Order::Resume { agent: agent() }),
    ] {
        let (mut trader, _, swap) = allowed();
        trader.order(stop);
        trader.order(go_on);
        trader.rejects("T-53", signs(&swap));
    }
}

#[test]
fn a_plan_continues_after_a_restart_within_its_five_minutes() {
    let (mut trader, _, swap) = allowed();
    trader.driver.restart();
    trader.accepts(signs(&swap));

    let (mut trader, _, swap) = allowed();
    trader.driver.restart();
    trader.order(Order::LockWallet);
    trader.order(Order::OpenWallet { right: true });
    trader.rejects("T-53", signs(&swap));

    let (mut trader, _, swap) = allowed();
    trader.order(Order::Freeze);
    trader.driver.restart();
    trader.order(Order::Thaw { right: true });
    trader.rejects("T-53", signs(&swap));

    let (mut trader, trade, _) = allowed();
    trader.driver.restart();
    trader.driver.advance_ms(300_001);
    trader.head();
    let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
    trader.accepts(signs(&swap));
    trader.rejects("T-53", Observation::Broadcast(swap));
}

#[test]
fn deadline_of_an_approved_trade_counts_by_the_blocks_that_nodes_show() {
    let shown: [(&[u64], bool); 3] = [(&[0], true), (&[1], false), (&[1, 0], false)];
    for (late, right) in shown {
        let mut trader = Trader::new(limits());
        let at_s = trader.time_s() + 10;
        let trade = Trade { deadline_s: Some(at_s), ..buy(150) };
        trader.holds(&trade, fair_output(150), "one");
        trader.driver.clocks.block_ms = Some(trader.driver.clocks.wall_ms + 20_000);
        trader.driver.advance_ms(20_000);
        for late_s in late {
            trader.block += 1;
            let (block, time_s) = (trader.block, at_s + late_s);
            trader.accepts(Observation::Head(Head { chain: BASE, block, time_s }));
        }
        trader.approves(&trade, "one", Some(fair_output(150)));
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        if right {
            trader.accepts(signs(&tx));
        } else {
            trader.rejects("refusals", signs(&tx));
        }
    }
}

/// The call that a crash left without an answer has the same terms as a plan that lapsed before its first signature.
#[test]
fn signature_is_judged_by_the_request_that_it_is_made_for() {
    for (request, right) in [("two", true), ("one", false)] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair_output(40), "one");
        trader.driver.advance_ms(300_001);
        trader.head();
        trader.opens(&buy(40), fair_output(40));
        trader.driver.restart();
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
        trader.accepts(signs_request(&tx, request));
        if right {
            trader.accepts(Observation::Broadcast(tx));
        } else {
            trader.rejects("T-53", Observation::Broadcast(tx));
        }
    }
}

#[test]
fn auditor_accepts_a_step_while_a_freeze_is_open_or_a_thaw_precedes_the_approval() {
    let (mut trader, _, swap) = allowed();
    trader.driver.open_order(Order::Freeze);
    trader.accepts(signs(&swap));

    let mut trader = Trader::new(limits());
    let trade = buy(150);
    trader.holds(&trade, fair_output(150), "one");
    trader.order(Order::Freeze);
    trader.order(Order::Thaw { right: true });
    trader.approves(&trade, "one", Some(fair_output(150)));
    trader.executes(&trade, fair_output(150), fair_output(150));
}

#[test]
fn auditor_rejects_a_step_more_than_five_minutes_after_the_approval() {
    for (ms, right) in [(300_000, true), (300_001, false)] {
        let (mut trader, trade, _) = allowed();
        trader.driver.advance_ms(ms);
        trader.head();
        let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
        if right {
            trader.accepts(signs(&swap));
        } else {
            // A slow signer may finish late, but the wallet must not use its signature.
            trader.accepts(signs(&swap));
            trader.rejects("T-53", Observation::Broadcast(swap));
        }
    }
}

#[test]
fn signed_steps_may_be_replaced_and_cancelled_later() {
    let (mut trader, _, swap) = allowed();
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.driver.advance_ms(301_000);
    trader.accepts(signs_for(&swap, "higher fee"));
    let dearer = Transaction { hash: "0xdearer".into(), ..swap.clone() };
    trader.accepts(Observation::Broadcast(dearer));
    trader.order(Order::Freeze);
    let (to, data) = (MAIN.into(), String::new());
    let cancel = Transaction { to, data, hash: "0xcancel".into(), ..swap.clone() };
    trader.accepts(signs(&cancel));
    trader.accepts(Observation::Broadcast(cancel.clone()));
    trader.rejects("I-g", signs_for(&swap, "even higher fee"));
}

#[test]
fn auditor_rejects_a_swap_before_the_approval_or_after_a_denial() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    let swap = trader.swap_tx(&buy(150), floor_of(fair_output(150), 50));
    trader.rejects("approvals", signs(&swap));

    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    let end = End::Decided { status: "denied".into() };
    trader.driver.order(Order::Deny { id: "one".into() }, end);
    let swap = trader.swap_tx(&buy(150), floor_of(fair_output(150), 50));
    trader.rejects("approvals", signs(&swap));
}

#[test]
fn auditor_rejects_an_approval_at_exactly_fifteen_minutes() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.driver.advance_ms(900_000);
    let ticket = trader.driver.open_order(approve("one"));
    let quoted = trader.quote(&buy(150), fair_output(150));
    trader.market(&buy(150), quoted);
    let end = End::Decided { status: "executing".into() };
    trader.rejects("I-e", Observation::OrderEnded { ticket, end });

    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.driver.advance_ms(899_999);
    trader.approves(&buy(150), "one", Some(fair_output(150)));
}

#[test]
fn auditor_rejects_a_step_without_a_fresh_quote_or_below_the_committed_minimum() {
    for (fresh, right) in [
        (Some(fair_output(150)), true),
        (Some(floor_of(fair_output(150), 50)), true),
        (Some(floor_of(fair_output(150), 50) - 1), false),
        (None, false),
    ] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        trader.approves(&buy(150), "one", fresh);
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
        if right {
            trader.accepts(signs(&tx));
        } else {
            trader.rejects("price moved", signs(&tx));
        }
    }
}

#[test]
fn auditor_rejects_a_swap_before_its_allowance_is_mined() {
    let (mut trader, trade) = approved();
    let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
    let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx.clone()));
    trader.rejects("plan order", signs(&swap));

    // The swap reverted, or a reorganization removed it.
    for unmined in [false, true] {
        let (mut trader, trade) = approved();
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.accepts(signs(&tx));
        trader.accepts(Observation::Broadcast(tx.clone()));
        trader.includes(&tx, unmined, vec![]);
        if unmined {
            trader.accepts(Observation::Unmined { chain: BASE, hash: tx.hash.clone() });
            trader.driver.advance_ms(15_001);
            trader.head();
        }
        let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
        trader.rejects("plan order", signs(&swap));
    }
}

#[test]
fn auditor_rejects_an_allowance_that_is_not_exact() {
    for (spender, more) in [(V3_ROUTER, 1), (SHOP, 0), (V4_ROUTER, 0)] {
        let (mut trader, trade) = approved();
        let tx = trader.approve_tx(COIN, spender, trade.amount_in + more);
        trader.rejects("allowance", signs(&tx));
    }
    let (mut trader, trade) = approved();
    let most = format!("095ea7b3{}{}", encode::address(V3_ROUTER), "f".repeat(64));
    let tx = trader.tx(COIN, 0, most);
    trader.rejects("allowance", signs(&tx));
    // The same trade signs a second allowance.
    let (mut trader, _) = (approved().0, trade);
    let first = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
    trader.sends(&first);
    let second = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
    trader.rejects("allowance", signs(&second));
}

#[test]
fn auditor_rejects_two_plans_on_one_address() {
    let (mut trader, _, _) = allowed();
    trader.starts(&buy(50), fair_output(50), "two");
    let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
    trader.rejects("one plan", signs(&other));
}

#[test]
fn second_plan_begins_after_the_first_swap_or_its_revocation() {
    for revoked in [false, true] {
        let (mut trader, _, swap) = allowed();
        trader.accepts(signs(&swap));
        trader.accepts(Observation::Broadcast(swap.clone()));
        trader.includes(&swap, !revoked, vec![]);
        trader.starts(&buy(50), fair_output(50), "two");
        let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
        if revoked {
            // The swap reverted, so its allowance remains.
            let before = other.clone();
            trader.nonce -= 1;
            let revoke = trader.approve_tx(COIN, V3_ROUTER, 0);
            trader.sends(&revoke);
            let next = Transaction { nonce: before.nonce + 1, hash: "0xnext".into(), ..before };
            trader.accepts(signs(&next));
        } else {
            trader.accepts(signs(&other));
        }
    }
    let (mut trader, _, swap) = allowed();
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.includes(&swap, false, vec![]);
    trader.starts(&buy(50), fair_output(50), "two");
    let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
    trader.rejects("one plan", signs(&other));
}

#[test]
fn auditor_rejects_an_allowance_that_a_plan_left() {
    for (left, right) in [(0, true), (150 * DOLLAR, false)] {
        let (mut trader, _, swap) = allowed();
        trader.accepts(signs(&swap));
        trader.accepts(Observation::Broadcast(swap.clone()));
        trader.includes(&swap, false, vec![]);
        let open = OpenAllowance {
            token: COIN.into(),
            spender: V3_ROUTER.into(),
            permit2: false,
            amount: left,
        };
        let open = if left == 0 { vec![] } else { vec![open] };
        let (chain, block, owner) = (BASE, trader.block, MAIN.into());
        trader.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
        trader.blocks(2);
        trader.polls("one", FAILED);
        trader.accepts(Observation::Calm);
        trader.driver.advance_ms(600_000);
        if right {
            trader.accepts(Observation::Over);
        } else {
            trader.rejects("I-s", Observation::Over);
        }
    }
}

#[test]
fn auditor_rejects_a_second_swap_for_one_trade() {
    let (mut trader, trade, swap) = allowed();
    trader.sends(&swap);
    let again = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
    trader.rejects("I-b", signs(&again));
    // The same nonce is used for a swap with another minimum.
    let (mut trader, trade, swap) = allowed();
    trader.accepts(signs(&swap));
    trader.nonce -= 1;
    let changed = trader.swap_tx(&trade, floor_of(fair_output(150), 50) + 1);
    trader.rejects("I-b", signs(&changed));
}

#[test]
fn auditor_rejects_a_second_trade_for_a_repeated_call() {
    let keyed = |ask: TradeAsk| TradeAsk {
        agent: "BBB111".into(),
        proof: Proof::Bearer { is_valid: true },
        idempotency_key: Some("key".into()),
        ..ask
    };
    for bearer in [false, true] {
        let mut trader = Trader::new(limits());
        let hmac = trader.ask(&buy(40));
        let ask = if bearer { keyed(hmac) } else { hmac };
        for (id, right) in [("one", true), ("one", true), ("two", false)] {
            let ticket = trader.open_call(&ask);
            let quoted = trader.quote(&buy(40), fair_output(40));
            trader.market(&buy(40), quoted);
            let answer = answered_observation(ticket, id, TradeState::Executing);
            if right {
                trader.accepts(answer);
            } else {
                trader.rejects("same ask, same answer", answer);
            }
        }
    }
}

#[test]
fn auditor_rejects_one_key_for_two_contents() {
    let mut trader = Trader::new(limits());
    let keyed = |ask: TradeAsk| TradeAsk {
        agent: "BBB111".into(),
        proof: Proof::Bearer { is_valid: true },
        idempotency_key: Some("key".into()),
        ..ask
    };
    let first = keyed(trader.ask(&buy(40)));
    let ticket = trader.open_call(&first);
    let quoted = trader.quote(&buy(40), fair_output(40));
    trader.market(&buy(40), quoted);
    trader.answers(ticket, "one", TradeState::Executing);
    let second = keyed(trader.ask(&buy(41)));
    let conflict = crate::common::refusal(409, "IDEMPOTENCY_CONFLICT", None);
    trader.driver.call(Call::Trade(Box::new(second.clone())), conflict);
    let ticket = trader.open_call(&second);
    let quoted = trader.quote(&buy(41), fair_output(41));
    trader.market(&buy(41), quoted);
    let answer = answered_observation(ticket, "two", TradeState::Executing);
    trader.rejects("same ask, same answer", answer);
}

#[test]
fn operators_may_send_while_trades_run() {
    let (mut trader, _, swap) = allowed();
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    let ticket = trader.driver.open_order(Order::Send(Box::new(send)));
    let tx = trader.tx(SHOP, 7, String::new());
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx.clone()));
    trader.accepts(Observation::OrderEnded { ticket, end: End::Sent { id: "s".into() } });
    trader.accepts(signs(&swap));
    // A trade and a transfer may not use each other's nonce.
    let (mut trader, _, swap) = allowed();
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    trader.driver.open_order(Order::Send(Box::new(send)));
    trader.nonce -= 1;
    let tx = trader.tx(SHOP, 7, String::new());
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx));
    trader.rejects("transactions", signs(&swap));
}

#[test]
fn locked_wallet_answers_and_refuses_orders_as_for_payments() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.order(Order::LockWallet);
    trader.refuses(approve("one"), "WALLET_LOCKED");
    let ask = trader.ask(&buy(40));
    let failed = crate::common::refusal(401, "AUTH_FAILED", None);
    trader.driver.call(Call::Trade(Box::new(ask)), failed);
    trader.polls("one", TradeState::Pending);
    let loose = Policy {
        trading: TradingPolicy { daily: 400_000_000, ..limits() },
        ..crate::common::policy(100, 50, 20)
    };
    let edit = Order::EditPolicy { name: "p".into(), policy: loose };
    trader.driver.order(edit, refuses("WALLET_LOCKED"));
}
