//! Moves a data folder to another account. At no time could an engine open two copies of it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::process::{Gid, Uid};
use sha2::{Digest, Sha256};

use crate::account::Owner;

/// Files of a running engine, which are not moved.
const ENGINE_FILES: [&str; 3] = ["engine.lock", "control.json", "control.sock"];

/// A folder that was moved.
///
/// The old folder is kept under another name until the service runs.
#[derive(Debug)]
pub(crate) struct RelocatedFolder {
    from: PathBuf,
    aside: PathBuf,
    to: PathBuf,
    /// The account that owned the old folder.
    owner: Owner,
}

impl RelocatedFolder {
    /// Deletes the old folder, because the new one is in use.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        fs::remove_dir_all(&self.aside).map_err(|error| unusable_folder(&self.aside, &error))
    }

    /// Moves the data back.
    ///
    /// If an engine may have used the new folder, its present content is moved back. Otherwise the old folder gets
    /// its name back, and the unused copy is deleted.
    ///
    /// # Errors
    /// The data could not be moved back, so the wallet stays in the new folder.
    pub(crate) fn undo(self, was_started: bool) -> Result<(), Fault> {
        if was_started {
            let back = move_folder(&self.to, &self.from, self.owner)?;
            // The data is back. No engine opens the copies that are left under other names.
            let _left = (self.finish(), back.finish());
            return Ok(());
        }
        let incoming = incoming_path(&self.to);
        let failed = |error| unusable_folder(&self.to, &error);
        fs::rename(&self.to, &incoming).map_err(failed)?;
        if let Err(error) = fs::rename(&self.aside, &self.from) {
            fs::rename(&incoming, &self.to).map_err(failed)?;
            return Err(failed(error));
        }
        let _left = fs::remove_dir_all(&incoming);
        Ok(())
    }
}

/// Returns the name of a copy that is not yet complete.
fn incoming_path(to: &Path) -> PathBuf {
    PathBuf::from(format!("{}.incoming", to.display()))
}

/// Returns the name that the old folder has during a move.
pub(crate) fn aside_path(from: &Path) -> PathBuf {
    let mut name = from.as_os_str().to_owned();
    name.push(".moved");
    PathBuf::from(name)
}

/// Returns whether a data folder contains a wallet.
pub(crate) fn has_wallet(folder: &Path) -> bool {
    let found = fs::read_dir(folder.join("wallets"));
    found.is_ok_and(|entries| {
        entries.flatten().any(|one| one.path().extension().is_some_and(|end| end == "wallet"))
    })
}

/// Returns the folder to move: `from`, or the folder that an interrupted move has renamed.
pub(crate) fn unfinished_or_new_source(from: &Path) -> Option<PathBuf> {
    [from.to_owned(), aside_path(from)].into_iter().find(|folder| has_wallet(folder))
}

/// Moves a data folder to another account.
///
/// First the copy is completed and synced to the disk. Then the old folder is renamed, and only after that does the
/// new one get its name. So there are never two folders that an engine would open.
///
/// # Errors
/// `NO_WALLET` if there is no wallet to move, `ENGINE_RUNNING` if an engine uses the folder, `WALLET_EXISTS` if the
/// new folder has a journal, `DATA_FOLDER` if it cannot be copied. Nothing has changed then.
pub(crate) fn move_folder(
    from: &Path,
    to: &Path,
    new_owner: Owner,
) -> Result<RelocatedFolder, Fault> {
    move_folder_with_hook(from, to, new_owner, || ())
}

