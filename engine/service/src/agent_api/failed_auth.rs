//! How often one caller may fail to prove that it is one agent: guessing is slow long before it is lucky.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::{FAILED_AUTH_PER_MINUTE, RATE_KEYS};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::auth::identity;
use super::rate::{Ticks, fold};

/// A hash, so that what is kept for a key does not depend on what a caller sends.
type Key = [u8; 32];

/// Failed proofs a minute for each agent's text and caller.
#[derive(Debug)]
pub struct FailedAuth {
    limiter: Option<RateLimiter<Key, HashMapStateStore<Key>, Ticks, NoOpMiddleware<Nanos>>>,
}

impl FailedAuth {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let quota = NonZeroU32::new(FAILED_AUTH_PER_MINUTE).map(Quota::per_minute);
        let limiter =
            quota.map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), Ticks(clock)));
        Self { limiter }
    }

    /// Counts one failure; whether the caller may be told of it as such. `agent` is the text as it came,
    /// of an agent or not: nothing here tells which.
    pub fn allows(&self, agent: &str, peer: IpAddr) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        let prefix = fold(peer).to_string();
        let mut key = identity(&[prefix.as_bytes(), agent.as_bytes()]);
        if limiter.len() >= RATE_KEYS {
            limiter.retain_recent();
            if limiter.len() >= RATE_KEYS {
                // Full of callers who are all failing: newcomers share one bucket.
                key = Key::default();
            }
        }
        limiter.check_key(&key).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    fn fresh() -> (FailedAuth, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        (FailedAuth::new(Arc::clone(&clock) as _), clock)
    }

    fn failures(failed: &FailedAuth, agent: &str, peer: &str) -> usize {
        let peer: IpAddr = peer.parse().unwrap();
        (0..100).filter(|_attempt| failed.allows(agent, peer)).count()
    }

    #[test]
    fn thirty_failures_of_one_agent_from_one_place_are_enough() {
        let (failed, clock) = fresh();
        assert_eq!(failures(&failed, "ABC123", "127.0.0.1"), 30);
        // The same machine by another of its addresses, and the same network by another of its own.
        assert_eq!(failures(&failed, "ABC123", "::1"), 0);
        assert_eq!(failures(&failed, "ABC123", "2001:db8::1"), 30);
        assert_eq!(failures(&failed, "ABC123", "2001:db8::2"), 0);
        // Nobody else is held up by it.
        assert_eq!(failures(&failed, "ABC124", "127.0.0.1"), 30);
        assert_eq!(failures(&failed, "ABC123", "192.168.1.9"), 30);
        clock.advance(60_000);
        assert_eq!(failures(&failed, "ABC123", "127.0.0.1"), 30);
    }

    #[test]
    fn made_up_agents_do_not_fill_the_memory() {
        let (failed, clock) = fresh();
        let peer: IpAddr = "127.0.0.1".parse().unwrap();
        for number in 0..RATE_KEYS {
            assert!(failed.allows(&number.to_string(), peer));
        }
        let shared =
            (0..100).filter(|number| failed.allows(&format!("new {number}"), peer)).count();
        assert_eq!(shared, 30);
        clock.advance(60_000);
        assert_eq!(failures(&failed, "later", "127.0.0.1"), 30);
    }
}
