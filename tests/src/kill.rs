//! Fault points that kill the process.
//!
//! `BURSAR_FAULT` is `<point>:<n>`: the process dies when the point is reached for the nth time.

use std::sync::atomic::{AtomicUsize, Ordering};

use bursar_chain::failpoints::Failpoints;

/// Kills the process at the fault point that the environment names.
#[derive(Debug)]
pub struct KillAtPoint {
    point: String,
    nth: usize,
    reached: AtomicUsize,
}

impl KillAtPoint {
    /// Reads `BURSAR_FAULT`; without it the process never kills itself.
    pub fn from_environment() -> Self {
        let fault = std::env::var("BURSAR_FAULT").unwrap_or_default();
        let (point, at) = fault.rsplit_once(':').unwrap_or(("", "0"));
        let at = at.parse().expect("a number");
        Self { point: point.to_owned(), nth: at, reached: AtomicUsize::new(0) }
    }
}

impl Failpoints for KillAtPoint {
    fn hit(&self, point: &'static str) -> std::io::Result<()> {
        if point != self.point || self.reached.fetch_add(1, Ordering::SeqCst) + 1 != self.nth {
            return Ok(());
        }
        let pid = rustix::process::getpid();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        // Another thread may receive the signal first, so this thread must not continue.
        loop {
            std::thread::park();
        }
    }
}