/// Like [`move_folder`]; calls `copied` once the copy is complete, before the old folder is renamed.
fn move_folder_with_hook(
    from: &Path,
    to: &Path,
    new_owner: Owner,
    copied: impl FnOnce(),
) -> Result<RelocatedFolder, Fault> {
    let (source, aside) = (unfinished_or_new_source(from), aside_path(from));
    let source = source.ok_or_else(|| {
        Fault::because(Code::NoWallet, format!("{} has no wallet to move.", from.display()))
    })?;
    if source != aside && aside.exists() {
        let message =
            format!("{} is in the way: look at it, and remove it if it is old.", aside.display());
        return Err(Fault::because(Code::DataFolder, message));
    }
    let folder = open_folder(&source).map_err(|error| unusable_folder(&source, &error))?;
    let found =
        rustix::fs::fstat(&folder).map_err(|error| unusable_folder(&source, &error.into()))?;
    let owner = Owner { uid: found.st_uid, gid: found.st_gid };
    let lock = lock(&source)?;
    if to.join("journal.redb").exists() {
        let message = format!(
            "{} has a journal already: look at it, and remove the folder if it has no wallet.",
            to.display()
        );
        return Err(Fault::because(Code::WalletExists, message));
    }
    let incoming = incoming_path(to);
    let moved = RelocatedFolder { from: from.to_owned(), aside, to: to.to_owned(), owner };
    let staged = stage(&folder, &incoming, &moved, new_owner).and_then(|()| {
        copied();
        if source != moved.aside {
            fs::rename(&source, &moved.aside)?;
        }
        Ok(())
    });
    if let Err(error) = staged {
        let _best_effort = fs::remove_dir_all(&incoming);
        return Err(unusable_folder(&source, &error));
    }
    drop(lock);
    let placed =
        sync(&moved.aside).and_then(|()| fs::rename(&incoming, to)).and_then(|()| sync(to));
    match placed {
        Ok(()) => Ok(moved),
        Err(error) => {
            // Hides the new folder before the old one gets its name back.
            let is_hidden = incoming.exists() || fs::rename(to, &incoming).is_ok();
            if is_hidden {
                let _best_effort = fs::rename(&moved.aside, from);
                let _best_effort = fs::remove_dir_all(&incoming);
            }
            Err(unusable_folder(to, &error))
        }
    }
}

/// Copies the folder next to its new place, and removes an empty folder from that place.
fn stage(
    folder: &OwnedFd,
    incoming: &Path,
    moved: &RelocatedFolder,
    new_owner: Owner,
) -> io::Result<()> {
    if incoming.exists() {
        fs::remove_dir_all(incoming)?;
    }
    copy(folder, incoming, moved.owner, new_owner)?;
    // Removes the folder only if it is empty; it may also be missing.
    match fs::remove_dir(&moved.to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _gone => Ok(()),
    }
}

/// Locks a data folder as an engine does; `None` if the folder has no lock file, because no engine has ever used it.
///
/// # Errors
/// `ENGINE_RUNNING` if an engine uses it.
pub(crate) fn lock(folder: &Path) -> Result<Option<File>, Fault> {
    let path = folder.join("engine.lock");
    let file = match OpenOptions::new().read(true).write(true).custom_flags(NOFOLLOW).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable_folder(&path, &error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(_held) => {
            let message = format!(
                "An engine or a command is using the data folder {}: stop it, then run the command again.",
                folder.display()
            );
            Err(Fault::because(Code::EngineRunning, message))
        }
    }
}

const NOFOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Copies the regular files and folders that belong to `owner`, and reads each copy back.
///
/// The copy goes through open descriptors, so another program of the owner's account cannot substitute a link.
fn copy(from: &OwnedFd, to: &Path, owner: Owner, new_owner: Owner) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(new_owner.uid), Gid::from_raw(new_owner.gid));
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = OsStr::from_bytes(name.to_bytes());
        if text == "." || text == ".." || ENGINE_FILES.iter().any(|of_engine| text == *of_engine) {
            continue;
        }
        let odd = |what: &str| {
            io::Error::other(format!("{} {what}", text.to_string_lossy().escape_debug()))
        };
        // Non-blocking, so that a pipe in the folder cannot block this command.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(from, name, flags, Mode::empty());
        let source = opened.map_err(|error| odd(&format!("cannot be opened: {error}")))?;
        let found = rustix::fs::fstat(&source)?;
        if found.st_uid != owner.uid {
            return Err(odd("belongs to another account"));
        }
        let target = to.join(text);
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => copy(&source, &target, owner, new_owner)?,
            FileType::RegularFile => {
                let mut source = File::from(source);
                let mut copied = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&target)?;
                let wanted = transfer(&mut source, Some(&mut copied))?;
                rustix::fs::fchown(&copied, Some(uid), Some(gid))?;
                copied.sync_all()?;
                copied.seek(SeekFrom::Start(0))?;
                if transfer(&mut copied, None)? != wanted {
                    return Err(odd("was not copied correctly"));
                }
            }
            _other => return Err(odd("is neither a file nor a folder")),
        }
    }
    let folder = File::open(to)?;
    rustix::fs::fchown(&folder, Some(uid), Some(gid))?;
    folder.sync_all()
}

