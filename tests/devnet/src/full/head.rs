//! The fields of the newest block that the kit reads.

use alloy_primitives::U64;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Head {
    /// Unix seconds.
    pub(super) timestamp: U64,
}
