//! Reads the upstream's answer: decides whether it is an error, and whether it contains anything to sell. An answer
//! without a choice and a stream without content are not charged.

use serde_json::Value;

/// Members of a message that count as content, whatever their value is.
const CONTENT_MEMBERS: [&str; 8] = [
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "audio",
];

/// The kind of an answer that is not a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeAnswerKind {
    /// The answer has a choice, whose text may be empty, or reports completion tokens.
    Sold,
    Empty,
    /// The answer is an error, or not a JSON object.
    Invalid,
}

/// The kind of a stream's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The event has content or a reason to finish, or reports completion tokens.
    Content,
    /// The event has none of these, or is not JSON.
    Empty,
    Error,
    /// The end of the stream.
    Done,
}

/// The beginning of a stream, which is held back until an event decides whether the stream is sold.
#[derive(Debug, Default)]
pub struct StreamStart {
    held_back_bytes: Vec<u8>,
    /// Everything before this index was read, so that many small chunks are not read again and again.
    read_bytes: usize,
}

impl StreamStart {
    /// Adds a chunk, and returns the first event once it is complete.
    ///
    /// [`EventKind::Empty`] does not count as an event.
    pub fn add(&mut self, chunk: &[u8]) -> Option<EventKind> {
        let before = self.held_back_bytes.len();
        self.held_back_bytes.extend_from_slice(chunk);
        let newline = chunk.iter().rposition(|byte| *byte == b'\n')?;
        let end = before.saturating_add(newline);
        let lines = self.held_back_bytes.get(self.read_bytes..end).unwrap_or_default();
        let first = events(lines).map(classify_event).find(|event| *event != EventKind::Empty);
        self.read_bytes = end;
        first
    }

    /// Returns the number of bytes that are held back.
    pub fn len(&self) -> usize {
        self.held_back_bytes.len()
    }

    /// Returns whether nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.held_back_bytes.is_empty()
    }

    /// Returns the bytes that are held back.
    pub fn into_bytes(self) -> Vec<u8> {
        self.held_back_bytes
    }
}

/// Returns the kind of a whole answer.
pub fn classify_whole(body: &[u8]) -> WholeAnswerKind {
    match read(body) {
        Some(answer) if answer.is_object() && !is_error(&answer) => {
            let is_choice = |choice: &Value| {
                choice.get("message").is_some_and(Value::is_object) || is_finished(choice)
            };
            let sold = choices(&answer).iter().any(is_choice) || reports_tokens(&answer);
            if sold { WholeAnswerKind::Sold } else { WholeAnswerKind::Empty }
        }
        Some(_) | None => WholeAnswerKind::Invalid,
    }
}

/// Returns the data of each server-sent event.
///
/// OpenAI's API writes one line per event. Comments are skipped.
pub fn events(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = frames.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"data:"))
}

/// Whether a stream contains an error event.
pub fn has_error(frames: &[u8]) -> bool {
    // Most frames are not errors and need not be parsed.
    let may_be = |data: &&[u8]| data.windows(7).any(|window| window == b"\"error\"");
    events(frames).filter(may_be).any(|data| classify_event(data) == EventKind::Error)
}

fn classify_event(data: &[u8]) -> EventKind {
    if data.trim_ascii() == b"[DONE]" {
        return EventKind::Done;
    }
    match read(data) {
        Some(frame) if is_error(&frame) => EventKind::Error,
        Some(frame) if choices(&frame).iter().any(has_content) => EventKind::Content,
        Some(frame) if reports_tokens(&frame) => EventKind::Content,
        Some(_) | None => EventKind::Empty,
    }
}

fn has_content(choice: &Value) -> bool {
    let filled = |message: &Value| CONTENT_MEMBERS.iter().any(|key| is_filled(message.get(key)));
    is_finished(choice)
        || choice.get("delta").is_some_and(filled)
        || choice.get("message").is_some_and(filled)
}

fn is_filled(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(_)) => false,
        Some(Value::Number(_)) => true,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
    }
}

/// The reason must not be empty, because some servers write an empty reason into every event.
fn is_finished(choice: &Value) -> bool {
    is_filled(choice.get("finish_reason"))
}

fn reports_tokens(answer: &Value) -> bool {
    let tokens = answer.get("usage").and_then(|usage| usage.get("completion_tokens"));
    tokens.and_then(Value::as_u64).is_some_and(|tokens| tokens > 0)
}

/// Some routers report an upstream's failure inside a choice.
fn is_error(answer: &Value) -> bool {
    let has_error = |value: &Value| value.get("error").is_some_and(|error| !error.is_null());
    let failed = |choice: &Value| {
        has_error(choice) || choice.get("finish_reason").and_then(Value::as_str) == Some("error")
    };
    has_error(answer) || choices(answer).iter().any(failed)
}

