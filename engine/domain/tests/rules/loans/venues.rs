//! The operator's trust in venues: how it is given and withdrawn, and when a venue loses it.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_domain::command::VenueTrust;
use bursar_domain::event::Entry;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::StepPurpose;
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{Action, Event};
use bursar_morpho::Trust;

use crate::loans::asks::{
    BASE, CURATOR, OWNER, ROBINHOOD, loan_at, new_venue, refused_venue, supply, vault, with_facts,
    withdrawal,
};
use crate::loans::bench::{Bench, Fate, policy};

const OTHER: Address = Address::repeat_byte(0x0f);

/// A small supply to a venue with this trust.
fn supply_with_trust(trust: Trust) -> LoanAsk {
    with_facts(supply(1_000_000), |venue| venue.trust = trust)
}

fn untrust() -> Action {
    Action::UntrustVenue { chain: BASE, venue: vault(0x77) }
}

fn open_bench() -> Bench {
    let mut policy = policy();
    policy.lending.curated_only = false;
    Bench::with_policy(&policy)
}

/// A venue that Bursar does not trust needs a confirmation, which covers only the accounts that the venue named then.
#[test]
fn a_new_venue_is_used_while_it_names_the_confirmed_accounts() {
    let mut bench = Bench::new();
    assert_eq!(bench.refuses(0, supply_with_trust(new_venue())), Code::VenueNotPermitted);
    let trust = bench.trust(BASE, vault(0x77));
    assert_eq!(bench.world.must(trust.clone()).events.len(), 1);
    assert_eq!(bench.world.must(trust).events, [], "it is known");
    bench.lends(0, supply_with_trust(new_venue()));
    for (curator, owner) in [
        (Some(OTHER), Some(OWNER)),
        (Some(CURATOR), Some(OTHER)),
        (None, Some(OWNER)),
        (Some(CURATOR), None),
        (Some(OWNER), Some(CURATOR)),
    ] {
        let changed = with_facts(supply_with_trust(new_venue()), |venue| {
            (venue.curator, venue.owner) = (curator, owner)
        });
        let refusal = bench.ask(0, changed).unwrap_err();
        assert_eq!(refusal.code, Code::VenueNotPermitted, "{curator:?} {owner:?}");
        assert!(refusal.describe().contains("has changed"), "{}", refusal.describe());
    }
    let elsewhere = loan_at(ROBINHOOD, vault(0x77), supply_with_trust(new_venue()));
    assert_eq!(bench.refuses(0, elsewhere), Code::VenueNotPermitted, "another network's vault");
    let another = loan_at(BASE, vault(0x78), supply_with_trust(new_venue()));
    assert_eq!(bench.refuses(0, another), Code::VenueNotPermitted);
    bench.lends(0, supply_with_trust(new_venue()));
}

/// No confirmation makes a refused venue usable. A withdrawal never needs a confirmation.
#[test]
fn a_refused_venue_takes_nothing_whatever_the_operator_confirmed() {
    let mut bench = Bench::new();
    bench.world.must(bench.trust(BASE, vault(0x77)));
    assert_eq!(bench.refuses(0, supply_with_trust(refused_venue())), Code::VenueNotPermitted);
    bench.starts(0, with_facts(withdrawal(1_000_000), |venue| venue.trust = refused_venue()));
}

/// A venue that Bursar trusted before and no longer trusts counts as changed, under every policy.
#[test]
fn a_venue_that_passed_once_is_refused_when_it_no_longer_does() {
    for was in [Trust::Curated, Trust::Pinned] {
        for is in [new_venue(), refused_venue()] {
            let mut bench = open_bench();
            bench.lends(0, supply_with_trust(was));
            let refusal = bench.ask(0, supply_with_trust(is)).unwrap_err();
            assert_eq!(refusal.code, Code::VenueNotPermitted, "{was:?} {is:?}");
            assert!(refusal.describe().contains("has changed"), "{}", refusal.describe());
        }
    }
    // The operator may confirm the venue in its new form.
    let mut bench = Bench::new();
    bench.lends(0, supply_with_trust(Trust::Curated));
    bench.world.must(bench.trust(BASE, vault(0x77)));
    bench.lends(0, supply_with_trust(new_venue()));
}

/// The measurement of a held request counts too: Bursar trusted the venue when the request was recorded.
#[test]
fn a_venue_that_changes_while_a_request_waits_rejects_it() {
    let mut bench = open_bench();
    let id = bench.holds(0, supply(60_000_000));
    let mut changed = supply(60_000_000).quote;
    changed.venue.as_mut().unwrap().trust = new_venue();
    assert_eq!(bench.rejects(id, changed), Code::VenueNotPermitted);
    assert_eq!(bench.reserved("main"), 0);
}

/// The venue is checked before each step of a plan, whether the policy or the operator allowed the plan.
#[test]
fn a_venue_that_changes_within_a_plan_ends_it() {
    for approved in [false, true] {
        let mut bench = open_bench();
        let id = if approved {
            let id = bench.holds(0, supply(60_000_000));
            bench.approves(id, supply(60_000_000).quote);
            id
        } else {
            bench.starts(0, supply(40_000_000))
        };
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        let mut changed = bench.execution(id).quote.loan().unwrap().clone();
        changed.venue.as_mut().unwrap().trust = refused_venue();
        bench.try_open_by(id, StepPurpose::Supply, changed).unwrap();
        assert_eq!(bench.end_code(id), Some(Code::VenueNotPermitted), "{approved}");
        assert_eq!(bench.reserved("main"), 0);
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(id));
    }
}

