use super::count::TokenCounts;
use super::*;
use crate::tokens::Vocabulary;
use proptest::prelude::*;

fn parse(body: &str) -> Result<Chat, Fault> {
    Chat::parse(body.as_bytes(), &["mirostat".to_owned()])
}

fn body_with(members: &str) -> String {
    format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"hello world\"}}]{members}}}")
}

fn count(body: &str, image: Option<u64>) -> Result<TokenCounts, Fault> {
    parse(body)?.count(Vocabulary::O200k, image)
}

fn code(result: Result<impl std::fmt::Debug, Fault>) -> Code {
    result.unwrap_err().code
}

#[test]
fn a_body_with_only_messages_is_accepted() {
    let chat = parse(&body_with("")).unwrap();
    assert_eq!(
        (chat.model.as_deref(), chat.stream, chat.choices, chat.answer_tokens_max),
        (None, false, 1, None)
    );
    let whole = body_with(
        ",\"model\":\"m\",\"stream\":true,\"n\":3,\"max_tokens\":5,\"max_completion_tokens\":9,\
         \"temperature\":0.2,\"mirostat\":1,\"stop\":null,\"service_tier\":null",
    );
    let chat = parse(&whole).unwrap();
    // The larger of two bounds is priced.
    assert_eq!((chat.choices, chat.answer_tokens_max, chat.stream), (3, Some(9), true));
}

#[test]
fn an_answer_without_a_bound_is_bounded_before_it_goes_upstream() {
    let chat = parse(&body_with(",\"max_tokens\":null,\"seed\":1e2")).unwrap();
    let body = chat.forward_body(("max_tokens", 77), Some("m")).unwrap();
    assert_eq!(body, body_with(",\"seed\":1e2,\"max_tokens\":77,\"model\":\"m\""));
    let body = chat.forward_body(("max_completion_tokens", 77), None).unwrap();
    assert_eq!(body, body_with(",\"seed\":1e2,\"max_completion_tokens\":77"));
}

/// A server that obeys only the other name would answer without a bound.
#[test]
fn the_bound_is_sent_only_under_the_configured_name() {
    let chat = parse(&body_with(",\"max_completion_tokens\":1,\"model\":\"m\"")).unwrap();
    let body = chat.forward_body(("max_tokens", 1), None).unwrap();
    assert_eq!(body, body_with(",\"model\":\"m\",\"max_tokens\":1"));
    assert_eq!(chat.forward_body(("max_completion_tokens", 1), Some("other")), None, "as it came");
    let both = parse(&body_with(",\"max_completion_tokens\":1,\"max_tokens\":9")).unwrap();
    for name in BOUND_MEMBERS {
        let body = both.forward_body((name, 9), None).unwrap();
        assert_eq!(body, body_with(&format!(",\"{name}\":9")));
    }
}

