//! The limit of unattended days, which is in the journal of the service: it is read and set by commands of the wallet, which
//! run as the service's account.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;

use crate::account::ACCOUNT;
use crate::commands::run;
use crate::service::{Scope, Service};

/// A value of the setting `unattended.daily`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daily {
    Off,
    At(Usd),
}

impl Daily {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        if text.trim() == "off" {
            return Ok(Self::Off);
        }
        Usd::parse(text.trim()).map(Self::At).map_err(|error| {
            Fault::because(Code::BadInput, format!("The limit takes dollars, or off: {error}."))
        })
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Off => "off".to_owned(),
            Self::At(usd) => usd.to_string(),
        }
    }

    /// Returns whether it allows more than another.
    pub(crate) fn raises(self, other: Self) -> bool {
        match (self, other) {
            (_, Self::Off) => false,
            (Self::Off, Self::At(_)) => true,
            (Self::At(to), Self::At(from)) => to > from,
        }
    }
}

/// Returns the limit in force.
pub(crate) fn current(service: &Service) -> Result<Daily, Fault> {
    let text = order(service, &["config", "get", "unattended.daily"])?;
    let value = text.lines().find_map(|line| line.strip_prefix("value"));
    Daily::parse(value.unwrap_or_default())
}

/// Sets the limit. Raising it needs the open wallet.
pub(crate) fn set(service: &Service, daily: Daily) -> Result<(), Fault> {
    order(service, &["config", "set", "unattended.daily", &daily.text()]).map(|_told| ())
}

fn order(service: &Service, words: &[&str]) -> Result<String, Fault> {
    let program = service.program.display().to_string();
    let data = service.data.display().to_string();
    let (user, group) = (format!("--reuid={ACCOUNT}"), format!("--regid={ACCOUNT}"));
    // Without a session: that would need PAM and leave traces of a login.
    let mut command = match service.scope {
        Scope::System => vec!["setpriv", &*user, &*group, "--clear-groups", "--"],
        Scope::User => Vec::new(),
    };
    command.extend([&*program, "--data", &*data, "--yes", "--no-input"]);
    command.extend(words);
    let Some((first, rest)) = command.split_first() else { return Ok(String::new()) };
    let outcome = run(first, rest)?.ok_or_else(|| {
        Fault::because(Code::ServiceFailed, format!("The command {first} is missing."))
    })?;
    if outcome.succeeded {
        return Ok(outcome.out);
    }
    let reason = outcome.reason();
    Err(Fault::because(Code::ServiceFailed, reason.trim_start_matches("bursar: ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dollars_and_off_are_limits() {
        for (text, shown) in [("5", "5.00"), (" 0.5 ", "0.50"), ("off", "off"), ("0", "0.00")] {
            assert_eq!(Daily::parse(text).unwrap().text(), shown);
        }
        for wrong in ["", "default", "--help", "-1", "5 USD", "1e3"] {
            assert_eq!(Daily::parse(wrong).unwrap_err().code, Code::BadInput, "{wrong}");
        }
        let at = |text| Daily::parse(text).unwrap();
        assert!(at("6").raises(at("5")) && Daily::Off.raises(at("5")));
        assert!(
            !at("5").raises(at("5"))
                && !at("5").raises(Daily::Off)
                && !Daily::Off.raises(Daily::Off)
        );
    }
}
