//! The reasons why a service cannot use its store, as messages for the operator.

use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Why a store cannot be used, and what to do.
///
/// Each variant has the path of the store, and the cause as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUnusable {
    #[error("the disk of the store {} is full ({why}): free some space and start again; unfinished payments resume then", .path.display())]
    Full { path: PathBuf, why: String },
    #[error("the store {} is damaged ({why}): restore a copy of it; without a copy, see \"Stop and restart\" in the manual", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("the store {} cannot be used ({why}): check that no other process uses it, and who may write to its folder", .path.display())]
    Refused { path: PathBuf, why: String },
    #[error("the store {} cannot be written ({why}): repair its disk and start again; unfinished payments resume then", .path.display())]
    Unwritable { path: PathBuf, why: String },
}

impl StoreUnusable {
    /// Describes why a store could not be opened or read.
    pub fn at_start(path: &Path, error: StoreError) -> Self {
        let path = path.to_owned();
        match error {
            StoreError::DiskFull(why) => Self::Full { path, why },
            // If redb reports a bug while it opens a file, the file is damaged.
            StoreError::Corrupt(why) | StoreError::Bug(why) => Self::Damaged { path, why },
            StoreError::Io(why) => Self::Refused { path, why },
        }
    }

    /// Describes why a running service can no longer write its store.
    pub fn at_write(path: &Path, error: StoreError) -> Self {
        let path = path.to_owned();
        match error {
            StoreError::DiskFull(why) => Self::Full { path, why },
            StoreError::Corrupt(why) => Self::Damaged { path, why },
            StoreError::Io(why) | StoreError::Bug(why) => Self::Unwritable { path, why },
        }
    }

    /// Returns whether the disk is full: a restart helps once there is room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
