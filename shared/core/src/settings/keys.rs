//! The single table of settings: key, storage, type, default and help. Commands, the reader of `settings.toml` and the
//! manual all use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::networks::{ChainId, NETWORKS, by_id_or_v1_name};
use crate::text::snippet;

/// The place in which a setting is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In `settings.toml`, in the environment, or in an argument.
    File,
    /// In the journal, because a change may weaken a protection.
    Journal,
}

/// The type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An address and a port.
    Listen,
    Count,
    Switch,
    Hosts,
    WarnOrRefuse,
    Notices,
    ConsoleTime,
    ConsolePalette,
    Seconds,
    SecondsOrOff,
    Usd,
    UsdOrOff,
    Urls,
    UrlsOrNone,
    Url,
}

impl Storage {
    /// Returns the place in words.
    pub fn text(self) -> &'static str {
        match self {
            Storage::File => "settings.toml",
            Storage::Journal => "the journal",
        }
    }
}

impl Kind {
    /// Describes the accepted values, for the manual.
    pub fn accepted_values(self) -> &'static str {
        match self {
            Kind::Listen => "a loopback address and port",
            Kind::Count => "a whole number",
            Kind::Switch => "true or false",
            Kind::Hosts => "names, separated by commas",
            Kind::WarnOrRefuse => "warn or refuse",
            Kind::Notices => "all, bell or none",
            Kind::ConsoleTime => "local or utc",
            Kind::ConsolePalette => "auto, dark, light or mono",
            Kind::Seconds => "seconds",
            Kind::SecondsOrOff => "seconds, or off",
            Kind::Usd => "dollars",
            Kind::UsdOrOff => "dollars, or off",
            Kind::Urls => "URLs in the order in which they are tried",
            Kind::UrlsOrNone => "URLs in the order in which they are tried, or none",
            Kind::Url => "a URL or none",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The key, with `<id>` in place of a network's chain id.
    pub key: &'static str,
    pub storage: Storage,
    pub kind: Kind,
    /// The default in words.
    pub default: &'static str,
    pub help: &'static str,
}

macro_rules! settings {
    ($($variant:ident $(($network:ident))? $key:literal $storage:ident $kind:ident $default:literal $help:literal;)*) => {
        /// The key of a setting; settings of a network contain its chain id.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum Key {
            $(#[doc = $help] $variant $(($network))?,)*
        }

        /// All rows, in the order in which they are shown.
        pub const ROWS: &[Row] = &[
            $(Row { key: $key, storage: Storage::$storage, kind: Kind::$kind, default: $default, help: $help },)*
        ];

        impl Key {
            /// Returns the setting's row of the table.
            pub fn row(self) -> Row {
                match self {
                    $(Key::$variant $((settings!(@any $network)))? =>
                        Row { key: $key, storage: Storage::$storage, kind: Kind::$kind, default: $default, help: $help },)*
                }
            }

            /// Returns the key of a row; `network` replaces the row's `<id>`.
            fn of(row: &str, network: ChainId) -> Option<Self> {
                match row {
                    $($key => Some(Key::$variant $((settings!(@fill $network network)))?),)*
                    _unknown => None,
                }
            }
        }
    };
    (@any $network:ident) => { _ };
    (@fill $network:ident $value:ident) => { $value };
}

settings! {
    Listen "server.listen" File Listen "127.0.0.1:9402"
        "The address the agent server listens on; port 0 picks a free port. Takes effect when the server starts.";
    Rate "server.rate_per_minute" File Count "300"
        "Requests a minute from one agent, or from one address without a valid proof. 0 turns the limit \
         off; only the 0 is stored in the journal.";
    SignatureWindow "server.signature_window_s" File Count "300"
        "How far the time of an agent's signature may be from this machine's clock: 60 to 900 seconds.";
    AllowLan "server.allow_lan" Journal Switch "false"
        "Whether other machines can call the agent server. `server start --allow-lan` allows it for one run only.";
    Hosts "server.hosts" Journal Hosts "none"
        "Further host names under which the agent server may be called.";
    LanBearer "server.lan_bearer" Journal WarnOrRefuse "warn"
        "Whether a bearer token that another machine sends in clear text is warned about or \
         refused.";
    Autostart "server.autostart" File Switch "true"
        "Whether the agent server starts with the engine.";
    NetworkEnabled(ChainId) "networks.<id>.enabled" Journal Switch "depends on the network"
        "Whether agents and sends may use the network.";
    NetworkRpc(ChainId) "networks.<id>.rpc" File Urls "the network's public endpoint, if it has one"
        "The network's JSON-RPC endpoints. Path and query, which may hold your API key, are shown only \
         with --reveal.";
    NetworkSubmitRpc(ChainId) "networks.<id>.submit_rpc" File UrlsOrNone "the endpoints of `rpc`"
        "The endpoints that receive signed transactions, such as a private relay. Reads still go to `rpc`, which \
         needs an endpoint too. Path and query are shown only with --reveal. `none` sends transactions to \
         `rpc` again.";
    NetworkExplorer(ChainId) "networks.<id>.explorer" File Url "https://base.blockscout.com/api/v2 on Base, none elsewhere"
        "The network's block explorer: the base URL of a Blockscout API. That server sees every address \
         that is looked up. `none` turns it off: balances then list only the tokens that Bursar knows.";
    PricesUrl "prices.url" File Url "https://api.coingecko.com/api/v3/simple/price?ids=ethereum&vs_currencies=usd"
        "The server that returns the price of ETH, for the value of trades: a URL that answers like CoinGecko's \
         `simple/price`. Path and query are shown only with --reveal. `none` turns it off: trades that give or get ETH then \
         need your approval.";
    RegistryUrl "registry.url" Journal Url "none"
        "The registry to which `mandate upload` sends an agent's mandate: the URL below which it serves `api/mandates`. \
         That server, and every reader of it, learns the mandate. Path and query are shown only with --reveal. Only \
         `mandate retire` calls it, too, where limits of the agent are published.";
    MaxValidity "payments.max_validity" Journal Seconds "3600"
        "The longest time a payment may stay valid without needing your approval.";
    VerifySettlements "payments.verify_settlements" File Switch "true"
        "Whether the chain is checked for payments that agents report as settled.";
    IdleLock "lock.idle" Journal SecondsOrOff "off"
        "Locks the open wallet after this time without a new journal entry, and when the machine wakes after more than a minute of sleep.";
    UnattendedDaily "unattended.daily" Journal UsdOrOff "off"
        "The most, in dollars, that all agents together may spend in a day without your approval while no person has opened \
         the wallet since the engine started (the boot service's unattended unlock). Above it requests wait for you; what you approve counts, too.";
    ConfirmTypingAbove "confirm_typing_above" Journal Usd "a tenth of the policy's largest payment, but at least 5; 5 for sends"
        "Approvals and sends of this amount or more ask you to type the amount. A send of an unknown value always \
         asks.";
    ConsoleNotify "console.notify" File Notices "all"
        "How a console announces a new request and the last minute of one: the terminal's bell and a \
         notice, the bell alone, or nothing.";
    ConsoleTime "console.time" File ConsoleTime "local"
        "Times of day in a console: in the zone of the machine on which it runs, or in UTC. A console names the \
         offset with every time. The output of commands, CSV files, records and the log always use UTC, marked by a Z.";
    ConsolePalette "console.palette" File ConsolePalette "auto"
        "The colours of a console: for the background that the terminal reports, for a dark or a light one, or none. \
         --color decides before this; NO_COLOR turns the colours off where this is auto.";
    Icons "icons" File Switch "false"
        "Whether a console draws the icons of known tokens next to balances, in a terminal that shows pictures (kitty's \
         protocol). The engine then fetches them, when a console draws them, from the servers that \
         the explorer names, which see this machine's address and which known tokens it holds.";
}

impl Key {
    /// Returns all settings, with the settings of a network once for each network.
    pub fn all() -> Vec<Key> {
        let mut keys = Vec::new();
        for row in ROWS {
            if row.key.contains("<id>") {
                keys.extend(NETWORKS.iter().filter_map(|known| Key::of(row.key, known.chain)));
            } else {
                keys.extend(Key::of(row.key, ChainId(0)));
            }
        }
        keys
    }

