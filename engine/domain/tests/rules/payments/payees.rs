//! The operator's names of payees, and the risks of a payment.

use alloy_primitives::{Address, address};
use bursar_core::card::{Card, PaidBefore};
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::risk::{Level, RiskKind};
use bursar_domain::event::Entry;
use bursar_domain::payee::Payee;
use bursar_domain::risks::{PayeeFacts, payment_risks, resembles};
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{Action, Event};

use crate::support::build::{self, ordinary_world, payment};

const KNOWN: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");
const SIMILAR: Address = address!("209600000000000000000000000000000000287C");
const TYPED_FROM: Usd = Usd(5_000_000);

fn payee(byte: u8) -> Payee {
    Payee { chain: ChainId(8453), address: Address::repeat_byte(byte) }
}

fn call(payee: Payee, label: &str) -> Action {
    Action::NamePayee { payee, label: Some(label.parse().unwrap()) }
}

fn forget(payee: Payee) -> Action {
    Action::NamePayee { payee, label: None }
}

#[test]
fn name_is_kept_until_it_is_forgotten_and_shown_on_the_card() {
    let mut world = ordinary_world();
    let own = Payee { chain: ChainId(8453), address: build::payee() };
    let id = world.holds(payment(2_000_000));
    let before = world.card(id).unwrap();
    assert_eq!(before.payee_name, None);
    assert_eq!(world.must(call(own, "Acme")).events.len(), 1);
    assert_eq!(world.must(call(own, "Acme")).events, [], "it is known");
    let card = world.card(id).unwrap();
    assert_eq!(card.payee_name.as_ref().map(|name| name.as_str()), Some("Acme"));
    assert_eq!(card.digest, before.digest, "a name changes no terms");
    assert_eq!(world.run_refused(call(own, "Acme Inc")).code, Code::NameTaken);
    world.must(forget(own));
    assert_eq!(world.run_refused(forget(own)).code, Code::NothingFound);
    world.must(call(own, "Acme Inc"));
    world.assert_replays();
}

/// A name that a reader may mistake for another one would lead a payment astray.
#[test]
fn name_that_resembles_another_one_is_refused() {
    let mut world = ordinary_world();
    world.must(call(payee(1), "PayPal"));
    for alike in ["paypal", "PayPa1", "P\u{0430}yPal", "Pay Pal"] {
        let refusal = world.run_refused(call(payee(2), alike));
        assert_eq!(refusal.code, Code::NameTaken, "{alike}");
        assert!(refusal.describe().contains("PayPal"), "{}", refusal.describe());
    }
    // The same address on another network is the same payee.
    world.must(call(Payee { chain: ChainId(1), ..payee(1) }, "PayPal"));
    // The labels of the wallet's own addresses are names, too.
    assert_eq!(world.run_refused(call(payee(2), "MAIN")).code, Code::NameTaken);
    let own = Payee { chain: ChainId(8453), address: build::address("main") };
    assert_eq!(world.run_refused(call(own, "Acme")).code, Code::InUse);
}

#[test]
fn names_need_an_open_wallet_and_never_follow_a_seal() {
    let mut world = ordinary_world();
    world.must(call(payee(1), "Acme"));
    world.unlocked = false;
    assert_eq!(world.run_refused(call(payee(2), "Other")).code, Code::WalletLocked);
    assert_eq!(world.run_refused(forget(payee(1))).code, Code::WalletLocked);
    for (payee, label) in [(payee(2), Some("Other".parse().unwrap())), (payee(1), None)] {
        let event = Event::PayeeNamed { payee, label };
        let entry = Entry { seq: world.state.seq + 1, at: world.now().utc, event };
        assert!(!may_follow_a_seal(&world.state, &entry), "{entry:?}");
    }
}

#[test]
fn names_are_limited_in_number() {
    let mut world = ordinary_world();
    let numbered = |number: u32| Payee {
        chain: ChainId(8453),
        address: Address::left_padding_from(&(number + 1).to_be_bytes()),
    };
    for number in 0..1_000 {
        world.must(call(numbered(number), &format!("payee number {number}")));
    }
    assert_eq!(world.run_refused(call(numbered(1_000), "one more")).code, Code::InUse);
}

