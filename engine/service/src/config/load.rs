//! Loads the settings from their sources.

use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::settings::keys::Key;
use bursar_core::text::{excerpt, snippet};

use super::effective::{Config, Environment, Source};
use super::file;
use super::values::parse_loopback;

/// Largest settings file that is read; real ones are much smaller.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a reason that is shown, in characters: enough for a list of all keys.
const REASON_CHARS_MAX: usize = 1_000;

/// The source that is invalid, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingsError {
    File(String),
    /// The environment or the argument, which override the file.
    Override(String),
}

impl Config {
    /// Reads `settings.toml`, if it exists, and the environment.
    ///
    /// `listen` is the command-line argument.
    ///
    /// # Errors
    /// A source is invalid or the file cannot be read. The message names the key and the remedy.
    pub fn load(
        file: &Path,
        environment: Environment<'_>,
        listen: Option<&str>,
    ) -> Result<Self, Fault> {
        let text = text_of(file)?;
        Self::read(&text, environment, listen).map_err(|wrong| match wrong {
            SettingsError::File(why) => unusable_file(file, &why),
            SettingsError::Override(why) => Fault::because(Code::BadInput, why),
        })
    }

    /// Like [`Config::load`], with the text of the file.
    pub(crate) fn read(
        text: &str,
        environment: Environment<'_>,
        listen: Option<&str>,
    ) -> Result<Self, SettingsError> {
        let mut config = Self::defaults();
        file::apply(&mut config, text).map_err(SettingsError::File)?;
        config.apply_environment(environment).map_err(SettingsError::Override)?;
        if let Some(listen) = listen {
            let parsed = parse_loopback(listen);
            config.listen =
                parsed.map_err(|why| SettingsError::Override(format!("--listen: {why}.")))?;
            config.sources.insert(Key::Listen, Source::Argument);
        }
        Ok(config)
    }
}

/// Returns the text of the file, or an empty text if there is no file.
pub(super) fn text_of(file: &Path) -> Result<String, Fault> {
    match bursar_files::read_text(file, SETTINGS_BYTES_MAX) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(unusable_file(file, &error.to_string())),
    }
}

/// Returns the error for a settings file that cannot be used.
pub(super) fn unusable_file(file: &Path, why: &str) -> Fault {
    Fault::because(
        Code::BadInput,
        format!(
            "{} cannot be used: {}. Correct the file, or move it away.",
            snippet(&file.to_string_lossy()),
            excerpt(why.trim_end().trim_end_matches('.'), REASON_CHARS_MAX)
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bursar_core::networks::ChainId;
    use url::Url;

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

    /// The path of an endpoint often contains an API key.
    #[test]
    fn an_error_of_the_file_names_the_line_and_repeats_nothing_of_it() {
        for (line, told) in [
            ("rpc = [\"https://node.example/SECRET", "line 2 (rpc): "),
            ("rpc = [\"https://node.example/SECRET\" \"https://b\"]", "line 2 (rpc): "),
            ("rpc = \"https://node.example/SECRET, expected SECRET\"", "expected a sequence"),
            ("rpc = [\"node/SECRET\"]", "not a valid URL"),
            ("enabled = true\nrpc = https://node.example/SECRET", "line 3 (rpc): "),
            ("explorer = [\"https://node.example/SECRET\"]", "expected a string"),
        ] {
            let text = format!("[networks.base]\n{line}\n");
            let fault = load(&text, &[], None).expect_err(line);
            let shown = format!("{fault:?} {}", fault.message);
            assert!(shown.contains(told) && !shown.contains("SECRET"), "{line}: {shown}");
            let edited = crate::config::edit::with_setting(&text, Key::Autostart, None);
            assert!(!format!("{edited:?}").contains("SECRET") || edited.is_ok(), "{edited:?}");
        }
    }

    #[test]
    fn rpc_endpoints_keep_their_order() {
        let env = [("BURSAR_NETWORKS_8453_RPC", "http://127.0.0.1:1, http://127.0.0.1:2")];
        let config = load("[networks.base]\nrpc = [\"http://127.0.0.1:9\"]", &env, None).unwrap();
        let ports: Vec<_> = config.rpc[&ChainId(8453)].iter().map(|url| url.port()).collect();
        assert_eq!(ports, [Some(1), Some(2)]);
    }

    #[test]
    fn submit_rpc_applies_only_if_it_is_set() {
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
    fn an_explorer_setting_replaces_the_default() {
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
    fn a_price_api_is_replaced_or_turned_off() {
        let url = "https://prices.example/eth";
        let file = format!("[prices]\nurl = \"{url}\"");
        let prices = |config: Config| config.prices.map(|url| url.to_string());
        assert_eq!(prices(load(&file, &[], None).unwrap()).as_deref(), Some(url));
        let off = [("BURSAR_PRICES_URL", "none")];
        assert_eq!(prices(load(&file, &off, None).unwrap()), None);
        let fault = load("[prices]\nurl = \"ftp://x\"", &[], None).unwrap_err();
        assert!(fault.message.contains("prices.url"), "{fault}");
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
    fn every_settings_error_names_the_key_and_the_remedy() {
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
            ("[registry]\nurl = \"https://r.test\"", "config set registry.url"),
            ("[lock]\nidle = 600", "config set lock.idle"),
            ("[unattended]\ndaily = 5", "config set unattended.daily"),
            ("confirm_typing_above = \"1\"", "config set confirm_typing_above"),
            ("[console]\ntime = \"Europe/Berlin\"", "local or utc"),
            ("[console]\npalette = \"solarized\"", "auto, dark, light or mono"),
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
    fn journal_settings_are_rejected_in_the_environment() {
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
            assert!(fault.message.contains("config set "), "{fault}");
        }
        let fault = load("", &[("BURSAR_SERVER_RATE_PER_MINUTE", "0")], None).unwrap_err();
        assert!(fault.message.contains("config set server.rate_per_minute 0"), "{fault}");
    }

    #[test]
    fn every_setting_reports_its_source() {
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
    fn settings_table_states_the_real_defaults() {
        let config = Config::defaults();
        assert_eq!(Key::Listen.row().default, config.listen.to_string());
        assert_eq!(Key::Rate.row().default, config.rate_per_minute.to_string());
        assert_eq!(Key::SignatureWindow.row().default, config.signature_window_s.to_string());
        assert_eq!(Key::Autostart.row().default, config.autostart.to_string());
        assert_eq!(Key::VerifySettlements.row().default, config.verify_settlements.to_string());
        assert_eq!(Key::ConsoleNotify.row().default, config.notices.text());
        assert_eq!(Key::ConsoleTime.row().default, config.console_time.text());
        assert_eq!(Key::ConsolePalette.row().default, config.console_palette.text());
        let explorers: Vec<&str> = config.explorer.values().map(Url::as_str).collect();
        let told = Key::NetworkExplorer(ChainId(8453)).row().default;
        assert_eq!(told, format!("{} on Base, none elsewhere", explorers.join(", ")));
        let prices = config.prices.as_ref().map(Url::as_str);
        assert_eq!(Some(Key::PricesUrl.row().default), prices);
        let settings = bursar_core::settings::Settings::default();
        assert_eq!(Key::MaxValidity.row().default, settings.max_validity_s.to_string());
        assert_eq!(Key::LanBearer.row().default, settings.lan_bearer.text());
    }
}
