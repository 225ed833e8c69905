//! The effective settings: defaults, replaced by values of the file, the environment or an argument.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bursar_chain::price_http::DEFAULT_URL;
use bursar_core::limits::{RATE_PER_MINUTE, SIGNATURE_WINDOW_S};
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_core::settings::keys::{Key, Storage};
use bursar_core::settings::{ConsolePalette, ConsoleTime, Notices};
use url::Url;

use super::values::{
    check_rate, check_window, journal_only, parse_console_palette, parse_console_time,
    parse_loopback, parse_notices, parse_optional_url, parse_switch, parse_urls, split_list,
};

/// Reads an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// All settings that are not in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address of the agent server; loopback only.
    pub listen: SocketAddr,
    pub rate_per_minute: u32,
    /// The allowed distance of a signed timestamp from our clock, in seconds.
    pub signature_window_s: u64,
    /// Whether the agent server starts with the engine.
    pub autostart: bool,
    /// Whether the engine verifies on the chain the payments that agents report as settled.
    pub verify_settlements: bool,
    /// How consoles announce a new request.
    pub notices: Notices,
    /// The time zone in which consoles show times of day.
    pub console_time: ConsoleTime,
    /// The colours of consoles.
    pub console_palette: ConsolePalette,
    /// Whether consoles draw icons.
    pub icons: bool,
    /// The endpoints of each network, in the order in which they are tried.
    pub rpc: BTreeMap<ChainId, Vec<Url>>,
    /// Separate endpoints for sending transactions, in the order in which they are tried.
    ///
    /// Networks without them have no entry.
    pub submit_rpc: BTreeMap<ChainId, Vec<Url>>,
    /// The block explorer of each network.
    ///
    /// A network without an explorer, or with the value `none`, has no entry.
    pub explorer: BTreeMap<ChainId, Url>,
    /// The price API; `None` turns it off.
    pub prices: Option<Url>,
    /// The sources of all values that are not defaults.
    pub(super) sources: BTreeMap<Key, Source>,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    Environment,
    Argument,
}

impl Source {
    /// Returns the name of the source, as shown to the operator.
    pub fn text(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File => "file",
            Source::Environment => "environment",
            Source::Argument => "argument",
        }
    }
}

impl Config {
    pub(super) fn defaults() -> Self {
        let endpoints = |row: &bursar_core::networks::Network| {
            (row.chain, row.rpc.iter().filter_map(|url| url.parse().ok()).collect())
        };
        let explorer =
            |row: &bursar_core::networks::Network| Some((row.chain, row.explorer?.parse().ok()?));
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9402)),
            rate_per_minute: RATE_PER_MINUTE,
            signature_window_s: SIGNATURE_WINDOW_S,
            autostart: true,
            verify_settlements: true,
            notices: Notices::default(),
            console_time: ConsoleTime::default(),
            console_palette: ConsolePalette::default(),
            icons: false,
            rpc: NETWORKS.iter().map(endpoints).collect(),
            submit_rpc: BTreeMap::new(),
            explorer: NETWORKS.iter().filter_map(explorer).collect(),
            prices: DEFAULT_URL.parse().ok(),
            sources: BTreeMap::new(),
        }
    }

    /// Returns the URLs of every server that an engine without settings connects to, sorted.
    pub fn default_counterparties() -> Vec<String> {
        let config = Self::defaults();
        let endpoints = config.rpc.values().flatten().chain(config.explorer.values());
        let mut urls: Vec<String> = endpoints.chain(&config.prices).map(Url::to_string).collect();
        urls.sort();
        urls
    }

    /// Returns the source of a key's value.
    pub fn source(&self, key: Key) -> Source {
        self.sources.get(&key).copied().unwrap_or(Source::Default)
    }

    pub(super) fn apply_environment(&mut self, read: Environment<'_>) -> Result<(), String> {
        for key in Key::all() {
            let name = key.variable();
            if let Some(text) = read(&name) {
                self.apply_variable(key, &text).map_err(|why| format!("{name}: {why}."))?;
                self.sources.insert(key, Source::Environment);
            }
        }
        Ok(())
    }

    fn apply_variable(&mut self, key: Key, text: &str) -> Result<(), String> {
        if key.row().storage == Storage::Journal {
            return Err(journal_only(key));
        }
        match key {
            Key::Listen => self.listen = parse_loopback(text)?,
            Key::Rate => {
                let number = text.parse().map_err(|_bad| "it must be a whole number")?;
                self.rate_per_minute = check_rate(number)?;
            }
            Key::SignatureWindow => {
                let seconds = text.parse().map_err(|_bad| "it must be a whole number")?;
                self.signature_window_s = check_window(seconds)?;
            }
            Key::Autostart => self.autostart = parse_switch(text)?,
            Key::VerifySettlements => self.verify_settlements = parse_switch(text)?,
            Key::ConsoleNotify => self.notices = parse_notices(text)?,
            Key::ConsoleTime => self.console_time = parse_console_time(text)?,
            Key::ConsolePalette => self.console_palette = parse_console_palette(text)?,
            Key::Icons => self.icons = parse_switch(text)?,
            Key::NetworkRpc(chain) => {
                self.rpc.insert(chain, parse_urls(split_list(text))?);
            }
            Key::NetworkSubmitRpc(chain) => {
                let list = if text == "none" { Vec::new() } else { parse_urls(split_list(text))? };
                self.set_submit_rpc(chain, list);
            }
            Key::NetworkExplorer(chain) => {
                let explorer = parse_optional_url(text)?;
                self.set_explorer(chain, explorer);
            }
            Key::PricesUrl => self.prices = parse_optional_url(text)?,
            Key::Hosts
            | Key::LanBearer
            | Key::AllowLan
            | Key::NetworkEnabled(_)
            | Key::RegistryUrl
            | Key::MaxValidity
            | Key::IdleLock
            | Key::UnattendedDaily
            | Key::ConfirmTypingAbove => return Err(journal_only(key)),
        }
        Ok(())
    }

    /// Sets the endpoints for sending transactions. An empty list removes them: transactions then go to the
    /// endpoints of `rpc`.
    pub(super) fn set_submit_rpc(&mut self, chain: ChainId, urls: Vec<Url>) {
        if urls.is_empty() {
            self.submit_rpc.remove(&chain);
        } else {
            self.submit_rpc.insert(chain, urls);
        }
    }

    pub(super) fn set_explorer(&mut self, chain: ChainId, explorer: Option<Url>) {
        match explorer {
            Some(url) => drop(self.explorer.insert(chain, url)),
            None => drop(self.explorer.remove(&chain)),
        }
    }
}
