//! Trades: sequences that the specification allows although they look like violations.

use bursar_auditor::observations::*;

use crate::common::trading::*;
use crate::common::{BASE, COIN, refusal};

#[test]
fn own_deadline_may_pass_after_the_decision() {
    let mut trader = Trader::new(limits());
    let trade = Trade { deadline_s: Some(trader.time_s() + 10), ..buy(40) };
    let ticket = trader.opens(&trade, fair_output(40));
    trader.driver.advance_ms(20_000);
    trader.head();
    trader.answers(ticket, "one", TradeState::Executing);
    trader.polls("one", rejected_as(None));
}

#[test]
fn swap_may_follow_a_receipt_that_was_just_undone() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    trader.accepts(Observation::Unmined { chain: BASE, hash: tx.hash });
    trader.driver.advance_ms(15_000);
    trader.head();
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(signs(&swap));
}

#[test]
fn rehearsal_before_the_swap_may_fail_while_the_call_is_open() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair_output(40));
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    trader.show_rehearsal(&buy(40), Rehearsal::Failed);
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
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.balance(COIN, 0);
    trader.answers(ticket, "one", TradeState::Executing);
    // The balance of one call does not make the refusal of another wrong either.
    let ticket = trader.opens(&buy(30), fair_output(30));
    trader.balance(COIN, 0);
    trader.answers(ticket, "two", refused_for("INSUFFICIENT_BALANCE"));
}

#[test]
fn call_may_be_refused_for_an_unreachable_node() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.accepts(Observation::Read(Read::Failed { chain: BASE }));
    trader.answers(ticket, "one", refused_for("NODE_UNREACHABLE"));
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(40));
    let ticket = trader.open_call(&ask);
    trader.answers(ticket, "one", rejected_as(Some("REQUOTE_FAILED")));
    let ticket = trader.open_call(&ask);
    trader.answers(ticket, "one", rejected_as(Some("REQUOTE_FAILED")));
    let ticket = trader.open_call(&ask);
    let changed = answered_observation(ticket, "one", rejected_as(Some("OTHER")));
    trader.rejects("same ask, same answer", changed);
}

#[test]
fn allowance_of_an_interrupted_plan_may_remain() {
    for freeze in [false, true] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair_output(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
        trader.sends(&tx);
        if freeze {
            trader.order(Order::Freeze);
            trader.order(Order::Thaw { right: true });
        } else {
            trader.driver.advance_ms(300_001);
        }
        trader.polls("one", rejected_as(None));
        trader.starts(&buy(50), fair_output(50), "two");
        let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
        trader.accepts(signs(&other));
    }
}

#[test]
fn allowances_may_be_revoked_while_agents_are_frozen() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
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
    let ticket = trader.open_call(&ask);
    let quoted = trader.quote(&buy(150), fair_output(150));
    trader.market(&buy(150), quoted);
    trader.accepts(Observation::DiskFailed);
    trader.answers(ticket, "one", failed());
    trader.driver.restart();
    trader.polls("one", TradeState::Pending);
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(150), fair_output(150));
    trader.rejects("disk", answered_observation(ticket, "one", failed()));
}

#[test]
fn rate_limit_may_answer_any_call() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    let ask = trader.ask(&buy(40));
    let limited = refusal(429, "RATE_LIMIT_EXCEEDED", None);
    trader.driver.call(Call::Trade(Box::new(ask)), limited.clone());
    trader.driver.call(Call::PollTrade { id: "one".into() }, limited);
}

#[test]
fn slow_signer_may_finish_after_the_reported_end() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair_output(150), "one");
    trader.approves(&buy(150), "one", Some(fair_output(150)));
    trader.polls("one", rejected_as(Some("PLAN_EXPIRED")));
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
    trader.accepts(signs(&tx));
    // The next plan may use the nonce of the expired plan.
    trader.starts(&buy(50), fair_output(50), "two");
    let next = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
    let next = Transaction { nonce: tx.nonce, ..next };
    trader.accepts(signs(&next));
    trader.rejects("T-53", Observation::Broadcast(tx));
}

#[test]
fn automatic_trade_is_judged_when_it_is_decided() {
    // The answer comes an hour later, when the swap is final.
    let mut trader = Trader::new(limits());
    let trade = Trade { deadline_s: Some(trader.time_s() + 300), ..sell(COIN_WEI / 50) };
    let ticket = trader.opens(&trade, 49_975_000);
    let swap = trader.executes(&trade, 49_975_000, 49_975_000);
    trader.driver.advance_ms(3_600_000);
    trader.price(9000, 2000);
    trader.head();
    trader.answers(ticket, "one", executed_state(&swap, Some(49_975_000)));
}

