//! The tape: one ordered list of all observations. Separate entries about loans are for the world's own checks.

use std::sync::{Arc, Mutex};

use bursar_auditor::observations::Observation;

use crate::loan_book::LoanObservation;

/// The panic payload of a fault point, which means that the process is dead.
///
/// The panic bypasses the panic hook. Code that still runs can no longer write to the tape.
#[derive(Debug)]
pub(crate) struct ProcessDied;

/// An entry of the tape.
#[derive(Clone)]
pub(crate) enum TapeEntry {
    Public(Observation),
    /// An observation that only the auditor judges.
    Audited(Observation),
    Loan(LoanObservation),
}

impl std::fmt::Debug for TapeEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Public(observation) | Self::Audited(observation) => observation.fmt(f),
            Self::Loan(seen) => seen.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tape {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<TapeEntry>,
    is_dead: bool,
}

impl Tape {
    /// Appends an observation, unless the process is dead.
    pub(crate) fn write(&self, observation: Observation) {
        self.push(TapeEntry::Public(observation));
    }

    /// Appends an observation that only the auditor judges, unless the process is dead.
    pub(crate) fn write_audited(&self, observation: Observation) {
        self.push(TapeEntry::Audited(observation));
    }

    /// Appends an entry about a loan, unless the process is dead.
    pub(crate) fn write_loan(&self, seen: LoanObservation) {
        self.push(TapeEntry::Loan(seen));
    }

    fn push(&self, seen: TapeEntry) {
        let mut inner = self.inner.lock().unwrap();
        if !inner.is_dead {
            inner.entries.push(seen);
        }
    }

    /// Removes and returns the entries since the last call.
    pub(crate) fn take(&self) -> Vec<TapeEntry> {
        std::mem::take(&mut self.inner.lock().unwrap().entries)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner.lock().unwrap().is_dead
    }

    /// Marks the process as dead, and unwinds out of its code with [`ProcessDied`].
    pub(crate) fn die(&self) -> ! {
        self.inner.lock().unwrap().is_dead = true;
        std::panic::resume_unwind(Box::new(ProcessDied))
    }

    /// Marks the process as dead, from outside its code.
    pub(crate) fn kill(&self) {
        self.inner.lock().unwrap().is_dead = true;
    }

    /// Lets the next process write to the tape.
    pub(crate) fn revive(&self) {
        self.inner.lock().unwrap().is_dead = false;
    }
}
