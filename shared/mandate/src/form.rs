//! The form of a mandate, as the original wallet defined it.

/// The largest limit that a registry accepts, in millionths of the currency.
pub const LIMIT_MAX: u64 = 1_000_000_000_000_000;

/// `type` of every mandate.
pub(crate) const TYPE: &str = "IntentMandate";

/// `version` of the mandates that we issue.
pub(crate) const VERSION: &str = "ap2.primer/v0.1";

/// Decimals of the limits.
pub(crate) const DECIMALS: u64 = 6;

/// Members that stand outside the signature.
pub(crate) const UNSIGNED_MEMBERS: [&str; 3] = ["signature", "registryId", "registryUrl"];
