//! The decisions about marked requests whose results are arriving.

use std::collections::BTreeSet;

/// The decisions about marked requests that were sent together.
#[derive(Debug, Default)]
pub(crate) struct MarkedRun {
    pub(crate) approve: bool,
    pub(crate) total: usize,
    /// The ids of the requests whose results have not arrived.
    pub(crate) open: BTreeSet<String>,
    /// The short ids of the requests that were not decided, and why.
    pub(crate) failed: Vec<(String, String)>,
}

impl MarkedRun {
    /// Returns the number of requests that were decided.
    pub(crate) fn done(&self) -> usize {
        self.total.saturating_sub(self.open.len()).saturating_sub(self.failed.len())
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
