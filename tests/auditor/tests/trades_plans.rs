//! Trades: who may sign when, the order of a plan's steps, allowances, permits, and call data.

mod common;
use bursar_auditor::observations::*;
use common::encode::{self, V4};
use common::trading::*;
use common::{BASE, COIN, MAIN, SHOP, approve, refuses};

/// Plays a held trade up to its approval.
fn approved() -> (Trader, Trade) {
    let mut trader = Trader::new(limits());
    let trade = buy(150);
    trader.holds(&trade, fair(150), "one");
    trader.approves(&trade, "one", Some(fair(150)));
    (trader, trade)
}

/// Plays an approved trade up to its mined allowance. Returns its swap, which is not signed yet.
fn allowed() -> (Trader, Trade, Transaction) {
    let (mut trader, trade) = approved();
    let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
    trader.sends(&tx);
    let swap = trader.swap_tx(&trade, floor_of(fair(150), 50));
    (trader, trade, swap)
}

#[test]
fn auditor_rejects_a_step_while_frozen_locked_suspended_or_off() {
    let network = Order::SwitchNetwork { chain: BASE, on: false };
    for (order, rule) in [
        (Order::Freeze, "I-g"),
        (Order::LockWallet, "I-f"),
        (Order::Suspend { agent: "HHH111".into() }, "I-i"),
        (network, "I-i"),
    ] {
        let (mut trader, _, swap) = allowed();
        trader.order(order);
        trader.rejects(rule, signs(&swap));
    }
}

#[test]
fn auditor_rejects_a_step_that_a_thaw_unlock_resume_or_restart_revived() {
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
    let (mut trader, _, swap) = allowed();
    trader.driver.restart();
    trader.rejects("T-53", signs(&swap));
}

#[test]
fn auditor_accepts_a_step_while_a_freeze_is_open_or_a_thaw_precedes_the_approval() {
    let (mut trader, _, swap) = allowed();
    trader.driver.ordered(Order::Freeze);
    trader.accepts(signs(&swap));

    let mut trader = Trader::new(limits());
    let trade = buy(150);
    trader.holds(&trade, fair(150), "one");
    trader.order(Order::Freeze);
    trader.order(Order::Thaw { right: true });
    trader.approves(&trade, "one", Some(fair(150)));
    trader.executes(&trade, fair(150), fair(150));
}

#[test]
fn auditor_rejects_a_step_more_than_five_minutes_after_the_approval() {
    for (ms, right) in [(300_000, true), (300_001, false)] {
        let (mut trader, trade, _) = allowed();
        trader.driver.advance_ms(ms);
        trader.head();
        let swap = trader.swap_tx(&trade, floor_of(fair(150), 50));
        if right {
            trader.accepts(signs(&swap));
        } else {
            trader.rejects("T-53", signs(&swap));
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
    trader.holds(&buy(150), fair(150), "one");
    let swap = trader.swap_tx(&buy(150), floor_of(fair(150), 50));
    trader.rejects("approvals", signs(&swap));

    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair(150), "one");
    let end = End::Decided { status: "denied".into() };
    trader.driver.order(Order::Deny { id: "one".into() }, end);
    let swap = trader.swap_tx(&buy(150), floor_of(fair(150), 50));
    trader.rejects("approvals", signs(&swap));
}

#[test]
fn auditor_rejects_an_approval_at_exactly_fifteen_minutes() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair(150), "one");
    trader.driver.advance_ms(900_000);
    let ticket = trader.driver.ordered(approve("one"));
    let quoted = trader.quote(&buy(150), fair(150));
    trader.market(&buy(150), quoted);
    let end = End::Decided { status: "executing".into() };
    trader.rejects("I-e", Observation::OrderEnded { ticket, end });

    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair(150), "one");
    trader.driver.advance_ms(899_999);
    trader.approves(&buy(150), "one", Some(fair(150)));
}

