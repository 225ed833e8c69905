//! The limit of unattended days.
//!
//! The limit is in the journal of the service. Commands of the wallet read and set it; they run as the service's
//! account.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use bursar_core::settings::{Setting, Settings};

use crate::account::ACCOUNT;
use crate::commands::run;
use crate::service::{Scope, Service};

/// Parses a limit: dollars, or `off`.
///
/// # Errors
/// `BAD_INPUT`.
pub(crate) fn parse(text: &str) -> Result<Option<Usd>, Fault> {
    if text.trim() == "off" {
        return Ok(None);
    }
    Usd::parse(text.trim()).map(Some).map_err(|error| {
        Fault::because(
            Code::BadInput,
            format!("The limit must be an amount in dollars, or off: {error}."),
        )
    })
}

/// Formats a limit for the setting: dollars, or `off`.
pub(crate) fn text(limit: Option<Usd>) -> String {
    limit.map_or_else(|| "off".to_owned(), |usd| usd.to_string())
}

/// Returns whether a limit allows more than the current one.
pub(crate) fn is_higher(limit: Option<Usd>, current: Option<Usd>) -> bool {
    let now = Settings { unattended_daily: current, ..Settings::default() };
    Setting::UnattendedDaily(limit).loosens(&now)
}

/// Returns the limit in force.
pub(crate) fn current(service: &Service) -> Result<Option<Usd>, Fault> {
    let text = run_order(service, &["config", "get", "unattended.daily"])?;
    let value = text.lines().find_map(|line| line.strip_prefix("value"));
    parse(value.unwrap_or_default())
}

/// Sets the limit. Raising it requires an unlocked wallet.
pub(crate) fn set(service: &Service, limit: Option<Usd>) -> Result<(), Fault> {
    run_order(service, &["config", "set", "unattended.daily", &text(limit)]).map(|_done| ())
}

fn run_order(service: &Service, words: &[&str]) -> Result<String, Fault> {
    let program = service.program.display().to_string();
    let data = service.data.display().to_string();
    let (user, group) = (format!("--reuid={ACCOUNT}"), format!("--regid={ACCOUNT}"));
    // `setpriv` opens no session, which would need PAM and leave traces of a login.
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
            assert_eq!(super::text(parse(text).unwrap()), shown);
        }
        for wrong in ["", "default", "--help", "-1", "5 USD", "1e3"] {
            assert_eq!(parse(wrong).unwrap_err().code, Code::BadInput, "{wrong}");
        }
        let raises = |to, from| super::is_higher(parse(to).unwrap(), parse(from).unwrap());
        assert!(raises("6", "5") && raises("off", "5"));
        assert!(!raises("5", "5") && !raises("5", "off") && !raises("off", "off"));
    }
}
