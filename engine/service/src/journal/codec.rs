//! The bytes of an entry: version, sequence number, time, hash of the entry before, event.

use bursar_core::time::Utc;
use bursar_domain::{Entry, Event};
use sha2::{Digest, Sha256};

use super::head::{Hash, Head};

/// Initial capacity in bytes: most records and entries fit without growing.
pub(super) const RECORD_BYTES: usize = 1024;

/// The version of the encoding. Raise it with every change of an event's form, unless it only appends a variant to an enum:
/// entries that were written before do not contain it. Other versions are rejected.
const VERSION: u8 = 7;

pub(super) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(super) fn encode(entry: &Entry, before: &Hash) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    bytes.push(VERSION);
    bytes.extend_from_slice(&entry.seq.to_be_bytes());
    bytes.extend_from_slice(&entry.at.0.to_be_bytes());
    bytes.extend_from_slice(before);
    postcard::to_extend(&entry.event, bytes).map_err(|error| error.to_string())
}

/// Returns the event of an entry whose position in the chain was checked before.
pub(super) fn event(bytes: &[u8]) -> Option<Event> {
    // Version, sequence number, time and hash come before it.
    let (_head, event) = bytes.split_at_checked(1 + 8 + 8 + 32)?;
    postcard::from_bytes(event).ok()
}

/// Decodes the entry that follows `after`. Checks its number and its hash of the previous entry.
pub(super) fn decode(bytes: &[u8], after: Head) -> Result<Entry, String> {
    let encoded = EncodedEntry::split(bytes)?;
    if Some(encoded.seq) != after.seq.checked_add(1) {
        return Err(format!("its own number is {}", encoded.seq));
    }
    if *encoded.before != after.hash {
        return Err("its hash of the previous entry is wrong".to_owned());
    }
    encoded.decode()
}

/// Decodes the entry `seq`. Checks its number, but no hash.
pub(super) fn decode_at(bytes: &[u8], seq: u64) -> Result<Entry, String> {
    let encoded = EncodedEntry::split(bytes)?;
    if encoded.seq != seq {
        return Err(format!("its own number is {}", encoded.seq));
    }
    encoded.decode()
}

/// Decodes the entry at `at` of a trusted chain. Checks number and hash, and returns the previous entry's hash too.
pub(super) fn decode_back(bytes: &[u8], at: Head) -> Result<(Entry, Hash), String> {
    let encoded = EncodedEntry::split(bytes)?;
    if encoded.seq != at.seq || hash(bytes) != at.hash {
        return Err("its hash is not the one in the next entry".to_owned());
    }
    let before = *encoded.before;
    Ok((encoded.decode()?, before))
}

/// The fields of an encoded entry.
struct EncodedEntry<'a> {
    seq: u64,
    at: Utc,
    before: &'a Hash,
    event: &'a [u8],
}

impl<'a> EncodedEntry<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, String> {
        const SHORT: &str = "the entry is cut short";
        let (version, rest) = bytes.split_first().ok_or(SHORT)?;
        if *version != VERSION {
            return Err(format!("this program does not know entry version {version}"));
        }
        let (seq, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
        let (at, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
        let (before, event) = rest.split_first_chunk::<32>().ok_or(SHORT)?;
        let (seq, at) = (u64::from_be_bytes(*seq), Utc(i64::from_be_bytes(*at)));
        Ok(Self { seq, at, before, event })
    }

    fn decode(self) -> Result<Entry, String> {
        let (event, left) =
            postcard::take_from_bytes::<Event>(self.event).map_err(|error| error.to_string())?;
        if !left.is_empty() {
            return Err("bytes follow the event".to_owned());
        }
        Ok(Entry { seq: self.seq, at: self.at, event })
    }
}
