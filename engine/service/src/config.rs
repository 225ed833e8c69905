//! Settings: built-in default < `settings.toml` < environment < argument. What loosens security is not
//! here: it lives in the journal, where an edit of a file cannot reach it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::RATE_PER_MINUTE;
use bursar_core::networks::{ChainId, NETWORKS, by_text};
use serde::Deserialize;
use url::Url;

/// Everything that can be set without loosening anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the agent server listens; loopback only.
    pub listen: SocketAddr,
    pub rate_per_minute: u32,
    /// Start the agent server with the engine.
    pub autostart: bool,
    /// Look payments up on the chain that their agents report as settled.
    pub verify_settlements: bool,
    /// Endpoints of each network, in the order in which they are tried.
    pub rpc: BTreeMap<ChainId, Vec<Url>>,
    /// Explorers; none unless set: the public ones want keys or browsers.
    pub explorer: BTreeMap<ChainId, Url>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    server: ServerTable,
    payments: PaymentsTable,
    networks: BTreeMap<String, NetworkTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerTable {
    listen: Option<String>,
    rate_per_minute: Option<u32>,
    autostart: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PaymentsTable {
    verify_settlements: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetworkTable {
    rpc: Option<Vec<String>>,
    explorer: Option<String>,
}

impl Config {
    /// Reads `settings.toml`, if there is one, and the environment. `listen` is the argument.
    pub fn load(
        file: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        listen: Option<&str>,
    ) -> Result<Self, Fault> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(wrong(file, &error)),
        };
        let table: File = toml::from_str(&text).map_err(|error| wrong(file, &error))?;
        let mut config = Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9402)),
            rate_per_minute: RATE_PER_MINUTE,
            autostart: true,
            verify_settlements: true,
            rpc: BTreeMap::new(),
            explorer: BTreeMap::new(),
        };
        for row in NETWORKS {
            let urls: Vec<Url> = row.rpc.iter().filter_map(|url| url.parse().ok()).collect();
            config.rpc.insert(row.chain, urls);
        }
        config.apply_file(&table).map_err(|error| wrong(file, &error))?;
        config.apply_environment(environment)?;
        if let Some(listen) = listen {
            config.listen = loopback(listen).map_err(|why| argument("--listen", &why))?;
        }
        Ok(config)
    }

    fn apply_file(&mut self, file: &File) -> Result<(), String> {
        if let Some(listen) = &file.server.listen {
            self.listen = loopback(listen).map_err(|why| format!("server.listen: {why}"))?;
        }
        if let Some(rate) = file.server.rate_per_minute {
            self.rate_per_minute =
                limited(rate).map_err(|why| format!("server.rate_per_minute: {why}"))?;
        }
        self.autostart = file.server.autostart.unwrap_or(self.autostart);
        self.verify_settlements =
            file.payments.verify_settlements.unwrap_or(self.verify_settlements);
        for (name, table) in &file.networks {
            let row = by_text(name)
                .ok_or_else(|| format!("networks.{name} is not a network Bursar knows"))?;
            if let Some(rpc) = &table.rpc {
                let urls = urls(rpc.iter().map(String::as_str));
                let urls = urls.map_err(|why| format!("networks.{name}.rpc: {why}"))?;
                self.rpc.insert(row.chain, urls);
            }
            if let Some(explorer) = &table.explorer {
                let url = url(explorer);
                let url = url.map_err(|why| format!("networks.{name}.explorer: {why}"))?;
                self.explorer.insert(row.chain, url);
            }
        }
        Ok(())
    }

    fn apply_environment(&mut self, read: &dyn Fn(&str) -> Option<String>) -> Result<(), Fault> {
        if let Some(listen) = read("BURSAR_SERVER_LISTEN") {
            self.listen =
                loopback(&listen).map_err(|why| argument("BURSAR_SERVER_LISTEN", &why))?;
        }
        let rate = "BURSAR_SERVER_RATE_PER_MINUTE";
        if let Some(text) = read(rate) {
            let number =
                text.parse().map_err(|_bad| argument(rate, "it must be a whole number"))?;
            self.rate_per_minute = limited(number).map_err(|why| argument(rate, &why))?;
        }
        for (name, field) in [
            ("BURSAR_SERVER_AUTOSTART", &mut self.autostart),
            ("BURSAR_PAYMENTS_VERIFY_SETTLEMENTS", &mut self.verify_settlements),
        ] {
            match read(name).as_deref() {
                None => {}
                Some("true") => *field = true,
                Some("false") => *field = false,
                Some(_other) => return Err(argument(name, "write true or false")),
            }
        }
        for row in NETWORKS {
            let name = format!("BURSAR_NETWORKS_{}_RPC", row.chain);
            if let Some(text) = read(&name) {
                let list = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                self.rpc.insert(row.chain, urls(list).map_err(|why| argument(&name, &why))?);
            }
            let name = format!("BURSAR_NETWORKS_{}_EXPLORER", row.chain);
            if let Some(text) = read(&name).filter(|text| !text.trim().is_empty()) {
                let url = url(text.trim()).map_err(|why| argument(&name, &why))?;
                self.explorer.insert(row.chain, url);
            }
        }
        Ok(())
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_bad| format!("{text} is not an address like 127.0.0.1:9402"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!("{text} is not a loopback address: the server is for this machine only"))
    }
}

