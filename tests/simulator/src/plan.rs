//! From a seed to what will happen. A step names what it works on by its place in a list that grows while the
//! world runs, so that steps can be left out and the others still mean something.

use bursar_engine::edition::{Edition, Retention};
use bursar_tests::dice::Dice;
use bursar_tests::engine::test_edition;
use serde::{Deserialize, Serialize};

/// A place in a list of whatever length it will have: the newest are the likeliest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pick(pub u64);

impl Pick {
    pub(crate) fn of(self, length: usize) -> Option<usize> {
        if length == 0 {
            return None;
        }
        let recent = length.min(6);
        let from = if self.0.is_multiple_of(4) { 0 } else { length - recent };
        Some(from + usize::try_from(self.0 / 4).unwrap_or(0) % (length - from))
    }
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    Micros(u64),
    /// Off the threshold.
    Threshold(i64),
    /// Off the largest payment.
    Largest(i64),
    /// Off what the day has left.
    Left(i64),
}

/// What an agent wants to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    pub agent: Pick,
    pub size: Size,
    pub request_url: Option<usize>,
    pub resource_url: Option<usize>,
    pub chain: usize,
    pub version: u8,
    pub timeout_s: Option<u64>,
    pub oddity: Oddity,
    pub key: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Oddity {
    None,
    /// Another token than the stablecoin.
    Token,
    /// Another domain than the table's.
    Contradicts,
    ToNobody,
    ToItself,
    ToTheToken,
    OtherScheme,
    OtherMethod,
    /// An offer on an unknown chain comes first.
    SecondOffer,
}

/// What is wrong with a repeated or forged call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Twist {
    None,
    /// With the same words, and a new signature where there is one.
    SignedAgain,
    OtherUrl(usize),
    OtherKey(u8),
    WrongProof,
    Stale,
    NobodysName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    Now,
    /// As some operator saw it earlier.
    Before(Pick),
    /// Whatever it is: the order asks for the card itself.
    Unnamed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Ask(Wish),
    Repeat {
        pick: Pick,
        twist: Twist,
    },
    /// Copies of one ask, all at once.
    Copies {
        wish: Wish,
        count: u8,
    },
    /// Many asks at once.
    Crowd {
        wish: Wish,
        count: u8,
    },
    Poll {
        pick: Pick,
    },
    Standing {
        agent: Pick,
    },
    Report {
        pick: Pick,
        event: u8,
        hash: u8,
        agent: Option<Pick>,
    },
    /// A payment that is reported when it was asked for again.
    Belated {
        wish: Wish,
        pick: Pick,
    },
    /// A facilitator puts a payment on the chain.
    Redeem {
        pick: Pick,
    },
    List,
    Approve {
        pick: Pick,
        shown: Shown,
    },
    Deny {
        pick: Pick,
    },
    /// What follows is not waited for: the next step comes while it is open.
    Together,
    Open {
        right: bool,
    },
    Lock,
    Freeze,
    Thaw {
        right: bool,
    },
    EditPolicy {
        which: usize,
        variant: usize,
    },
    CreatePolicy {
        which: usize,
        variant: usize,
    },
    DeletePolicy {
        which: usize,
    },
    Register {
        bearer: bool,
        name: usize,
    },
    ReplaceToken {
        agent: Pick,
    },
    Commission {
        agent: Pick,
        policy: usize,
        label: usize,
    },
    Suspend {
        agent: Pick,
    },
    Resume {
        agent: Pick,
    },
    Renew {
        agent: Pick,
    },
    DeleteAgent {
        agent: Pick,
    },
    AddAddress {
        label: usize,
    },
    RenameAddress {
        label: usize,
        to: usize,
    },
    DeleteAddress {
        label: usize,
    },
    Network {
        chain: usize,
        on: bool,
    },
    MaxValidity {
        seconds: u64,
    },
    Pass {
        ms: u64,
    },
    /// To the last millisecond before the oldest hold ends, or to it, or beyond.
    ToExpiry {
        off_ms: i64,
    },
    /// To the next local midnight.
    ToMidnight {
        off_ms: i64,
    },
    SetClock {
        ms: i64,
    },
    /// The clock shows the right time again.
    RightClock,
    Zone {
        which: usize,
    },
    Sleep {
        ms: u64,
    },
    Reboot,
    Block {
        ms: Option<i64>,
    },
    Restart,
    Crash,
    /// Dies at a point, the nth time that it is reached from here.
    CrashAt {
        point: usize,
        after: u32,
    },
    DiskFails {
        after: u32,
        written: bool,
    },
    SlowSigner {
        slow: bool,
    },
    Release {
        agreed: bool,
    },
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        impl Step {
            pub const KINDS: &'static [&'static str] = &[$(stringify!($kind),)*];

            pub fn kind(&self) -> &'static str {
                match self { $(Step::$kind { .. } => stringify!($kind),)* }
            }
        }
    };
}

