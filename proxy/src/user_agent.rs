//! The name of this program in its requests to the upstream and the facilitator.

/// The value of the header `User-Agent`. Nodes get the one of all programs of this repository.
pub(crate) const USER_AGENT: &str = concat!("bursar-proxy/", env!("CARGO_PKG_VERSION"));
