//! Plans: the steps of a world, drawn from its seed.
//!
//! A step names its object by an index into a list that grows while the world runs. So a plan stays valid when steps
//! are removed from it.

use bursar_core::edition::EditionName;
use bursar_engine::edition::{Edition, Retention};
use bursar_tests::dice::Dice;
use bursar_tests::engine::with_cheap_kdf;
use serde::{Deserialize, Serialize};

use crate::device_steps::DeviceStep;
use crate::evm::VenueChange;

/// An index into a list whose length is known only when the step runs.
///
/// Three of four picks are among the six newest entries.
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

/// The amount of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    Micros(u64),
    /// Micro-dollars relative to the policy's automatic threshold.
    Threshold(i64),
    /// Micro-dollars relative to the policy's limit per payment.
    Largest(i64),
    /// Micro-dollars relative to the amount left of the daily allowance.
    Left(i64),
}

/// A payment that an agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPayment {
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

/// A trade that an agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTrade {
    pub agent: Pick,
    /// 0 for Base, 1 for Robinhood Chain.
    pub chain: usize,
    pub pool: PoolChoice,
    /// Whether the trade sells the pool's second token.
    pub flip: bool,
    /// Whether the trade names the native coin if the pool trades its wrapped token.
    pub native: bool,
    pub size: TradeSize,
    pub slippage_bps: Option<u16>,
    /// The deadline in seconds after the newest block.
    pub deadline_s: Option<i64>,
    pub key: Option<u8>,
}

/// How slowly nodes and the price API answer, and how patient a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slowness {
    /// The delay of each answer of a node in milliseconds.
    pub node_ms: u64,
    /// Whether the price API answers nothing for ten seconds.
    pub price_hangs: bool,
    /// Milliseconds after which the client sends the same body again.
    pub patience_ms: u64,
    /// The most times that the client sends the body.
    pub tries: u8,
    /// Whether the first answer does not reach the client.
    pub loses_first: bool,
}

/// How a trade names its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolChoice {
    /// A pool of the network, by its number.
    Named(usize),
    /// The best route between the two tokens of this pool.
    Best(usize),
    /// No pool: the trade wraps or unwraps the native coin.
    Wrap,
    /// A pool that does not exist.
    Missing,
}

/// The amount of a trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TradeSize {
    /// Millionths of a dollar.
    Micros(u64),
    /// Millionths of a dollar relative to the policy's automatic threshold.
    Threshold(i64),
    /// Millionths of a dollar relative to the policy's limit for one trade.
    Largest(i64),
    /// Millionths of a dollar relative to the amount left of the daily volume.
    Left(i64),
    /// The whole balance, less this many millionths of a dollar.
    Balance(i64),
    /// The native balance, less the policy's minimum and less this many gwei.
    AboveFloor(u64),
}

/// A supply or a withdrawal that an agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLoan {
    pub agent: Pick,
    /// 0 for Base, 1 for Robinhood Chain.
    pub chain: usize,
    /// The number of a venue of the network.
    pub venue: usize,
    pub supply: bool,
    pub size: LoanAmount,
    /// The deadline in seconds after the newest block.
    pub deadline_s: Option<i64>,
    pub key: Option<u8>,
}

/// The amount of a loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoanAmount {
    /// Millionths of a dollar.
    Micros(u64),
    /// Millionths of a dollar relative to the policy's automatic threshold.
    Threshold(i64),
    /// Millionths of a dollar relative to the policy's limit for one deposit.
    Largest(i64),
    /// Millionths of a dollar relative to the room below the ceiling.
    Ceiling(i64),
    /// Millionths of a dollar relative to the address's balance.
    Balance(i64),
    /// Millionths of a dollar relative to the value of the position.
    Position(i64),
    /// Millionths of a dollar relative to the part of the position that the venue can pay now.
    Free(i64),
    /// This many thousandths of the position's shares.
    Shares(u64),
    /// The whole position.
    All,
}

/// How the nodes of a chain behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NodeMode {
    #[default]
    Honest,
    /// No node answers.
    Down,
    /// Nodes cannot simulate whole plans, but support state overrides.
    OverridesOnly,
    /// Nodes support neither, so the wallet simulates calls one by one.
    SingleCalls,
    /// Nodes accept transactions and then forget them.
    Forgets,
    /// Nodes accept transactions, but their answers are lost.
    LosesAnswers,
    /// Nodes quote this many thousandths of the true output.
    Quotes(u64),
    /// Nodes are this many blocks behind.
    Lags(u64),
}

