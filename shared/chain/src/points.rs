//! Named points at which a test ends the process. Nothing happens there in production. The shape alone is here,
//! because every service has such points, also one that sends no transactions.

use std::fmt::Debug;

/// What happens at named points.
pub trait Points: Send + Sync + Debug {
    /// Called at a point; may not come back.
    fn reach(&self, point: &'static str);
}

/// Nothing happens at any point.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPoints;

impl Points for NoPoints {
    fn reach(&self, _point: &'static str) {}
}
