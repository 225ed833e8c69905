//! Installs the service: shows what it will write, asks, writes, starts, and waits until the engine is ready. A step that
//! fails undoes those before it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use secrecy::SecretString;
use serde::Serialize;

use crate::account::{self, Moved};
use crate::commands::run;
use crate::credential;
use crate::files::{self, Changes, read};
use crate::limit::{self, Daily};
use crate::manager::{Condition, Manager, failure};
use crate::operator::Operator;
use crate::paths::Paths;
use crate::service::{Platform, Scope, Service, Tier};
use crate::systemd::{self, UNIT};
use crate::written::{Authorship, authorship, diff, marked};
use crate::{launchd, task_scheduler};

/// What the operator asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub scope: Scope,
    /// The program that runs this command.
    pub program: PathBuf,
    /// The data folder of the account that runs this command. A system service has its own; this one can be moved there.
    pub data: PathBuf,
    /// The operator chose this data folder by an option.
    pub data_is_chosen: bool,
    /// Open the wallet at each start, or no longer; `None` keeps what is installed.
    pub unlock: Option<bool>,
    /// The most that agents may spend in a day while no person has opened the wallet, in dollars, or `off`.
    pub daily: Option<String>,
    /// Let the engine use a Ledger, or no longer; `None` keeps what is installed.
    pub ledger: Option<bool>,
}

/// What an installation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installed {
    pub scope: Scope,
    pub unit: PathBuf,
    pub data: PathBuf,
    /// The files that were written or removed, and the folder that was moved; empty if all was so before.
    pub changed: Vec<PathBuf>,
    pub unlock: Tier,
    /// What the engine does now.
    pub state: String,
    pub after_reboot: String,
    /// The command that opens the console.
    pub console: String,
    /// What needs attention, as sentences.
    pub notes: Vec<String>,
}

/// Returns the files of a service as text, without looking at the machine's service manager.
pub fn preview(platform: Platform, wanted: &Wanted) -> Result<String, Fault> {
    match platform {
        Platform::Linux => {
            let service = service(wanted)?;
            let mut text = format!("# {UNIT}\n{}", systemd::unit(&service));
            if wanted.unlock == Some(true) {
                let paths = Paths::of(wanted.scope)?;
                let has_tpm = Path::new(credential::TPM).exists();
                let tier = if has_tpm { Tier::Tpm } else { Tier::HostKey };
                let drop_in = systemd::unlock_drop_in(&paths.credential, tier);
                text.push_str(&format!("\n# {UNIT}.d/unlock.conf\n{drop_in}"));
            }
            if wanted.ledger == Some(true) {
                let drop_in = systemd::ledger_drop_in();
                text.push_str(&format!("\n# {UNIT}.d/ledger.conf\n{drop_in}"));
            }
            Ok(text)
        }
        Platform::Macos => {
            let home =
                std::env::var_os("HOME").map_or_else(|| PathBuf::from("/Users/you"), PathBuf::from);
            let service =
                Service::elsewhere(Scope::User, wanted.program.clone(), wanted.data.clone());
            Ok(launchd::agent(&service, &home.join("Library/Logs/bursar")))
        }
        Platform::Windows => {
            let named = std::env::var("USERNAME").or_else(|_unset| std::env::var("USER"));
            let account = named.unwrap_or_else(|_unset| "you".to_owned());
            let service =
                Service::elsewhere(wanted.scope, wanted.program.clone(), wanted.data.clone());
            Ok(task_scheduler::task(&service, &account))
        }
    }
}

fn service(wanted: &Wanted) -> Result<Service, Fault> {
    let data = match wanted.scope {
        Scope::User => wanted.data.clone(),
        Scope::System => PathBuf::from(systemd::SYSTEM_DATA),
    };
    Service::new(wanted.scope, wanted.program.clone(), data)
}

