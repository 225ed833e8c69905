//! The journal's files on disk. They are readable only for their owner. Before a commit counts, each must still be at
//! its path: a moved or deleted file accepts commits that no restart finds.

use std::io;
use std::path::{Path, PathBuf};

use bursar_rows::StoreError;

/// Creates an empty file unless it exists, with mode 0600 from the start.
///
/// # Errors
/// The file cannot be created.
pub fn create_owner_only(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(_created) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that a path leads to a regular file, or to nothing. Opening a pipe could block.
///
/// # Errors
/// `Corrupt` if it leads to something else.
pub(super) fn check_regular(path: &Path) -> Result<(), StoreError> {
    bursar_files::check_regular(path).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Copies a file to a new path, with mode 0600 from the start.
///
/// # Errors
/// A file cannot be created, read or written.
pub(super) fn copy_owner_only(from: &Path, to: &Path) -> io::Result<()> {
    create_owner_only(to)?;
    let mut to = std::fs::File::options().write(true).open(to)?;
    io::copy(&mut std::fs::File::open(from)?, &mut to).map(drop)
}

/// A file's path, and its device and inode, which do not change when it is moved.
#[derive(Debug)]
pub(super) struct TrackedFile {
    path: PathBuf,
    identity: Identity,
}

impl TrackedFile {
    /// Identifies an existing file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the same file is still at the path.
    ///
    /// # Errors
    /// The file was moved, deleted or replaced.
    pub(super) fn check(&self) -> io::Result<()> {
        match identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_another) => Err(io::Error::other("another file was put in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::other("it was moved or deleted"))
            }
            Err(error) => Err(error),
        }
    }
}

/// The device and inode numbers.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Other platforms do not delete or replace an open file.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|_found| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_there_may_exist_already() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        create_owner_only(&path).unwrap();
        std::fs::write(&path, b"kept").unwrap();
        create_owner_only(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        let nowhere = create_owner_only(&folder.path().join("missing/file")).unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }
}
