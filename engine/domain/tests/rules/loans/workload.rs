//! Random histories. Picks are numbers, so that a history stays valid while proptest shrinks it.

use bursar_domain::plan::{PLAN_MS, StepPurpose};
use proptest::prelude::*;

use crate::loans::bench::Fate;
use crate::support::clock::{HOUR, MINUTE, SECOND};

/// The behaviour of the node that measures a loan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Whether the chain shows none of the positions.
    pub(crate) lies: bool,
    /// How many entries ago the measurement began.
    pub(crate) age: u64,
    /// How much less than its size a supply's simulation took, in micro-dollars.
    pub(crate) shortfall_micros: u64,
}

/// One step of a history. A number picks a request, an outbox or a place.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Supply {
        agent: usize,
        micros: u64,
        place_index: usize,
        reading: Reading,
    },
    Withdraw {
        agent: usize,
        micros: u64,
        place_index: usize,
    },
    Trade {
        agent: usize,
        micros: u64,
        on_base: bool,
    },
    Approve {
        pick: usize,
        reading: Reading,
    },
    Deny(usize),
    Open {
        pick: usize,
        purpose: StepPurpose,
        reading: Reading,
    },
    Price(usize),
    Sign(usize),
    Mine {
        pick: usize,
        fate: Fate,
    },
    Cancel(usize),
    /// The next action of the lane. `fate` is the outcome of its transaction; the receipt may or may not show the
    /// amount.
    Advance {
        pick: usize,
        fate: Fate,
        reading: Reading,
        shows_receipt: bool,
    },
    End(usize),
    Close(usize),
    /// The operator writes off a loss at a place. `left` is the part that is left, in thousandths.
    WriteOff {
        pick: usize,
        left: u64,
    },
    /// Maximum value that may be lent, in dollars.
    Limit(u32),
    Pass(i64),
    Tick,
    Freeze,
    Thaw,
    Suspend(usize),
    Resume(usize),
    Lock,
    Unlock,
    /// The engine is killed, and its state is rebuilt from the journal.
    Crash,
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let age = prop_oneof![12 => Just(0u64), 1 => 1u64..4, 2 => 4u64..40];
    let less = prop_oneof![3 => Just(0u64), 1 => 1u64..30_000];
    (prop::bool::weighted(0.3), age, less).prop_map(|(lies, age, less)| Reading {
        lies,
        age,
        shortfall_micros: less,
    })
}

fn any_request() -> impl Strategy<Value = Step> {
    let agent = 0..3usize;
    let at = 0..4usize;
    let micros = prop_oneof![
        1 => Just(1u64),
        6 => 1_000_000u64..49_999_999,
        3 => 50_000_000u64..=100_000_000,
        1 => Just(100_000_001u64),
    ];
    prop_oneof![
        10 => (agent.clone(), micros.clone(), at.clone(), any_reading())
            .prop_map(|(agent, micros, place_index, reading)| Step::Supply { agent, micros, place_index, reading }),
        6 => (agent.clone(), micros.clone(), at)
            .prop_map(|(agent, micros, place_index)| Step::Withdraw { agent, micros, place_index }),
        2 => (agent, micros, any::<bool>())
            .prop_map(|(agent, micros, on_base)| Step::Trade { agent, micros, on_base }),
    ]
}

fn any_plan_step() -> impl Strategy<Value = Step> {
    let pick = 0..8usize;
    let purpose = prop_oneof![
        2 => Just(StepPurpose::Allowance),
        1 => Just(StepPurpose::AllowanceReset),
        3 => Just(StepPurpose::Supply),
        2 => Just(StepPurpose::Withdrawal),
        2 => Just(StepPurpose::Revocation),
    ];
    let fate = || {
        prop_oneof![
            12 => Just(Fate::Succeeded),
            2 => Just(Fate::Reverted),
            1 => Just(Fate::NonceTaken),
        ]
    };
    prop_oneof![
        4 => (pick.clone(), purpose, any_reading())
            .prop_map(|(pick, purpose, reading)| Step::Open { pick, purpose, reading }),
        3 => pick.clone().prop_map(Step::Price),
        3 => pick.clone().prop_map(Step::Sign),
        5 => (pick.clone(), fate()).prop_map(|(pick, fate)| Step::Mine { pick, fate }),
        2 => pick.clone().prop_map(Step::Cancel),
        40 => (pick.clone(), fate(), any_reading(), prop::bool::weighted(0.8)).prop_map(
            |(pick, fate, reading, shows_receipt)| Step::Advance { pick, fate, reading, shows_receipt },
        ),
        1 => pick.clone().prop_map(Step::End),
        2 => pick.prop_map(Step::Close),
    ]
}

fn any_decision() -> impl Strategy<Value = Step> {
    let pick = 0..8usize;
    let agent = 0..3usize;
    prop_oneof![
        10 => (pick.clone(), any_reading())
            .prop_map(|(pick, reading)| Step::Approve { pick, reading }),
        1 => pick.clone().prop_map(Step::Deny),
        3 => (pick, 0u64..=1000).prop_map(|(pick, left)| Step::WriteOff { pick, left }),
        1 => prop_oneof![Just(150u32), Just(200), Just(250)].prop_map(Step::Limit),
        1 => Just(Step::Freeze),
        4 => Just(Step::Thaw),
        1 => agent.clone().prop_map(Step::Suspend),
        4 => agent.prop_map(Step::Resume),
        1 => Just(Step::Lock),
        6 => Just(Step::Unlock),
        1 => Just(Step::Crash),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![
        6 => 1i64..30 * SECOND,
        3 => Just(61 * SECOND),
        1 => PLAN_MS - 1..=PLAN_MS + 1,
        1 => 15 * MINUTE - 1..=15 * MINUTE + 1,
        1 => Just(12 * HOUR),
    ];
    prop_oneof![
        16 => any_request(),
        56 => any_plan_step(),
        18 => any_decision(),
        4 => pass.prop_map(Step::Pass),
        2 => Just(Step::Tick),
    ]
}

pub(crate) fn any_history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..90)
}
