//! The commands `requests`, `approve` and `deny`: one queue for every lane.

use bursar_core::ids::Name;
use bursar_core::money::Usd;
use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct RequestsOrder {
    /// Also show the latest decided requests.
    #[arg(long)]
    pub all: bool,
    /// Show the card of each request, also where more than three wait; otherwise these are rows of a table.
    #[arg(long)]
    #[serde(default)]
    pub cards: bool,
    /// First ask a Ledger again that is left alone, because it refused a request for a switch of its settings.
    #[arg(long)]
    #[serde(default)]
    pub retry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Approve {
    /// The request's id, or the beginning of it.
    pub id: String,
    /// The digest in the card's row `card`: if the terms have changed since, the command fails.
    #[arg(long, value_name = "DIGEST")]
    pub card: Option<String>,
    /// Approve without asking; a large amount still needs --confirm.
    #[arg(long)]
    pub yes: bool,
    /// The amount in dollars, for a payment whose amount must be typed.
    #[arg(long, value_name = "AMOUNT", value_parser = Usd::parse)]
    pub confirm: Option<Usd>,
    /// Wait until it is signed, also on a Ledger, or its transaction is final: --wait=90s; --wait alone waits 15m.
    #[arg(long, value_name = "DURATION", value_parser = seconds, num_args = 0..=1, require_equals = true, default_missing_value = "15m")]
    pub wait: Option<u32>,
}

/// Parses a number of seconds, or a duration such as `90s`, `15m` or `1h`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let parsed = text.parse::<u32>().ok().or_else(|| {
        let duration = text.parse::<jiff::SignedDuration>().ok()?;
        u32::try_from(duration.as_secs()).ok()
    });
    parsed.ok_or_else(|| "write seconds, or a duration like 90s, 15m or 1h".to_owned())
}

/// The usage of `deny`, in which one of three arguments is needed.
pub const DENY_USAGE: &str = "bursar deny [OPTIONS] <ID> [REASON]...\n       bursar deny [OPTIONS] --agent <NAME>|--all [REASON]...";

#[derive(Debug, Clone, PartialEq, Eq, Default, Args, Serialize, Deserialize)]
#[command(override_usage = DENY_USAGE)]
pub struct Deny {
    /// The request's id, or the beginning of it.
    #[arg(required_unless_present_any = ["agent", "all"])]
    pub id: Option<String>,
    /// The reason, which is shown to the agent.
    pub reason: Vec<String>,
    /// Deny every waiting request of this agent, for the reason in the other words.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    #[serde(default)]
    pub agent: Option<Name>,
    /// Deny every waiting request, for the reason in the other words.
    #[arg(long)]
    #[serde(default)]
    pub all: bool,
}

impl Deny {
    /// Returns the order that denies one request without a reason.
    pub fn one(id: String) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// Returns the id of the one request to deny; `None` if the order denies several.
    pub fn single_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|_word| self.agent.is_none() && !self.all)
    }

    /// Returns the reason; empty if none was given.
    pub fn reason_text(&self) -> String {
        let first = self.id.iter().filter(|_word| self.single_id().is_none());
        let words: Vec<&str> = first.chain(&self.reason).map(String::as_str).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_duration() {
        for (text, wait) in [("0", 0), ("90", 90), ("90s", 90), ("15m", 900), ("1h", 3600)] {
            assert_eq!(seconds(text), Ok(wait), "{text}");
        }
        for text in ["", "-1", "-5m", "soon", "1.5", "99999999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
