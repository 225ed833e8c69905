//! The latest balance of each account.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::Address;
use bursar_core::limits::{CARD_BALANCE_AGE_MS_MAX, FUNDS_CACHE_ACCOUNTS_MAX};
use bursar_core::networks::ChainId;
use bursar_core::time::{Moment, Utc};
use tokio::sync::{Semaphore, watch};

use super::holding::{NetworkFunds, UnknownReason};

/// The maximum of concurrent probes: public nodes limit the rate of requests.
const CONCURRENT_PROBES_MAX: usize = 8;

/// A balance and the time when it was read.
#[derive(Debug, Clone)]
pub struct CachedBalance {
    pub funds: Arc<NetworkFunds>,
    pub read: Utc,
}

/// An address on a network.
pub type AccountKey = (Address, ChainId);

/// The latest balance of each account, and the probes in flight.
#[derive(Debug)]
pub(super) struct BalanceCache {
    // A mutex instead of an owning task: it is held only to access the map.
    probes: Mutex<BTreeMap<AccountKey, LatestProbe>>,
    pub(super) room: Semaphore,
}

impl Default for BalanceCache {
    fn default() -> Self {
        Self { probes: Mutex::default(), room: Semaphore::new(CONCURRENT_PROBES_MAX) }
    }
}

/// The latest probe of one account.
#[derive(Debug, Default)]
pub(super) struct LatestProbe {
    /// The latest successful probe and its time by [`Moment::age_clock_ms`].
    latest_success: Option<(u64, CachedBalance)>,
    /// When the latest probe ended, by [`Moment::age_clock_ms`].
    pub(super) ended_ms: Option<u64>,
    /// The reason why the latest probe failed.
    pub(super) failed: Option<UnknownReason>,
    /// Whether a caller timed out waiting for a probe, and no probe has succeeded since.
    pub(super) is_slow: bool,
    /// Closed when the running probe ends.
    pub(super) running: Option<watch::Receiver<()>>,
}

impl LatestProbe {
    fn store(&mut self, now: &Moment, funds: Arc<NetworkFunds>) {
        self.ended_ms = Some(now.age_clock_ms());
        self.failed = funds.failure();
        if self.failed.is_none() {
            self.is_slow = false;
            self.latest_success =
                Some((now.age_clock_ms(), CachedBalance { funds, read: now.utc }));
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|done| done.has_changed().is_ok())
    }

    /// Returns the cached balance, unless it is older than [`CARD_BALANCE_AGE_MS_MAX`].
    pub(super) fn current(&self, now_ms: u64) -> Result<CachedBalance, UnknownReason> {
        match &self.latest_success {
            Some((at, cached)) if now_ms.saturating_sub(*at) < CARD_BALANCE_AGE_MS_MAX => {
                Ok(cached.clone())
            }
            _ => Err(self.failed.unwrap_or(UnknownReason::TooSlow)),
        }
    }
}

impl BalanceCache {
    pub(super) fn lock_probes(&self) -> MutexGuard<'_, BTreeMap<AccountKey, LatestProbe>> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the result of a probe, or of a lookup by [`Funds::of`](super::Funds::of).
    pub(super) fn store(&self, account: AccountKey, now: &Moment, funds: &Arc<NetworkFunds>) {
        let mut known = self.lock_probes();
        make_room(&mut known, &account);
        known.entry(account).or_default().store(now, Arc::clone(funds));
    }
}

/// Makes room for one more account, if the cache is full.
pub(super) fn make_room(known: &mut BTreeMap<AccountKey, LatestProbe>, account: &AccountKey) {
    if known.len() >= FUNDS_CACHE_ACCOUNTS_MAX && !known.contains_key(account) {
        known.retain(|_account, known| known.is_running());
    }
}
