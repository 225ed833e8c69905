//! Size limits of a challenge from a header or a body. Resource servers are untrusted, but the wallet stores their
//! challenges, shows them to the operator and sends them back. So it refuses a large challenge.

use bursar_core::json::{Object, Value};
use bursar_core::limits::{PAYMENT_HEADER_BYTES_MAX, PAYMENT_HEADER_DEPTH_MAX};

use crate::error::X402Error;

/// Maximum number of offers in one challenge.
///
/// Honest servers list one offer for each network and token that they accept.
pub const MAX_OFFERS: usize = 32;
/// Maximum length of a string or key in a challenge, in bytes: the length of the longest accepted URL.
pub const MAX_STRING_BYTES: usize = 4 << 10;

/// Checks the size, the depth and the strings of a challenge.
///
/// A challenge from a header has passed [`crate::header::decode`], which checks size and depth, but not strings. A
/// challenge in `x402_data` of a request body has passed no check yet.
pub(crate) fn check(challenge: &Value) -> Result<(), X402Error> {
    walk(challenge, PAYMENT_HEADER_DEPTH_MAX)?;
    if challenge.to_compact().len() > PAYMENT_HEADER_BYTES_MAX {
        return Err(X402Error::format("it is longer than 64 KiB"));
    }
    Ok(())
}

/// Checks the depth and the strings of a value. It recurses at most `levels` deep.
fn walk(value: &Value, levels: usize) -> Result<(), X402Error> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => string(text),
        Value::Array(items) => {
            let levels = one_deeper(levels)?;
            items.iter().try_for_each(|item| walk(item, levels))
        }
        Value::Object(members) => walk_members(members, one_deeper(levels)?),
    }
}

fn walk_members(members: &Object, levels: usize) -> Result<(), X402Error> {
    members.iter().try_for_each(|(key, value)| {
        string(key)?;
        walk(value, levels)
    })
}

fn one_deeper(levels: usize) -> Result<usize, X402Error> {
    levels.checked_sub(1).ok_or_else(|| X402Error::format("it is nested deeper than 32 levels"))
}

fn string(text: &str) -> Result<(), X402Error> {
    if text.len() > MAX_STRING_BYTES {
        return Err(X402Error::format("a string in it is longer than 4 KiB"));
    }
    Ok(())
}
