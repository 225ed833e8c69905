//! The commands `history` and `receipt`.

use std::str::FromStr;

use bursar_core::card::Lane;
use bursar_core::ids::Name;
use bursar_core::status::RequestStatus;
use bursar_core::time::Utc;
use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use strum::IntoEnumIterator;

use super::choice::one_of;

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct HistoryOrder {
    #[command(flatten)]
    pub filter: HistoryFilter,
    #[command(subcommand)]
    pub export: Option<HistoryExport>,
}

/// Selects requests by options that each narrow the list, and may come before or after `export`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct HistoryFilter {
    /// Only requests of this agent, by code or name.
    #[arg(long, global = true)]
    pub agent: Option<Name>,
    /// Only requests of this lane.
    #[arg(long, value_enum, global = true)]
    pub lane: Option<HistoryLane>,
    /// Only requests with this status.
    #[arg(long, value_parser = one_of(RequestStatus::iter().map(|status| (status, status_value(status)))), global = true)]
    pub status: Option<RequestStatus>,
    /// Only requests made since: a date (from midnight UTC), a time as shown, or an age like
    /// 90m, 24h, 7d or 2w.
    #[arg(long, value_name = "DATE|DURATION", global = true)]
    pub since: Option<Since>,
    /// Only requests made before: a date (its midnight UTC), a time as shown, or an age.
    #[arg(long, value_name = "DATE|DURATION", global = true)]
    #[serde(default)]
    pub until: Option<Since>,
    /// The number of requests, newest first [default: 20; in an export, all].
    #[arg(long, value_name = "COUNT", global = true)]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryExport {
    /// Write all matching requests to a new CSV file, newest first.
    Export {
        /// The file; it must not exist yet.
        file: String,
        /// Write JSON lines in place of CSV: one object for each request, as `history --json` lists it.
        #[arg(long)]
        #[serde(default)]
        jsonl: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryLane {
    #[value(alias = "payment")]
    Payments,
    #[value(alias = "trade")]
    Trades,
    #[value(alias = "loan")]
    Loans,
}

impl HistoryLane {
    /// Returns the lane.
    pub fn lane(self) -> Lane {
        match self {
            Self::Payments => Lane::Payment,
            Self::Trades => Lane::Trade,
            Self::Loans => Lane::Loan,
        }
    }
}

/// The receipt of one request, or the check of a proof.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReceiptOrder {
    /// The full id of the request, the beginning of a recent one, or the hash of its transaction.
    #[arg(required = true)]
    pub id: Option<String>,
    /// Write the receipt to a new file, as a page to print or to send.
    #[arg(long, value_name = "FILE", conflicts_with = "proof")]
    #[serde(default)]
    pub html: Option<String>,
    /// Write a proof of the receipt to a new file.
    ///
    /// It contains the journal entries that the receipt rests on, and a signature of the paying address. `receipt verify`
    /// checks it anywhere.
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    pub proof: Option<String>,
    /// Rest the proof on the anchor with this head, which an earlier proof showed.
    #[arg(long, value_name = "HASH", requires = "proof")]
    #[serde(default)]
    pub head: Option<String>,
    #[command(subcommand)]
    #[serde(default)]
    pub check: Option<ReceiptCheck>,
}

/// `receipt verify`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptCheck {
    /// Check the proof of a receipt, and print the receipt from its entries. Needs no wallet and no network.
    ///
    /// The exit code is 0 for a good proof, 1 for another, and 2 if the file cannot be read as a proof.
    Verify {
        /// The file; `-` reads standard input.
        file: String,
        /// The head that you noted: the proof must rest on it.
        #[arg(long, value_name = "HASH")]
        #[serde(default)]
        head: Option<String>,
    },
}

/// Returns a status with its explanation for `--help`.
fn status_value(status: RequestStatus) -> PossibleValue {
    let value = PossibleValue::new(status.text()).help(status.about());
    match status {
        RequestStatus::Pending => value.alias("waiting"),
        _named_once => value,
    }
}

/// A point in time, absolute or relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    At(Utc),
    AgoMs(i64),
}

impl Since {
    /// Resolves the point in time, given the current time.
    pub fn from(self, now: Utc) -> Utc {
        match self {
            Since::At(at) => at,
            Since::AgoMs(ms) => now.plus_ms(ms.saturating_neg()),
        }
    }

    /// Resolves the point in time, with a duration counted from now on.
    pub fn ahead_of(self, now: Utc) -> Utc {
        match self {
            Since::At(at) => at,
            Since::AgoMs(ms) => now.plus_ms(ms),
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(ms) = duration_ms(text) {
            return Ok(Since::AgoMs(ms));
        }
        if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
            return Ok(Since::At(Utc(stamp.as_millisecond())));
        }
        let midnight = text.parse::<jiff::civil::Date>().ok();
        let midnight = midnight.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
        midnight.map(|at| Since::At(Utc(at.timestamp().as_millisecond()))).ok_or_else(|| {
            "write a date like 2026-01-31, a time like 2026-01-31T08:00:00Z, or 90m, 24h, 7d, 2w"
                .to_owned()
        })
    }
}

/// Parses digits and a unit: s, m, h, d or w.
fn duration_ms(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let unit_s = match text.strip_prefix(digits)? {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _unknown => return None,
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let count: i64 = Some(digits).filter(|_digits| plain)?.parse().ok()?;
    count.checked_mul(unit_s)?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_date_a_time_or_a_duration() {
        let now = Utc(1_767_225_600_000);
        for (text, at) in [
            ("2026-01-01", 1_767_225_600_000),
            ("2026-01-01T00:00:01Z", 1_767_225_601_000),
            ("2026-01-01T02:00:00+02:00", 1_767_225_600_000),
            ("90s", 1_767_225_510_000),
            ("1d", 1_767_139_200_000),
            ("2w", 1_766_016_000_000),
        ] {
            assert_eq!(text.parse::<Since>().map(|since| since.from(now)), Ok(Utc(at)), "{text}");
        }
        for text in ["", "d", "1", "-1d", "1y", "yesterday", "2026-02-30", "99999999999999999d"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
