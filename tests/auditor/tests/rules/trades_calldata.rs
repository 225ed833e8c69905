//! Trades: call data, deadlines and permits.

use bursar_auditor::observations::*;

use crate::common::encode::{self, V4Swap};
use crate::common::trading::*;
use crate::common::{BASE, COIN, MAIN, SHOP};

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

/// Signs this call instead of the swap of an approved trade, after the allowance is mined.
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
    let (trade, least) = (buy(150), floor_of(fair_output(150), 50));
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
    let (trade, least) = (buy(150), floor_of(fair_output(150), 50));
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
    let swap = trader.swap_tx(&trade, floor_of(fair_output(150), 50));
    trader.rejects("deadline", signs(&swap));

    for (own, right) in [(60, false), (DEADLINE_S, true)] {
        let mut trader = Trader::new(limits());
        let trade = Trade { deadline_s: Some(trader.time_s() + own), ..buy(40) };
        trader.starts(&trade, fair_output(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let swap = trader.swap_tx(&trade, floor_of(fair_output(40), 50));
        if right {
            trader.accepts(signs(&swap));
        } else {
            trader.rejects("deadline", signs(&swap));
        }
    }
}

/// Returns floor(least × 10^36 / amount) as a word.
fn hop_price(least: u128, amount: u128) -> String {
    // Long division by decimal digits appends 36 zeros one by one.
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

/// The parts of a v4 swap that a test changes.
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

/// Signs a v4 swap that sells dollars with a permit.
fn v4_signed(change: Change) -> Result<(), String> {
    let mut trader = Trader::new(limits());
    let trade = Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) };
    trader.starts(&trade, fair_output(40), "one");
    let tx = trader.approve_tx(COIN, PERMIT2, trade.amount_in);
    trader.sends(&tx);
    let end_s = trader.time_s() + DEADLINE_S;
    let least = floor_of(fair_output(40), 50);
    let price = hop_price(least, trade.amount_in);
    let swap = V4Swap {
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
    // The swap must not fail if another account sends the permit first.
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
        trader.starts(&Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) }, fair_output(40), "one");
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
            let v4 = V4Swap {
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
        trader.starts(&trade, fair_output(40), "one");
        let tx = trader.approve_tx(COIN, V3_ROUTER, trade.amount_in);
        trader.sends(&tx);
        let least = floor_of(fair_output(40), 50);
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
            let ticket = trader.open_call(&ask);
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
