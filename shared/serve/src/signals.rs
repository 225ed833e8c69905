//! Signals of the operating system.

/// Waits for SIGTERM or SIGINT.
///
/// It registers for the signals when it is called, not only when it is first polled.
///
/// # Panics
/// Outside a tokio runtime.
pub fn stop_requested() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Registered before the first wait, so that these signals never kill a service that has reported its readiness.
        let each = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        async move {
            let waits = each.into_iter().flatten().map(|mut one| {
                Box::pin(async move {
                    // The result is `None` only if the runtime ends.
                    let _received = one.recv().await;
                })
            });
            let waits: Vec<_> = waits.collect();
            if waits.is_empty() {
                std::future::pending::<()>().await;
            }
            futures::future::select_all(waits).await;
        }
    }
    #[cfg(not(unix))]
    async {
        let _signalled = tokio::signal::ctrl_c().await;
    }
}

/// Prevents SIGXFSZ from ending the process when a file reaches the size limit (`ulimit -f`).
///
/// Without the signal, such a write fails like any other write.
pub fn outlive_file_size_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler does nothing. It stays registered after this temporary runtime has ended.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            let _entered = runtime.enter();
            let _kept = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        }
    }
}
