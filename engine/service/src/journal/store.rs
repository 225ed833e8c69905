//! The traits of the journal's storage. One thread at a time uses a [`Store`]; a [`Reader`] works on any thread.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::ids::RequestId;
use bursar_core::stored;
use bursar_domain::payee::Payee;
use bursar_domain::payees::{PaymentTotals, Tally};
use bursar_domain::{Event, Request, Settlement};
use serde::{Deserialize, Serialize};

use super::codec::{self, RECORD_CAPACITY_BYTES};
use super::head::Head;

pub use bursar_rows::StoreError;

/// The changes of one commit, which is atomic.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Batch {
    #[serde(with = "rows")]
    pub entries: Vec<(u64, Vec<u8>)>,
    pub head: Head,
    pub seal: Option<Seal>,
    /// The latest record of each touched request, keyed by the entry that created it.
    ///
    /// This order puts records from the same time on the same page. With the random request ids as keys, each record
    /// would cost a separate page.
    #[serde(with = "rows")]
    pub records: Vec<(u64, Vec<u8>)>,
    /// The latest settlement of each touched payment, keyed by the entry that created its request.
    #[serde(with = "rows")]
    pub settlements: Vec<(u64, Vec<u8>)>,
    /// Maps a request id, ask identity or idempotency key to the entry of its newest request.
    ///
    /// It also maps a report's identity to its entry, and lists the settled payments of bearer asks. The rows of
    /// approved and latest payments to a payee have other values (see `payees.rs`).
    pub index: Vec<(Vec<u8>, u64)>,
    /// The new totals of each payee that the entries paid.
    pub payees: Tally,
    /// Whether `payees` replaces all payee rows, which are then up to date with the head.
    pub payees_replaced: bool,
    /// Whether a payee row could not be read, so that the rows are no longer up to date.
    pub payees_incomplete: bool,
    pub snapshot: Option<Snapshot>,
    /// The day before which signed asks and reports are forgotten.
    ///
    /// A day before the stored day has no effect.
    pub forget_before: Option<u32>,
    /// The batch's index has every signed ask and report from this day on, so they are remembered again.
    pub remember_from: Option<u32>,
}

/// A stored seal: the entry that it covers, and its HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub seq: u64,
    pub tag: [u8; 32],
}

/// An encoded state, and the head of the entries that the state includes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub head: Head,
    #[serde(with = "bytes")]
    pub state: Vec<u8>,
    /// An HMAC under the sealing key; `None` if commits were not sealed.
    ///
    /// If it is valid, an unlock does not replay earlier entries.
    pub tag: Option<[u8; 32]>,
}

/// Serializes bytes as one value; serde's default visits each byte.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

/// Serializes numbered rows, each row's bytes as one value.
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

/// Visits one payee row; `None` if it is damaged.
pub type VisitPayee<'a> = dyn FnMut(Payee, Option<PaymentTotals>) + 'a;

/// The durable side of the journal.
pub trait Store: Send + fmt::Debug {
    /// The newest entry on disk.
    fn head(&self) -> Result<Head, StoreError>;
    /// The last seal.
    fn seal(&self) -> Result<Option<Seal>, StoreError>;
    /// The last snapshot, if it can be decoded.
    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError>;
    /// Visits the entries after `seq` in order.
    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError>;
    /// The bytes of an entry.
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError>;
    /// The day before which signed asks and reports were forgotten; 0 if none were.
    fn forgotten_before_day(&self) -> Result<u32, StoreError>;
    /// The entry that an index key leads to.
    fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError>;
    /// The current record of the request that an entry created.
    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError>;
    /// The settlement of the request that an entry created.
    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError>;
    /// The payments to a payee; `None` also if the row is damaged.
    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError>;
    /// The newest entry that the payee rows include. A commit directly after this entry, with complete payee rows,
    /// advances it to the new head. After any other commit it stays behind until the rows are rebuilt.
    fn payees_through(&self) -> Result<Head, StoreError>;
    /// Makes a batch durable before it returns.
    ///
    /// # Errors
    /// The write failed. The content of the disk is then unknown.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError>;
    /// A reader for other threads.
    fn reader(&self) -> Arc<dyn Reader>;

    /// Delays changes to the history file until [`Store::end_copy`], so that it can be copied. A change that cannot
    /// wait makes the copy invalid. Returns the path of the file, or `None` if there is none yet.
    ///
    /// # Errors
    /// The store does not use files, or a checkpoint in progress failed.
    fn begin_copy(&mut self) -> Result<Option<PathBuf>, StoreError> {
        Err(StoreError::Bug("a journal in memory cannot be copied".to_owned()))
    }

