//! Settings: built-in default < `settings.toml` < environment < argument. What loosens security is not
//! here: it lives in the journal, where an edit of a file cannot reach it.

mod edit;
mod file;
mod live;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{RATE_PER_MINUTE, SIGNATURE_WINDOW_RANGE_S, SIGNATURE_WINDOW_S};
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_core::settings::keys::{Home, Key};
use bursar_core::settings::{ConsoleTime, Notices};
use url::Url;

pub(crate) use edit::Value;
pub(crate) use live::Live;

/// Reads a variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Everything that can be set without loosening anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the agent server listens; loopback only.
    pub listen: SocketAddr,
    pub rate_per_minute: u32,
    /// How far a signed timestamp may be from our clock, in seconds.
    pub signature_window_s: u64,
    /// Start the agent server with the engine.
    pub autostart: bool,
    /// Look payments up on the chain that their agents report as settled.
    pub verify_settlements: bool,
    /// What consoles do about a new request.
    pub notices: Notices,
    /// In which zone consoles show times of day.
    pub console_time: ConsoleTime,
    /// Endpoints of each network, in the order in which they are tried.
    pub rpc: BTreeMap<ChainId, Vec<Url>>,
    /// Where transactions are sent instead, in the same order; a network without such endpoints is missing here.
    pub submit_rpc: BTreeMap<ChainId, Vec<Url>>,
    /// Block explorers; a network without one, or with `none`, is missing here.
    pub explorer: BTreeMap<ChainId, Url>,
    /// Where each value comes from that is not the default.
    sources: BTreeMap<Key, Source>,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    Environment,
    Argument,
}

impl Source {
    pub fn text(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File => "file",
            Source::Environment => "environment",
            Source::Argument => "argument",
        }
    }
}

/// Which of the sources is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wrong {
    File(String),
    Outside(String),
}

impl Config {
    /// Reads `settings.toml`, if there is one, and the environment. `listen` is the argument.
    pub fn load(
        file: &Path,
        environment: Environment<'_>,
        listen: Option<&str>,
    ) -> Result<Self, Fault> {
        let text = live::text_of(file)?;
        Self::read(&text, environment, listen).map_err(|wrong| match wrong {
            Wrong::File(why) => unusable(file, &why),
            Wrong::Outside(why) => Fault::because(Code::BadInput, why),
        })
    }

    /// The same of a file's text.
    pub(crate) fn read(
        text: &str,
        environment: Environment<'_>,
        listen: Option<&str>,
    ) -> Result<Self, Wrong> {
        let mut config = Self::defaults();
        file::apply(&mut config, text).map_err(Wrong::File)?;
        config.apply_environment(environment).map_err(Wrong::Outside)?;
        if let Some(listen) = listen {
            let parsed = loopback(listen);
            config.listen = parsed.map_err(|why| Wrong::Outside(format!("--listen: {why}.")))?;
            config.sources.insert(Key::Listen, Source::Argument);
        }
        Ok(config)
    }