    /// Returns the setting's environment variable: `BURSAR_` and the key in capitals, with `_` for each dot.
    pub fn variable(self) -> String {
        format!("BURSAR_{}", self.to_string().to_ascii_uppercase().replace('.', "_"))
    }

    /// Returns the network of a setting that each network has.
    pub fn network(self) -> Option<ChainId> {
        match self {
            Key::NetworkEnabled(chain)
            | Key::NetworkRpc(chain)
            | Key::NetworkSubmitRpc(chain)
            | Key::NetworkExplorer(chain) => Some(chain),
            Key::Listen
            | Key::Rate
            | Key::Hosts
            | Key::LanBearer
            | Key::SignatureWindow
            | Key::AllowLan
            | Key::Autostart
            | Key::PricesUrl
            | Key::RegistryUrl
            | Key::MaxValidity
            | Key::VerifySettlements
            | Key::IdleLock
            | Key::UnattendedDaily
            | Key::ConfirmTypingAbove
            | Key::ConsoleNotify
            | Key::ConsoleTime
            | Key::ConsolePalette
            | Key::Icons => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network() {
            Some(chain) => f.write_str(&self.row().key.replace("<id>", &chain.to_string())),
            None => f.write_str(self.row().key),
        }
    }
}

/// Largest number of wrong characters for which a known key is suggested.
const TYPING_ERRORS_MAX: usize = 2;

impl FromStr for Key {
    type Err = String;

