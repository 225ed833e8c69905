//! Limits how often one caller may fail to prove one agent, so that guessing a proof is hopeless.

use std::net::IpAddr;
use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::{FAILED_AUTH_PER_MINUTE_MAX, RATE_KEYS_MAX};

use super::auth::identity;
use super::rate::{MinuteWindow, WaitMs, client_key};

/// A hash, so that the size of a key does not depend on the caller's input.
type Key = [u8; 32];

/// Counts failed proofs per minute, by agent text and caller address.
#[derive(Debug)]
pub struct FailedProofLimit {
    minute: MinuteWindow<Key>,
}

impl FailedProofLimit {
    /// Creates an empty counter.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { minute: MinuteWindow::new(clock, RATE_KEYS_MAX) }
    }

    /// Counts one failure. `agent` is the text as received, whether or not it names an agent.
    ///
    /// # Errors
    /// The time to wait in milliseconds, if the limit is exceeded.
    pub fn count(&self, agent: &str, peer: IpAddr) -> Result<(), WaitMs> {
        let prefix = client_key(peer).to_string();
        let key = identity(&[prefix.as_bytes(), agent.as_bytes()]);
        self.minute.take(key, FAILED_AUTH_PER_MINUTE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    fn new_limit() -> (FailedProofLimit, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        (FailedProofLimit::new(Arc::clone(&clock) as _), clock)
    }

    fn failures(failed: &FailedProofLimit, agent: &str, peer: &str) -> usize {
        let peer: IpAddr = peer.parse().unwrap();
        (0..100).filter(|_attempt| failed.count(agent, peer).is_ok()).count()
    }

    #[test]
    fn thirty_failed_proofs_per_agent_and_address_are_the_limit() {
        let (failed, clock) = new_limit();
        assert_eq!(failures(&failed, "ABC123", "127.0.0.1"), 30);
        // `::1` is another address of the same machine, and `2001:db8::2` is in the same network as `2001:db8::1`.
        assert_eq!(failures(&failed, "ABC123", "::1"), 0);
        assert_eq!(failures(&failed, "ABC123", "2001:db8::1"), 30);
        assert_eq!(failures(&failed, "ABC123", "2001:db8::2"), 0);
        // Other agents and other callers are not affected.
        assert_eq!(failures(&failed, "ABC124", "127.0.0.1"), 30);
        assert_eq!(failures(&failed, "ABC123", "192.168.1.9"), 30);
        clock.advance(60_000);
        assert_eq!(failures(&failed, "ABC123", "127.0.0.1"), 30);
    }

    #[test]
    fn invented_agent_ids_use_bounded_memory() {
        let (failed, clock) = new_limit();
        let peer: IpAddr = "127.0.0.1".parse().unwrap();
        for number in 0..RATE_KEYS_MAX {
            assert!(failed.count(&number.to_string(), peer).is_ok());
        }
        let shared =
            (0..100).filter(|number| failed.count(&format!("new {number}"), peer).is_ok()).count();
        assert_eq!(shared, 30);
        clock.advance(60_000);
        assert_eq!(failures(&failed, "later", "127.0.0.1"), 30);
    }
}
