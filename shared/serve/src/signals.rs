//! Signals of the operating system.

/// Resolves when the process receives SIGTERM or SIGINT.
pub async fn stop_requested() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            // cancel-safe: signals only wait.
            tokio::select! {
                _either = interrupted => {}
                _either = terminated.recv() => {}
            }
            return;
        }
    }
    let _signalled = interrupted.await;
}
