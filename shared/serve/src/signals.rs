//! Signals of the operating system.

/// Waits for SIGTERM or SIGINT.
///
/// It listens from the call on, not only from the first poll.
///
/// # Panics
/// Outside a tokio runtime.
pub fn stop_requested() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Registered before the first wait, so that no signal ends a service that has reported its readiness.
        let each = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        async move {
            let waits = each.into_iter().flatten().map(|mut one| {
                Box::pin(async move {
                    // `None` only if the runtime ends.
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

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail, instead of ending the process by SIGXFSZ.
///
/// A log or a store at the limit is then a failed write like any other.
pub fn outlive_file_size_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler does nothing, and outlives the runtime that it is registered in.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            let _entered = runtime.enter();
            let _kept = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        }
    }
}
