//! Payments in tokens outside our table: the price counts against the limits, and any doubt about it holds the
//! payment.
//!
//! The signature uses only a domain that the token confirmed.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::networks::{self, ChainId};
use bursar_domain::assets::{
    AssetQuote, DOMAIN_TEXT_BYTES_MAX, DomainCheck, DomainText, ForeignAsset, Price, TokenText,
};
use bursar_domain::command::Requote;
use bursar_domain::trades::{TradeQuote, Venue};
use bursar_domain::{Action, Decision, PaymentAsk, Refusal, Status};
use bursar_x402::typed_data::TokenDomain;

use crate::support::{Answer, World, build};
use build::{ordinary_world, payment};

const TOKEN: Address = Address::repeat_byte(0x77);

/// The amount of every payment here: 2.5 units of a token with 18 decimals.
const AMOUNT: u64 = 2_500_000_000_000_000_000;

fn atoms(units: u64) -> Atoms {
    Atoms(U256::from(units))
}

/// A change of a price.
type Change = fn(&mut AssetQuote);

/// A price without any doubt.
///
/// The amount sells for a thousandth less, and ten times the amount costs ten times as much.
fn quote(cost: u64) -> AssetQuote {
    AssetQuote {
        at: bursar_core::time::Utc::from_seconds(1_768_478_400),
        cost: atoms(cost),
        usd: Usd(cost),
        route: Venue::V3 { fee: 3_000, pool: Address::repeat_byte(0x70) },
        sale_proceeds: Some(atoms(cost - cost / 1_000)),
        tenfold_cost: Some(atoms(cost * 10)),
        average_deviation: None,
    }
}

fn asset(quote: Option<AssetQuote>) -> ForeignAsset {
    ForeignAsset {
        claimed_domain: Some(DomainText { name: "Gold".into(), version: "3".into() }),
        domain: DomainCheck::Confirmed,
        text: Some(TokenText { symbol: "GLD".into(), decimals: 18 }),
        quote,
    }
}

fn payment_in(asset: ForeignAsset) -> PaymentAsk {
    let mut ask = PaymentAsk { asset: TOKEN, amount: atoms(AMOUNT), ..payment(0) };
    ask.set_asset(asset);
    ask
}

/// A payment in a foreign token that costs `cost` micro-dollars.
fn foreign_payment(cost: u64) -> PaymentAsk {
    payment_in(asset(Some(quote(cost))))
}

fn approve(world: &mut World, id: RequestId, fresh: Requote) -> Result<Decision, Refusal> {
    let shown = world.card(id).expect("a card").digest;
    let mut action = world.approval(id, &shown);
    if let Action::Approve(approval) = &mut action {
        approval.quote = fresh;
    }
    world.run(action)
}

fn requote_at(cost: u64) -> Requote {
    Requote::Asset(Box::new(asset(Some(quote(cost)))))
}

#[test]
fn below_the_threshold_it_is_signed_under_the_confirmed_domain() {
    let mut world = ordinary_world();
    let id = world.signs(foreign_payment(999_999));
    assert_eq!(world.spent(), Usd(999_999));
    let Status::Authorized { terms, .. } = world.status(id) else { panic!("not authorized") };
    assert_eq!(terms.value, U256::from(AMOUNT), "the amount is the token's, not the price");
    let domain = TokenDomain {
        name: "Gold".into(),
        version: "3".into(),
        chain: build::base().chain,
        contract: TOKEN,
    };
    assert_eq!(world.records[&id].digest(), Some(domain.digest(terms)));
    let signed = world.signed_action(id);
    world.must(signed);
}

#[test]
fn the_dollar_price_counts_against_every_limit() {
    let mut world = ordinary_world();
    assert_eq!(
        world.ask(foreign_payment(1_000_000)).hold_reason(),
        Some(HoldReason::AboveThreshold)
    );
    assert_eq!(world.reserved_value(), Usd::dollars(1));
    assert_eq!(world.refuses(foreign_payment(10_000_001)).code, Code::ExceedsPerRequestMax);
    for _payment in 0..9 {
        let id = world.holds(foreign_payment(10_000_000));
        approve(&mut world, id, requote_at(10_000_000)).unwrap();
    }
    // 90 dollars are spent and one is reserved.
    assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(90), Usd::dollars(1)));
    assert_eq!(world.refuses(foreign_payment(9_000_001)).code, Code::ExceedsDailyLimit);
    world.holds(foreign_payment(9_000_000));
}

