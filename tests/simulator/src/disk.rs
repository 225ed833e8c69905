//! The journal's disk.
//!
//! The disk is a store in memory, where a commit is written completely or not at all, or the real store on simulated
//! sectors. After a power cut, an arbitrary part of the sectors written since the last flush survives.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bursar_engine::journal::{Checkpoints, MemoryStore, RedbStore, Store, StoreError};
use bursar_engine::ports::NoFailpoints;
use bursar_tests::dice::Dice;

use crate::faults::{PlantedBug, WorldFaults};

const SECTOR: usize = 512;

/// The part of the storage that outlives a process.
#[derive(Debug, Clone)]
pub(crate) enum Disk {
    Memory(MemoryStore),
    Sectors(Sectors),
}

impl Disk {
    /// Creates an empty disk. The real store moves rows to its history file after this many bytes.
    pub(crate) fn new(sectors: bool, carry_bytes: usize) -> Self {
        if sectors {
            Self::Sectors(Sectors { carry_bytes, ..Sectors::default() })
        } else {
            Self::Memory(MemoryStore::default())
        }
    }

    /// Opens the store for a new process.
    pub(crate) fn open(&self, faults: &Arc<WorldFaults>) -> Result<Box<dyn Store>, StoreError> {
        match self {
            Self::Memory(store) => Ok(Box::new(store.clone())),
            Self::Sectors(sectors) => sectors.open(faults),
        }
    }

