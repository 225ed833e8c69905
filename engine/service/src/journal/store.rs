//! What the journal needs of a store. Used by the core's thread; readers may be on any.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::ids::RequestId;
use bursar_domain::payees::{Paid, Payee, Tally};
use bursar_domain::{Request, Settlement};
use serde::{Deserialize, Serialize};

use super::head::Head;

/// Why the store failed. After a failed commit nothing is known of the disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Everything that one commit makes durable, or nothing of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Batch {
    #[serde(with = "rows")]
    pub entries: Vec<(u64, Vec<u8>)>,
    pub head: Head,
    pub seal: Option<Seal>,
    /// The latest record of each touched request, by the entry that made it. In this order neighbours are
    /// written together: by their random ids each would cost a page of its own.
    #[serde(with = "rows")]
    pub records: Vec<(u64, Vec<u8>)>,
    /// The latest settlement of each touched payment, by the entry that made its request.
    #[serde(with = "rows")]
    pub settlements: Vec<(u64, Vec<u8>)>,
    /// Id, identity of an ask or idempotency key → the entry that made the newest request of it; identity
    /// of a report → its entry.
    pub index: Vec<(Vec<u8>, u64)>,
    /// What was authorized to each payee that the entries paid, all of it.
    pub payees: Tally,
    /// The rows of payees are these and no others: they stand for the head from now on.
    pub payees_anew: bool,
    /// A row of payees could not be read, so that the rows do not stand for the head any more.
    pub payees_lost: bool,
    pub snapshot: Option<Snapshot>,
    /// Signed asks of days before this one are forgotten. An earlier day than before changes nothing.
    pub forget_before: Option<u32>,
    /// The index of this batch has every signed ask from this day on, so they are remembered again.
    pub remember_from: Option<u32>,
}

/// A seal as stored: which entry it covers, and the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub seq: u64,
    pub tag: [u8; 32],
}

/// An encoded state and the place in the chain that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub head: Head,
    #[serde(with = "bytes")]
    pub state: Vec<u8>,
    /// Under the key of the seals, if the wallet was open: then unlock need not read what lies before.
    pub tag: Option<[u8; 32]>,
}

/// Bytes as a whole, which serde otherwise takes one by one.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

/// The same for rows by number.
mod rows {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Raw<'a>(#[serde(with = "super::bytes")] &'a [u8]);

    pub(super) fn serialize<S: Serializer>(
        rows: &[(u64, Vec<u8>)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(rows.iter().map(|(number, bytes)| (number, Raw(bytes))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(u64, Vec<u8>)>, D::Error> {
        let rows = Vec::<(u64, &[u8])>::deserialize(from)?;
        Ok(rows.into_iter().map(|(number, bytes)| (number, bytes.to_vec())).collect())
    }
}

/// Visits the bytes of one entry; `false` stops.
pub type Visit<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Visits one request; `false` stops.
pub type VisitRequest<'a> = dyn FnMut(Request) -> bool + 'a;

/// Visits one row of payees; `None` for what is damaged.
pub type VisitPaid<'a> = dyn FnMut(Payee, Option<Paid>) + 'a;

/// The durable side of the journal.
pub trait Store: Send + fmt::Debug {
    fn head(&self) -> Result<Head, StoreError>;
    fn seal(&self) -> Result<Option<Seal>, StoreError>;
    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError>;
    /// Visits the entries after `seq` in order.
    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError>;
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError>;
    /// The day before which signed asks were forgotten; 0 if none were.
    fn forgotten(&self) -> Result<u32, StoreError>;
    /// The entry that an index key leads to.
    fn indexed(&self, key: &[u8]) -> Result<Option<u64>, StoreError>;
    /// The request that an entry made, as it stands now.
    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError>;
    /// What became of that request once it was signed.
    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError>;
    /// What was authorized to a payee, if the row can be read.
    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError>;
    /// The newest entry that the rows of payees contain. A commit on top of it takes it along to its own
    /// head; one on top of another leaves it behind.
    fn payees_through(&self) -> Result<Head, StoreError>;
    /// Durable when it returns; on an error nothing may be assumed.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError>;
    fn reader(&self) -> Arc<dyn Reader>;

    /// Keeps the long file as it is until [`Store::end_copy`], so that it may be copied meanwhile. Answers its path;
    /// `None` if there is no such file yet.
    ///
    /// # Errors
    /// The store does not use files, or a load in progress failed.
    fn begin_copy(&mut self) -> Result<Option<PathBuf>, StoreError> {
        Err(StoreError("this journal is not in files".to_owned()))
    }

    /// Copies the short file to `to`, if one is given, and lets the long one change again.
    ///
    /// # Errors
    /// The copy failed, or the long file had to be changed meanwhile: copy it again.
    fn end_copy(&mut self, _to: Option<&Path>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Reads committed records without the core.
pub trait Reader: Send + Sync + fmt::Debug {
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError>;
    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError>;
    /// What was authorized to a payee; an error also while the rows do not stand for the head.
    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError>;
    fn payees(&self, visit: &mut VisitPaid<'_>) -> Result<(), StoreError>;
    /// Visits the requests, newest first; `false` stops.
    fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError>;
    /// The latest `limit` requests, newest first.
    fn latest(&self, limit: usize) -> Result<Vec<Request>, StoreError> {
        let mut latest = Vec::new();
        self.newest(&mut |request| {
            if latest.len() < limit {
                latest.push(request);
            }
            latest.len() < limit
        })?;
        Ok(latest)
    }
    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError>;
}

/// The index key of a request's id.
pub(super) fn id_key(id: RequestId) -> Vec<u8> {
    [b"i".as_slice(), id.as_bytes()].concat()
}

pub(super) fn decode_record(bytes: &[u8]) -> Result<Request, StoreError> {
    postcard::from_bytes(bytes)
        .map_err(|error| StoreError(format!("a request's record is damaged: {error}")))
}

pub(super) fn decode_settlement(bytes: &[u8]) -> Result<Settlement, StoreError> {
    postcard::from_bytes(bytes)
        .map_err(|error| StoreError(format!("a settlement's record is damaged: {error}")))
}

const SNAPSHOT_VERSION: u8 = 6;

/// Bytes of a snapshot: version, place, tag or as many zeros, state.
pub(super) fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = vec![SNAPSHOT_VERSION];
    bytes.extend_from_slice(&encode_head(snapshot.head));
    bytes.extend_from_slice(&snapshot.tag.unwrap_or_default());
    bytes.extend_from_slice(&snapshot.state);
    bytes
}

/// `None` if it is of another version or cut short: a snapshot is a cache.
pub(super) fn decode_snapshot(bytes: &[u8]) -> Option<Snapshot> {
    let (version, rest) = bytes.split_first()?;
    let (head, rest) = rest.split_first_chunk::<40>()?;
    let (tag, state) = rest.split_first_chunk::<32>()?;
    let (head, tag) = (decode_head(head)?, (*tag != [0; 32]).then_some(*tag));
    (*version == SNAPSHOT_VERSION).then(|| Snapshot { head, state: state.to_vec(), tag })
}

pub(super) fn encode_head(head: Head) -> [u8; 40] {
    let mut bytes = [0; 40];
    let (seq, hash) = bytes.split_at_mut(8);
    seq.copy_from_slice(&head.seq.to_be_bytes());
    hash.copy_from_slice(&head.hash);
    bytes
}

pub(super) fn decode_head(bytes: &[u8]) -> Option<Head> {
    let (seq, hash) = bytes.split_first_chunk::<8>()?;
    Some(Head { seq: u64::from_be_bytes(*seq), hash: hash.try_into().ok()? })
}
