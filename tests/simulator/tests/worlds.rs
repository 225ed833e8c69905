//! Simulated worlds in every test run: those that failed once, and the first few hundred seeds.
//!
//! The tests also check the simulator: a seed always gives the same world, and every planted bug is found.

use std::path::Path;

use bursar_simulator::{Plan, PlantedBug, run, run_all, run_with_tail};

/// For each planted bug, a seed whose world finds it.
const FINDING_SEEDS: &[(PlantedBug, u64)] = &[
    (PlantedBug::SignedFirst, 2),
    (PlantedBug::ForgottenSync, 0),
    (PlantedBug::DoubleReturn, 0),
    (PlantedBug::ThresholdIncluded, 0),
    (PlantedBug::UnattendedUnlimited, 51),
    (PlantedBug::UnattendedAgain, 131),
    (PlantedBug::ExpiryLate, 67),
    (PlantedBug::LazyAllowance, 106),
    (PlantedBug::IdentitiesInMemory, 4),
    (PlantedBug::FreezeIgnored, 43),
    (PlantedBug::NonceReused, 10),
    (PlantedBug::LimitReadOutside, 15),
    (PlantedBug::ReplayByOrder, 0),
    (PlantedBug::DeniedNotReturned, 1),
    (PlantedBug::KeyUnbound, 5),
    (PlantedBug::BootClockIgnored, 57),
    (PlantedBug::CommissionRenews, 122),
    (PlantedBug::DenialForgotten, 49),
    (PlantedBug::CarriedUncounted, 1450),
    (PlantedBug::OtherUrlUnjudged, 37),
    (PlantedBug::ValidityFromAsk, 0),
    (PlantedBug::NeverFlushed, 78),
    (PlantedBug::LateSettledForgotten, 52),
    (PlantedBug::ForgottenByTheClock, 264),
    (PlantedBug::OldLimitApproved, 471),
    (PlantedBug::RehearsalIgnored, 40),
    (PlantedBug::PriceTooOld, 12),
    (PlantedBug::FloorFromFresh, 1520),
    (PlantedBug::SlippageTwice, 4),
    (PlantedBug::VolumeTwice, 1018),
    (PlantedBug::VolumeOfDisplaced, 103),
    (PlantedBug::SwapAfterThaw, 12),
    (PlantedBug::AllowanceShared, 306),
    (PlantedBug::SwapBeforeApproval, 4),
    (PlantedBug::UnlimitedApproval, 4),
    (PlantedBug::ImpactByDust, 142),
    (PlantedBug::ValueByOutput, 7),
    (PlantedBug::FillFromQuote, 317),
    (PlantedBug::HookAutomatic, 141),
    (PlantedBug::RepeatExecuted, 136),
    (PlantedBug::FailuresUncounted, 22),
    (PlantedBug::FeeUncounted, 199),
    (PlantedBug::LocalDeadline, 64),
    (PlantedBug::FloorWithoutGas, 915),
    (PlantedBug::CeilingIgnored, 5),
    (PlantedBug::DepositUnlimited, 13),
    (PlantedBug::ComingLoansForgotten, 5),
    (PlantedBug::UntrustedVenue, 0),
    (PlantedBug::WithdrawalLimited, 270),
    (PlantedBug::ExposureCached, 77),
    (PlantedBug::UnreadableIgnored, 313),
    (PlantedBug::JournalIgnored, 118),
    (PlantedBug::InterestForgotten, 77),
    (PlantedBug::CuratorAlone, 0),
    (PlantedBug::GatesUnread, 468),
    (PlantedBug::MaxBelieved, 5),
    (PlantedBug::ExitByAssets, 0),
    (PlantedBug::LoanFreedEarly, 1093),
    (PlantedBug::FreesTwice, 116),
    (PlantedBug::AdapterApproved, 5),
    (PlantedBug::LoanUnlimited, 0),
    (PlantedBug::StaleCard, 67),
    (PlantedBug::RehearsalReused, 744),
    (PlantedBug::DeniedPressCounts, 56),
    (PlantedBug::SignedBySoftware, 2),
    (PlantedBug::LapseForgotten, 19),
    (PlantedBug::NotDerived, 36),
    (PlantedBug::OtherTermsAgain, 447),
    (PlantedBug::PressedAgain, 570),
    (PlantedBug::UnreadFreed, 616),
    (PlantedBug::SuppliedAgain, 52),
    (PlantedBug::LostMethodKept, 301),
    (PlantedBug::KeylessRepeated, 11),
    (PlantedBug::StepChanged, 2),
    (PlantedBug::DeniedStillAsked, 36),
    (PlantedBug::SwapAskedAgain, 36),
    (PlantedBug::UnprovenBackwards, 675),
    (PlantedBug::DisabledSigned, 0),
    (PlantedBug::EditionUnread, 1),
    (PlantedBug::AllowanceLeft, 128),
];

#[test]
fn regression_plans_pass_the_auditor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
        let name = entry.file_name();
        let text = std::fs::read_to_string(entry.path()).expect("a text");
        let plan = Plan::read(&text).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(plan.text(), text, "{name:?} is not in the format of reported plans");
        if let Err(failure) = run(&plan, None) {
            panic!("{name:?}: {}: {}", failure.rule, failure.description);
        }
        played += 1;
    }
    assert!(played > 0);
}

/// The shortest plan that failed because of a real bug. It must fail again when that bug is planted.
#[test]
fn regression_plan_fails_again_when_its_bug_is_planted() {
    let text = include_str!("../regressions/settled-late.json");
    let found = run(&Plan::read(text).expect("a plan"), Some(PlantedBug::LateSettledForgotten));
    assert_eq!(found.expect_err("it is found").rule, "I-m");
}

#[test]
fn first_five_hundred_worlds_pass_the_auditor() {
    let seeds: Vec<u64> = (0..500).collect();
    let (_coverage, failed) = run_all(&seeds, Plan::of, None);
    if let Some((seed, failure)) = failed.first_key_value() {
        let (rule, description) = (&failure.rule, &failure.description);
        panic!("seed {seed}: {rule}: {description}\nreproduce: cargo xtask sim --seed {seed}");
    }
}

#[test]
fn a_seed_always_gives_the_same_world() {
    for seed in 0..40 {
        let tail_of_run = || run_with_tail(&Plan::of(seed), None, true).expect("it passes").tail;
        let (first, second) = (tail_of_run(), tail_of_run());
        let other = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(other.is_none() && first.len() == second.len(), "seed {seed}: {other:?}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let missing: Vec<_> = PlantedBug::ALL
        .iter()
        .filter(|plant| !FINDING_SEEDS.iter().any(|(known, _seed)| known == *plant))
        .collect();
    assert!(missing.is_empty(), "no seed finds {missing:?}");
    let lost =
        FINDING_SEEDS.iter().filter(|(plant, seed)| run(&plant.plan(*seed), Some(*plant)).is_ok());
    let lost: Vec<_> = lost.collect();
    assert!(lost.is_empty(), "these seeds find nothing: {lost:?}");
}