/// Something unusual about an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Oddity {
    None,
    /// A token other than the stablecoin.
    Token,
    /// An EIP-712 domain that contradicts the wallet's token table.
    Contradicts,
    ToNobody,
    ToItself,
    ToTheToken,
    OtherScheme,
    OtherMethod,
    /// The real offer follows an offer on an unknown chain.
    SecondOffer,
}

/// The difference between a repeated or forged call and the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RepeatVariant {
    None,
    /// The same request with a new signature, if the agent signs.
    SignedAgain,
    OtherUrl(usize),
    OtherKey(u8),
    WrongProof,
    Stale,
    UnknownAgent,
}

/// The card that an approval names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CardChoice {
    Now,
    /// A card that an operator saw earlier.
    Before(Pick),
    /// No card.
    Unnamed,
}

/// One step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Ask(PlannedPayment),
    Repeat {
        pick: Pick,
        variant: RepeatVariant,
    },
    /// Identical copies of one request, sent concurrently.
    Copies {
        planned: PlannedPayment,
        count: u8,
    },
    /// Several different requests, sent concurrently.
    Crowd {
        planned: PlannedPayment,
        count: u8,
    },
    Poll {
        pick: Pick,
    },
    Standing {
        agent: Pick,
    },
    /// An agent reports about a payment. From `UNPROVEN_EVENTS` on, the report has no proof.
    Report {
        pick: Pick,
        event: u8,
        hash: u8,
        agent: Option<Pick>,
    },
    /// A payment whose agent reports the settlement only after it has repeated its request.
    LateSettlementReport {
        planned: PlannedPayment,
        pick: Pick,
    },
    /// A facilitator redeems a payment on its chain.
    Redeem {
        pick: Pick,
    },
    List,
    Approve {
        pick: Pick,
        card: CardChoice,
    },
    Deny {
        pick: Pick,
    },
    /// Runs the next two steps concurrently: the second starts while the first is in flight.
    Together,
    Open {
        right: bool,
    },
    /// Opens the wallet with the password given at the start, so no person enters it.
    OpenUnattended,
    /// Limits the amount that agents may spend without an approval while no person has opened the wallet.
    UnattendedDaily {
        micros: Option<u64>,
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
    /// Advances time to the earliest expiry of a hold, plus `off_ms`.
    ToExpiry {
        off_ms: i64,
    },
    /// Advances time to the next local midnight, plus `off_ms`.
    ToMidnight {
        off_ms: i64,
    },
    SetClock {
        ms: i64,
    },
    /// Sets the clock to the correct time.
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
    /// Kills the process at a fault point, after it has survived that point `after` times.
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
    Trade(PlannedTrade),
    /// Identical copies of one trade, sent concurrently.
    TradeCopies {
        planned: PlannedTrade,
        count: u8,
    },
    /// Several different trades, sent concurrently.
    TradeCrowd {
        planned: PlannedTrade,
        count: u8,
    },
    RepeatTrade {
        pick: Pick,
        variant: RepeatVariant,
    },
    PollTrade {
        pick: Pick,
    },
    /// A trade that is held while the price of its pool moves, and is then approved.
    MovedTrade {
        planned: PlannedTrade,
        permille: u64,
    },
    /// A trade whose swap loses its nonce to another transaction, followed by a trade for the volume that is left.
    DisplacedTrade {
        planned: PlannedTrade,
    },
    /// Trades that pay for gas.
    ///
    /// If `late`, the deadline of each trade passes before its block. Otherwise the trades use up the daily volume.
    GasBurners {
        planned: PlannedTrade,
        count: u8,
        late: bool,
    },
    /// A trade that is frozen between its approval and its swap, and then thawed.
    FrozenTrade {
        planned: PlannedTrade,
    },
    /// Mines `blocks` blocks, one at a time.
    Mine {
        blocks: u8,
    },
    /// Multiplies the price of a pool.
    MovePool {
        chain: usize,
        pool: usize,
        permille: u64,
    },
    /// Multiplies the price of the native coin, at the API, in the feed and in the pools.
    PriceMove {
        permille: u64,
    },
    /// Sets the faults of the price sources, as a sum.
    ///
    /// 1 is a missing API, 2 a feed that stops updating, and 4 a feed that is wrong by a twentieth.
    Prices {
        faults: u8,
    },
    Nodes {
        chain: usize,
        mode: NodeMode,
    },
    /// Removes the newest blocks that are not final.
    Reorg {
        chain: usize,
        lose: bool,
    },
    /// Removes all transactions from the mempool.
    DropTx {
        chain: usize,
    },
    /// Another transaction takes the nonce of a pending one.
    ReplaceNonce {
        chain: usize,
    },
    /// Sets the base fee, in thousandths of a gwei.
    BaseFee {
        chain: usize,
        permille: u64,
    },
    /// Increases the balances of rebasing tokens.
    Rebase,
    Loan(PlannedLoan),
    /// Identical copies of one loan, sent concurrently.
    LoanCopies {
        planned: PlannedLoan,
        count: u8,
    },
    /// Several different loans, sent concurrently.
    LoanCrowd {
        planned: PlannedLoan,
        count: u8,
    },
    RepeatLoan {
        pick: Pick,
        variant: RepeatVariant,
    },
    PollLoan {
        pick: Pick,
    },
    /// An agent lists the venues of a network.
    Venues {
        agent: Pick,
        chain: usize,
    },
    ApproveLoan {
        pick: Pick,
    },
    DenyLoan {
        pick: Pick,
    },
    /// A loan that is held while its venue changes, and is then approved.
    ChangedLoan {
        planned: PlannedLoan,
        change: VenueChange,
    },
    /// A supply whose venue changes between its approval and its deposit.
    InterruptedLoan {
        planned: PlannedLoan,
        change: VenueChange,
    },
    /// A loan that is frozen after its first step was sent, and then thawed.
    FrozenLoan {
        planned: PlannedLoan,
    },
    /// Other accounts change a venue.
    Outsider {
        chain: usize,
        venue: usize,
        change: VenueChange,
    },
    /// Stops all transfers of the stablecoin, or allows them again.
    PauseCoin {
        chain: usize,
        paused: bool,
    },
    /// Makes nodes report no shares of our addresses, or the true shares again.
    HidePositions {
        chain: usize,
        hidden: bool,
    },
    /// Loans while nodes report no shares of our addresses.
    ///
    /// Before these loans, `withdrawn` thousandths of a position are withdrawn.
    BlindLoans {
        planned: PlannedLoan,
        withdrawn: u64,
        count: u8,
    },
    /// The operator changes the lending limits.
    EditLending {
        which: usize,
        variant: usize,
    },
    /// A step of a payment or trade from a hardware device.
    Device(DeviceStep),
    /// A client that repeats a payment until it gets an answer, while nodes are slow.
    PatientAsk {
        planned: PlannedPayment,
        slow: Slowness,
    },
    PatientTrade {
        planned: PlannedTrade,
        slow: Slowness,
    },
    PatientLoan {
        planned: PlannedLoan,
        slow: Slowness,
    },
}

