//! Texts and actions for the operator: the calls of a plan in words, its progress, and revocations.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Bps, TokenAmount, Usd};
use bursar_core::networks::{self, Exchange};
use bursar_domain::assess::{Verdict, rehearsal};
use bursar_domain::outboxes::Send;
use bursar_domain::plan::StepPurpose;
use bursar_domain::trades::{TradeAsk, TradeQuote};
use bursar_domain::{Action, plan_text};
use bursar_submit::Call;
use bursar_uniswap::{Decoded, swap};

use crate::support::{OPERATOR, build};
use crate::trades::bench::{Bench, Fate, ROBINHOOD, policy, quote, trade};

fn exchange() -> &'static Exchange {
    build::base().exchange.expect("an exchange")
}

/// The plan of [`trade`]: approval and swap.
fn calls(trade: &TradeAsk) -> Vec<Decoded> {
    let (token, router) = (trade.token_in.address.expect("a token"), exchange().v3.router);
    let amount = trade.amount_in.0;
    vec![
        Decoded::Approve { token, spender: router, amount },
        Decoded::Swap {
            router,
            token_in: token,
            token_out: exchange().wrapped_native,
            amount_in: amount,
            min_out: U256::from(9_900_000_000_000_000u64),
            until: trade.quote.block_time + 120,
        },
    ]
}

fn planned_trade(micros: u64) -> TradeAsk {
    let mut trade = trade(micros);
    trade.quote.calls = calls(&trade);
    trade.quote.received = Some(Atoms(U256::from(10_000_000_000_000_000u64)));
    trade
}

#[test]
fn a_plan_is_described_by_its_decoded_calls() {
    let mut trade = planned_trade(30_000_000);
    let described = |trade: &TradeAsk| plan_text::calls(trade, &trade.quote);
    assert_eq!(
        described(&trade),
        [
            "approve exactly 30.000000 USDC for SwapRouter02",
            "swap exactly 30.000000 USDC for at least 0.0099 WETH through SwapRouter02, within 120 s",
        ]
    );
    // A pool of v3 pays the wrapped coin, which the router unwraps.
    trade.token_out.address = None;
    trade.token_out.symbol = "ETH".to_owned();
    assert!(described(&trade)[1].contains("for at least 0.0099 ETH through"));
    let (token, amount) = (trade.token_in.address.expect("a token"), trade.amount_in.0);
    let (spender, stranger) = (exchange().v4.router, Address::repeat_byte(0x99));
    trade.quote.calls = vec![
        Decoded::Approve { token, spender: exchange().permit2, amount: U256::ZERO },
        Decoded::Permit { token, spender, amount, until: 60 },
        Decoded::Wrap { amount: U256::from(1_500_000_000_000_000_000u64) },
        Decoded::Approve { token: stranger, spender: stranger, amount },
        Decoded::Unknown { to: stranger },
    ];
    let stranger = stranger.to_checksum(None);
    assert_eq!(
        described(&trade),
        [
            "take back the approval of USDC for Permit2".to_owned(),
            "sign a Permit2 permit of exactly 30.000000 USDC for the Universal Router, to use within 60 s"
                .to_owned(),
            "wrap exactly 1.5 ETH".to_owned(),
            format!("approve exactly 30000000 units of {stranger} for {stranger}"),
            format!("UNKNOWN call of {stranger}"),
        ]
    );
    assert_eq!(plan_text::transactions(&trade.quote), 4, "a permit is no transaction");
}

