//! The plain types that all observations are made of.

/// Millionths of a dollar.
pub type Micros = u64;

/// Smallest units of a token.
pub type Atoms = u128;

/// A request's UUID, as the wallet writes it.
pub type Id = String;

/// An address in lower-case hex with `0x`.
pub type Address = String;

/// Identifies one call or order, so that its answer can be matched.
pub type Ticket = u64;

/// How an agent authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The header `SIG:<timestamp>:<digest>`. `right` is true if the key and the message are the agent's own.
    ///
    /// Two calls are the same signed call if and only if their signatures are equal.
    Hmac { timestamp_s: i64, signature: String, is_valid: bool },
    /// The header `AT_…`. `right` is true if the token is the newest one that the agent received.
    Bearer { is_valid: bool },
    /// No proof, in a report to the payments-only edition.
    Missing,
}

/// A transaction as a node reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub chain: u64,
    pub from: Address,
    pub nonce: u64,
    pub to: Address,
    pub value: Atoms,
    pub data: String,
    /// Empty before it is signed.
    pub hash: String,
}