/// Installs the service, or brings an installed one up to date.
///
/// # Errors
/// Nothing has changed then: `NO_SERVICE_MANAGER`, `NEEDS_ROOT`, `BAD_INPUT`, `UNIT_EDITED`, `ENGINE_RUNNING`, `DECLINED`,
/// `CONFIRMATION_NEEDED`, `WRONG_PASSWORD`, or `SERVICE_FAILED` if the service does not start.
pub fn install(wanted: &Wanted, operator: &dyn Operator) -> Result<Installed, Fault> {
    let service = service(wanted)?;
    check_account(&service)?;
    let manager = Manager::find(wanted.scope)?;
    let paths = Paths::of(wanted.scope)?;
    let plan = Plan::make(wanted, &service, &paths, &manager)?;
    let before = manager.condition()?;
    if !before.is_active() {
        account::lock(&service.data)?;
    }
    let unattended = if wanted.unlock == Some(true) {
        Some(ask_unattended(wanted, &service, &manager, operator, &plan)?)
    } else {
        None
    };
    if !plan.lines.is_empty() {
        let mut lines = plan.lines.clone();
        lines.push(format!("A reboot then: {}", plan.after_reboot));
        if !operator.confirm(&lines, "Write this and start the service?")? {
            return Err(Fault::new(Code::Declined));
        }
    }
    let mut work = Work::default();
    let applied =
        work.apply(&plan, &service, &paths, &manager, &before, unattended.as_ref(), operator);
    match applied {
        Ok(condition) => {
            let (mut changed, mut notes) = (work.changes.paths(), work.notes);
            if wanted.scope == Scope::User && !lingers() {
                let offered = offer_lingering(operator, plan.lines.is_empty());
                notes.extend(offered.unwrap_or_else(|fault| Some(fault.message)));
            }
            if let Some(moved) = &work.moved {
                changed.push(service.data.clone());
                if let Err(fault) = moved.finish() {
                    notes.push(format!(
                        "The old data folder stays, and must not be used: {}",
                        fault.message
                    ));
                }
            }
            Ok(Installed {
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
            if let Err(why) = work.undo(&manager, &before, &paths) {
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

/// What will be written, and what the operator must see first.
struct Plan {
    /// The files with their new text.
    files: Vec<(PathBuf, String)>,
    /// Files to remove.
    obsolete: Vec<PathBuf>,
    /// What changes, for the operator; empty if nothing does.
    lines: Vec<String>,
    tier: Tier,
    /// The folder to move to the account of the service.
    moves: Option<PathBuf>,
    after_reboot: String,
}

impl Plan {
    fn make(
        wanted: &Wanted,
        service: &Service,
        paths: &Paths,
        manager: &Manager,
    ) -> Result<Self, Fault> {
        let installed_unlock = read(&paths.unlock)?;
        let tier = match (wanted.unlock, &installed_unlock) {
            (Some(true), _) => credential::tier(manager, wanted.scope)?,
            (None, Some(text)) => tier_of(text),
            (Some(false), _) | (None, None) => Tier::None,
        };
        let mut files = vec![(paths.unit.clone(), marked(&systemd::unit(service)))];
        if wanted.unlock == Some(true) {
            let text = systemd::unlock_drop_in(&paths.credential, tier);
            files.push((paths.unlock.clone(), marked(&text)));
        }
        let mut obsolete = Vec::new();
        if wanted.ledger == Some(true) {
            files.push((paths.ledger.clone(), marked(&systemd::ledger_drop_in())));
        }
        let removable = [
            (wanted.ledger, &paths.ledger),
            (wanted.unlock, &paths.unlock),
            (wanted.unlock, &paths.credential),
        ];
        let removed =
            removable.into_iter().filter(|(wanted, path)| *wanted == Some(false) && path.exists());
        obsolete.extend(removed.map(|(_wanted, path)| path.clone()));
        let mut lines = Vec::new();
        for (path, text) in &files {
            let before = read(path)?;
            let name = path.display().to_string();
            let changes = diff(&name, before.as_deref().unwrap_or_default(), text);
            match before.as_deref().map(authorship) {
                Some(Authorship::Edited | Authorship::Foreign) if !changes.is_empty() => {
                    let message = format!(
                        "{name} was changed by hand, so it stays as it is. Move your changes to a drop-in \
                         (`systemctl edit`), remove the file, and run the command again. The difference:\n{}",
                        changes.join("\n")
                    );
                    return Err(Fault::because(Code::UnitEdited, message));
                }
                _ours_or_none => lines.extend(changes),
            }
            let moves_on = before.as_deref().and_then(systemd::data_of);
            let moves_on = moves_on.is_some_and(|old| Path::new(&old) != service.data);
            if *path == paths.unit
                && moves_on
                && installed_unlock.is_some()
                && wanted.unlock.is_none()
            {
                let message = "The service opens the wallet of another data folder without you: say --unlock for the new one, \
                               or --no-unlock.";
                return Err(Fault::because(Code::BadInput, message));
            }
            if *path == paths.unit
                && let Some(old) = before.as_deref().and_then(systemd::data_of)
                && Path::new(&old) != service.data
            {
                lines.push(format!(
                    "The service will use another data folder: {} instead of {old}. The wallet in the old one stays there.",
                    service.data.display()
                ));
            }
        }
        lines.extend(obsolete.iter().map(|path| format!("- {} (removed)", path.display())));
        let moves = folder_to_move(wanted, service, &mut lines)?;
        if let Some(from) = &moves {
            lines.push(format!(
                "The data folder {} moves to {}, which belongs to the account {}.",
                from.display(),
                service.data.display(),
                account::ACCOUNT
            ));
        }
        let after_reboot = after_reboot(service, tier);
        Ok(Self { files, obsolete, lines, tier, moves, after_reboot })
    }
}

/// Returns the operator's folder, if it has a wallet and the service has none. An old copy that an interrupted move left is
/// named in `lines`.
///
/// # Errors
/// `NO_WALLET` or `WALLET_EXISTS` if the operator named a folder that cannot move, `IN_USE` if a service of the account
/// still uses it.
fn folder_to_move(
    wanted: &Wanted,
    service: &Service,
    lines: &mut Vec<String>,
) -> Result<Option<PathBuf>, Fault> {
    if service.scope == Scope::User || (wanted.data_is_chosen && wanted.data == service.data) {
        return Ok(None);
    }
    let operator = std::env::var("SUDO_USER").ok().filter(|name| name != "root");
    let home = match operator {
        Some(name) => account::find(&name)?.map(|found| found.home),
        None => None,
    };
    let from = match (&home, wanted.data_is_chosen) {
        (_, true) => wanted.data.clone(),
        (Some(home), false) => home.join(".local/share/bursar"),
        (None, false) => return Ok(None),
    };
    let interrupted = account::aside(&service.data);
    if account::has_wallet(&interrupted) {
        let message = format!(
            "{} is left from a move that was interrupted, and has the newest journal: rename it to {}, then run the command again.",
            interrupted.display(),
            service.data.display()
        );
        return Err(Fault::because(Code::InUse, message));
    }
    let old = account::aside(&from);
    let found = account::to_be_moved(&from);
    if service.data.join("journal.redb").exists() {
        if old.exists() {
            lines.push(format!(
                "{} is an old copy that an interrupted move left: remove it, because it must not be used again.",
                old.display()
            ));
        }
        let is_wanted = wanted.data_is_chosen || !account::has_wallet(&service.data);
        if is_wanted && found.is_some_and(|found| found != old) {
            let message = format!(
                "{} has a journal already, so {} is not moved there: remove the one that you do not need.",
                service.data.display(),
                from.display()
            );
            return Err(Fault::because(Code::WalletExists, message));
        }
        return Ok(None);
    }
    if found.is_none() {
        if wanted.data_is_chosen {
            let message = format!("{} has no wallet to move: check --data.", from.display());
            return Err(Fault::because(Code::NoWallet, message));
        }
        return Ok(None);
    }
    if home.is_some_and(|home| home.join(".config/systemd/user").join(UNIT).exists()) {
        let message = "A service of your account uses this wallet: run `bursar uninstall-service` without sudo first.";
        return Err(Fault::because(Code::InUse, message));
    }
    Ok(Some(from))
}

/// Checks that this account may install this service.
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

/// The operator's consent to open the wallet without a person.
struct Unattended {
    password: SecretString,
    daily: Daily,
}

fn ask_unattended(
    wanted: &Wanted,
    service: &Service,
    manager: &Manager,
    operator: &dyn Operator,
    plan: &Plan,
) -> Result<Unattended, Fault> {
    let tier = credential::tier(manager, wanted.scope)?;
    let given = wanted.daily.as_deref().map(Daily::parse).transpose()?;
    let moved = plan.moves.as_deref().and_then(account::to_be_moved);
    let folder = moved.unwrap_or_else(|| service.data.clone());
    if !account::has_wallet(&folder) {
        let message = "There is no wallet to open yet: install the service without --unlock, create a wallet, then run \
                       the command with --unlock.";
        return Err(Fault::because(Code::NoWallet, message));
    }
    if !operator.confirm(&credential::explanation(tier), "Let the wallet open without you?")? {
        return Err(Fault::new(Code::Declined));
    }
    let daily = match given {
        Some(daily) => daily,
        None => Daily::parse(&operator.line(
            "The most that agents may spend in a day while the wallet was opened without you, in dollars (or off): ",
            "--daily",
        )?)?,
    };
    let password = operator.password()?;
    operator.progress("checking the password");
    operator.verify(&folder, &password)?;
    Ok(Unattended { password, daily })
}

/// Changes that can be undone.
#[derive(Default)]
struct Work {
    changes: Changes,
    moved: Option<Moved>,
    /// The data folder, if it was created.
    made: Option<PathBuf>,
    /// An earlier installation was interrupted, so nothing that it left is proven.
    was_unfinished: bool,
    /// A start was tried, so an engine may have used the data folder.
    was_started: bool,
    notes: Vec<String>,
}

impl Work {
    #[expect(clippy::too_many_arguments, reason = "the parts of one installation")]
    fn apply(
        &mut self,
        plan: &Plan,
        service: &Service,
        paths: &Paths,
        manager: &Manager,
        before: &Condition,
        unattended: Option<&Unattended>,
        operator: &dyn Operator,
    ) -> Result<Condition, Fault> {
        let was_unfinished = paths.unfinished.exists();
        self.was_unfinished = was_unfinished;
        if !plan.lines.is_empty() || was_unfinished || !before.is_active() {
            files::mark(&paths.unfinished)?;
        }
        self.prepare_folder(plan, service, operator)?;
        let limits = match unattended {
            Some(unattended) => Some((unattended.daily, limit::current(service)?)),
            None => None,
        };
        // A lower limit holds before the wallet can open. A higher one needs the open wallet, and comes last.
        if let Some((wanted, current)) = limits
            && wanted != current
            && !wanted.raises(current)
        {
            limit::set(service, wanted)?;
        }
        if let Some(unattended) = unattended {
            let is_stored = read(&paths.credential)?
                .is_some_and(|text| credential::holds(&text, &unattended.password, service.scope));
            if !is_stored || !plan.lines.is_empty() {
                operator.progress("encrypting the password");
                let text = credential::encrypt(&unattended.password, plan.tier, service.scope)?;
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
        let is_unchanged = self.changes.is_empty() && self.moved.is_none() && !was_unfinished;
        let is_proven = unattended.is_none() || !before.is_locked();
        let condition = if before.is_active() && is_unchanged && is_proven {
            manager.condition()?
        } else {
            self.start(manager, unattended.is_some(), operator)?
        };
        if let Some((wanted, current)) = limits
            && wanted.raises(current)
            && let Err(fault) = limit::set(service, wanted)
        {
            let current = current.text();
            self.notes
                .push(format!("The limit stays at {current} dollars a day: {}", fault.message));
        }
        files::unmark(&paths.unfinished);
        Ok(condition)
    }

    /// Makes the data folder that the service will use.
    fn prepare_folder(
        &mut self,
        plan: &Plan,
        service: &Service,
        operator: &dyn Operator,
    ) -> Result<(), Fault> {
        match service.scope {
            Scope::System => {
                let account = account::ensure(&mut self.changes)?;
                if let Some(from) = &plan.moves {
                    operator.progress("moving the data folder");
                    self.moved = Some(account::move_folder(from, &service.data, &account)?);
                }
            }
            Scope::User if !service.data.exists() => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&service.data);
                made.map_err(|error| {
                    let data = service.data.display();
                    let message = format!("The data folder {data} cannot be created: {error}.");
                    Fault::because(Code::DataFolder, message)
                })?;
                self.made = Some(service.data.clone());
            }
            Scope::User => {}
        }
        Ok(())
    }

    /// Starts the service, waits until it is ready, and checks that the wallet is open if it must be.
    fn start(
        &mut self,
        manager: &Manager,
        must_be_open: bool,
        operator: &dyn Operator,
    ) -> Result<Condition, Fault> {
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

    /// Puts everything back.
    ///
    /// # Errors
    /// The data folder could not be moved back.
    fn undo(self, manager: &Manager, before: &Condition, paths: &Paths) -> Result<(), Fault> {
        // The manager may not answer. The next run of the command puts its units in order.
        if !before.is_active() || self.moved.is_some() {
            let _best_effort = manager.systemctl(&["stop", UNIT]);
        }
        if !before.enabled {
            let _best_effort = manager.systemctl(&["disable", UNIT]);
        }
        let was_touched = self.was_started || self.moved.is_some();
        self.changes.undo();
        if !self.was_unfinished {
            files::unmark(&paths.unfinished);
        }
        let moved_back = self.moved.map_or(Ok(()), |moved| moved.undo(self.was_started));
        if let Some(made) = self.made {
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

/// Returns the tier that a drop-in of ours names.
pub(crate) fn tier_of(drop_in: &str) -> Tier {
    if drop_in.contains(Tier::Tpm.text()) { Tier::Tpm } else { Tier::HostKey }
}

/// Returns what happens after a reboot, as a sentence.
pub(crate) fn after_reboot(service: &Service, tier: Tier) -> String {
    let when = match service.scope {
        Scope::System => "the engine starts with the machine",
        Scope::User if lingers() => "the engine starts with the machine",
        Scope::User => "the engine starts when you log in",
    };
    let opened = match tier {
        Tier::None => format!("the wallet stays locked until `{} wallet open`", console(service)),
        Tier::HostKey | Tier::Tpm => format!("the wallet opens without you ({})", tier.text()),
    };
    format!("{when}, and {opened}.")
}

/// Returns the command that opens the console on the service's data folder.
pub(crate) fn console(service: &Service) -> String {
    let shown = |path: &Path| {
        let text = path.display().to_string();
        let is_plain = text.chars().all(|one| one.is_ascii_alphanumeric() || "/._-".contains(one));
        if is_plain { text } else { format!("'{text}'") }
    };
    match service.scope {
        Scope::System => {
            format!(
                "sudo -u {} {} --data {}",
                account::ACCOUNT,
                shown(&service.program),
                shown(&service.data)
            )
        }
        Scope::User => format!("bursar --data {}", shown(&service.data)),
    }
}

/// Offers to start the account's services with the machine. Returns a note if that needs another command.
/// `is_known` states that the command changed nothing and asked nothing.
fn offer_lingering(operator: &dyn Operator, is_known: bool) -> Result<Option<String>, Fault> {
    let lines = ["The service starts when you log in, and stops when you log out.".to_owned()];
    let name = account_name().unwrap_or_default();
    let command = format!("loginctl enable-linger {name}");
    if is_known || !operator.confirm(&lines, "Start it with the machine, and keep it running?")? {
        return Ok(Some(format!("To start the service with the machine: {command}")));
    }
    let enabled = run("loginctl", &["--no-ask-password", "enable-linger"])?;
    let is_enabled = enabled.is_some_and(|outcome| outcome.succeeded);
    Ok((!is_enabled).then(|| {
        format!("This account may not start services with the machine: run `sudo {command}`.")
    }))
}

/// Returns whether the account's services start with the machine.
pub(crate) fn lingers() -> bool {
    account_name().is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists())
}

/// Returns the name of this account.
pub(crate) fn account_name() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let found = run("getent", &["passwd", "--", &uid]).ok().flatten()?;
    found.out.split(':').next().map(str::to_owned).filter(|name| !name.is_empty())
}