kinds! {
    Ask Repeat Copies Crowd Poll Standing Report Belated Redeem List Approve Deny Together Open Lock Freeze Thaw
    EditPolicy CreatePolicy DeletePolicy Register ReplaceToken Commission Suspend Resume Renew DeleteAgent
    AddAddress RenameAddress DeleteAddress Network MaxValidity Pass ToExpiry ToMidnight SetClock RightClock Zone
    Sleep
    Reboot Block Restart Crash CrashAt DiskFails SlowSigner Release
}

/// The points at which a process may die.
pub(crate) const POINTS: [&str; 8] = [
    "disk.before_flush",
    "disk.after_flush",
    "journal.before_commit",
    "journal.before_sync",
    "journal.after_commit",
    "sign.before",
    "sign.after",
    "reply.before",
];

macro_rules! swarm {
    ($($field:ident)*) => {
        /// Which kinds of trouble a run knows at all. Half of the runs know each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct Swarm { $(pub $field: bool,)* }

        impl Swarm {
            pub(crate) fn draw(dice: &mut Dice) -> Self {
                Self { $($field: dice.chance(1, 2),)* }
            }

            /// What is on, by name.
            pub fn on(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$field { names.push(stringify!($field)); })*
                names
            }

            pub const NAMES: &'static [&'static str] = &[$(stringify!($field),)*];
        }
    };
}

swarm! { crashes restarts disk clocks zones sleeps slow_signer locks freezes edits crowds together blocks eager sectors long }

/// Bounds of the journal. Production has constants, which a world of a few hundred entries would never reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Days for which a signed request is remembered.
    pub signed_days: i64,
    /// Bytes after which rows are carried over to the history.
    pub carry_bytes: usize,
}

impl Bounds {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Self {
            snapshot_every: 5 + dice.roll(46),
            signed_days: dice.of(&[1, 2, 3, 7, 30]),
            carry_bytes: dice.of(&[1, 3_000, 12_000, 40_000]),
        }
    }

    /// As every process of this world has them.
    pub(crate) fn edition(self) -> Edition {
        let Self { snapshot_every, signed_days, .. } = self;
        Edition { retention: Retention { snapshot_every, signed_days }, ..test_edition() }
    }
}

/// A whole run. As JSON it is kept when it failed once, and read back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub swarm: Swarm,
    pub bounds: Bounds,
    /// The journal is replayed after every step, and not only now and then.
    pub watchful: bool,
    pub steps: Vec<Step>,
}

impl Plan {
    /// As JSON with a step on each line.
    pub fn text(&self) -> String {
        let json = |value: serde_json::Result<String>| value.expect("plain data");
        let steps: Vec<_> =
            self.steps.iter().map(|step| json(serde_json::to_string(step))).collect();
        let (seed, watchful) = (self.seed, self.watchful);
        let swarm = json(serde_json::to_string(&self.swarm));
        let bounds = json(serde_json::to_string(&self.bounds));
        let steps = steps.join(",\n");
        format!(
            "{{\"seed\":{seed},\"watchful\":{watchful},\n\"swarm\":{swarm},\n\"bounds\":{bounds},\n\"steps\":[\n{steps}\n]}}\n"
        )
    }

    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

pub(crate) const ZONES: [&str; 13] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Kiritimati",
    "Pacific/Honolulu",
    "Asia/Tokyo",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Pacific/Chatham",
    "America/St_Johns",
];
