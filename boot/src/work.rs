//! Performs an installation step by step, and undoes it if a step fails.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::account;
use crate::consent::Consent;
use crate::credential;
use crate::files::{self, Changes, read};
use crate::limit;
use crate::manager::{Condition, Manager, failure};
use crate::operator::Operator;
use crate::paths::Paths;
use crate::plan::Plan;
use crate::relocation::{self, RelocatedFolder};
use crate::service::{Scope, Service};
use crate::systemd::UNIT;

/// The fixed inputs of an installation.
pub(crate) struct Site<'a> {
    pub(crate) service: &'a Service,
    pub(crate) paths: &'a Paths,
    pub(crate) manager: &'a Manager,
    /// The state of the service before the installation.
    pub(crate) before: &'a Condition,
    pub(crate) operator: &'a dyn Operator,
}

/// The changes of an installation so far, which can be undone.
pub(crate) struct Work<'a> {
    site: &'a Site<'a>,
    pub(crate) changes: Changes,
    pub(crate) relocated: Option<RelocatedFolder>,
    /// The data folder, if this installation created it.
    created_folder: Option<PathBuf>,
    /// Whether an earlier installation was interrupted, so that its results must be checked again.
    was_unfinished: bool,
    /// Whether a start was tried, so that an engine may have used the data folder.
    was_started: bool,
    pub(crate) notes: Vec<String>,
}

impl<'a> Work<'a> {
    /// Begins an installation without changing anything yet.
    pub(crate) fn begin(site: &'a Site<'a>) -> Self {
        Self {
            site,
            changes: Changes::default(),
            relocated: None,
            created_folder: None,
            was_unfinished: site.paths.unfinished.exists(),
            was_started: false,
            notes: Vec::new(),
        }
    }

    /// Writes the files, starts the service and checks the unlock. Returns the state of the service.
    ///
    /// # Errors
    /// A step failed. The caller must call [`Work::undo`].
    pub(crate) fn apply(
        &mut self,
        plan: &Plan,
        consent: Option<&Consent>,
    ) -> Result<Condition, Fault> {
        let Site { service, paths, manager, before, operator } = *self.site;
        if !plan.lines.is_empty() || self.was_unfinished || !before.is_active() {
            files::create_marker(&paths.unfinished)?;
        }
        self.prepare_folder(plan)?;
        let limits = match consent {
            Some(consent) => Some((consent.daily, limit::current(service)?)),
            None => None,
        };
        // A lower limit is set before the wallet can open. A higher limit requires the unlocked wallet, so it is set
        // last.
        if let Some((wanted, current)) = limits
            && wanted != current
            && !limit::is_higher(wanted, current)
        {
            limit::set(service, wanted)?;
        }
        if let Some(consent) = consent {
            let is_stored = read(&paths.credential)?.is_some_and(|text| {
                credential::contains_password(&text, &consent.password, service.scope)
            });
            if !is_stored || !plan.lines.is_empty() {
                operator.progress("encrypting the password");
                let text = credential::encrypt(&consent.password, plan.tier, service.scope)?;
                self.changes.write(&paths.credential, &text, 0o600)?;
            }
        }
        for (path, text) in &plan.files {
            self.changes.write(path, text, 0o644)?;
        }
        for path in &plan.obsolete {
            self.changes.remove(path, true)?;
        }
        manager.must(&["daemon-reload"])?;
        if !before.enabled {
            manager.must(&["enable", UNIT])?;
        }
        let is_unchanged =
            self.changes.is_empty() && self.relocated.is_none() && !self.was_unfinished;
        let is_proven = consent.is_none() || !before.is_locked();
        let condition = if before.is_active() && is_unchanged && is_proven {
            manager.condition()?
        } else {
            self.start(consent.is_some())?
        };
        if let Some((wanted, current)) = limits
            && limit::is_higher(wanted, current)
            && let Err(fault) = limit::set(service, wanted)
        {
            let current = limit::text(current);
            self.notes
                .push(format!("The limit stays at {current} dollars a day: {}", fault.message));
        }
        files::remove_marker(&paths.unfinished);
        Ok(condition)
    }

    /// Prepares the data folder that the service will use: moves it, or creates it.
    fn prepare_folder(&mut self, plan: &Plan) -> Result<(), Fault> {
        let Site { service, operator, .. } = *self.site;
        match service.scope {
            Scope::System => {
                let account = account::ensure(&mut self.changes)?;
                if let Some(from) = &plan.folder_to_relocate {
                    operator.progress("moving the data folder");
                    self.relocated =
                        Some(relocation::move_folder(from, &service.data, account.owner)?);
                }
            }
            Scope::User if !service.data.exists() => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&service.data);
                made.map_err(|error| {
                    let data = service.data.display();
                    let message = format!("The data folder {data} cannot be created: {error}.");
                    Fault::because(Code::DataFolder, message)
                })?;
                self.created_folder = Some(service.data.clone());
            }
            Scope::User => {}
        }
        Ok(())
    }

    /// Starts the service and waits until it is ready. With `must_be_open`, also checks that the wallet is open.
    fn start(&mut self, must_be_open: bool) -> Result<Condition, Fault> {
        let Site { manager, operator, .. } = *self.site;
        operator.progress("starting the service, and waiting until the engine is ready");
        let _cleared = manager.systemctl(&["reset-failed", UNIT])?;
        self.was_started = true;
        let started = manager.systemctl(&["restart", UNIT])?;
        let condition = manager.condition()?;
        if !started.succeeded || !condition.is_active() {
            let why = failure(&condition, manager.log_command());
            let message = format!("The service did not start: {why}. Nothing was installed.");
            return Err(Fault::because(Code::ServiceFailed, message));
        }
        if must_be_open && condition.is_locked() {
            let message = "The service started, but the wallet stayed locked. Nothing was installed: run \
                           `bursar doctor`, and look at the service's log.";
            return Err(Fault::because(Code::ServiceFailed, message));
        }
        Ok(condition)
    }

    /// Undoes all changes, as far as possible.
    ///
    /// # Errors
    /// The data folder could not be moved back.
    pub(crate) fn undo(self) -> Result<(), Fault> {
        let Site { manager, before, paths, .. } = *self.site;
        // Errors are ignored: the manager may not respond, and the next run of the command corrects its units.
        if !before.is_active() || self.relocated.is_some() {
            let _best_effort = manager.systemctl(&["stop", UNIT]);
        }
        if !before.enabled {
            let _best_effort = manager.systemctl(&["disable", UNIT]);
        }
        let was_touched = self.was_started || self.relocated.is_some();
        self.changes.undo();
        if !self.was_unfinished {
            files::remove_marker(&paths.unfinished);
        }
        let moved_back = self.relocated.map_or(Ok(()), |moved| moved.undo(self.was_started));
        if let Some(made) = self.created_folder {
            let _in_use = std::fs::remove_dir(made);
        }
        let _best_effort = manager.systemctl(&["daemon-reload"]);
        let _best_effort = manager.systemctl(&["reset-failed", UNIT]);
        if before.is_active() && was_touched {
            let _best_effort = manager.systemctl(&["restart", UNIT]);
        }
        moved_back
    }
}