/// Each quote describes only the remaining calls of a plan, so the steps are counted from steps and quote together.
#[test]
fn a_running_plan_shows_its_step() {
    let mut bench = Bench::new();
    let id = bench.starts(0, planned_trade(40_000_000));
    let shown = |bench: &Bench| plan_text::progress(bench.execution(id));
    assert_eq!(shown(&bench).as_deref(), Some("1/2 token approval"));
    bench.opens(id, StepPurpose::Allowance);
    assert_eq!(shown(&bench).as_deref(), Some("1/2 token approval"));
    bench.finish(id, Fate::Succeeded);
    assert_eq!(shown(&bench).as_deref(), Some("2/2 swap"));
    // The quote of the swap no longer contains the approval.
    let mut order = bench.step(id, StepPurpose::Swap);
    let mut quote = order.quote.trade().unwrap().clone();
    quote.calls.remove(0);
    order.quote = quote.into();
    bench.order(order).expect("the order is not refused");
    assert_eq!(shown(&bench).as_deref(), Some("2/2 swap"));
    bench.finish(id, Fate::Reverted);
    assert_eq!(shown(&bench).as_deref(), Some("revocation of the token approval"));
    bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
    assert_eq!(shown(&bench), None);
}

#[test]
fn an_entry_of_the_journal_names_its_step() {
    let quote = TradeQuote { calls: calls(&trade(1)), ..quote(1) };
    let text = |purpose, before| plan_text::step_text(purpose, before, &quote.clone().into());
    assert_eq!(text(StepPurpose::Allowance, 0), "1/2 token approval");
    assert_eq!(text(StepPurpose::Allowance, 1), "2/3 token approval");
    assert_eq!(text(StepPurpose::Swap, 1), "2/2 swap");
    assert_eq!(text(StepPurpose::Revocation, 2), "revocation of the token approval");
}

#[test]
fn the_card_shows_effects_and_calls_and_its_digest_does_not_cover_them() {
    let mut bench = Bench::new();
    let with = bench.holds(0, planned_trade(60_000_000));
    let card = bench.world.card(with).expect("a card");
    let shown = card.trade.as_ref().expect("a trade");
    assert_eq!(shown.received.as_deref(), Some("0.01 WETH"));
    assert_eq!((shown.transactions, shown.calls.len()), (2, 2));
    let without = bench.holds(0, trade(60_000_000));
    let other = bench.world.card(without).expect("a card");
    assert!(other.trade.as_ref().is_some_and(|trade| trade.calls.is_empty()));
    assert_eq!(card.digest, other.digest, "quotes are not terms");
}

/// Anyone can issue a token with the symbol of another one.
#[test]
fn the_card_warns_of_tokens_that_are_not_known() {
    let mut bench = Bench::new();
    let mut note = |symbol: &str, address| {
        let mut trade = trade(60_000_000);
        trade.token_out.symbol = symbol.to_owned();
        trade.token_out.address = Some(address);
        let id = bench.holds(0, trade);
        let card = bench.world.card(id).expect("a card");
        let shown = card.trade.expect("a trade");
        assert_eq!(shown.token_in_note, None);
        shown.token_out_note
    };
    let stranger = Address::repeat_byte(0x99);
    assert_eq!(note("WETH", exchange().wrapped_native), None);
    assert_eq!(note("WETH", stranger).as_deref(), Some("NOT the known WETH"));
    assert_eq!(note("usdc ", stranger).as_deref(), Some("NOT the known USDC"));
    let unknown = "NOT KNOWN to Bursar: its symbol proves nothing";
    assert_eq!(note("NVDA", stranger).as_deref(), Some(unknown));
}

/// A send of the operator that revokes an allowance.
fn revocation(n: u8, signer: &str, token: Address, spender: Address) -> Send {
    let call = swap::approve(token, spender, U256::ZERO);
    Send {
        id: RequestId::from_entropy([n; 16]),
        label: signer.parse().expect("a name"),
        from: build::address(signer),
        chain: crate::trades::bench::BASE,
        token: Some(token),
        symbol: "USDC".to_owned(),
        to: spender,
        amount: TokenAmount { atoms: Atoms(U256::ZERO), decimals: 6 },
        call: Call { to: call.to, value: call.value, data: call.data, gas_limit: 60_000 },
        gas_price_max: 1_000,
        by: OPERATOR,
    }
}

