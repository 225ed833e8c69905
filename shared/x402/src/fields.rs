//! Reads members of a challenge's objects by type, with refusals that name the member. `null` counts as
//! absent: Python servers write optional fields that way.

use bursar_core::json::{Object, Value};

use crate::error::X402Error;

/// An object of the challenge and its place in it, like `accepts[0].`, empty at the top.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Object,
    place: &'a str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a Object, place: &'a str) -> Self {
        Self { object, place }
    }

    /// Says what is wrong with a member.
    pub(crate) fn refuse(&self, key: &str, fault: &str) -> X402Error {
        X402Error::format(format!("{}{key} {fault}", self.place))
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| **value != Value::Null)
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, X402Error> {
        let read =
            |value: &'a Value| value.as_str().ok_or_else(|| self.refuse(key, "is not a string"));
        self.value(key).map(read).transpose()
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<&'a Object>, X402Error> {
        let read = |value: &'a Value| {
            value.as_object().ok_or_else(|| self.refuse(key, "is not an object"))
        };
        self.value(key).map(read).transpose()
    }

    /// A number of plain digits: `300`, not `3e2`, `300.0` or `"300"`.
    pub(crate) fn count(&self, key: &str) -> Result<Option<u64>, X402Error> {
        let read = |value: &Value| {
            let number = value.as_number().and_then(|number| number.as_u64());
            number.ok_or_else(|| self.refuse(key, "is not a whole number of 0 or more"))
        };
        self.value(key).map(read).transpose()
    }

    /// A string, or an integer by its digits: some servers write amounts and chain ids as numbers.
    /// What the digits mean is for the caller to check; nothing passes through a float.
    pub(crate) fn digits(&self, key: &str) -> Result<Option<&'a str>, X402Error> {
        let read = |value: &'a Value| match value {
            Value::String(text) => Ok(text.as_str()),
            Value::Number(number) if number.is_integer() => Ok(number.text()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(self.refuse(key, "is neither a string nor an integer")),
        };
        self.value(key).map(read).transpose()
    }

    pub(crate) fn required<T>(&self, key: &str, found: Option<T>) -> Result<T, X402Error> {
        found.ok_or_else(|| self.refuse(key, "is missing"))
    }
}
