//! The seal of the head: HMAC-SHA256 under a subkey of the wallet's master key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Head, Seal};

fn mac(key: &[u8; 32], head: Head) -> Option<Hmac<Sha256>> {
    // Any key length is accepted, so this is never None.
    let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    Some(
        mac.chain_update(b"bursar journal head")
            .chain_update(head.seq.to_be_bytes())
            .chain_update(head.hash),
    )
}

pub(super) fn seal(key: &[u8; 32], head: Head) -> Seal {
    let tag = mac(key, head).map_or([0; 32], |mac| mac.finalize().into_bytes().into());
    Seal { seq: head.seq, tag }
}

pub(super) fn fits(key: &[u8; 32], head: Head, stored: &Seal) -> bool {
    stored.seq == head.seq
        && mac(key, head).is_some_and(|mac| mac.verify_slice(&stored.tag).is_ok())
}
