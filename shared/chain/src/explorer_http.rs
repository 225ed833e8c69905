//! The real [`Explorer`]: Blockscout's REST API, version 2. Reads only the type, address, amount, symbol and decimals
//! of each token, and the URL of its icon, which it never fetches.

use alloy_primitives::Address;
use bursar_core::money::Atoms;
use serde::Deserialize;
use serde_json::Value;

use crate::ports::{BoxFuture, EndpointLabel, Explorer, ExplorerFault, TokenBalance};
use bursar_outbound::{Client, PlainHttpHosts, Target, TargetFault};

/// Maximum number of tokens that are read from one answer.
///
/// The bound is needed because anyone can send worthless tokens to a known address.
pub const TOKENS_MAX: usize = 500;

/// Maximum number of bytes of an icon's URL; a longer one counts as missing.
const ICON_URL_BYTES_MAX: usize = 512;

/// Maximum number of characters kept of a symbol; genuine symbols have at most ten.
pub const SYMBOL_CHARS_MAX: usize = 32;

/// The longest accepted answer, in bytes.
///
/// The list is not paginated and takes less than a kilobyte per token.
pub const REPLY_BYTES_MAX: usize = 8 << 20;

/// Timeout of one request, in milliseconds: half of `FUNDS_TIMEOUT_MS`, the limit for all balances of an address.
pub const TIMEOUT_MS: u64 = 5_000;

/// Maximum number of decimals accepted. With more, no amount of 256 bits would reach one whole token.
const DECIMALS_MAX: u64 = 77;

/// The limits of [`ExplorerHttp`].
///
/// Production uses the defaults; tests use smaller limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplorerLimits {
    pub timeout_ms: u64,
    pub reply_bytes_max: usize,
}

impl Default for ExplorerLimits {
    fn default() -> Self {
        Self { timeout_ms: TIMEOUT_MS, reply_bytes_max: REPLY_BYTES_MAX }
    }
}

/// Why an explorer cannot be configured.
///
/// Never shows the URL, which may contain a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplorerConfigError {
    #[error("this is not a URL like https://base.blockscout.com/api/v2")]
    NotAUrl,
    #[error("{0} must begin with https:// (or http:// on this machine)")]
    Scheme(EndpointLabel),
    #[error(
        "{0} is not encrypted; http:// is only for 127.0.0.1, [::1] and localhost: use https://"
    )]
    PlainHttp(EndpointLabel),
    #[error("{0} contains a user name or password; put the key in the path or query")]
    UserInfo(EndpointLabel),
    #[error("the HTTPS client cannot be created: {0}")]
    Client(String),
}

impl From<TargetFault> for ExplorerConfigError {
    fn from(fault: TargetFault) -> Self {
        match fault {
            TargetFault::NotAUrl => Self::NotAUrl,
            TargetFault::Scheme(label) => Self::Scheme(label),
            TargetFault::PlainHttp(label) => Self::PlainHttp(label),
            TargetFault::UserInfo(label) => Self::UserInfo(label),
        }
    }
}

/// A client of one Blockscout instance.
#[derive(Debug)]
pub struct ExplorerHttp {
    base: Target,
    client: Client,
    limits: ExplorerLimits,
}

impl ExplorerHttp {
    /// Creates a client for `base`, the URL up to and including `/api/v2`.
    ///
    /// The query of `base`, such as an `apikey`, is sent with every request. This opens no connection.
    ///
    /// # Errors
    /// The URL is not acceptable, or the HTTPS client cannot be created.
    pub fn new(base: &str, limits: ExplorerLimits) -> Result<Self, ExplorerConfigError> {
        let base = Target::parse(base, PlainHttpHosts::ThisMachine)?;
        let client = Client::new(limits.timeout_ms).map_err(ExplorerConfigError::Client)?;
        Ok(Self { base, client, limits })
    }