#[test]
fn each_doubt_about_the_price_holds_at_its_bound() {
    // The price is 100,000 micro-dollars, far below the threshold.
    let of = |change: Change| {
        let mut quote = quote(100_000);
        change(&mut quote);
        ordinary_world().ask(payment_in(asset(Some(quote)))).hold_reason()
    };
    let rows: [(&str, Change, Option<HoldReason>); 16] = [
        ("no doubt", |_quote| (), None),
        ("sells 4.999 % lower", |q| q.sale_proceeds = Some(atoms(95_001)), None),
        (
            "sells 5 % lower",
            |q| q.sale_proceeds = Some(atoms(95_000)),
            Some(HoldReason::SellsForLess),
        ),
        ("sells for nothing", |q| q.sale_proceeds = Some(atoms(0)), Some(HoldReason::SellsForLess)),
        ("cannot be sold", |q| q.sale_proceeds = None, Some(HoldReason::SellsForLess)),
        ("sells higher", |q| q.sale_proceeds = Some(atoms(200_000)), None),
        ("ten times is 0.9999 % dearer", |q| q.tenfold_cost = Some(atoms(1_009_999)), None),
        ("1 % dearer", |q| q.tenfold_cost = Some(atoms(1_010_000)), Some(HoldReason::ThinMarket)),
        ("0.9999 % cheaper", |q| q.tenfold_cost = Some(atoms(990_001)), None),
        ("1 % cheaper", |q| q.tenfold_cost = Some(atoms(990_000)), Some(HoldReason::ThinMarket)),
        ("ten times is not for sale", |q| q.tenfold_cost = None, Some(HoldReason::ThinMarket)),
        (
            "too large to compare",
            |q| q.tenfold_cost = Some(Atoms(U256::MAX)),
            Some(HoldReason::ThinMarket),
        ),
        ("2.99 % off the average", |q| q.average_deviation = Some(Bps(299)), None),
        ("3 % off", |q| q.average_deviation = Some(Bps(300)), Some(HoldReason::OffAverage)),
        ("far off", |q| q.average_deviation = Some(Bps(u16::MAX)), Some(HoldReason::OffAverage)),
        (
            "several doubts: the first",
            |q| {
                (q.sale_proceeds, q.tenfold_cost, q.average_deviation) =
                    (None, None, Some(Bps(300)))
            },
            Some(HoldReason::SellsForLess),
        ),
    ];
    for (what, change, held) in rows {
        assert_eq!(of(change), held, "{what}");
    }
}

#[test]
fn sums_that_do_not_fit_are_a_doubt() {
    let huge = AssetQuote {
        cost: Atoms(U256::MAX),
        sale_proceeds: Some(Atoms(U256::MAX - U256::from(1))),
        ..quote(100_000)
    };
    let answer = ordinary_world().ask(payment_in(asset(Some(huge))));
    assert_eq!(answer.hold_reason(), Some(HoldReason::SellsForLess));
}

#[test]
fn a_doubt_outranks_the_threshold_and_unusual_reasons_outrank_a_doubt() {
    let thin = || {
        let mut quote = quote(5_000_000);
        quote.tenfold_cost = None;
        payment_in(asset(Some(quote)))
    };
    assert_eq!(ordinary_world().ask(thin()).hold_reason(), Some(HoldReason::ThinMarket));
    let mut world = ordinary_world();
    world.trusted = false;
    assert_eq!(world.ask(thin()).hold_reason(), Some(HoldReason::JournalUntrusted));
}

