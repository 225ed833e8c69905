//! The state of the installed service, and the effect of a reboot.

use std::path::PathBuf;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use serde::Serialize;

use crate::files::read;
use crate::manager::{Manager, failure};
use crate::outlook::{after_reboot, console};
use crate::paths::Paths;
use crate::service::{Scope, Service, Tier};
use crate::systemd;
use crate::written::{Authorship, authorship};

/// The installed service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceReport {
    pub scope: Scope,
    pub unit: PathBuf,
    /// Whether the unit was changed by hand.
    pub edited: bool,
    pub program: PathBuf,
    pub data: PathBuf,
    /// Whether the engine runs and is ready.
    pub running: bool,
    /// The state of the engine, or the reason why it does not run.
    pub state: String,
    /// Whether the service starts by itself.
    pub enabled: bool,
    /// Number of automatic restarts since the service was last started.
    pub restarts: u32,
    pub unlock: Tier,
    pub after_reboot: String,
    /// Warnings for the operator, as sentences with the next command.
    pub notes: Vec<String>,
    pub console: String,
}

/// Reports on the service of a scope; `None` if there is none.
///
/// # Errors
/// `NO_SERVICE_MANAGER`, or an error of reading its files.
pub fn report(scope: Scope) -> Result<Option<ServiceReport>, Fault> {
    let paths = Paths::of(scope)?;
    let Some(text) = read(&paths.unit)? else { return Ok(None) };
    let manager = Manager::find(scope)?;
    let condition = manager.condition()?;
    let (data, program) = systemd::data_of(&text).zip(systemd::program_of(&text)).ok_or_else(|| {
        let message = format!(
            "{} does not start Bursar as install-service writes it: look at it with `systemctl cat bursar`.",
            paths.unit.display()
        );
        Fault::because(Code::UnitEdited, message)
    })?;
    let service = Service::for_other_platform(scope, program.into(), data.into());
    let unlock = read(&paths.unlock)?.map_or(Tier::None, |text| systemd::tier_of(&text));
    let log = manager.log_command();
    let mut notes = Vec::new();
    if !service.program.is_file() {
        notes.push(format!(
            "The program {} is gone, so the next start fails: install it there, or run install-service again.",
            service.program.display()
        ));
    } else if condition.main_pid != 0 && is_replaced(condition.main_pid) {
        notes.push("The program was replaced while the engine runs: restart the service to use the new one.".to_owned());
    }
    if !condition.enabled {
        notes.push(
            "The service is not enabled, so a reboot does not start it: run install-service again."
                .to_owned(),
        );
    }
    let running = condition.is_active();
    let state = if running { condition.text.clone() } else { failure(&condition, log) };
    Ok(Some(ServiceReport {
        scope,
        unit: paths.unit.clone(),
        edited: authorship(&text) != Authorship::Ours,
        running,
        state,
        enabled: condition.enabled,
        restarts: condition.restarts,
        unlock,
        after_reboot: if condition.enabled {
            after_reboot(&service, unlock)
        } else {
            "the engine does not start.".to_owned()
        },
        notes,
        console: console(&service),
        program: service.program,
        data: service.data,
    }))
}

/// Returns whether the program file of a running process was replaced on the disk.
fn is_replaced(pid: u32) -> bool {
    let target = std::fs::read_link(format!("/proc/{pid}/exe"));
    target.is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)"))
}
