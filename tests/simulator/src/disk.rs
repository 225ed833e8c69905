//! What the journal lies on: a store in memory, where a commit is there as a whole or not at all, or the real store on
//! a disk of sectors, of which a power cut leaves what it likes of all that was written since the last flush.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bursar_engine::journal::{MemoryStore, RedbStore, Store, StoreError};
use bursar_engine::ports::NoFaults;
use bursar_tests::dice::Dice;

use crate::faults::{Plant, WorldFaults};

const SECTOR: usize = 512;

/// What outlives a process.
#[derive(Debug, Clone)]
pub(crate) enum Disk {
    Memory(MemoryStore),
    Sectors(Sectors),
}

impl Disk {
    pub(crate) fn new(sectors: bool) -> Self {
        if sectors {
            Self::Sectors(Sectors::default())
        } else {
            Self::Memory(MemoryStore::default())
        }
    }

    /// As a process opens it.
    pub(crate) fn open(&self, faults: &Arc<WorldFaults>) -> Result<Box<dyn Store>, StoreError> {
        match self {
            Self::Memory(store) => Ok(Box::new(store.clone())),
            Self::Sectors(sectors) => sectors.open(faults),
        }
    }

    /// Another one with the same on it, and whatever was written on it safe.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.copied()),
            Self::Sectors(sectors) => Self::Sectors(sectors.copied()),
        }
    }

    /// The process that had it open is gone.
    pub(crate) fn leave(&self) {
        if let Self::Sectors(sectors) = self {
            sectors.inner.lock().unwrap().life += 1;
        }
    }

    /// The machine is gone: of what was not flushed, some is on the disk.
    pub(crate) fn cut(&self, dice: &mut Dice) {
        if let Self::Sectors(sectors) = self {
            sectors.inner.lock().unwrap().cut(dice);
        }
    }

    /// The machine was shut down in good order.
    pub(crate) fn flush(&self) {
        if let Self::Sectors(sectors) = self {
            sectors.inner.lock().unwrap().flush();
        }
    }

    /// From now on every write fails, or only what would make it last.
    pub(crate) fn fail(&self, flushes_only: bool) {
        if let Self::Sectors(sectors) = self {
            let full = if flushes_only { Full::Flushes } else { Full::Writes };
            sectors.inner.lock().unwrap().full = Some(full);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Sectors {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    Writes,
    Flushes,
}

#[derive(Debug, Clone, Default)]
struct Inner {
    /// What a process reads.
    bytes: Vec<u8>,
    /// What a power cut may bring back: sectors as they were flushed, and how many bytes there were.
    before: BTreeMap<usize, Vec<u8>>,
    length_before: usize,
    full: Option<Full>,
    /// Which process has it open: no other is heard.
    life: u64,
}

impl Inner {
    fn flush(&mut self) {
        self.before.clear();
        self.length_before = self.bytes.len();
    }

    fn cut(&mut self, dice: &mut Dice) {
        // All of it, nothing of it, or any part.
        let kept = dice.of(&[0, 1, 1, 1, 2]);
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
        let life = {
            let mut inner = self.inner.lock().unwrap();
            inner.full = None;
            inner.life
        };
        let backend = Backend { inner: Arc::clone(&self.inner), life, faults: Arc::clone(faults) };
        Ok(Box::new(RedbStore::over(backend, Arc::new(NoFaults))?))
    }

    fn copied(&self) -> Self {
        let mut inner = self.inner.lock().unwrap().clone();
        inner.flush();
        Self { inner: Arc::new(Mutex::new(inner)) }
    }
}

/// The disk as one process has it open.
#[derive(Debug)]
struct Backend {
    inner: Arc<Mutex<Inner>>,
    life: u64,
    faults: Arc<WorldFaults>,
}

fn gone() -> io::Error {
    io::Error::other("the process is gone")
}

impl Backend {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.inner.lock().unwrap();
        if inner.life != self.life {
            return Err(gone());
        }
        work(&mut inner)
    }

    /// Dies here if it is time to: whatever it still does is not heard.
    fn passes(&self, point: &'static str) -> io::Result<()> {
        if self.faults.passes(point) {
            return Ok(());
        }
        self.inner.lock().unwrap().life += 1;
        Err(gone())
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.with(|inner| Ok(inner.bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|inner| {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes = inner.bytes.get(from..from + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|inner| {
            if inner.full == Some(Full::Writes) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inner.bytes.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.passes("disk.before_flush")?;
        self.with(|inner| {
            if inner.full.is_some() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if self.faults.plant() != Some(Plant::NeverFlushed) {
                inner.flush();
            }
            Ok(())
        })?;
        self.passes("disk.after_flush")
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|inner| {
            if inner.full == Some(Full::Writes) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let end = from + data.len();
            if end > inner.bytes.len() {
                inner.bytes.resize(end, 0);
            }
            for sector in from / SECTOR..end.div_ceil(SECTOR) {
                let at = sector * SECTOR;
                let to = (at + SECTOR).min(inner.bytes.len());
                let old = &inner.bytes[at..to];
                inner.before.entry(sector).or_insert_with(|| old.to_vec());
            }
            inner.bytes[from..end].copy_from_slice(data);
            Ok(())
        })
    }
}
