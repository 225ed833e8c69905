//! The real [`Prices`]: a price API in the form of CoinGecko's `simple/price`, over HTTPS.

use std::str::FromStr;

use alloy_primitives::U256;
use bursar_core::money::{Usd, parse_decimal};
use bursar_outbound::{Client, PlainHttpHosts, Target, TargetFault};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ports::{BoxFuture, PriceFault, Prices};

/// The default URL of the price API, for the price of ETH in dollars.
pub const DEFAULT_URL: &str =
    "https://api.coingecko.com/api/v3/simple/price?ids=ethereum&vs_currencies=usd";

/// Longest answer, in bytes.
const REPLY_BYTES_MAX: usize = 4_096;

/// Timeout of one request, in milliseconds.
const TIMEOUT_MS: u64 = 3_000;

/// A client of one price API.
#[derive(Debug)]
pub struct PriceHttp {
    url: Target,
    client: Client,
}

/// Why a price API cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceConfigError {
    Url(TargetFault),
    /// The HTTPS client cannot be created.
    Client(String),
}

impl PriceHttp {
    /// Creates a client for a complete URL.
    ///
    /// Opens no connection.
    ///
    /// # Errors
    /// The URL is not permitted, or the HTTPS client cannot be created.
    pub fn new(url: &str) -> Result<Self, PriceConfigError> {
        let url = Target::parse(url, PlainHttpHosts::ThisMachine).map_err(PriceConfigError::Url)?;
        let client = Client::new(TIMEOUT_MS).map_err(PriceConfigError::Client)?;
        Ok(Self { url, client })
    }

    async fn fetch(&self) -> Result<Usd, PriceFault> {
        let endpoint = self.url.label();
        let reply = self.client.get(&self.url, REPLY_BYTES_MAX).await;
        let reply = reply
            .map_err(|reason| PriceFault::Unreachable { endpoint: endpoint.clone(), reason })?;
        match reply.status.as_u16() {
            200 => read(&reply.body)
                .ok_or_else(|| PriceFault::Malformed { endpoint: endpoint.clone() }),
            status => Err(PriceFault::Status { endpoint: endpoint.clone(), status }),
        }
    }
}

impl Prices for PriceHttp {
    fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
        Box::pin(self.fetch())
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    ethereum: Ethereum<'a>,
}

#[derive(Deserialize)]
struct Ethereum<'a> {
    #[serde(borrow)]
    usd: &'a RawValue,
}

fn read(body: &[u8]) -> Option<Usd> {
    let answer: Answer<'_> = serde_json::from_slice(body).ok()?;
    price(answer.ethereum.usd.get())
}

/// Parses a plain decimal without floating point, and rounds it up to a millionth. Rejects an exponent.
fn price(text: &str) -> Option<Usd> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (kept, rest) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
    if !rest.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let micros = parse_decimal(&format!("{whole}.{kept}"), 6).ok()?;
    let more = rest.bytes().any(|digit| digit != b'0');
    let micros = micros.checked_add(U256::from(u8::from(more)))?;
    u64::from_str(&micros.to_string()).ok().filter(|micros| *micros > 0).map(Usd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_exactly_and_rounded_up() {
        let read = |text: &str| read(format!("{{\"ethereum\":{{\"usd\":{text}}}}}").as_bytes());
        for (text, micros) in [
            ("3456.78", 3_456_780_000),
            ("3456", 3_456_000_000),
            ("0.1234561", 123_457),
            ("0.1234560", 123_456),
            ("18446744073709.551615", u64::MAX),
        ] {
            assert_eq!(read(text), Some(Usd(micros)), "{text}");
        }
        for text in
            ["0", "-1", "1e3", "1.5e2", "\"3456\"", "null", "NaN", "18446744073709.551616", "[]"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(super::read(b"{}"), None);
        assert_eq!(super::read(b"<html>"), None);
    }

    #[test]
    fn only_https_or_this_machine_is_asked() {
        assert!(PriceHttp::new(DEFAULT_URL).is_ok());
        assert!(PriceHttp::new("http://127.0.0.1:1/price").is_ok());
        assert!(matches!(PriceHttp::new("http://prices.example"), Err(PriceConfigError::Url(_))));
    }
}