    /// Copies the short file to `to`, if a path is given, and ends the delay of changes to the history.
    ///
    /// # Errors
    /// The copy failed, or the history changed since [`Store::begin_copy`]: begin again.
    fn end_copy(&mut self, _to: Option<&Path>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Reads committed records without the core.
pub trait Reader: Send + Sync + fmt::Debug {
    /// The current record of a request.
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError>;
    /// The settlement of the request that an entry created.
    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError>;
    /// The payments to a payee. Also fails while the rows are behind the head.
    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError>;
    /// Visits all payee rows, in any order.
    fn payees(&self, visit: &mut VisitPayee<'_>) -> Result<(), StoreError>;
    /// Returns the approved payees on a payee's network whose addresses resemble its address.
    fn similar_payees(&self, payee: &Payee) -> Result<Vec<Payee>, StoreError>;
    /// Returns the index rows whose keys begin with `start`, a few hundred at most.
    fn index_rows(&self, start: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, StoreError>;
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
    /// Returns the requests whose id begins with these hex digits, at most `PREFIX_HITS_MAX`; hyphens do not count.
    fn by_prefix(&self, prefix: &str) -> Result<Vec<Request>, StoreError> {
        let mut found = Vec::new();
        self.newest(&mut |request| {
            if request.id.has_prefix(prefix) {
                found.push(request);
            }
            found.len() < PREFIX_HITS_MAX
        })?;
        Ok(found)
    }
    /// Visits the entries after `seq` in order.
    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError>;
    /// Returns the request whose settlement names a transaction, if the journal indexes transactions.
    fn request_of_transaction(&self, hash: B256) -> Result<Option<Request>, StoreError> {
        let rows = self.index_rows(&transaction_key(hash))?;
        let Some((_key, seq)) = rows.first() else { return Ok(None) };
        let mut settled = None;
        self.read_after(seq.saturating_sub(1), &mut |bytes| {
            settled = match codec::event(bytes) {
                Some(Event::SettlementReported { settlement, .. }) => Some(settlement.id),
                Some(Event::SettlementChecked { id, .. }) => Some(id),
                _other => None,
            };
            false
        })?;
        settled.map_or(Ok(None), |id| self.request(id))
    }
}

/// Maximum number of rows of a search in the index.
pub(super) const INDEX_ROWS_MAX: usize = 256;
/// Maximum number of requests that a search by the beginning of an id returns.
pub(super) const PREFIX_HITS_MAX: usize = 16;

/// Returns the beginning of the index keys of the ids with this prefix; `None` if the prefix is not hex.
///
/// Keys consist of whole bytes, so an odd last digit of the prefix is left out.
pub(super) fn prefix_key(prefix: &str) -> Option<Vec<u8>> {
    let mut digits: String = prefix.chars().filter(|c| *c != '-').collect();
    if digits.len() % 2 == 1 {
        digits.pop();
    }
    Some([b"i".to_vec(), hex::decode(digits).ok()?].concat())
}

/// Returns the index key of a settlement's transaction.
pub(super) fn transaction_key(hash: B256) -> Vec<u8> {
    [b"t".as_slice(), hash.as_slice()].concat()
}

/// Returns the index key of a request id.
pub(super) fn id_key(id: RequestId) -> Vec<u8> {
    [b"i".as_slice(), id.as_bytes()].concat()
}

/// Encodes a request's record or a settlement.
///
/// # Errors
/// The reason why it cannot be encoded.
pub(super) fn encode_record<T: Serialize>(record: &T) -> Result<Vec<u8>, String> {
    stored::write_in_oldest_form(|form| {
        let mut bytes = Vec::with_capacity(RECORD_CAPACITY_BYTES);
        // A record of the oldest form has no mark: it begins with the length of its id.
        if form > stored::OLDEST_READABLE_FORM {
            bytes.extend([FORM_FOLLOWS, form]);
        }
        postcard::to_extend(record, bytes).map_err(|error| error.to_string())
    })
}

/// The first byte of a record whose second byte names its form.
const FORM_FOLLOWS: u8 = 0;

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let (form, record) = match bytes {
        [FORM_FOLLOWS, form, record @ ..] => (codec::check_form(*form)?, record),
        record => (stored::OLDEST_READABLE_FORM, record),
    };
    stored::read_in_form(form, || postcard::from_bytes(record)).map_err(|error| error.to_string())
}

/// Decodes a request's record.
///
/// # Errors
/// The record is damaged.
pub fn decode_record(bytes: &[u8]) -> Result<Request, StoreError> {
    decode(bytes)
        .map_err(|error| StoreError::Corrupt(format!("a request's record is damaged: {error}")))
}

pub(super) fn decode_settlement(bytes: &[u8]) -> Result<Settlement, StoreError> {
    decode(bytes)
        .map_err(|error| StoreError::Corrupt(format!("a settlement's record is damaged: {error}")))
}

const SNAPSHOT_VERSION: u8 = 14;

/// Encodes a snapshot: version, head, tag (zeros if there is none), state.
pub(super) fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = vec![SNAPSHOT_VERSION];
    bytes.extend_from_slice(&encode_head(snapshot.head));
    bytes.extend_from_slice(&snapshot.tag.unwrap_or_default());
    bytes.extend_from_slice(&snapshot.state);
    bytes
}

/// Decodes a snapshot. `None` if another version wrote it or it is truncated: a snapshot is a cache.
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