    async fn fetch(&self, owner: Address) -> Result<Vec<TokenBalance>, ExplorerFault> {
        let endpoint = self.base.label();
        let address = owner.to_checksum(None);
        let url = self.base.with_segments(&["addresses", &address, "token-balances"]);
        let reply = self.client.get(&url, self.limits.reply_bytes_max).await;
        let reply = reply
            .map_err(|reason| ExplorerFault::Unreachable { endpoint: endpoint.clone(), reason })?;
        match reply.status.as_u16() {
            200 => read(&reply.body)
                .map_err(|reason| ExplorerFault::Malformed { endpoint: endpoint.clone(), reason }),
            // The explorer has never seen this address.
            404 => Ok(Vec::new()),
            status => Err(ExplorerFault::Status { endpoint: endpoint.clone(), status }),
        }
    }
}

impl Explorer for ExplorerHttp {
    fn tokens(&self, owner: Address) -> BoxFuture<'_, Result<Vec<TokenBalance>, ExplorerFault>> {
        Box::pin(self.fetch(owner))
    }
}

#[derive(Deserialize)]
struct Entry {
    token: Token,
    value: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    /// Older instances name this field `address`.
    address_hash: Option<String>,
    address: Option<String>,
    symbol: Option<String>,
    /// A string, a number or null; other JSON types count as unknown.
    #[serde(default)]
    decimals: Value,
    #[serde(rename = "type")]
    kind: Option<String>,
    /// A string or null; other JSON types count as missing.
    #[serde(default)]
    icon_url: Value,
}

fn read(body: &[u8]) -> Result<Vec<TokenBalance>, &'static str> {
    let entries: Vec<Entry> =
        serde_json::from_slice(body).map_err(|_quotes_it| "it is not a list of tokens")?;
    let coins = entries.into_iter().filter(|entry| entry.token.kind.as_deref() == Some("ERC-20"));
    coins.take(TOKENS_MAX).map(token_balance).collect()
}

/// Reads one token. The explorer itself provides address and amount, so the whole answer is invalid without them. The
/// symbol and the decimals come from the token contract and may be missing.
fn token_balance(entry: Entry) -> Result<TokenBalance, &'static str> {
    let token = entry.token;
    let address = token.address_hash.or(token.address).unwrap_or_default();
    let address = address.parse::<Address>().map_err(|_quotes_it| "a token has no address")?;
    let amount = Atoms::parse(&entry.value.unwrap_or_default());
    let Atoms(amount): Atoms = amount.map_err(|_quotes_it| "a token has no amount")?;
    let symbol = token.symbol.unwrap_or_default().chars().take(SYMBOL_CHARS_MAX).collect();
    let icon = token.icon_url.as_str().filter(|url| url.len() <= ICON_URL_BYTES_MAX);
    let icon = icon.map(str::to_owned);
    Ok(TokenBalance { address, symbol, decimals: decimals(&token.decimals), amount, icon })
}

