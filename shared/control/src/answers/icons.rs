//! Icons of tokens, for consoles that draw pictures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The icons that the engine knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IconsAnswer {
    pub icons: Vec<IconAnswer>,
    /// The number of icons that are being fetched.
    pub running: usize,
}

/// The icon of a token of Bursar's own table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IconAnswer {
    pub chain_id: u64,
    pub token_address: String,
    /// 32 rows of 32 pixels with red, green, blue and alpha, one byte each, in base64.
    pub rgba: String,
}
