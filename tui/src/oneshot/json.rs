//! The output of `--json`: an envelope in one line, with the same fields for success and failure, or the lines of a
//! stream. The output is ASCII only, so that foreign text in it cannot control a terminal.

use std::io::{self, Write};

use bursar_control::answers::Warning;
use bursar_control::json_version::JsonVersion;
use bursar_core::status::RequestStatus;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;
use zeroize::Zeroizing;

use super::failure::Failure;

/// Enough for every envelope with a secret. A buffer that grows would leave a copy of the secret behind.
const CAPACITY_BYTES: usize = 16 << 10;

#[derive(Serialize)]
pub(super) struct Envelope<'a> {
    v: u8,
    ok: bool,
    command: Option<&'a str>,
    data: Option<Data<'a>>,
    warnings: &'a [Warning],
    error: Option<Error<'a>>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'static str,
    message: &'a str,
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_status: Option<RequestStatus>,
    retryable: bool,
    exit: u8,
}

/// The fields of an answer, and the field of the secret that came with it, if any.
pub(super) struct Data<'a> {
    pub(super) answer: &'a Value,
    pub(super) secret_data: Option<SecretData<'a>>,
}

/// A secret, or why it is missing. It is borrowed, so that no copy exists.
pub(super) struct SecretData<'a> {
    pub(super) field: &'static str,
    pub(super) secret: Result<&'a str, &'static str>,
}

impl<'a> Envelope<'a> {
    pub(super) fn success(
        version: JsonVersion,
        command: &'a str,
        data: Data<'a>,
        warnings: &'a [Warning],
    ) -> Self {
        let v = version.number();
        Self { v, ok: true, command: Some(command), data: Some(data), warnings, error: None }
    }

    pub(super) fn failure(
        version: JsonVersion,
        command: Option<&'a str>,
        failure: &'a Failure,
        warnings: &'a [Warning],
    ) -> Self {
        let code = failure.fault.code;
        let error = Error {
            code: code.text(),
            message: &failure.fault.message,
            hint: failure.hint(),
            request_status: failure.fault.request_status,
            retryable: failure.is_retryable(),
            exit: code.exit(),
        };
        let v = version.number();
        Self { v, ok: false, command, data: None, warnings, error: Some(error) }
    }

    /// Adds the data of a result to a failure.
    pub(super) fn with_data(mut self, data: Data<'a>) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Zeroizing::new(Vec::with_capacity(CAPACITY_BYTES));
        push_line(&mut text, self)?;
        out.write_all(&text)?;
        out.flush()
    }
}

/// Writes each value on a separate line and flushes.
pub(super) fn write_lines(out: &mut dyn Write, values: &[impl Serialize]) -> io::Result<()> {
    let mut text = Vec::with_capacity(CAPACITY_BYTES);
    for value in values {
        push_line(&mut text, value)?;
    }
    out.write_all(&text)?;
    out.flush()
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *text, Ascii))?;
    text.push(b'\n');
    Ok(())
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (Value::Object(fields), Some(extra)) = (self.answer, &self.secret_data) else {
            return self.answer.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields {
            map.serialize_entry(name, value)?;
        }
        match extra.secret {
            Ok(secret) => map.serialize_entry(extra.field, secret)?,
            Err(reason) => {
                map.serialize_entry(extra.field, &None::<&str>)?;
                map.serialize_entry(&format!("{}_unknown_reason", extra.field), reason)?;
            }
        }
        map.end()
    }
}

/// A compact JSON format that escapes all characters except printable ASCII.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        to: &mut W,
        text: &str,
    ) -> io::Result<()> {
        for ch in text.chars() {
            if matches!(ch, ' '..='~') {
                to.write_all(ch.encode_utf8(&mut [0; 4]).as_bytes())?;
            } else {
                for unit in ch.encode_utf16(&mut [0; 2]) {
                    write!(to, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelope_is_one_ascii_line_that_round_trips() {
        let foreign = "a\x1b[2J\u{9b}\u{7f}\u{202e}grüße😀\"\\\n";
        let answer = serde_json::json!({ "name": foreign });
        let mut out = Vec::new();
        let data = Data { answer: &answer, secret_data: None };
        Envelope::success(JsonVersion::Two, "x", data, &[]).write(&mut out).unwrap();
        let (last, line) = out.split_last().unwrap();
        assert_eq!(*last, b'\n');
        assert!(line.iter().all(|b| (0x20..0x7f).contains(b)));
        let read: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(read["data"]["name"], foreign);
    }
}