#[test]
fn auditor_rejects_a_step_without_a_fresh_quote_or_below_the_committed_minimum() {
    for (fresh, right) in [
        (Some(fair(150)), true),
        (Some(floor_of(fair(150), 50)), true),
        (Some(floor_of(fair(150), 50) - 1), false),
        (None, false),
    ] {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair(150), "one");
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
    let swap = trader.swap_tx(&trade, floor_of(fair(150), 50));
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx.clone()));
    trader.rejects("plan order", signs(&swap));

    // It reverted, or a reorganization removed it.
    for unmined in [false, true] {
        let (mut trader, trade) = approved();
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.accepts(signs(&tx));
        trader.accepts(Observation::Broadcast(tx.clone()));
        trader.includes(&tx, unmined, vec![]);
        if unmined {
            trader.accepts(Observation::Unmined { chain: BASE, hash: tx.hash.clone() });
        }
        let swap = trader.swap_tx(&trade, floor_of(fair(150), 50));
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
    // A second one for the same trade.
    let (mut trader, _) = (approved().0, trade);
    let first = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
    trader.sends(&first);
    let second = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
    trader.rejects("allowance", signs(&second));
}

#[test]
fn auditor_rejects_two_plans_on_one_address() {
    let (mut trader, _, _) = allowed();
    trader.starts(&buy(50), fair(50), "two");
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
        trader.starts(&buy(50), fair(50), "two");
        let other = trader.approve_tx(COIN, V3_ROUTER, buy(50).amount_in);
        if revoked {
            // The swap reverted, so its allowance is still there.
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
    trader.starts(&buy(50), fair(50), "two");
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
    let again = trader.swap_tx(&trade, floor_of(fair(150), 50));
    trader.rejects("I-b", signs(&again));
    // The same nonce with another minimum.
    let (mut trader, trade, swap) = allowed();
    trader.accepts(signs(&swap));
    trader.nonce -= 1;
    let changed = trader.swap_tx(&trade, floor_of(fair(150), 50) + 1);
    trader.rejects("I-b", signs(&changed));
}

#[test]
fn auditor_rejects_a_second_trade_for_a_repeated_call() {
    let keyed = |ask: TradeAsk| TradeAsk {
        agent: "BBB111".into(),
        proof: Proof::Bearer { right: true },
        idempotency_key: Some("key".into()),
        ..ask
    };
    for bearer in [false, true] {
        let mut trader = Trader::new(limits());
        let hmac = trader.ask(&buy(40));
        let ask = if bearer { keyed(hmac) } else { hmac };
        for (id, right) in [("one", true), ("one", true), ("two", false)] {
            let ticket = trader.called(&ask);
            let quoted = trader.quote(&buy(40), fair(40));
            trader.market(&buy(40), quoted);
            let answer = answered(ticket, id, TradeState::Executing);
            if right {
                trader.accepts(answer);
            } else {
                trader.rejects("same ask, same answer", answer);
            }
        }
    }
    // A bearer agent's calls without a key are separate trades.
    let mut trader = Trader::new(limits());
    let ask = TradeAsk { idempotency_key: None, ..keyed(trader.ask(&buy(40))) };
    for id in ["one", "two"] {
        let ticket = trader.called(&ask);
        let quoted = trader.quote(&buy(40), fair(40));
        trader.market(&buy(40), quoted);
        trader.answers(ticket, id, TradeState::Executing);
    }
}

#[test]
fn auditor_rejects_one_key_for_two_contents() {
    let mut trader = Trader::new(limits());
    let keyed = |ask: TradeAsk| TradeAsk {
        agent: "BBB111".into(),
        proof: Proof::Bearer { right: true },
        idempotency_key: Some("key".into()),
        ..ask
    };
    let first = keyed(trader.ask(&buy(40)));
    let ticket = trader.called(&first);
    let quoted = trader.quote(&buy(40), fair(40));
    trader.market(&buy(40), quoted);
    trader.answers(ticket, "one", TradeState::Executing);
    let second = keyed(trader.ask(&buy(41)));
    let conflict = common::refusal(409, "IDEMPOTENCY_CONFLICT", None);
    trader.driver.call(Call::Trade(Box::new(second.clone())), conflict);
    let ticket = trader.called(&second);
    let quoted = trader.quote(&buy(41), fair(41));
    trader.market(&buy(41), quoted);
    let answer = answered(ticket, "two", TradeState::Executing);
    trader.rejects("same ask, same answer", answer);
}

/// Signs this call instead of the swap of an approved trade whose allowance is mined.
fn v3_signed(to: &str, value: u128, data: impl FnOnce(u64) -> String) -> Result<(), String> {
    let (mut trader, _, _) = allowed();
    let data = data(trader.time_s());
    let tx = trader.tx(to, value, data);
    let judged = trader.driver.auditor.observe(&signs(&tx));
    judged.map_err(|found| found.rule.to_owned())
}

#[test]
fn auditor_rejects_call_data_that_differs_from_the_request() {
    let bad = Err("call data".to_owned());
    let (trade, least) = (buy(150), floor_of(fair(150), 50));
    let call = |trade: Trade, to: &'static str, amount: u128| {
        move |now: u64| v3_call(&trade, to, amount, least, now + DEADLINE_S)
    };
    let amount = trade.amount_in;
    assert_eq!(v3_signed(V3_ROUTER, 0, call(trade.clone(), MAIN, amount)), Ok(()));
    assert_eq!(v3_signed(V3_ROUTER, 0, call(trade.clone(), SHOP, amount)), bad);
    assert_eq!(v3_signed(V3_ROUTER, 0, call(trade.clone(), MAIN, amount + 1)), bad);
    assert_eq!(v3_signed(V3_ROUTER, 0, call(trade.clone(), MAIN, amount - 1)), bad);
    assert_eq!(v3_signed(V3_ROUTER, 1, call(trade.clone(), MAIN, amount)), bad);
    assert_eq!(v3_signed(SHOP, 0, call(trade.clone(), MAIN, amount)), bad);
    let other = Trade { token_out: SHARE.into(), ..trade.clone() };
    assert_eq!(v3_signed(V3_ROUTER, 0, call(other, MAIN, amount)), bad);
    let tokens = (COIN, WETH);
    let fee = move |now: u64| {
        let inner = encode::exact_input_single(tokens, 3000, MAIN, amount, least);
        encode::multicall(now + DEADLINE_S, &[inner])
    };
    assert_eq!(v3_signed(V3_ROUTER, 0, fee), bad);
    let twice = move |now: u64| {
        let inner = encode::exact_input_single(tokens, 500, MAIN, amount, least);
        encode::multicall(now + DEADLINE_S, &[inner.clone(), inner])
    };
    assert_eq!(v3_signed(V3_ROUTER, 0, twice), bad);
    assert_eq!(v3_signed(SHOP, 7, |_| String::new()), bad);
    let steal = |_| format!("a9059cbb{}{}", encode::address(SHOP), encode::word(5));
    assert_eq!(v3_signed(COIN, 0, steal), bad);
}

