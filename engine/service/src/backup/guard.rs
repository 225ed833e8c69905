//! Stops the long work of a backup when it is cancelled, or before it uses disk space that the engine needs.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::FREE_DISK_BYTES_MIN;
use tokio_util::sync::CancellationToken;

use crate::disk_room::DiskRoom;
use crate::journal::create_owner_only;

/// Bytes that a backup leaves free: the engine's reserve, and as much again for agents' requests during the backup.
const RESERVE_BYTES: u64 = 2 * FREE_DISK_BYTES_MIN;
/// Bytes between two checks of the free space.
const BYTES_PER_CHECK: usize = 1 << 20;

/// Checks during one backup that the backup may continue.
#[derive(Debug)]
pub(crate) struct Guard {
    room: Arc<DiskRoom>,
    pub(crate) stop: CancellationToken,
    ran_short: AtomicBool,
}

impl Guard {
    /// Begins a backup that writes up to `need` bytes to the disk of the data folder.
    ///
    /// # Errors
    /// `DISK_FULL` if it would not leave [`RESERVE_BYTES`] free.
    pub(crate) fn begin(
        room: &Arc<DiskRoom>,
        stop: CancellationToken,
        need: u64,
    ) -> Result<Self, Fault> {
        // If the free space is unknown, a write reports a full disk.
        if let Ok(free) = room.free_bytes()
            && free < need.saturating_add(RESERVE_BYTES)
        {
            let (wanted, free) = (mib(need.saturating_add(RESERVE_BYTES)), free >> 20);
            let message = format!(
                "A backup of this journal needs {wanted} MiB on the disk of the data folder, and {free} MiB are free: \
                 free some space. Nothing was written."
            );
            return Err(Fault::because(Code::DiskFull, message));
        }
        Ok(Self { room: Arc::clone(room), stop, ran_short: AtomicBool::new(false) })
    }

    /// Checks that the backup may continue.
    ///
    /// # Errors
    /// The backup was cancelled, or the disk has become short of space.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("it was cancelled"));
        }
        if self.room.free_bytes().is_ok_and(|free| free < RESERVE_BYTES) {
            self.ran_short.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Returns the refusal if the guard ended the work.
    pub(crate) fn refusal(&self) -> Option<Fault> {
        if self.stop.is_cancelled() {
            return Some(Fault::new(Code::Cancelled));
        }
        self.ran_short.load(Ordering::Relaxed).then(|| {
            let message = "No backup was made: the disk of the data folder became nearly full meanwhile. Free some space.";
            Fault::because(Code::DiskFull, message)
        })
    }

    /// Returns a reader or writer that fails as soon as the backup may not continue.
    pub(crate) fn wrap<T>(&self, inner: T) -> GuardedStream<'_, T> {
        GuardedStream { inner, guard: self, bytes_since_check: BYTES_PER_CHECK }
    }

    /// Copies a file to a new file, which only its owner can read.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        create_owner_only(to)?;
        let to = File::options().write(true).open(to)?;
        let mut to = BufWriter::with_capacity(BYTES_PER_CHECK, to);
        io::copy(&mut self.wrap(File::open(from)?), &mut to)?;
        to.flush()
    }
}

/// Rounds up to MiB.
pub(crate) fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// See [`Guard::wrap`].
pub(crate) struct GuardedStream<'a, T> {
    inner: T,
    guard: &'a Guard,
    bytes_since_check: usize,
}

impl<T> GuardedStream<'_, T> {
    fn count_bytes(&mut self, bytes: usize) -> io::Result<()> {
        if self.bytes_since_check >= BYTES_PER_CHECK {
            self.guard.check()?;
            self.bytes_since_check = 0;
        }
        self.bytes_since_check = self.bytes_since_check.saturating_add(bytes);
        Ok(())
    }
}

impl<T: Read> Read for GuardedStream<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.count_bytes(bytes.len())?;
        self.inner.read(bytes)
    }
}

impl<T: Write> Write for GuardedStream<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.count_bytes(bytes.len())?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::ports::Disk;

    /// A disk whose free space shrinks at each query.
    #[derive(Debug)]
    struct ShrinkingDisk {
        free: AtomicU64,
        shrinks_by: u64,
    }

    impl Disk for ShrinkingDisk {
        fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
            Ok(self.free.fetch_sub(self.shrinks_by, Ordering::Relaxed))
        }
    }

    fn room(free: u64, by: u64) -> Arc<DiskRoom> {
        let disk = Arc::new(ShrinkingDisk { free: free.into(), shrinks_by: by });
        Arc::new(DiskRoom::new(disk, PathBuf::new()))
    }

    fn begin(free: u64, by: u64, need: u64) -> Result<Guard, Fault> {
        Guard::begin(&room(free, by), CancellationToken::new(), need)
    }

    #[test]
    fn a_backup_begins_only_if_it_leaves_twice_the_reserve() {
        assert!(begin(RESERVE_BYTES + 5, 0, 5).is_ok());
        let refusal = begin(RESERVE_BYTES + 4, 0, 5).unwrap_err();
        assert_eq!(refusal.code, Code::DiskFull);
        assert!(refusal.message.contains("needs 129 MiB"), "{refusal}");
    }

    #[test]
    fn a_disk_that_becomes_short_ends_the_copy_before_the_reserve() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, vec![1; 4 * BYTES_PER_CHECK]).unwrap();
        let guard = begin(RESERVE_BYTES + 2 * FREE_DISK_BYTES_MIN, FREE_DISK_BYTES_MIN, 0).unwrap();
        let error = guard.copy(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(guard.refusal().unwrap().code, Code::DiskFull);
        assert!(std::fs::metadata(&to).unwrap().len() < 4 * BYTES_PER_CHECK as u64);
    }

    #[test]
    fn a_cancelled_backup_copies_at_most_one_more_stride() {
        let guard = begin(u64::MAX, 0, 0).unwrap();
        let mut reader = guard.wrap(io::repeat(1));
        let mut piece = vec![0; BYTES_PER_CHECK];
        reader.read_exact(&mut piece).unwrap();
        assert!(guard.refusal().is_none());
        guard.stop.cancel();
        assert!(reader.read_exact(&mut piece).is_err());
        assert_eq!(guard.refusal().unwrap().code, Code::Cancelled);
    }
}
