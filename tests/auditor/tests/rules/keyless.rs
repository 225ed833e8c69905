//! Calls of bearer agents without a key: calls with the same content are one request for ten minutes, and until it
//! ends.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::*;
use crate::common::{COIN, MAIN};

const MINUTES: i64 = 60_000;
const REPEAT_RULE: &str = "same ask, same answer";

fn keyless_ask(trader: &mut Trader, trade: &Trade) -> TradeAsk {
    TradeAsk {
        agent: "BBB111".into(),
        proof: Proof::Bearer { is_valid: true },
        ..trader.ask(trade)
    }
}

/// Makes a call without an idempotency key and shows a good market. The call stays open.
fn asks(trader: &mut Trader, trade: &Trade) -> Ticket {
    let ask = keyless_ask(trader, trade);
    let ticket = trader.open_call(&ask);
    trader.head();
    let quoted = trader.quote(trade, fair_output(40));
    trader.market(trade, quoted);
    ticket
}

/// Returns a trader with a trade that was executed and whose end was reported, and that end.
fn executed_trade() -> (Trader, TradeState) {
    let mut trader = Trader::new(limits());
    let ticket = asks(&mut trader, &buy(40));
    trader.answers(ticket, "one", TradeState::Executing);
    let swap = trader.executes(&buy(40), fair_output(40), fair_output(40));
    trader.polls("one", executed_state(&swap, Some(fair_output(40))));
    (trader, executed_state(&swap, Some(fair_output(40))))
}

#[test]
fn repeat_within_ten_minutes_is_the_first_trade() {
    for minutes in [0, 9] {
        let repeated = || {
            let (mut trader, end) = executed_trade();
            trader.driver.advance_ms(minutes * MINUTES);
            let ticket = asks(&mut trader, &buy(40));
            (trader, ticket, end)
        };
        let (mut trader, ticket, end) = repeated();
        trader.answers(ticket, "one", end);
        let (mut trader, ticket, _) = repeated();
        trader.rejects(REPEAT_RULE, answered_observation(ticket, "two", TradeState::Executing));
    }
}

#[test]
fn repeat_after_ten_minutes_is_a_new_trade() {
    let repeated = || {
        let (mut trader, end) = executed_trade();
        trader.driver.advance_ms(10 * MINUTES + 1);
        let ticket = asks(&mut trader, &buy(40));
        (trader, ticket, end)
    };
    let (mut trader, ticket, _) = repeated();
    trader.answers(ticket, "two", TradeState::Executing);
    let ticket = asks(&mut trader, &buy(40));
    trader.answers(ticket, "two", TradeState::Executing);
    trader.executes(&buy(40), fair_output(40), fair_output(40));
    let (mut trader, ticket, end) = repeated();
    trader.rejects("repeats", answered_observation(ticket, "one", end));
}

#[test]
fn wall_clock_does_not_end_the_ten_minutes() {
    for hours in [-1, 1] {
        let (mut trader, _) = executed_trade();
        let wall = trader.driver.clocks.wall_ms;
        trader.driver.set_wall(wall + hours * 60 * MINUTES);
        let ticket = asks(&mut trader, &buy(40));
        trader.rejects(REPEAT_RULE, answered_observation(ticket, "two", TradeState::Pending));
    }
}

#[test]
fn trade_that_has_not_ended_is_merged_for_longer() {
    let held = || {
        let mut trader = Trader::new(limits());
        let ticket = asks(&mut trader, &buy(150));
        trader.answers(ticket, "one", TradeState::Pending);
        trader.driver.advance_ms(14 * MINUTES);
        let ticket = asks(&mut trader, &buy(150));
        (trader, ticket)
    };
    let (mut trader, ticket) = held();
    trader.answers(ticket, "one", TradeState::Pending);
    let (mut trader, ticket) = held();
    trader.rejects(REPEAT_RULE, answered_observation(ticket, "two", TradeState::Pending));

    let mut trader = Trader::new(limits());
    let ticket = asks(&mut trader, &buy(40));
    trader.answers(ticket, "one", TradeState::Executing);
    let approve = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&approve);
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap));
    trader.driver.advance_ms(20 * MINUTES);
    let ticket = asks(&mut trader, &buy(40));
    trader.rejects(REPEAT_RULE, answered_observation(ticket, "two", TradeState::Executing));
}

