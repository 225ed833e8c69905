//! The data folder: its location, and the checks that it is private and writable.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;

use super::file_system::{self, Place};
use crate::edition::FolderRule;

/// A folder that exists, belongs to this account, is closed to others and is writable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
}

impl DataFolder {
    /// Opens the data folder, and creates it if it is missing.
    ///
    /// `flag` names it, else the rule of the edition.
    ///
    /// # Errors
    /// `DATA_FOLDER` if nothing names a folder and the platform has none, or if the folder is unusable; also if the folder
    /// of a portable edition is on another machine.
    pub fn resolve(rule: FolderRule, flag: Option<PathBuf>) -> Result<Self, Fault> {
        let folder = Self::open(&Self::locate(rule, flag)?)?;
        match (rule, file_system::of(folder.path())) {
            (FolderRule::NextToProgram(_), Some((name, Place::Network))) => {
                let why = format!(
                    "is on a network share ({name}), where two machines could use it at once"
                );
                Err(folder_fault(folder.path(), &why))
            }
            _local => Ok(folder),
        }
    }

    /// Returns the path that [`DataFolder::resolve`] would open, without touching it.
    ///
    /// # Errors
    /// `DATA_FOLDER` if nothing names a folder and the platform has none.
    pub fn locate(rule: FolderRule, flag: Option<PathBuf>) -> Result<PathBuf, Fault> {
        if let Some(named) = flag {
            return Ok(named);
        }
        let (found, lacks) = match rule {
            FolderRule::Account(name) => {
                let set = Self::of_environment();
                let folder = set.or_else(|| dirs::data_local_dir().map(|dir| dir.join(name)));
                (folder, "This account has no data folder")
            }
            FolderRule::NextToProgram(name) => {
                let program = std::env::current_exe().and_then(fs::canonicalize).ok();
                let folder = program.and_then(|path| Some(path.parent()?.join(name)));
                (folder, "The folder of this program cannot be determined")
            }
        };
        found.ok_or_else(|| {
            Fault::because(Code::DataFolder, format!("{lacks}: choose a data folder with --data."))
        })
    }

    /// Returns the folder that `BURSAR_DATA_DIR` names.
    pub fn of_environment() -> Option<PathBuf> {
        std::env::var_os("BURSAR_DATA_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
    }

    /// Creates the folder with mode 0700 if it is missing, and checks it.
    ///
    /// It closes the folder to other accounts if necessary.
    ///
    /// # Errors
    /// `DATA_FOLDER` if it is not a folder, belongs to another account or cannot be written.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let path = std::path::absolute(path).map_err(|error| unusable_fault(path, &error))?;
        // Remove a trailing slash: with it, the check below would follow a link.
        let path: PathBuf = path.components().collect();
        if let Err(error) = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            return Err(unusable_fault(&path, &error));
        }
        let found = fs::symlink_metadata(&path).map_err(|error| unusable_fault(&path, &error))?;
        if !found.is_dir() {
            return Err(folder_fault(&path, "is a file or a link (links are not followed)"));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(folder_fault(&path, "belongs to another account"));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
                .map_err(|error| unusable_fault(&path, &error))?;
            // A file system without modes, such as FAT, accepts the change and ignores it.
            let now = fs::symlink_metadata(&path).map_err(|error| unusable_fault(&path, &error))?;
            if now.mode() & 0o077 != 0 {
                return Err(folder_fault(
                    &path,
                    "is on a file system without file modes, so that other accounts can read it (mount it for your \
                     account alone, with umask=0077)",
                ));
            }
            tracing::warn!(folder = %path.display(), "the data folder was open to others: its mode is 0700 now");
        }
        probe(&path)?;
        Ok(Self { path })
    }

    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Creates and removes an empty file, so that a read-only folder is reported before anything begins. A full disk may
/// pass this check.
fn probe(path: &Path) -> Result<(), Fault> {
    let file = path.join(format!(".probe-{}", std::process::id()));
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&file)
        .and_then(|_file| fs::remove_file(&file))
        .map_err(|error| unusable_fault(path, &error))
}

fn unusable_fault(path: &Path, error: &io::Error) -> Fault {
    let code = Code::of_disk(error);
    let remedy = match (code, error.kind()) {
        (Code::DiskFull, _) => "Free some space",
        (_, io::ErrorKind::NotFound) => "Create its parent folder",
        (_, io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) => "Remove the file there",
        (_, io::ErrorKind::PermissionDenied) => "Give your account the right to write there",
        (_, io::ErrorKind::ReadOnlyFilesystem) => "Make its file system writable",
        _other => "Correct this",
    };
    Fault::because(
        code,
        format!(
            "The data folder {} cannot be used: {error}. {remedy}, or choose another with --data.",
            path.display()
        ),
    )
}

/// Returns the refusal of a folder that belongs to another edition.
pub(crate) fn wrong_edition(folder: &Path, of: EditionName, program: EditionName) -> Fault {
    Fault::because(
        Code::WrongEdition,
        format!(
            "The data folder {} belongs to {}, and this program is {}: run `{}`, or choose a new folder with --data \
             and bring the keys there with `seed import`.",
            folder.display(),
            of.text(),
            program.text(),
            of.program()
        ),
    )
}

fn folder_fault(path: &Path, why: &str) -> Fault {
    Fault::because(
        Code::DataFolder,
        format!("The data folder {} {why}: choose another with --data.", path.display()),
    )
}