#[test]
fn uncertain_price_may_hold_what_is_above_the_maximum() {
    // At 3,000 dollars, 0.1 coins are worth 300 dollars. The feed is 10 % lower.
    let mut trader = Trader::new(limits());
    trader.price(3000, 3000);
    let trade = sell(COIN_WEI / 10);
    let ask = trader.ask(&trade);
    let ticket = trader.open_call(&ask);
    trader.price(3000, 2700);
    let quoted = trader.quote(&trade, 290_000_000);
    trader.unpriced_market(&trade, quoted);
    trader.answers(ticket, "one", TradeState::Pending);
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&sell(COIN_WEI / 10), 240_000_000);
    trader.rejects("refusals", answered_observation(ticket, "one", TradeState::Pending));
}

#[test]
fn floor_belongs_to_the_route_that_is_signed() {
    for (least, right) in [(floor_of(fair_output(40) - 100, 50), true), (fair_output(39), false)] {
        let mut trader = Trader::new(limits());
        let trade = Trade { pool: Route::Best, ..buy(40) };
        let ask = trader.ask(&trade);
        let ticket = trader.open_call(&ask);
        // This route has a higher output, but its gas costs more than the difference.
        let dear = Quoted {
            hops: vec![Hop { pool: v4(NATIVE), token_out: WETH.into() }],
            ..trader.quote(&trade, fair_output(40))
        };
        trader.accepts(Observation::Quoted(Box::new(dear)));
        let cheap = trader.quote(&trade, fair_output(40) - 100);
        trader.market(&trade, cheap);
        trader.answers(ticket, "one", TradeState::Executing);
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let swap = trader.swap_tx(&trade, least);
        if right {
            trader.accepts(signs(&swap));
        } else {
            trader.rejects("floor", signs(&swap));
        }
    }
}

#[test]
fn bearer_repeat_of_a_failed_trade_is_a_new_ask_or_the_earlier_answer() {
    for again in [true, false] {
        let mut trader = Trader::new(limits());
        let ask = TradeAsk {
            agent: "BBB111".into(),
            proof: Proof::Bearer { is_valid: true },
            idempotency_key: Some("key".into()),
            ..trader.ask(&buy(150))
        };
        let mut ticket = trader.open_call(&ask);
        let quoted = trader.quote(&buy(150), fair_output(150));
        trader.market(&buy(150), quoted);
        trader.answers(ticket, "one", TradeState::Pending);
        trader
            .driver
            .order(crate::common::approve("one"), crate::common::refuses("POLICY_REJECTED"));
        trader.polls("one", rejected_as(Some("POLICY_REJECTED")));
        ticket = trader.open_call(&ask);
        let quoted = trader.quote(&buy(150), fair_output(150));
        trader.market(&buy(150), quoted);
        if again {
            trader.answers(ticket, "two", TradeState::Pending);
            trader.polls("two", TradeState::Pending);
        } else {
            trader.answers(ticket, "one", rejected_as(Some("POLICY_REJECTED")));
        }
        trader.polls("one", rejected_as(Some("POLICY_REJECTED")));
    }
}

#[test]
fn refusal_without_an_id_is_not_remembered() {
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(40));
    for reason in ["WOULD_FAIL", "NO_LIQUIDITY"] {
        let ticket = trader.open_call(&ask);
        let state = refused_for(reason);
        let answer = Answer::Trade(TradeAnswer { id: None, state });
        trader.accepts(Observation::Answered { ticket, answer });
    }
    let ticket = trader.open_call(&ask);
    let quoted = trader.quote(&buy(40), fair_output(40));
    trader.market(&buy(40), quoted);
    trader.answers(ticket, "one", TradeState::Executing);
    // The wallet remembers the call once its request has an id.
    let ticket = trader.open_call(&ask);
    trader.rejects(
        "same ask, same answer",
        answered_observation(ticket, "two", TradeState::Executing),
    );
}

#[test]
fn calls_with_equal_terms_are_told_apart_by_their_answers() {
    let mut trader = Trader::new(limits());
    let (one, two) =
        (trader.opens(&buy(40), fair_output(40)), trader.opens(&buy(40), fair_output(40)));
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    let named = |tx: &Transaction| {
        let content = SignedContent::Transaction(Box::new(tx.clone()));
        let (signer, digest) = (tx.from.clone(), tx.hash.clone());
        Observation::Signed(Signed { signer, digest, request: Some("first".into()), content })
    };
    trader.accepts(named(&tx));
    trader.accepts(Observation::Broadcast(tx.clone()));
    trader.includes(&tx, true, vec![]);
    let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
    trader.accepts(named(&swap));
    trader.accepts(Observation::Broadcast(swap.clone()));
    trader.includes(&swap, true, vec![transfer(WETH, V3_ROUTER, crate::common::MAIN, 9)]);
    trader.blocks(2);
    trader.answers(two, "second", refused_for("TOO_BUSY"));
    trader.answers(one, "first", executed_state(&swap, Some(9)));
}

