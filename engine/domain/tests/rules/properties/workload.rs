//! The steps of a history: agents make and repeat requests, the operator decides and changes policies, clocks move.

use proptest::prelude::*;
use proptest::sample::select;

use crate::properties::rules::{URLS, VARIANTS};
use crate::support::clock::{DAY, HOUR, MINUTE, SECOND};

#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) agents: usize,
    pub(crate) zone: &'static str,
    /// Whether the history starts at a local midnight.
    pub(crate) from_midnight: bool,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Ask {
        agent: usize,
        choice: PaymentChoice,
        key: Option<u8>,
        repeat: Option<u8>,
    },
    /// `asks` small payments, each of which must be held.
    Flood {
        agent: usize,
        asks: usize,
    },
    Approve {
        pick: Pick,
        shown: CardChoice,
    },
    /// The policy changes while a request is held, and the operator approves the new card.
    SecondLook {
        pick: Pick,
        variant: usize,
    },
    Deny {
        pick: Pick,
    },
    Signed {
        pick: Pick,
    },
    Tick,
    Reissue,
    Pass(i64),
    /// Time passes until this many milliseconds after the next local midnight.
    Midnight(i64),
    SetClock(i64),
    Reboot(i64),
    Zone(&'static str),
    /// How far the newest block is behind the clock, in milliseconds; `None` if no block is known.
    Block(Option<i64>),
    Edit {
        policy: usize,
        variant: usize,
    },
    Commission {
        agent: usize,
        policy: usize,
        to_spare_address: bool,
    },
    Suspend(usize),
    Resume(usize),
    Renew(usize),
    Freeze,
    Thaw,
    Lock,
    Unlock,
    /// The wallet finds that the journal does not match it.
    Distrust,
    AcceptJournal,
    Network(bool),
}

