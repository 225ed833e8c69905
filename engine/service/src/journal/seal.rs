//! The seals of the head and of a snapshot: HMAC-SHA256 under a subkey of the wallet's master key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::head::Head;
use super::store::{Seal, Snapshot};

fn mac(key: &[u8; 32], context: &[u8], head: Head) -> Option<Hmac<Sha256>> {
    // HMAC accepts keys of any length, so this never returns `None`.
    let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    Some(mac.chain_update(context).chain_update(head.seq.to_be_bytes()).chain_update(head.hash))
}

fn of_head(key: &[u8; 32], head: Head) -> Option<Hmac<Sha256>> {
    mac(key, b"bursar journal head", head)
}

fn of_snapshot(key: &[u8; 32], snapshot: &Snapshot) -> Option<Hmac<Sha256>> {
    let mac = mac(key, b"bursar journal snapshot", snapshot.head)?;
    Some(mac.chain_update(Sha256::digest(&snapshot.state)))
}

pub(super) fn seal(key: &[u8; 32], head: Head) -> Seal {
    let tag = of_head(key, head).map_or([0; 32], |mac| mac.finalize().into_bytes().into());
    Seal { seq: head.seq, tag }
}

pub(super) fn matches_seal(key: &[u8; 32], head: Head, stored: &Seal) -> bool {
    stored.seq == head.seq
        && of_head(key, head).is_some_and(|mac| mac.verify_slice(&stored.tag).is_ok())
}

pub(super) fn snapshot_tag(key: &[u8; 32], snapshot: &Snapshot) -> Option<[u8; 32]> {
    of_snapshot(key, snapshot).map(|mac| mac.finalize().into_bytes().into())
}

pub(super) fn matches_snapshot_tag(key: &[u8; 32], snapshot: &Snapshot) -> bool {
    snapshot.tag.is_some_and(|tag| {
        of_snapshot(key, snapshot).is_some_and(|mac| mac.verify_slice(&tag).is_ok())
    })
}
