//! What waits for a transaction on one network, and when it has waited enough. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::book::Record;
use crate::settle::transaction;

/// When payments are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many payments share a transaction.
    pub together: usize,
    /// How long a payment waits for others, while there are transactions under way.
    pub window_ms: u64,
    /// How many transactions a signer has unmined at a time.
    pub in_flight: usize,
}

#[derive(Debug, Clone)]
struct Waiting {
    record: Arc<Record>,
    since_ms: u64,
}

impl Waiting {
    fn can_share(&self) -> bool {
        // What has failed in company is tried alone.
        self.record.attempts == 0 && transaction::can_share(&self.record.payment)
    }
}

/// Payments in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    waiting: VecDeque<Waiting>,
}

impl Queue {
    pub fn push(&mut self, record: Arc<Record>, now_ms: u64) {
        self.waiting.push_back(Waiting { record, since_ms: now_ms });
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the first has waited enough, whatever else comes.
    pub fn due_ms(&self, limits: &Limits) -> Option<u64> {
        self.waiting.front().map(|first| first.since_ms.saturating_add(limits.window_ms))
    }

    /// The payments of the next transaction, if it is time for one. A lone payment never waits; what comes
    /// while transactions are under way waits for company, but not for long.
    pub fn next(&mut self, limits: &Limits, idle: bool, now_ms: u64) -> Option<Vec<Arc<Record>>> {
        let first = self.waiting.front()?;
        let alone = !first.can_share();
        let full = self.waiting.len() >= limits.together;
        let waited = self.due_ms(limits).is_some_and(|due| due <= now_ms);
        (idle || alone || full || waited).then(|| self.take(limits.together))
    }

    fn take(&mut self, most: usize) -> Vec<Arc<Record>> {
        let Some(first) = self.waiting.pop_front() else { return Vec::new() };
        if !first.can_share() {
            return vec![first.record];
        }
        let mut taken = vec![first.record];
        let mut left = VecDeque::with_capacity(self.waiting.len());
        for next in self.waiting.drain(..) {
            let fits = taken.len() < most && next.can_share() && {
                let payment = &next.record.payment;
                taken.iter().all(|other| transaction::tells_apart(&other.payment, payment))
            };
            if fits {
                taken.push(next.record);
            } else {
                left.push_back(next);
            }
        }
        self.waiting = left;
        taken
    }
}
