//! Simulated worlds: a few hundred in every run of the tests, those that failed once before all others. The
//! simulator itself is tested too: it is the same world every time, and it finds what is planted in it.

use bursar_simulator::{Plan, Plant, run, run_all, run_telling};

/// Seeds that failed once, each with a word about what was wrong. What a seed draws changes with the simulator:
/// what they found has a test of its own beside the code that was wrong.
const REGRESSIONS: &[u64] = &[];

/// For each planted mistake a seed that finds it.
const FOUND_BY: &[(Plant, u64)] = &[
    (Plant::SignedFirst, 57),
    (Plant::ForgottenSync, 0),
    (Plant::DoubleReturn, 4),
    (Plant::ThresholdIncluded, 8),
    (Plant::ExpiryLate, 22),
    (Plant::LazyAllowance, 214),
    (Plant::IdentitiesInMemory, 14),
    (Plant::FreezeIgnored, 37),
    (Plant::NonceReused, 8),
    (Plant::LimitReadOutside, 10),
    (Plant::ReplayByOrder, 3),
    (Plant::DeniedNotReturned, 4),
    (Plant::KeyUnbound, 6),
    (Plant::BootClockIgnored, 60),
    (Plant::CommissionRenews, 8),
    (Plant::DenialForgotten, 10),
    (Plant::CarriedUncounted, 297),
    (Plant::OtherUrlUnjudged, 5),
    (Plant::ValidityFromAsk, 8),
    (Plant::OldLimitApproved, 363),
];

#[test]
fn worlds_that_failed_once_and_the_first_five_hundred_keep_every_promise() {
    let seeds: Vec<u64> = REGRESSIONS.iter().copied().chain(0..500).collect();
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
