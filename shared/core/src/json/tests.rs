use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Numbers of every form in the grammar.
fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,90})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?"
            .prop_map(|text| Value::Number(text.parse().unwrap())),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-c\"\\\\\u{0}-\u{20}\u{7f}é😀]{0,6}"]
}

/// Values of every kind, a few levels deep.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_number(),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((any_text(), inner), 0..6).prop_map(|members| {
                Value::from(members.into_iter().fold(Object::new(), |o, (k, v)| o.with(k, v)))
            }),
        ]
    })
}

fn refusal(text: impl AsRef<[u8]>) -> JsonError {
    parse(text.as_ref(), 127).unwrap_err()
}

#[test]
fn compact_json_is_reproduced_exactly() {
    let text = r#"{"z":[1.50,-0,1E+2,1234567890123456789012],"a":{"é":"\"\\/\n\u001f"},"n":null}"#;
    let value = parse(format!(" \t\r\n{text}\n").as_bytes(), 2).unwrap();
    assert_eq!(value.to_compact(), text);
    assert_eq!(value.get("a").and_then(|a| a.get("é")).unwrap().as_str(), Some("\"\\/\n\u{1f}"));
    assert_eq!(value.get("z").unwrap().as_array().unwrap().len(), 4);
    assert_eq!(value.get("z").unwrap().get("z"), None);
}

#[test]
fn objects_keep_the_order_of_insertion() {
    let answer = Object::new()
        .with("status", "success")
        .with("count", 3_u64)
        .with("change", -3_i64)
        .with("code", None::<&str>)
        .with("ok", true)
        .with("items", vec![Value::from("a"), Object::new().into()]);
    let text =
        r#"{"status":"success","count":3,"change":-3,"code":null,"ok":true,"items":["a",{}]}"#;
    assert_eq!(answer.to_compact(), text);
    assert_eq!(parse(text.as_bytes(), 9).unwrap().as_object(), Some(&answer));
}

