//! How often a caller may call: a sliding minute, counted exactly. Calls that prove an agent count for that agent, all
//! others for the address they come from. So no caller can use up what an agent may do.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::Clock;
use bursar_core::ids::AgentId;
use bursar_core::limits::{RATE_ADDRESSES, RATE_WINDOW_MS};

/// How long until the next call is allowed, in milliseconds; at least one.
pub(super) type WaitMs = u64;

/// Between two searches for buckets without calls, while there are as many as may be.
const SWEEP_MS: u64 = 1_000;

/// The calls of the last minute in each bucket.
#[derive(Debug)]
pub(super) struct Minute<K> {
    clock: Arc<dyn Clock>,
    most_buckets: usize,
    // A mutex, not a message: each call looks in, and it is never held across a wait.
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    /// When each call of the last minute came, oldest first. Refused ones do not count.
    calls: HashMap<K, VecDeque<u64>>,
    /// Of all callers that found no place for a bucket.
    others: VecDeque<u64>,
    swept_ms: u64,
}

impl<K: Eq + Hash> Minute<K> {
    pub(super) fn new(clock: Arc<dyn Clock>, most_buckets: usize) -> Self {
        let buckets = Buckets { calls: HashMap::new(), others: VecDeque::new(), swept_ms: 0 };
        Self { clock, most_buckets, buckets: Mutex::new(buckets) }
    }

    /// Counts a call, unless there were `limit` in the last minute.
    ///
    /// # Errors
    /// How long until there is room.
    pub(super) fn take(&self, key: K, limit: u32) -> Result<(), WaitMs> {
        let now = self.clock.mono_ms();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { calls, others, swept_ms } = &mut *buckets;
        if calls.len() >= self.most_buckets
            && !calls.contains_key(&key)
            && now.saturating_sub(*swept_ms) >= SWEEP_MS
        {
            *swept_ms = now;
            calls.retain(|_key, times| times.back().is_some_and(|last| is_recent(*last, now)));
        }
        let full = calls.len() >= self.most_buckets && !calls.contains_key(&key);
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
    // A limit that was lowered meanwhile leaves more calls than it allows.
    match times.len().checked_sub(limit).and_then(|over| times.get(over)) {
        Some(next_free) => Err(next_free.saturating_add(RATE_WINDOW_MS).saturating_sub(now).max(1)),
        None => {
            times.push_back(now);
            Ok(())
        }
    }
}

/// The three counts of the agent server.
#[derive(Debug)]
pub(super) struct Rate {
    unproven: Minute<IpAddr>,
    polls: Minute<IpAddr>,
    agents: Minute<AgentId>,
}

impl Rate {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let addresses = || Minute::new(Arc::clone(clock), RATE_ADDRESSES);
        // There are as many agents as the operator has registered.
        let agents = Minute::new(Arc::clone(clock), usize::MAX);
        Self { unproven: addresses(), polls: addresses(), agents }
    }

    /// Counts a call that proves nothing. A limit of `None` counts nothing.
    ///
    /// # Errors
    /// As [`Minute::take`].
    pub(super) fn unproven(&self, peer: IpAddr, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.unproven.take(fold(peer), limit))
    }

    /// Counts a poll or a look at the server's health.
    ///
    /// # Errors
    /// As [`Minute::take`].
    pub(super) fn poll(&self, peer: IpAddr, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.polls.take(fold(peer), limit))
    }

    /// Counts a call of an agent that has proven itself.
    ///
    /// # Errors
    /// As [`Minute::take`].
    pub(super) fn proven(&self, agent: &AgentId, limit: Option<u32>) -> Result<(), WaitMs> {
        limit.map_or(Ok(()), |limit| self.agents.take(agent.clone(), limit))
    }
}

/// One caller has an IPv4 address, or a /64 of IPv6 of which it may use any address.
pub(super) fn fold(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        // Every process here may call from any of these addresses.
        local if local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    fn minute(most: usize) -> (Minute<u32>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        (Minute::new(Arc::clone(&clock) as _, most), clock)
    }

    #[test]
    fn no_minute_has_more_calls_than_the_limit_wherever_it_begins() {
        // Sixty calls at once, begun shortly before a minute of the clock is over.
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
    fn the_wait_that_is_told_is_the_shortest() {
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
        // A limit that was lowered: two of the three must be over a minute old.
        assert_eq!(minute.take(1, 2), Err(2_000));
        assert_eq!(minute.take(1, 4), Ok(()));
    }

    #[test]
    fn callers_beyond_the_bound_share_one_bucket_until_others_are_quiet() {
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