/// The operator decides about the first supply to each uncurated venue, and the policy about later ones.
#[test]
fn only_the_first_supply_to_each_uncurated_venue_asks() {
    for trust in [new_venue(), refused_venue()] {
        let mut bench = open_bench();
        for venue in [vault(0x77), vault(0x78)] {
            for chain in [BASE, ROBINHOOD] {
                let asked = loan_at(chain, venue, supply_with_trust(trust));
                // A withdrawal from a venue does not count as its first use.
                bench.starts(
                    0,
                    with_facts(loan_at(chain, venue, withdrawal(1_000_000)), |one| {
                        one.trust = trust
                    }),
                );
                let first = bench.holds(0, asked.clone());
                assert_eq!(bench.hold_reason(first), Some(HoldReason::UncuratedVenue));
                let again = bench.holds(1, asked.clone());
                bench.world.deny(first).unwrap();
                bench.world.deny(again).unwrap();
                let third = bench.holds(0, asked.clone());
                bench.approves(third, asked.quote.clone());
                bench.starts(1, asked);
            }
        }
    }
}

/// After the operator withdrew the trust, the next supply is refused or held, even if the venue was used before.
#[test]
fn the_first_supply_after_trust_was_taken_back_asks_again() {
    let mut bench = open_bench();
    bench.world.must(bench.trust(BASE, vault(0x77)));
    bench.lends(0, supply_with_trust(new_venue()));
    bench.world.must(untrust());
    match bench.ask(0, supply_with_trust(new_venue())) {
        Err(refusal) => assert_eq!(refusal.code, Code::VenueNotPermitted),
        Ok(id) => assert_eq!(bench.hold_reason(id), Some(HoldReason::UncuratedVenue)),
    }
}

/// A locked wallet, or any program that can write the journal, may withdraw trust, so that must never permit more.
#[test]
fn taking_trust_back_permits_nothing_that_was_refused() {
    for now in [new_venue(), refused_venue()] {
        let changed = with_facts(supply_with_trust(now), |venue| venue.owner = Some(OTHER));
        for is_used in [false, true] {
            let mut bench = open_bench();
            bench.world.must(bench.trust(BASE, vault(0x77)));
            if is_used {
                bench.lends(0, supply_with_trust(new_venue()));
            }
            assert_eq!(bench.refuses(0, changed.clone()), Code::VenueNotPermitted);
            bench.world.must(untrust());
            let after = bench.ask(0, changed.clone()).map(|id| bench.status(id).clone());
            assert_eq!(
                after.map_err(|refusal| refusal.code),
                Err(Code::VenueNotPermitted),
                "{now:?} {is_used}"
            );
            // A new confirmation makes the changed venue usable again, unless Bursar refuses it.
            let (chain, venue) = (BASE, vault(0x77));
            let given = VenueTrust { chain, venue, curator: Some(CURATOR), owner: Some(OTHER) };
            bench.world.must(Action::TrustVenue(Box::new(given)));
            let again = bench.ask(0, changed.clone());
            assert_eq!(again.is_ok(), now == new_venue(), "{now:?} {is_used}");
        }
    }
}

#[test]
fn trust_needs_an_open_wallet_and_taking_it_back_does_not() {
    let mut bench = Bench::new();
    let trust = bench.trust(BASE, vault(0x77));
    assert_eq!(bench.world.run_refused(untrust()).code, Code::NothingFound);
    bench.world.lock();
    assert_eq!(bench.world.run_refused(trust.clone()).code, Code::WalletLocked);
    bench.world.unlock();
    bench.world.must(trust);
    bench.world.lock();
    assert_eq!(bench.world.must(untrust()).events.len(), 1);
    assert_eq!(bench.world.run_refused(untrust()).code, Code::NothingFound);
    bench.world.unlock();
    assert_eq!(bench.refuses(0, supply_with_trust(new_venue())), Code::VenueNotPermitted);
}

/// The operator cannot withdraw trust from a venue that Bursar itself trusts.
#[test]
fn a_curated_venue_cannot_be_untrusted() {
    let mut bench = Bench::new();
    bench.lends(0, supply_with_trust(Trust::Curated));
    assert_eq!(bench.world.run_refused(untrust()).code, Code::NothingFound);
}

/// Only an unlocked wallet can write a confirmation or a write-off into the journal.
#[test]
fn only_taking_trust_back_may_follow_a_seal() {
    let mut bench = Bench::new();
    let (chain, venue) = (BASE, vault(0x77));
    let follows = |bench: &Bench, event: Event| {
        let seq = bench.world.state.seq + 1;
        let entry = Entry { seq, at: bench.world.state.clock, event };
        may_follow_a_seal(&bench.world.state, &entry)
    };
    let (curator, owner) = (Some(CURATOR), Some(OWNER));
    let trusted = Event::VenueTrusted { chain, venue, curator, owner };
    let untrusted = Event::VenueUntrusted { chain, venue };
    assert!(!follows(&bench, trusted.clone()));
    assert!(!follows(&bench, untrusted.clone()), "there is nothing to take back");
    bench.world.must(bench.trust(BASE, vault(0x77)));
    assert!(!follows(&bench, trusted));
    assert!(follows(&bench, untrusted.clone()));
    assert!(!follows(&bench, Event::VenueUntrusted { chain: ROBINHOOD, venue }));
    bench.world.must(untrust());
    assert!(!follows(&bench, untrusted), "it is taken back");
    let place = supply(0).place(crate::support::build::address("main"));
    bench.lends(0, supply(40_000_000));
    let from = bench.world.state.loans.lent[&place].net;
    let loss = Event::LoanWrittenOff { place, from, to: bursar_core::money::Usd::ZERO };
    assert!(!follows(&bench, loss));
}
