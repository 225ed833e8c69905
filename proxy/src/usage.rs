//! The usage of an answer, as the upstream reports it or else as the proxy counts it.

use bursar_core::json::{self, Number, Value};

use crate::answer::events;
use crate::book::Usage;
use crate::tokens::Vocabulary;

const DEPTH_MAX: usize = 64;
const VALUES_MAX: usize = 1 << 20;

/// Returns the usage of a whole answer, or `None` if it cannot be parsed.
///
/// `prompt` is our count, used if the upstream reports none.
pub fn usage_of_whole_answer(body: &[u8], prompt: u64, vocabulary: Vocabulary) -> Option<Usage> {
    let answer = json::parse_few(body, DEPTH_MAX, VALUES_MAX).ok()?;
    reported_usage(&answer).or_else(|| Some(count_usage(&mut [answer].iter(), prompt, vocabulary)))
}

/// Returns the usage of a stream, or of its end if `whole` is false.
///
/// `prompt` is our count, used if the upstream reports none.
pub fn usage_of_stream(
    frames: &[u8],
    whole: bool,
    prompt: u64,
    vocabulary: Vocabulary,
) -> Option<Usage> {
    let read = |text: &[u8]| json::parse_few(text, DEPTH_MAX, VALUES_MAX).ok();
    let frames: Vec<Value> = events(frames).filter_map(read).collect();
    let last = frames.iter().rev().find_map(reported_usage);
    // If only the end of a stream is known, its tokens cannot be counted.
    last.or_else(|| whole.then(|| count_usage(&mut frames.iter(), prompt, vocabulary)))
}

fn reported_usage(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage")?;
    let tokens = |key| usage.get(key).and_then(Value::as_number).and_then(Number::as_u64);
    Some(Usage {
        prompt: tokens("prompt_tokens")?,
        completion: tokens("completion_tokens")?,
        reported: true,
    })
}

/// Counts the tokens of an answer. The texts of each choice are counted separately.
fn count_usage(
    answers: &mut dyn Iterator<Item = &Value>,
    prompt: u64,
    vocabulary: Vocabulary,
) -> Usage {
    let mut texts: Vec<(String, String)> = Vec::new();
    for answer in answers {
        for choice in answer.get("choices").and_then(Value::as_array).unwrap_or_default() {
            let index = choice.get("index").map(Value::to_compact).unwrap_or_default();
            let message = choice.get("delta").or_else(|| choice.get("message"));
            let Some(message) = message else { continue };
            let mut text = String::new();
            append_text(message, &mut text);
            match texts.iter_mut().find(|(known, _text)| *known == index) {
                Some((_index, before)) => before.push_str(&text),
                None => texts.push((index, text)),
            }
        }
    }
    let completion = texts.iter().map(|(_index, text)| vocabulary.count(text)).sum();
    Usage { prompt, completion, reported: false }
}

/// Appends the output of a model: text, reasoning, and tool calls.
fn append_text(message: &Value, text: &mut String) {
    for key in ["content", "reasoning_content", "refusal"] {
        text.push_str(message.get(key).and_then(Value::as_str).unwrap_or_default());
    }
    for call in message.get("tool_calls").and_then(Value::as_array).unwrap_or_default() {
        for key in ["name", "arguments"] {
            let part = call.get("function").and_then(|function| function.get(key));
            text.push_str(part.and_then(Value::as_str).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: Vocabulary = Vocabulary::O200k;

    #[test]
    fn reported_usage_takes_precedence_over_our_count() {
        let body = br#"{"choices":[{"index":0,"message":{"content":"hello world"}}],
            "usage":{"prompt_tokens":7,"completion_tokens":9}}"#;
        let usage = usage_of_whole_answer(body, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 7, completion: 9, reported: true });
        let body = br#"{"choices":[{"index":0,"message":{"content":"hello world"}}]}"#;
        let usage = usage_of_whole_answer(body, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 5, completion: 2, reported: false });
        assert_eq!(usage_of_whole_answer(b"<html>", 5, VOCABULARY), None);
    }

    #[test]
    fn stream_usage_is_reported_or_counted_per_choice() {
        let frames = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n: still here\n\n\
            data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"hello\"}}]}\r\n\r\n\
            data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}],\"usage\":null}\n\ndata: [DONE]\n\n";
        let usage = usage_of_stream(frames.as_bytes(), true, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 5, completion: 2, reported: false });
        assert_eq!(usage_of_stream(frames.as_bytes(), false, 5, VOCABULARY), None);
        let reported = format!(
            "{frames}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":4}}}}\n\n"
        );
        let usage = usage_of_stream(reported.as_bytes(), false, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 3, completion: 4, reported: true });
    }
}