/// Returns the card of a payment of this value, to a payee with this number of earlier payments and approvals.
fn card(usd: u64, (times, approved): (u64, u64)) -> Card {
    let mut world = ordinary_world();
    let id = world.holds(payment(2_000_000));
    let mut card = world.card(id).unwrap();
    card.usd = Usd(usd);
    let paid = PaidBefore { times, approved, first: None, last: None, usd: Usd::ZERO };
    card.paid_before = Some(paid);
    card
}

fn kinds(card: &Card, facts: &PayeeFacts) -> Vec<(RiskKind, Level)> {
    let risks = payment_risks(card, TYPED_FROM, facts);
    risks.into_iter().map(|risk| (risk.kind, risk.level)).collect()
}

#[test]
fn first_payment_is_a_warning_and_a_large_one_a_danger() {
    let none = PayeeFacts::default();
    let dangerous = [(RiskKind::LargeFirstPayment, Level::Danger)];
    assert_eq!(kinds(&card(4_999_999, (0, 0)), &none), []);
    assert!(card(4_999_999, (0, 0)).has_unknown_payee(), "the card warns");
    assert_eq!(kinds(&card(5_000_000, (0, 0)), &none), dangerous);
    // An agent alone can make a payee a paid one, so only approvals count.
    assert_eq!(kinds(&card(5_000_000, (9, 0)), &none), dangerous);
    assert_eq!(kinds(&card(90_000_000, (1, 1)), &none), []);
    let unpriced = Card { unpriced: true, ..card(0, (0, 0)) };
    assert_eq!(kinds(&unpriced, &none), dangerous);
    let unread = Card { paid_before: None, ..card(5_000_000, (0, 0)) };
    assert_eq!(kinds(&unread, &none), dangerous);
    let text = &payment_risks(&unread, TYPED_FROM, &none)[0].text;
    assert!(text.contains("not known"), "{text}");
}

#[test]
fn address_with_the_ends_of_a_known_one_is_a_danger() {
    assert!(resembles(KNOWN, SIMILAR) && !resembles(KNOWN, KNOWN));
    let mut other = SIMILAR.into_array();
    other[19] ^= 1;
    assert!(!resembles(KNOWN, Address::from(other)));
    let facts = PayeeFacts { similar: Some((KNOWN, Some("Acme".into()))), ..Default::default() };
    let risks = payment_risks(&card(1, (0, 0)), TYPED_FROM, &facts);
    assert_eq!((risks[0].kind, risks[0].level), (RiskKind::SimilarAddress, Level::Danger));
    assert!(risks[0].text.contains(&format!("NOT {KNOWN} (Acme)")), "{}", risks[0].text);
    // The operator has approved a payment to this address.
    assert_eq!(kinds(&card(1, (1, 1)), &facts), []);
    // A name alone does not: it may have been given to the wrong address.
    let named = Card { payee_name: Some("B".parse().unwrap()), ..card(1, (0, 0)) };
    assert_eq!(kinds(&named, &facts)[0], (RiskKind::SimilarAddress, Level::Danger));
}

#[test]
fn price_ten_times_the_median_of_three_payments_is_a_danger() {
    let facts = |prices: &[u64]| PayeeFacts {
        prices: prices.iter().map(|price| Usd(*price)).collect(),
        ..Default::default()
    };
    let danger = [(RiskKind::UnusualPrice, Level::Danger)];
    let known = |usd| card(usd, (3, 3));
    assert_eq!(kinds(&known(1_000_000), &facts(&[100_000, 90_000, 900_000])), danger);
    assert_eq!(kinds(&known(999_999), &facts(&[100_000, 90_000, 900_000])), []);
    assert_eq!(kinds(&known(1_000_000), &facts(&[100_000, 100_000])), [], "two are too few");
    assert_eq!(kinds(&known(1_000_000), &facts(&[0, 0, 0])), [], "a price of zero says nothing");
    // The operator has approved such a price before.
    let small = facts(&[100_000, 90_000, 90_000]);
    let approved = |usd| PayeeFacts { approved_price: Some(Usd(usd)), ..small.clone() };
    assert_eq!(kinds(&known(1_000_000), &approved(1_000_000)), []);
    assert_eq!(kinds(&known(1_000_000), &approved(999_999)), danger);
}

#[test]
fn host_that_looks_like_an_approved_one_is_a_danger() {
    let facts = PayeeFacts { similar_host: Some("paypal.com".into()), ..Default::default() };
    assert_eq!(kinds(&card(1, (1, 1)), &facts), [(RiskKind::SimilarHost, Level::Danger)]);
}
