//! Where the journal's files lie: made for their owner alone, and still the ones at their paths, for a file that was
//! moved or deleted takes every commit, and no restart will find them.

use std::io;
use std::path::{Path, PathBuf};

/// Makes an empty file with mode 0600 from the first moment, whatever the umask, unless it is there.
pub fn create_owner_only(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(_created) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Copies a file to a path where none is yet, closed to others from the first moment.
pub fn copy_owner_only(from: &Path, to: &Path) -> io::Result<()> {
    create_owner_only(to)?;
    let mut to = std::fs::File::options().write(true).open(to)?;
    io::copy(&mut std::fs::File::open(from)?, &mut to).map(drop)
}

/// A file by its path and by what stays the same when it is moved.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    identity: Identity,
}

impl Place {
    /// That of an existing file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error if another file is there by now, or none.
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

/// Device and inode.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// An open file cannot be deleted or replaced here.
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
