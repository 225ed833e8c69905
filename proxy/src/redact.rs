//! Removes a secret from data that is passed on, in any spelling and across chunks.
//!
//! A spelling contains each byte of the secret unchanged, as a JSON escape (`\u0073`, `\/`) or percent-encoded (`%73`),
//! in any mixture. The stream filter holds back only bytes that may be the start of a spelling, and at most one byte
//! less than the longest spelling. It passes on all other bytes at once.

use std::fmt;
use std::sync::Arc;

use bursar_outbound::Bytes;
use secrecy::{ExposeSecret, SecretString};

/// Replacement for the secret.
const REPLACEMENT: &[u8] = b"[key]";

/// Removes one secret.
#[derive(Clone)]
pub struct Redactor {
    /// Empty if there is no secret.
    secret: Arc<SecretString>,
}

/// Redacts the secret.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor([redacted])")
    }
}

impl Redactor {
    /// Creates a redactor of one secret.
    ///
    /// Without a secret it passes all bytes on.
    pub fn new(secret: Option<SecretString>) -> Self {
        Self { secret: Arc::new(secret.unwrap_or_default()) }
    }

    fn bytes(&self) -> &[u8] {
        self.secret.expose_secret().as_bytes()
    }

    /// Returns the text with the secret replaced.
    pub fn redact(&self, text: Vec<u8>) -> Vec<u8> {
        if self.bytes().is_empty() {
            return text;
        }
        let mut filter = self.stream_filter();
        let passed = filter.filter_chunk(&Bytes::from(text));
        // If nothing was replaced, the bytes are taken back without a copy.
        let mut clean = Vec::from(passed);
        clean.extend_from_slice(&filter.end());
        clean
    }

    /// Whether the text contains the secret.
    pub fn occurs_in(&self, text: &[u8]) -> bool {
        let mut filter = self.stream_filter();
        filter.scan(text);
        filter.found
    }

    /// Returns a filter for one stream.
    pub fn stream_filter(&self) -> StreamFilter {
        StreamFilter {
            redactor: self.clone(),
            held_bytes: Vec::new(),
            matches: Vec::new(),
            next_matches: Vec::new(),
            clean_bytes: Vec::new(),
            found: false,
        }
    }
}

/// Replaces the secret in a stream.
#[derive(Debug)]
pub struct StreamFilter {
    redactor: Redactor,
    /// Bytes that may be the start of the secret. They begin with the oldest partial match.
    held_bytes: Vec<u8>,
    /// Partial matches of spellings, in the order of their starts.
    matches: Vec<PartialMatch>,
    /// Buffer for the next generation of matches.
    next_matches: Vec<PartialMatch>,
    clean_bytes: Vec<u8>,
    found: bool,
}

/// One way to read the held bytes as the secret.
#[derive(Debug, Clone, Copy)]
struct PartialMatch {
    /// The index in `held_bytes` at which the match starts.
    start: usize,
    /// Number of bytes of the secret that were matched.
    matched: usize,
    state: SpellingState,
}

/// Position within the spelling of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpellingState {
    /// Before the first character.
    Begin,
    /// After `\`.
    Backslash,
    /// Within hex digits: the number of remaining digits, and the value so far.
    Hex { left: u8, value: u16 },
}

impl StreamFilter {
    /// Returns the bytes that may be passed on after a chunk has arrived.
    pub fn filter_chunk(&mut self, piece: &Bytes) -> Bytes {
        if self.redactor.bytes().is_empty() {
            return piece.clone();
        }
        let before = (self.held_bytes.is_empty(), self.found);
        self.found = false;
        self.scan(piece);
        // The usual case: the chunk is passed on without a copy.
        if before.0 && !self.found && self.held_bytes.is_empty() {
            self.clean_bytes.clear();
            self.found = before.1;
            return piece.clone();
        }
        self.found |= before.1;
        Bytes::from(std::mem::take(&mut self.clean_bytes))
    }

