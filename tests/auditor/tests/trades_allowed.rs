//! Trades: sequences that the specification allows, and that look like violations at first.

mod common;
use bursar_auditor::observations::*;
use common::trading::*;
use common::{BASE, COIN, refusal};

#[test]
fn own_deadline_may_pass_after_the_decision() {
    let mut trader = Trader::new(limits());
    let trade = Trade { deadline_s: Some(trader.time_s() + 10), ..buy(40) };
    let ticket = trader.opens(&trade, fair(40));
    trader.driver.advance_ms(20_000);
    trader.head();
    trader.answers(ticket, "one", TradeState::Executing);
    trader.polls("one", rejected_as(None));
}

#[test]
fn swap_may_follow_a_receipt_that_was_just_undone() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    trader.accepts(Observation::Unmined { chain: BASE, hash: tx.hash });
    trader.driver.advance_ms(15_000);
    trader.head();
    let swap = trader.swap_tx(&buy(40), floor_of(fair(40), 50));
    trader.accepts(signs(&swap));
}

#[test]
fn rehearsal_before_the_swap_may_fail_while_the_call_is_open() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair(40));
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    trader.rehearsed(&buy(40), Rehearsal::Failed);
    trader.answers(ticket, "one", TradeState::Executing);
    trader.polls("one", FAILED);
}

#[test]
fn price_may_become_unusable_after_the_decision() {
    let mut trader = Trader::new(limits());
    let trade = sell(COIN_WEI / 50);
    let ticket = trader.opens(&trade, 49_975_000);
    trader.driver.advance_ms(25_000);
    trader.price(4000, 2500);
    trader.answers(ticket, "one", TradeState::Executing);
    let tx = trader.approve_tx(WETH, V3_ROUTER, trade.amount_in);
    trader.sends(&tx);
}

#[test]
fn balance_read_by_a_concurrent_call_decides_nothing() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair(40));
    trader.balance(COIN, 0);
    trader.answers(ticket, "one", TradeState::Executing);
    // Nor does it make a refusal wrong.
    let ticket = trader.opens(&buy(30), fair(30));
    trader.balance(COIN, 0);
    trader.answers(ticket, "two", refused_for("INSUFFICIENT_BALANCE"));
}

#[test]
fn call_may_be_refused_for_an_unreachable_node() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair(40));
    trader.accepts(Observation::Read(Read::Failed { chain: BASE }));
    trader.answers(ticket, "one", refused_for("NODE_UNREACHABLE"));
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(40));
    let ticket = trader.called(&ask);
    trader.answers(ticket, "one", rejected_as(Some("REQUOTE_FAILED")));
    let ticket = trader.called(&ask);
    trader.answers(ticket, "one", rejected_as(Some("REQUOTE_FAILED")));
    let ticket = trader.called(&ask);
    let changed = answered(ticket, "one", rejected_as(Some("OTHER")));
    trader.rejects("same ask, same answer", changed);
}

#[test]
fn allowance_of_an_interrupted_plan_may_remain() {
    for freeze in [false, true] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
        trader.sends(&tx);
        if freeze {
            trader.order(Order::Freeze);
            trader.order(Order::Thaw { right: true });
        } else {
            trader.driver.advance_ms(300_001);
        }
        trader.polls("one", rejected_as(None));
        trader.starts(&buy(50), fair(50), "two");
        let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
        trader.accepts(signs(&other));
    }
}

#[test]
fn allowances_may_be_revoked_while_agents_are_frozen() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    trader.order(Order::Freeze);
    let revoke = trader.approve_tx(COIN, V3_ROUTER, 0);
    trader.sends(&revoke);
    trader.order(Order::LockWallet);
    let again = trader.approve_tx(COIN, V3_ROUTER, 0);
    trader.rejects("I-f", signs(&again));
}

#[test]
fn trade_refused_by_a_failed_disk_may_exist_after_the_restart() {
    let failed = || refused_for("JOURNAL_FAILED");
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(150));
    let ticket = trader.called(&ask);
    let quoted = trader.quote(&buy(150), fair(150));
    trader.market(&buy(150), quoted);
    trader.accepts(Observation::DiskFailed);
    trader.answers(ticket, "one", failed());
    trader.driver.restart();
    trader.polls("one", TradeState::Pending);
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(150), fair(150));
    trader.rejects("disk", answered(ticket, "one", failed()));
}

#[test]
fn rate_limit_may_answer_any_call() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair(150), "one");
    let ask = trader.ask(&buy(40));
    let limited = refusal(429, "RATE_LIMIT_EXCEEDED", None);
    trader.driver.call(Call::Trade(Box::new(ask)), limited.clone());
    trader.driver.call(Call::PollTrade { id: "one".into() }, limited);
}
