//! The differences between the programs that share this engine, as data. Nothing else asks which edition runs.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::lane::Lane;
use bursar_core::limits::{SIGNATURE_MEMORY_DAYS_MIN, SNAPSHOT_INTERVAL_ENTRIES_MIN};

use crate::journal::Checkpoints;
use crate::vault::kdf::{KdfBounds, KdfParams};

/// One edition of the wallet.
#[derive(Debug, Clone)]
pub struct Edition {
    pub name: EditionName,
    /// The lanes and networks of the edition.
    pub rules: Arc<EditionRules>,
    pub wire: AgentWire,
    pub command_line: CommandLine,
    pub folder: FolderRule,
    /// The cost of deriving a key from the password.
    pub kdf: KdfParams,
    /// The KDF parameters that a wallet file may have to be opened.
    pub kdf_bounds: KdfBounds,
    /// When the journal moves rows to its history.
    pub checkpoints: Checkpoints,
    pub retention: Retention,
}

/// What the agent server of an edition reads and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentWire {
    /// The field that names the agent in bodies and signed messages.
    pub field: &'static str,
    /// The refusal of a body without that field.
    pub missing: Code,
    /// The actions that an agent may sign to read its own figures.
    pub read_actions: &'static [&'static str],
    pub paths: Paths,
    /// The name of the agent's code in receipts.
    pub receipt_agent: &'static str,
    /// Whether `/receipt` also takes a transaction hash, from this machine.
    pub receipts_by_hash: bool,
    /// Whether the answer with a payment header names the x402 version.
    pub names_version: bool,
    /// Whether `/callback` accepts a report without a proof, because the transaction id is a secret of the agent.
    pub unsigned_callback: bool,
    /// The content type of `GET /agent`.
    pub skill_type: &'static str,
}

impl AgentWire {
    /// The wire of the full edition (wallet specification).
    pub const FULL: Self = Self {
        field: "agent_id",
        missing: Code::MissingAgentId,
        read_actions: &["agent_read"],
        paths: Paths::All,
        receipt_agent: "id",
        receipts_by_hash: false,
        names_version: true,
        unsigned_callback: false,
        skill_type: "text/plain; charset=utf-8",
    };
    /// The wire of the payments-only edition (wallet specification, appendix).
    pub const PAYMENTS: Self = Self {
        field: "agent_code",
        missing: Code::MissingAgentCode,
        read_actions: &["agent_read", "get_mandate"],
        paths: Paths::Only(&[
            "/health",
            "/status",
            "/ping",
            "/sign",
            "/sign/status/{id}",
            "/sign/status/",
            "/sign/helper",
            "/mandate",
            "/callback",
            "/receipt/{id}",
            "/receipt/",
            "/agent",
            "/openapi.json",
        ]),
        receipt_agent: "code",
        receipts_by_hash: true,
        names_version: false,
        unsigned_callback: true,
        skill_type: "text/markdown; charset=utf-8",
    };
}

/// The paths that an agent server serves; it answers all others with 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    All,
    Only(&'static [&'static str]),
}

impl Paths {
    /// Returns whether a path, as the router writes it, is served.
    pub fn contain(self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(paths) => paths.contains(&path),
        }
    }
}

/// The command line of an edition's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLine {
    /// The commands and options that the program does not have: the words of a command, or of a command and an option.
    pub lacks: &'static [&'static str],
    /// Whether the program without arguments reads commands line by line, instead of drawing a full screen.
    pub starts_plain: bool,
    /// Whether an engine takes a free port if the default one is in use.
    pub takes_free_port: bool,
}

