//! Opens the wallet file and admits the journal.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_control::answers::Warning;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_domain::Action;
use secrecy::SecretString;

use crate::blocking::blocking;
use crate::context::{EngineContext, Mode};
use crate::journal::Head;
use crate::lanes::payments::execute;
use crate::operator::support::act;
use crate::operator::support::password::{next_attempt, normalize};

/// Opens the wallet file, checks the journal against it, and only then allows signing. `attended` states that a person
/// entered the password.
pub(crate) async fn open_with(
    engine: &Arc<EngineContext>,
    given: SecretString,
    attended: bool,
) -> Result<Vec<Warning>, Fault> {
    // Wait out the password delay before taking `wallet_changes`, which locking the wallet needs too.
    let attempt = next_attempt(engine).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    if engine.vault.is_unlocked() {
        let vault = Arc::clone(&engine.vault);
        let given = normalize(&given);
        let verified = blocking(move || vault.verify_password(&given)).await?;
        attempt.finish(verified).await?;
        // A person is present now, although the wallet was opened without a person.
        if attended && engine.core.view().state.unattended.active {
            act(engine, Action::RecordUnlock { noted_entry: None, attended }).await?;
        }
        return Ok(Vec::new());
    }
    let known = engine.core.view().state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    let (vault, given) = (Arc::clone(&engine.vault), normalize(&given));
    let prepared = blocking(move || vault.prepare(&known, &given)).await?;
    let prepared = attempt.finish(prepared).await?;
    let mut warnings = Vec::new();
    if let Some(why) = &prepared.fallback {
        warnings.push(Warning { code: "PREVIOUS_COPY".to_owned(), message: why.to_string() });
    }
    let opened = match engine.core.report_unlock(prepared.seal_keys, prepared.note).await {
        Ok(sealed) => admit(engine, sealed).await,
        Err(fault) => Err(fault),
    };
    let opened = match opened {
        Ok((warnings, noted)) => act(engine, Action::RecordUnlock { noted_entry: noted, attended })
            .await
            .map(|_recorded| warnings),
        Err(fault) => Err(fault),
    };
    match opened {
        Ok(more) => warnings.extend(more),
        Err(fault) => {
            engine.vault.lock();
            return Err(fault);
        }
    }
    engine.last_used_ms.store(engine.ports.clock.mono_ms(), Ordering::Relaxed);
    reissue(engine).await;
    warnings.extend(apply_exposure(engine).await);
    Ok(warnings)
}

/// Applies the settings of an admitted journal to the agent server. Returns warnings.
pub(crate) async fn apply_exposure(engine: &EngineContext) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Err(fault) = engine.follow_exposure().await {
        warnings.push(Warning { code: fault.code.text().to_owned(), message: fault.message });
    }
    if engine.core.view().settings().allow_lan {
        warnings.push(Warning {
            code: "OPEN_TO_NETWORK".to_owned(),
            message: "Every machine of the network can call the agent server: `config set server.allow_lan false` closes it."
                .to_owned(),
        });
    }
    warnings
}

/// Opens the gate for the state of the checked journal.
///
/// Returns warnings, and the journal entry that the wallet file names now.
pub(crate) async fn admit(
    engine: &Arc<EngineContext>,
    sealed: Option<Head>,
) -> Result<(Vec<Warning>, Option<u64>), Fault> {
    let (vault, view) = (Arc::clone(&engine.vault), engine.core.view());
    let untrusted = view.untrusted_reason.clone();
    let admitted = blocking(move || vault.admit(&view.state, sealed)).await??;
    let warning = |message: String| Warning { code: "WALLET_FILE".to_owned(), message };
    let mut warnings: Vec<Warning> = admitted.warnings.into_iter().map(warning).collect();
    if let Some(why) = untrusted {
        warnings.push(Warning {
            code: Code::JournalUntrusted.text().to_owned(),
            message: format!(
                "The journal does not match the wallet: {why}. Every payment needs your approval until \
                 `audit accept`."
            ),
        });
    }
    Ok((warnings, admitted.noted_entry))
}

/// Signs authorized requests that have no signature yet, in the background. Does nothing in maintenance mode.
pub(crate) async fn reissue(engine: &Arc<EngineContext>) {
    if engine.mode == Mode::Maintenance {
        return;
    }
    match act(engine, Action::Reissue).await {
        Ok(outcome) => {
            for order in outcome.orders {
                let run = engine.execution.clone();
                engine.tasks.spawn(async move {
                    // The core has recorded the outcome, so a poll returns it.
                    let _recorded = execute(&run, order).await;
                });
            }
        }
        Err(fault) => {
            tracing::warn!(code = %fault.code, "could not request the missing signatures of recorded authorizations")
        }
    }
}
