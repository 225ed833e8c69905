//! The amount that an address has lent: for each venue, the higher of the amounts on the chain and in the journal.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::networks::{self, ChainId};
use bursar_core::policy::AllowedNetworks;
use bursar_domain::assess::lending::total_lent;
use bursar_domain::assess::{Verdict, rehearsal};
use bursar_domain::loan_context::reserved;
use bursar_domain::loans::{Exposure, LoanAsk};
use bursar_domain::plan::StepPurpose;
use bursar_morpho::VenueId;

use crate::loans::asks::{
    BASE, ROBINHOOD, loan_at, market, nothing_lent, supply, vault, with_quote,
};
use crate::loans::bench::{Bench, Fate};
use crate::support::build;

/// An exposure in which the chain shows these positions.
fn exposure_of(positions: &[(ChainId, VenueId, u64)]) -> Exposure {
    let positions = positions.iter().map(|(chain, venue, worth)| (*chain, *venue, Usd(*worth)));
    Exposure { positions: positions.collect(), ..nothing_lent() }
}

fn with_exposure(exposure: &Exposure, asked: LoanAsk) -> LoanAsk {
    with_quote(asked, |quote| quote.exposure = exposure.clone())
}

/// An address that has lent 40 dollars to a vault and 20 to a market on another network.
fn lender() -> Bench {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    bench.lends(1, loan_at(ROBINHOOD, market(0x66), supply(20_000_000)));
    bench
}

#[test]
fn each_venue_counts_the_higher_of_chain_and_journal() {
    let bench = lender();
    let main = build::address("main");
    let sum = |exposure: &Exposure| {
        total_lent(&bench.world.state.loans, main, &AllowedNetworks::AllEnabled, exposure)
    };
    for (positions, wanted) in [
        // A node that reports no position cannot lower the sum.
        (vec![], 60_000_000),
        (vec![(BASE, vault(0x77), 0)], 60_000_000),
        (vec![(BASE, vault(0x77), 39_999_999)], 60_000_000),
        (vec![(BASE, vault(0x77), 40_000_001)], 60_000_001),
        (vec![(BASE, vault(0x77), 41_000_000), (ROBINHOOD, market(0x66), 21_000_000)], 62_000_000),
        // The same vault address on another network, or another kind of venue, is another place.
        (vec![(ROBINHOOD, vault(0x77), 5_000_000)], 65_000_000),
        (vec![(BASE, market(0x66), 5_000_000)], 65_000_000),
        // The journal does not know this venue.
        (vec![(BASE, vault(0x99), 7_000_000)], 67_000_000),
        // A position that is read twice counts once.
        (vec![(BASE, vault(0x99), 7_000_000), (BASE, vault(0x99), 7_000_000)], 67_000_000),
    ] {
        assert_eq!(sum(&exposure_of(&positions)), Some(Usd(wanted)), "{positions:?}");
    }
    let spare = build::address("spare");
    assert_eq!(
        total_lent(&bench.world.state.loans, spare, &AllowedNetworks::AllEnabled, &nothing_lent()),
        Some(Usd::ZERO)
    );
    for unreadable in [(BASE, None), (ROBINHOOD, Some(vault(0x77)))] {
        let exposure = Exposure { unreadable: vec![unreadable], ..nothing_lent() };
        assert_eq!(sum(&exposure), None);
    }
    let too_much = [(BASE, vault(1), u64::MAX), (BASE, vault(2), 1)];
    assert_eq!(sum(&exposure_of(&too_much)), None);
}

/// Only networks on which the agent may lend count.
#[test]
fn networks_outside_the_policy_do_not_count() {
    let bench = lender();
    let exposure = Exposure { networks: vec![BASE], ..nothing_lent() };
    let only = AllowedNetworks::Only([BASE].into());
    let sum = total_lent(&bench.world.state.loans, build::address("main"), &only, &exposure);
    assert_eq!(sum, Some(Usd(40_000_000)));

    let mut bench = lender();
    let exposure = Exposure { networks: vec![ROBINHOOD], ..nothing_lent() };
    bench.holds(0, loan_at(ROBINHOOD, market(0x66), with_exposure(&exposure, supply(60_000_000))));
    let (state, now) = (&bench.world.state, bench.world.now());
    let to_come = |networks| reserved(state, &now, build::address("main"), networks, None);
    assert_eq!(to_come(&AllowedNetworks::AllEnabled), Usd(60_000_000));
    assert_eq!(to_come(&only), Usd::ZERO);
}

/// A disabled network is not read, but the amounts lent there still count.
#[test]
fn disabling_a_network_lifts_no_limit() {
    let mut bench = lender();
    for _once in 0..8 {
        bench.lends(0, supply(45_000_000));
    }
    let exposure = Exposure { networks: vec![ROBINHOOD], ..nothing_lent() };
    let asked = |micros| loan_at(ROBINHOOD, market(0x66), with_exposure(&exposure, supply(micros)));
    assert_eq!(bench.refuses(0, asked(80_000_001)), Code::ExposureExceeded);
    bench.holds(0, asked(80_000_000));
}

