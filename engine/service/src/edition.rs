//! What distinguishes the programs that share this engine: data, not `cfg`.

use bursar_core::limits::{IDENTITY_DAYS, SNAPSHOT_EVERY};
use bursar_core::networks::ChainId;
use bursar_domain::State;

use crate::journal::Carry;
use crate::vault::kdf::{KdfBounds, KdfParams};

/// One edition of the wallet.
#[derive(Debug, Clone)]
pub struct Edition {
    /// Name of the program, for messages and for the data folder.
    pub program: &'static str,
    /// How agents name themselves in bodies and in signed messages.
    pub agent_field: &'static str,
    /// Networks that are on until the operator says otherwise.
    pub networks_on: Vec<ChainId>,
    /// Cost of the password's key.
    pub kdf: KdfParams,
    /// What a wallet file may ask for when it is opened.
    pub kdf_bounds: KdfBounds,
    /// When the journal carries rows over to its history.
    pub carry: Carry,
    pub retention: Retention,
}

/// How often the journal writes a snapshot, and how long it remembers signed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Entries between two snapshots of the state. At each of them old signed requests are forgotten.
    pub snapshot_every: u64,
    /// Days, by the signed timestamp, for which a signed request is remembered.
    pub signed_days: i64,
}

impl Retention {
    pub const PRODUCTION: Self =
        Self { snapshot_every: SNAPSHOT_EVERY, signed_days: IDENTITY_DAYS };
}

impl Edition {
    /// The terminal edition: payments, trading and lending.
    pub fn full() -> Self {
        Self {
            program: "bursar",
            agent_field: "agent_id",
            networks_on: State::default_networks().collect(),
            kdf: KdfParams::FULL,
            kdf_bounds: KdfBounds::PRODUCTION,
            carry: Carry::PRODUCTION,
            retention: Retention::PRODUCTION,
        }
    }
}
