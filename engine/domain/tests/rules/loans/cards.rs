//! The card of a held loan: the terms in its digest, and the sums that the operator sees.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_core::card::{Change, Lane};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks;
use bursar_domain::loans::{LoanAsk, LoanSize};

use crate::loans::asks::{BASE, ROBINHOOD, loan_at, market, supply, vault, with_quote, withdrawal};
use crate::loans::bench::{Bench, policy};
use crate::support::build;

fn ask_of_size(size: LoanSize) -> LoanAsk {
    LoanAsk { size, ..withdrawal(60_000_000) }
}

/// Returns the card of a loan under a policy that allows nothing automatically.
fn card_of(loan: LoanAsk) -> bursar_core::card::Card {
    let mut policy = policy();
    policy.lending.auto_below = Usd::ZERO;
    let mut bench = Bench::with_policy(&policy);
    let id = bench.holds(0, loan);
    bench.world.card(id).expect("a card")
}

#[test]
fn the_terms_name_what_moves_and_where() {
    let coin = networks::by_chain(BASE).unwrap().stablecoin.address.to_checksum(None);
    let own = build::address("main").to_checksum(None);
    for (loan, amount, action, unit, venue) in [
        (supply(60_000_000), "60000000", "supply", "assets", vault(0x77)),
        (withdrawal(60_000_000), "60000000", "withdraw", "assets", vault(0x77)),
        (ask_of_size(LoanSize::Shares(U256::from(7))), "7", "withdraw", "shares", vault(0x77)),
        (ask_of_size(LoanSize::All), "0", "withdraw", "all", vault(0x77)),
        (
            loan_at(BASE, market(0x66), supply(60_000_000)),
            "60000000",
            "supply",
            "assets",
            market(0x66),
        ),
    ] {
        let terms = card_of(loan).terms;
        assert_eq!(terms.lane, Lane::Loan);
        assert_eq!((terms.asset.as_str(), terms.address.as_str()), (coin.as_str(), own.as_str()));
        assert_eq!((terms.payee.as_str(), terms.amount.as_str()), (own.as_str(), amount));
        assert_eq!((terms.network.as_str(), terms.valid_seconds), ("eip155:8453", 300));
        let loan = terms.loan.expect("the terms of a loan");
        assert_eq!((loan.action.as_str(), loan.unit.as_str()), (action, unit));
        assert_eq!(loan.venue, venue.to_string());
        assert!(terms.trade.is_none());
    }
}

/// Every difference in the effect of an approval gives another digest.
#[test]
fn the_digest_binds_every_term() {
    let digests: Vec<String> = [
        supply(60_000_000),
        supply(60_000_001),
        withdrawal(60_000_000),
        loan_at(BASE, vault(0x78), supply(60_000_000)),
        loan_at(BASE, market(0x77), supply(60_000_000)),
        loan_at(ROBINHOOD, vault(0x77), supply(60_000_000)),
        ask_of_size(LoanSize::Shares(U256::from(60_000_000))),
        ask_of_size(LoanSize::Shares(U256::ZERO)),
        ask_of_size(LoanSize::All),
    ]
    .into_iter()
    .map(|loan| card_of(loan).digest)
    .collect();
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
    // Measurements are shown on the card, but are not part of its terms.
    let measured = with_quote(supply(60_000_000), |quote| quote.gas += 1);
    assert_eq!(card_of(measured).digest, digests[0]);
}

#[test]
fn an_approval_of_another_card_changes_nothing() {
    let mut bench = Bench::new();
    let id = bench.holds(0, supply(60_000_000));
    let shown = bench.world.card(id).unwrap().digest;
    bench.world.edit(|policy| policy.lending.max_total = Usd::dollars(499)).unwrap();
    let mut approval = bench.world.approval(id, &shown);
    if let bursar_domain::Action::Approve(approval) = &mut approval {
        let quote = supply(60_000_000).quote.into();
        approval.quote = bursar_domain::command::Requote::Plan(quote);
    }
    assert_eq!(bench.world.run_refused(approval).code, Code::CardChanged);
    bench.approves(id, supply(60_000_000).quote);
}

/// `before` is the higher of the amounts on the chain and in the journal, plus the other open supplies. `after` also
/// contains this request, once.
#[test]
fn the_card_shows_what_is_lent_before_and_after() {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    bench.starts(1, loan_at(ROBINHOOD, vault(0x31), supply(30_000_000)));
    let other = bench.holds(1, supply(50_000_000));
    let id = bench.holds(0, supply(60_000_000));
    let lent = |bench: &Bench| bench.world.card(id).unwrap().loan.unwrap().lent;
    let change = |before, after| Some(Change { before: Usd(before), after: Usd(after) });
    assert_eq!(lent(&bench), change(120_000_000, 180_000_000));
    bench.world.deny(other).unwrap();
    assert_eq!(lent(&bench), change(70_000_000, 130_000_000));
    let card = bench.world.card(id).unwrap();
    assert_eq!((card.usd, card.reserved), (Usd(60_000_000), Usd(60_000_000)));
    let loan = card.loan.unwrap();
    assert_eq!((loan.ceiling, loan.operations, loan.operations_max), (Usd::dollars(500), 1, 20));
    assert_eq!(loan.moves, "60.000000 USDC");
    assert!(loan.is_trusted && loan.effects_proven);

    let takes = bench.holds(0, withdrawal(60_000_000));
    let card = bench.world.card(takes).unwrap();
    assert_eq!(card.usd, Usd(60_000_000), "its amount is typed like any other");
    let loan = card.loan.unwrap();
    assert_eq!((loan.lent, loan.worth), (None, None));
}

/// The card counts the most that the supply may take, even if its simulation took less.
#[test]
fn the_card_of_a_purchase_of_shares_counts_its_size() {
    let cheap = with_quote(supply(60_000_000), |quote| quote.assets = Atoms(U256::from(1)));
    let card = card_of(cheap);
    assert_eq!(card.usd, Usd(60_000_000));
    let lent = card.loan.unwrap().lent;
    assert_eq!(lent, Some(Change { before: Usd::ZERO, after: Usd(60_000_000) }));
}

/// If an approval would be refused now, the card shows that to the operator.
#[test]
fn the_card_names_an_obstacle() {
    let mut bench = Bench::new();
    let id = bench.holds(0, supply(60_000_000));
    assert_eq!(bench.world.card(id).unwrap().obstacle, None);
    bench.world.edit(|policy| policy.lending.max_total = Usd(59_999_999)).unwrap();
    assert!(bench.world.card(id).unwrap().obstacle.is_some());
    bench.world.edit(|policy| policy.lending.max_total = Usd(60_000_000)).unwrap();
    assert_eq!(bench.world.card(id).unwrap().obstacle, None);
}