    /// Returns the held bytes at the end of the stream.
    ///
    /// If they contain at least half of the secret, returns the replacement instead, because the other half could be
    /// guessed.
    pub fn end(&mut self) -> Bytes {
        let most = self.matches.iter().map(|partial| partial.matched).max().unwrap_or(0);
        let reveals_secret = most > 0 && most >= self.redactor.bytes().len().div_ceil(2);
        self.matches.clear();
        let held = std::mem::take(&mut self.held_bytes);
        if reveals_secret { Bytes::from_static(REPLACEMENT) } else { Bytes::from(held) }
    }

    fn scan(&mut self, piece: &[u8]) {
        let redactor = self.redactor.clone();
        let secret = redactor.bytes();
        if secret.is_empty() {
            return;
        }
        let begins = |byte: &u8| secret.first() == Some(byte) || matches!(byte, b'\\' | b'%');
        let mut rest = piece;
        loop {
            // Most bytes cannot start the secret and are copied together.
            if self.matches.is_empty() {
                let plain = rest.iter().position(begins).unwrap_or(rest.len());
                let (passed, after) = rest.split_at(plain);
                self.clean_bytes.extend_from_slice(passed);
                rest = after;
            }
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            self.step(*byte, secret);
        }
    }

    fn step(&mut self, byte: u8, secret: &[u8]) {
        let fresh =
            PartialMatch { start: self.held_bytes.len(), matched: 0, state: SpellingState::Begin };
        self.held_bytes.push(byte);
        let mut next = std::mem::take(&mut self.next_matches);
        for partial in self.matches.drain(..).chain([fresh]) {
            partial.step(byte, secret, &mut next);
        }
        let complete = next.iter().filter(|partial| partial.matched == secret.len());
        if let Some(start) = complete.map(|partial| partial.start).min() {
            self.clean_bytes.extend(self.held_bytes.drain(..start.min(self.held_bytes.len())));
            self.clean_bytes.extend_from_slice(REPLACEMENT);
            self.held_bytes.clear();
            self.found = true;
            next.clear();
        }
        self.next_matches = std::mem::replace(&mut self.matches, next);
        self.release();
    }

    /// Passes on the bytes before the oldest partial match: they cannot be part of the secret.
    fn release(&mut self) {
        let oldest = self.matches.iter().map(|partial| partial.start).min();
        let free = oldest.unwrap_or(self.held_bytes.len());
        if free > 0 {
            self.clean_bytes.extend(self.held_bytes.drain(..free.min(self.held_bytes.len())));
            for partial in &mut self.matches {
                partial.start = partial.start.saturating_sub(free);
            }
        }
    }
}

impl PartialMatch {
    /// Appends to `next` the partial matches that result from `byte`. There are none if this match ends here.
    fn step(self, byte: u8, secret: &[u8], next: &mut Vec<Self>) {
        let Some(expected) = secret.get(self.matched).copied() else { return };
        let done =
            Self { matched: self.matched.saturating_add(1), state: SpellingState::Begin, ..self };
        let within = |state| Self { state, ..self };
        match self.state {
            SpellingState::Begin => {
                if byte == expected {
                    next.push(done);
                }
                match byte {
                    b'\\' => next.push(within(SpellingState::Backslash)),
                    b'%' => next.push(within(SpellingState::Hex { left: 2, value: 0 })),
                    _other => {}
                }
            }
            SpellingState::Backslash => match byte {
                b'u' => next.push(within(SpellingState::Hex { left: 4, value: 0 })),
                // `\"`, `\\` and `\/` stand for the second character.
                b'"' | b'\\' | b'/' if byte == expected => next.push(done),
                _other => {}
            },
            SpellingState::Hex { left, value } => {
                let Some(digit) = hex_digit(byte) else { return };
                let value = (value << 4) | digit;
                match left {
                    0 | 1 if value == u16::from(expected) => next.push(done),
                    0 | 1 => {}
                    _more => next
                        .push(within(SpellingState::Hex { left: left.saturating_sub(1), value })),
                }
            }
        }
    }
}

fn hex_digit(byte: u8) -> Option<u16> {
    let digit = char::from(byte).to_digit(16)?;
    u16::try_from(digit).ok()
}

#[cfg(test)]
mod tests;
