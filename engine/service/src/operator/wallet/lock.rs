//! Locks the wallet.

use std::sync::Arc;

use bursar_core::lock_cause::LockCause;

use crate::blocking::blocking;
use crate::context::EngineContext;

/// Locks the wallet if the journal still ends with entry `entries`: a later entry means that the wallet was opened or
/// used.
pub(crate) async fn lock_unless_used(engine: &Arc<EngineContext>, cause: LockCause, entries: u64) {
    let one_at_a_time = engine.wallet_changes.lock().await;
    if engine.core.view().head.seq == entries {
        tracing::info!(cause = cause.text(), "the wallet locks by itself");
        write_head_and_lock(engine, cause, one_at_a_time).await;
    }
}

/// Locks the wallet. Never fails: errors of recording the lock are only logged.
pub(crate) async fn lock(engine: &Arc<EngineContext>, cause: LockCause) {
    let one_at_a_time = engine.wallet_changes.lock().await;
    write_head_and_lock(engine, cause, one_at_a_time).await;
}

/// Writes the head of a trusted journal to the wallet file, then locks.
async fn write_head_and_lock(
    engine: &Arc<EngineContext>,
    cause: LockCause,
    _one_at_a_time: tokio::sync::MutexGuard<'_, ()>,
) {
    let mut noted = None;
    if engine.vault.is_unlocked() {
        let view = engine.core.view();
        if view.untrusted_reason.is_none() && view.failure.is_none() {
            let (vault, head) = (Arc::clone(&engine.vault), view.head);
            match blocking(move || vault.note_journal(head)).await {
                Ok(Ok(())) => noted = Some(head.seq),
                Err(fault) | Ok(Err(fault)) => {
                    tracing::warn!(code = %fault.code, "the position of the journal could not be saved in the wallet file");
                }
            }
        }
        engine.vault.lock();
    }
    if let Err(fault) = engine.core.report_lock(cause, noted).await {
        tracing::debug!(code = %fault.code, "the core had stopped before the wallet was locked");
    }
}