    fn defaults() -> Self {
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
            rpc: NETWORKS.iter().map(endpoints).collect(),
            submit_rpc: BTreeMap::new(),
            explorer: NETWORKS.iter().filter_map(explorer).collect(),
            sources: BTreeMap::new(),
        }
    }

    pub fn source(&self, key: Key) -> Source {
        self.sources.get(&key).copied().unwrap_or(Source::Default)
    }

    fn apply_environment(&mut self, read: Environment<'_>) -> Result<(), String> {
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
        if key.row().home == Home::Journal {
            return Err(journal_only(key));
        }
        match key {
            Key::Listen => self.listen = loopback(text)?,
            Key::Rate => {
                let number = text.parse().map_err(|_bad| "it must be a whole number")?;
                self.rate_per_minute = limited(number)?;
            }
            Key::SignatureWindow => {
                let seconds = text.parse().map_err(|_bad| "it must be a whole number")?;
                self.signature_window_s = window(seconds)?;
            }
            Key::Autostart => self.autostart = switch(text)?,
            Key::VerifySettlements => self.verify_settlements = switch(text)?,
            Key::ConsoleNotify => self.notices = notices(text)?,
            Key::ConsoleTime => self.console_time = console_time(text)?,
            Key::NetworkRpc(chain) => {
                self.rpc.insert(chain, urls(listed(text))?);
            }
            Key::NetworkSubmitRpc(chain) => {
                let list = if text == "none" { Vec::new() } else { urls(listed(text))? };
                self.set_submit_rpc(chain, list);
            }
            Key::NetworkExplorer(chain) => {
                let explorer = explorer(text)?;
                self.set_explorer(chain, explorer);
            }
            Key::Hosts
            | Key::LanBearer
            | Key::AllowLan
            | Key::NetworkEnabled(_)
            | Key::MaxValidity
            | Key::IdleLock
            | Key::ConfirmTypingAbove => return Err(journal_only(key)),
        }
        Ok(())
    }

    /// An empty list is none: transactions go where everything else is asked.
    fn set_submit_rpc(&mut self, chain: ChainId, urls: Vec<Url>) {
        if urls.is_empty() {
            self.submit_rpc.remove(&chain);
        } else {
            self.submit_rpc.insert(chain, urls);
        }
    }

    fn set_explorer(&mut self, chain: ChainId, explorer: Option<Url>) {
        match explorer {
            Some(url) => drop(self.explorer.insert(chain, url)),
            None => drop(self.explorer.remove(&chain)),
        }
    }
}

fn journal_only(key: Key) -> String {
    format!("it can weaken a protection: set it with `bursar config set {key} <value>` only")
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_bad| "write true or false".to_owned())
}

fn notices(text: &str) -> Result<Notices, String> {
    Notices::parse(text).ok_or_else(|| "write all, bell or none".to_owned())
}

fn console_time(text: &str) -> Result<ConsoleTime, String> {
    ConsoleTime::parse(text).ok_or_else(|| "write local or utc".to_owned())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_bad| format!("{text} is not an address like 127.0.0.1:9402"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "{text} is not a loopback address; to serve other machines, use `bursar server start --allow-lan`"
        ))
    }
}

fn limited(rate: u32) -> Result<u32, String> {
    match rate {
        0 => Err("0 turns a protection off: set it with `bursar config set server.rate_per_minute 0` only"
            .to_owned()),
        rate => Ok(rate),
    }
}

fn window(seconds: u64) -> Result<u64, String> {
    let (least, most) = (SIGNATURE_WINDOW_RANGE_S.start(), SIGNATURE_WINDOW_RANGE_S.end());
    if SIGNATURE_WINDOW_RANGE_S.contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("it must be {least} to {most} seconds"))
    }
}

fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn urls<'a>(list: impl Iterator<Item = &'a str>) -> Result<Vec<Url>, String> {
    list.map(url).collect()
}

/// An endpoint's path and query are its key: errors never repeat the text.
fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("an endpoint is not a valid URL: {error}"))
}

/// `none` turns the default off.
fn explorer(text: &str) -> Result<Option<Url>, String> {
    if text == "none" {
        return Ok(None);
    }
    let url = Url::parse(text).map_err(|error| format!("it is not a valid URL: {error}"))?;
    if matches!(url.scheme(), "https" | "http") {
        Ok(Some(url))
    } else {
        Err("it must begin with https://, or be none".to_owned())
    }
}

