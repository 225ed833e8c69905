//! Replaces the files of a data folder by restored files. Everything is staged in a separate folder first. After a
//! crash either the old files are still in place, or the next start completes the replacement. The old files are
//! moved aside, never deleted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The folder of staged files.
const STAGING_FOLDER: &str = ".restore";
/// A file that exists once every file is staged and the replacement is decided.
const READY_FILE: &str = "ready.json";
/// Largest file [`READY_FILE`] that is read; real ones are much smaller.
const READY_BYTES_MAX: u64 = 64 << 10;
/// All files that a restore replaces.
const REPLACED_FILES: [&str; 5] =
    ["wallets", "journal.redb", "journal-history.redb", "settings.toml", "partner.md"];

/// A decided replacement.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    /// The folder that receives the old files.
    aside: String,
    /// The new files.
    names: Vec<String>,
}

/// Creates an empty folder for restored files, and returns its path.
///
/// # Errors
/// The data folder cannot be written.
pub fn stage(data: &Path) -> io::Result<PathBuf> {
    let staged = data.join(STAGING_FOLDER);
    remove(&staged)?;
    fs::DirBuilder::new().mode(0o700).create(&staged)?;
    Ok(staged)
}

/// Returns the files in the folder that a restore would replace.
pub fn occupied(data: &Path) -> Vec<&'static str> {
    REPLACED_FILES.into_iter().filter(|name| data.join(name).exists()).collect()
}

/// Commits to the staged files: after a crash from here on, the next start completes the replacement.
///
/// `aside` is the name of the folder that receives the old files.
///
/// # Errors
/// The data folder cannot be written.
pub fn decide(data: &Path, aside: &str) -> io::Result<()> {
    let staged = data.join(STAGING_FOLDER);
    let names = REPLACED_FILES.into_iter().filter(|name| staged.join(name).exists());
    let plan = Plan { aside: aside.to_owned(), names: names.map(str::to_owned).collect() };
    let fresh = staged.join("ready.new");
    fs::write(&fresh, serde_json::to_vec(&plan)?)?;
    File::open(&fresh)?.sync_all()?;
    sync(&staged)?;
    fs::rename(&fresh, staged.join(READY_FILE))?;
    sync(&staged)?;
    sync(data)
}

/// Completes the replacement that [`decide`] began, or removes files that are only staged.
///
/// The caller holds the folder's lock and has no file in it open.
///
/// # Errors
/// The data folder cannot be written.
pub fn finish(data: &Path) -> io::Result<()> {
    let staged = data.join(STAGING_FOLDER);
    let plan = match bursar_files::read(&staged.join(READY_FILE), READY_BYTES_MAX) {
        Ok(plan) => plan,
        // Without this file no replacement was decided. After any other error, the staged files must stay.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return remove(&staged),
        Err(error) => return Err(error),
    };
    let plan: Plan = serde_json::from_slice(&plan)?;
    let aside = data.join(&plan.aside);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&aside)?;
    for name in REPLACED_FILES {
        let (old, new) = (data.join(name), staged.join(name));
        let restored = plan.names.iter().any(|known| known == name);
        // A restored file that is no longer staged was put in place before a crash.
        if old.exists() && (new.exists() || !restored) {
            fs::rename(&old, aside.join(name))?;
        }
        if new.exists() {
            fs::rename(&new, &old)?;
        }
    }
    sync(&aside)?;
    sync(data)?;
    // Without old files the folder is empty, and this removes it. Otherwise the call fails and the folder stays.
    let _kept = fs::remove_dir(&aside);
    fs::remove_file(staged.join(READY_FILE))?;
    remove(&staged)
}

fn remove(staged: &Path) -> io::Result<()> {
    match fs::remove_dir_all(staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn write_old_files(data: &Path) {
        write(&data.join("wallets/main.wallet"), "old wallet");
        write(&data.join("journal.redb"), "old journal");
        write(&data.join("journal-history.redb"), "old history");
        write(&data.join("engine.lock"), "");
    }

    fn write_new_files(data: &Path) {
        let staged = stage(data).unwrap();
        write(&staged.join("wallets/main.wallet"), "new wallet");
        write(&staged.join("journal.redb"), "new journal");
        write(&staged.join("settings.toml"), "new settings");
    }

    fn assert_replaced(data: &Path) {
        assert_eq!(read(&data.join("wallets/main.wallet")).as_deref(), Some("new wallet"));
        assert_eq!(read(&data.join("journal.redb")).as_deref(), Some("new journal"));
        assert_eq!(read(&data.join("settings.toml")).as_deref(), Some("new settings"));
        assert_eq!(read(&data.join("journal-history.redb")), None);
        assert_eq!(read(&data.join("old/wallets/main.wallet")).as_deref(), Some("old wallet"));
        assert_eq!(read(&data.join("old/journal-history.redb")).as_deref(), Some("old history"));
        assert!(!data.join(STAGING_FOLDER).exists());
    }

    #[test]
    fn the_old_files_are_moved_aside_and_none_is_mixed_with_the_new() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path();
        write_old_files(data);
        write_new_files(data);
        finish(data).unwrap();
        assert_eq!(read(&data.join("journal.redb")).as_deref(), Some("old journal"), "not decided");
        assert!(!data.join(STAGING_FOLDER).exists());
        write_new_files(data);
        decide(data, "old").unwrap();
        finish(data).unwrap();
        assert_replaced(data);
        finish(data).unwrap();
        assert_replaced(data);
    }

    #[test]
    fn a_restore_into_an_empty_folder_leaves_no_folder_of_old_files() {
        let home = tempfile::tempdir().unwrap();
        write_new_files(home.path());
        assert!(occupied(home.path()).is_empty());
        decide(home.path(), "old").unwrap();
        finish(home.path()).unwrap();
        assert!(!home.path().join("old").exists());
        assert_eq!(occupied(home.path()), ["wallets", "journal.redb", "settings.toml"]);
    }

    /// After a crash between any two renames, the next start completes the replacement.
    #[test]
    fn a_crash_at_any_rename_completes_the_replacement() {
        for renames in 0..6 {
            let home = tempfile::tempdir().unwrap();
            let data = home.path();
            write_old_files(data);
            write_new_files(data);
            decide(data, "old").unwrap();
            let staged = data.join(STAGING_FOLDER);
            fs::create_dir(data.join("old")).unwrap();
            let steps = [
                (data.join("wallets"), data.join("old/wallets")),
                (staged.join("wallets"), data.join("wallets")),
                (data.join("journal.redb"), data.join("old/journal.redb")),
                (staged.join("journal.redb"), data.join("journal.redb")),
                (data.join("journal-history.redb"), data.join("old/journal-history.redb")),
                (staged.join("settings.toml"), data.join("settings.toml")),
            ];
            for (from, to) in steps.iter().take(renames) {
                fs::rename(from, to).unwrap();
            }
            finish(data).unwrap();
            assert_replaced(data);
        }
    }

    /// If the plan cannot be read now, it may still have been decided, so it must not be undone.
    #[test]
    fn a_plan_that_cannot_be_read_costs_no_staged_file() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        write_old_files(data);
        write_new_files(data);
        fs::create_dir(data.join(STAGING_FOLDER).join(READY_FILE)).unwrap();
        finish(data).unwrap_err();
        assert_eq!(
            read(&data.join(STAGING_FOLDER).join("journal.redb")).as_deref(),
            Some("new journal")
        );
        assert_eq!(read(&data.join("journal.redb")).as_deref(), Some("old journal"));
    }
}
