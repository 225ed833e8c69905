//! Parses the values of `config set` by the kind of the key. The core, or the loader of `settings.toml`, decides
//! whether a value is allowed.

use bursar_core::money::Usd;
use bursar_core::settings::keys::{Key, Kind};
use bursar_core::settings::{ConsolePalette, ConsoleTime, LanBearer, Notices, Setting, Settings};

use crate::config::Value;

/// A parsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParsedValue {
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

impl ParsedValue {
    pub(super) fn parse(key: Key, words: &[String]) -> Result<Self, String> {
        let kind = key.row().kind;
        if words.len() == 1 && words.iter().any(|word| word == "default") {
            return Ok(ParsedValue::Default);
        }
        if kind == Kind::UrlsOrNone && words.len() == 1 && words.iter().any(|word| word == "none") {
            return Ok(ParsedValue::List(Vec::new()));
        }
        if matches!(kind, Kind::Hosts | Kind::Urls | Kind::UrlsOrNone) {
            let items = words.iter().flat_map(|word| word.split(','));
            let items = items.map(str::trim).filter(|item| !item.is_empty());
            let normalized = |item: &str| match kind {
                Kind::Hosts => item.to_ascii_lowercase(),
                _urls => item.to_owned(),
            };
            let mut list: Vec<String> = Vec::new();
            for item in items.map(normalized) {
                if !list.contains(&item) {
                    list.push(item);
                }
            }
            return Ok(ParsedValue::List(list));
        }
        let takes = || format!("it takes {}, or default", kind.accepted_values());
        let [word] = words else { return Err(takes()) };
        match kind {
            Kind::Listen | Kind::Url | Kind::Hosts | Kind::Urls | Kind::UrlsOrNone => {
                Ok(ParsedValue::Text(word.clone()))
            }
            Kind::Count => word.parse().map(ParsedValue::Number).map_err(|_bad| takes()),
            Kind::Switch => word.parse().map(ParsedValue::Switch).map_err(|_bad| takes()),
            Kind::Seconds => word.parse().map(ParsedValue::Seconds).map_err(|_bad| takes()),
            Kind::SecondsOrOff if word == "off" => Ok(ParsedValue::Off),
            Kind::SecondsOrOff => word.parse().map(ParsedValue::Seconds).map_err(|_bad| takes()),
            Kind::UsdOrOff if word == "off" => Ok(ParsedValue::Off),
            Kind::Usd | Kind::UsdOrOff => {
                Usd::parse(word).map(ParsedValue::Amount).map_err(|error| error.to_string())
            }
            Kind::Notices => match Notices::parse(word) {
                Some(notices) => Ok(ParsedValue::Text(notices.text().to_owned())),
                None => Err(takes()),
            },
            Kind::ConsoleTime => match ConsoleTime::parse(word) {
                Some(time) => Ok(ParsedValue::Text(time.text().to_owned())),
                None => Err(takes()),
            },
            Kind::ConsolePalette => match ConsolePalette::parse(word) {
                Some(palette) => Ok(ParsedValue::Text(palette.text().to_owned())),
                None => Err(takes()),
            },
            Kind::WarnOrRefuse => match word.as_str() {
                "warn" => Ok(ParsedValue::Bearer(LanBearer::Warn)),
                "refuse" => Ok(ParsedValue::Bearer(LanBearer::Refuse)),
                _other => Err(takes()),
            },
        }
    }

    pub(super) fn switch(&self) -> Option<bool> {
        match self {
            ParsedValue::Switch(on) => Some(*on),
            _other => None,
        }
    }

    /// Returns the value for `settings.toml`. `None` removes the key from the file.
    pub(super) fn in_file(&self) -> Option<Value> {
        match self {
            ParsedValue::Text(text) => Some(Value::Text(text.clone())),
            ParsedValue::Number(number) => Some(Value::Number(*number)),
            ParsedValue::Switch(on) => Some(Value::Switch(*on)),
            ParsedValue::List(list) => Some(Value::List(list.clone())),
            ParsedValue::Default
            | ParsedValue::Off
            | ParsedValue::Bearer(_)
            | ParsedValue::Seconds(_)
            | ParsedValue::Amount(_) => None,
        }
    }

    /// Returns the setting for the journal, or `None` if the key is not stored there.
    pub(super) fn setting(&self, key: Key) -> Option<Setting> {
        let default = Settings::default();
        match (key, self) {
            (Key::Hosts, ParsedValue::List(hosts)) => Some(Setting::Hosts(hosts.clone())),
            (Key::Hosts, ParsedValue::Default) => Some(Setting::Hosts(default.hosts)),
            (Key::AllowLan, ParsedValue::Switch(on)) => Some(Setting::AllowLan(*on)),
            (Key::AllowLan, ParsedValue::Default) => Some(Setting::AllowLan(default.allow_lan)),
            (Key::LanBearer, ParsedValue::Bearer(rule)) => Some(Setting::LanBearer(*rule)),
            (Key::LanBearer, ParsedValue::Default) => Some(Setting::LanBearer(default.lan_bearer)),
            (Key::MaxValidity, ParsedValue::Seconds(seconds)) => {
                Some(Setting::MaxValidity(*seconds))
            }
            (Key::MaxValidity, ParsedValue::Default) => {
                Some(Setting::MaxValidity(default.max_validity_s))
            }
            (Key::ConfirmTypingAbove, ParsedValue::Amount(amount)) => {
                Some(Setting::ConfirmTypingAbove(Some(*amount)))
            }
            (Key::ConfirmTypingAbove, ParsedValue::Default) => {
                Some(Setting::ConfirmTypingAbove(None))
            }
            (Key::IdleLock, ParsedValue::Seconds(seconds)) => {
                Some(Setting::IdleLock(Some(*seconds)))
            }
            (Key::IdleLock, ParsedValue::Off | ParsedValue::Default) => {
                Some(Setting::IdleLock(None))
            }
            (Key::UnattendedDaily, ParsedValue::Amount(amount)) => {
                Some(Setting::UnattendedDaily(Some(*amount)))
            }
            (Key::UnattendedDaily, ParsedValue::Off | ParsedValue::Default) => {
                Some(Setting::UnattendedDaily(None))
            }
            (Key::RegistryUrl, ParsedValue::Default) => Some(Setting::Registry(None)),
            (Key::RegistryUrl, ParsedValue::Text(url)) => {
                Some(Setting::Registry((url != "none").then(|| url.clone())))
            }
            _not_in_the_journal => None,
        }
    }
}
