//! The differences between the programs that share this engine, as data. Nothing else asks which edition runs.

use std::sync::Arc;

use bursar_control::grammar::CommandSet;
use bursar_core::codes::Code;
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::lane::Lane;
use bursar_core::limits::{SIGNATURE_MEMORY_DAYS_MIN, SNAPSHOT_INTERVAL_ENTRIES_MIN};
use bursar_mandate::AgentMember;

use crate::journal::Checkpoints;
use crate::vault::kdf::{KdfBounds, KdfParams};

/// One edition of the wallet.
#[derive(Debug, Clone)]
pub struct Edition {
    pub name: EditionName,
    /// The lanes and networks of the edition.
    pub rules: Arc<EditionRules>,
    pub wire: AgentWire,
    pub commands: CommandSet,
    /// Whether the program without arguments reads commands line by line, instead of drawing a full screen.
    pub starts_plain: bool,
    /// Whether nothing outside the process can drive it.
    ///
    /// It has no control channel, and takes no command as an argument, and no password and no setting from the
    /// environment. Requests are decided in dialogs of its window, and a second start on the folder is refused.
    pub sealed: bool,
    /// Whether the agent server takes a free port if the default one is in use.
    pub takes_free_port: bool,
    pub folder: FolderRule,
    /// What to know before the password of a portable folder is chosen; `None` if the folder is in the account.
    pub password_advice: Option<&'static str>,
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
    /// The name of the agent's code in receipts and mandates.
    pub agent_member: AgentMember,
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
        agent_member: AgentMember::Id,
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
        agent_member: AgentMember::Code,
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

/// What the payments-only program does not have: trades, loans, the service of the full edition and its demonstration.
const ABSENT_IN_PAYMENTS: &[&str] = &[
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
    // Topics of the help.
    "help lending",
    "help trading",
    "help unattended",
    "history --lane",
    "policy * --lending",
    "policy * --lending-auto",
    "policy * --lending-max",
    "policy * --lending-ops",
    "policy * --lending-percent",
    "policy * --lending-total",
    "policy * --max-impact",
    "policy * --max-slip",
    "policy * --min-eth",
    "policy * --no-lending",
    "policy * --no-restrict",
    "policy * --no-trading",
    "policy * --restrict",
    "policy * --trade-auto",
    "policy * --trade-daily",
    "policy * --trade-hooks",
    "policy * --trade-max",
    "policy * --trade-tokens",
    "policy * --trading",
    "policy test --impact",
    "policy test --lent",
    "policy test --slippage",
    "policy test --supply",
    "policy test --trade",
];

/// Where an edition's data folder is if no option names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderRule {
    /// `BURSAR_DATA_DIR`, else this folder among the account's application data.
    Account(&'static str),
    /// This folder next to the program. `BURSAR_DATA_DIR` is ignored.
    NextToProgram(&'static str),
}

impl FolderRule {
    /// Returns whether `BURSAR_DATA_DIR` may name the folder.
    pub fn reads_environment(self) -> bool {
        matches!(self, Self::Account(_))
    }
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
            commands: CommandSet {
                program: EditionName::Full.program(),
                absent: &["--gui", "--headless"],
            },
            starts_plain: false,
            sealed: false,
            takes_free_port: false,
            folder: FolderRule::Account("bursar"),
            password_advice: None,
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
            commands: CommandSet {
                program: EditionName::Desktop.program(),
                // It reads no file that the operator names.
                absent: &["--gui", "--headless", "mandate verify", "receipt verify"],
            },
            sealed: true,
            folder: FolderRule::NextToProgram("bursar-desk-data"),
            password_advice: Some(
                "Asked twice. A finder of this folder needs 256 MiB of memory for each guess: choose a long password.",
            ),
            ..Self::full()
        }
    }

    /// Returns the payments-only edition, the program `bursar-pay` (wallet specification, appendix).
    pub fn payments() -> Self {
        Self {
            name: EditionName::Payments,
            rules: Arc::new(EditionRules::of(EditionName::Payments)),
            wire: AgentWire::PAYMENTS,
            commands: CommandSet {
                program: EditionName::Payments.program(),
                absent: ABSENT_IN_PAYMENTS,
            },
            starts_plain: true,
            takes_free_port: true,
            folder: FolderRule::NextToProgram("bursar-pay-data"),
            password_advice: Some(
                "Asked twice. A finder of this folder needs 64 MiB of memory for each guess (256 MiB in `bursar`): choose a \
                 long password.",
            ),
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

    /// Returns whether agents may request trades or loans.
    pub fn has_trades_or_loans(&self) -> bool {
        [Lane::Trade, Lane::Loan].iter().any(|lane| self.rules.lanes.contains(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_editions_state_what_a_guess_of_the_password_costs() {
        for edition in EditionName::ALL.map(Edition::of) {
            let is_portable = matches!(edition.folder, FolderRule::NextToProgram(_));
            assert_eq!(edition.password_advice.is_some(), is_portable, "{:?}", edition.name);
            let advice = edition.password_advice.unwrap_or_default();
            let figure =
                format!("needs {} MiB of memory for each guess", edition.kdf.memory_kib >> 10);
            assert!(!is_portable || advice.contains(&figure), "{advice}");
        }
    }
}