#[test]
fn revocation_that_was_never_sent_may_be_signed_for_the_next_plan() {
    let mut trader = Trader::new(limits());
    trader.starts(&buy(40), fair_output(40), "one");
    let tx = trader.approve_tx(COIN, V3_ROUTER, buy(40).amount_in);
    trader.sends(&tx);
    let revoke = trader.approve_tx(COIN, V3_ROUTER, 0);
    for id in ["one", "two"] {
        let content = SignedContent::Transaction(Box::new(revoke.clone()));
        let (signer, digest) = (revoke.from.clone(), "revocation".into());
        let request = Some(id.into());
        trader.accepts(Observation::Signed(Signed { signer, digest, request, content }));
    }
}

#[test]
fn allowances_from_before_may_remain_or_shrink() {
    for (left, right) in [(500, true), (400, true), (501, false)] {
        let mut trader = Trader::new(limits());
        let show = |trader: &mut Trader, amount: u128| {
            let (token, spender) = (COIN.into(), V3_ROUTER.into());
            let open = vec![OpenAllowance { token, spender, permit2: false, amount }];
            let (chain, block, owner) = (BASE, trader.block, crate::common::MAIN.into());
            trader.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
        };
        show(&mut trader, 500);
        let swap = trader.swaps(&buy(40), fair_output(40), "one", 7);
        trader.polls("one", executed_state(&swap, None));
        show(&mut trader, left);
        trader.accepts(Observation::Calm);
        trader.driver.advance_ms(600_000);
        if right {
            trader.accepts(Observation::Over);
        } else {
            trader.rejects("I-s", Observation::Over);
        }
    }
}

/// Another plan of the address, or another program, gave the allowance that remains.
#[test]
fn allowance_for_another_contract_is_not_that_of_the_plan() {
    for (spender, right) in [(PERMIT2, true), (V3_ROUTER, false)] {
        let mut trader = Trader::new(limits());
        let swap = trader.swaps(&buy(40), fair_output(40), "one", 7);
        trader.polls("one", executed_state(&swap, None));
        let (token, spender) = (COIN.into(), spender.into());
        let open = vec![OpenAllowance { token, spender, permit2: false, amount: 500 }];
        let (chain, block, owner) = (BASE, trader.block, crate::common::MAIN.into());
        trader.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
        trader.accepts(Observation::Calm);
        trader.driver.advance_ms(600_000);
        if right {
            trader.accepts(Observation::Over);
        } else {
            trader.rejects("I-s", Observation::Over);
        }
    }
}

/// The revocation reverts because the token is paused. The plan is over, another may follow, and the operator must
/// revoke.
#[test]
fn allowance_may_remain_once_its_revocation_is_reverted() {
    for (reverted, next) in [(true, false), (false, false), (true, true)] {
        let mut trader = Trader::new(limits());
        trader.starts(&buy(40), fair_output(40), "one");
        let amount = buy(40).amount_in;
        let approval = trader.approve_tx(COIN, V3_ROUTER, amount);
        trader.sends(&approval);
        let swap = trader.swap_tx(&buy(40), floor_of(fair_output(40), 50));
        trader.accepts(signs(&swap));
        trader.accepts(Observation::Broadcast(swap.clone()));
        trader.includes(&swap, false, vec![]);
        let revocation = trader.approve_tx(COIN, V3_ROUTER, 0);
        trader.accepts(signs(&revocation));
        trader.accepts(Observation::Broadcast(revocation.clone()));
        trader.includes(&revocation, !reverted, vec![]);
        let (token, spender) = (COIN.into(), V3_ROUTER.into());
        let open = vec![OpenAllowance { token, spender, permit2: false, amount }];
        let (chain, block, owner) = (BASE, trader.block, crate::common::MAIN.into());
        trader.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
        trader.blocks(2);
        trader.polls("one", FAILED);
        if next {
            trader.swaps(&buy(50), fair_output(50), "two", 7);
            continue;
        }
        trader.accepts(Observation::Calm);
        trader.driver.advance_ms(600_000);
        if reverted {
            trader.accepts(Observation::Over);
        } else {
            trader.rejects("I-s", Observation::Over);
        }
    }
}
