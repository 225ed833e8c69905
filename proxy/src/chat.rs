//! A chat completion request. The price is computed before the answer. So the parser refuses everything that could cost
//! more: unknown members, other spellings of known members, content without a price, and long text in members that cost
//! nothing.

pub mod count;
mod free;

use bursar_core::json::{self, Number, Object, Value};

use crate::fault::{Code, Fault};

/// Maximum nesting depth of a body. Schemas of tools are deep.
const DEPTH_MAX: usize = 64;
/// Maximum number of JSON values in a body.
const VALUES_MAX: usize = 131_072;
/// Maximum number of messages in a body.
const MESSAGES_MAX: usize = 8_192;
/// Maximum number of choices per request.
const CHOICES_MAX: u64 = 16;

/// Members that limit the length of the answer. An upstream obeys only one of them.
const BOUND_MEMBERS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Members that are forwarded. Each of them costs nothing or is counted.
const KNOWN_MEMBERS: [&str; 33] = [
    "messages",
    "model",
    "max_completion_tokens",
    "max_tokens",
    "n",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "response_format",
    "prediction",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "stop",
    "user",
    "metadata",
    "store",
    "reasoning_effort",
    "verbosity",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "modalities",
];

/// A parsed chat request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    object: Object,
    pub model: Option<String>,
    pub stream: bool,
    /// Number of answers that the request asks for.
    pub choices: u64,
    /// Maximum number of tokens of one answer, if the body sets it.
    pub answer_tokens_max: Option<u64>,
}

impl Chat {
    /// Parses a body.
    ///
    /// `extra` lists further members that the operator allows.
    ///
    /// # Errors
    /// [`Fault`] with the invalid member.
    pub fn parse(body: &[u8], extra: &[String]) -> Result<Self, Fault> {
        let object = object(body)?;
        for (key, value) in object.iter() {
            reject_unknown(key, extra)?;
            // Clients write `null` for members that they do not set.
            if *value != Value::Null {
                reject_priced_extras(key, value)?;
            }
        }
        if let Some((key, why)) = free::first_too_long(&object, &KNOWN_MEMBERS) {
            return Err(invalid_member(key, why));
        }
        Self::of(object)
    }

    /// Parses a body that was sold before.
    ///
    /// All members are accepted, because they were allowed when the body was sold.
    ///
    /// # Errors
    /// [`Fault`] with the invalid member.
    pub fn parse_sold(body: &[u8]) -> Result<Self, Fault> {
        Self::of(object(body)?)
    }

    fn of(object: Object) -> Result<Self, Fault> {
        let messages = member(&object, "messages");
        let messages = messages.ok_or_else(|| invalid_member("messages", "is missing"))?;
        let messages =
            messages.as_array().ok_or_else(|| invalid_member("messages", "is not an array"))?;
        if messages.is_empty() {
            return Err(invalid_member("messages", "is empty"));
        }
        if messages.len() > MESSAGES_MAX {
            return Err(invalid_member("messages", "has more than 8192 entries"));
        }
        Ok(Self {
            model: text(&object, "model")?,
            stream: flag(&object, "stream")?,
            choices: choices(&object)?,
            answer_tokens_max: answer_tokens_max(&object)?,
            object,
        })
    }

    /// Returns the body for the upstream, or `None` if the original body can be sent.
    ///
    /// It contains the paid bound under the one name that the upstream obeys, and `model` if the original body names
    /// none.
    pub fn forward_body(&self, bound: (&str, u64), model: Option<&str>) -> Option<String> {
        let (name, most) = bound;
        let missing_model = model.filter(|_none| self.model.is_none());
        let set = |key: &str| member(&self.object, key);
        let sent_bound = set(name).and_then(Value::as_number).and_then(Number::as_u64);
        let others = BOUND_MEMBERS.iter().any(|key| *key != name && set(key).is_some());
        if sent_bound == Some(most) && !others && missing_model.is_none() {
            return None;
        }
        let mut object = Object::new();
        for (key, value) in self.object.iter().filter(|(key, _value)| !BOUND_MEMBERS.contains(key))
        {
            object.insert(key, value.clone());
        }
        object.insert(name, most);
        if let Some(model) = missing_model {
            object.insert("model", model);
        }
        Some(object.to_compact())
    }
}

