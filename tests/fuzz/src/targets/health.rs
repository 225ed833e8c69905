//! The health of a service during a target: it keeps running, and its memory and open files stay bounded.

use std::time::{Duration, Instant};

use crate::process::Service;

/// Maximum growth of a service after the warm-up, in MiB. It covers buffers of bodies and answers in debug builds.
const GROWTH_MIB_MAX: f64 = 96.0;
/// Time for which connections may stay open after the fuzzer closed them. Idle connections end after 75 seconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(90);

/// Measurements of one service.
#[derive(Debug, Default)]
pub(crate) struct Health {
    start: Option<(f64, usize)>,
}

impl Health {
    pub(crate) fn measure(&mut self, service: &Service) {
        self.start = Some((service.memory_mib(), service.open_files()));
    }

    /// Compares memory and files with those after the warm-up. Returns the values that have grown too much.
    pub(crate) fn compare(&self, service: &Service) -> Vec<String> {
        let Some((memory, files)) = self.start else { return Vec::new() };
        let mut violated = Vec::new();
        let now = service.memory_mib();
        if now > memory + GROWTH_MIB_MAX {
            violated.push(format!("resident memory grew from {memory:.0} to {now:.0} MiB"));
        }
        let end = Instant::now() + CLOSE_TIMEOUT;
        // Since the first measurement, the service may have opened its store and pooled connections to its nodes.
        while service.open_files() > files + 8 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        if service.open_files() > files + 8 {
            violated.push(format!("open files grew from {files} to {}", service.open_files()));
        }
        violated
    }
}
