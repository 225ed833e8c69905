//! The last filter before a log line leaves the process. Code must not log secrets; this catches one that slips
//! through, also from a library.

use std::borrow::Cow;
use std::io::{self, Write};

use bip39::Language;

/// The number of consecutive BIP-39 words that count as a seed phrase. Shorter runs may be English.
const PHRASE_WORDS: usize = 12;
/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Redacts lines and passes them to another writer.
///
/// Each write must contain whole lines.
#[derive(Debug)]
pub struct RedactingWriter<W>(pub W);

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(redact(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Removes agents' tokens, keys, proofs and seed phrases from `text`, and shortens request ids to eight digits.
///
/// A whole id would allow any reader to poll its request.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut kept = 0;
    let mut names_secret = false;
    let mut phrase: Option<(usize, usize, usize)> = None;
    for (start, end) in words(text) {
        let word = text.get(start..end).unwrap_or_default();
        phrase = match (phrase, is_seed_word(word)) {
            (Some((from, _to, count)), true) => Some((from, end, count.saturating_add(1))),
            (None, true) => Some((start, end, 1)),
            (Some((from, to, count)), false) if count >= PHRASE_WORDS => {
                replace(text, &mut out, &mut kept, from, to, REDACTED);
                None
            }
            (_, false) => None,
        };
        if start < kept {
            continue;
        }
        if let Some(shown) = replacement(word, names_secret) {
            replace(text, &mut out, &mut kept, start, end, &shown);
        }
        let lower = word.to_ascii_lowercase();
        names_secret = ["key", "secret", "seed", "private", "password", "token"]
            .iter()
            .any(|name| lower.contains(name));
    }
    if let Some((from, to, count)) = phrase
        && count >= PHRASE_WORDS
    {
        replace(text, &mut out, &mut kept, from, to, REDACTED);
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

fn replace(text: &str, out: &mut String, kept: &mut usize, from: usize, to: usize, with: &str) {
    out.push_str(text.get(*kept..from).unwrap_or_default());
    out.push_str(with);
    *kept = to;
}

/// Returns the ranges of words: runs of letters, digits, `_` and `-`.
fn words(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let bytes = text.as_bytes();
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        let start = at.saturating_add(bytes.get(at..)?.iter().position(|b| inside(*b))?);
        let rest = bytes.get(start..)?;
        let length = rest.iter().position(|b| !inside(*b)).unwrap_or(rest.len());
        at = start.saturating_add(length);
        Some((start, at))
    })
}

fn replacement(word: &str, names_secret: bool) -> Option<String> {
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    if word.strip_prefix("AT_").is_some_and(|token| hex(token, 64)) {
        return Some(format!("AT_{REDACTED}"));
    }
    // 32 bytes in hex are a key or a proof, unless `0x` marks them as a hash or nonce.
    if hex(word, 64) || (names_secret && word.strip_prefix("0x").is_some_and(|key| hex(key, 64))) {
        return Some(REDACTED.to_owned());
    }
    let groups: Vec<&str> = word.split('-').collect();
    let id = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
    id.then(|| format!("{}…", groups.first().copied().unwrap_or_default()))
}

fn is_seed_word(word: &str) -> bool {
    (3..=8).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_lowercase())
        && Language::English.find_word(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHRASE: &str = "test test test test test test test test test test test junk";

    #[test]
    fn secrets_are_redacted_and_other_text_is_unchanged() {
        let key = "0123456789abcdefABCDEF000000000000000000000000000000000000000000";
        let id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
        for (line, shown) in [
            (format!("token=AT_{key} ok"), "token=AT_[redacted] ok".to_owned()),
            (format!("SIG:1767225600:{key}"), "SIG:1767225600:[redacted]".to_owned()),
            (format!("private key: 0x{key}."), "private key: [redacted].".to_owned()),
            (format!("tx 0x{key}"), format!("tx 0x{key}")),
            (format!("request={id} held"), "request=6fa459ea… held".to_owned()),
            (format!("words: {PHRASE}\n"), "words: [redacted]\n".to_owned()),
            (format!("[\"{}\"]", PHRASE.replace(' ', "\",\"")), "[\"[redacted]\"]".to_owned()),
            ("a short test about the hub".to_owned(), "a short test about the hub".to_owned()),
            ("ümläut 0x12 … end".to_owned(), "ümläut 0x12 … end".to_owned()),
        ] {
            assert_eq!(redact(&line), shown);
        }
    }

    #[test]
    fn the_redacting_writer_redacts_whole_lines() {
        let mut log = RedactingWriter(Vec::new());
        log.write_all(format!("x AT_{}\n", "0".repeat(64)).as_bytes()).unwrap();
        assert_eq!(log.0, b"x AT_[redacted]\n");
    }
}
