//! Trades: minimum outputs and the daily volume.

use bursar_auditor::observations::*;

use crate::common::trading::*;
use crate::common::{BASE, COIN, MAIN};

#[test]
fn automatic_trade_runs_to_its_end() {
    let mut trader = Trader::new(limits());
    let trade = buy(40);
    let swap = trader.swaps(&trade, fair_output(40), "one", fair_output(40) - 5);
    trader.polls("one", executed_state(&swap, Some(fair_output(40) - 5)));
    trader.polls("one", executed_state(&swap, Some(fair_output(40) - 5)));
    trader.accepts(Observation::Calm);
    trader.accepts(Observation::Over);
    let counts = trader.driver.auditor.rule_counts();
    assert_eq!(counts.get("trade: automatic"), Some(&1));
    assert_eq!(counts.get("signature: trade"), Some(&2));
}

#[test]
fn held_trade_runs_to_its_end_with_the_higher_floor() {
    for (fresh, expected) in [
        (fair_output(150) + 1000, fair_output(150) + 1000),
        (fair_output(150) - 1000, fair_output(150)),
    ] {
        let mut trader = Trader::new(limits());
        let trade = buy(150);
        trader.holds(&trade, fair_output(150), "one");
        trader.approves(&trade, "one", Some(fresh));
        let swap = trader.executes(&trade, expected, fresh);
        trader.polls("one", executed_state(&swap, None));
    }
}

/// Plays an approval at this fresh quote, and signs a swap with this minimum output.
fn swap_with_minimum(fresh: u128, least: u128) -> Result<(), String> {
    let mut trader = Trader::new(limits());
    let trade = buy(150);
    trader.holds(&trade, fair_output(150), "one");
    trader.approves(&trade, "one", Some(fresh));
    let approve = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
    trader.sends(&approve);
    let swap = trader.swap_tx(&trade, least);
    let judged = trader.driver.auditor.observe(&signs(&swap));
    judged.map_err(|found| found.rule.to_owned())
}

#[test]
fn auditor_rejects_a_floor_from_one_of_the_two_quotes_alone() {
    let (low, high) = (fair_output(150) - 10_000, fair_output(150) + 10_000);
    let floor = |out| floor_of(out, 50);
    assert_eq!(swap_with_minimum(low, floor(fair_output(150))), Ok(()));
    assert_eq!(swap_with_minimum(low, floor(low)), Err("floor".to_owned()));
    assert_eq!(swap_with_minimum(high, floor(high)), Ok(()));
    assert_eq!(swap_with_minimum(high, floor(fair_output(150))), Err("floor".to_owned()));
}

#[test]
fn auditor_rejects_a_slippage_taken_off_twice_or_never() {
    let once = floor_of(fair_output(150), 50);
    assert_eq!(swap_with_minimum(fair_output(150), once), Ok(()));
    assert_eq!(swap_with_minimum(fair_output(150), once - 1), Err("floor".to_owned()));
    assert_eq!(swap_with_minimum(fair_output(150), once + 1), Err("floor".to_owned()));
    // A minimum with a remainder is rounded up, in favour of the operator.
    let (fresh, floor) = (fair_output(150) + 1, floor_of(fair_output(150) + 1, 50));
    assert_eq!(swap_with_minimum(fresh, floor + 1), Ok(()));
    assert_eq!(swap_with_minimum(fresh, floor + 2), Err("floor".to_owned()));
    assert_eq!(swap_with_minimum(fair_output(150), floor_of(once, 50)), Err("floor".to_owned()));
    assert_eq!(swap_with_minimum(fair_output(150), fair_output(150)), Err("floor".to_owned()));
    assert_eq!(swap_with_minimum(fair_output(150), 0), Err("floor".to_owned()));
}

#[test]
fn slippage_defaults_to_the_smaller_of_half_a_percent_and_the_ceiling() {
    for (ceiling, least, right) in [(300, 50, true), (20, 20, true), (20, 50, false)] {
        let mut trader = Trader::new(TradingPolicy { max_slippage_bps: ceiling, ..limits() });
        let trade = Trade { max_slippage_bps: None, ..buy(40) };
        trader.starts(&trade, fair_output(40), "one");
        let approve = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&approve);
        let swap = trader.swap_tx(&trade, floor_of(fair_output(40), least));
        let judged = trader.driver.auditor.observe(&signs(&swap));
        assert_eq!(judged.is_ok(), right, "{ceiling} {least}");
    }
}