#[test]
fn an_exposure_that_cannot_be_read_stops_supplies_and_no_withdrawal() {
    for unreadable in [(BASE, None), (BASE, Some(vault(0x78))), (ROBINHOOD, None)] {
        let mut bench = lender();
        let exposure = Exposure { unreadable: vec![unreadable], ..nothing_lent() };
        let asked = with_exposure(&exposure, supply(1_000_000));
        assert_eq!(bench.refuses(0, asked), Code::ExposureUnreadable);
        bench.starts(0, with_exposure(&exposure, crate::loans::asks::withdrawal(1_000_000)));

        let id = bench.holds(0, supply(60_000_000));
        let unread = with_exposure(&exposure, supply(60_000_000)).quote;
        assert_eq!(bench.rejects(id, unread), Code::ExposureUnreadable);
        assert_eq!(bench.reserved("main"), 0);
    }
}

/// If the loan's own network was not read, the exposure counts as unreadable.
#[test]
fn an_exposure_without_the_loans_own_network_is_unreadable() {
    for networks in [vec![], vec![ROBINHOOD]] {
        let mut bench = Bench::new();
        let exposure = Exposure { networks, ..nothing_lent() };
        let asked = with_exposure(&exposure, supply(1_000_000));
        assert_eq!(bench.refuses(0, asked), Code::ExposureUnreadable);
    }
}

/// The ceiling applies to the address: all its agents share one sum, exact to the micro-dollar.
#[test]
fn the_ceiling_is_of_the_address() {
    let filled = || {
        let mut bench = lender();
        for (agent, micros) in [(0, 45_000_000), (1, 45_000_000)] {
            for _once in 0..4 {
                bench.lends(agent, supply(micros));
            }
        }
        assert_eq!(bench.deployed("main"), 420_000_000);
        bench.lends(0, supply(40_000_000));
        bench
    };
    for (micros, fits) in [(39_999_999, true), (40_000_000, true), (40_000_001, false)] {
        for agent in [0, 1] {
            let mut bench = filled();
            match bench.ask(agent, loan_at(ROBINHOOD, vault(0x55), supply(micros))) {
                Ok(_id) => assert!(fits, "{micros}"),
                Err(refusal) => {
                    assert!(!fits, "{micros}: {refusal:?}");
                    assert_eq!(refusal.code, Code::ExposureExceeded);
                    assert_eq!(refusal.bound, Some(Usd(40_000_000)));
                }
            }
            // Another address has its own ceiling.
            bench.starts(2, supply(micros));
        }
    }
}

/// A supply that may have taken effect counts until a receipt shows the amount that came back.
#[test]
fn a_supply_of_unknown_effect_counts_although_the_chain_shows_nothing() {
    let mut bench = Bench::new();
    let id = bench.starts(0, supply(40_000_000));
    bench.open_and_finish(id, StepPurpose::Supply, Fate::NonceTaken);
    assert_eq!(bench.deployed("main"), 40_000_000);
    assert_eq!(bench.reserved("main"), 0);
}

/// `policy test` gives a supply the verdict that the same supply by an agent gets.
#[test]
fn a_rehearsed_supply_meets_the_rules_of_a_real_one() {
    let mut bench = lender();
    let state = bench.world.state.clone();
    let moment = bench.world.now();
    let rehearsed = |dollars, lent| {
        let ask = rehearsal::plain_supply(build::base(), Usd::dollars(dollars));
        let ask = ask.expect("a network of loans");
        let lent = Usd::dollars(lent);
        rehearsal::rehearse_supply(&state, &crate::loans::asks::policy(), &ask, lent, &moment, true)
    };
    let code = |verdict| match verdict {
        Verdict::Refuse(refusal) => refusal.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(rehearsed(49, 60), Verdict::Act);
    assert_eq!(rehearsed(50, 60), Verdict::Hold(HoldReason::AboveThreshold));
    assert_eq!(rehearsed(100, 400), Verdict::Hold(HoldReason::AboveThreshold));
    assert_eq!(code(rehearsed(101, 0)), Code::PerDepositExceeded);
    assert_eq!(code(rehearsed(100, 401)), Code::ExposureExceeded);
    bench.starts(0, supply(49_000_000));
    bench.holds(0, supply(50_000_000));
    assert_eq!(bench.refuses(0, supply(101_000_000)), Code::PerDepositExceeded);
    // On a test network nothing can be lent.
    let sepolia = networks::by_id_name_or_title("base-sepolia").expect("a network");
    assert_eq!(rehearsal::plain_supply(sepolia, Usd::dollars(1)), None);
}