fn limited(rate: u32) -> Result<u32, String> {
    match rate {
        0 => {
            Err("0 would switch the limit off, which loosens security and is not for a file"
                .to_owned())
        }
        rate => Ok(rate),
    }
}

fn urls<'a>(list: impl Iterator<Item = &'a str>) -> Result<Vec<Url>, String> {
    list.map(url).collect()
}

/// An endpoint's path and query are its key: errors never repeat the text.
fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("an endpoint is no URL: {error}"))
}

fn wrong(file: &Path, why: &dyn std::fmt::Display) -> Fault {
    let why = why.to_string();
    Fault::because(
        Code::BadInput,
        format!(
            "{} cannot be used: {}. Correct it, or move it away.",
            file.display(),
            why.trim_end()
        ),
    )
}

fn argument(name: &str, why: &str) -> Fault {
    Fault::because(Code::BadInput, format!("{name}: {why}."))
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
    fn an_explorer_is_asked_only_where_one_is_set() {
        let base = ChainId(8453);
        let host = |config: Config| config.explorer.get(&base).and_then(Url::port);
        let file = "[networks.base]\nexplorer = \"http://127.0.0.1:9/api/v2\"";
        let env = [("BURSAR_NETWORKS_8453_EXPLORER", "http://127.0.0.1:8/api/v2?apikey=K")];
        assert_eq!(load("", &[], None).unwrap().explorer.len(), 0);
        assert_eq!(host(load(file, &[], None).unwrap()), Some(9));
        assert_eq!(host(load(file, &env, None).unwrap()), Some(8));
    }

    #[test]
    fn what_is_wrong_is_named_with_the_way_out() {
        for (text, word) in [
            ("[server]\nlistn = 1", "listn"),
            ("[server]\nlisten = \"0.0.0.0:9402\"", "loopback"),
            ("[server]\nrate_per_minute = 0", "loosens"),
            ("[networks.nowhere]\nrpc = []", "nowhere"),
            ("[networks.base]\nenabled = true", "enabled"),
            ("[networks.base]\nrpc = [\"nonsense key=SECRET\"]", "URL"),
            ("[networks.base]\nexplorer = \"nonsense key=SECRET\"", "URL"),
            ("not toml", "settings.toml"),
        ] {
            let fault = load(text, &[], None).unwrap_err();
            assert!(fault.message.contains(word), "{text}: {fault}");
            assert!(fault.message.contains("settings.toml"), "{fault}");
            assert!(!fault.message.contains("SECRET") || text == "x", "{fault}");
        }
    }
}
