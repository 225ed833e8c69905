//! Cached results of the last reads of venues and positions. A read starts from them, but checks them against the
//! chain.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_morpho::VenueId;

use super::position_read::PositionHint;
use super::vault_read::Structure;
use super::venue_read::{Endorser, VenueHint};

/// Maximum number of cached venues, and of cached positions. A full cache is cleared.
const HINTS_MAX: usize = 4_096;

type HintKey = (ChainId, VenueId);

#[derive(Debug, Default)]
pub(super) struct Hints {
    // A lock instead of an owning task: it is never held across an await.
    cache: Mutex<CachedHints>,
}

#[derive(Debug, Default)]
struct CachedHints {
    venues: BTreeMap<HintKey, VenueHint>,
    positions: BTreeMap<(HintKey, Address), PositionHint>,
}

impl Hints {
    fn lock_cache(&self) -> MutexGuard<'_, CachedHints> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn venue(&self, chain: ChainId, venue: VenueId) -> VenueHint {
        self.lock_cache().venues.get(&(chain, venue)).cloned().unwrap_or_default()
    }

    pub(super) fn set_structure(&self, chain: ChainId, venue: VenueId, structure: Structure) {
        let mut known = self.lock_cache();
        if known.venues.len() >= HINTS_MAX {
            known.venues.clear();
        }
        known.venues.entry((chain, venue)).or_default().structure = structure;
    }

    /// Caches which vault lends to a market.
    pub(super) fn set_endorser(&self, chain: ChainId, market: VenueId, endorser: Option<Endorser>) {
        let mut known = self.lock_cache();
        let hint = known.venues.entry((chain, market)).or_default();
        if hint.endorser != endorser {
            *hint = VenueHint { endorser, ..VenueHint::default() };
        }
    }

    /// Returns the cached data of a position. A market's parameters are the same for all addresses, so they may come
    /// from the position of another address.
    pub(super) fn position(&self, chain: ChainId, venue: VenueId, owner: Address) -> PositionHint {
        let known = self.lock_cache();
        let place = (chain, venue);
        let hint = known.positions.get(&(place, owner)).copied().unwrap_or_default();
        let params = hint.params.or_else(|| known.positions.get(&(place, Address::ZERO))?.params);
        PositionHint { params, ..hint }
    }

    pub(super) fn set_position(
        &self,
        chain: ChainId,
        venue: VenueId,
        owner: Address,
        hint: PositionHint,
    ) {
        let mut known = self.lock_cache();
        if known.positions.len() >= HINTS_MAX {
            known.positions.clear();
        }
        if hint.params.is_some() {
            known.positions.insert(((chain, venue), Address::ZERO), hint);
        }
        known.positions.insert(((chain, venue), owner), hint);
    }

    /// Updates the number of shares of a cached position.
    pub(super) fn note_shares(&self, chain: ChainId, venue: VenueId, owner: Address, shares: U256) {
        let mut known = self.lock_cache();
        if let Some(hint) = known.positions.get_mut(&((chain, venue), owner)) {
            hint.shares = shares;
        }
    }
}
