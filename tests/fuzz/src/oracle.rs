//! The rules that every answer and every command must keep. They come from the manuals.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::http::Reply;
use crate::process::{ProgramEnd, panic_text};

/// Longest message to a person, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest text of a command on standard error, in bytes: a message, and the usage of the command.
const STDERR_BYTES_MAX: usize = 8_192;

/// The wallet's codes with their HTTP status and exit code, from the manual.
static CODES: LazyLock<BTreeMap<&str, (u16, i32)>> = LazyLock::new(|| {
    let table = include_str!("../../../docs/codes.md");
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let code = cells.next()?.trim().trim_end_matches('`');
        let status = cells.next()?.trim().parse().ok()?;
        Some((code, (status, cells.next()?.trim().parse().ok()?)))
    });
    rows.collect()
});

/// The proxy's codes with their status, from its manual.
static PROXY_CODES: LazyLock<BTreeMap<&str, u16>> = LazyLock::new(|| {
    let rows = section(include_str!("../../../docs/proxy.md"), "errors");
    let rows = rows.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let code = cells.next()?.trim().trim_end_matches('`');
        Some((code, cells.next()?.trim().parse().ok()?))
    });
    rows.collect()
});

/// The facilitator's codes, from its manual.
static FACILITATOR_CODES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let rows = section(include_str!("../../../docs/facilitator.md"), "codes");
    let codes = rows.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    codes.chain(["invalid_payload"]).collect()
});

fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->")).expect("the section");
    rest.split_once(&format!("<!-- end of {name} -->")).expect("its end").0
}

/// Checks a message to a person: no control characters, and a bounded length.
fn check_message(what: &str, text: &str, violated: &mut Vec<String>) {
    let odd = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    if let Some(odd) = odd {
        violated.push(format!("{what} contains the control character {odd:?}: {text:?}"));
    }
    if text.len() > MESSAGE_BYTES_MAX {
        violated.push(format!("{what} has {} bytes", text.len()));
    }
    if text.is_empty() {
        violated.push(format!("{what} is empty"));
    }
}

/// Checks the rules for every answer of a service. Returns the JSON of an error.
fn check_error(reply: &Reply, violated: &mut Vec<String>) -> Option<Value> {
    if reply.body.len() > 8 << 20 {
        violated.push(format!("an answer of {} bytes", reply.body.len()));
    }
    if !(200..600).contains(&reply.status) {
        violated.push(format!("the status {}", reply.status));
    }
    if reply.status < 400 {
        return None;
    }
    // A response to HEAD has no body.
    if reply.body.is_empty() && reply.header("content-length").is_some_and(|length| length != "0") {
        return None;
    }
    let value = reply.json();
    if !value.as_ref().is_some_and(Value::is_object) {
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        violated.push(format!("{} without a JSON object: {text:.300?}", reply.status));
        return None;
    }
    if !reply.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        violated.push(format!("{}: the content type is not JSON", reply.status));
    }
    value
}

/// Checks an answer of the agent server. Returns its class.
pub(crate) fn check_engine_answer(reply: &Reply, violated: &mut Vec<String>) -> String {
    let Some(error) = check_error(reply, violated) else { return reply.status.to_string() };
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    for name in ["error", "reason", "hint", "message"] {
        if let Some(message) = error[name].as_str() {
            check_message(name, message, violated);
        }
    }
    let code = if text("code").is_empty() { text("reason_code") } else { text("code") };
    match CODES.get(code) {
        // Results of a swap or a loan have their own statuses, and codes of the original wallet.
        _any if ["rejected", "failed"].contains(&text("status")) => {}
        None => violated.push(format!("{} with the unknown code {code:?}: {error}", reply.status)),
        Some((status, _)) if *status != reply.status => {
            violated.push(format!("{code} with status {}, documented {status}", reply.status));
        }
        Some(_) => {}
    }
    if code == "INTERNAL_ERROR" {
        violated.push(format!("an internal error: {error}"));
    }
    format!("{} {code}", reply.status)
}

