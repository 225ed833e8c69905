//! Numbers in answers, written digit by digit, without a conversion to a float.

use bursar_core::json::{Number, Value};
use bursar_core::money::Bps;

/// Returns a JSON number with exactly these digits; null if `text` is not a number.
pub(super) fn decimal(text: &str) -> Value {
    text.parse::<Number>().map_or(Value::Null, Value::from)
}

/// Formats basis points in percent, like `5.00`.
pub(super) fn percent(bps: Bps) -> String {
    format!("{}.{:02}", bps.0 / 100, bps.0 % 100)
}