#[test]
fn trade_that_ended_before_any_broadcast_is_forgotten() {
    let ended = |sent: bool| {
        let mut trader = Trader::new(limits());
        let ticket = asks(&mut trader, &buy(40));
        trader.answers(ticket, "one", TradeState::Executing);
        if sent {
            let approve = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
            trader.sends(&approve);
        }
        trader.polls("one", refused_for("PRICE_MOVED"));
        let ticket = asks(&mut trader, &buy(40));
        (trader, ticket)
    };
    let (mut trader, ticket) = ended(false);
    trader.answers(ticket, "two", TradeState::Executing);
    let (mut trader, ticket) = ended(true);
    trader.answers(ticket, "one", refused_for("PRICE_MOVED"));
    let (mut trader, ticket) = ended(true);
    trader.rejects(REPEAT_RULE, answered_observation(ticket, "two", TradeState::Executing));
}

#[test]
fn refused_trade_is_forgotten() {
    let mut trader = Trader::new(limits());
    for id in ["one", "two"] {
        let ticket = asks(&mut trader, &buy(201));
        trader.answers(ticket, id, refused_for("EXCEEDS_PER_TRADE_MAX"));
    }
}

#[test]
fn simultaneous_copies_are_one_trade() {
    let mut trader = Trader::new(limits());
    let all = [0; 3].map(|_| asks(&mut trader, &buy(40)));
    trader.answers(all[1], "one", TradeState::Executing);
    trader.answers(all[0], "one", TradeState::Executing);
    // Before its first broadcast, the plan could be rejected and a copy be a new trade. Now a copy is the same trade.
    let approve = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&approve);
    trader.rejects(REPEAT_RULE, answered_observation(all[2], "two", TradeState::Executing));
}

#[test]
fn trade_lost_in_a_crash_is_executed_once() {
    let mut trader = Trader::new(limits());
    asks(&mut trader, &buy(40));
    let approve = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&approve);
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.includes(&swap, true, vec![transfer(WETH, V3_ROUTER, MAIN, fair_output(40))]);
    trader.accepts(Observation::Died);
    trader.accepts(Observation::Started);
    trader.order(Order::OpenWallet { right: true });
    trader.blocks(2);
    asks(&mut trader, &buy(40));
    let again = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.rejects("allowance", signs(&again));
}

/// Makes a call without an idempotency key and shows all readings. The call stays open.
fn asks_for(lender: &mut Lender, loan: &Loan) -> Ticket {
    let ask = lender.bearer(loan, None);
    let ticket = lender.open_call(&ask);
    lender.head();
    lender.reads(loan);
    ticket
}

#[test]
fn repeated_supply_is_one_until_ten_minutes_after_the_first() {
    let repeated = |ms: i64| {
        let mut lender = Lender::new(lending());
        let ticket = asks_for(&mut lender, &supply(40));
        lender.answers(ticket, "one", LoanState::Executing);
        let tx = lender.executes(&supply(40));
        lender.blocks(2);
        let end = executed_loan(&tx, None, None);
        lender.polls("one", end.clone());
        lender.driver.advance_ms(ms);
        let ticket = asks_for(&mut lender, &supply(40));
        (lender, ticket, end)
    };
    for ms in [0, 9 * MINUTES] {
        let (mut lender, ticket, end) = repeated(ms);
        lender.answers(ticket, "one", end);
        let (mut lender, ticket, _) = repeated(ms);
        lender.rejects(REPEAT_RULE, loan_answer(ticket, "two", LoanState::Executing));
    }
    let (mut lender, ticket, _) = repeated(10 * MINUTES + 1);
    lender.answers(ticket, "two", LoanState::Executing);
    lender.executes(&supply(40));
    let (mut lender, ticket, end) = repeated(10 * MINUTES + 1);
    lender.rejects("repeats", loan_answer(ticket, "one", end));
}

#[test]
fn repeated_supply_that_is_held_or_in_flight_is_one() {
    for held in [true, false] {
        let mut lender = Lender::new(lending());
        let loan = supply(if held { 150 } else { 40 });
        let ticket = asks_for(&mut lender, &loan);
        let state = if held { LoanState::Pending } else { LoanState::Executing };
        lender.answers(ticket, "one", state.clone());
        if !held {
            let approve = lender.approve_tx(&loan);
            lender.sends(&approve);
            let tx = lender.main_tx(&loan);
            lender.signs_and_broadcasts(&tx);
        }
        lender.driver.advance_ms(14 * MINUTES);
        let ticket = asks_for(&mut lender, &loan);
        lender.rejects(REPEAT_RULE, loan_answer(ticket, "two", state));
    }
}