/// Checks an answer of the facilitator. Returns its class.
pub(crate) fn check_facilitator_answer(reply: &Reply, violated: &mut Vec<String>) -> String {
    let verdict = check_error(reply, violated);
    let value = verdict.clone().or_else(|| reply.json()).unwrap_or_default();
    let reason = value["invalidReason"].as_str().or(value["errorReason"].as_str());
    if let Some(error) = &verdict {
        let message = error["error"].as_str().or(error["errorMessage"].as_str());
        match message.or(error["invalidMessage"].as_str()) {
            Some(message) => check_message("error", message, violated),
            // `/readyz` lists its checks instead.
            None if error["status"].is_string() || error["checks"].is_array() => {}
            None => violated.push(format!("{} without the member error: {error}", reply.status)),
        }
    }
    for name in ["invalidMessage", "errorMessage"] {
        if let Some(message) = value[name].as_str() {
            check_message(name, message, violated);
        }
    }
    match reason {
        Some(reason) if !FACILITATOR_CODES.contains(&reason) => {
            violated.push(format!("the reason {reason:?} is not documented"));
        }
        Some(_) | None => {}
    }
    reason.map_or_else(|| reply.status.to_string(), |reason| format!("{} {reason}", reply.status))
}

/// Checks an answer of the proxy. `upstream` means that the upstream may have written it. Returns its class.
pub(crate) fn check_proxy_answer(
    reply: &Reply,
    upstream: bool,
    violated: &mut Vec<String>,
) -> String {
    let mut found = Vec::new();
    let error = check_error(reply, &mut found);
    let own = !upstream || error.as_ref().is_some_and(|error| !error["x402"].is_null());
    if !own {
        return format!("{} of the upstream", reply.status);
    }
    violated.append(&mut found);
    let Some(error) = error else { return reply.status.to_string() };
    if reply.status == 402 && error["accepts"].is_array() {
        match error["error"].as_str() {
            Some(message) => check_message("error", message, violated),
            None => violated.push(format!("an offer without the member error: {error}")),
        }
        return "402 offer".into();
    }
    if error["status"].is_string() {
        // `/readyz` reports the clock.
        return reply.status.to_string();
    }
    let inner = &error["error"];
    let code = inner["code"].as_str().unwrap_or_default();
    match inner["message"].as_str() {
        Some(message) => check_message("message", message, violated),
        None => violated.push(format!("{} without a message: {error}", reply.status)),
    }
    match PROXY_CODES.get(code) {
        None => violated.push(format!("{} with the unknown code {code:?}: {error}", reply.status)),
        Some(status) if *status != reply.status => {
            violated.push(format!("{code} with status {}, documented {status}", reply.status));
        }
        Some(_) => {}
    }
    format!("{} {code}", reply.status)
}

/// Checks every fault in a message of the control channel: an object with a code of the manual, and its text.
pub(crate) fn check_faults(message: &Value, violated: &mut Vec<String>) {
    match message {
        Value::Array(items) => items.iter().for_each(|item| check_faults(item, violated)),
        Value::Object(members) => {
            let code = members.get("code").and_then(Value::as_str).unwrap_or_default();
            if let Some(text) = members.get("message").and_then(Value::as_str)
                && CODES.contains_key(code)
            {
                check_message("a fault", text, violated);
                if code == "INTERNAL_ERROR" {
                    violated.push(format!("an internal error: {message}"));
                }
            }
            members.values().for_each(|member| check_faults(member, violated));
        }
        _scalar => {}
    }
}