#[test]
fn auditor_rejects_a_missing_or_late_deadline() {
    let bad = Err("deadline".to_owned());
    let (trade, least) = (buy(150), floor_of(fair(150), 50));
    let at = |more: u64| {
        let trade = trade.clone();
        v3_signed(V3_ROUTER, 0, move |now| {
            v3_call(&trade, MAIN, trade.amount_in, least, now + more)
        })
    };
    assert_eq!(at(DEADLINE_S), Ok(()));
    assert_eq!(at(DEADLINE_S + 1), bad);
    let (tokens, amount) = ((COIN, WETH), trade.amount_in);
    let none = move |_| encode::exact_input_single(tokens, 500, MAIN, amount, least);
    assert_eq!(v3_signed(V3_ROUTER, 0, none), bad);
}

#[test]
fn deadline_counts_by_the_chains_time_and_the_agents_own() {
    // The machine's clock is an hour ahead of the chain.
    let (mut trader, trade, _) = allowed();
    trader.driver.set_wall(START + 3_600_000);
    let swap = trader.swap_tx(&trade, floor_of(fair(150), 50));
    trader.rejects("deadline", signs(&swap));

    for (own, right) in [(60, false), (DEADLINE_S, true)] {
        let mut trader = Trader::new(limits());
        let trade = Trade { deadline_s: Some(trader.time_s() + own), ..buy(40) };
        trader.starts(&trade, fair(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let swap = trader.swap_tx(&trade, floor_of(fair(40), 50));
        if right {
            trader.accepts(signs(&swap));
        } else {
            trader.rejects("deadline", signs(&swap));
        }
    }
}

/// floor(least × 10^36 / amount) as a word.
fn hop_price(least: u128, amount: u128) -> String {
    // Long division by decimal digits: 36 zeros are appended one by one.
    let (mut digits, mut rest) = ((least / amount).to_string(), least % amount);
    for _ in 0..36 {
        rest *= 10;
        digits.push_str(&(rest / amount).to_string());
        rest %= amount;
    }
    let mut word = [0u8; 32];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in word.iter_mut().rev() {
            let sum = u16::from(*byte) * 10 + carry;
            (*byte, carry) = ((sum & 0xff) as u8, sum >> 8);
        }
    }
    word.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a test changes in a v4 swap.
struct Change {
    command: &'static str,
    hop_price: Option<String>,
    permit_amount: u128,
    expires_after: u64,
    spender: &'static str,
}

impl Default for Change {
    fn default() -> Self {
        let (command, spender) = ("8a10", V4_ROUTER);
        Self { command, hop_price: None, permit_amount: 40 * DOLLAR, expires_after: 0, spender }
    }
}

/// Signs a v4 swap of dollars with a permit.
fn v4_signed(change: Change) -> Result<(), String> {
    let mut trader = Trader::new(limits());
    let trade = Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) };
    trader.starts(&trade, fair(40), "one");
    let tx = trader.approve_tx(COIN, PERMIT2, trade.amount_in);
    trader.sends(&tx);
    let end_s = trader.time_s() + DEADLINE_S;
    let least = floor_of(fair(40), 50);
    let price = hop_price(least, trade.amount_in);
    let swap = V4 {
        currencies: (COIN, WETH),
        fee: 500,
        tick_spacing: 10,
        hooks: NATIVE,
        zero_for_one: true,
        amount: trade.amount_in,
        least,
        hop_price: Some(change.hop_price.unwrap_or(price)),
    };
    let expires_s = end_s + change.expires_after;
    let amount = change.permit_amount;
    let permit = encode::permit_input(COIN, amount, expires_s, change.spender, end_s);
    let data = encode::execute(change.command, &[permit, swap.input()], end_s);
    let tx = trader.tx(V4_ROUTER, 0, data);
    let judged = trader.driver.auditor.observe(&signs(&tx));
    judged.map_err(|found| found.rule.to_owned())
}

