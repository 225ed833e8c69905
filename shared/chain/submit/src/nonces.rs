//! Chooses the next nonce, and finds gaps of nonces.

use crate::outbox::{Outbox, SubmissionId};

/// Maximum lead of a node's pending count over our nonces and over its mined count. If the pending count is wrong, a
/// gap of this length can still be filled.
const PENDING_LEAD_MAX: u64 = GAP_MAX;

/// The highest nonce that an outbox uses. EIP-2681 ends at 2^64 - 2; staying far below it prevents overflow.
const NONCE_MAX: u64 = u64::MAX - 65_536;

/// The longest gap of nonces that is filled with empty transactions.
pub(crate) const GAP_MAX: u64 = 32;

/// Returns the lowest usable nonce that no submission holds. `pending` is the first nonce for which the node has no
/// transaction. Returns `None` if the node's counts are implausible.
pub(crate) fn lowest_free_nonce(outbox: &Outbox, pending: u64, mined: u64) -> Option<u64> {
    let held = outbox.held_nonces();
    let next = held.keys().next_back().map_or(0, |last| last.saturating_add(1)).max(outbox.floor);
    let next = next.max(mined);
    if pending.max(mined) > NONCE_MAX || pending.saturating_sub(next) > PENDING_LEAD_MAX {
        return None;
    }
    (outbox.floor.max(pending)..).find(|nonce| !held.contains_key(nonce))
}

/// Returns the first gap of nonces that no submission holds, and the submission that the gap blocks. The search
/// starts at `pending`, the first nonce for which the node has no transaction.
pub(crate) fn first_nonce_gap(
    outbox: &Outbox,
    pending: u64,
) -> Option<(SubmissionId, std::ops::Range<u64>)> {
    let mut from = pending;
    for (nonce, id) in outbox.held_nonces().range(pending..) {
        if *nonce > from {
            return Some((*id, from..*nonce));
        }
        from = nonce.saturating_add(1);
    }
    None
}
