//! File operations for keys, with checks of file modes. Does not interpret the contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bursar_serve::secret_file;
use zeroize::Zeroizing;

use crate::keys::fault::KeyFault;

/// Maximum length of a file in bytes. A keystore has about five hundred.
const KEY_FILE_BYTES_MAX: usize = 16 * 1024;

/// The contents and the mode of an opened file.
pub(super) struct OpenedFile {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// `None` on platforms without file modes.
    mode: Option<u32>,
    /// The mode, if it lets other accounts access the file and no service manager mounts secrets with it.
    exposed_mode: Option<u32>,
}

impl OpenedFile {
    /// Checks that only the owner may read or change the file.
    pub(super) fn check_private(&self, file: &Path) -> Result<(), KeyFault> {
        match self.mode {
            Some(mode) if mode & 0o077 != 0 => {
                Err(KeyFault::TooOpen { file: file.to_owned(), mode })
            }
            Some(_closed) => Ok(()),
            // This platform does not show who may read the file.
            None => Err(KeyFault::NoFileModes { file: file.to_owned() }),
        }
    }

    /// Checks that only the owner may read or change the file. Also accepts a secret that systemd or Kubernetes has
    /// mounted, which a group may read.
    pub(super) fn check_private_or_mounted(&self, file: &Path) -> Result<(), KeyFault> {
        match (self.mode, self.exposed_mode) {
            (Some(_mode), None) => Ok(()),
            (Some(_), Some(mode)) => Err(KeyFault::TooOpen { file: file.to_owned(), mode }),
            (None, _) => Err(KeyFault::NoFileModes { file: file.to_owned() }),
        }
    }
}

/// Reads a whole file of at most [`KEY_FILE_BYTES_MAX`].
pub(super) fn read(file: &Path) -> Result<OpenedFile, KeyFault> {
    let unreadable = |source| KeyFault::Unreadable { file: file.to_owned(), source };
    let open = bursar_files::open_or_pipe(file).map_err(unreadable)?;
    // Reads the metadata from the open file, not from the path, so that the checked file is the one that is read.
    let metadata = open.metadata().map_err(unreadable)?;
    // Allocates the full capacity at once, because a growing buffer leaves copies of its contents behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_FILE_BYTES_MAX + 1));
    let room = u64::try_from(KEY_FILE_BYTES_MAX + 1).unwrap_or(u64::MAX);
    open.take(room).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > KEY_FILE_BYTES_MAX {
        return Err(unreadable(io::Error::other("it is too long")));
    }
    Ok(OpenedFile {
        bytes,
        mode: mode_of(&metadata),
        exposed_mode: secret_file::mode_if_exposed(&metadata),
    })
}

#[cfg(unix)]
fn mode_of(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_metadata: &fs::Metadata) -> Option<u32> {
    None
}

/// Writes a new file that only its owner can ever read, and syncs it and its folder.
pub(super) fn create(file: &Path, bytes: &[u8]) -> Result<(), KeyFault> {
    let unwritable = |source| KeyFault::Unwritable { file: file.to_owned(), source };
    let mut options = OpenOptions::new();
    // Fails if the name is taken, even by a dangling link.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyFault::Exists { file: file.to_owned() },
        _other => unwritable(error),
    })?;
    let written = open.write_all(bytes).and_then(|()| open.sync_all());
    written.and_then(|()| sync_folder(file)).map_err(|error| {
        // Removes the partial keystore. The caller gets the error of the write.
        let _removed = fs::remove_file(file);
        unwritable(error)
    })
}

#[cfg(unix)]
fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.map_or_else(|| PathBuf::from("."), Path::to_owned))?.sync_all()
}

/// Other platforms cannot open a folder to sync it.
#[cfg(not(unix))]
fn sync_folder(_file: &Path) -> io::Result<()> {
    Ok(())
}
