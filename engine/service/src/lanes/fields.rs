//! Reads single fields of a request's object.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};
use bursar_core::money::{MoneyError, parse_decimal};
use bursar_core::text;
use bursar_domain::Refusal;

/// Why an object is not accepted.
#[derive(Debug)]
pub enum InputFault {
    /// The object has a wrong form.
    Malformed(Fault),
    /// The form is right, but the wallet cannot carry out the request.
    Refused(Refusal),
}

pub(super) fn malformed(message: impl Into<String>) -> InputFault {
    InputFault::Malformed(Fault::because(Code::BadRequest, message))
}

/// Checks that an object has all of these fields.
pub(super) fn require_fields(object: &Object, names: &[&str]) -> Result<(), InputFault> {
    let is_missing = |name: &&str| matches!(object.get(name), None | Some(Value::Null));
    let missing: Vec<&str> = names.iter().copied().filter(|name| is_missing(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(malformed(format!("missing required field(s): {}", missing.join(", "))))
}

/// Checks that an object has no other fields than these. An ignored field could be a limit on which the agent relies.
pub(super) fn check_only_fields(
    object: &Object,
    what: &str,
    known: &[&str],
) -> Result<(), InputFault> {
    let unknown = object.iter().map(|(name, _value)| name).find(|name| !known.contains(name));
    unknown.map_or(Ok(()), |name| {
        let name = text::quoted(name, 40);
        Err(malformed(format!(
            "{name} is not a field of {what}: leave it out. {what} has {}.",
            known.join(", ")
        )))
    })
}

/// Reads an optional whole number.
pub(super) fn number(object: &Object, name: &str) -> Result<Option<u64>, InputFault> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) if number.as_u64().is_some() => Ok(number.as_u64()),
        Some(_other) => Err(malformed(format!("{name} must be a whole number."))),
    }
}

/// Checks a decimal amount and returns its text, which is parsed once the token's decimals are known.
pub(super) fn decimal(object: &Object, name: &str) -> Result<String, InputFault> {
    let wrong = || malformed(format!("{name} must be a decimal amount, like \"1.5\"."));
    let text = match object.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.text().to_owned(),
        _other => return Err(wrong()),
    };
    match parse_decimal(&text, 36) {
        Ok(_) | Err(MoneyError::TooFine) => Ok(text),
        Err(_wrong) => Err(wrong()),
    }
}