/// Checks the end of any command: it ended by itself with a documented code and no panic. Returns its class.
pub(crate) fn check_command_end(
    ended: &ProgramEnd,
    documented: &[i32],
    violated: &mut Vec<String>,
) -> String {
    if let Some(text) = panic_text(&ended.stderr) {
        violated.push(format!("a panic on standard error: {text}"));
    }
    let err = String::from_utf8_lossy(&ended.stderr);
    if ended.stderr.len() > STDERR_BYTES_MAX {
        violated.push(format!("{} bytes on standard error: {err:.300}", ended.stderr.len()));
    }
    if let Some(odd) = err.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        violated.push(format!("the control character {odd:?} on standard error: {err:.600?}"));
    }
    let code = match ended.code() {
        Ok(code) => code,
        Err(why) => {
            violated.push(format!("{why}; it printed {err:.600?}"));
            return "no exit".into();
        }
    };
    if !documented.contains(&code) {
        violated.push(format!("the exit code {code} is not documented; it printed {err:.600?}"));
    }
    // A service may notice at any time that its store is damaged.
    if ended.was_ready && ![0, 13].contains(&code) {
        violated.push(format!("exit code {code} after SIGTERM: {err:.600}"));
    }
    if ended.was_ready { "ready".into() } else { format!("exit {code}") }
}

/// Checks the output of a command of the wallet with `--json`.
pub(crate) fn check_envelope(ended: &ProgramEnd, violated: &mut Vec<String>) {
    let Ok(exit) = ended.code() else { return };
    let out = String::from_utf8_lossy(&ended.stdout);
    let document: Value = match serde_json::from_slice(&ended.stdout) {
        Ok(document) if out.lines().count() == 1 && out.ends_with('\n') => document,
        _other => return violated.push(format!("exit {exit}, not one document: {out:.300?}")),
    };
    let command = document["command"].as_str().unwrap_or_default();
    let warnings = document["warnings"].as_array().into_iter().flatten();
    for warning in warnings {
        check_message("a warning", warning["message"].as_str().unwrap_or_default(), violated);
    }
    if document["v"] != 2 || !document["warnings"].is_array() {
        violated.push(format!("the envelope is not complete: {document:.300}"));
    }
    if document["ok"] == true {
        // The command `status` also reports a state by its exit code.
        let agrees = match command {
            "status" => [0, 3, 4].contains(&exit),
            _other => exit == 0,
        };
        if !agrees || !document["error"].is_null() {
            violated.push(format!("ok does not agree with exit {exit}: {document:.300}"));
        }
        return;
    }
    let error = &document["error"];
    let code = error["code"].as_str().unwrap_or_default();
    if document["ok"] != false || exit == 0 || error["exit"] != exit {
        violated.push(format!("the error does not agree with exit {exit}: {document:.300}"));
    }
    match CODES.get(code) {
        Some((_, documented)) if *documented == exit => {}
        other => violated.push(format!("{code:?} with exit {exit}, documented {other:?}")),
    }
    check_message("the message", error["message"].as_str().unwrap_or_default(), violated);
    if let Some(hint) = error["hint"].as_str() {
        check_message("the hint", hint, violated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manuals_have_codes() {
        assert!(CODES.len() > 100 && CODES["AUTH_FAILED"] == (401, 5), "{}", CODES.len());
        assert!(PROXY_CODES.len() > 20, "{}", PROXY_CODES.len());
        assert!(FACILITATOR_CODES.len() > 80, "{}", FACILITATOR_CODES.len());
    }

    fn reply(status: u16, body: &str) -> Reply {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Reply { status, headers, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn undocumented_answers_are_found() {
        for (status, body) in [
            (400, "no JSON"),
            (400, "{}"),
            (400, "{\"status\":\"error\",\"code\":\"AUTH_FAILED\",\"error\":\"x\"}"),
            (401, "{\"status\":\"error\",\"code\":\"AUTH_FAILED\",\"error\":\"\\u001b[1m\"}"),
            (500, "{\"status\":\"error\",\"code\":\"INTERNAL_ERROR\",\"error\":\"x\"}"),
        ] {
            let mut violated = Vec::new();
            check_engine_answer(&reply(status, body), &mut violated);
            assert!(!violated.is_empty(), "{status} {body}");
        }
        let mut violated = Vec::new();
        let good = "{\"status\":\"error\",\"code\":\"AUTH_FAILED\",\"error\":\"x\"}";
        assert_eq!(check_engine_answer(&reply(401, good), &mut violated), "401 AUTH_FAILED");
        assert!(violated.is_empty(), "{violated:?}");
    }
}
