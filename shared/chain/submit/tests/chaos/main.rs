//! Random inputs in random order, reorganizations, lying nodes and host crashes. No submission takes effect
//! twice, and nothing is broadcast before it is persisted. Once nodes are truthful, every submission ends and
//! no nonce gap remains.

#![expect(clippy::unwrap_used, reason = "helpers stand outside #[test]")]

mod net;
mod world;

use proptest::test_runner::{RngAlgorithm, TestRng};
use world::{Lies, World};

/// Number of steps in all runs together.
const STEPS: u64 = 1_000_000;
const STEPS_PER_RUN: u64 = 2_000;

#[test]
fn a_million_random_steps_pay_nothing_twice_and_leave_no_gap() {
    let runs = STEPS / STEPS_PER_RUN;
    let mut tally = world::Tally::default();
    for seed in 0..runs {
        let lies = match seed % 3 {
            0 => Lies::None,
            1 => Lies::NotAboutBlocks,
            _ => Lies::AboutAll,
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut world = World::new(rng, lies, seed);
        for _step in 0..STEPS_PER_RUN {
            world.chaos();
        }
        world.calm();
        tally.add(&world.tally);
    }
    // Fail if the runs did not reach every situation of the tally often enough.
    println!("{tally:#?}");
    tally.assert_covers();
}
