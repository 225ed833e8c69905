//! Strict JSON parser with bounded depth. The work is linear in the length of the text, except for sorting an object's
//! keys.

use std::str::FromStr;

use super::value::{JsonError, Number, Object, Value};

/// Upper bound of the depth, whatever the caller allows. Reading, comparing and dropping a value recurse, and this many
/// levels fit the stack of any thread.
const DEPTH_CEILING: usize = 256;

/// Maximum number of digits of an integer. CPython refuses longer integers (`sys.int_info.default_max_str_digits`),
/// so no agent can have signed one.
const INTEGER_DIGITS_MAX: usize = 4300;

/// Parses one value that fills the whole text, except for white space around it.
///
/// `max_depth` counts open brackets: 0 accepts only a scalar, and values over 256 count as 256.
///
/// # Errors
/// [`JsonError`], with the byte offset.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, JsonError> {
    parse_few(bytes, max_depth, usize::MAX)
}

/// Like [`parse`], for untrusted text: accepts at most `max_values` values, including containers.
///
/// Small values can take up to a hundred times the size of their text in memory.
///
/// # Errors
/// [`JsonError`], with the byte offset.
pub fn parse_few(bytes: &[u8], max_depth: usize, max_values: usize) -> Result<Value, JsonError> {
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err(JsonError::ByteOrderMark(0));
    }
    let text = std::str::from_utf8(bytes).map_err(|bad| JsonError::NotUtf8(bad.valid_up_to()))?;
    let mut reader = Reader { text, offset: 0, values_left: max_values };
    reader.skip_space();
    let value = reader.value(max_depth.min(DEPTH_CEILING))?;
    reader.skip_space();
    if reader.peek().is_none() { Ok(value) } else { Err(JsonError::TrailingText(reader.offset)) }
}

impl FromStr for Number {
    type Err = JsonError;

    fn from_str(text: &str) -> Result<Self, JsonError> {
        let mut reader = Reader { text, offset: 0, values_left: 1 };
        let number = reader.number()?;
        if reader.peek().is_none() {
            Ok(number)
        } else {
            Err(JsonError::TrailingText(reader.offset))
        }
    }
}

