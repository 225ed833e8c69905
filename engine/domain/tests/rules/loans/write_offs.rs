//! Losses that the operator writes off. Without a receipt, nothing else lowers the amount that the journal expects.

use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_domain::Event;
use bursar_domain::loans::LoanPlace;
use bursar_domain::plan::StepPurpose;

use crate::loans::asks::{ROBINHOOD, loan_at, supply, vault, withdrawal};
use crate::loans::bench::{Bench, Fate};
use crate::support::build;

fn place() -> LoanPlace {
    supply(0).place(build::address("main"))
}

#[test]
fn a_write_off_lowers_only_its_place_to_the_given_amount() {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    bench.lends(1, loan_at(ROBINHOOD, vault(0x31), supply(30_000_000)));
    bench.lends(2, supply(20_000_000));
    let decision = bench.write_off(place(), 15_000_000).unwrap();
    let (from, to) = (Usd(40_000_000), Usd(15_000_000));
    assert_eq!(decision.events, [Event::LoanWrittenOff { place: place(), from, to }]);
    assert_eq!((bench.lent(&place()), bench.deployed("main")), (15_000_000, 45_000_000));
    assert_eq!(bench.deployed("spare"), 20_000_000);
    for (to, refused) in [(15_000_001, true), (15_000_000, true), (14_999_999, false)] {
        match bench.write_off(place(), to) {
            Err(refusal) => assert!(refused && refusal.code == Code::NothingFound, "{to}"),
            Ok(_booked) => assert!(!refused, "{to}"),
        }
    }
    bench.write_off(place(), 0).unwrap();
    assert_eq!(bench.lent(&place()), 0);
    let unknown = LoanPlace { venue: vault(0x99), ..place() };
    assert_eq!(bench.write_off(unknown, 0).unwrap_err().code, Code::NothingFound);
    // The place stays in the journal, so the venue is still read.
    assert!(bench.world.state.loans.lent.contains_key(&place()));
}

#[test]
fn a_write_off_needs_an_open_wallet_and_its_own_journal() {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    bench.world.lock();
    assert_eq!(bench.write_off(place(), 0).unwrap_err().code, Code::WalletLocked);
    bench.world.unlock();
    bench.world.trusted = false;
    assert_eq!(bench.write_off(place(), 0).unwrap_err().code, Code::JournalUntrusted);
    bench.world.trusted = true;
    bench.write_off(place(), 0).unwrap();
}

/// Money that a withdrawal in flight will return is not a loss. If it were written off, it would be subtracted twice.
#[test]
fn a_write_off_waits_for_the_loans_in_flight_at_its_place() {
    for (loan, purpose) in [
        (supply(30_000_000), StepPurpose::Supply),
        (withdrawal(30_000_000), StepPurpose::Withdrawal),
    ] {
        let mut bench = Bench::new();
        bench.lends(0, supply(40_000_000));
        let place = place();
        let held = bench.holds(0, withdrawal(60_000_000));
        bench.write_off(place, 39_000_000).expect("a held request moves nothing");
        bench.world.deny(held).unwrap();
        let id = bench.starts(1, loan);
        bench.opens(id, purpose);
        assert_eq!(bench.write_off(place, 9_000_000).unwrap_err().code, Code::Busy);
        bench.signs(id);
        assert_eq!(bench.write_off(place, 9_000_000).unwrap_err().code, Code::Busy);
        bench.finish(id, Fate::Succeeded);
        let before = bench.lent(&place);
        assert_eq!(bench.write_off(place, 9_000_000).unwrap_err().code, Code::Busy);
        bench.end_executed(id, Some(30_000_000));
        let after = if purpose == StepPurpose::Supply { before } else { before - 30_000_000 };
        assert_eq!(bench.lent(&place), after);
        bench.write_off(place, 1_000_000).unwrap();
        assert_eq!(bench.lent(&place), 1_000_000);
    }
    // Loans at other places do not matter.
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    bench.starts(0, loan_at(ROBINHOOD, vault(0x31), supply(30_000_000)));
    bench.starts(2, supply(30_000_000));
    bench.write_off(place(), 0).unwrap();
}
