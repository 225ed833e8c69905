//! The key of a sale.

use alloy_primitives::hex;
use serde::{Deserialize, Serialize};

/// Identifies a sale to the facilitator.
///
/// It is random, so a caller with a copy of the payment does not know it. It is generated once, when the payment is
/// taken, and sent with every request about the sale.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleKey(pub [u8; 16]);

impl SaleKey {
    /// Generates a key.
    ///
    /// # Errors
    /// The operating system provides no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the 32 hex digits that are sent.
    pub fn text(self) -> String {
        hex::encode(self.0)
    }
}

/// Redacts the key: with it, another caller could repeat our requests.
impl std::fmt::Debug for SaleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SaleKey([redacted])")
    }
}
