//! The published vectors against our code. A missing file or a missing case fails a test. No case is skipped, and
//! failures name their cases.
#![cfg(test)]

mod channel;
mod eip712;
mod messages;
mod wycheproof;

use serde_json::Value;

macro_rules! vectors {
    ($name:literal) => {
        serde_json::from_str::<serde_json::Value>(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/vectors/",
            $name
        )))
        .unwrap()
    };
}
use vectors;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key} in {value}"))
}

fn report(failed: &[String]) {
    assert!(failed.is_empty(), "{} failing cases:\n{}", failed.len(), failed.join("\n"));
}