/// A payment. Its amount depends on the limits at the time of the request.
#[derive(Debug, Clone)]
pub(crate) struct PaymentChoice {
    pub(crate) size: Size,
    pub(crate) oddity: Oddity,
    pub(crate) request_url: Option<&'static str>,
    pub(crate) resource_url: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    Micros(u64),
    /// Offset from the automatic limit.
    Threshold(i64),
    /// Offset from the largest payment per request.
    PerRequest(i64),
    /// Offset from the day's remaining amount.
    Left(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oddity {
    None,
    Contradicted,
    Lasting(u64),
    ToNobody,
    ToTheAddress(&'static str),
}

/// A request, picked by its index among the held requests or among all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) index: u8,
    pub(crate) among_held: bool,
}

/// The card on which an approval is given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CardChoice {
    Current,
    AtArrival,
    Invalid,
}

const ZONES: [&str; 5] =
    ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Australia/Lord_Howe"];

fn any_payment_choice() -> impl Strategy<Value = PaymentChoice> {
    let near = || prop_oneof![3 => -1i64..=1, 1 => -2_000_000i64..2_000_000];
    let size = prop_oneof![
        3 => (0u64..9_000_000).prop_map(Size::Micros),
        2 => (1u64..4).prop_map(|cents| Size::Micros(cents * 10_000)),
        3 => near().prop_map(Size::Threshold),
        2 => near().prop_map(Size::PerRequest),
        3 => near().prop_map(Size::Left),
    ];
    let oddity = prop_oneof![
        16 => Just(Oddity::None),
        1 => Just(Oddity::Contradicted),
        1 => select(&[0, 29, 3600, 3601, 86_400][..]).prop_map(Oddity::Lasting),
        1 => Just(Oddity::ToNobody),
        1 => select(&["main", "spare"][..]).prop_map(Oddity::ToTheAddress),
    ];
    let url = || {
        let urls: Vec<_> = URLS.iter().map(|(url, _host)| *url).collect();
        prop_oneof![1 => Just(None), 4 => select(urls).prop_map(Some)]
    };
    (size, oddity, url(), url()).prop_map(|(size, oddity, request_url, resource_url)| {
        PaymentChoice { size, oddity, request_url, resource_url }
    })
}

fn any_pick() -> impl Strategy<Value = Pick> {
    (any::<u8>(), prop::bool::weighted(0.85))
        .prop_map(|(place, waiting)| Pick { index: place, among_held: waiting })
}

fn any_card_choice() -> impl Strategy<Value = CardChoice> {
    prop_oneof![
        6 => Just(CardChoice::Current),
        3 => Just(CardChoice::AtArrival),
        1 => Just(CardChoice::Invalid),
    ]
}

/// Time spans around the limits: within a validity, around 15 minutes, around 20 hours, beyond a day.
///
/// With `short` spans, more requests are held at the same time.
fn any_time_span(short: bool) -> BoxedStrategy<i64> {
    if short {
        return prop_oneof![3 => 0..90 * SECOND, 1 => 0..15 * MINUTE].boxed();
    }
    prop_oneof![
        4 => 0..90 * SECOND,
        4 => select(&[15 * MINUTE - 1, 15 * MINUTE, 15 * MINUTE + 1][..]),
        3 => 0..40 * MINUTE,
        3 => 0..8 * HOUR,
        2 => 19 * HOUR..26 * HOUR,
        1 => 0..4 * DAY,
    ]
    .boxed()
}

fn agent_steps(agents: usize) -> BoxedStrategy<Step> {
    let key = || prop::option::weighted(0.3, 0u8..3);
    let repeat = || prop::option::weighted(0.3, 0u8..5);
    prop_oneof![
        40 => (0..agents, any_payment_choice(), key(), repeat())
            .prop_map(|(agent, choice, key, repeat)| Step::Ask { agent, choice, key, repeat }),
        1 => (0..agents, 18..22usize).prop_map(|(agent, asks)| Step::Flood { agent, asks }),
    ]
    .boxed()
}

fn decision_steps() -> BoxedStrategy<Step> {
    prop_oneof![
        6 => (any_pick(), any_card_choice()).prop_map(|(pick, shown)| Step::Approve { pick, shown }),
        2 => (any_pick(), 0..VARIANTS.len())
            .prop_map(|(pick, variant)| Step::SecondLook { pick, variant }),
        2 => any_pick().prop_map(|pick| Step::Deny { pick }),
        3 => any_pick().prop_map(|pick| Step::Signed { pick }),
        2 => Just(Step::Reissue),
        3 => Just(Step::Tick),
    ]
    .boxed()
}

fn policy_steps() -> BoxedStrategy<Step> {
    (0..2usize, 0..VARIANTS.len())
        .prop_map(|(policy, variant)| Step::Edit { policy, variant })
        .boxed()
}

fn operator_steps(agents: usize) -> BoxedStrategy<Step> {
    let agent = move || 0..agents;
    prop_oneof![
        6 => policy_steps(),
        3 => (agent(), 0..2usize, any::<bool>())
            .prop_map(|(agent, policy, to_spare_address)| Step::Commission { agent, policy, to_spare_address }),
        1 => agent().prop_map(Step::Suspend),
        3 => agent().prop_map(Step::Resume),
        2 => agent().prop_map(Step::Renew),
        1 => Just(Step::Freeze),
        3 => Just(Step::Thaw),
        1 => Just(Step::Lock),
        3 => Just(Step::Unlock),
        1 => Just(Step::Distrust),
        3 => Just(Step::AcceptJournal),
        1 => Just(Step::Network(false)),
        3 => Just(Step::Network(true)),
    ]
    .boxed()
}

fn clock_steps(short: bool) -> BoxedStrategy<Step> {
    prop_oneof![
        8 => any_time_span(short).prop_map(Step::Pass),
        2 => midnight_step(),
        2 => (-2 * DAY..2 * DAY).prop_map(Step::SetClock),
        1 => any_time_span(short).prop_map(|back| Step::SetClock(-back)),
        1 => any_time_span(short).prop_map(Step::Reboot),
        1 => select(&ZONES[..]).prop_map(Step::Zone),
        1 => prop::option::of(-HOUR..2 * HOUR).prop_map(Step::Block),
    ]
    .boxed()
}

/// The date changes while requests are held.
fn midnight_step() -> BoxedStrategy<Step> {
    prop_oneof![1 => select(&[-1, 0, 1][..]), 2 => -10 * MINUTE..10 * MINUTE]
        .prop_map(Step::Midnight)
        .boxed()
}

/// Any steps. Each history prefers some kinds of steps.
pub(crate) fn any_history() -> impl Strategy<Value = History> {
    let mood = (any::<bool>(), select(&[1u32, 6][..]), select(&[1u32, 4][..]));
    (1..=3usize, select(&ZONES[..]), mood).prop_flat_map(|(agents, zone, mood)| {
        let (short, operator, clock) = mood;
        let step = prop_oneof![
            10 => agent_steps(agents),
            6 => decision_steps(),
            operator => operator_steps(agents),
            clock => clock_steps(short),
        ];
        prop::collection::vec(step, 1..=120).prop_map(move |steps| History {
            agents,
            zone,
            from_midnight: false,
            steps,
        })
    })
}

/// Histories with honest clocks: time passes and the machine reboots, but no clock is set.
pub(crate) fn honest_history() -> impl Strategy<Value = History> {
    (1..=2usize, select(&ZONES[..])).prop_flat_map(|(agents, zone)| {
        let step = prop_oneof![
            10 => agent_steps(agents),
            5 => decision_steps(),
            1 => policy_steps(),
            4 => any_time_span(false).prop_map(Step::Pass),
            1 => midnight_step(),
            1 => (0..20 * MINUTE).prop_map(Step::Reboot),
        ];
        prop::collection::vec(step, 1..=120).prop_map(move |steps| History {
            agents,
            zone,
            from_midnight: true,
            steps,
        })
    })
}