    /// Accepts a network's CAIP-2 id or x402 v1 name in place of its chain id.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((network, field)) =
            text.strip_prefix("networks.").and_then(|rest| rest.rsplit_once('.'))
        {
            let known = by_id_or_v1_name(network).ok_or_else(|| {
                let network = snippet(network);
                format!("{network} is not a network Bursar knows: see `network list`")
            })?;
            if let Some(key) = Key::of(&format!("networks.<id>.{field}"), known.chain) {
                return Ok(key);
            }
        } else if let Some(key) = Key::of(text, ChainId(0)) {
            return Ok(key);
        }
        let typed = match text.strip_prefix("networks.").and_then(|rest| rest.rsplit_once('.')) {
            Some((_network, field)) => format!("networks.<id>.{field}"),
            None => text.to_owned(),
        };
        let errors = |key: &str| match key.rsplit_once('.') {
            // The name without its section.
            Some((_section, name)) if name == typed => 0,
            _other => distance(&typed, key),
        };
        let near = ROWS.iter().map(|row| (errors(row.key), row.key)).min();
        let near = near.filter(|(errors, _key)| *errors <= TYPING_ERRORS_MAX);
        let near = near.map_or(String::new(), |(_errors, key)| format!("; did you mean {key}?"));
        Err(format!("{} is not a setting{near}: see `config list`", snippet(text)))
    }
}

impl TryFrom<String> for Key {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.to_string()
    }
}

/// Returns the edit distance of two texts (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut next = vec![line.saturating_add(1)];
        for ((b, above), diagonal) in to.chars().zip(row.iter().skip(1)).zip(&row) {
            let left = next.last().copied().unwrap_or(0);
            let replaced = diagonal.saturating_add(usize::from(a != b));
            next.push(replaced.min(left.saturating_add(1)).min(above.saturating_add(1)));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// Generates `docs/settings.md`.
pub fn manual() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         `bursar config list` shows every setting, its value and where that comes from; `bursar config set` \
         changes one.\n\n\
         An argument overrides the environment, which overrides `settings.toml` in the data folder, which overrides\n\
         the default. A setting that can weaken a protection is stored in the journal only, and is an error elsewhere. For\n\
         `server.rate_per_minute`, that applies only to the value 0.\n\
         `<id>` is a chain id, as in `networks.1.rpc`; in the environment, `BURSAR_NETWORKS_1_RPC`.\n\n\
         | key | values | default | stored in | variable |\n|---|---|---|---|---|\n",
    );
    for row in ROWS {
        let variable = format!("BURSAR_{}", row.key.to_ascii_uppercase().replace('.', "_"));
        let (storage, variable) = match row.storage {
            Storage::File => ("`settings.toml`", format!("`{variable}`")),
            Storage::Journal => ("the journal", "none".to_owned()),
        };
        text.push_str(&format!(
            "| `{}` | {} | {} | {storage} | {variable} |\n",
            row.key,
            row.kind.accepted_values(),
            row.default
        ));
    }
    for row in ROWS {
        text.push_str(&format!("\n`{}`: {}\n", row.key, row.help));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_repeated_in_short() {
        let long = "x\u{1b}".repeat(50_000);
        for text in [long.clone(), format!("networks.{long}.rpc")] {
            let why = text.parse::<Key>().unwrap_err();
            assert!(why.len() < 2_000 && !why.contains('\u{1b}'), "{} bytes", why.len());
        }
    }

    #[test]
    fn only_a_typing_error_gets_a_suggestion() {
        let why = |text: &str| text.parse::<Key>().unwrap_err();
        assert!(why("lock.idel").contains("did you mean lock.idle?"), "{}", why("lock.idel"));
        assert!(why("consle.palette").contains("did you mean console.palette?"));
        for text in ["nosuch.key", "lock", ""] {
            assert!(!why(text).contains("did you mean"), "{}", why(text));
        }
    }

    #[test]
    fn every_setting_key_parses_from_its_own_text() {
        let all = Key::all();
        assert_eq!(all.len(), 18 + 4 * NETWORKS.len());
        for key in all {
            assert_eq!(key.to_string().parse(), Ok(key));
            assert_eq!(ROWS.iter().filter(|row| **row == key.row()).count(), 1);
        }
        assert_eq!(
            "networks.base.rpc".parse(),
            Ok(Key::NetworkRpc(by_id_or_v1_name("base").unwrap().chain))
        );
        assert_eq!("server.listen".parse::<Key>().unwrap().variable(), "BURSAR_SERVER_LISTEN");
    }

    #[test]
    fn a_misspelled_key_error_suggests_the_nearest_key() {
        for (text, word) in [
            ("server.listn", "server.listen"),
            ("rate_per_minute", "server.rate_per_minute"),
            ("networks.base.rcp", "networks.<id>.rpc"),
            ("networks.nowhere.rpc", "nowhere"),
            ("", "not a setting"),
        ] {
            let error = text.parse::<Key>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
