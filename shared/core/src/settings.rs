//! Settings that can weaken a protection. They are stored in the journal, where editing a file cannot change them; all
//! other settings are in `settings.toml`.

mod console;
pub mod keys;

use serde::{Deserialize, Serialize};

use crate::change::{Change, list_change, switch_text};
use crate::limits::{MAX_VALIDITY_S, REGISTRY_URL_BYTES_MAX, SERVER_HOSTS_MAX};
use crate::money::Usd;
pub use console::{ConsolePalette, ConsoleTime, Notices};
use keys::Key;

/// The operator's settings.
///
/// By default, the agent server listens on loopback only and the rate limit is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The agent server listens on all interfaces, not only on loopback.
    pub allow_lan: bool,
    /// The rate limit is off, whatever the value in `settings.toml`.
    pub rate_limit_off: bool,
    /// Further host names that the agent server accepts.
    pub hosts: Vec<String>,
    pub lan_bearer: LanBearer,
    /// Longest validity, in seconds, of a payment without approval.
    pub max_validity_s: u64,
    /// The smallest amount of an approval or a send that the operator must type to confirm it.
    ///
    /// `None` means 5 USD for a send, and for an approval a tenth of the policy's largest payment, but at least 5 USD.
    pub confirm_typing_above: Option<Usd>,
    /// Seconds without use after which the wallet locks automatically.
    ///
    /// If set, it also locks when the machine wakes.
    pub idle_lock_s: Option<u64>,
    /// Maximum value that agents may spend in a local day without approval while the wallet is unattended.
    ///
    /// It is unattended until a person opens it after the engine starts. `None` means that only the policies limit the
    /// agents.
    pub unattended_daily: Option<Usd>,
    /// The registry of mandates; `None` if there is none.
    pub registry: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_lan: false,
            rate_limit_off: false,
            hosts: Vec::new(),
            lan_bearer: LanBearer::Warn,
            max_validity_s: MAX_VALIDITY_S,
            confirm_typing_above: None,
            idle_lock_s: None,
            unattended_daily: None,
            registry: None,
        }
    }
}

impl Settings {
    /// Describes each setting that may protect less than its default.
    pub fn describe_weakened(&self) -> Vec<String> {
        let usual = Self::default();
        let mut described = Vec::new();
        if self.allow_lan {
            described.push("the agent server is open to the network".to_owned());
        }
        if self.rate_limit_off {
            described.push("the rate limit is off".to_owned());
        }
        if !self.hosts.is_empty() {
            described.push(format!(
                "the agent server also accepts the host names {}",
                self.hosts.join(", ")
            ));
        }
        if self.max_validity_s > usual.max_validity_s {
            described.push(format!(
                "payments may stay valid for {} s without your approval",
                self.max_validity_s
            ));
        }
        if let Some(amount) = self.confirm_typing_above {
            described.push(format!("approvals of {amount} USD or more must be typed"));
        }
        described
    }
}

/// The treatment of a bearer token that another machine sends in clear text.
///
/// Stricter values are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanBearer {
    Warn,
    Refuse,
}

impl LanBearer {
    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        match self {
            LanBearer::Warn => "warn",
            LanBearer::Refuse => "refuse",
        }
    }
}

/// A setting with its new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Setting {
    AllowLan(bool),
    RateLimitOff(bool),
    Hosts(Vec<String>),
    LanBearer(LanBearer),
    MaxValidity(u64),
    ConfirmTypingAbove(Option<Usd>),
    IdleLock(Option<u64>),
    UnattendedDaily(Option<Usd>),
    /// A URL.
    Registry(Option<String>),
}

