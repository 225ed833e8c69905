//! A value given for a key, from the environment or the file. Errors name the accepted form and never repeat the value.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use bursar_core::address;
use bursar_core::money::{MoneyError, parse_decimal};
use toml::Value;

use crate::access::ranges::IpRanges;

/// The word for an empty list in the environment, where an empty variable counts as unset.
const EMPTY_LIST: &str = "none";

/// A value that is not parsed yet.
#[derive(Clone, Copy)]
pub enum RawSetting<'a> {
    /// From the environment.
    Text(&'a str),
    /// From the file.
    Value(&'a Value),
}

/// Redacted, because the value may be a secret.
impl fmt::Debug for RawSetting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawSetting([redacted])")
    }
}

/// Errors are texts for [`Key::set`](super::Key): the accepted form, without a final period.
impl<'a> RawSetting<'a> {
    /// Returns a string without surrounding white space; rejects an empty one.
    pub fn text(self) -> Result<&'a str, String> {
        let text = match self {
            RawSetting::Text(text) => text,
            RawSetting::Value(value) => value.as_str().ok_or("it must be a string in quotes")?,
        };
        match text.trim() {
            "" => Err("it is empty: give a value or leave it out".to_owned()),
            text => Ok(text),
        }
    }

    /// Returns the items of a list; in the environment, they are separated by commas.
    pub fn list(self) -> Result<Vec<&'a str>, String> {
        match self {
            RawSetting::Text(text) if text.trim() == EMPTY_LIST => Ok(Vec::new()),
            RawSetting::Text(text) => Ok(comma_separated(text).collect()),
            RawSetting::Value(Value::Array(values)) => values
                .iter()
                .map(|value| RawSetting::Value(value).text())
                .collect::<Result<_, _>>()
                .map_err(|why| format!("an entry of the list is not valid: {why}")),
            RawSetting::Value(_other) => {
                Err("it must be a list of strings, like [\"…\"]".to_owned())
            }
        }
    }

    /// Parses a whole number within bounds.
    pub fn whole_number<N: TryFrom<u64>>(self, bounds: RangeInclusive<u64>) -> Result<N, String> {
        let number = match self {
            RawSetting::Text(text) => text.trim().parse().ok(),
            RawSetting::Value(value) => value.as_integer().and_then(|it| u64::try_from(it).ok()),
        };
        let inside = number.filter(|number| bounds.contains(number));
        inside.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            format!("it must be a whole number from {} to {}", bounds.start(), bounds.end())
        })
    }

    /// Parses a decimal number into units of 10^-`scale`, without rounding.
    pub fn decimal(self, scale: u8) -> Result<U256, String> {
        match self {
            RawSetting::Value(Value::Float(_binary)) => {
                Err("a number with a point must be in quotes, like \"0.5\"".to_owned())
            }
            RawSetting::Value(Value::Integer(whole)) => decimal(&whole.to_string(), scale),
            RawSetting::Text(_) | RawSetting::Value(_) => decimal(self.text()?, scale),
        }
    }

    /// Returns a path, without checking that it exists.
    pub fn path(self) -> Result<PathBuf, String> {
        self.text().map(PathBuf::from)
    }

    /// Parses an IP address and a port.
    pub fn socket(self) -> Result<SocketAddr, String> {
        let wanted = "it must be an IP address and a port, like 127.0.0.1:4402";
        self.text()?.parse().map_err(|_not_one| wanted.to_owned())
    }

    /// Parses an IP address and a port, or `off`.
    pub fn socket_or_off(self) -> Result<Option<SocketAddr>, String> {
        if self.text()? == "off" { Ok(None) } else { self.socket().map(Some) }
    }

    /// Parses a list of IP addresses and CIDR ranges.
    pub fn ip_ranges(self) -> Result<IpRanges, String> {
        IpRanges::parse(self.list()?).ok_or_else(|| {
            "each entry must be an IP address, or a range like 10.0.0.0/8 without bits after its prefix"
                .to_owned()
        })
    }

    /// Parses `true` or `false`.
    pub fn flag(self) -> Result<bool, String> {
        match self {
            RawSetting::Value(Value::Boolean(flag)) => Ok(*flag),
            other => match other.text() {
                Ok("true") => Ok(true),
                Ok("false") => Ok(false),
                _neither => Err("it must be true or false".to_owned()),
            },
        }
    }

    /// Parses a chain address, except the zero address.
    pub fn address(self) -> Result<Address, String> {
        address::parse(self.text()?).map_err(|error| error.to_string())
    }

    /// Parses a list of chain addresses.
    pub fn addresses<C: FromIterator<Address>>(self) -> Result<C, String> {
        let parse = |text| address::parse(text).map_err(|error| error.to_string());
        self.list()?.into_iter().map(parse).collect()
    }
}

/// Returns the items of a comma-separated text, trimmed and without empty items.
pub fn comma_separated(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn decimal(text: &str, scale: u8) -> Result<U256, String> {
    parse_decimal(text, scale).map_err(|error| match error {
        MoneyError::TooFine => format!("it has more than {scale} digits after the point"),
        _other => "it must be a decimal number, like 0.5".to_owned(),
    })
}
