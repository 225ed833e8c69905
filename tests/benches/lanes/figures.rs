//! The times and the round trips of one measurement.

use std::time::Duration;

/// The figures of one measurement.
#[derive(Default)]
pub struct Figures {
    pub times: Vec<Duration>,
    /// Number of round trips to the node for each request.
    pub trips: Vec<usize>,
}

impl Figures {
    pub fn print(mut self, name: &str) {
        self.times.sort_unstable();
        self.trips.sort_unstable();
        let last = self.times.len() - 1;
        let at = |share: usize| self.times[last * share / 100].as_secs_f64() * 1_000.0;
        println!(
            "{name}, a node 20 ms away: p50 {:.1} ms, p95 {:.1} ms; round trips: median {}, most {}",
            at(50),
            at(95),
            self.trips[last / 2],
            self.trips[last]
        );
    }
}