#[test]
fn auditor_rejects_a_permit_inside_a_swap_that_is_not_exact() {
    let bad = Err("permit".to_owned());
    assert_eq!(v4_signed(Change::default()), Ok(()));
    assert_eq!(v4_signed(Change { permit_amount: 40 * DOLLAR + 1, ..Change::default() }), bad);
    assert_eq!(v4_signed(Change { expires_after: 1, ..Change::default() }), bad);
    assert_eq!(v4_signed(Change { spender: SHOP, ..Change::default() }), bad);
    // Another account that sends the permit first must not stop the swap.
    assert_eq!(v4_signed(Change { command: "0a10", ..Change::default() }), bad);
}

#[test]
fn auditor_rejects_a_wrong_least_price_of_a_hop() {
    let bad = Err("call data".to_owned());
    let zero = Some(encode::word(0));
    assert_eq!(v4_signed(Change { hop_price: zero, ..Change::default() }), bad);
}

#[test]
fn auditor_rejects_a_signed_permit_that_is_not_exact() {
    let permit = |trader: &Trader| Permit {
        chain: BASE,
        token: COIN.into(),
        amount: 40 * DOLLAR,
        expiration_s: trader.time_s() + DEADLINE_S,
        nonce: 0,
        spender: V4_ROUTER.into(),
        deadline_s: trader.time_s() + DEADLINE_S,
    };
    let signed = |change: fn(Permit) -> Permit, freeze: bool| {
        let mut trader = Trader::new(limits());
        trader.starts(&Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) }, fair(40), "one");
        if freeze {
            trader.order(Order::Freeze);
        }
        let content = SignedContent::Permit(change(permit(&trader)));
        let (signer, digest) = (MAIN.into(), "permit".into());
        let signed = Observation::Signed(Signed { signer, digest, request: None, content });
        let judged = trader.driver.auditor.observe(&signed);
        judged.map_err(|found| found.rule.to_owned())
    };
    let bad = Err("permit".to_owned());
    assert_eq!(signed(|p| p, false), Ok(()));
    assert_eq!(signed(|p| p, true), Err("I-g".to_owned()));
    assert_eq!(signed(|p| Permit { amount: p.amount + 1, ..p }, false), bad);
    assert_eq!(signed(|p| Permit { spender: SHOP.into(), ..p }, false), bad);
    assert_eq!(signed(|p| Permit { token: WETH.into(), ..p }, false), bad);
    assert_eq!(signed(|p| Permit { expiration_s: p.expiration_s + 1, ..p }, false), bad);
    assert_eq!(signed(|p| Permit { deadline_s: p.deadline_s + 1, ..p }, false), bad);
}