fn object(body: &[u8]) -> Result<Object, Fault> {
    let value = json::parse_few(body, DEPTH_MAX, VALUES_MAX)
        .map_err(|fault| Fault::of(Code::InvalidJson).with_detail(fault))?;
    let Value::Object(object) = value else {
        return Err(Fault::of(Code::InvalidJson).with_detail("it is not an object"));
    };
    Ok(object)
}

/// Returns a member unless it is absent or `null`.
fn member<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| **value != Value::Null)
}

fn invalid_member(key: &str, why: &str) -> Fault {
    Fault::of(Code::InvalidRequest).with_detail(format!("{key} {why}")).with_param(key)
}

/// Refuses unknown members, including other spellings of known members. Some servers ignore the case of keys. Go's JSON
/// decoder also reads the long s (U+017F) as s and the Kelvin sign (U+212A) as k. A second spelling could contain
/// another value than the one that was priced.
fn reject_unknown(key: &str, extra: &[String]) -> Result<(), Fault> {
    if KNOWN_MEMBERS.contains(&key) || extra.iter().any(|other| other == key) {
        return Ok(());
    }
    let shown = bursar_core::text::quoted(key, 64);
    let fault = Fault::of(Code::UnsupportedParameter);
    Err(fault
        .with_detail(format!("{shown} is not sold here"))
        .with_param(&bursar_core::text::snippet(key)))
}

/// Refuses values that may cost more than their tokens.
fn reject_priced_extras(key: &str, value: &Value) -> Result<(), Fault> {
    let priced_extra = match key {
        "service_tier" => !matches!(value.as_str(), Some("auto" | "default" | "flex")),
        // The upstream bills separately for tools that it runs itself.
        "tools" => {
            let kind = |tool: &Value| tool.get("type").and_then(Value::as_str).map(str::to_owned);
            let known = |tool| matches!(kind(tool).as_deref(), Some("function" | "custom"));
            value.as_array().is_none_or(|tools| !tools.iter().all(known))
        }
        "modalities" => {
            let texts = value.as_array();
            texts.is_none_or(|all| all.iter().any(|one| one.as_str() != Some("text")))
        }
        _other => false,
    };
    if priced_extra {
        let why = format!("this value of {key} has no price");
        return Err(Fault::of(Code::UnsupportedParameter).with_detail(why).with_param(key));
    }
    Ok(())
}

fn text(object: &Object, key: &str) -> Result<Option<String>, Fault> {
    let Some(value) = member(object, key) else { return Ok(None) };
    let text = value.as_str().filter(|text| !text.is_empty() && text.len() <= 256);
    text.map(|text| Some(text.to_owned()))
        .ok_or_else(|| invalid_member(key, "is not a string of 1 to 256 bytes"))
}

fn flag(object: &Object, key: &str) -> Result<bool, Fault> {
    match member(object, key) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| invalid_member(key, "must be true or false")),
    }
}

/// Reads a positive number of plain digits. Other forms like `1e3` are refused, because parsers disagree about their
/// values.
fn count(object: &Object, key: &str) -> Result<Option<u64>, Fault> {
    let Some(value) = member(object, key) else { return Ok(None) };
    let number = value.as_number().and_then(Number::as_u64).filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| invalid_member(key, "is not a whole number of 1 or more"))
}

fn choices(object: &Object) -> Result<u64, Fault> {
    let choices = count(object, "n")?.unwrap_or(1);
    if choices > CHOICES_MAX {
        return Err(invalid_member("n", "is more than 16"));
    }
    Ok(choices)
}

/// Returns the larger bound if both are set. Only this bound is sent to the upstream.
fn answer_tokens_max(object: &Object) -> Result<Option<u64>, Fault> {
    let mut largest = None;
    for key in BOUND_MEMBERS {
        largest = largest.max(count(object, key)?);
    }
    Ok(largest)
}

#[cfg(test)]
mod tests;