impl Setting {
    /// Returns whether the change may remove a protection that `now` gives.
    ///
    /// Tightening is always allowed.
    pub fn loosens(&self, now: &Settings) -> bool {
        match self {
            Setting::AllowLan(on) => *on && !now.allow_lan,
            Setting::RateLimitOff(off) => *off && !now.rate_limit_off,
            Setting::Hosts(hosts) => hosts.iter().any(|host| !now.hosts.contains(host)),
            Setting::LanBearer(to) => *to == LanBearer::Warn && now.lan_bearer != LanBearer::Warn,
            Setting::MaxValidity(seconds) => *seconds > now.max_validity_s,
            // `None` derives the amount from the policy, so it can be above or below a fixed amount. A switch between
            // the two therefore always counts as loosening.
            Setting::ConfirmTypingAbove(to) => match (to, now.confirm_typing_above) {
                (Some(to), Some(now)) => *to > now,
                (Some(_), None) | (None, Some(_)) => true,
                (None, None) => false,
            },
            Setting::IdleLock(to) => match (to, now.idle_lock_s) {
                (Some(to), Some(now)) => *to > now,
                (None, Some(_)) => true,
                (_, None) => false,
            },
            Setting::UnattendedDaily(to) => match (to, now.unattended_daily) {
                (Some(to), Some(now)) => *to > now,
                (None, Some(_)) => true,
                (_, None) => false,
            },
            // Another registry is another server that learns about agents.
            Setting::Registry(to) => to.is_some() && *to != now.registry,
        }
    }

    /// Returns the same setting with the value that it has in `settings`.
    pub fn current_value(&self, settings: &Settings) -> Setting {
        match self {
            Setting::AllowLan(_) => Setting::AllowLan(settings.allow_lan),
            Setting::RateLimitOff(_) => Setting::RateLimitOff(settings.rate_limit_off),
            Setting::Hosts(_) => Setting::Hosts(settings.hosts.clone()),
            Setting::LanBearer(_) => Setting::LanBearer(settings.lan_bearer),
            Setting::MaxValidity(_) => Setting::MaxValidity(settings.max_validity_s),
            Setting::ConfirmTypingAbove(_) => {
                Setting::ConfirmTypingAbove(settings.confirm_typing_above)
            }
            Setting::IdleLock(_) => Setting::IdleLock(settings.idle_lock_s),
            Setting::UnattendedDaily(_) => Setting::UnattendedDaily(settings.unattended_daily),
            Setting::Registry(_) => Setting::Registry(settings.registry.clone()),
        }
    }

    /// Returns the change to this value from `from`, the previous value of the same setting.
    pub fn change(&self, from: &Setting) -> Change {
        let (field, name) = match self {
            Setting::AllowLan(_) => (Key::AllowLan.row().key, "server open to the network"),
            Setting::RateLimitOff(_) => (Key::Rate.row().key, "rate limit"),
            Setting::Hosts(_) => (Key::Hosts.row().key, Key::Hosts.row().key),
            Setting::LanBearer(_) => (Key::LanBearer.row().key, Key::LanBearer.row().key),
            Setting::MaxValidity(_) => (Key::MaxValidity.row().key, Key::MaxValidity.row().key),
            Setting::ConfirmTypingAbove(_) => {
                (Key::ConfirmTypingAbove.row().key, Key::ConfirmTypingAbove.row().key)
            }
            Setting::IdleLock(_) => (Key::IdleLock.row().key, Key::IdleLock.row().key),
            Setting::UnattendedDaily(_) => {
                (Key::UnattendedDaily.row().key, Key::UnattendedDaily.row().key)
            }
            Setting::Registry(_) => (Key::RegistryUrl.row().key, Key::RegistryUrl.row().key),
        };
        let mut before = Settings::default();
        from.apply(&mut before);
        let (old, new) = match self {
            // A list can be longer than a journal line should be.
            Setting::Hosts(hosts) => list_change(&texts(&before.hosts), &texts(hosts), "none"),
            Setting::AllowLan(_)
            | Setting::RateLimitOff(_)
            | Setting::LanBearer(_)
            | Setting::MaxValidity(_)
            | Setting::ConfirmTypingAbove(_)
            | Setting::IdleLock(_)
            | Setting::UnattendedDaily(_)
            | Setting::Registry(_) => (from.value(), self.value()),
        };
        Change {
            field: field.to_owned(),
            name: name.to_owned(),
            from: old,
            to: new,
            unit: String::new(),
            loosens: self.loosens(&before),
        }
    }

    fn value(&self) -> String {
        match self {
            Setting::AllowLan(on) => switch_text(*on),
            Setting::RateLimitOff(off) => switch_text(!off),
            Setting::Hosts(hosts) => hosts.join(", "),
            Setting::LanBearer(rule) => rule.text().to_owned(),
            Setting::MaxValidity(seconds) => format!("{seconds} s"),
            Setting::ConfirmTypingAbove(Some(amount)) | Setting::UnattendedDaily(Some(amount)) => {
                format!("{amount} USD")
            }
            Setting::ConfirmTypingAbove(None) => "by the policy".to_owned(),
            Setting::IdleLock(Some(seconds)) => format!("{seconds} s"),
            Setting::IdleLock(None) | Setting::UnattendedDaily(None) => switch_text(false),
            Setting::Registry(Some(url)) => origin(url),
            Setting::Registry(None) => "none".to_owned(),
        }
    }

