//! Cached balances for cards, so that a slow network does not keep the operator waiting.
//!
//! A probe of the chain continues in the background when its caller stops waiting; the next caller gets its result.
//! After an account's probe was slow or failed, callers get its cached balance at once until a probe succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use bursar_core::limits::{CARD_BALANCE_FRESH_MS, CARD_BALANCE_WAIT_MS, FUNDS_TIMEOUT_MS};
use bursar_core::networks::Network;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Funds;
use super::balance_cache::{AccountKey, CachedBalance, make_room};
use super::holding::UnknownReason;
use super::merge::merge;

impl Funds {
    /// Returns the cached balances of these addresses.
    ///
    /// It starts a probe for each balance older than [`CARD_BALANCE_FRESH_MS`], and waits at most
    /// [`CARD_BALANCE_WAIT_MS`] for all probes.
    pub async fn cached_balances(
        self: &Arc<Self>,
        wanted: impl IntoIterator<Item = (Address, &'static Network)>,
    ) -> BTreeMap<AccountKey, Result<CachedBalance, UnknownReason>> {
        let until = Instant::now() + Duration::from_millis(CARD_BALANCE_WAIT_MS);
        let each: BTreeMap<AccountKey, &'static Network> =
            wanted.into_iter().map(|(owner, network)| ((owner, network.chain), network)).collect();
        let each = each.into_iter().map(|(account, network)| async move {
            (account, self.cached_balance(account, network, until).await)
        });
        join_all(each).await.into_iter().collect()
    }

    async fn cached_balance(
        self: &Arc<Self>,
        account: AccountKey,
        network: &'static Network,
        until: Instant,
    ) -> Result<CachedBalance, UnknownReason> {
        if self.chains.get(&network.chain).is_none() {
            return Err(UnknownReason::NoEndpoint);
        }
        let Some(mut done) = self.begin_probe(account, network) else {
            return self.current(account);
        };
        // The channel carries no value: it closes when the probe ends.
        if timeout_at(until, done.changed()).await.is_err()
            && let Some(known) = self.cache.lock_probes().get_mut(&account)
        {
            known.is_slow = true;
        }
        self.current(account)
    }

    fn current(&self, account: AccountKey) -> Result<CachedBalance, UnknownReason> {
        let now_ms = self.clock.now().age_clock_ms();
        self.cache
            .lock_probes()
            .get(&account)
            .map_or(Err(UnknownReason::TooSlow), |known| known.current(now_ms))
    }

    /// Starts a probe if the cached balance is stale and no probe runs.
    ///
    /// Returns a receiver that closes at the end of the probe; `None` if no probe runs, or if the last probe was slow
    /// or failed.
    fn begin_probe(
        self: &Arc<Self>,
        account: AccountKey,
        network: &'static Network,
    ) -> Option<watch::Receiver<()>> {
        let now_ms = self.clock.now().age_clock_ms();
        let mut all = self.cache.lock_probes();
        make_room(&mut all, &account);
        let known = all.entry(account).or_default();
        if !known.is_running() {
            let fresh = |ended: u64| now_ms.saturating_sub(ended) < CARD_BALANCE_FRESH_MS;
            if known.ended_ms.is_some_and(fresh) {
                return None;
            }
            let (end, done) = watch::channel(());
            known.running = Some(done);
            let funds = Arc::clone(self);
            tokio::spawn(async move {
                funds.probe(account, network).await;
                drop(end);
            });
        }
        let worth_it = !known.is_slow && known.failed.is_none();
        known.running.clone().filter(|_done| worth_it)
    }

    /// Reads the chain alone: cards show no token that only an explorer lists.
    async fn probe(&self, account: AccountKey, network: &'static Network) {
        let deadline = Instant::now() + Duration::from_millis(FUNDS_TIMEOUT_MS);
        let known = match timeout_at(deadline, self.cache.room.acquire()).await {
            Ok(_room) => self.read_known_tokens(account.0, network, deadline).await,
            Err(_elapsed) => Err(UnknownReason::TooSlow),
        };
        let funds = Arc::new(merge(network, known, None));
        self.cache.store(account, &self.clock.now(), &funds);
    }
}

#[cfg(test)]
mod tests;
