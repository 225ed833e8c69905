//! The file that an export writes. This program writes the file instead of the engine, because the current folder and
//! the permissions are those of the caller. It never overwrites a file. The file is complete or absent; on a file
//! system without hard links, a killed command may leave an empty file.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_control::grammar::{HistoryExport, HistoryOrder, Order, ReceiptOrder, WalletOrder};
use bursar_core::codes::Code;
use bursar_core::digest;
use bursar_core::fault::Fault;

/// Returns the path of the file that an order writes, and the encoding of its content in frames.
pub(crate) fn export_target(order: &mut Order) -> Option<(&mut String, Encoding)> {
    match order {
        Order::History(HistoryOrder {
            export: Some(HistoryExport::Export { file, .. }), ..
        }) => Some((file, Encoding::Text)),
        Order::Receipt(
            ReceiptOrder { proof: Some(file), .. } | ReceiptOrder { html: Some(file), .. },
        ) => Some((file, Encoding::Text)),
        Order::Wallet(WalletOrder::Backup { file }) => Some((file, Encoding::Base64)),
        _writes_none => None,
    }
}

/// The encoding of the content in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Base64,
}

/// Makes the path of an export absolute, and creates a temporary file next to it.
///
/// The caller does this before it sends the order to the engine.
pub(crate) fn prepare(order: &mut Order, data: Option<&Path>) -> Result<Option<Export>, Fault> {
    let Some((file, encoding)) = export_target(order) else { return Ok(None) };
    let path = std::path::absolute(&file).map_err(|error| unwritable(Path::new(file), &error))?;
    refuse_data_folder(&path, data)?;
    let export = Export::create(path, encoding)?;
    // `export` keeps the exact path: the order's text is lossy if the name of the current folder is not valid UTF-8.
    *file = export.path.to_string_lossy().into_owned();
    Ok(Some(export))
}

/// Refuses a path in the data folder, where the file could be mistaken for a file of the wallet.
fn refuse_data_folder(path: &Path, data: Option<&Path>) -> Result<(), Fault> {
    let Some(data) = data.and_then(|data| fs::canonicalize(data).ok()) else { return Ok(()) };
    let folder = path.parent().unwrap_or(path);
    // Resolves symbolic links. If the folder is missing, the creation of the file fails later.
    let folder = fs::canonicalize(folder).unwrap_or_else(|_missing| folder.to_owned());
    if folder.starts_with(&data) {
        let message = format!(
            "{} is in the data folder, which is only for the wallet: choose another place.",
            path.display()
        );
        return Err(Fault::because(Code::BadInput, message));
    }
    Ok(())
}

/// A file that is being written. If it is dropped without [`Export::finish`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Export {
    path: PathBuf,
    /// The path of the temporary file, which has the content so far.
    temporary: PathBuf,
    file: Option<File>,
    encoding: Encoding,
}

impl Export {
    /// Creates the temporary file. It gets its final name only when it is complete, so that a killed command leaves no
    /// incomplete file that looks like a backup.
    pub(crate) fn create(path: PathBuf, encoding: Encoding) -> Result<Self, Fault> {
        if fs::symlink_metadata(&path).is_ok() {
            return Err(unwritable(&path, &io::ErrorKind::AlreadyExists.into()));
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = create_new(&temporary).map_err(|error| unwritable(&path, &error))?;
        Ok(Self { path, temporary, file: Some(file), encoding })
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Fault> {
        let bytes = match self.encoding {
            Encoding::Text => Ok(Cow::Borrowed(text.as_bytes())),
            Encoding::Base64 => STANDARD.decode(text).map(Cow::Owned),
        };
        let bytes = bytes.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        self.write_bytes(&bytes)
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(file) = &mut self.file else { return Err(Fault::new(Code::InternalError)) };
        file.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    /// Syncs the file and gives it its final name. If the SHA-256 is known, first reads the file again and compares it.
    pub(crate) fn finish(mut self, sha256: Option<&str>) -> Result<(), Fault> {
        let Some(file) = self.file.take() else { return Err(Fault::new(Code::InternalError)) };
        let publish = || -> io::Result<()> {
            file.sync_all()?;
            if let Some(wanted) = sha256 {
                let found = digest::sha256(File::open(&self.temporary)?)?;
                if hex::encode(found) != wanted {
                    return Err(io::Error::other(
                        "the file read back differs from what was written",
                    ));
                }
            }
            self.take_name()?;
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            // Some file systems cannot sync a folder. Then a power failure may lose the new name.
            let _unsynced = File::open(folder).and_then(|folder| folder.sync_all());
            Ok(())
        };
        publish().map_err(|error| {
            self.discard();
            unwritable(&self.path, &error)
        })
    }

    /// Gives the file its final name. It never replaces an existing file, even if that file appeared in the meantime.
    fn take_name(&self) -> io::Result<()> {
        match fs::hard_link(&self.temporary, &self.path) {
            Ok(()) => {
                self.discard();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // On a file system without hard links, an empty file reserves the name until the rename.
            Err(_no_links) => {
                drop(create_new(&self.path)?);
                fs::rename(&self.temporary, &self.path).inspect_err(|_error| {
                    let _left_empty = fs::remove_file(&self.path);
                })
            }
        }
    }

    fn discard(&self) {
        let _gone_already = fs::remove_file(&self.temporary);
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            self.discard();
        }
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn unwritable(path: &Path, error: &io::Error) -> Fault {
    let shown = path.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        let message = format!("{shown} already exists: choose another name.");
        return Fault::because(Code::InUse, message);
    }
    Fault::because(Code::BadInput, format!("{shown} cannot be written: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn order(file: &Path) -> Order {
        Order::parse_line(&format!("history export {}", file.display())).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn export_appears_complete_and_private_without_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        let mut export = prepare(&mut order(&file), None).unwrap().unwrap();
        export.write("a,b\r\n").unwrap();
        assert!(!file.exists(), "not before it is whole");
        export.write("1,2\r\n").unwrap();
        export.finish(None).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"a,b\r\n1,2\r\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_failed_export_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        let mut export = prepare(&mut order(&file), None).unwrap().unwrap();
        export.write("half").unwrap();
        drop(export);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn export_overwrites_nothing_and_avoids_the_data_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        fs::write(&file, "mine").unwrap();
        let refused = prepare(&mut order(&file), None).unwrap_err();
        assert_eq!(refused.code, Code::InUse, "{refused}");
        assert_eq!(fs::read(&file).unwrap(), b"mine");

        let data = folder.path().join("data");
        fs::create_dir_all(data.join("wallets")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for place in [data.join("a.csv"), data.join("wallets/a.csv"), link.join("a.csv")] {
            let refused = prepare(&mut order(&place), Some(&data)).unwrap_err();
            assert!(refused.message.contains("data folder"), "{refused}");
        }
        assert_eq!(names(&data), ["wallets"]);
        let nowhere = folder.path().join("none/a.csv");
        assert!(prepare(&mut order(&nowhere), Some(&data)).is_err());
    }

    #[test]
    fn relative_export_path_starts_at_the_current_folder() {
        let mut order = Order::parse_line("history export no-such-folder/x.csv").unwrap();
        let refused = prepare(&mut order, None).unwrap_err();
        let here = std::env::current_dir().unwrap().join("no-such-folder/x.csv");
        assert!(refused.message.contains(here.to_str().unwrap()), "{refused}");
        assert!(prepare(&mut Order::Freeze, None).unwrap().is_none());
    }
}
