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
    // Unknown words and values of a command line are printed with their control characters, however long they are.
    ("args-", "unrecognized subcommand"),
    ("args-", "unexpected argument"),
    ("args-", "invalid value"),
    ("args-", "is not a network Bursar knows"),
    ("args-", "the message has "),
    ("args-", " bytes on standard error: bursar-"),
    ("control-", "No request begins with"),
    ("control-", "is not a network Bursar knows"),
    // The same for names of files, and for keys and values of settings.
    ("args-", "cannot be read ("),
    ("settings-", "cannot be read ("),
    ("settings-", "the message has "),
    ("settings-", " bytes on standard error: bursar-"),
    // A command that finds damage after its answer prints a second document.
    ("stores-engine", "exit 13, not one document: \"{\\\"v\\\":1,\\\"ok\\\":true"),
    // The name of a damaged table is printed with its control characters.
    ("stores-engine", "cannot be used: "),
    ("stores-", " is damaged ("),
    // A kept answer has no checksum, so that a flipped bit changes the status with which it is repeated.
    ("stores-proxy", "the status "),
    ("stores-proxy", " without a message: "),
    ("stores-proxy", " with the unknown code \"\": "),
];

/// Returns whether a violation is on the list.
pub(crate) fn is_known(target: &str, violated: &str) -> bool {
    KNOWN.iter().any(|(prefix, part)| target.starts_with(prefix) && violated.contains(part))
}
