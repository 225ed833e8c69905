//! The differences between the programs that share this engine, as data instead of `cfg`.

use bursar_core::limits::{SIGNATURE_MEMORY_DAYS_MIN, SNAPSHOT_INTERVAL_ENTRIES_MIN};
use bursar_core::networks::ChainId;
use bursar_domain::State;

use crate::journal::Checkpoints;
use crate::vault::kdf::{KdfBounds, KdfParams};

/// One edition of the wallet.
#[derive(Debug, Clone)]
pub struct Edition {
    /// The name of the program.
    pub program: &'static str,
    /// The field that names the agent in bodies and signed messages.
    pub agent_field: &'static str,
    /// The networks that are enabled by default.
    pub networks_on: Vec<ChainId>,
    /// The cost of deriving a key from the password.
    pub kdf: KdfParams,
    /// The KDF parameters that a wallet file may have to be opened.
    pub kdf_bounds: KdfBounds,
    /// When the journal moves rows to its history.
    pub checkpoints: Checkpoints,
    pub retention: Retention,
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
            program: "bursar",
            agent_field: "agent_id",
            networks_on: State::default_networks().collect(),
            kdf: KdfParams::FULL,
            kdf_bounds: KdfBounds::PRODUCTION,
            checkpoints: Checkpoints::PRODUCTION,
            retention: Retention::PRODUCTION,
        }
    }
}