#[test]
fn inserting_an_existing_key_replaces_its_value_in_place() {
    let mut object = Object::new().with("a", 1_u64).with("b", 2_u64);
    assert_eq!(object.insert("a", "new"), Some(Value::from(1_u64)));
    assert_eq!((object.len(), object.to_compact().as_str()), (2, r#"{"a":"new","b":2}"#));
}

#[test]
fn only_plain_digits_are_a_u64() {
    let read = |text: &str| text.parse::<Number>().unwrap().as_u64();
    assert_eq!(read("0"), Some(0));
    assert_eq!(read("18446744073709551615"), Some(u64::MAX));
    for other in ["18446744073709551616", "-0", "-1", "1.0", "1e3", "0e0"] {
        assert_eq!(read(other), None, "{other}");
    }
    for bad in ["", "-", "+1", "01", "1.", ".5", "1e", "1 ", " 1", "0x1", "NaN", "1e400"] {
        assert!(bad.parse::<Number>().is_err(), "{bad}");
    }
}

#[test]
fn each_json_error_has_its_reason_and_byte_offset() {
    use JsonError::*;
    let cases: &[(&[u8], JsonError)] = &[
        (b"", UnexpectedEnd(0)),
        (b"[1", UnexpectedEnd(2)),
        (b"\"ab", UnexpectedEnd(3)),
        (b"\"\\", UnexpectedEnd(2)),
        (b"[1,]", Unexpected(3)),
        (b"[tru]", Unexpected(1)),
        (b"\x0c1", Unexpected(0)),
        (b"{\"a\":NaN}", Unexpected(5)),
        (b"-Infinity", Unexpected(1)),
        (b"1 2", TrailingText(2)),
        (b"01", TrailingText(1)),
        (b"\"\xff\"", NotUtf8(1)),
        (b"\xef\xbb\xbf{}", ByteOrderMark(0)),
        (b"\"a\tb\"", ControlCharacter(2)),
        (b"\"\\u+123\"", BadEscape(1)),
        (b"\"\\u12", BadEscape(1)),
        (b"\"\\u12\xc3\xa9\"", BadEscape(1)),
        (b"\"\\\xc3\xa9\"", BadEscape(1)),
        (b"\"\\udc00\"", LoneSurrogate(1)),
        (b"\"\\ud800\\ud800\"", LoneSurrogate(1)),
        (b"\"\\ud800\\n\"", LoneSurrogate(1)),
        (b"[1e400]", NumberTooLarge(1)),
        (b"{\"a\":1,\"b\":{\"c\":1,\"\\u0063\":2}}", DuplicateKey(18)),
    ];
    for (text, error) in cases {
        assert_eq!(refusal(text), *error, "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(refusal(format!("[{}]", "9".repeat(4301))), NumberTooLong(1));
    assert!(parse(format!("-{}", "9".repeat(4300)).as_bytes(), 0).is_ok());
}

#[test]
fn depth_is_bounded_by_the_caller_and_by_a_ceiling() {
    let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
    assert!(parse(b"1", 0).is_ok());
    assert_eq!(parse(b"{}", 0), Err(JsonError::TooDeep(0)));
    assert!(parse(&nested(127), 127).is_ok());
    assert_eq!(parse(&nested(128), 127), Err(JsonError::TooDeep(127)));
    assert_eq!(parse(&nested(1_000_000), usize::MAX), Err(JsonError::TooDeep(256)));
    assert_eq!(parse(&vec![b'['; 1_000_000], usize::MAX), Err(JsonError::TooDeep(256)));
    let members = "{\"a\":".repeat(1_000_000);
    assert!(matches!(parse(members.as_bytes(), usize::MAX), Err(JsonError::TooDeep(_))));
}

#[test]
fn parse_few_limits_the_number_of_values() {
    let text = br#"{"a":[1,"x",{}],"b":null}"#;
    assert!(parse_few(text, 9, 6).is_ok());
    assert_eq!(parse_few(text, 9, 5), Err(JsonError::TooManyValues(20)));
    assert_eq!(parse_few(b"1", 9, 0), Err(JsonError::TooManyValues(0)));
    assert_eq!(parse_few(&[b'['; 100], 256, 99), Err(JsonError::TooManyValues(99)));
}

/// Comparing all pairs would take 5,000,000,000 comparisons: minutes instead of milliseconds.
#[test]
fn duplicate_key_check_is_fast_for_100_000_keys() {
    let members: Vec<String> = (0..100_000).map(|n| format!("\"{n:x}\":0")).collect();
    let body = format!("{{{}}}", members.join(","));
    assert_eq!(parse(body.as_bytes(), 1).unwrap().as_object().unwrap().len(), 100_000);
    let twin = format!("{{{},\"0\":0}}", members.join(","));
    assert_eq!(refusal(&twin), JsonError::DuplicateKey(twin.len() - 6));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn json_values_survive_writing_and_parsing(value in any_value()) {
        prop_assert_eq!(parse(value.to_compact().as_bytes(), 127), Ok(value));
    }

    #[test]
    fn json_parser_never_panics(bytes in vec(any::<u8>(), 0..200)) {
        let _read = parse(&bytes, 127);
    }

    /// Mutated JSON reaches deeper code than arbitrary bytes do. Whatever we accept, serde_json must accept too.
    #[test]
    fn every_accepted_text_is_also_accepted_by_serde_json(
        value in any_value(),
        place in any::<prop::sample::Index>(),
        spoilt in "[\\[\\]{}\",:\\\\ u0-9a-f.+\\-eEtrulns\t\u{1}é]{0,2}",
    ) {
        let mut text: Vec<char> = value.to_compact().chars().collect();
        let place = place.index(text.len());
        text.splice(place..=place, spoilt.chars());
        let text = String::from_iter(text);
        if parse(text.as_bytes(), 127).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
        let _cut_short = parse(&text.as_bytes()[..place.min(text.len())], 127);
    }
}
