//! JSON values as the wallet keeps them: order and digits are preserved.

/// A JSON value.
///
/// Equality compares what was written: `1.0` differs from `1`, and key order counts.
///
/// There is no `Serialize`: serde would pass numbers on as floats or 64-bit integers and lose digits.
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
    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the value of `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    /// Returns the number.
    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// Returns the items of an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Returns a member if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }
}

/// A number as its text, which follows the JSON grammar.
///
/// Callers parse it to the type they need. Integers have at most 4300 digits (CPython's limit). A text with a fraction
/// or an exponent is finite as a double, because agents read it as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(pub(super) Box<str>);

impl Number {
    /// Returns the text as written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether there is neither fraction nor exponent, so that Python reads an `int`.
    pub fn is_integer(&self) -> bool {
        !self.0.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
    }

    /// Returns the value if the number is plain digits and fits.
    ///
    /// `-0`, `1.0` and `1e3` are not plain digits.
    pub fn as_u64(&self) -> Option<u64> {
        if self.0.bytes().all(|b| b.is_ascii_digit()) { self.0.parse().ok() } else { None }
    }
}

/// An object: members in the order of the text, with unique keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object(pub(super) Vec<(String, Value)>);

impl Object {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the object with one more member: `Object::new().with("status", "success")`.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Appends a member, or replaces the value of an existing key and returns the old value.
    ///
    /// The search is linear: meant for responses that we build, not for objects of arbitrary size.
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

    /// Returns the value of a key; the search is linear.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Iterates over the members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text is not valid JSON, or not of the accepted subset; with the byte offset of the error.
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

/// Writes `None` as `null`.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
