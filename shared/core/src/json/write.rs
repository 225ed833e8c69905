//! Writes JSON without white space, in the original order and with the original digits. Never changes a value.

use super::value::{Object, Value};

impl Value {
    /// Formats the value without white space and without changing numbers.
    ///
    /// It escapes only what JSON requires.
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        push_value(&mut out, self);
        out
    }
}

impl Object {
    /// Formats the object like [`Value::to_compact`].
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        push_object(&mut out, self);
        out
    }
}

fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(number.text()),
        Value::String(text) => push_minimal(out, text),
        Value::Array(items) => {
            let mut before = '[';
            for item in items {
                out.push(before);
                push_value(out, item);
                before = ',';
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(object) => push_object(out, object),
    }
}

fn push_object(out: &mut String, object: &Object) {
    let mut before = '{';
    for (key, value) in object.iter() {
        out.push(before);
        push_minimal(out, key);
        out.push(':');
        push_value(out, value);
        before = ',';
    }
    out.push_str(if object.is_empty() { "{}" } else { "}" });
}

fn push_minimal(out: &mut String, text: &str) {
    push_string(out, text, |character| character >= ' ');
}

/// Writes a string: the seven short escapes always, `\uXXXX` for other characters that are not `plain`.
pub(crate) fn push_string(out: &mut String, text: &str, plain: impl Fn(char) -> bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            _ if plain(character) => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str("\\u");
                    out.push_str(&hex::encode(unit.to_be_bytes()));
                }
            }
        }
    }
    out.push('"');
}
