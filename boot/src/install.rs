//! Installs the service: shows the files, asks, writes them, starts the service, and waits until the engine is ready.
//!
//! If a step fails, the earlier ones are undone.

use std::path::PathBuf;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use serde::Serialize;

use crate::account;
use crate::consent;
use crate::lingering::{self, is_lingering};
use crate::manager::Manager;
use crate::operator::Operator;
use crate::outlook::{after_reboot, console};
use crate::paths::Paths;
use crate::plan::{InstallRequest, Plan};
use crate::relocation;
use crate::service::{Scope, Service, Tier};
use crate::work::{Site, Work};

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstallReport {
    pub scope: Scope,
    pub unit: PathBuf,
    pub data: PathBuf,
    /// The files that were written or removed, and the folder that was moved; empty if nothing changed.
    pub changed: Vec<PathBuf>,
    pub unlock: Tier,
    /// The state of the engine now.
    pub state: String,
    pub after_reboot: String,
    /// The command that opens the console.
    pub console: String,
    /// Warnings for the operator, as sentences.
    pub notes: Vec<String>,
}

/// Installs the service, or updates an installed one.
///
/// # Errors
/// `NO_SERVICE_MANAGER`, `NEEDS_ROOT`, `BAD_INPUT`, `UNIT_EDITED`, `ENGINE_RUNNING`, `DECLINED`,
/// `CONFIRMATION_NEEDED`, `WRONG_PASSWORD`, or `SERVICE_FAILED` if the service does not start. Nothing is installed
/// then, except that a new account and a lowered limit stay.
pub fn install(wanted: &InstallRequest, operator: &dyn Operator) -> Result<InstallReport, Fault> {
    let service = wanted.service()?;
    check_account(&service)?;
    let manager = Manager::find(wanted.scope)?;
    let paths = Paths::of(wanted.scope)?;
    let plan = Plan::make(wanted, &service, &paths, &manager)?;
    let before = manager.condition()?;
    if !before.is_active() {
        relocation::lock(&service.data)?;
    }
    let consent = if wanted.unlock == Some(true) {
        Some(consent::ask(wanted, &plan, &service, operator)?)
    } else {
        None
    };
    if !plan.lines.is_empty() {
        let mut lines = plan.lines.clone();
        lines.push(format!("A reboot then: {}", after_reboot(&service, plan.tier)));
        if !operator.confirm(&lines, "Write this and start the service?")? {
            return Err(Fault::new(Code::Declined));
        }
    }
    let site =
        Site { service: &service, paths: &paths, manager: &manager, before: &before, operator };
    let mut work = Work::begin(&site);
    match work.apply(&plan, consent.as_ref()) {
        Ok(condition) => {
            let (mut changed, mut notes) = (work.changes.paths(), work.notes);
            if wanted.scope == Scope::User && !is_lingering() {
                let offered = lingering::offer_lingering(operator, plan.lines.is_empty());
                notes.extend(offered.unwrap_or_else(|fault| Some(fault.message)));
            }
            if let Some(moved) = &work.relocated {
                changed.push(service.data.clone());
                if let Err(fault) = moved.finish() {
                    notes.push(format!(
                        "The old data folder stays, and must not be used: {}",
                        fault.message
                    ));
                }
            }
            Ok(InstallReport {
                scope: wanted.scope,
                unit: paths.unit.clone(),
                data: service.data.clone(),
                changed,
                unlock: plan.tier,
                state: condition.text,
                after_reboot: after_reboot(&service, plan.tier),
                console: console(&service),
                notes,
            })
        }
        Err(mut fault) => {
            if let Err(why) = work.undo() {
                fault.message.push_str(&format!(
                    "\nThe data folder could not be moved back, so the wallet is in {}: {}",
                    service.data.display(),
                    why.message
                ));
            }
            Err(fault)
        }
    }
}

/// Checks that the account of this process may install this service.
fn check_account(service: &Service) -> Result<(), Fault> {
    let is_root = rustix::process::geteuid().is_root();
    match service.scope {
        Scope::System if !is_root => Err(Fault::because(
            Code::NeedsRoot,
            format!(
                "A service of the machine needs root: run `sudo {} install-service --system`.",
                service.program.display()
            ),
        )),
        Scope::System => account::program_fault(&service.program).map_or(Ok(()), Err),
        Scope::User if is_root => Err(Fault::because(
            Code::BadInput,
            "The engine must not run as root: run the command as the account that uses the wallet, or use --system.",
        )),
        Scope::User => Ok(()),
    }
}
