use super::*;
use proptest::prelude::*;

const KEY: &str = "sk-upstream/0123456789abcdef";

fn redactor(key: &str) -> Redactor {
    Redactor::new(Some(SecretString::from(key.to_owned())))
}

/// Returns what a customer receives if a stream arrives in these chunks.
fn filtered_stream(key: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut filter = redactor(key).stream_filter();
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&filter.filter_chunk(&Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&filter.end());
    out
}

fn json_escaped(key: &str) -> String {
    key.bytes().map(|byte| format!("\\u{byte:04x}")).collect()
}

fn percent_encoded(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Spellings of the key that servers may use.
fn spellings() -> Vec<String> {
    let mixed = KEY.bytes().enumerate().map(|(n, byte)| match n % 4 {
        0 => char::from(byte).to_string(),
        1 => format!("\\u{byte:04X}"),
        2 => format!("%{byte:02x}"),
        _three => format!("\\u{byte:04x}"),
    });
    vec![
        KEY.to_owned(),
        KEY.replace('/', "\\/"),
        KEY.replace('-', "%2D").replace('/', "%2f"),
        json_escaped(KEY),
        json_escaped(KEY).to_uppercase().replace("\\U", "\\u"),
        percent_encoded(KEY),
        mixed.collect(),
    ]
}

#[test]
fn the_key_is_redacted_at_every_chunk_boundary() {
    for spelling in spellings() {
        let frame =
            format!("data: {{\"error\":{{\"message\":\"bad key {spelling}, sorry\"}}}}\n\n");
        let clean = frame.replace(&spelling, "[key]");
        let bytes = frame.as_bytes();
        for first in 0..=bytes.len() {
            let (one, rest) = bytes.split_at(first);
            assert_eq!(filtered_stream(KEY, &[one, rest]), clean.as_bytes(), "{first} of {frame}");
        }
        // Chunks of one byte test every cut at once.
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(filtered_stream(KEY, &single), clean.as_bytes());
    }
}

#[test]
fn the_key_is_redacted_across_three_chunks() {
    let frame = format!("data: a {KEY}\n\n");
    let bytes = frame.as_bytes();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(filtered_stream(KEY, &pieces), b"data: a [key]\n\n", "{first} {second}");
        }
    }
}

#[test]
fn a_whole_or_half_key_at_the_end_of_a_stream_is_redacted() {
    for spelling in spellings() {
        let text = format!("x{spelling}");
        for cut in 0..=text.len() {
            let (one, rest) = text.as_bytes().split_at(cut);
            assert_eq!(filtered_stream(KEY, &[one, rest]), b"x[key]", "{cut} of {spelling}");
        }
    }
    let half = KEY.len() / 2;
    assert_eq!(filtered_stream(KEY, &[&KEY.as_bytes()[..half - 1]]), &KEY.as_bytes()[..half - 1]);
    for most in half..KEY.len() {
        assert_eq!(filtered_stream(KEY, &[&KEY.as_bytes()[..most]]), b"[key]", "{most}");
    }
}

#[test]
fn a_stream_without_the_key_passes_at_once_and_unchanged() {
    let mut filter = redactor(KEY).stream_filter();
    for frame in ["data: {\"a\":\"\\n 100% sure\"}\n\n", "data: [DONE]\n\n", ": still here\n\n"] {
        assert_eq!(filter.filter_chunk(&Bytes::from(frame)), frame.as_bytes());
    }
    // Only bytes that may be the start of the key are held back.
    assert_eq!(filter.filter_chunk(&Bytes::from("data: a sk-up")), &b"data: a "[..]);
    assert_eq!(filter.filter_chunk(&Bytes::from("date\n\n")), &b"sk-update\n\n"[..]);
    for n in 0..KEY.len() {
        let mut filter = redactor(KEY).stream_filter();
        let text = format!("text {}", KEY.get(..n).unwrap());
        let out = filter.filter_chunk(&Bytes::from(text.clone()));
        assert!(text.len() - out.len() < KEY.len(), "{n}");
    }
    assert_eq!(Redactor::new(None).redact(b"sk-anything".to_vec()), b"sk-anything");
    assert!(
        !Redactor::new(None).occurs_in(b"")
            && redactor(KEY).occurs_in(format!("a{KEY}").as_bytes())
    );
}

#[test]
fn self_overlapping_keys_are_redacted_everywhere() {
    assert_eq!(filtered_stream("aab", &[b"aaaab"]), b"aa[key]");
    assert_eq!(filtered_stream("aa", &[b"aaa"]), b"[key][key]");
    assert_eq!(filtered_stream("abab", &[b"ab", b"abab"]), b"[key][key]");
    assert_eq!(filtered_stream("a", &[b"banana"]), b"b[key]n[key]n[key]");
    assert_eq!(filtered_stream("a\\u0", &[b"a\\u0"]), b"[key]");
    assert_eq!(filtered_stream("a\"b", &[b"a\\\"b"]), b"[key]");
    assert_eq!(filtered_stream("a\\b", &[b"a\\\\b"]), b"[key]");
    assert_eq!(filtered_stream("a%41", &[b"a%2541"]), b"[key]");
    assert_eq!(filtered_stream("\u{e9}", &["\u{e9}".as_bytes()]), b"[key]");
}

proptest! {
    /// Chunk boundaries do not change the output, which never contains the key.
    #[test]
    fn chunk_boundaries_do_not_change_the_redacted_text(
        parts in proptest::collection::vec("[abs%\\\\u0-9/-]{0,6}|ab-9", 0..12),
        cuts in proptest::collection::vec(0usize..80, 0..8),
    ) {
        let text = parts.concat().into_bytes();
        let whole = redactor("ab-9").redact(text.clone());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let cut = filtered_stream("ab-9", &pieces);
        prop_assert_eq!(&cut, &whole);
        prop_assert!(!redactor("ab-9").occurs_in(&cut));
    }
}
