//! The account of a system service, and the move of the operator's data folder to it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use rustix::fs::OFlags;
use rustix::process::{Gid, Uid};
use sha2::{Digest, Sha256};

use crate::commands::run;
use crate::files::Changes;

/// The account of the system service.
pub(crate) const ACCOUNT: &str = "bursar";

const DECLARATION: &str = "/etc/sysusers.d/bursar.conf";

/// Files that belong to a running engine. They are not moved.
const OF_AN_ENGINE: [&str; 3] = ["engine.lock", "control.json", "control.sock"];

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
}

/// Finds an account by its name.
pub(crate) fn find(name: &str) -> Result<Option<Account>, Fault> {
    let Some(found) = run("getent", &["passwd", "--", name])? else { return Ok(None) };
    let mut fields = found.out.trim_end().split(':').skip(2);
    let mut number = || fields.next().and_then(|field| field.parse().ok());
    let (uid, gid) = (number(), number());
    let home = fields.nth(1).map(PathBuf::from);
    Ok(uid.zip(gid).zip(home).map(|((uid, gid), home)| Account { uid, gid, home }))
}

/// Returns the account of the service, and creates it if it is missing.
///
/// # Errors
/// `SERVICE_FAILED` if it cannot be created, or if it is root.
pub(crate) fn ensure(changes: &mut Changes) -> Result<Account, Fault> {
    let failed = |why: String| {
        let message =
            format!("The account {ACCOUNT} {why}. Correct that, then run the command again.");
        Fault::because(Code::ServiceFailed, message)
    };
    if find(ACCOUNT)?.is_none() {
        let text = format!("u {ACCOUNT} - \"Bursar wallet\" {}\n", crate::systemd::SYSTEM_DATA);
        changes.write(Path::new(DECLARATION), &text, 0o644)?;
        match run("systemd-sysusers", &[DECLARATION])? {
            Some(outcome) if outcome.succeeded => {}
            Some(outcome) => {
                return Err(failed(format!("could not be created: {}", outcome.reason())));
            }
            None => {
                return Err(failed("could not be created: systemd-sysusers is missing".to_owned()));
            }
        }
    }
    let account = find(ACCOUNT)?.ok_or_else(|| failed("does not exist".to_owned()))?;
    if account.uid == 0 {
        return Err(failed("is root, which must not run the service".to_owned()));
    }
    Ok(account)
}

/// A folder that was moved. The old one waits under another name until the service runs.
#[derive(Debug)]
pub(crate) struct Moved {
    from: PathBuf,
    aside: PathBuf,
    to: PathBuf,
}

impl Moved {
    /// Removes the old folder, because the new one is in use.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        fs::remove_dir_all(&self.aside).map_err(|error| unusable(&self.aside, &error))
    }

    /// Puts the old folder back, because the new one was never in use.
    pub(crate) fn undo(self) {
        let _best_effort = fs::remove_dir_all(&self.to);
        let _best_effort = fs::rename(&self.aside, &self.from);
    }
}

/// Returns the folder whose wallet is to be moved: `from`, or the one that an interrupted move has put aside.
pub(crate) fn to_be_moved(from: &Path) -> Option<PathBuf> {
    let aside = aside(from);
    [from.to_owned(), aside].into_iter().find(|folder| folder.join("journal.redb").is_file())
}

fn aside(from: &Path) -> PathBuf {
    let mut name = from.as_os_str().to_owned();
    name.push(".moved");
    PathBuf::from(name)
}

/// Moves a data folder to another account. The copy is complete and on the disk before the old folder gets another name,
/// and the new one appears only after that: so there are never two folders that an engine would open.
///
/// # Errors
/// `ENGINE_RUNNING` if an engine uses the folder, `DATA_FOLDER` if it cannot be copied. Nothing has changed then.
pub(crate) fn move_folder(from: &Path, to: &Path, account: &Account) -> Result<Moved, Fault> {
    let name = |suffix: &str| PathBuf::from(format!("{}{suffix}", to.display()));
    let incoming = name(".incoming");
    let source = to_be_moved(from).ok_or_else(|| {
        Fault::because(Code::NoWallet, format!("{} has no wallet to move.", from.display()))
    })?;
    let lock = lock(&source)?;
    if to.join("journal.redb").exists() {
        let message = format!("{} has a wallet already: move only one there.", to.display());
        return Err(Fault::because(Code::WalletExists, message));
    }
    if incoming.exists() {
        fs::remove_dir_all(&incoming).map_err(|error| unusable(&incoming, &error))?;
    }
    let copied = copy(&source, &incoming, account).and_then(|()| {
        // Empty, or missing.
        match fs::remove_dir(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _gone => Ok(()),
        }
    });
    if let Err(error) = copied {
        let _best_effort = fs::remove_dir_all(&incoming);
        return Err(unusable(&source, &error));
    }
    let aside = aside(from);
    let renamed = if source == aside { Ok(()) } else { fs::rename(&source, &aside) };
    renamed.and_then(|()| sync(&aside)).map_err(|error| unusable(&source, &error))?;
    let moved = Moved { from: from.to_owned(), aside, to: to.to_owned() };
    drop(lock);
    match fs::rename(&incoming, to).and_then(|()| sync(to)) {
        Ok(()) => Ok(moved),
        Err(error) => {
            moved.undo();
            Err(unusable(to, &error))
        }
    }
}

