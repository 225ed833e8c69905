//! The paths of a service's files.

use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::service::Scope;
use crate::systemd::{SYSTEM_CREDENTIAL_FILE, UNIT};

/// The files of an installed service.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) unit: PathBuf,
    pub(crate) unlock: PathBuf,
    pub(crate) ledger: PathBuf,
    pub(crate) credential: PathBuf,
    /// Marks an installation in progress. If it still exists, the next installation checks everything again.
    pub(crate) unfinished: PathBuf,
}

impl Paths {
    /// Returns the paths of a scope, for the account of this process.
    pub(crate) fn of(scope: Scope) -> Result<Self, Fault> {
        let (units, credential) = match scope {
            Scope::System => (PathBuf::from("/etc/systemd/system"), SYSTEM_CREDENTIAL_FILE.into()),
            Scope::User => {
                let config = config_folder()?;
                (config.join("systemd/user"), config.join("bursar/password.cred"))
            }
        };
        let drop_ins = units.join(format!("{UNIT}.d"));
        Ok(Self {
            unit: units.join(UNIT),
            unlock: drop_ins.join("unlock.conf"),
            ledger: drop_ins.join("ledger.conf"),
            unfinished: drop_ins.join("unfinished"),
            credential,
        })
    }

    /// Returns the paths of our unencrypted files, the unit first.
    pub(crate) fn texts(&self) -> [&Path; 3] {
        [&self.unit, &self.unlock, &self.ledger]
    }
}

fn config_folder() -> Result<PathBuf, Fault> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config"))).ok_or_else(
        || {
            let message =
                "This account has no home folder for its units: set HOME, or use --system.";
            Fault::because(Code::NoServiceManager, message)
        },
    )
}
