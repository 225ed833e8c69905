//! Parses the values of `config set` by the kind of the key. The core or the settings file decides whether a value is
//! allowed.

use bursar_core::money::Usd;
use bursar_core::settings::keys::{Key, Kind};
use bursar_core::settings::{ConsoleTime, LanBearer, Notices, Setting, Settings};

use crate::config::Value;

/// A parsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given {
    Default,
    Text(String),
    Number(u32),
    Switch(bool),
    Off,
    List(Vec<String>),
    Bearer(LanBearer),
    Seconds(u64),
    Amount(Usd),
}

impl Given {
    pub(super) fn read(key: Key, words: &[String]) -> Result<Self, String> {
        let kind = key.row().kind;
        if words.len() == 1 && words.iter().any(|word| word == "default") {
            return Ok(Given::Default);
        }
        if kind == Kind::UrlsOrNone && words.len() == 1 && words.iter().any(|word| word == "none") {
            return Ok(Given::List(Vec::new()));
        }
        if matches!(kind, Kind::Hosts | Kind::Urls | Kind::UrlsOrNone) {
            let parts = words.iter().flat_map(|word| word.split(','));
            let parts = parts.map(str::trim).filter(|part| !part.is_empty());
            let lower = |part: &str| match kind {
                Kind::Hosts => part.to_ascii_lowercase(),
                _urls => part.to_owned(),
            };
            let mut list: Vec<String> = Vec::new();
            for part in parts.map(lower) {
                if !list.contains(&part) {
                    list.push(part);
                }
            }
            return Ok(Given::List(list));
        }
        let takes = || format!("it takes {}, or default", kind.takes());
        let [word] = words else { return Err(takes()) };
        match kind {
            Kind::Listen | Kind::Url | Kind::Hosts | Kind::Urls | Kind::UrlsOrNone => {
                Ok(Given::Text(word.clone()))
            }
            Kind::Count => word.parse().map(Given::Number).map_err(|_bad| takes()),
            Kind::Switch => word.parse().map(Given::Switch).map_err(|_bad| takes()),
            Kind::Seconds => word.parse().map(Given::Seconds).map_err(|_bad| takes()),
            Kind::SecondsOrOff if word == "off" => Ok(Given::Off),
            Kind::SecondsOrOff => word.parse().map(Given::Seconds).map_err(|_bad| takes()),
            Kind::Usd => Usd::parse(word).map(Given::Amount).map_err(|error| error.to_string()),
            Kind::Notices => match Notices::parse(word) {
                Some(notices) => Ok(Given::Text(notices.text().to_owned())),
                None => Err(takes()),
            },
            Kind::ConsoleTime => match ConsoleTime::parse(word) {
                Some(time) => Ok(Given::Text(time.text().to_owned())),
                None => Err(takes()),
            },
            Kind::WarnOrRefuse => match word.as_str() {
                "warn" => Ok(Given::Bearer(LanBearer::Warn)),
                "refuse" => Ok(Given::Bearer(LanBearer::Refuse)),
                _other => Err(takes()),
            },
        }
    }

    pub(super) fn switch(&self) -> Option<bool> {
        match self {
            Given::Switch(on) => Some(*on),
            _other => None,
        }
    }

    /// Returns the value for `settings.toml`. `None` removes the key from the file.
    pub(super) fn in_file(&self) -> Option<Value> {
        match self {
            Given::Text(text) => Some(Value::Text(text.clone())),
            Given::Number(number) => Some(Value::Number(*number)),
            Given::Switch(on) => Some(Value::Switch(*on)),
            Given::List(list) => Some(Value::List(list.clone())),
            Given::Default
            | Given::Off
            | Given::Bearer(_)
            | Given::Seconds(_)
            | Given::Amount(_) => None,
        }
    }

    /// Returns the setting for the journal, or `None` if the key is not stored there.
    pub(super) fn setting(&self, key: Key) -> Option<Setting> {
        let default = Settings::default();
        match (key, self) {
            (Key::Hosts, Given::List(hosts)) => Some(Setting::Hosts(hosts.clone())),
            (Key::Hosts, Given::Default) => Some(Setting::Hosts(default.hosts)),
            (Key::AllowLan, Given::Switch(on)) => Some(Setting::AllowLan(*on)),
            (Key::AllowLan, Given::Default) => Some(Setting::AllowLan(default.allow_lan)),
            (Key::LanBearer, Given::Bearer(rule)) => Some(Setting::LanBearer(*rule)),
            (Key::LanBearer, Given::Default) => Some(Setting::LanBearer(default.lan_bearer)),
            (Key::MaxValidity, Given::Seconds(seconds)) => Some(Setting::MaxValidity(*seconds)),
            (Key::MaxValidity, Given::Default) => {
                Some(Setting::MaxValidity(default.max_validity_s))
            }
            (Key::ConfirmTypingAbove, Given::Amount(amount)) => {
                Some(Setting::ConfirmTypingAbove(Some(*amount)))
            }
            (Key::ConfirmTypingAbove, Given::Default) => Some(Setting::ConfirmTypingAbove(None)),
            (Key::IdleLock, Given::Seconds(seconds)) => Some(Setting::IdleLock(Some(*seconds))),
            (Key::IdleLock, Given::Off | Given::Default) => Some(Setting::IdleLock(None)),
            _not_in_the_journal => None,
        }
    }
}
