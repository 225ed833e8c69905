//! Runs blocking work on the runtime's blocking threads.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use tokio::runtime::{self, RuntimeFlavor};

/// Runs computation or disk access on a blocking thread. A single-threaded runtime runs it in place, so that
/// simulations are deterministic.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    if runtime::Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))
}