#[test]
fn native_coins_are_attached_and_returned_exactly() {
    let sale = Trade { token_in: NATIVE.into(), ..sell(COIN_WEI / 50) };
    let swap = |value: u128, pool: Pool, data: &dyn Fn(u64) -> String| {
        let mut trader = Trader::new(limits());
        let trade = Trade { pool: Route::Pool(pool.clone()), ..sale.clone() };
        trader.starts(&trade, 49_975_000, "one");
        let to = if pool == v3() { V3_ROUTER } else { V4_ROUTER };
        let data = data(trader.time_s() + DEADLINE_S);
        let tx = trader.tx(to, value, data);
        let judged = trader.driver.auditor.observe(&signs(&tx));
        judged.map_err(|found| found.rule.to_owned())
    };
    let bad = Err("call data".to_owned());
    let (amount, least) = (sale.amount_in, floor_of(49_975_000, 50));
    let direct = |end_s| {
        let inner = encode::exact_input_single((WETH, COIN), 500, MAIN, amount, least);
        encode::multicall(end_s, &[inner])
    };
    assert_eq!(swap(amount, v3(), &direct), Ok(()));
    assert_eq!(swap(0, v3(), &direct), bad);
    let through = |sweep: Option<&'static str>| {
        move |end_s: u64| {
            let v4 = V4 {
                currencies: (NATIVE, COIN),
                fee: 500,
                tick_spacing: 10,
                hooks: NATIVE,
                zero_for_one: true,
                amount,
                least,
                hop_price: Some(hop_price(least, amount)),
            };
            let rest = |to| encode::address(NATIVE) + &encode::address(to) + &encode::word(0);
            match sweep {
                Some(to) => encode::execute("1004", &[v4.input(), rest(to)], end_s),
                None => encode::execute("10", &[v4.input()], end_s),
            }
        }
    };
    assert_eq!(swap(amount, v4(NATIVE), &through(Some(MAIN))), Ok(()));
    assert_eq!(swap(amount, v4(NATIVE), &through(Some(SHOP))), bad);
    assert_eq!(swap(amount, v4(NATIVE), &through(None)), bad);
}

