//! Failpoints: named points at durable boundaries, where a test stops the process or fails the disk.

use std::fmt;
use std::io;

use bursar_domain::apply::Touched;
use bursar_domain::{Command, Decision, Entry, Refusal, State};

/// Failpoints, where a test stops the process or fails the disk. Also the rules, so that a test can plant a
/// mutation and check that it is found. Production passes [`NoFaults`], which the compiler removes.
pub trait Faults: Send + Sync + fmt::Debug {
    /// Called at each failpoint.
    ///
    /// # Errors
    /// The caller handles an error like a failure of the disk.
    fn reach(&self, point: &'static str) -> io::Result<()>;

    /// Runs the rules. A test may plant a mutation here.
    ///
    /// # Errors
    /// The command is refused.
    fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal> {
        bursar_domain::decide(state, command)
    }

    /// Changes the state by one entry; nothing else writes the state. A test may plant a mutation here.
    fn apply(&self, state: &mut State, entry: &Entry) -> Option<Touched> {
        bursar_domain::apply(state, entry)
    }
}

/// The production value: every failpoint succeeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn reach(&self, _point: &'static str) -> io::Result<()> {
        Ok(())
    }
}
