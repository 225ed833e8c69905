//! The systemd manager of one scope: the manager of the machine or of an account.

use std::collections::BTreeMap;
use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::commands::{Outcome, run};
use crate::service::Scope;
use crate::systemd::UNIT;

/// The first version of systemd that encrypts credentials.
pub(crate) const ENCRYPTING_VERSION: u32 = 250;
/// The first version of systemd whose user services accept encrypted credentials.
pub(crate) const ENCRYPTING_FOR_USERS_VERSION: u32 = 256;

/// A systemd manager that has answered.
#[derive(Debug)]
pub(crate) struct Manager {
    scope: Scope,
    pub(crate) version: u32,
}

/// The state of the service as its manager reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) active: String,
    /// The engine's own status text.
    pub(crate) text: String,
    pub(crate) enabled: bool,
    pub(crate) main_pid: u32,
    pub(crate) result: String,
    pub(crate) exit: i32,
    /// Whether a signal ended the program.
    pub(crate) was_killed: bool,
    pub(crate) restarts: u32,
}

impl Condition {
    pub(crate) fn is_active(&self) -> bool {
        self.active == "active"
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.text.starts_with("locked:")
    }
}

impl Manager {
    /// Finds the manager of a scope.
    ///
    /// # Errors
    /// `NO_SERVICE_MANAGER` if this machine does not run systemd, or if the manager does not answer.
    pub(crate) fn find(scope: Scope) -> Result<Self, Fault> {
        let missing = |message: String| Fault::because(Code::NoServiceManager, message);
        if !Path::new("/run/systemd/system").is_dir() {
            return Err(missing(
                "This machine was not booted with systemd: start `bursar engine` with its own service manager; \
                 `bursar install-service --dry-run` shows what it needs."
                    .to_owned(),
            ));
        }
        let version = run("systemctl", &["--version"])?.ok_or_else(|| {
            missing("The command systemctl is missing: install systemd's package.".to_owned())
        })?;
        let version = version.out.split_whitespace().nth(1).and_then(|text| {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        let version = version.ok_or_else(|| {
            missing(
                "The command systemctl does not report its version: check its package.".to_owned(),
            )
        })?;
        if scope == Scope::User
            && std::env::var_os("XDG_RUNTIME_DIR").is_none_or(|dir| dir.is_empty())
        {
            return Err(missing(
                "XDG_RUNTIME_DIR is not set, so the account's service manager cannot be found: log in instead of \
                 using su, or use --system."
                    .to_owned(),
            ));
        }
        let manager = Self { scope, version };
        let answer = manager.systemctl(&["show", "--property=Version"])?;
        if !answer.succeeded {
            let remedy = match scope {
                Scope::User => "log in instead of using su, or use --system",
                Scope::System => "check D-Bus and the machine's log",
            };
            return Err(missing(format!(
                "The service manager does not answer ({}): {remedy}.",
                answer.reason().trim_end_matches('.')
            )));
        }
        Ok(manager)
    }

    /// Runs systemctl in this scope.
    pub(crate) fn systemctl(&self, arguments: &[&str]) -> Result<Outcome, Fault> {
        let mut all = match self.scope {
            Scope::User => vec!["--user"],
            Scope::System => vec!["--system"],
        };
        all.push("--no-ask-password");
        all.extend(arguments);
        run("systemctl", &all)?.ok_or_else(|| {
            let message = "The command systemctl is missing: install systemd's package.";
            Fault::because(Code::NoServiceManager, message)
        })
    }

    /// Runs systemctl, and returns an error if it fails.
    pub(crate) fn must(&self, arguments: &[&str]) -> Result<(), Fault> {
        let outcome = self.systemctl(arguments)?;
        if outcome.succeeded {
            return Ok(());
        }
        let message = format!(
            "`systemctl {}` failed: {}. Correct that, then run the command again.",
            arguments.join(" "),
            outcome.reason().trim_end_matches('.')
        );
        Err(Fault::because(Code::ServiceFailed, message))
    }

    /// Returns the current state of the service.
    pub(crate) fn condition(&self) -> Result<Condition, Fault> {
        let properties = "--property=ActiveState,StatusText,UnitFileState,MainPID,Result,ExecMainStatus,ExecMainCode,NRestarts";
        let shown = self.systemctl(&["show", UNIT, properties])?;
        let found: BTreeMap<&str, &str> =
            shown.out.lines().filter_map(|line| line.split_once('=')).collect();
        let text = |name: &str| found.get(name).copied().unwrap_or_default().to_owned();
        let number = |name: &str| text(name).parse::<u32>().unwrap_or(0);
        Ok(Condition {
            active: text("ActiveState"),
            text: text("StatusText"),
            enabled: text("UnitFileState") == "enabled",
            main_pid: number("MainPID"),
            result: text("Result"),
            exit: text("ExecMainStatus").parse().unwrap_or(0),
            // CLD_KILLED and CLD_DUMPED of waitid(2).
            was_killed: matches!(&*text("ExecMainCode"), "2" | "3"),
            restarts: number("NRestarts"),
        })
    }

    /// Returns the command that shows the service's log.
    pub(crate) fn log_command(&self) -> &'static str {
        match self.scope {
            Scope::User => "journalctl --user -u bursar -e",
            Scope::System => "sudo journalctl -u bursar -e",
        }
    }
}

/// Explains why the service does not run, in a sentence with the next command.
pub(crate) fn failure(condition: &Condition, log: &str) -> String {
    if condition.result == "success" {
        return "it is stopped: start it with `systemctl start bursar` as its owner, or run install-service again".to_owned();
    }
    if condition.was_killed {
        return format!(
            "it was killed by the signal {} ({}): see `{log}`",
            condition.exit, condition.result
        );
    }
    // The exit codes of `bursar engine`, and those that systemd uses before it starts a program (systemd.exec(5)).
    match condition.exit {
        2 => format!("its settings are not valid: see `{log}`"),
        5 => "the password of the unattended unlock is wrong: run `install-service --unlock` again".to_owned(),
        10 => "another engine uses the data folder: stop it, then start the service".to_owned(),
        13 => format!("the data folder cannot be used or is damaged: run `bursar doctor`, and see `{log}`"),
        15 => "the disk is full: free some space; the service then starts by itself".to_owned(),
        200 => "the data folder cannot be entered: check that it exists, and its owner".to_owned(),
        203 => "the program cannot be run: check its path and its rights".to_owned(),
        226 => "the manager cannot protect the service here, because this account may not use namespaces".to_owned(),
        216 | 217 => "the account of the service does not exist: install the service again".to_owned(),
        243 => {
            "the encrypted password cannot be opened on this machine: run `install-service --unlock` again".to_owned()
        }
        other if condition.result == "timeout" => format!("it did not become ready in time (exit {other}): see `{log}`"),
        other => format!("it ended with exit code {other}: see `{log}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_names_what_to_do() {
        for exit in [1, 2, 5, 10, 13, 15, 200, 203, 217, 226, 243] {
            let condition =
                Condition { exit, result: "exit-code".to_owned(), ..Condition::default() };
            let sentence = failure(&condition, "journalctl");
            assert!(sentence.contains(':') || sentence.contains("because"), "{sentence}");
        }
    }
}
