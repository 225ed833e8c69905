//! Limits the length of members that cost nothing, so that they cannot contain long unpaid text.
//!
//! The limits are OpenAI's. Those of `metadata`, `stop` and the identifiers are from its API reference and its error
//! messages. The limit of `logit_bias` is the one that its API enforces. All other members are short: numbers, words
//! and flags.

use bursar_core::json::{Object, Value};

const STOPS_MAX: usize = 4;
const METADATA_MAX: usize = 16;
const METADATA_KEY_CHARS_MAX: usize = 64;
const METADATA_CHARS_MAX: usize = 512;
const BIASES_MAX: usize = 300;
const IDENTIFIER_CHARS_MAX: usize = 64;
/// Maximum size of any other free member's value, as JSON.
const FREE_VALUE_BYTES_MAX: usize = 128;
/// Maximum total size of the members that are allowed only by the operator's settings, as JSON.
const EXTRA_BYTES_MAX: usize = 1 << 10;

/// Returns the first free member that is too long, and an explanation. Members that are not in `known` share one limit.
pub(super) fn first_too_long<'a>(
    object: &'a Object,
    known: &[&str],
) -> Option<(&'a str, &'static str)> {
    let mut extra = 0_usize;
    for (key, value) in object.iter().filter(|(_key, value)| **value != Value::Null) {
        if known.contains(&key) {
            if let Some(why) = excess_reason(key, value) {
                return Some((key, why));
            }
            continue;
        }
        extra = extra.saturating_add(size(key, value));
        if extra > EXTRA_BYTES_MAX {
            return Some((
                key,
                "is too long: all members without a price together can have 1024 bytes",
            ));
        }
    }
    None
}

/// Explains why a known member is too long, or returns `None`. Members that are priced or counted have no limit here.
fn excess_reason(key: &str, value: &Value) -> Option<&'static str> {
    let (fits, why) = match key {
        "messages"
        | "model"
        | "max_completion_tokens"
        | "max_tokens"
        | "n"
        | "stream"
        | "tools"
        | "tool_choice"
        | "functions"
        | "function_call"
        | "response_format"
        | "prediction" => return None,
        // The text counts as prompt, so its length has no limit here.
        "stop" => (is_valid_stop(value), "is neither a string nor an array of up to 4 strings"),
        "metadata" => (
            value.as_object().is_some_and(is_valid_metadata),
            "is not an object of up to 16 strings of up to 512 characters, with names of up to 64",
        ),
        "logit_bias" => (
            value.as_object().is_some_and(is_valid_biases),
            "is not an object of up to 300 numbers, with token ids as names",
        ),
        "user" | "safety_identifier" | "prompt_cache_key" => (
            value.as_str().is_some_and(|text| fits_chars(text, IDENTIFIER_CHARS_MAX)),
            "is not a string of up to 64 characters",
        ),
        _short => (value.to_compact().len() <= FREE_VALUE_BYTES_MAX, "is longer than 128 bytes"),
    };
    (!fits).then_some(why)
}

fn is_valid_stop(value: &Value) -> bool {
    let is_text = |stop: &Value| stop.as_str().is_some();
    let is_list = |stops: &[Value]| stops.len() <= STOPS_MAX && stops.iter().all(is_text);
    is_text(value) || value.as_array().is_some_and(is_list)
}

fn is_valid_metadata(pairs: &Object) -> bool {
    let fits = |(key, value): (&str, &Value)| {
        fits_chars(key, METADATA_KEY_CHARS_MAX)
            && value.as_str().is_some_and(|text| fits_chars(text, METADATA_CHARS_MAX))
    };
    pairs.len() <= METADATA_MAX && pairs.iter().all(fits)
}

fn is_valid_biases(biases: &Object) -> bool {
    let is_id = |key: &str| key.len() <= 10 && key.bytes().all(|byte| byte.is_ascii_digit());
    let is_bias = |value: &Value| value.as_number().is_some_and(|bias| bias.text().len() <= 32);
    biases.len() <= BIASES_MAX && biases.iter().all(|(key, value)| is_id(key) && is_bias(value))
}

fn fits_chars(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_none()
}

/// Returns the size of a member as JSON.
fn size(key: &str, value: &Value) -> usize {
    Object::new().with(key, value.clone()).to_compact().len()
}
