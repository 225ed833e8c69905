//! Checks whether the disk of the data folder has room for agents' requests, and logs each change.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_core::codes::Code;
use bursar_core::limits::FREE_DISK_BYTES_MIN;

use crate::ports::Disk;

/// Free bytes at which a shortage counts as over. The distance to the limit is larger than the journal's changes of
/// size, so that a disk near the limit does not fill the log.
const RECOVERED_BYTES: u64 = FREE_DISK_BYTES_MIN + (16 << 20);

/// The room on the disk of a data folder.
#[derive(Debug)]
pub(crate) struct DiskRoom {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Whether the last logged change was the beginning of a shortage.
    was_short: AtomicBool,
}

impl DiskRoom {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        Self { disk, folder, was_short: AtomicBool::new(false) }
    }

    /// Returns the bytes that this account can still write to the disk.
    ///
    /// # Errors
    /// The folder cannot be queried.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.folder)
    }

    /// Returns whether the disk has so little room that payments, trades and loans are refused. Logs a change since
    /// the last call.
    pub(crate) fn is_short(&self) -> bool {
        // If the free space is unknown, the commit reports a full disk or a missing folder.
        let Ok(free) = self.free_bytes() else { return false };
        let is_short = free < FREE_DISK_BYTES_MIN;
        let folder = self.folder.display();
        if is_short && !self.was_short.swap(true, Ordering::Relaxed) {
            tracing::error!(code = %Code::DiskFull, %folder, "payments are refused until there is more room: the disk has less than 64 MiB free");
        } else if free >= RECOVERED_BYTES && self.was_short.swap(false, Ordering::Relaxed) {
            tracing::info!(%folder, "the disk has room again: payments are accepted");
        }
        is_short
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Debug, Default)]
    struct FreeBytes(AtomicU64);

    impl Disk for FreeBytes {
        fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
            match self.0.load(Ordering::Relaxed) {
                u64::MAX => Err(io::ErrorKind::NotFound.into()),
                free => Ok(free),
            }
        }
    }

    #[test]
    fn less_than_the_reserve_is_short_and_an_unknown_space_is_not() {
        let free = Arc::new(FreeBytes::default());
        let room = DiskRoom::new(Arc::clone(&free) as Arc<dyn Disk>, PathBuf::new());
        for (bytes, is_short) in [
            (0, true),
            (FREE_DISK_BYTES_MIN - 1, true),
            (FREE_DISK_BYTES_MIN, false),
            (u64::MAX, false),
        ] {
            free.0.store(bytes, Ordering::Relaxed);
            assert_eq!(room.is_short(), is_short, "{bytes}");
        }
    }
}
