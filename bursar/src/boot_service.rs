//! `install-service`, `uninstall-service` and `service status`: asks the operator, and prints the results of
//! `bursar-boot`.
//!
//! The commands run in this process, because they change the machine and not the wallet.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use bursar_boot::service::{Platform, Scope, Tier};
use bursar_boot::{InstallReport, InstallRequest, Operator, ServiceReport, UninstallReport};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_engine::service::data_dir::DataFolder;
use bursar_tui::oneshot::{ControllingTerminal, Terminal};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{GlobalOptions, InstallArgs, ScopeArgs};
use crate::engine_command::read_password;
use crate::failure::{print_result, report_failure};

/// The operator at this process's terminal.
struct TerminalOperator<'a> {
    global: &'a GlobalOptions,
    terminal: ControllingTerminal,
}

impl TerminalOperator<'_> {
    fn may_ask(&self) -> bool {
        !self.global.no_input && io::stdin().is_terminal() && self.terminal.is_present()
    }

    fn read_line(&self, question: &str) -> Result<String, Fault> {
        self.terminal
            .ask_line(question)
            .map_err(|error| Fault::new(Code::Cancelled).with_detail(error))
    }
}

impl Operator for TerminalOperator<'_> {
    fn confirm(&self, lines: &[String], question: &str) -> Result<bool, Fault> {
        for line in lines {
            print_err(line);
        }
        if self.global.dry_run {
            return Ok(false);
        }
        if self.global.yes {
            return Ok(true);
        }
        if !self.may_ask() {
            let message =
                "This needs your approval, and the command cannot ask on a terminal: add --yes.";
            return Err(Fault::because(Code::ConfirmationNeeded, message));
        }
        let typed = self.read_line(&format!("{question} [y/N] "))?;
        Ok(["y", "yes"].iter().any(|yes| typed.eq_ignore_ascii_case(yes)))
    }

    fn line(&self, question: &str, option: &str) -> Result<String, Fault> {
        if self.may_ask() {
            return self.read_line(question);
        }
        let message = format!("The command cannot ask on a terminal: add {option}.");
        Err(Fault::because(Code::ConfirmationNeeded, message))
    }

    fn progress(&self, text: &str) {
        if !self.global.quiet {
            print_err(&format!("… {text}"));
        }
    }

    fn password(&self) -> Result<SecretString, Fault> {
        if let Some(given) = read_password(&self.global.password())? {
            return Ok(given);
        }
        if !self.may_ask() {
            let message = "The command cannot ask for the password on a terminal: add --password-stdin or --password-file.";
            return Err(Fault::because(Code::ConfirmationNeeded, message));
        }
        let typed = self.terminal.ask_secret("Password of the wallet: ");
        typed
            .map(|typed| SecretString::from(typed.as_str()))
            .map_err(|error| Fault::new(Code::Cancelled).with_detail(error))
    }

    fn verify(&self, data: &Path, password: &SecretString) -> Result<(), Fault> {
        bursar_engine::operator::check_password(data, password)
    }
}

/// Runs `install-service` and returns its exit code.
pub(crate) fn install(global: &GlobalOptions, args: &InstallArgs) -> u8 {
    let asker = TerminalOperator { global, terminal: ControllingTerminal::default() };
    let done = install_request(global, args).and_then(|wanted| {
        if global.dry_run {
            let platform = args.platform.map(Platform::from).or_else(Platform::here);
            let platform = platform.ok_or(Fault::new(Code::NoServiceManager))?;
            let text = bursar_boot::preview(platform, &wanted)?;
            let data = json!({ "text": text });
            return Ok((data, text));
        }
        check_supported()?;
        let installed = bursar_boot::install(&wanted, &asker)?;
        Ok((data_of(&installed)?, installed_text(&installed)))
    });
    finish("install-service", global, done)
}

/// Runs `uninstall-service` and returns its exit code.
pub(crate) fn uninstall(global: &GlobalOptions, args: ScopeArgs) -> u8 {
    let asker = TerminalOperator { global, terminal: ControllingTerminal::default() };
    let done = check_supported().and_then(|()| {
        let scope = args.chosen_scope().unwrap_or_else(usual_scope);
        match bursar_boot::uninstall(scope, &asker) {
            Err(fault) if fault.code == Code::Declined && global.dry_run => {
                let text = "This was a dry run: nothing was removed.\n".to_owned();
                Ok((json!({ "text": text }), text))
            }
            removed => {
                let removed = removed?;
                Ok((data_of(&removed)?, uninstalled_text(&removed)))
            }
        }
    });
    finish("uninstall-service", global, done)
}

