//! Failpoints: named points before and after durable writes. A test can end the process or fail the disk at each of
//! them. In production they do nothing. The trait is in this crate because every service depends on this crate.

use std::fmt::Debug;
use std::io;

/// Decides what happens at a failpoint.
pub trait Failpoints: Send + Sync + Debug {
    /// Called at a failpoint; a test may end the process here.
    ///
    /// # Errors
    /// The caller handles an error like a failure of the disk.
    fn hit(&self, point: &'static str) -> io::Result<()>;

    /// Passes a failpoint at which an error has no effect: a test can only end the process there.
    fn pass(&self, point: &'static str) {
        let _without_effect = self.hit(point);
    }
}

/// Does nothing at any failpoint.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFailpoints;

impl Failpoints for NoFailpoints {
    fn hit(&self, _point: &'static str) -> io::Result<()> {
        Ok(())
    }
}
