//! Limits the calls per minute, in an exact sliding window. Calls that prove an agent count for that agent, all
//! others for the address of the caller. So a caller without a proof cannot use up an agent's rate.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::Clock;
use bursar_core::ids::AgentId;
use bursar_core::limits::{RATE_ADDRESSES_MAX, RATE_WINDOW_MS};
use bursar_serve::access::client_address;

/// The time until the next allowed call in milliseconds; at least 1.
pub(super) type WaitMs = u64;

/// The minimum time between two searches for idle buckets while all buckets are in use.
const SWEEP_MS: u64 = 1_000;

/// Counts the calls of the last minute per key.
#[derive(Debug)]
pub(super) struct MinuteWindow<K> {
    clock: Arc<dyn Clock>,
    buckets_max: usize,
    // A mutex instead of an owning task: every call takes it, and it is never held across an await.
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    /// The times of each key's calls in the last minute, oldest first. Rejected calls do not count.
    calls: HashMap<K, VecDeque<u64>>,
    /// The calls of all keys for which there was no bucket left.
    overflow_calls: VecDeque<u64>,
    swept_ms: u64,
}

impl<K: Eq + Hash> MinuteWindow<K> {
    pub(super) fn new(clock: Arc<dyn Clock>, most_buckets: usize) -> Self {
        let buckets =
            Buckets { calls: HashMap::new(), overflow_calls: VecDeque::new(), swept_ms: 0 };
        Self { clock, buckets_max: most_buckets, buckets: Mutex::new(buckets) }
    }

    /// Counts a call, unless the last minute already has `limit` calls.
    ///
    /// # Errors
    /// Contains the time until the next allowed call, in milliseconds.
    pub(super) fn take(&self, key: K, limit: u32) -> Result<(), WaitMs> {
        let now = self.clock.mono_ms();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { calls, overflow_calls: others, swept_ms } = &mut *buckets;
        if calls.len() >= self.buckets_max
            && !calls.contains_key(&key)
            && now.saturating_sub(*swept_ms) >= SWEEP_MS
        {
            *swept_ms = now;
            calls.retain(|_key, times| times.back().is_some_and(|last| is_recent(*last, now)));
        }
        let full = calls.len() >= self.buckets_max && !calls.contains_key(&key);
        take(if full { others } else { calls.entry(key).or_default() }, now, limit)
    }
}

fn is_recent(at: u64, now: u64) -> bool {
    now.saturating_sub(at) < RATE_WINDOW_MS
}

fn take(times: &mut VecDeque<u64>, now: u64, limit: u32) -> Result<(), WaitMs> {
    while times.front().is_some_and(|first| !is_recent(*first, now)) {
        times.pop_front();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // After the limit was lowered there may be more calls than it allows.
    match times.len().checked_sub(limit).and_then(|over| times.get(over)) {
        Some(next_free) => Err(next_free.saturating_add(RATE_WINDOW_MS).saturating_sub(now).max(1)),
        None => {
            times.push_back(now);
            Ok(())
        }
    }
}

/// The three counters of the agent server.
#[derive(Debug)]
pub(super) struct Rate {
    unproven: MinuteWindow<IpAddr>,
    polls: MinuteWindow<IpAddr>,
    agents: MinuteWindow<AgentId>,
}

impl Rate {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let addresses = || MinuteWindow::new(Arc::clone(clock), RATE_ADDRESSES_MAX);
        // The operator registers the agents, so their number needs no bound.
        let agents = MinuteWindow::new(Arc::clone(clock), usize::MAX);
        Self { unproven: addresses(), polls: addresses(), agents }
    }

    /// Counts a call without a proof. With a limit of `None` nothing is counted.
    ///
    /// # Errors
    /// See [`MinuteWindow::take`].
    pub(super) fn count_unproven(&self, peer: IpAddr, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.unproven.take(client_key(peer), limit))
    }

    /// Counts a poll or a health check.
    ///
    /// # Errors
    /// See [`MinuteWindow::take`].
    pub(super) fn count_poll(&self, peer: IpAddr, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.polls.take(client_key(peer), limit))
    }

    /// Counts a call of a proven agent.
    ///
    /// # Errors
    /// See [`MinuteWindow::take`].
    pub(super) fn count_proven(&self, agent: &AgentId, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.agents.take(agent.clone(), limit))
    }
}

/// Maps an address to the caller for which it counts, as [`client_address`] does. All programs on this machine are
/// one caller.
pub(super) fn client_key(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        // A local process may call from any loopback address.
        local if local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        other => client_address(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    fn minute(most: usize) -> (MinuteWindow<u32>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        (MinuteWindow::new(Arc::clone(&clock) as _, most), clock)
    }

    #[test]
    fn no_sliding_minute_exceeds_the_limit() {
        // Sixty calls in quick succession, shortly before the end of a minute.
        let late: Vec<u64> = [59_980].into_iter().chain([1; 60]).collect();
        let drawn: [&[u64]; 6] =
            [&[1], &[200], &[199, 1, 7_000], &[59_999, 1], &[20_000, 1, 1, 1], &late];
        for steps in drawn {
            let (minute, clock) = minute(9);
            let mut allowed = Vec::new();
            let mut now = 0;
            for step in steps.iter().cycle().take(2_000) {
                match minute.take(1, 30) {
                    Ok(()) => allowed.push(now),
                    Err(wait) => {
                        let from = now + wait - 60_000;
                        assert!(allowed.contains(&from), "{wait} ms at {now}");
                    }
                }
                let within = allowed.iter().rev().take_while(|at| now - **at < 60_000).count();
                assert!(within <= 30, "{within} at {now}");
                clock.advance(*step);
                now += step;
            }
            assert!(allowed.len() >= 30);
        }
    }

    #[test]
    fn the_returned_wait_is_the_shortest() {
        let (minute, clock) = minute(9);
        for _call in 0..3 {
            minute.take(1, 3).unwrap();
            clock.advance(1_000);
        }
        assert_eq!(minute.take(1, 3), Err(57_000));
        clock.advance(56_999);
        assert_eq!(minute.take(1, 3), Err(1));
        clock.advance(1);
        assert_eq!(minute.take(1, 3), Ok(()));
        assert_eq!(minute.take(1, 3), Err(1_000));
        // After the limit was lowered, two of the three calls must be over a minute old.
        assert_eq!(minute.take(1, 2), Err(2_000));
        assert_eq!(minute.take(1, 4), Ok(()));
    }

    #[test]
    fn callers_beyond_the_bound_share_one_bucket_until_others_are_idle() {
        let (minute, clock) = minute(4);
        clock.advance(10_000);
        for key in 0..4 {
            assert_eq!(minute.take(key, 2), Ok(()));
        }
        assert_eq!((4..10).filter(|key| minute.take(*key, 2).is_ok()).count(), 2);
        assert_eq!(minute.take(3, 2), Ok(()), "a known one has its own");
        clock.advance(60_000);
        assert_eq!((4..8).filter(|key| minute.take(*key, 2).is_ok()).count(), 4);
        assert_eq!(minute.buckets.lock().unwrap().calls.len(), 4);
    }
}
