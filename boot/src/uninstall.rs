//! Removes the service. The wallet and the journal stay.

use std::path::PathBuf;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use serde::Serialize;

use crate::files::{self, Changes, read};
use crate::lingering::is_lingering;
use crate::manager::Manager;
use crate::operator::Operator;
use crate::paths::Paths;
use crate::service::Scope;
use crate::systemd::{self, UNIT};
use crate::written::{Authorship, authorship};

/// The result of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UninstallReport {
    pub scope: Scope,
    /// The files that were removed; empty if there was no service.
    pub removed: Vec<PathBuf>,
    /// The files that remain, with the way to remove each.
    pub left: Vec<String>,
}

/// Stops and removes the service of a scope.
///
/// # Errors
/// `NO_SERVICE_MANAGER`, `NEEDS_ROOT`, `DECLINED`, `CONFIRMATION_NEEDED`, or `SERVICE_FAILED` if a file cannot be
/// removed.
pub fn uninstall(scope: Scope, operator: &dyn Operator) -> Result<UninstallReport, Fault> {
    if scope == Scope::System && !rustix::process::geteuid().is_root() {
        let message =
            "A service of the machine needs root: run `sudo bursar uninstall-service --system`.";
        return Err(Fault::because(Code::NeedsRoot, message));
    }
    let paths = Paths::of(scope)?;
    let unit = read(&paths.unit)?;
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths.texts().into_iter().chain([&*paths.credential]) {
        if path.symlink_metadata().is_ok() {
            found.push(path.to_owned());
        }
    }
    if found.is_empty() {
        return Ok(UninstallReport { scope, removed: Vec::new(), left: Vec::new() });
    }
    let manager = Manager::find(scope)?;
    let mut lines: Vec<String> = found.iter().map(|path| format!("- {}", path.display())).collect();
    if let Some(text) = unit.as_deref().filter(|text| authorship(text) != Authorship::Ours) {
        lines.push("The unit was changed by hand:".to_owned());
        lines.extend(text.lines().map(|line| format!("  {line}")));
    }
    if !operator.confirm(&lines, "Stop the engine and remove the service?")? {
        return Err(Fault::new(Code::Declined));
    }
    match unit {
        Some(_) => manager.must(&["disable", "--now", UNIT])?,
        None => {
            let _not_loaded = manager.systemctl(&["stop", UNIT])?;
        }
    }
    let mut changes = Changes::default();
    let removed = found.iter().try_for_each(|path| changes.remove(path, *path != paths.unit));
    if let Err(fault) = removed {
        changes.undo();
        return Err(fault);
    }
    files::remove_marker(&paths.unfinished);
    manager.must(&["daemon-reload"])?;
    let _cleared = manager.systemctl(&["reset-failed", UNIT])?;
    let mut left = Vec::new();
    if let Some(data) = unit.as_deref().and_then(systemd::data_of) {
        left.push(format!("wallet and journal: {data}"));
    }
    match scope {
        Scope::System => left.push(
            "the account bursar, which owns them (remove it after /var/lib/bursar, never before: another account could get its number)"
                .to_owned(),
        ),
        Scope::User if is_lingering() => {
            left.push("services of this account start with the machine (`loginctl disable-linger`)".to_owned());
        }
        Scope::User => {}
    }
    Ok(UninstallReport { scope, removed: changes.paths(), left })
}
