//! The name of this program in its requests to the upstream and the facilitator.

/// The value of the header `User-Agent`. Requests to nodes have the common value of all programs of this repository.
pub(crate) const USER_AGENT: &str = concat!("bursar-proxy/", env!("CARGO_PKG_VERSION"));
