//! The newest block, as far as the kit reads it.

use alloy_primitives::U64;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Head {
    /// Unix seconds.
    pub(super) timestamp: U64,
}
