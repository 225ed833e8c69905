//! The store that the world controls.
//!
//! A commit is written completely or not at all. The world can make a commit fail, even one that is on disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bursar_auditor::observations::{Observation, Signed, SignedContent};
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_domain::{Request, Settlement};
use bursar_engine::journal::{
    Batch, Head, Reader, Seal, Snapshot, Store, StoreError, Visit, decode_record,
};
use bursar_engine::ports::Failpoints;

use crate::disk::Disk;
use crate::faults::{PlantedBug, WorldFaults};

/// The condition of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiskHealth {
    #[default]
    Healthy,
    /// Commits fail after this many more. `written` decides whether the first failed commit is on disk all the same.
    Fails {
        after: u32,
        written: bool,
    },
    Failed,
}

#[derive(Debug)]
pub(crate) struct WorldStore {
    disk: Box<dyn Store>,
    raw_disk: Disk,
    health: Arc<Mutex<DiskHealth>>,
    faults: Arc<WorldFaults>,
    /// Planted bug: a commit that was reported as written but is not on disk.
    unwritten: Option<Batch>,
    /// Planted bug: identities of requests that only this process remembers.
    remembered: BTreeMap<Vec<u8>, u64>,
}

impl WorldStore {
    /// Opens the disk for a new process.
    ///
    /// # Errors
    /// If the disk cannot be opened.
    pub(crate) fn open(
        disk: &Disk,
        health: &Arc<Mutex<DiskHealth>>,
        faults: &Arc<WorldFaults>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            disk: disk.open(faults)?,
            raw_disk: disk.clone(),
            health: Arc::clone(health),
            faults: Arc::clone(faults),
            unwritten: None,
            remembered: BTreeMap::new(),
        })
    }

    /// Planted bug: reports a signature before its record is on disk.
    fn plant_early_signature(&self, batch: &Batch) {
        for (_seq, bytes) in &batch.records {
            let record = decode_record(bytes).expect("a record");
            if let Some(digest) = record.digest() {
                self.faults.tape().write(Observation::Signed(Signed {
                    signer: format!("{:#x}", record.from),
                    digest: format!("{digest:#x}"),
                    request: Some(record.id.to_string()),
                    content: SignedContent::Undecodable,
                }));
            }
        }
    }

    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        let written = self.put_batch(batch);
        if self.faults.has_died() {
            self.faults.tape().die();
        }
        written
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), StoreError> {
        match self.faults.plant() {
            Some(PlantedBug::ForgottenSync) => {
                if let Some(earlier) = self.unwritten.replace(batch) {
                    self.disk.commit(earlier)?;
                }
                Ok(())
            }
            Some(PlantedBug::IdentitiesInMemory) => {
                let is_identity =
                    |(key, _seq): &(Vec<u8>, u64)| matches!(key[0], b'h' | b'b' | b'k');
                let (lost, index) = batch.index.into_iter().partition(is_identity);
                let lost: Vec<(Vec<u8>, u64)> = lost;
                self.remembered.extend(lost);
                self.disk.commit(Batch { index, ..batch })
            }
            Some(PlantedBug::ForgottenByTheClock) if batch.snapshot.is_some() => {
                let forget_before = Some(self.faults.forgotten_day());
                self.disk.commit(Batch { forget_before, ..batch })
            }
            _other => self.disk.commit(batch),
        }
    }
}

impl Store for WorldStore {
    fn head(&self) -> Result<Head, StoreError> {
        self.disk.head()
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        self.disk.seal()
    }

    fn forgotten_before_day(&self) -> Result<u32, StoreError> {
        if self.faults.plant() == Some(PlantedBug::ForgottenByTheClock) {
            return Ok(self.faults.forgotten());
        }
        self.disk.forgotten_before_day()
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.disk.snapshot()
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.disk.read_after(seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match &self.unwritten {
            Some(batch) if batch.entries.iter().any(|(known, _)| *known == seq) => {
                Ok(batch.entries.iter().find(|(known, _)| *known == seq).map(|(_, b)| b.clone()))
            }
            _other => self.disk.entry(seq),
        }
    }

    fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        match self.remembered.get(key) {
            Some(seq) => Ok(Some(*seq)),
            None => self.disk.entry_of_key(key),
        }
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        self.disk.record(seq)
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        self.disk.settlement(seq)
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        self.disk.payee_totals(payee)
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        self.disk.payees_through()
    }

    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        let io = |error: std::io::Error| StoreError::from(error);
        let full = || StoreError::DiskFull("No space left on device".to_owned());
        self.faults.hit("journal.before_commit").map_err(io)?;
        if self.faults.plant() == Some(PlantedBug::SignedFirst) {
            self.plant_early_signature(&batch);
        }
        self.faults.hit("journal.before_sync").map_err(io)?;
        let health = *self.health.lock().unwrap();
        match health {
            DiskHealth::Healthy => self.write(batch)?,
            DiskHealth::Fails { after: 0, written } => {
                *self.health.lock().unwrap() = DiskHealth::Failed;
                self.faults.tape().write(Observation::DiskFailed);
                if matches!(self.raw_disk, Disk::Sectors(_)) {
                    self.raw_disk.fail(written);
                    return self.write(batch).and(Err(full()));
                }
                if written {
                    self.write(batch)?;
                }
                return Err(full());
            }
            DiskHealth::Fails { after, written } => {
                *self.health.lock().unwrap() = DiskHealth::Fails { after: after - 1, written };
                self.write(batch)?;
            }
            DiskHealth::Failed => return Err(full()),
        }
        self.faults.note_commit();
        self.faults.hit("journal.after_commit").map_err(io)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.disk.reader()
    }
}
