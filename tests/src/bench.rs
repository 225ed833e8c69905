//! Shared code of the benches.

use tokio::runtime::{Builder, Runtime};

/// Returns a runtime with two worker threads, as the product's programs have on a small server.
///
/// # Panics
/// If no thread can be started.
#[must_use]
pub fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
