//! Failpoints: named points at which a test ends the process. They do nothing in production. The trait is here
//! because every service has failpoints, including those that send no transactions.

use std::fmt::Debug;

/// Decides what happens at a failpoint.
pub trait Points: Send + Sync + Debug {
    /// Called at a failpoint; may not return.
    fn reach(&self, point: &'static str);
}

/// Does nothing at any failpoint.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPoints;

impl Points for NoPoints {
    fn reach(&self, _point: &'static str) {}
}
