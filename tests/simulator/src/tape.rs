//! The tape: one ordered list of everything that happened, which the auditor reads.

use std::sync::{Arc, Mutex};

use bursar_auditor::observations::Observation;

/// The panic payload of a fault point: the process is dead.
///
/// The panic bypasses the panic hook. Code that still runs can no longer write to the tape.
#[derive(Debug)]
pub(crate) struct Death;

#[derive(Debug, Clone, Default)]
pub(crate) struct Tape {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    observations: Vec<Observation>,
    dead: bool,
}

impl Tape {
    /// Appends an observation, unless the process is dead.
    pub(crate) fn write(&self, observation: Observation) {
        let mut inner = self.inner.lock().unwrap();
        if !inner.dead {
            inner.observations.push(observation);
        }
    }

    /// Takes the observations since the last call.
    pub(crate) fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut self.inner.lock().unwrap().observations)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner.lock().unwrap().dead
    }

    /// Marks the process as dead, and unwinds out of its code with [`Death`].
    pub(crate) fn die(&self) -> ! {
        self.inner.lock().unwrap().dead = true;
        std::panic::resume_unwind(Box::new(Death))
    }

    /// Marks the process as dead, from outside its code.
    pub(crate) fn kill(&self) {
        self.inner.lock().unwrap().dead = true;
    }

    /// Lets the next process write.
    pub(crate) fn revive(&self) {
        self.inner.lock().unwrap().dead = false;
    }
}
