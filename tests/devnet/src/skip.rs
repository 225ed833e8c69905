//! Reports of tests that are skipped.

use std::io::{self, Write};

/// Reports on standard error that the running test, or a part of it, is skipped, and why.
///
/// Bypasses the test harness, which hides the output of passing tests.
pub fn report_skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _unheard = io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes());
}