#[test]
fn without_a_price_or_a_domain_it_is_held_and_never_signed() {
    let unconfirmed = |domain, quote| ForeignAsset { domain, ..asset(Some(quote)) };
    for (asset, reason) in [
        (asset(None), HoldReason::Unpriced),
        (unconfirmed(DomainCheck::Unknown, quote(1)), HoldReason::Unpriced),
        (unconfirmed(DomainCheck::Unconfirmed, quote(1)), HoldReason::DomainUnconfirmed),
        (ForeignAsset { claimed_domain: None, ..asset(Some(quote(1))) }, HoldReason::Unpriced),
        (ForeignAsset::default(), HoldReason::Unpriced),
    ] {
        let mut world = ordinary_world();
        let ask = payment_in(asset.clone());
        let Answer::Holds(id, found) = world.ask(ask) else { panic!("{asset:?}") };
        assert_eq!(found, reason, "{asset:?}");
        let card = world.card(id).unwrap();
        assert_eq!(card.unpriced, asset.quote.is_none());
        assert!(card.asset.unwrap().domain.is_none() || asset.quote.is_none());
        // An approval with the same measurement signs nothing and leaves the request held.
        let fresh = Requote::Asset(Box::new(asset.clone()));
        let refused = approve(&mut world, id, fresh).unwrap_err();
        let wanted = match reason {
            HoldReason::DomainUnconfirmed => Code::UnsupportedAsset,
            _price => Code::Unpriced,
        };
        assert_eq!(refused.code, wanted, "{asset:?}");
        for fresh in [
            Requote::Nothing,
            Requote::Failed(Refusal::new(Code::ChainUnavailable)),
            Requote::Plan(TradeQuote::default().into()),
        ] {
            approve(&mut world, id, fresh).unwrap_err();
        }
        assert!(world.records[&id].is_held());
        assert_eq!(world.records[&id].digest(), None);
        assert!(world.deny(id).is_ok());
    }
}

#[test]
fn a_request_without_a_price_may_be_approved_at_the_price_of_that_moment() {
    let mut world = ordinary_world();
    let unknown = || ForeignAsset { domain: DomainCheck::Unknown, text: None, ..asset(None) };
    let id = world.holds(payment_in(unknown()));
    assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::ZERO));
    assert!(world.card(id).unwrap().type_amount, "the operator types the price");
    approve(&mut world, id, requote_at(7_000_000)).unwrap();
    assert_eq!(world.spent(), Usd::dollars(7));
    assert!(world.records[&id].digest().is_some());
    // The policy judges the price that is measured at the approval.
    let id = world.holds(payment_in(unknown()));
    approve(&mut world, id, requote_at(10_000_001)).unwrap();
    let Status::Refused { refusal, was_held: true, .. } = world.status(id) else {
        panic!("{:?}", world.status(id))
    };
    assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
    assert_eq!(world.spent(), Usd::dollars(7));
}

#[test]
fn a_price_that_moved_by_more_than_one_percent_refuses_the_approval() {
    for (now, code) in [
        (5_000_000, None),
        (5_050_000, None),
        (5_050_001, Some(Code::PriceMoved)),
        (4_950_000, None),
        (4_949_999, Some(Code::PriceMoved)),
        (1, Some(Code::PriceMoved)),
        (50_000_000, Some(Code::PriceMoved)),
    ] {
        let mut world = ordinary_world();
        let id = world.holds(foreign_payment(5_000_000));
        approve(&mut world, id, requote_at(now)).unwrap();
        match (world.status(id), code) {
            (Status::Authorized { terms, .. }, None) => {
                assert_eq!(terms.value, U256::from(AMOUNT), "the assessed amount is signed");
                assert_eq!((world.spent(), world.reserved_value()), (Usd(now), Usd::ZERO));
            }
            (Status::Refused { refusal, .. }, Some(code)) => {
                assert_eq!(refusal.code, code, "{now}");
                assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::ZERO));
            }
            (other, _) => panic!("{now}: {other:?}"),
        }
    }
}

