//! Named points at durable boundaries, where a test may stop the process or fail the disk.

use std::fmt;
use std::io;

use bursar_domain::apply::Touched;
use bursar_domain::{Command, Decision, Entry, Refusal, State};

/// Named points at durable boundaries where a test may stop the process or fail the disk, and the rules, in
/// which a test may plant a mistake to see whether it is found. Production passes [`NoFaults`], which the
/// compiler removes.
pub trait Faults: Send + Sync + fmt::Debug {
    /// Called when execution reaches `point`; an error is handled like one of the disk.
    fn reach(&self, point: &'static str) -> io::Result<()>;

    /// The rules.
    fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal> {
        bursar_domain::decide(state, command)
    }

    /// The only writer of the state.
    fn apply(&self, state: &mut State, entry: &Entry) -> Option<Touched> {
        bursar_domain::apply(state, entry)
    }
}

/// The production value: nothing fails on purpose.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn reach(&self, _point: &'static str) -> io::Result<()> {
        Ok(())
    }
}