/// Runs `service status` and returns its exit code.
pub(crate) fn status(global: &GlobalOptions, args: ScopeArgs) -> u8 {
    let found = check_supported().and_then(|()| {
        let scopes =
            args.chosen_scope().map_or_else(|| vec![Scope::User, Scope::System], |one| vec![one]);
        let mut failed = None;
        for scope in scopes {
            match bursar_boot::report(scope) {
                Ok(Some(report)) => return Ok(report),
                Ok(None) => {}
                Err(fault) => failed = failed.or(Some(fault)),
            }
        }
        Err(failed.unwrap_or_else(|| {
            let message = "The engine is not installed as a service.";
            Fault::because(Code::NothingFound, message).with_hint("install-service")
        }))
    });
    let running = found.as_ref().is_ok_and(|report| report.running);
    let done = found.and_then(|report| Ok((data_of(&report)?, report_text(&report))));
    let exit = finish("service.status", global, done);
    if exit == 0 && !running { Code::EngineDown.exit() } else { exit }
}

/// Returns the default scope: root manages the machine's service, and any other account its own service.
fn usual_scope() -> Scope {
    if rustix::process::geteuid().is_root() { Scope::System } else { Scope::User }
}

fn check_supported() -> Result<(), Fault> {
    if Platform::here() == Some(Platform::Linux) {
        return Ok(());
    }
    let message = "Bursar installs services on Linux only: `install-service --dry-run` prints the file to install by hand.";
    Err(Fault::because(Code::NoServiceManager, message))
}

fn install_request(global: &GlobalOptions, args: &InstallArgs) -> Result<InstallRequest, Fault> {
    let unknown = |error| Fault::new(Code::InternalError).with_detail(error);
    let program = std::env::current_exe().map_err(unknown)?;
    let data = DataFolder::locate(global.folder_rule(), global.data.clone())?;
    let data = std::path::absolute(data).map_err(unknown)?;
    Ok(InstallRequest {
        scope: args.scope.chosen_scope().unwrap_or(Scope::User),
        program,
        data: data.components().collect(),
        data_is_chosen: global.data.is_some(),
        unlock: choice(args.unlock, args.no_unlock),
        daily: args.daily.clone(),
        ledger: choice(args.ledger, args.no_ledger),
    })
}

/// Returns the choice of two opposite options; `None` if neither is given.
fn choice(on: bool, off: bool) -> Option<bool> {
    if on { Some(true) } else { off.then_some(false) }
}

fn data_of(value: &impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|error| Fault::new(Code::InternalError).with_detail(error))
}

fn finish(command: &str, global: &GlobalOptions, done: Result<(Value, String), Fault>) -> u8 {
    match done {
        Err(fault) => report_failure(command, global, fault),
        Ok((data, text)) => print_result(command, global, &data, text.as_bytes()),
    }
}

fn installed_text(installed: &InstallReport) -> String {
    let mut text = String::new();
    if installed.changed.is_empty() {
        text.push_str("nothing to change\n");
    }
    for path in &installed.changed {
        text.push_str(&format!("changed   {}\n", path.display()));
    }
    text.push_str(&format!("engine    {}\n", installed.state));
    text.push_str(&format!("unlock    {}\n", installed.unlock.text()));
    text.push_str(&format!("reboot    {}\n", installed.after_reboot));
    text.push_str(&format!("console   {}\n", installed.console));
    for note in &installed.notes {
        text.push_str(&format!("note      {note}\n"));
    }
    text
}

fn uninstalled_text(removed: &UninstallReport) -> String {
    if removed.removed.is_empty() {
        return "nothing to remove: the engine is not installed as a service\n".to_owned();
    }
    let mut text = String::new();
    for path in &removed.removed {
        text.push_str(&format!("removed   {}\n", path.display()));
    }
    for left in &removed.left {
        text.push_str(&format!("stays     {left}\n"));
    }
    text
}

fn report_text(report: &ServiceReport) -> String {
    let mut text = format!(
        "service   {}{}\nengine    {}\nprogram   {}\ndata      {}\nunlock    {}\nreboot    {}\nconsole   {}\n",
        report.unit.display(),
        if report.edited { " (changed by hand)" } else { "" },
        report.state,
        report.program.display(),
        report.data.display(),
        report.unlock.text(),
        report.after_reboot,
        report.console,
    );
    if report.restarts > 0 {
        text.push_str(&format!("restarts  {}\n", report.restarts));
    }
    for note in &report.notes {
        text.push_str(&format!("note      {note}\n"));
    }
    if report.unlock != Tier::None {
        text.push_str(&format!("limit     {} config get unattended.daily\n", report.console));
    }
    text
}

/// Prints a line to standard error. If it is closed, the error cannot be reported anywhere.
fn print_err(line: &str) {
    let _closed = writeln!(io::stderr(), "{line}");
}