/// The first event of a `Step::Report` without a proof.
pub(crate) const UNPROVEN_EVENTS: u8 = 3;

macro_rules! kinds {
    ($($kind:ident)*) => {
        impl Step {
            /// The names of all kinds of steps.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($kind),)*];

            /// Returns the name of this kind of step.
            pub fn kind(&self) -> &'static str {
                match self { $(Step::$kind { .. } => stringify!($kind),)* }
            }
        }
    };
}

kinds! {
    Ask Repeat Copies Crowd Poll Standing Report LateSettlementReport Redeem List Approve Deny Together Open OpenUnattended UnattendedDaily Lock Freeze
    Thaw
    EditPolicy CreatePolicy DeletePolicy Register ReplaceToken Commission Suspend Resume Renew DeleteAgent
    AddAddress RenameAddress DeleteAddress Network MaxValidity Pass ToExpiry ToMidnight SetClock RightClock Zone
    Sleep
    Reboot Block Restart Crash CrashAt DiskFails SlowSigner Release
    Trade TradeCopies TradeCrowd RepeatTrade PollTrade MovedTrade DisplacedTrade GasBurners FrozenTrade Mine MovePool PriceMove Prices Nodes Reorg DropTx
    ReplaceNonce BaseFee Rebase
    Loan LoanCopies LoanCrowd RepeatLoan PollLoan Venues ApproveLoan DenyLoan ChangedLoan InterruptedLoan FrozenLoan Outsider
    PauseCoin HidePositions BlindLoans EditLending Device PatientAsk PatientTrade PatientLoan
}

