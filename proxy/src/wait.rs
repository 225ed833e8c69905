//! Waiting by the injected clock.

use bursar_chain::ports::Clock;

/// What comes within so many milliseconds; `None` if nothing does, and then the future is dropped.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    ms: u64,
    future: impl Future<Output = T>,
) -> Option<T> {
    let end = clock.mono_ms().saturating_add(ms);
    // cancel-safe: the clock only waits, and the other is meant to end with it.
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep_until(end) => None,
    }
}
