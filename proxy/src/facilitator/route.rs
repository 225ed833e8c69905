//! The routes of the facilitator that the proxy calls.

use bursar_outbound::Method;

/// A route, and how long its answer may take.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) wait_ms: u64,
}

pub(super) const VERIFY: Route = Route { method: Method::POST, path: "verify", wait_ms: 10_000 };

/// The timeout exceeds the time for which facilitators wait for a block before they report `settlement_pending`.
pub(super) const SETTLE: Route = Route { method: Method::POST, path: "settle", wait_ms: 60_000 };

pub(super) const SUPPORTED: Route =
    Route { method: Method::GET, path: "supported", wait_ms: 10_000 };
