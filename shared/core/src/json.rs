//! JSON as it was written: objects keep their order, numbers their digits. Never guesses: a text
//! that two readers could understand in two ways is refused, and no number is ever held as a float.

mod read;
mod write;

pub use read::{parse, parse_few};
pub(crate) use write::push_string;

/// One JSON value. Equality is by what was written: `1.0` is not `1`, and the order of keys counts.
///
/// There is no `Serialize`: serde would hand numbers on as floats or 64-bit integers and lose
/// digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(Object),
}

impl Value {
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// A member, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }
}

/// A number by its text, which follows the JSON grammar: whoever needs a value parses the text to
/// the type it can answer for. Integers have up to 4300 digits (CPython's own bound); a text with a
/// fraction or an exponent is finite as a double, because the agents' side reads it as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(Box<str>);

impl Number {
    /// As written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Written without fraction and exponent: what Python reads as an `int`.
    pub fn is_integer(&self) -> bool {
        !self.0.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
    }

    /// The value of plain digits. `-0`, `1.0` and `1e3` are not plain.
    pub fn as_u64(&self) -> Option<u64> {
        if self.0.bytes().all(|b| b.is_ascii_digit()) { self.0.parse().ok() } else { None }
    }
}

/// Members in the order in which they came, no key twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    pub fn new() -> Self {
        Self::default()
    }

    /// The same object with one member more: `Object::new().with("status", "success")`.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Adds a member at the end, or replaces the value of one that is there and returns the old
    /// value. Looks at every key: meant for the answers we build, not for objects of any size.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((key, value));
                None
            }
        }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a text is not the JSON we accept, with the byte at which it stops being so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not UTF-8 (byte {0})")]
    NotUtf8(usize),
    #[error("a byte order mark is not accepted (byte {0})")]
    ByteOrderMark(usize),
    #[error("the text ends too early (byte {0})")]
    UnexpectedEnd(usize),
    #[error("not JSON (byte {0})")]
    Unexpected(usize),
    #[error("more text after the value (byte {0})")]
    TrailingText(usize),
    #[error("nested too deep (byte {0})")]
    TooDeep(usize),
    #[error("too many values (byte {0})")]
    TooManyValues(usize),
    #[error("duplicate key (byte {0})")]
    DuplicateKey(usize),
    #[error("an unescaped control character in a string (byte {0})")]
    ControlCharacter(usize),
    #[error("invalid escape sequence (byte {0})")]
    BadEscape(usize),
    #[error("half of a surrogate pair (byte {0})")]
    LoneSurrogate(usize),
    #[error("an integer of more than 4300 digits (byte {0})")]
    NumberTooLong(usize),
    #[error("a number beyond the range of a double (byte {0})")]
    NumberTooLarge(usize),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(Number(number.to_string().into()))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Number(number.to_string().into()))
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// Nothing is written as `null`.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
pub(crate) mod tests;