    /// Returns the accepted values if this value is not valid.
    pub fn accepted_values_if_invalid(&self) -> Option<&'static str> {
        match self {
            Setting::Hosts(hosts) if hosts.len() > SERVER_HOSTS_MAX => {
                Some("a list of at most 64 names")
            }
            Setting::Hosts(hosts) if !hosts.iter().all(|host| is_host(host)) => {
                Some("lower-case names or addresses, without scheme, port or path")
            }
            Setting::MaxValidity(seconds) if !(30..=31_536_000).contains(seconds) => {
                Some("seconds from 30 to 31536000")
            }
            Setting::IdleLock(Some(seconds)) if !(60..=604_800).contains(seconds) => {
                Some("off, or seconds from 60 to 604800")
            }
            Setting::Registry(Some(url)) if !is_web_url(url) => Some("an http or https URL"),
            Setting::AllowLan(_)
            | Setting::RateLimitOff(_)
            | Setting::Hosts(_)
            | Setting::LanBearer(_)
            | Setting::MaxValidity(_)
            | Setting::ConfirmTypingAbove(_)
            | Setting::IdleLock(_)
            | Setting::UnattendedDaily(_)
            | Setting::Registry(_) => None,
        }
    }

    /// Writes the value to `to`.
    pub fn apply(&self, to: &mut Settings) {
        match self {
            Setting::AllowLan(on) => to.allow_lan = *on,
            Setting::RateLimitOff(off) => to.rate_limit_off = *off,
            Setting::Hosts(hosts) => to.hosts.clone_from(hosts),
            Setting::LanBearer(rule) => to.lan_bearer = *rule,
            Setting::MaxValidity(seconds) => to.max_validity_s = *seconds,
            Setting::ConfirmTypingAbove(amount) => to.confirm_typing_above = *amount,
            Setting::IdleLock(seconds) => to.idle_lock_s = *seconds,
            Setting::UnattendedDaily(amount) => to.unattended_daily = *amount,
            Setting::Registry(url) => to.registry.clone_from(url),
        }
    }
}

fn texts(hosts: &[String]) -> Vec<&str> {
    hosts.iter().map(String::as_str).collect()
}

/// Returns whether a text begins like a URL of the web, and is short enough to store.
fn is_web_url(text: &str) -> bool {
    let has_scheme = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    has_scheme && text.len() <= REGISTRY_URL_BYTES_MAX && !text.contains(char::is_control)
}

