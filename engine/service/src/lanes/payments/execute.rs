//! Signing what was authorized.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::SIGNER_WAIT_MS;
use bursar_x402::signature::Signature65;
use tokio_util::task::TaskTracker;

use crate::core::handle::Handle;
use crate::journal::Slip;
use crate::ports::{Faults, SignFault, Signer};

/// Who signs, and where it is recorded.
#[derive(Debug, Clone)]
pub struct Execution {
    pub signer: Arc<dyn Signer>,
    pub core: Handle,
    /// Work that must finish although its caller may go.
    pub tasks: TaskTracker,
    pub faults: Arc<dyn Faults>,
    pub clock: Arc<dyn Clock>,
}

/// Signs a slip and has the signature recorded. Does not wait for a signer that asks a person; `None` says
/// that it is still asked, and that a poll will find the answer.
///
/// # Errors
/// Why the signer did not sign. The request stays authorized: a later slip may still be signed.
pub async fn execute(run: &Execution, slip: Slip) -> Result<Option<Signature65>, SignFault> {
    let asks_a_person = run.signer.asks_a_person(&slip);
    let owned = run.clone();
    // A task of its own: it is done and recorded although the caller may go, or stop waiting.
    let signing = run.tasks.spawn(async move { sign(&owned, slip).await });
    if asks_a_person {
        return Ok(None);
    }
    let until = run.clock.mono_ms().saturating_add(SIGNER_WAIT_MS);
    // cancel-safe: both only wait.
    tokio::select! {
        biased;
        signed = signing => match signed {
            Ok(signed) => signed.map(Some),
            Err(ended) => Err(SignFault::Refused(ended.to_string())),
        },
        () = run.clock.sleep_until(until) => Ok(None),
    }
}

/// Signs and records, without a moment in between at which the work could be dropped.
async fn sign(run: &Execution, slip: Slip) -> Result<Signature65, SignFault> {
    let Some(id) = slip.request() else {
        return Err(SignFault::Refused("this is not a payment".to_owned()));
    };
    let reach =
        |point| run.faults.reach(point).map_err(|error| SignFault::Refused(error.to_string()));
    reach("sign.before")?;
    let signed = run.signer.sign(slip).await;
    reach("sign.after")?;
    match &signed {
        Ok(signature) => run.core.record(id, *signature),
        Err(refused) => tracing::warn!(request = %id.short(), %refused, "not signed"),
    }
    signed
}
