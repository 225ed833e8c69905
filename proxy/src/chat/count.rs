//! How many tokens a chat is, at most. Counted as OpenAI describes it for its own models: three for each
//! message, its texts, and three for the answer's beginning. What an upstream writes in a form of its own
//! (tools, schemas) counts as its JSON, which is longer.

use bursar_core::json::{Object, Value};

use super::{Chat, member, wrong};
use crate::fault::{Code, Fault};
use crate::tokens::Vocabulary;

const OF_A_MESSAGE: u64 = 3;
const OF_A_NAME: u64 = 1;
const OF_THE_ANSWER: u64 = 3;
/// Around all tools together.
const OF_TOOLS: u64 = 12;

/// What a chat counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub prompt: u64,
    /// Tokens that count as answered although they were sent: a prediction that is not met is billed so.
    pub predicted: u64,
}

/// How things are counted.
struct Counter {
    vocabulary: Vocabulary,
    /// What an image counts as; `None` where images are not sold.
    image: Option<u64>,
    sum: u64,
}

impl Chat {
    /// Counts it.
    ///
    /// # Errors
    /// [`Fault`] for contents that are no text.
    pub fn count(&self, vocabulary: Vocabulary, image: Option<u64>) -> Result<Counted, Fault> {
        let mut counter = Counter { vocabulary, image, sum: OF_THE_ANSWER };
        let messages = self.object.get("messages").and_then(Value::as_array).unwrap_or_default();
        for message in messages {
            let message = message
                .as_object()
                .ok_or_else(|| wrong("messages", "has an entry that is not an object"))?;
            counter.message(message)?;
        }
        for key in ["tools", "functions"] {
            if let Some(tools) = member(&self.object, key) {
                counter.add(OF_TOOLS);
                counter.json(tools);
            }
        }
        for key in ["response_format", "tool_choice", "function_call"] {
            if let Some(value) = member(&self.object, key) {
                counter.json(value);
            }
        }
        let mut predicted = Counter { vocabulary, image: None, sum: 0 };
        if let Some(prediction) = member(&self.object, "prediction") {
            predicted.json(prediction);
        }
        Ok(Counted { prompt: counter.sum, predicted: predicted.sum })
    }
}

impl Counter {
    fn add(&mut self, tokens: u64) {
        self.sum = self.sum.saturating_add(tokens);
    }

    fn text(&mut self, text: &str) {
        self.add(self.vocabulary.count(text));
    }

    fn json(&mut self, value: &Value) {
        self.text(&value.to_compact());
    }

    fn message(&mut self, message: &Object) -> Result<(), Fault> {
        let role = message.get("role").and_then(Value::as_str);
        let role = role.ok_or_else(|| wrong("messages", "has an entry without a role"))?;
        self.add(OF_A_MESSAGE);
        self.text(role);
        for (key, value) in message.iter() {
            match (key, value) {
                ("role", _) | (_, Value::Null) => {}
                ("content", Value::Array(parts)) => {
                    parts.iter().try_for_each(|part| self.part(part))?;
                }
                ("content" | "refusal", Value::String(text)) => self.text(text),
                ("content", _neither) => {
                    return Err(wrong(
                        "messages",
                        "has content that is neither a string nor parts",
                    ));
                }
                ("name", Value::String(name)) => {
                    self.add(OF_A_NAME);
                    self.text(name);
                }
                ("audio", _) => return Err(not_sold("audio")),
                // Whether an upstream puts them into the prompt is for it to say, so they count.
                (
                    "tool_calls" | "tool_call_id" | "function_call" | "reasoning_content"
                    | "reasoning" | "refusal" | "name",
                    _any,
                ) => self.json(value),
                // Also another spelling of one of these, which some servers would take for it.
                _other => return Err(unknown(key)),
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &Value) -> Result<(), Fault> {
        let kind = part.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| wrong("messages", "has a content part without a type"))?;
        match kind {
            "text" | "refusal" => {
                let text = part.get(kind).and_then(Value::as_str);
                self.text(text.ok_or_else(|| wrong("messages", "has a text part without text"))?);
                let others = part.as_object().into_iter().flat_map(Object::iter);
                for (key, _value) in others {
                    if key != "type" && key != kind {
                        return Err(unknown(key));
                    }
                }
                Ok(())
            }
            "image_url" => {
                let image = self.image.ok_or_else(|| not_sold("images"))?;
                self.add(image);
                only(part, &["type", "image_url"])?;
                part.get("image_url").map_or(Ok(()), |url| only(url, &["url", "detail"]))
            }
            _other => {
                Err(not_sold(&format!("parts of type {}", bursar_core::text::quoted(kind, 32))))
            }
        }
    }
}

/// Refuses an object with another member than these.
fn only(value: &Value, known: &[&str]) -> Result<(), Fault> {
    let members = value.as_object().into_iter().flat_map(Object::iter);
    let mut others = members.map(|(key, _value)| key).filter(|key| !known.contains(key));
    others.next().map_or(Ok(()), |key| Err(unknown(key)))
}

fn unknown(key: &str) -> Fault {
    let shown = bursar_core::text::quoted(key, 64);
    let fault = Fault::of(Code::UnsupportedParameter).about("messages");
    fault.because(format!("{shown} in a message is not sold here"))
}

fn not_sold(what: &str) -> Fault {
    Fault::of(Code::UnsupportedContent)
        .because(format!("{what} are not sold here"))
        .about("messages")
}
