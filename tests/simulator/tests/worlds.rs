//! Simulated worlds: a few hundred in every run of the tests, those that failed once before all others. The
//! simulator itself is tested too: it is the same world every time, and it finds what is planted in it.

use std::path::Path;

use bursar_simulator::{Plan, Plant, run, run_all, run_telling};

/// For each planted mistake a seed that finds it.
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
fn worlds_that_failed_once_keep_every_promise() {
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

/// The shortest plan that an engine failed which forgot such payments finds the mistake again.
#[test]
fn a_world_that_failed_once_fails_again_when_the_mistake_is_back() {
    let text = include_str!("../regressions/settled-late.json");
    let found = run(&Plan::read(text).expect("a plan"), Some(Plant::LateSettledForgotten));
    assert_eq!(found.expect_err("it is found").rule, "I-m");
}

#[test]
fn the_first_five_hundred_worlds_keep_every_promise() {
    let seeds: Vec<u64> = (0..500).collect();
    let (_coverage, failed) = run_all(&seeds, None);
    if let Some((seed, failure)) = failed.first_key_value() {
        let (rule, what) = (&failure.rule, &failure.what);
        panic!("seed {seed}: {rule}: {what}\nagain: cargo xtask sim --seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_world_every_time() {
    for seed in 0..40 {
        let told = || run_telling(&Plan::of(seed), None, true).expect("it passes").tail;
        let (first, second) = (told(), told());
        let other = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(other.is_none() && first.len() == second.len(), "seed {seed}: {other:?}");
    }
}

#[test]
fn every_planted_mistake_is_found() {
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
