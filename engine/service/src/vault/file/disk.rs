//! The individual disk operations, with the modes of files and folders. The callers decide their order. A port to
//! another system replaces only this file.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::error::WalletFileError;

/// The maximum size of a wallet file in bytes, enough for about a hundred thousand agents. A larger file is
/// neither read nor written.
pub(super) const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Creates a folder that other accounts cannot enter at any moment. Returns whether the folder was missing.
pub(super) fn create_folder(folder: &Path) -> Result<bool, WalletFileError> {
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        made => made.map_err(WalletFileError::io(folder, "create the folder"))?,
    }
    // A umask can remove the owner's rights, but cannot grant any to others.
    fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))
        .map_err(WalletFileError::io(folder, "set the mode of"))?;
    Ok(true)
}

/// Returns whether the folder exists. Refuses a folder that other accounts can access: they could put an old copy of
/// a wallet in place.
pub(super) fn check_folder(folder: &Path) -> Result<bool, WalletFileError> {
    match fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {
            check_mode(folder, found.permissions().mode(), FOLDER_MODE).map(|()| true)
        }
        Ok(_other) => {
            let source = io::ErrorKind::NotADirectory.into();
            Err(WalletFileError::io(folder, "use the folder")(source))
        }
        Err(none) if none.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(other) => Err(WalletFileError::io(folder, "read the folder")(other)),
    }
}

/// Returns the names of the files in a folder; none if the folder is missing.
pub(super) fn files_in(folder: &Path) -> Result<Vec<String>, WalletFileError> {
    let entries = match fs::read_dir(folder) {
        Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(WalletFileError::io(folder, "read the folder"))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(WalletFileError::io(folder, "read the folder"))?;
        // Our names are ASCII, so a name that is not UTF-8 is not ours.
        files.extend(entry.file_name().into_string().ok());
    }
    Ok(files)
}

/// Reads a copy. Refuses it if other accounts can read or change it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, WalletFileError> {
    let opened = match rustix::fs::open(
        path,
        // A pipe must not block the engine.
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Err(rustix::io::Errno::NOENT) => {
            return Err(WalletFileError::NotFound { file: path.to_owned() });
        }
        opened => opened.map_err(|error| WalletFileError::io(path, "open")(error.into()))?,
    };
    let file = File::from(opened);
    // The mode of the open file, not of the path: the file that is checked is the file that is read.
    let found = file.metadata().map_err(WalletFileError::io(path, "read"))?;
    if !found.is_file() {
        return Err(WalletFileError::io(path, "read")(io::Error::other(
            "it is not a regular file",
        )));
    }
    check_mode(path, found.permissions().mode(), FILE_MODE)?;
    let mut text = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut text).map_err(WalletFileError::io(path, "read"))?;
    if text.len() > MAX_FILE_BYTES {
        return Err(WalletFileError::damaged(path, "it is larger than a wallet file can be"));
    }
    Ok(text)
}

fn check_mode(path: &Path, mode: u32, wanted: u32) -> Result<(), WalletFileError> {
    let mode = mode & 0o7777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(WalletFileError::TooOpen { file: path.to_owned(), mode, wanted })
    }
}

/// Creates a file that other accounts cannot read at any moment.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let owner = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, owner)?;
    // A umask can remove the owner's rights, but cannot grant any to others.
    rustix::fs::fchmod(&file, owner)?;
    Ok(File::from(file))
}

pub(super) fn remove(path: &Path) -> Result<(), WalletFileError> {
    match fs::remove_file(path) {
        Err(none) if none.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(WalletFileError::io(path, "remove")),
    }
}

/// Makes the names in a folder durable. After a failed flush the state of the disk is unknown. The caller gets the
/// error and writes new bytes instead of flushing the same ones again.
pub(super) fn sync_folder(folder: &Path) -> Result<(), WalletFileError> {
    File::open(folder)
        .and_then(|open| open.sync_all())
        .map_err(WalletFileError::io(folder, "flush the folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_folder_is_not_reported_as_missing() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("file");
        drop(create_file(&file).unwrap());
        assert!(!check_folder(&data.path().join("missing")).unwrap());
        for wrong in [file.clone(), file.join("below")] {
            let refused = check_folder(&wrong).unwrap_err();
            assert!(matches!(refused, WalletFileError::Io { .. }), "{refused}");
        }
        assert!(files_in(&data.path().join("missing")).unwrap().is_empty());
        assert!(matches!(files_in(&file).unwrap_err(), WalletFileError::Io { .. }));
    }
}
