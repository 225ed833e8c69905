//! Results of the command `payee`.

use bursar_core::payee_label::PayeeLabel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named payee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayeeAnswer {
    /// EIP-55.
    pub address: String,
    /// CAIP-2.
    pub network: String,
    pub network_title: String,
    /// `None` after the name was forgotten.
    pub label: Option<PayeeLabel>,
}