/// A position in a text.
///
/// The position is always on a character boundary: the reader skips single bytes only if they are ASCII, and is not
/// used again after an error.
struct Reader<'a> {
    text: &'a str,
    offset: usize,
    /// Number of further values allowed.
    values_left: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, levels: usize) -> Result<Value, JsonError> {
        self.values_left =
            self.values_left.checked_sub(1).ok_or(JsonError::TooManyValues(self.offset))?;
        match self.peek() {
            Some(b'{') => self.object(levels).map(Value::Object),
            Some(b'[') => self.array(levels).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) | None => Err(self.unexpected()),
        }
    }

    fn object(&mut self, levels: usize) -> Result<Object, JsonError> {
        let levels = levels.checked_sub(1).ok_or(JsonError::TooDeep(self.offset))?;
        self.skip(1);
        let (mut members, mut offsets) = (Vec::new(), Vec::new());
        self.skip_space();
        if self.skip_if(b'}') {
            return Ok(Object(members));
        }
        loop {
            self.skip_space();
            offsets.push(self.offset);
            let key = self.string()?;
            self.skip_space();
            self.expect_byte(b':')?;
            self.skip_space();
            members.push((key, self.value(levels)?));
            self.skip_space();
            if self.skip_if(b'}') {
                reject_duplicate_keys(&members, &offsets)?;
                // Otherwise each small object would keep room for four members, and a text can have a million small
                // objects.
                members.shrink_to_fit();
                return Ok(Object(members));
            }
            self.expect_byte(b',')?;
        }
    }

    fn array(&mut self, levels: usize) -> Result<Vec<Value>, JsonError> {
        let levels = levels.checked_sub(1).ok_or(JsonError::TooDeep(self.offset))?;
        self.skip(1);
        let mut items = Vec::new();
        self.skip_space();
        if self.skip_if(b']') {
            return Ok(items);
        }
        loop {
            self.skip_space();
            items.push(self.value(levels)?);
            self.skip_space();
            if self.skip_if(b']') {
                items.shrink_to_fit();
                return Ok(items);
            }
            self.expect_byte(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.expect_byte(b'"')?;
        let mut text = String::new();
        loop {
            text.push_str(self.plain_run());
            match self.peek() {
                Some(b'"') => {
                    self.skip(1);
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(JsonError::ControlCharacter(self.offset)),
                None => return Err(JsonError::UnexpectedEnd(self.offset)),
            }
        }
    }

    /// Skips and returns the characters of a string that need no decoding.
    fn plain_run(&mut self) -> &'a str {
        let start = self.offset;
        let stops = |b: &u8| matches!(b, b'"' | b'\\' | 0..=0x1f);
        self.skip(self.rest().iter().position(stops).unwrap_or(self.rest().len()));
        self.since(start)
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.offset;
        self.skip(1);
        let letter = self.peek().ok_or(JsonError::UnexpectedEnd(self.offset))?;
        self.skip(1);
        match letter {
            b'"' | b'\\' | b'/' => Ok(char::from(letter)),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'n' => Ok('\n'),
            b'r' => Ok('\r'),
            b't' => Ok('\t'),
            b'u' => self.unicode_escape(start),
            _ => Err(JsonError::BadEscape(start)),
        }
    }

    /// Decodes the rest of an escape after `\u`: a character, or a surrogate pair.
    ///
    /// The second half of a pair must follow immediately, as another escape.
    fn unicode_escape(&mut self, start: usize) -> Result<char, JsonError> {
        let first = self.hex_digits(start)?;
        if let Some(character) = char::from_u32(u32::from(first)) {
            return Ok(character);
        }
        if !self.rest().starts_with(b"\\u") {
            return Err(JsonError::LoneSurrogate(start));
        }
        self.skip(2);
        let second = self.hex_digits(start)?;
        match char::decode_utf16([first, second]).next() {
            Some(Ok(character)) => Ok(character),
            Some(Err(_)) | None => Err(JsonError::LoneSurrogate(start)),
        }
    }

    fn hex_digits(&mut self, start: usize) -> Result<u16, JsonError> {
        let from = self.offset;
        self.skip(4);
        let digits = self.since(from);
        // Checked here because `from_str_radix` accepts a sign.
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(JsonError::BadEscape(start));
        }
        u16::from_str_radix(digits, 16).map_err(|_bad| JsonError::BadEscape(start))
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.offset;
        self.skip_if(b'-');
        let first = self.offset;
        // A leading zero is the whole integer part: a digit after it is not part of the number.
        if !self.skip_if(b'0') {
            self.digits()?;
        }
        let whole_digits = self.offset.saturating_sub(first);
        if self.skip_if(b'.') {
            self.digits()?;
        }
        if self.skip_if(b'e') || self.skip_if(b'E') {
            let _signed = self.skip_if(b'+') || self.skip_if(b'-');
            self.digits()?;
        }
        let number = Number(self.since(start).into());
        if number.is_integer() {
            if whole_digits > INTEGER_DIGITS_MAX {
                return Err(JsonError::NumberTooLong(start));
            }
        } else if !number.text().parse::<f64>().is_ok_and(f64::is_finite) {
            // Python would read infinity, and write it as a word that is not JSON.
            return Err(JsonError::NumberTooLarge(start));
        }
        Ok(number)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let stops = |b: &u8| !b.is_ascii_digit();
        match self.rest().iter().position(stops).unwrap_or(self.rest().len()) {
            0 => Err(self.unexpected()),
            count => {
                self.skip(count);
                Ok(())
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.unexpected());
        }
        self.skip(word.len());
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.skip(1);
        }
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.skip_if(byte) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn skip_if(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.skip(1);
        }
        found
    }

    fn unexpected(&self) -> JsonError {
        if self.peek().is_some() {
            JsonError::Unexpected(self.offset)
        } else {
            JsonError::UnexpectedEnd(self.offset)
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    fn skip(&mut self, count: usize) {
        self.offset = self.offset.saturating_add(count);
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.offset..).unwrap_or_default()
    }

    /// Returns the text from `start` to here; empty if either end is not on a character boundary.
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.offset).unwrap_or_default()
    }
}

/// Rejects duplicate keys. Sorts instead of comparing all pairs: an object of 100,000 keys fits a control frame.
fn reject_duplicate_keys(members: &[(String, Value)], offsets: &[usize]) -> Result<(), JsonError> {
    let mut keys: Vec<(&str, usize)> =
        members.iter().map(|(key, _)| key.as_str()).zip(offsets.iter().copied()).collect();
    keys.sort_unstable();
    match keys.iter().zip(keys.iter().skip(1)).find(|(left, right)| left.0 == right.0) {
        Some((_, (_, offset))) => Err(JsonError::DuplicateKey(*offset)),
        None => Ok(()),
    }
}
