//! How often one caller may fail to prove that it is one agent: guessing is slow long before it is lucky.

use std::net::IpAddr;
use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::{FAILED_AUTH_PER_MINUTE, RATE_KEYS};

use super::auth::identity;
use super::rate::{Minute, WaitMs, fold};

/// A hash, so that what is kept for a key does not depend on what a caller sends.
type Key = [u8; 32];

/// Failed proofs a minute for each agent's text and caller.
#[derive(Debug)]
pub struct FailedAuth {
    minute: Minute<Key>,
}

impl FailedAuth {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { minute: Minute::new(clock, RATE_KEYS) }
    }

    /// Counts one failure. `agent` is the text as it came, of an agent or not: nothing here tells which.
    ///
    /// # Errors
    /// There were too many: how long the caller has to wait, in milliseconds.
    pub fn count(&self, agent: &str, peer: IpAddr) -> Result<(), WaitMs> {
        let prefix = fold(peer).to_string();
        let key = identity(&[prefix.as_bytes(), agent.as_bytes()]);
        self.minute.take(key, FAILED_AUTH_PER_MINUTE)
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
        (0..100).filter(|_attempt| failed.count(agent, peer).is_ok()).count()
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
            assert!(failed.count(&number.to_string(), peer).is_ok());
        }
        let shared =
            (0..100).filter(|number| failed.count(&format!("new {number}"), peer).is_ok()).count();
        assert_eq!(shared, 30);
        clock.advance(60_000);
        assert_eq!(failures(&failed, "later", "127.0.0.1"), 30);
    }
}