/// The number of fault points that a payment passes. They are the first in [`POINTS`].
pub(crate) const PAYMENT_POINT_COUNT: usize = 8;

/// The fault points at which a process may die.
pub(crate) const FAULT_POINTS: [&str; 11] = [
    "disk.before_flush",
    "disk.after_flush",
    "journal.before_commit",
    "journal.before_sync",
    "journal.after_commit",
    "sign.before",
    "sign.after",
    "reply.before",
    "outbox.send",
    "outbox.sent",
    "outbox.signed",
];

macro_rules! swarm {
    ($($field:ident)*) => {
        /// The kinds of trouble that a run may contain.
        ///
        /// Each kind is drawn with a probability of one half, but `sectors` less often.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct Swarm {
            $(pub $field: bool,)*
            /// Whether agents also trade. Plans saved before this field existed do not have it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub trades: bool,
            /// Whether agents also lend. Plans saved before this field existed do not have it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub loans: bool,
            /// Whether agents also pay from a hardware device. Plans saved before this field existed do not have it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub devices: bool,
            /// Whether the wallet is also opened without a person. Plans saved before this field existed do not have
            /// it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub unattended: bool,
            /// The edition of the wallet. Plans saved before this field existed are of the full edition.
            #[serde(default, skip_serializing_if = "is_full")]
            pub edition: EditionName,
        }

        impl Swarm {
            pub(crate) fn draw(dice: &mut Dice) -> Self {
                Self { $($field: dice.chance(1, 2),)* ..Self::default() }
            }

            /// Returns whether chains execute transactions.
            pub(crate) fn has_markets(&self) -> bool {
                self.trades || self.loans
            }

            /// Returns the names of the enabled kinds.
            pub fn enabled(&self) -> Vec<&'static str> {
                let on = [$(self.$field,)* self.trades, self.loans, self.devices, self.unattended];
                let all = Self::NAMES.iter().zip(on);
                all.filter(|(_name, on)| *on).map(|(name, _on)| *name).collect()
            }

            /// The names of all kinds of trouble.
            pub const NAMES: &'static [&'static str] =
                &[$(stringify!($field),)* "trades", "loans", "devices", "unattended"];
        }
    };
}

swarm! { crashes restarts disk clocks zones sleeps slow_signer locks freezes edits crowds together blocks eager sectors long }

/// The bounds of the journal. With the production bounds, a world of a few hundred entries would never reach them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalBounds {
    /// The number of entries between two snapshots.
    pub snapshot_every: u64,
    /// The number of days for which the wallet remembers a signed request.
    pub signed_days: i64,
    /// The number of bytes after which the store moves rows to the history file.
    pub carry_bytes: usize,
}

impl JournalBounds {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Self {
            snapshot_every: 5 + dice.roll(46),
            signed_days: dice.one_of(&[1, 2, 3, 7, 30]),
            carry_bytes: dice.one_of(&[1, 3_000, 12_000, 40_000]),
        }
    }

    /// Returns an edition with these bounds.
    pub(crate) fn edition(self, name: EditionName) -> Edition {
        let Self { snapshot_every, signed_days, .. } = self;
        Edition { retention: Retention { snapshot_every, signed_days }, ..with_cheap_kdf(name) }
    }
}

fn is_full(edition: &EditionName) -> bool {
    *edition == EditionName::default()
}

/// A complete run. Plans that have failed are kept as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub swarm: Swarm,
    pub bounds: JournalBounds,
    /// Whether to replay the journal after every step, instead of after every 32 steps.
    pub watchful: bool,
    pub steps: Vec<Step>,
}

impl Plan {
    /// Returns the plan as JSON, one step per line.
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

    /// Parses a plan.
    ///
    /// # Errors
    /// If `text` is not a valid plan.
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
