//! What happened, in its order: the one list that everybody writes to and the auditor reads.

use std::sync::{Arc, Mutex};

use bursar_auditor::seen::Seen;

/// Thrown at a fault point: the process is gone. No hook tells of it, and nothing that still runs is heard.
#[derive(Debug)]
pub(crate) struct Death;

#[derive(Debug, Clone, Default)]
pub(crate) struct Tape {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    seen: Vec<Seen>,
    dead: bool,
}

impl Tape {
    /// Nothing leaves a process that is dead.
    pub(crate) fn write(&self, seen: Seen) {
        let mut inner = self.inner.lock().unwrap();
        if !inner.dead {
            inner.seen.push(seen);
        }
    }

    /// What was written since the last time.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.inner.lock().unwrap().seen)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner.lock().unwrap().dead
    }

    /// The process dies here.
    pub(crate) fn die(&self) -> ! {
        self.inner.lock().unwrap().dead = true;
        std::panic::resume_unwind(Box::new(Death))
    }

    pub(crate) fn kill(&self) {
        self.inner.lock().unwrap().dead = true;
    }

    /// The next life writes again.
    pub(crate) fn revive(&self) {
        self.inner.lock().unwrap().dead = false;
    }
}
