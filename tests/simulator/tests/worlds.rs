//! Simulated worlds: those that failed once, and the first few hundred seeds, in every test run.
//!
//! The simulator itself is tested too: a seed always gives the same world, and every planted bug is found.

use std::path::Path;

use bursar_simulator::{Plan, Plant, run, run_all, run_telling};

/// A seed for each planted bug that finds it.
const FOUND_BY: &[(Plant, u64)] = &[
    (Plant::SignedFirst, 57),
    (Plant::ForgottenSync, 0),
    (Plant::DoubleReturn, 0),
    (Plant::ThresholdIncluded, 0),
    (Plant::ExpiryLate, 15),
    (Plant::LazyAllowance, 106),
    (Plant::IdentitiesInMemory, 14),
    (Plant::FreezeIgnored, 229),
    (Plant::NonceReused, 10),
    (Plant::LimitReadOutside, 15),
    (Plant::ReplayByOrder, 0),
    (Plant::DeniedNotReturned, 1),
    (Plant::KeyUnbound, 5),
    (Plant::BootClockIgnored, 11),
    (Plant::CommissionRenews, 24),
    (Plant::DenialForgotten, 49),
    (Plant::CarriedUncounted, 1450),
    (Plant::OtherUrlUnjudged, 36),
    (Plant::ValidityFromAsk, 21),
    (Plant::NeverFlushed, 37),
    (Plant::LateSettledForgotten, 52),
    (Plant::ForgottenByTheClock, 264),
    (Plant::OldLimitApproved, 471),
];

#[test]
fn regression_plans_pass_the_auditor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
        let name = entry.file_name();
        let text = std::fs::read_to_string(entry.path()).expect("a text");
        let plan = Plan::read(&text).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(plan.text(), text, "{name:?} is written as failures are told");
        if let Err(failure) = run(&plan, None) {
            panic!("{name:?}: {}: {}", failure.rule, failure.what);
        }
        played += 1;
    }
    assert!(played > 0);
}

/// The shortest plan that failed before the bug was fixed finds the bug again when it is planted.
#[test]
fn regression_plan_fails_again_when_its_bug_is_planted() {
    let text = include_str!("../regressions/settled-late.json");
    let found = run(&Plan::read(text).expect("a plan"), Some(Plant::LateSettledForgotten));
    assert_eq!(found.expect_err("it is found").rule, "I-m");
}

#[test]
fn first_five_hundred_worlds_pass_the_auditor() {
    let seeds: Vec<u64> = (0..500).collect();
    let (_coverage, failed) = run_all(&seeds, None);
    if let Some((seed, failure)) = failed.first_key_value() {
        let (rule, what) = (&failure.rule, &failure.what);
        panic!("seed {seed}: {rule}: {what}\nagain: cargo xtask sim --seed {seed}");
    }
}

#[test]
fn a_seed_always_gives_the_same_world() {
    for seed in 0..40 {
        let told = || run_telling(&Plan::of(seed), None, true).expect("it passes").tail;
        let (first, second) = (told(), told());
        let other = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(other.is_none() && first.len() == second.len(), "seed {seed}: {other:?}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let missing: Vec<_> = Plant::ALL
        .iter()
        .filter(|plant| !FOUND_BY.iter().any(|(known, _seed)| known == *plant))
        .collect();
    assert!(missing.is_empty(), "no seed finds {missing:?}");
    for (plant, seed) in FOUND_BY {
        let found = run(&Plan::of(*seed), Some(*plant));
        assert!(found.is_err(), "{} is not found by seed {seed} any more", plant.name());
    }
}
