//! Violations that are known and not mended yet. They are counted apart and fail no run. Remove an entry with its cause.

/// The beginning of the target's name, and a part of the violation.
const KNOWN: &[(&str, &str)] = &[
    // A request target that no URI can have, such as `%2fhealth` or `/<b>`, gets 400 with an empty body.
    ("http-", "400 without a JSON object: \"\""),
    // A query key that occurs twice gets a plain text.
    ("http-facilitator", "Failed to deserialize query string"),
    // A path parameter that is no UTF-8 does, too.
    ("http-facilitator", "Invalid URL: Invalid UTF-8"),
    // A head that is too large gets the code of another status.
    ("http-proxy", "invalid_request with status 431, documented 400"),
    // Unknown words of a command line are printed with their control characters, however long they are.
    ("args-", "unrecognized subcommand"),
    ("args-", "unexpected argument"),
    ("args-", "the message has "),
    // The same for the name of a missing file of settings.
    ("args-", "cannot be read ("),
];

/// Returns whether a violation is on the list.
pub(crate) fn is_known(target: &str, violated: &str) -> bool {
    KNOWN.iter().any(|(prefix, part)| target.starts_with(prefix) && violated.contains(part))
}