fn decimals(value: &Value) -> Option<u8> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| *number <= DECIMALS_MAX).and_then(|number| u8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use serde_json::json;

    const TOKEN: Address = Address::repeat_byte(0xab);

    fn entry(change: impl FnOnce(&mut Value)) -> Value {
        let mut entry = json!({
            "token": {
                "address_hash": TOKEN, "symbol": "TST", "name": "Test", "decimals": "6",
                "type": "ERC-20", "icon_url": "http://169.254.169.254/", "exchange_rate": null,
            },
            "value": "12500000", "token_id": null, "token_instance": null,
        });
        change(&mut entry);
        entry
    }

    fn read_changed_entry(
        change: impl FnOnce(&mut Value),
    ) -> Result<Vec<TokenBalance>, &'static str> {
        read(json!([entry(change)]).to_string().as_bytes())
    }

    fn expected_balance() -> TokenBalance {
        let amount = U256::from(12_500_000);
        let icon = Some("http://169.254.169.254/".to_owned());
        TokenBalance { address: TOKEN, symbol: "TST".to_owned(), decimals: Some(6), amount, icon }
    }

    #[test]
    fn an_odd_icon_hides_no_balance() {
        let long = format!("https://a.example/{}", "x".repeat(ICON_URL_BYTES_MAX));
        for odd in [json!(null), json!(7), json!({}), json!(["https://a.example/"]), json!(long)] {
            let read = read_changed_entry(|entry| entry["token"]["icon_url"] = odd.clone());
            assert_eq!(read.map(|all| all[0].icon.clone()), Ok(None), "{odd}");
        }
        let missing = read_changed_entry(|entry| {
            entry["token"].as_object_mut().unwrap().remove("icon_url");
        });
        assert_eq!(missing.map(|all| all[0].icon.clone()), Ok(None));
    }

    #[test]
    fn new_and_old_blockscout_formats_are_decoded() {
        assert_eq!(read_changed_entry(|_same| {}), Ok(vec![expected_balance()]));
        let older = read_changed_entry(|entry| {
            let address = entry["token"]["address_hash"].take();
            entry["token"]["address"] = address;
        });
        assert_eq!(older, Ok(vec![expected_balance()]));
        assert_eq!(read(b"[]"), Ok(vec![]));
    }

    #[test]
    fn entries_other_than_erc20_are_skipped_even_if_malformed() {
        for kind in [json!("ERC-721"), json!("ERC-1155"), json!("erc-20"), json!(null)] {
            let read = read_changed_entry(|entry| {
                entry["token"]["type"] = kind.clone();
                entry["value"] = json!(null);
            });
            assert_eq!(read, Ok(vec![]), "{kind}");
        }
    }

    #[test]
    fn an_explorer_answer_without_address_or_amount_is_rejected() {
        for value in ["", "-1", "1.5", "1e3", "0x10", " 1", &"9".repeat(79), &"9".repeat(78)] {
            assert!(read_changed_entry(|entry| entry["value"] = json!(value)).is_err(), "{value}");
        }
        for address in [json!(null), json!(""), json!("0x12"), json!(7)] {
            assert!(
                read_changed_entry(|entry| entry["token"]["address_hash"] = address.clone())
                    .is_err()
            );
        }
        for body in ["", "null", "{}", "[1]", "[{}]", "{\"items\":[]}", "<html>", "[]]"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn token_symbol_decimals_and_count_are_bounded() {
        for (reported, read) in [
            (json!("18"), Some(18)),
            (json!(18), Some(18)),
            (json!("77"), Some(77)),
            (json!("78"), None),
            (json!("256"), None),
            (json!(null), None),
            (json!("-1"), None),
            (json!("1e3"), None),
            (json!(["6"]), None),
        ] {
            let tokens =
                read_changed_entry(|entry| entry["token"]["decimals"] = reported.clone()).unwrap();
            assert_eq!(tokens[0].decimals, read, "{reported}");
        }
        let tokens =
            read_changed_entry(|entry| entry["token"]["symbol"] = json!("ß".repeat(1 << 20)))
                .unwrap();
        assert_eq!(tokens[0].symbol.chars().count(), SYMBOL_CHARS_MAX);
        let many = json!(vec![entry(|_same| {}); TOKENS_MAX + 1]);
        assert_eq!(read(many.to_string().as_bytes()).unwrap().len(), TOKENS_MAX);
    }

    #[test]
    fn an_invalid_explorer_url_is_refused_and_not_shown() {
        for url in
            ["http://10.0.0.1/KEY", "ftp://a.test/KEY", "https://KEY@a.test", "KEY", "file:///KEY"]
        {
            let refused = ExplorerHttp::new(url, ExplorerLimits::default()).unwrap_err();
            assert!(!format!("{refused} {refused:?}").contains("KEY"), "{refused}");
        }
        let made = ExplorerHttp::new("https://a.test/KEY?k=KEY", ExplorerLimits::default());
        assert!(!format!("{made:?}").contains("KEY"), "{made:?}");
    }
}