#[test]
fn members_without_a_known_price_are_refused() {
    use Code::{InvalidJson, InvalidRequest, UnsupportedParameter};
    for (members, expected) in [
        // Other spellings of a member, which servers written in Go accept.
        (",\"Max_Tokens\":9", UnsupportedParameter),
        (",\"max_to\u{212a}ens\":9", UnsupportedParameter),
        (",\"me\u{17f}sages\":[]", UnsupportedParameter),
        (",\"web_search_options\":{}", UnsupportedParameter),
        (",\"models\":[\"dear\"]", UnsupportedParameter),
        (",\"best_of\":9", UnsupportedParameter),
        (",\"audio\":{}", UnsupportedParameter),
        (",\"chat_template_kwargs\":{}", UnsupportedParameter),
        (",\"top_logprobs\":20", UnsupportedParameter),
        (",\"tools\":[{\"type\":\"browser_search\"}]", UnsupportedParameter),
        (",\"tools\":[{\"type\":\"function\"},{}]", UnsupportedParameter),
        (",\"tools\":{}", UnsupportedParameter),
        (",\"modalities\":[\"text\",\"audio\"]", UnsupportedParameter),
        (",\"service_tier\":\"priority\"", UnsupportedParameter),
        // Parsers disagree about which of two duplicate members counts.
        (",\"max_tokens\":1,\"max_tokens\":9", InvalidJson),
        (",\"max_tokens\":1e3", InvalidRequest),
        (",\"max_tokens\":10.0", InvalidRequest),
        (",\"max_tokens\":\"9\"", InvalidRequest),
        (",\"max_tokens\":-1", InvalidRequest),
        (",\"max_tokens\":0", InvalidRequest),
        (",\"max_tokens\":99999999999999999999", InvalidRequest),
        (",\"n\":17", InvalidRequest),
        (",\"n\":0", InvalidRequest),
        (",\"stream\":\"true\"", InvalidRequest),
        (",\"stream\":1", InvalidRequest),
        (",\"model\":\"\"", InvalidRequest),
        (",\"model\":7", InvalidRequest),
    ] {
        assert_eq!(code(parse(&body_with(members))), expected, "{members}");
    }
    for body in ["", "[]", "null", "{", "{\"messages\":[{}]", "\u{feff}{}"] {
        assert_eq!(code(parse(body)), InvalidJson, "{body}");
    }
    for body in [
        "{}",
        "{\"messages\":null}",
        "{\"messages\":[]}",
        "{\"messages\":{}}",
        "{\"messages\":\"hi\"}",
    ] {
        assert_eq!(code(parse(body)), InvalidRequest, "{body}");
    }
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(70), "]".repeat(70));
    assert_eq!(code(parse(&deep)), InvalidJson);
    let many = format!("{{\"messages\":[{}1]}}", "1,".repeat(VALUES_MAX));
    assert_eq!(code(parse(&many)), InvalidJson);
    let many = format!("{{\"messages\":[{}1]}}", "1,".repeat(MESSAGES_MAX));
    assert_eq!(code(parse(&many)), InvalidRequest);
}

#[test]
fn message_tokens_follow_openais_rule() {
    // The message counts 3 tokens, the role 1, the text 2, and the start of the answer 3.
    assert_eq!(count(&body_with(""), None).unwrap(), TokenCounts { prompt: 9, predicted: 0 });
    let parts = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hello\"},\
                 {\"type\":\"text\",\"text\":\" world\"}]}]}";
    assert_eq!(count(parts, None).unwrap().prompt, 9);
    let named =
        "{\"messages\":[{\"role\":\"user\",\"name\":\"hello\",\"content\":\"hello world\"}]}";
    assert_eq!(count(named, None).unwrap().prompt, 11);
    let empty = "{\"messages\":[{\"role\":\"assistant\",\"content\":null}]}";
    assert_eq!(count(empty, None).unwrap().prompt, 7);
}

#[test]
fn everything_that_may_reach_the_prompt_counts() {
    let least = count(&body_with(""), None).unwrap();
    for members in [
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]",
        ",\"functions\":[{\"name\":\"f\"}]",
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\"}}",
        ",\"stop\":[\"a long sequence of words\"]",
    ] {
        assert!(count(&body_with(members), None).unwrap().prompt > least.prompt + 5, "{members}");
    }
    for message in [
        "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]",
        "\"reasoning_content\":\"a long thought\"",
    ] {
        let body = format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"hello world\",{message}}}]}}"
        );
        assert!(count(&body, None).unwrap().prompt > least.prompt + 2, "{message}");
    }
    let predicted =
        count(&body_with(",\"prediction\":{\"type\":\"content\",\"content\":\"a b c\"}"), None);
    assert!(predicted.unwrap().predicted > 3);
}

