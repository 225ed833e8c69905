//! The changes that an installation would make: the difference between request and installed service. This module
//! writes nothing.

use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::account;
use crate::credential;
use crate::files::read;
use crate::manager::Manager;
use crate::paths::Paths;
use crate::relocation;
use crate::service::{Scope, Service, Tier};
use crate::systemd::{self, UNIT};
use crate::written::{Authorship, authorship, diff, with_digest_line};

/// The installation that the operator requests.
#[derive(Debug, Clone)]
pub struct InstallRequest {
    pub scope: Scope,
    /// The program that runs this command.
    pub program: PathBuf,
    /// The data folder of the account that runs this command.
    ///
    /// A system service has a separate data folder, to which this one can be moved.
    pub data: PathBuf,
    /// Whether the operator chose this data folder by an option.
    pub data_is_chosen: bool,
    /// Whether the service opens the wallet at each start; `None` keeps the installed choice.
    pub unlock: Option<bool>,
    /// Maximum value that agents may spend in a day while no person has opened the wallet, in dollars, or `off`.
    pub daily: Option<String>,
    /// Whether the engine may use a Ledger; `None` keeps the installed choice.
    pub ledger: Option<bool>,
}

impl InstallRequest {
    /// Returns the service to install.
    ///
    /// # Errors
    /// Those of [`Service::new`].
    pub(crate) fn service(&self) -> Result<Service, Fault> {
        let data = match self.scope {
            Scope::User => self.data.clone(),
            Scope::System => PathBuf::from(systemd::SYSTEM_DATA),
        };
        Service::new(self.scope, self.program.clone(), data)
    }
}

/// The planned changes, and their description for the operator.
pub(crate) struct Plan {
    /// The files with their new text.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// The files to remove.
    pub(crate) obsolete: Vec<PathBuf>,
    /// The changes, for the operator; empty if there are none.
    pub(crate) lines: Vec<String>,
    pub(crate) tier: Tier,
    /// The folder to move to the service's account.
    pub(crate) folder_to_relocate: Option<PathBuf>,
}

impl Plan {
    /// Compares the request with the installed service.
    ///
    /// # Errors
    /// `UNIT_EDITED` if a file was changed by hand, `BAD_INPUT` if the unattended unlock would open another wallet,
    /// or an error of finding the tier or the folder to move.
    pub(crate) fn make(
        wanted: &InstallRequest,
        service: &Service,
        paths: &Paths,
        manager: &Manager,
    ) -> Result<Self, Fault> {
        let installed_unlock = read(&paths.unlock)?;
        let tier = match (wanted.unlock, &installed_unlock) {
            (Some(true), _) => credential::tier(manager, wanted.scope)?,
            (None, Some(text)) => systemd::tier_of(text),
            (Some(false), _) | (None, None) => Tier::None,
        };
        let mut files = vec![(paths.unit.clone(), with_digest_line(&systemd::unit(service)))];
        if wanted.unlock == Some(true) {
            let text = systemd::unlock_drop_in(&paths.credential, tier);
            files.push((paths.unlock.clone(), with_digest_line(&text)));
        }
        if wanted.ledger == Some(true) {
            files.push((paths.ledger.clone(), with_digest_line(&systemd::ledger_drop_in())));
        }
        let removable = [
            (wanted.ledger, &paths.ledger),
            (wanted.unlock, &paths.unlock),
            (wanted.unlock, &paths.credential),
        ];
        let removed =
            removable.into_iter().filter(|(wanted, path)| *wanted == Some(false) && path.exists());
        let obsolete: Vec<PathBuf> = removed.map(|(_wanted, path)| path.clone()).collect();
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
            if *path == paths.unit
                && let Some(old) = before.as_deref().and_then(systemd::data_of)
                && Path::new(&old) != service.data
            {
                if installed_unlock.is_some() && wanted.unlock.is_none() {
                    let message = "The service opens the wallet of another data folder without you: add --unlock for the new one, \
                                   or --no-unlock.";
                    return Err(Fault::because(Code::BadInput, message));
                }
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
        Ok(Self { files, obsolete, lines, tier, folder_to_relocate: moves })
    }
}

/// Returns the operator's data folder if it contains a wallet and the service has none.
///
/// If an interrupted move left an old copy, `lines` gets a warning about it.
///
/// # Errors
/// `NO_WALLET` or `WALLET_EXISTS` if the operator chose a folder that cannot be moved. `IN_USE` if a service of the
/// account still uses it, or if an interrupted move left a newer folder.
fn folder_to_move(
    wanted: &InstallRequest,
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
    let interrupted = relocation::aside_path(&service.data);
    if relocation::has_wallet(&interrupted) {
        let message = format!(
            "{} is left from a move that was interrupted, and has the newest journal: rename it to {}, then run the command again.",
            interrupted.display(),
            service.data.display()
        );
        return Err(Fault::because(Code::InUse, message));
    }
    let old = relocation::aside_path(&from);
    let found = relocation::unfinished_or_new_source(&from);
    if service.data.join("journal.redb").exists() {
        if old.exists() {
            lines.push(format!(
                "{} is an old copy that an interrupted move left: remove it, because it must not be used again.",
                old.display()
            ));
        }
        let is_wanted = wanted.data_is_chosen || !relocation::has_wallet(&service.data);
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