/// Reads a file, copies it to `to` if there is one, and returns the digest of the data.
fn transfer(from: &mut File, mut to: Option<&mut File>) -> io::Result<[u8; 32]> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 65_536]);
    loop {
        let count = from.read(&mut buffer)?;
        let part = buffer.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Ok(hash.finalize().into());
        }
        hash.update(part);
        if let Some(to) = &mut to {
            to.write_all(part)?;
        }
    }
}

/// Syncs the directory entry of a path to the disk.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn unusable_folder(path: &Path, error: &io::Error) -> Fault {
    let message = format!("{} cannot be moved or used: {error}.", path.display());
    Fault::because(Code::DataFolder, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn current_owner() -> Owner {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Owner { uid, gid }
    }

    fn folder(root: &Path) -> PathBuf {
        let from = root.join("data");
        fs::create_dir_all(from.join("wallets")).unwrap();
        for (name, text) in [
            ("journal.redb", "j"),
            ("wallets/main.wallet", "w"),
            ("engine.lock", ""),
            ("control.json", "{}"),
        ] {
            fs::write(from.join(name), text).unwrap();
        }
        from
    }

    #[test]
    fn a_move_leaves_one_folder_and_can_be_undone() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        let moved = move_folder(&from, &to, current_owner()).unwrap();
        assert!(!from.exists() && !to.join("engine.lock").exists());
        assert_eq!(fs::read_to_string(to.join("wallets/main.wallet")).unwrap(), "w");
        assert_eq!(fs::metadata(to.join("journal.redb")).unwrap().mode() & 0o777, 0o600);
        moved.undo(false).unwrap();
        assert!(from.join("journal.redb").is_file() && !to.exists());
        // In this case an engine has used the new folder.
        let moved = move_folder(&from, &to, current_owner()).unwrap();
        fs::write(to.join("journal.redb"), "newer").unwrap();
        moved.undo(true).unwrap();
        assert_eq!(fs::read_to_string(from.join("journal.redb")).unwrap(), "newer");
        assert!(!to.exists() && !aside_path(&from).exists());
        move_folder(&from, &to, current_owner()).unwrap().finish().unwrap();
        assert!(to.join("journal.redb").is_file());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_engine_can_use_the_folder_during_the_copy() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        let mut code = None;
        let moved = move_folder_with_hook(&from, &to, current_owner(), || {
            code = lock(&from).err().map(|one| one.code)
        });
        moved.unwrap();
        assert_eq!(code, Some(Code::EngineRunning));
    }

    #[test]
    fn a_move_that_was_interrupted_is_continued() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        fs::rename(&from, aside_path(&from)).unwrap();
        fs::create_dir(root.path().join("to.incoming")).unwrap();
        assert_eq!(unfinished_or_new_source(&from), Some(aside_path(&from)));
        move_folder(&from, &to, current_owner()).unwrap().finish().unwrap();
        assert!(to.join("journal.redb").is_file() && unfinished_or_new_source(&from).is_none());
    }

    #[test]
    fn a_folder_in_use_and_one_with_links_stay_where_they_are() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        let held = lock(&from).unwrap().unwrap();
        assert_eq!(move_folder(&from, &to, current_owner()).unwrap_err().code, Code::EngineRunning);
        drop(held);
        std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
        assert_eq!(move_folder(&from, &to, current_owner()).unwrap_err().code, Code::DataFolder);
        assert!(from.join("journal.redb").is_file() && !to.exists());
        fs::remove_file(from.join("link")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("journal.redb"), "other").unwrap();
        assert_eq!(move_folder(&from, &to, current_owner()).unwrap_err().code, Code::WalletExists);
    }
}
