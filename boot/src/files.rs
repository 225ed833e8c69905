//! File changes that can be undone. After a power cut, each change is either complete or absent.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

/// Largest service file that is read; real ones are much smaller.
const SERVICE_FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Fault> {
    match bursar_files::read_text(path, SERVICE_FILE_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable_file(path, "read", &error)),
    }
}

/// Creates an empty marker file and its folder.
pub(crate) fn create_marker(path: &Path) -> Result<(), Fault> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let made = fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))
        .and_then(|()| File::create(path)?.sync_all());
    made.map_err(|error| unusable_file(path, "created", &error))
}

/// Removes a marker file, and its folder if that is then empty.
pub(crate) fn remove_marker(path: &Path) {
    let _none = fs::remove_file(path);
    let _not_empty = path.parent().map(fs::remove_dir);
}

/// Changes of files in order, with their earlier contents.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: Vec<(PathBuf, Option<String>, u32)>,
    folders: Vec<PathBuf>,
}

impl Changes {
    /// Writes a file unless it has this text already.
    pub(crate) fn write(&mut self, path: &Path, text: &str, mode: u32) -> Result<(), Fault> {
        let before = read(path)?;
        if before.as_deref() == Some(text) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            self.create_folder(folder, if mode & 0o077 == 0 { 0o700 } else { 0o755 })?;
        }
        replace(path, text, mode).map_err(|error| unusable_file(path, "written", &error))?;
        self.files.push((path.to_owned(), before, mode));
        Ok(())
    }

    /// Removes a file if it exists. With `with_folder`, also removes its folder if that is then empty.
    pub(crate) fn remove(&mut self, path: &Path, with_folder: bool) -> Result<(), Fault> {
        let Some(before) = read(path)? else { return Ok(()) };
        let mode = fs::metadata(path).map_or(0o600, |found| found.permissions().mode() & 0o777);
        fs::remove_file(path).map_err(|error| unusable_file(path, "removed", &error))?;
        sync_folder(path);
        self.files.push((path.to_owned(), Some(before), mode));
        if let Some(folder) = path.parent().filter(|_one| with_folder) {
            // The folder stays if it contains files of the operator.
            let _not_empty = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Returns the paths that changed.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(path, ..)| path.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Restores all earlier contents, as far as possible.
    pub(crate) fn undo(self) {
        for (path, before, mode) in self.files.into_iter().rev() {
            let _best_effort = match before {
                Some(text) => path
                    .parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| replace(&path, &text, mode)),
                None => fs::remove_file(&path),
            };
        }
        for folder in self.folders.into_iter().rev() {
            let _in_use = fs::remove_dir(folder);
        }
    }

    fn create_folder(&mut self, folder: &Path, mode: u32) -> Result<(), Fault> {
        let mut missing: Vec<&Path> = folder.ancestors().take_while(|one| !one.exists()).collect();
        while let Some(one) = missing.pop() {
            // The umask of this process would remove permissions that units need.
            let made = DirBuilder::new().mode(mode).create(one);
            let made = made.and_then(|()| fs::set_permissions(one, Permissions::from_mode(mode)));
            made.map_err(|error| unusable_file(one, "created", &error))?;
            self.folders.push(one.to_owned());
        }
        Ok(())
    }
}

/// Replaces a file atomically: a reader sees the old text or the new one, even after a power cut.
fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new()
        .prefix(".bursar-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    // The umask of this process would remove permissions that a unit needs.
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(path);
    Ok(())
}

fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _best_effort = folder.sync_all();
    }
}

fn unusable_file(path: &Path, what: &str, error: &io::Error) -> Fault {
    let message = format!(
        "{} cannot be {what}: {error}. Check its owner, its rights and its disk, then run the command again.",
        path.display()
    );
    Fault::because(Code::ServiceFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_restores_files_and_folders() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("a/b/new"));
        fs::write(&old, "before").unwrap();
        let mut changes = Changes::default();
        changes.write(&old, "after", 0o644).unwrap();
        changes.write(&new, "text", 0o600).unwrap();
        changes.write(&new, "text", 0o600).unwrap();
        assert_eq!(changes.paths(), [old.clone(), new.clone()]);
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        changes.remove(&old, false).unwrap();
        changes.undo();
        assert_eq!(fs::read_to_string(&old).unwrap(), "before");
        assert!(!root.path().join("a").exists());
    }
}