#[test]
fn an_allowance_that_a_running_plan_uses_is_not_taken_back() {
    let mut bench = Bench::new();
    let dollar = build::base().stablecoin.address;
    let (router, weth) = (exchange().v3.router, exchange().wrapped_native);
    let id = bench.starts(0, planned_trade(40_000_000));
    let revoke = |bench: &mut Bench, n, signer, token| {
        let send = revocation(n, signer, token, router);
        assert_eq!(send.revoked_token(), Some(token));
        bench.world.run(Action::Send(Box::new(send))).map(drop).map_err(|refusal| refusal.code)
    };
    assert_eq!(revoke(&mut bench, 1, "main", dollar), Err(Code::Busy));
    bench.opens(id, StepPurpose::Allowance);
    assert_eq!(revoke(&mut bench, 2, "main", dollar), Err(Code::Busy));
    // Other tokens and other addresses are independent.
    assert_eq!(revoke(&mut bench, 3, "main", weth), Ok(()));
    assert_eq!(revoke(&mut bench, 4, "spare", dollar), Ok(()));
    bench.finish(id, Fate::Succeeded);
    assert_eq!(revoke(&mut bench, 5, "main", dollar), Err(Code::Busy));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    assert_eq!(revoke(&mut bench, 6, "main", dollar), Err(Code::Busy));
    bench.end_executed(id);
    assert_eq!(revoke(&mut bench, 7, "main", dollar), Ok(()));
}

#[test]
fn a_revocation_is_shown_as_one_and_a_transfer_is_not() {
    let token = build::base().stablecoin.address;
    let send = revocation(1, "main", token, exchange().permit2);
    assert_eq!(send.amount_text(), "the allowance of USDC");
    let data = swap::approve(token, exchange().permit2, U256::from(1)).data;
    let gives = Send { call: Call { data, ..send.call.clone() }, ..send.clone() };
    assert_eq!(gives.revoked_token(), None);
    let pays = Send { call: Call { data: Default::default(), ..send.call.clone() }, ..send };
    assert_eq!(pays.revoked_token(), None);
}

/// `policy test` gives a trade the verdict that the same trade by an agent gets.
#[test]
fn a_rehearsed_trade_meets_the_rules_of_a_real_one() {
    let mut bench = Bench::new();
    let state = bench.world.state.clone();
    let moment = bench.world.now();
    let rehearsed = |dollars, slippage, impact| {
        let ask = rehearsal::plain_trade(build::base(), Usd::dollars(dollars), slippage, impact);
        let ask = ask.expect("an exchange");
        let promised = rehearsal::NO_COMMITMENTS;
        rehearsal::rehearse_trade(&state, &policy(), &ask, promised, &moment, true)
    };
    let code = |verdict| match verdict {
        Verdict::Refuse(refusal) => refusal.code,
        other => panic!("{other:?}"),
    };
    let (slippage, impact) = (Bps(50), Bps(30));
    assert_eq!(rehearsed(49, slippage, impact), Verdict::Act);
    assert_eq!(rehearsed(50, slippage, impact), Verdict::Hold(HoldReason::AboveThreshold));
    assert_eq!(rehearsed(49, slippage, Bps(501)), Verdict::Hold(HoldReason::ImpactAboveCeiling));
    assert_eq!(code(rehearsed(49, Bps(301), impact)), Code::ExceedsMaxSlippage);
    assert_eq!(code(rehearsed(101, slippage, impact)), Code::ExceedsPerTradeMax);
    bench.starts(0, trade(49_000_000));
    bench.holds(0, trade(50_000_000));
    // On a network without an exchange there are no trades.
    let ethereum = networks::by_id_name_or_title("base-sepolia").expect("a network");
    assert_eq!(rehearsal::plain_trade(ethereum, Usd::dollars(1), slippage, impact), None);
    assert!(networks::by_chain(ROBINHOOD).is_some_and(|one| one.exchange.is_some()));
}
