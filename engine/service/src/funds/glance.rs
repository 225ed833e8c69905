//! What an address held when it was last looked at: for cards, which may not keep an operator waiting.
//!
//! A look goes on by itself when whoever asked has lost patience, and what it finds is told to the next one.
//! A network that keeps silent or fails is waited for once: from then on what is known is told at once, until
//! a look succeeds again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use bursar_core::limits::{
    FUNDS_KEPT, FUNDS_WAIT_MS, GLANCE_FRESH_MS, GLANCE_KEPT_MS, GLANCE_WAIT_MS,
};
use bursar_core::networks::{ChainId, Network};
use bursar_core::time::{Moment, Utc};
use futures::future::join_all;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::merge::merge;
use super::{Funds, NetworkFunds, Unknown};

/// Looks that run at once: public nodes limit how often they are asked.
const AT_ONCE: usize = 8;

/// What was read, and when.
#[derive(Debug, Clone)]
pub struct Glance {
    pub funds: Arc<NetworkFunds>,
    pub read: Utc,
}

/// Whose balances are wanted, and where.
pub type Whose = (Address, ChainId);

#[derive(Debug)]
pub(super) struct Glances {
    /// A mutex and not an owner behind a channel: it is held for a look into the map.
    known: Mutex<BTreeMap<Whose, Known>>,
    room: Semaphore,
}

impl Default for Glances {
    fn default() -> Self {
        Self { known: Mutex::default(), room: Semaphore::new(AT_ONCE) }
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The last look that told something, by the monotonic clock and by the wall's.
    read: Option<(u64, Glance)>,
    /// When the last look ended.
    ended_ms: Option<u64>,
    /// Why the last look told nothing.
    failed: Option<Unknown>,
    /// Somebody waited for the look that runs, in vain.
    slow: bool,
    /// Closed when the look that runs has ended.
    running: Option<watch::Receiver<()>>,
}

impl Known {
    fn note(&mut self, now: &Moment, funds: Arc<NetworkFunds>) {
        self.ended_ms = Some(now.mono_ms);
        self.failed = funds.failure();
        if self.failed.is_none() {
            self.slow = false;
            self.read = Some((now.mono_ms, Glance { funds, read: now.utc }));
        }
    }

    fn runs(&self) -> bool {
        self.running.as_ref().is_some_and(|done| done.has_changed().is_ok())
    }

    fn tell(&self, now_ms: u64) -> Result<Glance, Unknown> {
        match &self.read {
            Some((at, glance)) if now_ms.saturating_sub(*at) < GLANCE_KEPT_MS => Ok(glance.clone()),
            _ => Err(self.failed.unwrap_or(Unknown::TooSlow)),
        }
    }
}

impl Glances {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Whose, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a look for somebody else found.
    pub(super) fn note(&self, whose: Whose, now: &Moment, funds: &Arc<NetworkFunds>) {
        let mut known = self.known();
        make_room(&mut known, &whose);
        known.entry(whose).or_default().note(now, Arc::clone(funds));
    }
}

fn make_room(known: &mut BTreeMap<Whose, Known>, whose: &Whose) {
    if known.len() >= FUNDS_KEPT && !known.contains_key(whose) {
        known.retain(|_whose, known| known.runs());
    }
}

impl Funds {
    /// What each of these addresses held when it was last looked at. Looks again where that was some seconds
    /// ago, at all of them at once, and waits [`GLANCE_WAIT_MS`] at most.
    pub async fn glance(
        self: &Arc<Self>,
        wanted: impl IntoIterator<Item = (Address, &'static Network)>,
    ) -> BTreeMap<Whose, Result<Glance, Unknown>> {
        let until = Instant::now() + Duration::from_millis(GLANCE_WAIT_MS);
        let each: BTreeMap<Whose, &'static Network> =
            wanted.into_iter().map(|(owner, network)| ((owner, network.chain), network)).collect();
        let each = each.into_iter().map(|(whose, network)| async move {
            (whose, self.glance_at(whose, network, until).await)
        });
        join_all(each).await.into_iter().collect()
    }

    async fn glance_at(
        self: &Arc<Self>,
        whose: Whose,
        network: &'static Network,
        until: Instant,
    ) -> Result<Glance, Unknown> {
        if self.chains.get(&network.chain).is_none() {
            return Err(Unknown::NoEndpoint);
        }
        let Some(mut done) = self.begin(whose, network) else {
            return self.told(whose);
        };
        // Nothing is ever sent: it ends when the look has.
        if timeout_at(until, done.changed()).await.is_err()
            && let Some(known) = self.glances.known().get_mut(&whose)
        {
            known.slow = true;
        }
        self.told(whose)
    }

    fn told(&self, whose: Whose) -> Result<Glance, Unknown> {
        let now_ms = self.clock.mono_ms();
        self.glances.known().get(&whose).map_or(Err(Unknown::TooSlow), |known| known.tell(now_ms))
    }

    /// Sees to it that what is known is fresh or soon will be. Answers what to wait for, if that is worth it.
    fn begin(
        self: &Arc<Self>,
        whose: Whose,
        network: &'static Network,
    ) -> Option<watch::Receiver<()>> {
        let now_ms = self.clock.mono_ms();
        let mut all = self.glances.known();
        make_room(&mut all, &whose);
        let known = all.entry(whose).or_default();
        if !known.runs() {
            let fresh = |ended: u64| now_ms.saturating_sub(ended) < GLANCE_FRESH_MS;
            if known.ended_ms.is_some_and(fresh) {
                return None;
            }
            let (end, done) = watch::channel(());
            known.running = Some(done);
            let funds = Arc::clone(self);
            tokio::spawn(async move {
                funds.look_for_cards(whose, network).await;
                drop(end);
            });
        }
        let worth_it = !known.slow && known.failed.is_none();
        known.running.clone().filter(|_done| worth_it)
    }

    /// Asks the chain alone: what an explorer knows besides stands on no card.
    async fn look_for_cards(&self, whose: Whose, network: &'static Network) {
        let deadline = Instant::now() + Duration::from_millis(FUNDS_WAIT_MS);
        let known = match timeout_at(deadline, self.glances.room.acquire()).await {
            Ok(_room) => self.known(whose.0, network, deadline).await,
            Err(_elapsed) => Err(Unknown::TooSlow),
        };
        let funds = Arc::new(merge(network, known, None));
        self.glances.note(whose, &self.clock.now(), &funds);
    }
}

#[cfg(test)]
mod tests;
