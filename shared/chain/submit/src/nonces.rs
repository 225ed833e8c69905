//! Which nonce is next, and which ones are missing.

use crate::desk::{Desk, SubmissionId};

/// How far a node's count of what waits may be ahead of ours and of what it says is mined: no further than
/// what could be filled if it turns out to be wrong.
const JUMP_MAX: u64 = GAP_MAX;

/// The highest nonce that a desk uses. EIP-2681 ends at 2^64 - 2; far below it no desk overflows.
const NONCE_MAX: u64 = u64::MAX - 65_536;

/// How many nonces at a time are filled with nothing.
pub(crate) const GAP_MAX: u64 = 32;

/// The lowest nonce that nobody holds and that can still be used, where a node says that `pending` is
/// the first that it is missing. `None` where what it says cannot be.
pub(crate) fn free(desk: &Desk, pending: u64, mined: u64) -> Option<u64> {
    let held = desk.held();
    let next = held.keys().next_back().map_or(0, |last| last.saturating_add(1)).max(desk.floor);
    let next = next.max(mined);
    if pending.max(mined) > NONCE_MAX || pending.saturating_sub(next) > JUMP_MAX {
        return None;
    }
    (desk.floor.max(pending)..).find(|nonce| !held.contains_key(nonce))
}

/// What keeps signed transactions from being mined, where a node says that `pending` is the first nonce
/// that it is missing: for the first of them, the gap below it that nobody holds.
pub(crate) fn gap(desk: &Desk, pending: u64) -> Option<(SubmissionId, std::ops::Range<u64>)> {
    let mut from = pending;
    for (nonce, id) in desk.held().range(pending..) {
        if *nonce > from {
            return Some((*id, from..*nonce));
        }
        from = nonce.saturating_add(1);
    }
    None
}
