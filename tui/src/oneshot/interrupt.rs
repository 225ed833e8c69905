//! Ctrl-C as a future. Once the future exists, the signal no longer ends the process. So a prompt can restore the
//! terminal's echo, and an engine in this process can finish its work.

use std::pin::Pin;

/// Completes once, when the operator interrupts.
pub type Interrupt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns a future that completes on Ctrl-C.
///
/// It must be called inside the runtime.
#[cfg(unix)]
pub fn ctrl_c() -> Interrupt {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::interrupt()) {
        Ok(mut interrupts) => Box::pin(async move {
            interrupts.recv().await;
        }),
        // Without a handler the signal ends the process by itself.
        Err(_no_handler) => Box::pin(std::future::pending()),
    }
}

/// Returns a future that completes on Ctrl-C.
///
/// It must be called inside the runtime.
#[cfg(not(unix))]
pub fn ctrl_c() -> Interrupt {
    Box::pin(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