/// Without these limits, 36 KB of text in one of these members would be free.
#[test]
fn free_members_have_openais_bounds() {
    let text = |chars: usize| format!("\"{}\"", "é".repeat(chars));
    let list = |count: usize| format!("[{}]", vec!["\"x\""; count].join(","));
    let object = |count: usize, value: &str| {
        let pairs = (0..count).map(|n| format!("\"{n}\":{value}"));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    };
    let long = text(36_000);
    let digits = format!("0.{}", "1".repeat(36_000));
    for (member, good, bad) in [
        ("stop", text(9), "{\"a\":1}".to_owned()),
        ("stop", list(4), list(5)),
        ("metadata", object(16, &text(512)), object(17, "\"x\"")),
        ("metadata", object(1, "\"\""), object(1, &text(513))),
        ("metadata", format!("{{{}:\"x\"}}", text(64)), format!("{{{}:\"x\"}}", text(65))),
        ("metadata", "{}".to_owned(), long.clone()),
        ("logit_bias", object(300, "-100"), object(301, "1")),
        ("logit_bias", object(1, "0.5"), object(1, &digits)),
        ("logit_bias", object(1, "1"), format!("{{{long}:1}}")),
        ("logit_bias", object(1, "1"), object(1, &long)),
        ("user", text(64), text(65)),
        ("safety_identifier", text(64), text(65)),
        ("prompt_cache_key", text(64), text(65)),
        ("temperature", "0.2".to_owned(), digits),
        ("seed", "7".to_owned(), long.clone()),
        ("reasoning_effort", "\"high\"".to_owned(), long.clone()),
        ("stream_options", "{\"include_usage\":true}".to_owned(), format!("{{\"a\":{long}}}")),
        ("store", "true".to_owned(), format!("[{long}]")),
        // The operator's settings allow this member, so it has the limit of unknown members.
        ("mirostat", text(400), text(600)),
    ] {
        assert!(parse(&body_with(&format!(",\"{member}\":{good}"))).is_ok(), "{member}: {good}");
        let fault = parse(&body_with(&format!(",\"{member}\":{bad}"))).unwrap_err();
        assert_eq!(fault.code, Code::InvalidRequest, "{member}: {bad}");
        assert_eq!(fault.param.as_deref(), Some(member));
        assert!(fault.to_string().len() < 300, "{fault}");
    }
    let extra = ["a".to_owned(), "b".to_owned()];
    let both = body_with(&format!(",\"a\":{0},\"b\":{0}", text(300)));
    let fault = Chat::parse(both.as_bytes(), &extra).unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("b"), "1 KiB in all");
    assert!(Chat::parse_sold(both.as_bytes()).is_ok(), "it was accepted before");
    // Every known member is priced, counted or bounded.
    for member in KNOWN_MEMBERS {
        let members = format!(",\"{member}\":{long}");
        let counts = ["tools", "tool_choice", "functions", "function_call", "response_format"];
        let counts = counts.contains(&member) || ["prediction", "stop"].contains(&member);
        let body =
            if member == "messages" { "{\"messages\":1}".to_owned() } else { body_with(&members) };
        let free = count(&body, None).is_ok_and(|all| all.prompt + all.predicted < 36_000);
        assert!(!free, "{member}");
        assert_eq!(count(&body, None).is_ok(), counts && member != "tools", "{member}");
    }
}

/// Clients that use tools send each answer back unchanged, with all members that OpenAI's API and libraries write.
#[test]
fn an_answer_is_accepted_in_the_next_request_and_each_member_counts() {
    let asked = "{\"role\":\"user\",\"content\":\"what time is it?\"}";
    let with = |more: &str| {
        let body = format!(
            "{{\"messages\":[{asked},{{\"role\":\"assistant\",\"content\":null{more}}},\
             {{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":\"noon\"}}]}}"
        );
        count(&body, None).unwrap().prompt
    };
    let least = with("");
    let nulls = ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\
                 \"tool_calls\":null,\"parsed\":null";
    assert_eq!(with(nulls), least);
    for member in [
        ",\"annotations\":[]",
        ",\"annotations\":[{\"type\":\"url_citation\",\"url_citation\":{\"start_index\":0,\
          \"end_index\":9,\"url\":\"https://a.test/\",\"title\":\"A\"}}]",
        ",\"audio\":{\"id\":\"audio_1\",\"data\":\"UklGRg==\",\"expires_at\":1,\
          \"transcript\":\"noon\"}",
        ",\"function_call\":{\"name\":\"clock\",\"arguments\":\"{}\"}",
        ",\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\
          \"function\":{\"name\":\"clock\",\"arguments\":\"{}\",\"parsed_arguments\":{}}}]",
        ",\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"custom\",\
          \"custom\":{\"name\":\"clock\",\"input\":\"now\"}}]",
        ",\"parsed\":{\"hour\":12}",
        ",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"hm\"}]",
    ] {
        let value = member.split_once(':').unwrap().1;
        let json = Vocabulary::O200k.count(value);
        assert_eq!(with(member), least + json, "{member}");
    }
    let refusal = Vocabulary::O200k.count("I cannot do that.");
    assert_eq!(with(",\"refusal\":\"I cannot do that.\""), least + refusal);
    // Other members, and other spellings, have no known price.
    for member in [",\"images\":[]", ",\"Annotations\":[]", ",\"audio_url\":{}"] {
        let body = format!("{{\"messages\":[{{\"role\":\"assistant\"{member}}}]}}");
        assert_eq!(code(count(&body, None)), Code::UnsupportedParameter, "{member}");
    }
}