fn choices(answer: &Value) -> &[Value] {
    answer.get("choices").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Reads JSON more leniently than the bodies of customers: the upstream has already charged for its answer.
fn read(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().or_else(|| {
        // Models write halves of surrogate pairs, and bytes that are not UTF-8.
        let text = String::from_utf8_lossy(text).replace("\\ud", "\\u0").replace("\\uD", "\\u0");
        serde_json::from_str(&text).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_answers_without_a_choice_are_not_sold() {
        for body in [
            "",
            "[]",
            "<html>",
            "null",
            "7",
            "{\"error\":{}}",
            "{\"error\":\"x\",\"choices\":[]}",
            "{\"choices\":[{\"message\":{\"content\":\"\"},\"error\":{\"code\":502}}]}",
            "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}",
        ] {
            assert_eq!(classify_whole(body.as_bytes()), WholeAnswerKind::Invalid, "{body}");
        }
        for body in [
            "{}",
            "{\"a\":\"error\"}",
            "{\"error\":null,\"choices\":[]}",
            "{\"choices\":null}",
            "{\"choices\":{}}",
            "{\"choices\":[null]}",
            "{\"choices\":[{}]}",
            "{\"choices\":[{\"index\":0,\"finish_reason\":null}]}",
            "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":0}}",
            "{\"choices\":[],\"usage\":{\"completion_tokens\":\"9\"}}",
        ] {
            assert_eq!(classify_whole(body.as_bytes()), WholeAnswerKind::Empty, "{body}");
        }
        for body in [
            // The model stops at once at a stop word. The prompt was read, so the model has answered.
            "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
            "{\"choices\":[{\"message\":{\"content\":null},\"finish_reason\":\"stop\"}]}",
            "{\"choices\":[{\"finish_reason\":\"length\"}]}",
            "{\"choices\":[],\"usage\":{\"completion_tokens\":3}}",
            "{\"choices\":[{\"message\":{\"content\":\"half a pair: \\ud83d\"}}]}",
        ] {
            assert_eq!(classify_whole(body.as_bytes()), WholeAnswerKind::Sold, "{body}");
        }
        assert_eq!(
            classify_whole(b"{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}"),
            WholeAnswerKind::Sold
        );
    }

    #[test]
    fn a_stream_is_sold_from_its_first_event_with_content() {
        let delta = |delta: &str| format!("{{\"choices\":[{{\"delta\":{delta}}}]}}");
        for (data, expected) in [
            ("[DONE]".to_owned(), EventKind::Done),
            ("{}".to_owned(), EventKind::Empty),
            ("nonsense".to_owned(), EventKind::Empty),
            ("{\"choices\":[]}".to_owned(), EventKind::Empty),
            (delta("{\"role\":\"assistant\",\"content\":\"\"}"), EventKind::Empty),
            (delta("{\"content\":null,\"tool_calls\":[],\"annotations\":[]}"), EventKind::Empty),
            (delta("{},\"finish_reason\":\"\""), EventKind::Empty),
            ("{\"usage\":{\"completion_tokens\":0}}".to_owned(), EventKind::Empty),
            ("{\"error\":null,\"choices\":[]}".to_owned(), EventKind::Empty),
            ("{\"error\":{\"message\":\"no\"}}".to_owned(), EventKind::Error),
            (delta("{\"content\":\"\"},\"finish_reason\":\"error\""), EventKind::Error),
            (delta("{\"content\":\"a\"}"), EventKind::Content),
            (delta("{\"content\":\"\\\"error\\\"\"}"), EventKind::Content),
            (delta("{\"content\":\"\\ud83d\"}"), EventKind::Content),
            (delta("{\"refusal\":\"no\"}"), EventKind::Content),
            (delta("{\"reasoning_content\":\"hm\"}"), EventKind::Content),
            (delta("{\"reasoning\":\"hm\"}"), EventKind::Content),
            (delta("{\"tool_calls\":[{\"index\":0}]}"), EventKind::Content),
            (delta("{\"function_call\":{\"name\":\"f\"}}"), EventKind::Content),
            (delta("{},\"finish_reason\":\"stop\""), EventKind::Content),
            ("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}".to_owned(), EventKind::Content),
            ("{\"choices\":[],\"usage\":{\"completion_tokens\":2}}".to_owned(), EventKind::Content),
        ] {
            assert_eq!(classify_event(data.as_bytes()), expected, "{data}");
        }
        assert!(has_error(b"data: {}\n\ndata: {\"error\":{}}\n\n") && !has_error(b"data: {}\n\n"));
    }

    #[test]
    fn the_start_of_a_stream_is_held_until_an_event_decides() {
        let role =
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
        let text = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\r\n\r\n";
        for (frames, decided) in [
            (String::new(), None),
            (": still here\n\n".to_owned(), None),
            (format!("{role}: a\n\ndata: {{\"cho"), None),
            (format!("{role}{text}"), Some(EventKind::Content)),
            (format!("{role}data: [DONE]\n\n"), Some(EventKind::Done)),
            (format!("{role}data: {{\"error\":{{}}}}\n\n{text}"), Some(EventKind::Error)),
            (format!("event: x\n{text}data: {{\"error\":{{}}}}\n\n"), Some(EventKind::Content)),
        ] {
            let mut whole = StreamStart::default();
            assert_eq!(whole.add(frames.as_bytes()), decided, "{frames}");
            assert_eq!(whole.into_bytes(), frames.as_bytes());
            // Each chunk has one byte, so the stream is cut everywhere.
            let mut cut = StreamStart::default();
            let all = frames.as_bytes().iter().find_map(|byte| cut.add(&[*byte]));
            assert_eq!(all, decided, "{frames}");
        }
    }
}