/// Locks a data folder as an engine does.
///
/// # Errors
/// `ENGINE_RUNNING` if an engine uses it.
pub(crate) fn lock(folder: &Path) -> Result<Option<File>, Fault> {
    let path = folder.join("engine.lock");
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, &error)),
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

/// Copies regular files and folders; refuses links. Each file is read back.
fn copy(from: &Path, to: &Path, account: &Account) -> io::Result<()> {
    let owner = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        let is_of_an_engine = OF_AN_ENGINE.iter().any(|name| entry.file_name() == *name);
        if is_of_an_engine {
            continue;
        }
        if kind.is_dir() {
            copy(&entry.path(), &target, account)?;
        } else if kind.is_file() {
            let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
            let mut source =
                OpenOptions::new().read(true).custom_flags(nofollow).open(entry.path())?;
            let mut copied = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&target)?;
            io::copy(&mut source, &mut copied)?;
            rustix::fs::fchown(&copied, Some(owner.0), Some(owner.1))?;
            copied.sync_all()?;
            if digest(&entry.path())? != digest(&target)? {
                return Err(io::Error::other("a copied file differs from its source"));
            }
        } else {
            let message = format!("{} is neither a file nor a folder", entry.path().display());
            return Err(io::Error::other(message));
        }
    }
    let folder = File::open(to)?;
    rustix::fs::fchown(&folder, Some(owner.0), Some(owner.1))?;
    folder.sync_all()
}

fn digest(path: &Path) -> io::Result<[u8; 32]> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 65_536]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// Puts the entry of a path on the disk.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Returns why the service of the machine must not run this program, if it must not.
pub(crate) fn program_fault(program: &Path) -> Option<Fault> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    let is_hidden = hidden.iter().any(|folder| program.starts_with(folder));
    let is_changeable = program.ancestors().any(|path| {
        fs::metadata(path).map_or(true, |found| found.uid() != 0 || found.mode() & 0o022 != 0)
    });
    (is_hidden || is_changeable).then(|| {
        let message = format!(
            "A service of the machine must run a program that only root can change: run `sudo install {0} /usr/local/bin/bursar`, \
             then `sudo /usr/local/bin/bursar install-service --system`.",
            program.display()
        );
        Fault::because(Code::BadInput, message)
    })
}

fn unusable(path: &Path, error: &io::Error) -> Fault {
    let message = format!("{} cannot be moved or used: {error}.", path.display());
    Fault::because(Code::DataFolder, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Account {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Account { uid, gid, home: PathBuf::from("/") }
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
        let moved = move_folder(&from, &to, &me()).unwrap();
        assert!(!from.exists() && !to.join("engine.lock").exists());
        assert_eq!(fs::read_to_string(to.join("wallets/main.wallet")).unwrap(), "w");
        assert_eq!(fs::metadata(to.join("journal.redb")).unwrap().mode() & 0o777, 0o600);
        moved.undo();
        assert!(from.join("journal.redb").is_file() && !to.exists());
        move_folder(&from, &to, &me()).unwrap().finish().unwrap();
        assert!(to.join("journal.redb").is_file());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_move_that_was_interrupted_is_continued() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        fs::rename(&from, aside(&from)).unwrap();
        fs::create_dir(root.path().join("to.incoming")).unwrap();
        assert_eq!(to_be_moved(&from), Some(aside(&from)));
        move_folder(&from, &to, &me()).unwrap().finish().unwrap();
        assert!(to.join("journal.redb").is_file() && to_be_moved(&from).is_none());
    }

    #[test]
    fn a_folder_in_use_and_one_with_links_stay_where_they_are() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (folder(root.path()), root.path().join("to"));
        let held = lock(&from).unwrap().unwrap();
        assert_eq!(move_folder(&from, &to, &me()).unwrap_err().code, Code::EngineRunning);
        drop(held);
        std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
        assert_eq!(move_folder(&from, &to, &me()).unwrap_err().code, Code::DataFolder);
        assert!(from.join("journal.redb").is_file() && !to.exists());
        fs::remove_file(from.join("link")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("journal.redb"), "other").unwrap();
        assert_eq!(move_folder(&from, &to, &me()).unwrap_err().code, Code::WalletExists);
    }

    #[test]
    fn a_program_in_a_home_folder_is_not_for_the_machine() {
        assert!(program_fault(Path::new("/home/a/.cargo/bin/bursar")).is_some());
        assert!(program_fault(Path::new("/tmp/bursar")).is_some());
    }
}
