//! Waits that use the injected clock.

use bursar_chain::ports::Clock;
use tokio_util::sync::CancellationToken;

/// Returns the future's output, or `None` if it takes longer than `ms` milliseconds.
///
/// After the timeout the future is dropped.
pub async fn with_timeout<T>(
    clock: &dyn Clock,
    ms: u64,
    future: impl Future<Output = T>,
) -> Option<T> {
    let end = clock.mono_ms().saturating_add(ms);
    // cancel-safe: the clock only waits, and the future may be dropped at the timeout.
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep_until(end) => None,
    }
}

/// Waits for `ms` milliseconds, or until `stopping` is cancelled.
///
/// Returns `false` if `stopping` is cancelled.
pub async fn pause(clock: &dyn Clock, ms: u64, stopping: &CancellationToken) -> bool {
    let wake = clock.mono_ms().saturating_add(ms);
    // cancel-safe: both branches only wait.
    tokio::select! {
        () = stopping.cancelled() => false,
        () = clock.sleep_until(wake) => true,
    }
}