#[test]
fn best_route_commits_to_the_best_quote_of_a_block() {
    for (out, right) in [(fair_output(40), true), (fair_output(40) / 100 * 99, false)] {
        let mut trader = Trader::new(limits());
        let trade = Trade { pool: Route::Best, ..buy(40) };
        let ask = trader.ask(&trade);
        let ticket = trader.open_call(&ask);
        let worse = Quoted {
            hops: vec![Hop { pool: Pool::V3 { fee: 3000 }, token_out: WETH.into() }],
            ..trader.quote(&trade, fair_output(40) / 100 * 99)
        };
        trader.accepts(Observation::Quoted(Box::new(worse)));
        let best = trader.quote(&trade, fair_output(40));
        trader.market(&trade, best);
        trader.answers(ticket, "one", TradeState::Executing);
        let approve = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&approve);
        let swap = trader.swap_tx(&trade, floor_of(out, 50));
        assert_eq!(trader.driver.auditor.observe(&signs(&swap)).is_ok(), right);
    }
}

#[test]
fn auditor_rejects_a_trade_beyond_the_daily_volume() {
    // Of 300 dollars, 150 + 100 are held: 50 more fit, 51 do not.
    for (dollars, fits) in [(50, true), (51, false)] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        trader.holds(&buy(100), fair_output(100), "two");
        let ticket = trader.opens(&buy(dollars), fair_output(dollars));
        let answer = answered_observation(ticket, "three", TradeState::Executing);
        if fits {
            trader.accepts(answer);
        } else {
            trader.rejects("volume", answer);
        }
    }
}

#[test]
fn auditor_rejects_a_volume_refusal_that_fits() {
    for (dollars, right) in [(50, false), (51, true)] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        trader.holds(&buy(100), fair_output(100), "two");
        let ticket = trader.opens(&buy(dollars), fair_output(dollars));
        let answer = answered_observation(ticket, "three", refused_for("EXCEEDS_DAILY_VOLUME"));
        if right {
            trader.accepts(answer);
        } else {
            trader.rejects("volume", answer);
        }
    }
}

#[test]
fn volume_returns_after_denial_and_expiry_but_not_after_success() {
    // Two held trades leave no room for another 100 dollars; denying one of them does.
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.holds(&buy(150), fair_output(150), "two");
    let end = End::Decided { status: "denied".into() };
    trader.driver.order(Order::Deny { id: "one".into() }, end);
    trader.polls("one", rejected_as(None));
    trader.holds(&buy(150), fair_output(150), "three");
    let ticket = trader.opens(&buy(1), fair_output(1));
    trader.rejects("volume", answered_observation(ticket, "four", TradeState::Executing));

    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.holds(&buy(150), fair_output(150), "two");
    trader.driver.advance_ms(900_000);
    trader.polls("one", rejected_as(None));
    trader.polls("two", rejected_as(None));
    let ticket = trader.opens(&buy(150), fair_output(150));
    let refused = refused_for("EXCEEDS_DAILY_VOLUME");
    trader.rejects("volume", answered_observation(ticket, "three", refused));

    let mut trader = Trader::new(limits());
    for id in ["one", "two", "three"] {
        let swap = trader.swaps(&buy(90), fair_output(90), id, fair_output(90));
        trader.polls(id, executed_state(&swap, None));
    }
    let ticket = trader.opens(&buy(90), fair_output(90));
    trader.rejects("volume", answered_observation(ticket, "four", TradeState::Executing));
}

#[test]
fn volume_returns_after_a_revert_but_not_after_a_displacement() {
    for displaced in [false, true] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(110), fair_output(110), "other");
        let trade = buy(95);
        trader.starts(&trade, fair_output(95), "one");
        let approve = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&approve);
        let swap = trader.swap_tx(&trade, floor_of(fair_output(95), 50));
        trader.accepts(signs(&swap));
        trader.accepts(Observation::Broadcast(swap.clone()));
        if displaced {
            let (chain, from, nonce) = (BASE, MAIN.into(), swap.nonce);
            trader.accepts(Observation::NonceTaken { chain, from, nonce });
        } else {
            trader.includes(&swap, false, vec![]);
            trader.blocks(2);
        }
        trader.polls("one", FAILED);
        let ticket = trader.opens(&buy(150), fair_output(150));
        if displaced {
            trader.rejects("volume", answered_observation(ticket, "two", TradeState::Pending));
        } else {
            let refused = refused_for("EXCEEDS_DAILY_VOLUME");
            trader.rejects("volume", answered_observation(ticket, "two", refused));
        }
    }
}

#[test]
fn volume_renews_at_midnight() {
    let mut trader = Trader::new(limits());
    for id in ["one", "two", "three"] {
        let swap = trader.swaps(&buy(90), fair_output(90), id, fair_output(90));
        trader.polls(id, executed_state(&swap, None));
    }
    trader.driver.advance_ms(12 * 3_600_000);
    let ticket = trader.opens(&buy(150), fair_output(150));
    trader.accepts(answered_observation(ticket, "four", TradeState::Pending));
    let ticket = trader.opens(&buy(151), fair_output(151));
    trader.rejects("volume", answered_observation(ticket, "five", TradeState::Pending));
}

