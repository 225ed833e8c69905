//! The bytes of an entry: form, sequence number, time, hash of the entry before, event. [`bursar_core::stored`]
//! explains how the form changes; entries of all forms since [`stored::OLDEST_READABLE_FORM`] are read.

use bursar_core::stored;
use bursar_core::time::Utc;
use bursar_domain::{Entry, Event};
use sha2::{Digest, Sha256};

use super::head::{Hash, Head};

/// Initial capacity in bytes: most records and entries fit without growing.
pub(super) const RECORD_CAPACITY_BYTES: usize = 1024;

pub(super) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(super) fn encode(entry: &Entry, before: &Hash) -> Result<Vec<u8>, String> {
    stored::write_in_oldest_form(|form| {
        let mut bytes = Vec::with_capacity(RECORD_CAPACITY_BYTES);
        bytes.push(form);
        bytes.extend_from_slice(&entry.seq.to_be_bytes());
        bytes.extend_from_slice(&entry.at.0.to_be_bytes());
        bytes.extend_from_slice(before);
        postcard::to_extend(&entry.event, bytes).map_err(|error| error.to_string())
    })
}

/// Checks that this build reads a form.
///
/// # Errors
/// The form is newer than this version reads.
pub(super) fn check_form(form: u8) -> Result<u8, String> {
    if form > stored::NEWEST_FORM {
        return Err(format!(
            "a newer version of Bursar wrote it (form {form}, this version reads forms up to {}): install that version",
            stored::NEWEST_FORM
        ));
    }
    if form < stored::OLDEST_READABLE_FORM {
        return Err(format!(
            "its form, {form}, is unknown: no released version of Bursar wrote it"
        ));
    }
    Ok(form)
}

/// Returns the event of an entry. The caller must have checked the entry's position in the chain.
pub(super) fn event(bytes: &[u8]) -> Option<Event> {
    EncodedEntry::split(bytes).ok()?.decode().ok().map(|entry| entry.event)
}

/// Decodes the entry that follows `after`. Checks its number and its hash of the previous entry.
pub(super) fn decode(bytes: &[u8], after: Head) -> Result<Entry, String> {
    let encoded = EncodedEntry::split(bytes)?;
    if Some(encoded.seq) != after.seq.checked_add(1) {
        return Err(format!("the entry stored there has the number {}", encoded.seq));
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
        return Err(format!("the entry stored there has the number {}", encoded.seq));
    }
    encoded.decode()
}

/// Decodes an entry from anywhere. Returns also the hash of the previous entry that it names. Checks no hash.
///
/// # Errors
/// The bytes are not an entry.
pub(crate) fn read_entry(bytes: &[u8]) -> Result<(Entry, Hash), String> {
    let encoded = EncodedEntry::split(bytes)?;
    let before = *encoded.before;
    Ok((encoded.decode()?, before))
}

/// Returns the hash of an entry's bytes.
pub(crate) fn hash_entry(bytes: &[u8]) -> Hash {
    hash(bytes)
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
    form: u8,
    seq: u64,
    at: Utc,
    before: &'a Hash,
    event: &'a [u8],
}

impl<'a> EncodedEntry<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, String> {
        const TOO_SHORT: &str = "the entry is cut short";
        let (form, rest) = bytes.split_first().ok_or(TOO_SHORT)?;
        let form = check_form(*form)?;
        let (seq, rest) = rest.split_first_chunk::<8>().ok_or(TOO_SHORT)?;
        let (at, rest) = rest.split_first_chunk::<8>().ok_or(TOO_SHORT)?;
        let (before, event) = rest.split_first_chunk::<32>().ok_or(TOO_SHORT)?;
        let (seq, at) = (u64::from_be_bytes(*seq), Utc(i64::from_be_bytes(*at)));
        Ok(Self { form, seq, at, before, event })
    }

    fn decode(self) -> Result<Entry, String> {
        let read =
            stored::read_in_form(self.form, || postcard::take_from_bytes::<Event>(self.event));
        let (event, left) = read.map_err(|error| error.to_string())?;
        if !left.is_empty() {
            return Err("bytes follow the event".to_owned());
        }
        Ok(Entry { seq: self.seq, at: self.at, event })
    }
}