/// Returns scheme and host of a URL: path and query may contain a key.
fn origin(url: &str) -> String {
    url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

/// Returns whether `text` is a host as a `Host` header contains it, without a port.
///
/// Accepts a lower-case name, an IPv4 address, or an IPv6 address in brackets. Checks only length and characters.
fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let bracketed = inner.len() != text.len();
    let fits = |b: u8| match b {
        b':' => bracketed,
        b'.' | b'-' | b'_' => true,
        other => other.is_ascii_lowercase() || other.is_ascii_digit(),
    };
    (1..=253).contains(&inner.len()) && inner.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_remove_protection_loosen() {
        let strict = Settings::default();
        let loose = Settings {
            allow_lan: true,
            rate_limit_off: true,
            hosts: vec!["wallet.lan".into()],
            lan_bearer: LanBearer::Refuse,
            max_validity_s: 7200,
            confirm_typing_above: Some(Usd::dollars(5)),
            idle_lock_s: Some(600),
            unattended_daily: Some(Usd::dollars(5)),
            registry: Some("https://a.test".to_owned()),
        };
        for (setting, from_strict, from_loose) in [
            (Setting::AllowLan(true), true, false),
            (Setting::UnattendedDaily(Some(Usd::dollars(6))), false, true),
            (Setting::UnattendedDaily(Some(Usd::dollars(5))), false, false),
            (Setting::UnattendedDaily(Some(Usd::ZERO)), false, false),
            (Setting::UnattendedDaily(None), false, true),
            (Setting::AllowLan(false), false, false),
            (Setting::RateLimitOff(true), true, false),
            (Setting::RateLimitOff(false), false, false),
            (Setting::Hosts(vec!["wallet.lan".into()]), true, false),
            (Setting::Hosts(vec![]), false, false),
            (Setting::Hosts(vec!["wallet.lan".into(), "b".into()]), true, true),
            (Setting::LanBearer(LanBearer::Warn), false, true),
            (Setting::LanBearer(LanBearer::Refuse), false, false),
            (Setting::MaxValidity(3601), true, false),
            (Setting::MaxValidity(7201), true, true),
            (Setting::MaxValidity(60), false, false),
            (Setting::ConfirmTypingAbove(Some(Usd::dollars(5))), true, false),
            (Setting::ConfirmTypingAbove(Some(Usd::dollars(4))), true, false),
            (Setting::ConfirmTypingAbove(Some(Usd::dollars(6))), true, true),
            (Setting::ConfirmTypingAbove(None), false, true),
            (Setting::Registry(Some("https://a.test".to_owned())), true, false),
            (Setting::Registry(Some("https://b.test".to_owned())), true, true),
            (Setting::Registry(None), false, false),
        ] {
            assert_eq!(setting.loosens(&strict), from_strict, "{setting:?}");
            assert_eq!(setting.loosens(&loose), from_loose, "{setting:?}");
        }
    }

    #[test]
    fn invalid_setting_values_are_refused() {
        for host in ["wallet.lan", "10.0.0.1", "[fd00::1]", "my-host_2"] {
            assert_eq!(
                Setting::Hosts(vec![host.into()]).accepted_values_if_invalid(),
                None,
                "{host}"
            );
        }
        for host in ["", "Wallet.lan", "a:1", "http://a", "a/b", "fd00::1", "[]", "a b", "*"] {
            assert!(
                Setting::Hosts(vec![host.into()]).accepted_values_if_invalid().is_some(),
                "{host}"
            );
        }
        assert!(Setting::Hosts(vec!["a".into(); 65]).accepted_values_if_invalid().is_some());
        assert!(Setting::MaxValidity(29).accepted_values_if_invalid().is_some());
        assert_eq!(Setting::MaxValidity(30).accepted_values_if_invalid(), None);
        let registry = |url: &str| Setting::Registry(Some(url.to_owned()));
        assert_eq!(registry("https://r.test/x").accepted_values_if_invalid(), None);
        let long = format!("https://{}", "a".repeat(REGISTRY_URL_BYTES_MAX));
        for url in ["", "r.test", "ftp://r.test", "https://r.test/\n", &long] {
            assert!(registry(url).accepted_values_if_invalid().is_some(), "{url}");
        }
    }

    #[test]
    fn a_setting_change_has_both_values_and_whether_it_loosens() {
        let now = Settings::default();
        for (setting, text, loosens) in [
            (Setting::MaxValidity(7200), "payments.max_validity 3600 s -> 7200 s", true),
            (Setting::Hosts(vec!["a.lan".into()]), "server.hosts none -> a.lan", true),
            (Setting::LanBearer(LanBearer::Refuse), "server.lan_bearer warn -> refuse", false),
            (Setting::RateLimitOff(true), "rate limit on -> off", true),
            (Setting::AllowLan(true), "server open to the network off -> on", true),
            (
                Setting::Registry(Some("https://r.test/key?k=v".to_owned())),
                "registry.url none -> https://r.test",
                true,
            ),
            (
                Setting::ConfirmTypingAbove(Some(Usd::dollars(5))),
                "confirm_typing_above by the policy -> 5.00 USD",
                true,
            ),
        ] {
            let change = setting.change(&setting.current_value(&now));
            assert_eq!((change.text().as_str(), change.loosens), (text, loosens));
        }
    }

    /// A journal entry larger than a frame would end the `watch` command.
    #[test]
    fn changes_of_the_longest_lists_fit_a_frame() {
        let long = |letter: &str| -> Vec<String> {
            (0..SERVER_HOSTS_MAX).map(|n| format!("{}{n}", letter.repeat(250))).collect()
        };
        let (from, to) = (Setting::Hosts(long("a")), Setting::Hosts(long("b")));
        assert!(to.accepted_values_if_invalid().is_none());
        let change = to.change(&from);
        assert!(change.text().len() < 8 << 10, "{}", change.text().len());
        assert!(change.to.ends_with("and 56 more"), "{}", change.to);
    }
}
