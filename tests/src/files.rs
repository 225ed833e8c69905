//! Inventories of a data folder, to compare its state before and after a test.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Every path below a folder, with its mode and content; links are not followed.
pub type Inventory = BTreeMap<PathBuf, Item>;

/// One entry of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub mode: u32,
    pub content: Content,
}

/// The type and content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Folder,
    /// SHA-256 of the bytes.
    File(String),
    Link(PathBuf),
    Socket,
}

/// Lists everything in `folder`, itself included, by relative path.
pub fn inventory(folder: &Path) -> Inventory {
    let mut found = Inventory::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = std::fs::symlink_metadata(&path).expect("it exists");
        let content = if meta.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            pending.extend(entries.map(|entry| entry.expect("an entry").path()));
            Content::Folder
        } else if meta.is_symlink() {
            Content::Link(std::fs::read_link(&path).expect("a link"))
        } else if meta.file_type().is_socket() {
            Content::Socket
        } else {
            Content::File(hex::encode(Sha256::digest(std::fs::read(&path).expect("a file"))))
        };
        let name = path.strip_prefix(folder).expect("below the folder").to_owned();
        found.insert(name, Item { mode: meta.permissions().mode() & 0o7777, content });
    }
    found
}

/// Like [`inventory`], without the lock, control file and socket of the running process.
pub fn persistent_inventory(folder: &Path) -> Inventory {
    let mut found = inventory(folder);
    for name in ["engine.lock", "control.json", "control.sock"] {
        found.remove(Path::new(name));
    }
    found
}

/// Copies a folder that no engine uses, with its modes; links and sockets are skipped.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    let mode = std::fs::metadata(from).expect("there").permissions();
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (kind, target) = (entry.file_type().expect("a type"), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target).expect("copied");
        }
    }
    std::fs::set_permissions(to, mode).expect("set");
}