fn unusable(file: &Path, why: &str) -> Fault {
    Fault::because(
        Code::BadInput,
        format!(
            "{} cannot be used: {}. Correct the file, or move it away.",
            file.display(),
            why.trim_end().trim_end_matches('.')
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)], listen: Option<&str>) -> Result<Config, Fault> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, text).unwrap();
        let read = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load(&file, &read, listen)
    }

    #[test]
    fn argument_wins_over_environment_over_file_over_default() {
        let port = |config: Config| config.listen.port();
        let file = "[server]\nlisten = \"127.0.0.1:1111\"";
        let env = [("BURSAR_SERVER_LISTEN", "127.0.0.1:2222")];
        assert_eq!(port(load("", &[], None).unwrap()), 9402);
        assert_eq!(port(load(file, &[], None).unwrap()), 1111);
        assert_eq!(port(load(file, &env, None).unwrap()), 2222);
        assert_eq!(port(load(file, &env, Some("[::1]:3333")).unwrap()), 3333);
    }

    #[test]
    fn endpoints_are_a_list_in_order() {
        let env = [("BURSAR_NETWORKS_8453_RPC", "http://127.0.0.1:1, http://127.0.0.1:2")];
        let config = load("[networks.base]\nrpc = [\"http://127.0.0.1:9\"]", &env, None).unwrap();
        let ports: Vec<_> = config.rpc[&ChainId(8453)].iter().map(|url| url.port()).collect();
        assert_eq!(ports, [Some(1), Some(2)]);
    }

    #[test]
    fn transactions_go_elsewhere_only_where_a_list_is_set() {
        let ports = |config: Config| -> Option<Vec<Option<u16>>> {
            let urls = config.submit_rpc.get(&ChainId(8453))?;
            Some(urls.iter().map(Url::port).collect())
        };
        let file = "[networks.base]\nsubmit_rpc = [\"http://127.0.0.1:9\", \"http://127.0.0.1:8\"]";
        let env = |value| [("BURSAR_NETWORKS_8453_SUBMIT_RPC", value)];
        assert_eq!(load("", &[], None).unwrap().submit_rpc, BTreeMap::new());
        assert_eq!(ports(load(file, &[], None).unwrap()), Some(vec![Some(9), Some(8)]));
        let other = env("http://127.0.0.1:7, http://127.0.0.1:6");
        assert_eq!(ports(load(file, &other, None).unwrap()), Some(vec![Some(7), Some(6)]));
        for none in ["none", ""] {
            assert_eq!(ports(load(file, &env(none), None).unwrap()), None, "{none}");
        }
        let none = "[networks.base]\nsubmit_rpc = []";
        let config = load(none, &[], None).unwrap();
        assert_eq!(config.source(Key::NetworkSubmitRpc(ChainId(8453))), Source::File);
        assert_eq!(ports(config), None);
    }

    #[test]
    fn an_explorer_is_asked_where_one_is_set_or_is_the_default() {
        let base = ChainId(8453);
        let host = |config: Config| config.explorer.get(&base).and_then(Url::port);
        let file = "[networks.base]\nexplorer = \"http://127.0.0.1:9/api/v2\"";
        let env = [("BURSAR_NETWORKS_8453_EXPLORER", "http://127.0.0.1:8/api/v2?apikey=K")];
        let usual = load("", &[], None).unwrap();
        let usual: Vec<_> = usual.explorer.iter().map(|(id, url)| (*id, url.as_str())).collect();
        assert_eq!(usual, [(base, "https://base.blockscout.com/api/v2")]);
        assert_eq!(host(load(file, &[], None).unwrap()), Some(9));
        assert_eq!(host(load(file, &env, None).unwrap()), Some(8));
    }

    #[test]
    fn none_turns_an_explorer_off_wherever_it_is_written() {
        let (file, set) = ("[networks.base]\nexplorer = \"none\"", "http://127.0.0.1:9/api/v2");
        let env = |value| [("BURSAR_NETWORKS_8453_EXPLORER", value)];
        assert_eq!(load(file, &[], None).unwrap().explorer, BTreeMap::new());
        assert_eq!(load("", &env("none"), None).unwrap().explorer, BTreeMap::new());
        assert_eq!(load(file, &env(set), None).unwrap().explorer.len(), 1);
        let file = format!("[networks.base]\nexplorer = \"{set}\"");
        assert_eq!(load(&file, &env("none"), None).unwrap().explorer, BTreeMap::new());
    }

    #[test]
    fn what_is_wrong_is_named_with_the_way_out() {
        for (text, word) in [
            ("[server]\nlistn = 1", "listn"),
            ("[server]\nlisten = \"0.0.0.0:9402\"", "loopback"),
            ("[server]\nrate_per_minute = 0", "turns a protection off"),
            ("[server]\nsignature_window_s = 59", "60 to 900"),
            ("[server]\nsignature_window_s = 901", "60 to 900"),
            ("[networks.nowhere]\nrpc = []", "nowhere"),
            ("[networks.base]\nenabled = true", "config set networks.8453.enabled"),
            ("[server]\nhosts = [\"a\"]", "config set server.hosts"),
            ("[server]\nlan_bearer = \"refuse\"", "config set server.lan_bearer"),
            ("[server]\nallow_lan = true", "config set server.allow_lan"),
            ("[payments]\nmax_validity = 60", "config set payments.max_validity"),
            ("[lock]\nidle = 600", "config set lock.idle"),
            ("confirm_typing_above = \"1\"", "config set confirm_typing_above"),
            ("[console]\ntime = \"Europe/Berlin\"", "local or utc"),
            ("[networks.base]\nexplorer = \"ftp://x\"", "https"),
            ("[networks.base]\nrpc = []\n[networks.8453]\nrpc = []", "the same network"),
            ("[networks.base]\nrpc = [\"nonsense key=SECRET\"]", "URL"),
            ("[networks.base]\nexplorer = \"nonsense key=SECRET\"", "URL"),
            ("[networks.base]\nsubmit_rpc = [\"nonsense key=SECRET\"]", "URL"),
            ("not toml", "settings.toml"),
        ] {
            let fault = load(text, &[], None).unwrap_err();
            assert!(fault.message.contains(word), "{text}: {fault}");
            assert!(fault.message.contains("settings.toml"), "{fault}");
            assert!(!fault.message.contains("SECRET") || text == "x", "{fault}");
        }
    }

    #[test]
    fn what_loosens_is_no_variable_either() {
        for name in [
            "BURSAR_SERVER_HOSTS",
            "BURSAR_SERVER_LAN_BEARER",
            "BURSAR_NETWORKS_8453_ENABLED",
            "BURSAR_PAYMENTS_MAX_VALIDITY",
            "BURSAR_CONFIRM_TYPING_ABOVE",
            "BURSAR_LOCK_IDLE",
        ] {
            let fault = load("", &[(name, "1")], None).unwrap_err();
            assert!(fault.message.contains(name), "{fault}");
            assert!(fault.message.contains("bursar config set "), "{fault}");
        }
        let fault = load("", &[("BURSAR_SERVER_RATE_PER_MINUTE", "0")], None).unwrap_err();
        assert!(fault.message.contains("config set server.rate_per_minute 0"), "{fault}");
    }

    #[test]
    fn every_value_knows_where_it_comes_from() {
        let file =
            "[server]\nautostart = false\nlisten = \"127.0.0.1:1\"\n[networks.base]\nrpc = []";
        let env = [("BURSAR_PAYMENTS_VERIFY_SETTLEMENTS", "false")];
        let config = load(file, &env, Some("127.0.0.1:2")).unwrap();
        let base = ChainId(8453);
        for (key, source) in [
            (Key::Autostart, Source::File),
            (Key::Listen, Source::Argument),
            (Key::VerifySettlements, Source::Environment),
            (Key::NetworkRpc(base), Source::File),
            (Key::NetworkRpc(ChainId(1)), Source::Default),
            (Key::Rate, Source::Default),
        ] {
            assert_eq!(config.source(key), source, "{key}");
        }
    }

    #[test]
    fn the_table_tells_the_real_defaults() {
        let config = Config::defaults();
        assert_eq!(Key::Listen.row().default, config.listen.to_string());
        assert_eq!(Key::Rate.row().default, config.rate_per_minute.to_string());
        assert_eq!(Key::SignatureWindow.row().default, config.signature_window_s.to_string());
        assert_eq!(Key::Autostart.row().default, config.autostart.to_string());
        assert_eq!(Key::VerifySettlements.row().default, config.verify_settlements.to_string());
        assert_eq!(Key::ConsoleNotify.row().default, config.notices.text());
        assert_eq!(Key::ConsoleTime.row().default, config.console_time.text());
        let explorers: Vec<&str> = config.explorer.values().map(Url::as_str).collect();
        let told = Key::NetworkExplorer(ChainId(8453)).row().default;
        assert_eq!(told, format!("{} on Base, none elsewhere", explorers.join(", ")));
        let settings = bursar_core::settings::Settings::default();
        assert_eq!(Key::MaxValidity.row().default, settings.max_validity_s.to_string());
        assert_eq!(Key::LanBearer.row().default, settings.lan_bearer.text());
    }
}
