//! How many tokens an answer used: as the upstream says, else counted here.

use bursar_core::json::{self, Number, Value};

use crate::book::Usage;
use crate::tokens::Vocabulary;

const DEPTH_MAX: usize = 64;
const VALUES_MAX: usize = 1 << 20;

/// Of an answer in one piece.
pub fn of_whole(body: &[u8], prompt: u64, vocabulary: Vocabulary) -> Option<Usage> {
    let answer = json::parse_few(body, DEPTH_MAX, VALUES_MAX).ok()?;
    told(&answer).or_else(|| Some(counted(&mut [answer].iter(), prompt, vocabulary)))
}

/// Of a stream, or of its end.
pub fn of_stream(frames: &[u8], whole: bool, prompt: u64, vocabulary: Vocabulary) -> Option<Usage> {
    let lines = frames.split(|byte| *byte == b'\n');
    let data = lines.filter_map(|line| line.strip_prefix(b"data:"));
    let frames: Vec<Value> =
        data.filter_map(|text| json::parse_few(text, DEPTH_MAX, VALUES_MAX).ok()).collect();
    let last = frames.iter().rev().find_map(told);
    // Of a part nothing can be counted.
    last.or_else(|| whole.then(|| counted(&mut frames.iter(), prompt, vocabulary)))
}

fn told(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage")?;
    let count = |key| usage.get(key).and_then(Value::as_number).and_then(Number::as_u64);
    Some(Usage {
        prompt: count("prompt_tokens")?,
        completion: count("completion_tokens")?,
        told: true,
    })
}

/// The texts of all choices, each by itself.
fn counted(
    answers: &mut dyn Iterator<Item = &Value>,
    prompt: u64,
    vocabulary: Vocabulary,
) -> Usage {
    let mut texts: Vec<(String, String)> = Vec::new();
    for answer in answers {
        for choice in answer.get("choices").and_then(Value::as_array).unwrap_or_default() {
            let index = choice.get("index").map(Value::to_compact).unwrap_or_default();
            let said = choice.get("delta").or_else(|| choice.get("message"));
            let Some(said) = said else { continue };
            let mut text = String::new();
            gather(said, &mut text);
            match texts.iter_mut().find(|(known, _text)| *known == index) {
                Some((_index, before)) => before.push_str(&text),
                None => texts.push((index, text)),
            }
        }
    }
    let completion = texts.iter().map(|(_index, text)| vocabulary.count(text)).sum();
    Usage { prompt, completion, told: false }
}

/// What a model wrote: its text, its reasoning, and the tools that it calls.
fn gather(said: &Value, text: &mut String) {
    for key in ["content", "reasoning_content", "refusal"] {
        text.push_str(said.get(key).and_then(Value::as_str).unwrap_or_default());
    }
    for call in said.get("tool_calls").and_then(Value::as_array).unwrap_or_default() {
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
    fn what_the_upstream_says_counts_and_else_what_it_wrote() {
        let body = br#"{"choices":[{"index":0,"message":{"content":"hello world"}}],
            "usage":{"prompt_tokens":7,"completion_tokens":9}}"#;
        let usage = of_whole(body, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 7, completion: 9, told: true });
        let body = br#"{"choices":[{"index":0,"message":{"content":"hello world"}}]}"#;
        let usage = of_whole(body, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 5, completion: 2, told: false });
        assert_eq!(of_whole(b"<html>", 5, VOCABULARY), None);
    }

    #[test]
    fn a_stream_is_counted_by_choice_or_by_its_last_word() {
        let frames = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n: still here\n\n\
            data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"hello\"}}]}\r\n\r\n\
            data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}],\"usage\":null}\n\ndata: [DONE]\n\n";
        let usage = of_stream(frames.as_bytes(), true, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 5, completion: 2, told: false });
        assert_eq!(of_stream(frames.as_bytes(), false, 5, VOCABULARY), None);
        let told = format!(
            "{frames}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":4}}}}\n\n"
        );
        let usage = of_stream(told.as_bytes(), false, 5, VOCABULARY).unwrap();
        assert_eq!(usage, Usage { prompt: 3, completion: 4, told: true });
    }
}
