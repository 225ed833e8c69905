//! The decisions about marked requests whose results are arriving.

use std::collections::{BTreeSet, VecDeque};

use super::selection::Chosen;

/// The decisions about marked requests that were sent together.
#[derive(Debug, Default)]
pub(crate) struct MarkedRun {
    pub(crate) approve: bool,
    pub(crate) total: usize,
    /// The decisions that were not sent yet.
    pub(crate) waiting: VecDeque<Chosen>,
    /// The ids of the requests whose decision was sent and whose results have not arrived.
    pub(crate) open: BTreeSet<String>,
    /// Number of decisions that the operator stopped before they were sent.
    pub(crate) stopped: usize,
    /// The short ids of the requests that were not decided, and why.
    pub(crate) failed: Vec<(String, String)>,
}

impl MarkedRun {
    /// Returns the number of requests that were decided.
    pub(crate) fn done(&self) -> usize {
        let others = [self.open.len(), self.waiting.len(), self.failed.len(), self.stopped];
        others.iter().fold(self.total, |left, count| left.saturating_sub(*count))
    }

    /// Returns whether every result has arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether a request belongs to the run, without a result so far.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.open.contains(id) || self.waiting.iter().any(|one| one.id == id)
    }

    /// Drops the decisions that were not sent.
    pub(crate) fn stop(&mut self) {
        self.stopped = self.stopped.saturating_add(self.waiting.len());
        self.waiting.clear();
    }

    /// Describes the state, or the result once no result is missing.
    pub(crate) fn text(&self) -> String {
        let (done, total) = (self.done(), self.total);
        let what = if self.approve { "Approved" } else { "Denied" };
        match total {
            1 => format!("{what} {done} of 1 request."),
            all if done == all => format!("{what} {all} requests."),
            all => format!("{what} {done} of {all} requests."),
        }
    }
}