#[test]
fn unknown_value_takes_the_maximum_of_one_trade() {
    let mut trader = Trader::new(limits());
    let trade = Trade { token_in: SHARE.into(), ..buy(1) };
    trader.holds(&trade, 7, "one");
    // Of 300 dollars, 200 are reserved.
    let ticket = trader.opens(&buy(101), fair_output(101));
    trader.rejects("volume", answered_observation(ticket, "two", TradeState::Pending));
    let mut trader = Trader::new(limits());
    trader.holds(&trade, 7, "one");
    let ticket = trader.opens(&buy(100), fair_output(100));
    trader.accepts(answered_observation(ticket, "two", TradeState::Pending));
}

#[test]
fn volume_returns_after_a_moved_price_and_our_own_cancellation() {
    for cancelled in [false, true] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(110), fair_output(110), "other");
        trader.holds(&buy(100), fair_output(100), "one");
        if cancelled {
            trader.approves(&buy(100), "one", Some(fair_output(100)));
            let approve = trader.approve_tx(COIN, V3_ROUTER, buy(100).amount_in);
            trader.sends(&approve);
            let swap = trader.swap_tx(&buy(100), floor_of(fair_output(100), 50));
            trader.accepts(signs(&swap));
            trader.accepts(Observation::Broadcast(swap.clone()));
            let (to, data, hash) = (MAIN.into(), String::new(), "0xcancel".to_owned());
            let cancel = Transaction { to, data, hash: hash.clone(), ..swap };
            trader.accepts(signs(&cancel));
            trader.accepts(Observation::Broadcast(cancel));
            trader.accepts(Observation::Mined { chain: BASE, hash, succeeded: true });
            trader.polls("one", FAILED);
        } else {
            trader.approves(&buy(100), "one", Some(fair_output(90)));
            trader.polls("one", rejected_as(Some("PRICE_MOVED")));
        }
        let ticket = trader.opens(&buy(150), fair_output(150));
        let refused = refused_for("EXCEEDS_DAILY_VOLUME");
        trader.rejects("volume", answered_observation(ticket, "two", refused));
    }
}

#[test]
fn open_reservations_move_into_the_new_allowance() {
    let mut trader = Trader::new(limits());
    trader.driver.advance_ms(12 * 3_600_000 - 60_000);
    trader.holds(&buy(200), fair_output(200), "one");
    // Midnight passes in several steps while the trade is held.
    for _ in 0..4 {
        trader.driver.advance_ms(60_000);
    }
    let ticket = trader.opens(&buy(101), fair_output(101));
    trader.rejects("volume", answered_observation(ticket, "two", TradeState::Pending));

    // Volume spent before midnight does not count after it.
    let mut trader = Trader::new(limits());
    trader.driver.advance_ms(12 * 3_600_000 - 60_000);
    for id in ["one", "two"] {
        let swap = trader.swaps(&buy(90), fair_output(90), id, fair_output(90));
        trader.polls(id, executed_state(&swap, None));
    }
    for _ in 0..4 {
        trader.driver.advance_ms(60_000);
    }
    trader.holds(&buy(200), fair_output(200), "three");
    for _ in 0..4 {
        trader.driver.advance_ms(60_000);
    }
    let swap = trader.swaps(&buy(90), fair_output(90), "four", fair_output(90));
    trader.polls("four", executed_state(&swap, None));
    trader.driver.advance_ms(60_000);
    let ticket = trader.opens(&buy(11), fair_output(11));
    trader.rejects("volume", answered_observation(ticket, "five", TradeState::Executing));
}

#[test]
fn auditor_rejects_two_concurrent_trades_that_exceed_the_volume_together() {
    let mut trader = Trader::new(TradingPolicy { daily: 150_000_000, ..limits() });
    let (one, two) = (trader.ask(&buy(90)), trader.ask(&buy(80)));
    let (first, second) = (trader.open_call(&one), trader.open_call(&two));
    for dollars in [90, 80] {
        let quoted = trader.quote(&buy(dollars), fair_output(dollars));
        trader.market(&buy(dollars), quoted);
    }
    let swap = |trader: &mut Trader, dollars| {
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(dollars).amount_in);
        trader.sends(&tx);
        trader.swap_tx(&buy(dollars), floor_of(fair_output(dollars), 50))
    };
    let tx = swap(&mut trader, 90);
    trader.sends(&tx);
    // Only one of the two trades fits, so the wallet may still refuse the second.
    trader.answers(second, "two", refused_for("EXCEEDS_DAILY_VOLUME"));
    trader.answers(first, "one", TradeState::Executing);

    let mut trader = Trader::new(TradingPolicy { daily: 150_000_000, ..limits() });
    let (first, second) = (trader.open_call(&one), trader.open_call(&two));
    for dollars in [90, 80] {
        let quoted = trader.quote(&buy(dollars), fair_output(dollars));
        trader.market(&buy(dollars), quoted);
    }
    trader.answers(first, "one", TradeState::Executing);
    let tx = swap(&mut trader, 90);
    trader.sends(&tx);
    trader.answers(second, "two", TradeState::Executing);
    let tx = swap(&mut trader, 80);
    trader.rejects("volume", signs(&tx));
}
