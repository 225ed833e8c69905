//! The state of an agent.

use bursar_core::auth::AuthMode;
use bursar_core::status::AgentStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mandates::MandateStatus;

/// An agent, with its current allowance and today's usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentAnswer {
    pub agent_id: String,
    pub name: String,
    pub auth_mode: AuthMode,
    pub status: AgentStatus,
    pub policy: Option<String>,
    pub label: Option<String>,
    pub address: Option<String>,
    pub spent_today: String,
    pub reserved: String,
    pub daily_limit: Option<String>,
    /// The value of today's trades; `trades_reserved` is the value of pending and running trades.
    #[serde(default)]
    pub traded_today: String,
    #[serde(default)]
    pub trades_reserved: String,
    /// Maximum value that may be traded in a day; `None` if the agent may not trade.
    #[serde(default)]
    pub trade_limit: Option<String>,
    /// Today's allowance is held back, because the clock is in doubt: `agent renew` grants it.
    pub renewal_held: bool,
    /// New requests in this UTC day; at most 100,000 while the rate limit is on.
    #[serde(default)]
    pub requests_today: u32,
    /// Maximum number of requests a day; `None` while the rate limit is off.
    #[serde(default)]
    pub requests_limit: Option<u32>,
    /// Bytes of padding in payment headers in this UTC day; at most 32 MiB.
    #[serde(default)]
    pub padding_today: u64,
    /// Number of payments that may still be redeemed.
    #[serde(default)]
    pub open: u32,
    /// Start of the next allowance, in UTC; `None` if the agent has no policy, or its renewal is held back.
    #[serde(default)]
    pub renews_at: Option<String>,
    /// The time until then.
    #[serde(default)]
    pub renews_in_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews_at_unknown_reason: Option<String>,
    /// The status of the agent's newest mandate; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<MandateStatus>,
    /// Why the agent cannot work despite its status.
    pub problem: Option<String>,
}
