//! Counts the tokens of a chat: an upper estimate by OpenAI's rule for its own models. Each message counts three tokens
//! plus its texts; the start of the answer counts three more. Upstreams rewrite tools and schemas in a shorter form;
//! here they count as JSON.

use bursar_core::json::{Object, Value};

use super::{Chat, invalid_member, member};
use crate::fault::{Code, Fault};
use crate::tokens::Vocabulary;

const TOKENS_PER_MESSAGE: u64 = 3;
const TOKENS_PER_NAME: u64 = 1;
const TOKENS_BEFORE_ANSWER: u64 = 3;
/// Maximum length of an image's `detail`: `low`, `high`, `auto` and the like.
const DETAIL_BYTES_MAX: usize = 16;
/// Tokens around the list of tools.
const TOOLS_TOKENS: u64 = 12;
/// Members of a message that count as their JSON. OpenAI and its libraries write them into answers, and clients send
/// answers back unchanged. Some upstreams insert them into the prompt.
const MEMBERS_COUNTED_AS_JSON: [&str; 11] = [
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "annotations",
    // The audio of an answer. Audio input is a content part, which is refused.
    "audio",
    "parsed",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "name",
];

/// Token counts of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCounts {
    pub prompt: u64,
    /// Tokens of the prediction in the request.
    ///
    /// Upstreams bill them as output if the answer does not match.
    pub predicted: u64,
}

/// A running token count.
struct TokenCounter {
    vocabulary: Vocabulary,
    /// Tokens per image. `None` if images are not sold.
    tokens_per_image: Option<u64>,
    sum: u64,
}

impl Chat {
    /// Counts the tokens of the request.
    ///
    /// `image` is the number of tokens per image; `None` refuses images.
    ///
    /// # Errors
    /// [`Fault`] for messages that are malformed, have content without a price, or have unknown members.
    pub fn count(&self, vocabulary: Vocabulary, image: Option<u64>) -> Result<TokenCounts, Fault> {
        let mut counter =
            TokenCounter { vocabulary, tokens_per_image: image, sum: TOKENS_BEFORE_ANSWER };
        let messages = self.object.get("messages").and_then(Value::as_array).unwrap_or_default();
        for message in messages {
            let message = message
                .as_object()
                .ok_or_else(|| invalid_member("messages", "has an entry that is not an object"))?;
            counter.add_message(message)?;
        }
        for key in ["tools", "functions"] {
            if let Some(tools) = member(&self.object, key) {
                counter.add(TOOLS_TOKENS);
                counter.add_json(tools);
            }
        }
        // A stop sequence has no maximum length.
        for key in ["response_format", "tool_choice", "function_call", "stop"] {
            if let Some(value) = member(&self.object, key) {
                counter.add_json(value);
            }
        }
        let mut predicted = TokenCounter { vocabulary, tokens_per_image: None, sum: 0 };
        if let Some(prediction) = member(&self.object, "prediction") {
            predicted.add_json(prediction);
        }
        Ok(TokenCounts { prompt: counter.sum, predicted: predicted.sum })
    }
}

impl TokenCounter {
    fn add(&mut self, tokens: u64) {
        self.sum = self.sum.saturating_add(tokens);
    }

    fn add_text(&mut self, text: &str) {
        self.add(self.vocabulary.count(text));
    }

    fn add_json(&mut self, value: &Value) {
        self.add_text(&value.to_compact());
    }

    fn add_message(&mut self, message: &Object) -> Result<(), Fault> {
        let role = message.get("role").and_then(Value::as_str);
        let role = role.ok_or_else(|| invalid_member("messages", "has an entry without a role"))?;
        self.add(TOKENS_PER_MESSAGE);
        self.add_text(role);
        for (key, value) in message.iter() {
            match (key, value) {
                ("role", _) | (_, Value::Null) => {}
                ("content", Value::Array(parts)) => {
                    parts.iter().try_for_each(|part| self.add_part(part))?;
                }
                ("content" | "refusal", Value::String(text)) => self.add_text(text),
                ("content", _neither) => {
                    return Err(invalid_member(
                        "messages",
                        "has content that is neither a string nor parts",
                    ));
                }
                ("name", Value::String(name)) => {
                    self.add(TOKENS_PER_NAME);
                    self.add_text(name);
                }
                (known, _any) if MEMBERS_COUNTED_AS_JSON.contains(&known) => self.add_json(value),
                // Other spellings of these members are rejected too, because some servers accept them.
                _other => return Err(unknown_member(key)),
            }
        }
        Ok(())
    }

    fn add_part(&mut self, part: &Value) -> Result<(), Fault> {
        let kind = part.get("type").and_then(Value::as_str);
        let kind =
            kind.ok_or_else(|| invalid_member("messages", "has a content part without a type"))?;
        match kind {
            "text" | "refusal" => {
                let text = part.get(kind).and_then(Value::as_str);
                self.add_text(text.ok_or_else(|| {
                    invalid_member("messages", &format!("has a {kind} part without {kind}"))
                })?);
                let others = part.as_object().into_iter().flat_map(Object::iter);
                for (key, _value) in others {
                    if key != "type" && key != kind {
                        return Err(unknown_member(key));
                    }
                }
                Ok(())
            }
            "image_url" => {
                let image = self.tokens_per_image.ok_or_else(|| without_price("images"))?;
                self.add(image);
                reject_unknown_members(part, &["type", "image_url"])?;
                part.get("image_url").map_or(Ok(()), check_image_url)
            }
            _other => Err(without_price(&format!(
                "parts of type {}",
                bursar_core::text::quoted(kind, 32)
            ))),
        }
    }
}

/// Refuses an image that has more than its URL and a short `detail`, because the price covers the image alone.
fn check_image_url(image: &Value) -> Result<(), Fault> {
    reject_unknown_members(image, &["url", "detail"])?;
    let is_text = |key, most| match image.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str().is_some_and(|text| text.len() <= most),
    };
    let is_image = image.as_object().is_some() && is_text("url", usize::MAX);
    if !(is_image || image.as_str().is_some()) {
        return Err(invalid_member("messages", "has an image whose url is not a string"));
    }
    if !is_text("detail", DETAIL_BYTES_MAX) {
        return Err(invalid_member("messages", "has an image whose detail is not a short word"));
    }
    Ok(())
}

/// Refuses an object with members that are not in `known`.
fn reject_unknown_members(value: &Value, known: &[&str]) -> Result<(), Fault> {
    let members = value.as_object().into_iter().flat_map(Object::iter);
    let mut others = members.map(|(key, _value)| key).filter(|key| !known.contains(key));
    others.next().map_or(Ok(()), |key| Err(unknown_member(key)))
}

fn unknown_member(key: &str) -> Fault {
    let shown = bursar_core::text::quoted(key, 64);
    let fault = Fault::of(Code::UnsupportedParameter).with_param("messages");
    fault.with_detail(format!("{shown} in a message is not sold here"))
}

fn without_price(what: &str) -> Fault {
    Fault::of(Code::UnsupportedContent)
        .with_detail(format!("there is no price for {what}"))
        .with_param("messages")
}