#[test]
fn an_approval_under_another_claim_signs_nothing() {
    let mut world = ordinary_world();
    let id = world.holds(foreign_payment(5_000_000));
    let mut other = asset(Some(quote(5_000_000)));
    other.claimed_domain = Some(DomainText { name: "Silver".into(), version: "3".into() });
    let refused = approve(&mut world, id, Requote::Asset(Box::new(other))).unwrap_err();
    assert_eq!(refused.code, Code::UnsupportedAsset);
    assert!(world.records[&id].is_held());
}

#[test]
fn the_daily_limit_at_approval_counts_the_fresh_price() {
    let mut world = ordinary_world();
    world.edit(|policy| policy.payments.daily = Usd::dollars(10)).unwrap();
    let id = world.holds(foreign_payment(10_000_000));
    approve(&mut world, id, requote_at(10_000_001)).unwrap();
    let Status::Refused { refusal, .. } = world.status(id) else { panic!("not refused") };
    // The limits for one request and for the day are equal here.
    assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
    world.edit(|policy| policy.payments.per_request = Usd::dollars(20)).unwrap();
    let id = world.holds(foreign_payment(10_000_000));
    approve(&mut world, id, requote_at(10_000_001)).unwrap();
    let Status::Refused { refusal, .. } = world.status(id) else { panic!("not refused") };
    assert_eq!(refusal.code, Code::ExceedsDailyLimit);
}

#[test]
fn where_no_exchange_can_quote_it_is_refused() {
    let mut world = ordinary_world();
    let skale = ChainId(1_187_947_933);
    assert!(networks::by_chain(skale).unwrap().exchange.is_none());
    world.must(Action::SetNetwork { chain: skale, enabled: true });
    let ask = PaymentAsk { chain: skale, ..foreign_payment(1_000) };
    assert_eq!(world.refuses(ask.clone()).code, Code::UnsupportedAsset);
    assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::ZERO));
    // The other rules take precedence: a policy that allows no payments refuses this one.
    world.edit(|policy| policy.payments.enabled = false).unwrap();
    assert_eq!(world.refuses(ask).code, Code::X402Disabled);
}

#[test]
fn a_claim_needs_both_parts_and_a_bounded_length() {
    let (longest, long) =
        ("n".repeat(DOMAIN_TEXT_BYTES_MAX), "n".repeat(DOMAIN_TEXT_BYTES_MAX + 1));
    for (name, version, kept) in [
        (Some("Gold"), Some("3"), true),
        (Some(""), Some(""), true),
        (Some("Gold"), None, false),
        (None, Some("3"), false),
        (Some(longest.as_str()), Some("3"), true),
        (Some(long.as_str()), Some("3"), false),
        (Some("Gold"), Some(long.as_str()), false),
    ] {
        assert_eq!(
            ForeignAsset::from_claim(name, version).claimed_domain.is_some(),
            kept,
            "{name:?}"
        );
    }
}

#[test]
fn the_card_shows_the_price_and_quotes_the_tokens_own_text() {
    let mut world = ordinary_world();
    let mut asset = asset(Some(quote(5_000_000)));
    asset.text = Some(TokenText { symbol: "USDC".into(), decimals: 18 });
    let id = world.holds(payment_in(asset));
    let card = world.card(id).unwrap();
    assert_eq!(card.amount, format!("2.5 \"USDC\" ({TOKEN})"));
    assert_eq!((card.usd, card.unpriced), (Usd::dollars(5), false));
    let shown = card.asset.unwrap();
    assert_eq!(shown.domain.as_deref(), Some("\"Gold\" version \"3\""));
    assert_eq!(shown.costs.as_deref(), Some("5.000000 USDC"));
    assert_eq!(shown.sells_for.as_deref(), Some("4.995000 USDC"));
    assert_eq!(shown.tenfold.as_deref(), Some("50.000000 USDC"));
    // The digest of an approval does not contain the price, so another price has the same digest.
    let again = world.holds(foreign_payment(5_000_001));
    assert_eq!(world.card(again).unwrap().digest, card.digest);
    let plain = world.holds(payment(5_000_000));
    assert!(world.card(plain).unwrap().asset.is_none());
    assert_eq!(payment(1).price, Price::Reference);
}