#[test]
fn content_other_than_text_is_priced_or_refused() {
    let of =
        |content: &str| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{content}}}]}}");
    let image = of("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://a.test/b.png\"}}]");
    assert_eq!(code(count(&image, None)), Code::UnsupportedContent);
    assert_eq!(count(&image, Some(765)).unwrap().prompt, 7 + 765);
    for more in ["\"url\":\"a\",\"max_dynamic_patch\":9", "\"url\":\"a\",\"Detail\":\"high\""] {
        let image = of(&format!("[{{\"type\":\"image_url\",\"image_url\":{{{more}}}}}]"));
        assert_eq!(code(count(&image, Some(1))), Code::UnsupportedParameter);
    }
    let long = "x".repeat(36_000);
    for image in [
        format!("{{\"url\":\"a\",\"detail\":\"{long}\"}}"),
        format!("{{\"url\":[\"{long}\"]}}"),
        format!("[\"{long}\"]"),
    ] {
        let image = of(&format!("[{{\"type\":\"image_url\",\"image_url\":{image}}}]"));
        assert_eq!(code(count(&image, Some(1))), Code::InvalidRequest);
    }
    let image = of("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"a\",\"detail\":\"high\"}}]");
    assert_eq!(count(&image, Some(765)).unwrap().prompt, 7 + 765);
    let image = of("[{\"type\":\"image_url\",\"image_url\":{},\"text\":\"free\"}]");
    assert_eq!(code(count(&image, Some(1))), Code::UnsupportedParameter);
    for content in ["[{\"type\":\"input_audio\"}]", "[{\"type\":\"file\"}]", "[{\"type\":\"x\"}]"] {
        assert_eq!(code(count(&of(content), Some(1))), Code::UnsupportedContent, "{content}");
    }
    for content in ["7", "{}", "true", "[\"hi\"]", "[{}]", "[{\"type\":\"text\"}]"] {
        assert_eq!(code(count(&of(content), None)), Code::InvalidRequest, "{content}");
    }
    for message in ["7", "\"hi\"", "{\"content\":\"hi\"}", "{\"role\":7}"] {
        let body = format!("{{\"messages\":[{message}]}}");
        assert_eq!(code(count(&body, None)), Code::InvalidRequest, "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Any body is parsed or refused, without a panic.
    #[test]
    fn any_body_is_parsed_or_refused_without_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(chat) = Chat::parse(&body, &[]) {
            let _counted = chat.count(Vocabulary::O200k, None);
        }
    }

    /// More text never costs less.
    #[test]
    fn more_text_counts_more(text in "\\PC{0,60}") {
        let short = bursar_core::json::Value::from(text.as_str()).to_compact();
        let long = bursar_core::json::Value::from(format!("{text} and more")).to_compact();
        let of = |text: &str| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}");
        let (short, long) = (count(&of(&short), None).unwrap(), count(&of(&long), None).unwrap());
        prop_assert!(long.prompt > short.prompt);
    }
}