impl CommandLine {
    const FULL: Self =
        Self { lacks: &["--gui", "--headless"], starts_plain: false, takes_free_port: false };
    const PAYMENTS: Self = Self {
        lacks: &[
            "allowances",
            "demo",
            "engine",
            "install-service",
            "position",
            "positions",
            "quote",
            "service",
            "uninstall-service",
            "venue",
            "venues",
            "help lending",
            "help trading",
            "help unattended",
            "history --lane",
            "policy create --lending",
            "policy create --lending-auto",
            "policy create --lending-max",
            "policy create --lending-ops",
            "policy create --lending-percent",
            "policy create --lending-total",
            "policy create --max-impact",
            "policy create --max-slip",
            "policy create --min-eth",
            "policy create --no-lending",
            "policy create --no-restrict",
            "policy create --no-trading",
            "policy create --restrict",
            "policy create --trade-auto",
            "policy create --trade-daily",
            "policy create --trade-hooks",
            "policy create --trade-max",
            "policy create --trade-tokens",
            "policy create --trading",
            "policy edit --lending",
            "policy edit --lending-auto",
            "policy edit --lending-max",
            "policy edit --lending-ops",
            "policy edit --lending-percent",
            "policy edit --lending-total",
            "policy edit --max-impact",
            "policy edit --max-slip",
            "policy edit --min-eth",
            "policy edit --no-lending",
            "policy edit --no-restrict",
            "policy edit --no-trading",
            "policy edit --restrict",
            "policy edit --trade-auto",
            "policy edit --trade-daily",
            "policy edit --trade-hooks",
            "policy edit --trade-max",
            "policy edit --trade-tokens",
            "policy edit --trading",
            "policy test --impact",
            "policy test --lent",
            "policy test --slippage",
            "policy test --supply",
            "policy test --trade",
        ],
        starts_plain: true,
        takes_free_port: true,
    };
}

/// Where an edition's data folder is if no option names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderRule {
    /// `BURSAR_DATA_DIR`, else this folder among the account's application data.
    Account(&'static str),
    /// This folder next to the program.
    NextToProgram(&'static str),
}

/// How often the journal writes a snapshot, and how long it remembers signed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The smallest number of entries between two snapshots.
    ///
    /// At each snapshot the journal forgets old signed requests, if a chain agrees with the clock.
    pub snapshot_every: u64,
    /// The number of days, by the signed timestamp, for which a signed request is remembered.
    pub signed_days: i64,
}

impl Retention {
    /// The retention of all editions; tests use shorter ones.
    pub const PRODUCTION: Self = Self {
        snapshot_every: SNAPSHOT_INTERVAL_ENTRIES_MIN,
        signed_days: SIGNATURE_MEMORY_DAYS_MIN,
    };
}

impl Edition {
    /// Returns the terminal edition, the program `bursar`.
    pub fn full() -> Self {
        Self {
            name: EditionName::Full,
            rules: Arc::new(EditionRules::of(EditionName::Full)),
            wire: AgentWire::FULL,
            command_line: CommandLine::FULL,
            folder: FolderRule::Account("bursar"),
            kdf: KdfParams::FULL,
            kdf_bounds: KdfBounds::PRODUCTION,
            checkpoints: Checkpoints::PRODUCTION,
            retention: Retention::PRODUCTION,
        }
    }

    /// Returns the desktop edition, the program `bursar-desk`.
    pub fn desktop() -> Self {
        Self {
            name: EditionName::Desktop,
            rules: Arc::new(EditionRules::of(EditionName::Desktop)),
            folder: FolderRule::NextToProgram("bursar-desk-data"),
            ..Self::full()
        }
    }

    /// Returns the payments-only edition, the program `bursar-pay` (wallet specification, appendix).
    pub fn payments() -> Self {
        Self {
            name: EditionName::Payments,
            rules: Arc::new(EditionRules::of(EditionName::Payments)),
            wire: AgentWire::PAYMENTS,
            command_line: CommandLine::PAYMENTS,
            folder: FolderRule::NextToProgram("bursar-pay-data"),
            kdf: KdfParams::PAYMENTS_EDITION,
            ..Self::full()
        }
    }

    /// Returns the edition with this name.
    pub fn of(name: EditionName) -> Self {
        match name {
            EditionName::Full => Self::full(),
            EditionName::Desktop => Self::desktop(),
            EditionName::Payments => Self::payments(),
        }
    }

    /// Returns the name of the program.
    pub fn program(&self) -> &'static str {
        self.name.program()
    }

    /// Returns whether agents may request trades or loans.
    pub fn has_trades_or_loans(&self) -> bool {
        [Lane::Trade, Lane::Loan].iter().any(|lane| self.rules.lanes.contains(lane))
    }
}