#[test]
fn native_output_is_unwrapped_to_our_address() {
    let swap = |to: &'static str, owner: Option<&'static str>| {
        let mut trader = Trader::new(limits());
        let trade = Trade { token_out: NATIVE.into(), ..buy(40) };
        trader.starts(&trade, fair(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let least = floor_of(fair(40), 50);
        let mut calls =
            vec![encode::exact_input_single((COIN, WETH), 500, to, trade.amount_in, least)];
        calls.extend(owner.map(|owner| encode::unwrap_weth(least, owner)));
        let data = encode::multicall(trader.time_s() + DEADLINE_S, &calls);
        let tx = trader.tx(V3_ROUTER, 0, data);
        trader.driver.auditor.observe(&signs(&tx)).map_err(|found| found.rule.to_owned())
    };
    let router = "0x0000000000000000000000000000000000000002";
    let bad = Err("call data".to_owned());
    assert_eq!(swap(router, Some(MAIN)), Ok(()));
    assert_eq!(swap(V3_ROUTER, Some(MAIN)), Ok(()));
    assert_eq!(swap(router, Some(SHOP)), bad);
    assert_eq!(swap(router, None), bad);
    assert_eq!(swap(MAIN, None), bad);
}

#[test]
fn coins_are_wrapped_and_unwrapped_one_to_one() {
    for (trade, value, data) in [
        (
            Trade { token_in: NATIVE.into(), token_out: WETH.into(), ..sell(9) },
            9,
            "d0e30db0".into(),
        ),
        (
            Trade { token_in: WETH.into(), token_out: NATIVE.into(), ..sell(9) },
            0,
            format!("2e1a7d4d{}", encode::word(9)),
        ),
    ] {
        for more in [0, 1] {
            let mut trader = Trader::new(limits());
            let ask = trader.ask(&trade);
            let ticket = trader.called(&ask);
            trader.price(2500, 2500);
            trader.answers(ticket, "one", TradeState::Executing);
            let tx = trader.tx(WETH, value + more, data.clone());
            if more == 0 {
                trader.accepts(signs(&tx));
            } else {
                trader.rejects("call data", signs(&tx));
            }
        }
    }
}

#[test]
fn operators_may_send_while_trades_run() {
    let (mut trader, _, swap) = allowed();
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    let ticket = trader.driver.ordered(Order::Send(Box::new(send)));
    let tx = trader.tx(SHOP, 7, String::new());
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx.clone()));
    trader.accepts(Observation::OrderEnded { ticket, end: End::Sent { id: "s".into() } });
    trader.accepts(signs(&swap));
    // Neither may use the other's nonce.
    let (mut trader, _, swap) = allowed();
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    trader.driver.ordered(Order::Send(Box::new(send)));
    trader.nonce -= 1;
    let tx = trader.tx(SHOP, 7, String::new());
    trader.accepts(signs(&tx));
    trader.accepts(Observation::Broadcast(tx));
    trader.rejects("transactions", signs(&swap));
}

#[test]
fn locked_wallet_answers_and_refuses_orders_as_for_payments() {
    let mut trader = Trader::new(limits());
    trader.holds(&buy(150), fair(150), "one");
    trader.order(Order::LockWallet);
    trader.refuses(approve("one"), "WALLET_LOCKED");
    let ask = trader.ask(&buy(40));
    let failed = common::refusal(401, "AUTH_FAILED", None);
    trader.driver.call(Call::Trade(Box::new(ask)), failed);
    trader.polls("one", TradeState::Pending);
    let loose = Policy {
        trading: TradingPolicy { daily: 400_000_000, ..limits() },
        ..common::policy(100, 50, 20)
    };
    let edit = Order::EditPolicy { name: "p".into(), policy: loose };
    trader.driver.order(edit, refuses("WALLET_LOCKED"));
}
