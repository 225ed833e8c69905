//! Seals the journal with a key of the wallet.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::blocking::blocking;
use crate::context::EngineContext;

/// Seals the head of a matching journal with the wallet's newest key, and records it in the wallet file.
pub(super) async fn seal(engine: &Arc<EngineContext>) -> Result<(), Fault> {
    let vault = Arc::clone(&engine.vault);
    let (keys, note) = blocking(move || {
        let keys = vault.seal_keys()?;
        Ok::<_, Fault>((keys, vault.journal_note()?))
    })
    .await??;
    if let Some(head) = engine.core.report_unlock(keys, note).await? {
        let vault = Arc::clone(&engine.vault);
        blocking(move || vault.note_sealed(head)).await??;
    }
    Ok(())
}

/// Accepts a journal that did not match the wallet, and seals it.
pub(crate) async fn accept(engine: &Arc<EngineContext>) -> Result<(), Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let vault = Arc::clone(&engine.vault);
    let keys = blocking(move || vault.seal_keys()).await??;
    let key = keys.into_iter().next().ok_or(Fault::new(Code::InternalError))?;
    engine.core.accept(key).await?;
    let (vault, head) = (Arc::clone(&engine.vault), engine.core.view().head);
    blocking(move || vault.note_sealed(head)).await?
}
