//! Random histories. Picks are numbers, so that a history stays valid while proptest shrinks it.

use bursar_domain::plan::{PLAN_MS, StepPurpose};
use proptest::prelude::*;

use crate::support::clock::{HOUR, MINUTE, SECOND};
use crate::trades::bench::Fate;

/// One step of a history. A number picks a request or an outbox.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Ask {
        agent: usize,
        micros: u64,
        on_base: bool,
        is_listed_token: bool,
    },
    /// `quote` is in thousandths of the requested output and value.
    Approve {
        pick: usize,
        quote: u64,
    },
    Deny(usize),
    Open {
        pick: usize,
        purpose: StepPurpose,
        quote: u64,
        stale: bool,
    },
    /// Orders a permit, and records its signature or leaves it unsigned.
    Permit {
        pick: usize,
        quote: u64,
        signs: bool,
    },
    Price(usize),
    Sign(usize),
    Mine {
        pick: usize,
        fate: Fate,
    },
    Cancel(usize),
    Probe(usize),
    /// The next action of the lane. `fate` is the outcome of its transaction.
    Advance {
        pick: usize,
        fate: Fate,
    },
    End(usize),
    Close(usize),
    Pass(i64),
    Tick,
    Freeze,
    Thaw,
    Suspend(usize),
    Resume(usize),
    Lock,
    Unlock,
    Crash,
}

fn any_step() -> impl Strategy<Value = Step> {
    let pick = 0..8usize;
    let agent = 0..3usize;
    let purpose = prop_oneof![
        3 => Just(StepPurpose::Allowance),
        1 => Just(StepPurpose::AllowanceReset),
        4 => Just(StepPurpose::Swap),
        2 => Just(StepPurpose::Revocation),
    ];
    let fate = || {
        prop_oneof![
            8 => Just(Fate::Succeeded),
            2 => Just(Fate::Reverted),
            1 => Just(Fate::NonceTaken),
        ]
    };
    let micros = prop_oneof![
        1 => Just(0u64),
        6 => 1u64..49_999_999,
        4 => 50_000_000u64..=100_000_000,
        1 => Just(100_000_001u64),
    ];
    let per_mille = || prop_oneof![4 => Just(1000u64), 2 => 980u64..1020, 1 => 1u64..3000];
    let pass = prop_oneof![
        6 => 1i64..30 * SECOND,
        3 => Just(61 * SECOND),
        2 => PLAN_MS - 1..=PLAN_MS + 1,
        1 => 15 * MINUTE - 1..=15 * MINUTE + 1,
        1 => HOUR..13 * HOUR,
    ];
    prop_oneof![
        12 => (agent.clone(), micros, any::<bool>(), prop::bool::weighted(0.9))
            .prop_map(|(agent, micros, on_base, is_listed_token)| Step::Ask { agent, micros, on_base, is_listed_token }),
        5 => (pick.clone(), per_mille()).prop_map(|(pick, quote)| Step::Approve { pick, quote }),
        1 => pick.clone().prop_map(Step::Deny),
        8 => (pick.clone(), purpose, per_mille(), prop::bool::weighted(0.1)).prop_map(
            |(pick, purpose, quote, stale)| Step::Open { pick, purpose, quote, stale },
        ),
        3 => (pick.clone(), per_mille(), any::<bool>())
            .prop_map(|(pick, quote, signs)| Step::Permit { pick, quote, signs }),
        4 => pick.clone().prop_map(Step::Price),
        4 => pick.clone().prop_map(Step::Sign),
        6 => (pick.clone(), fate()).prop_map(|(pick, fate)| Step::Mine { pick, fate }),
        2 => pick.clone().prop_map(Step::Cancel),
        1 => pick.clone().prop_map(Step::Probe),
        24 => (pick.clone(), fate()).prop_map(|(pick, fate)| Step::Advance { pick, fate }),
        1 => pick.clone().prop_map(Step::End),
        1 => pick.prop_map(Step::Close),
        5 => pass.prop_map(Step::Pass),
        2 => Just(Step::Tick),
        1 => Just(Step::Freeze),
        3 => Just(Step::Thaw),
        1 => agent.clone().prop_map(Step::Suspend),
        3 => agent.prop_map(Step::Resume),
        1 => Just(Step::Lock),
        4 => Just(Step::Unlock),
        1 => Just(Step::Crash),
    ]
}

pub(crate) fn any_history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..80)
}
