//! Limits of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a stream waits for a customer that does not read, in milliseconds.
pub(crate) const CUSTOMER_READ_MS_MAX: u64 = 120_000;

/// Memory for the copies of all open streams.
///
/// A stream that exceeds it is not stored.
#[derive(Debug, Clone)]
pub struct StreamBudget {
    bytes_left: Arc<AtomicUsize>,
}

impl StreamBudget {
    /// Creates a budget of `bytes`.
    pub fn of(bytes: usize) -> Self {
        Self { bytes_left: Arc::new(AtomicUsize::new(bytes)) }
    }

    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let subtract = |left: usize| left.checked_sub(bytes);
        self.bytes_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, subtract).is_ok()
    }

    pub(super) fn release(&self, bytes: usize) {
        self.bytes_left.fetch_add(bytes, Ordering::AcqRel);
    }
}
