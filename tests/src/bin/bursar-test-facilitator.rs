//! The product's facilitator, which ends itself at a named point of the test's choice: `BURSAR_FAULT` is
//! `<point>:<n>`, for the nth time that it is reached. Never part of a release.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bursar_chain::points::Points;

#[derive(Debug)]
struct Kill {
    point: String,
    at: usize,
    reached: AtomicUsize,
}

impl Points for Kill {
    fn reach(&self, point: &'static str) {
        if point != self.point || self.reached.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return;
        }
        let ourselves = rustix::process::getpid();
        rustix::process::kill_process(ourselves, rustix::process::Signal::KILL).expect("killed");
        // The signal comes at once, but perhaps to another thread first.
        loop {
            std::thread::park();
        }
    }
}

fn main() -> ExitCode {
    let fault = std::env::var("BURSAR_FAULT").unwrap_or_default();
    let (point, at) = fault.rsplit_once(':').unwrap_or(("", "0"));
    let at = at.parse().expect("a number");
    let kill = Kill { point: point.to_owned(), at, reached: AtomicUsize::new(0) };
    bursar_facilitator::program::main(Arc::new(kill))
}
