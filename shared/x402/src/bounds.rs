//! Size limits of a challenge from a header or a body. Resource servers are untrusted, but the wallet stores their
//! challenges, shows them to the operator and sends them back. So it refuses a large challenge.

use bursar_core::json::{Object, Value};
use bursar_core::limits::{PAYMENT_HEADER_BYTES_MAX, PAYMENT_HEADER_DEPTH_MAX};

use crate::error::X402Error;

/// Maximum number of offers in one challenge.
///
/// Honest servers list one offer for each network and token that they accept.
pub const OFFERS_MAX: usize = 32;
/// Maximum length of a string or key in a challenge, in bytes: the length of the longest accepted URL.
pub const STRING_BYTES_MAX: usize = 4 << 10;

/// Checks the size, the depth and the strings of a challenge.
///
/// A challenge from a header has passed [`crate::header::decode`], which checks size and depth, but not strings. A
/// challenge in `x402_data` of a request body has passed no check yet.
pub(crate) fn check(challenge: &Value) -> Result<(), X402Error> {
    check_value(challenge, PAYMENT_HEADER_DEPTH_MAX)?;
    if challenge.to_compact().len() > PAYMENT_HEADER_BYTES_MAX {
        return Err(X402Error::format("it is longer than 64 KiB"));
    }
    Ok(())
}

/// Checks the depth and the strings of a value. It recurses at most `levels` deep.
fn check_value(value: &Value, levels: usize) -> Result<(), X402Error> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => check_string(text),
        Value::Array(items) => {
            let levels = descend(levels)?;
            items.iter().try_for_each(|item| check_value(item, levels))
        }
        Value::Object(members) => check_members(members, descend(levels)?),
    }
}

fn check_members(members: &Object, levels: usize) -> Result<(), X402Error> {
    members.iter().try_for_each(|(key, value)| {
        check_string(key)?;
        check_value(value, levels)
    })
}

fn descend(levels: usize) -> Result<usize, X402Error> {
    levels.checked_sub(1).ok_or_else(|| X402Error::format("it is nested deeper than 32 levels"))
}

fn check_string(text: &str) -> Result<(), X402Error> {
    if text.len() > STRING_BYTES_MAX {
        return Err(X402Error::format("a string in it is longer than 4 KiB"));
    }
    Ok(())
}
