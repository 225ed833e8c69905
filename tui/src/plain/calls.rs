//! The commands in flight, and when each topic is queried.

use std::collections::{BTreeMap, BTreeSet};

use crate::console::model::server::Topic;

/// The topics that the console keeps up to date.
pub(super) const TOPICS: [Topic; 6] =
    [Topic::Status, Topic::Requests, Topic::Agents, Topic::Policies, Topic::Addresses, Topic::Feed];
/// Minimum time between two queries of a topic, because agents may pay a thousand times a second.
const QUERY_INTERVAL_MS: u64 = 300;
/// Interval in which status and requests are queried without a reason.
const POLL_MS: u64 = 10_000;
/// The topics that are polled.
const POLLED: [Topic; 2] = [Topic::Status, Topic::Requests];

/// Why a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Query(Topic),
    /// Reads the requests for the card of a decision.
    Card,
    Watch,
    /// A command of the operator.
    Line,
}

/// The commands in flight.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last_id: u64,
    purposes: BTreeMap<u64, Purpose>,
    stale: BTreeSet<Topic>,
    queried_ms: BTreeMap<Topic, u64>,
}

impl Calls {
    /// Returns the id of a new command.
    pub(super) fn start(&mut self, purpose: Purpose) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.purposes.insert(self.last_id, purpose);
        self.last_id
    }

    /// Ends a command and returns why it ran.
    pub(super) fn end(&mut self, id: u64) -> Option<Purpose> {
        self.purposes.remove(&id)
    }

    pub(super) fn is_in_flight(&self, purpose: Purpose) -> bool {
        self.purposes.values().any(|known| *known == purpose)
    }

    /// Drops every command: the engine never answers those of an earlier connection.
    pub(super) fn forget(&mut self) {
        self.purposes.clear();
        self.stale.clear();
        self.queried_ms.clear();
    }

    pub(super) fn mark_stale(&mut self, topics: &[Topic]) {
        self.stale.extend(topics.iter().filter(|topic| TOPICS.contains(topic)));
    }

    /// Returns the queries that are due, and counts them as sent.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<(u64, Topic)> {
        for topic in POLLED {
            let asked = self.queried_ms.get(&topic);
            if asked.is_some_and(|asked| now_ms.saturating_sub(*asked) >= POLL_MS) {
                self.stale.insert(topic);
            }
        }
        let due = self.stale.iter().copied().filter(|topic| self.due_ms(*topic) <= now_ms);
        let due = due.filter(|topic| !self.is_in_flight(Purpose::Query(*topic)));
        let due: Vec<Topic> = due.collect();
        let mut sent = Vec::new();
        for topic in due {
            self.stale.remove(&topic);
            self.queried_ms.insert(topic, now_ms);
            sent.push((self.start(Purpose::Query(topic)), topic));
        }
        sent
    }

    fn due_ms(&self, topic: Topic) -> u64 {
        self.queried_ms.get(&topic).map_or(0, |asked| asked.saturating_add(QUERY_INTERVAL_MS))
    }

    /// Returns when the next query is due.
    pub(super) fn wake_ms(&self) -> Option<u64> {
        let idle = |topic: &Topic| !self.is_in_flight(Purpose::Query(*topic));
        let stale = self.stale.iter().filter(|topic| idle(topic)).map(|topic| self.due_ms(*topic));
        let polls = POLLED.iter().filter(|topic| idle(topic));
        let polls = polls.filter_map(|topic| self.queried_ms.get(topic));
        stale.chain(polls.map(|asked| asked.saturating_add(POLL_MS))).min()
    }
}