    /// Copies the disk. Everything written to it counts as flushed in the copy.
    pub(crate) fn copy(&self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.deep_copy()),
            Self::Sectors(sectors) => Self::Sectors(sectors.copy()),
        }
    }

    #[must_use]
    pub(crate) fn carrying(self, carry_bytes: usize) -> Self {
        match self {
            Self::Sectors(sectors) => Self::Sectors(Sectors { carry_bytes, ..sectors }),
            memory => memory,
        }
    }

    /// Cuts the disk off from the process that has it open.
    pub(crate) fn cut_off_process(&self) {
        if let Self::Sectors(sectors) = self {
            sectors.inner.lock().unwrap().process += 1;
        }
    }

    /// Cuts the power: an arbitrary part of the unflushed sectors survives.
    pub(crate) fn cut_power(&self, dice: &mut Dice) {
        if let Self::Sectors(sectors) = self {
            sectors.each_file(|file| file.cut_power(dice));
        }
    }

    /// Flushes everything, as an orderly shutdown does.
    pub(crate) fn flush(&self) {
        if let Self::Sectors(sectors) = self {
            sectors.each_file(File::flush);
        }
    }

    /// Returns the name and content of each non-empty journal file; none for a store in memory.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Self::Sectors(sectors) = self else { return Vec::new() };
        let inner = sectors.inner.lock().unwrap();
        let named = ["journal.redb", "journal-history.redb"].into_iter().zip(&inner.files);
        let named = named.filter(|(_name, file)| !file.bytes.is_empty());
        named.map(|(name, file)| (name, file.bytes.clone())).collect()
    }

    /// Makes all writes and flushes fail from now on, or only the flushes.
    pub(crate) fn fail(&self, flushes_only: bool) {
        if let Self::Sectors(sectors) = self {
            let failing_operations =
                if flushes_only { FailingOperations::Flushes } else { FailingOperations::Writes };
            sectors.inner.lock().unwrap().failing_operations = Some(failing_operations);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Sectors {
    inner: Arc<Mutex<Inner>>,
    carry_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailingOperations {
    Writes,
    Flushes,
}

#[derive(Debug, Clone, Default)]
struct Inner {
    /// The journal's short file and its history file.
    files: [File; 2],
    failing_operations: Option<FailingOperations>,
    /// The number of the process that has the disk open. Accesses by older processes fail.
    process: u64,
}

#[derive(Debug, Clone, Default)]
struct File {
    /// The content that a process reads.
    bytes: Vec<u8>,
    /// The earlier content of each sector written since the last flush. A power cut may restore it.
    before: BTreeMap<usize, Vec<u8>>,
    /// The length of the file at the last flush.
    length_before: usize,
}

impl File {
    fn flush(&mut self) {
        self.before.clear();
        self.length_before = self.bytes.len();
    }

    fn cut_power(&mut self, dice: &mut Dice) {
        // Keep none of the written sectors, an arbitrary part of them, or all.
        let kept = dice.one_of(&[0, 1, 1, 1, 2]);
        for (at, old) in std::mem::take(&mut self.before) {
            if kept == 0 || kept == 1 && dice.chance(1, 2) {
                let from = at * SECTOR;
                let end = (from + old.len()).min(self.bytes.len());
                if from < end {
                    self.bytes[from..end].copy_from_slice(&old[..end - from]);
                }
            }
        }
        if kept == 0 || kept == 1 && dice.chance(1, 2) {
            self.bytes.resize(self.length_before, 0);
        }
        self.flush();
    }
}

impl Sectors {
    fn open(&self, faults: &Arc<WorldFaults>) -> Result<Box<dyn Store>, StoreError> {
        let process = {
            let mut inner = self.inner.lock().unwrap();
            inner.failing_operations = None;
            inner.process
        };
        let file = |at| {
            let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(faults));
            Backend { inner, file: at, process, faults }
        };
        let store = RedbStore::on_backends(file(0), file(1), Arc::new(NoFailpoints))?;
        // Move the rows within the commit, not in a thread, so that the order of events is deterministic.
        Ok(Box::new(
            store.with_checkpoints(Checkpoints {
                after_bytes: self.carry_bytes,
                in_background: false,
            }),
        ))
    }

    fn copy(&self) -> Self {
        let inner = self.inner.lock().unwrap().clone();
        let copy = Self { inner: Arc::new(Mutex::new(inner)), ..*self };
        copy.each_file(File::flush);
        copy
    }

    fn each_file(&self, work: impl FnMut(&mut File)) {
        self.inner.lock().unwrap().files.iter_mut().for_each(work);
    }
}

/// One of the files, opened by one process.
#[derive(Debug)]
struct Backend {
    inner: Arc<Mutex<Inner>>,
    file: usize,
    process: u64,
    faults: Arc<WorldFaults>,
}

fn process_gone() -> io::Error {
    io::Error::other("the process is gone")
}

impl Backend {
    /// Runs `work` on the file. Fails if the process is dead or the disk is full for this kind of access.
    fn with<T>(
        &self,
        writes: Option<FailingOperations>,
        work: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.inner.lock().unwrap();
        if inner.process != self.process {
            return Err(process_gone());
        }
        let fails = match writes {
            None => false,
            Some(FailingOperations::Writes) => {
                inner.failing_operations == Some(FailingOperations::Writes)
            }
            Some(FailingOperations::Flushes) => inner.failing_operations.is_some(),
        };
        if fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        work(&mut inner.files[self.file])
    }

    /// Kills the process if this fault point is due. The later writes of the process fail.
    fn check_point(&self, point: &'static str) -> io::Result<()> {
        if self.faults.survives(point) {
            return Ok(());
        }
        self.inner.lock().unwrap().process += 1;
        Err(process_gone())
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.with(None, |file| Ok(file.bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(None, |file| {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes = file.bytes.get(from..from + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(Some(FailingOperations::Writes), |file| {
            file.bytes.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_point("disk.before_flush")?;
        self.with(Some(FailingOperations::Flushes), |file| {
            if self.faults.plant() != Some(PlantedBug::NeverFlushed) {
                file.flush();
            }
            Ok(())
        })?;
        self.check_point("disk.after_flush")
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(Some(FailingOperations::Writes), |file| {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let end = from + data.len();
            if end > file.bytes.len() {
                file.bytes.resize(end, 0);
            }
            for sector in from / SECTOR..end.div_ceil(SECTOR) {
                let at = sector * SECTOR;
                let to = (at + SECTOR).min(file.bytes.len());
                let old = &file.bytes[at..to];
                file.before.entry(sector).or_insert_with(|| old.to_vec());
            }
            file.bytes[from..end].copy_from_slice(data);
            Ok(())
        })
    }
}
