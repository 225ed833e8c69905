//! Reads members of untrusted objects by type, with errors that name the member. `null` counts as absent, because
//! Python servers write `null` for a missing optional field.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::address::{self, AddressError};
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;

use crate::error::X402Error;

/// An object and its path in the input, such as `accepts[0].`; empty at the top.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    object: &'a Object,
    path: &'a str,
}

impl<'a> Fields<'a> {
    /// Creates a reader of `object`, which is at `path` in the input.
    pub fn new(object: &'a Object, path: &'a str) -> Self {
        Self { object, path }
    }

    /// Returns an error that names the member and its fault.
    pub fn error(&self, key: &str, fault: &str) -> X402Error {
        X402Error::format(format!("{}{key} {fault}", self.path))
    }

    /// Returns a member, unless it is absent or `null`.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| **value != Value::Null)
    }

    /// Returns a string, if present.
    ///
    /// # Errors
    /// `InvalidFormat` for another type, as in all methods below.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, X402Error> {
        let read =
            |value: &'a Value| value.as_str().ok_or_else(|| self.error(key, "is not a string"));
        self.value(key).map(read).transpose()
    }

    /// Returns an object, if present.
    pub fn object(&self, key: &str) -> Result<Option<&'a Object>, X402Error> {
        let read =
            |value: &'a Value| value.as_object().ok_or_else(|| self.error(key, "is not an object"));
        self.value(key).map(read).transpose()
    }

    /// Returns the elements of an array, if present.
    pub fn array(&self, key: &str) -> Result<Option<&'a [Value]>, X402Error> {
        let read =
            |value: &'a Value| value.as_array().ok_or_else(|| self.error(key, "is not an array"));
        self.value(key).map(read).transpose()
    }

    /// Reads an object, which must be present, with the function `read`.
    ///
    /// Errors name the whole path.
    ///
    /// # Errors
    /// `InvalidFormat` if there is no object, and the errors of `read`.
    pub fn nested<T, E: From<X402Error>>(
        &self,
        key: &str,
        read: impl FnOnce(&Fields<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let object = self.required(key, self.object(key)?)?;
        self.within(key, object, read)
    }

    /// Reads `object`, which is at `key` of this object, with the function `read`.
    ///
    /// Errors name the whole path.
    pub fn within<T, E>(
        &self,
        key: &str,
        object: &Object,
        read: impl FnOnce(&Fields<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = format!("{}{key}.", self.path);
        read(&Fields::new(object, &path))
    }

    /// Returns a number of plain digits, if present: `300`, not `3e2`, `300.0` or `"300"`.
    pub fn count(&self, key: &str) -> Result<Option<u64>, X402Error> {
        let read = |value: &Value| {
            let number = value.as_number().and_then(|number| number.as_u64());
            number.ok_or_else(|| self.error(key, "is not a whole number of 0 or more"))
        };
        self.value(key).map(read).transpose()
    }

    /// Returns a string or the digits of an integer, if present.
    ///
    /// Some servers write amounts and chain ids as numbers. The caller parses the digits; no float is involved.
    pub fn digits(&self, key: &str) -> Result<Option<&'a str>, X402Error> {
        let read = |value: &'a Value| match value {
            Value::String(text) => Ok(text.as_str()),
            Value::Number(number) if number.is_integer() => Ok(number.text()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(self.error(key, "must be a string or an integer")),
        };
        self.value(key).map(read).transpose()
    }

    /// Returns a number below 2^256 in plain decimal digits, if present.
    pub fn amount(&self, key: &str) -> Result<Option<U256>, X402Error> {
        let read = |text: &str| {
            Atoms::parse(text)
                .map(|atoms| atoms.0)
                .map_err(|_text| self.error(key, "is not a whole number below 2^256"))
        };
        self.digits(key)?.map(read).transpose()
    }

    /// Returns an address, which must be present.
    ///
    /// An address in mixed case must have the right checksum, because a wrong checksum probably means a wrong digit.
    pub fn address(&self, key: &str) -> Result<Address, X402Error> {
        let text = self.required(key, self.text(key)?)?;
        address::read(text).map_err(|error| self.error(key, fault_of(error)))
    }

    /// Returns 32 bytes, if they are present in the form `0x` and 64 hex digits.
    ///
    /// `None` for a text of another form.
    pub fn word(&self, key: &str) -> Result<Option<B256>, X402Error> {
        let read = |text: &str| {
            let mut word = [0; 32];
            let digits = text.strip_prefix("0x")?;
            hex::decode_to_slice(digits, &mut word).ok()?;
            Some(B256::new(word))
        };
        Ok(self.text(key)?.and_then(read))
    }

    /// Returns bytes of any length, which must be present.
    pub fn bytes(&self, key: &str) -> Result<Bytes, X402Error> {
        let text = self.required(key, self.text(key)?)?;
        let digits = text.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        digits
            .map(Bytes::from)
            .ok_or_else(|| self.error(key, "is not 0x and an even number of hex digits"))
    }

    /// Returns `found`, or the error that the member is missing.
    pub fn required<T>(&self, key: &str, found: Option<T>) -> Result<T, X402Error> {
        found.ok_or_else(|| self.error(key, "is missing"))
    }
}

/// Describes the fault of a member that is not a valid address.
pub(crate) fn fault_of(error: AddressError) -> &'static str {
    match error {
        AddressError::Form => "is not 0x and 40 hex digits",
        AddressError::Checksum => "has a wrong checksum (EIP-55): one of its digits may be wrong",
        AddressError::Zero => "is the zero address",
    }
}
