//! Signing what was authorized.

use std::sync::Arc;
use std::time::Duration;

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
}

/// Signs a slip and has the signature recorded. Does not wait for a signer that asks a person; `None` says
/// that it is still asked, and that a poll will find the answer.
///
/// # Errors
/// Why the signer did not sign. The request stays authorized: a later slip may still be signed.
pub async fn execute(run: &Execution, slip: Slip) -> Result<Option<Signature65>, SignFault> {
    if run.signer.asks_a_person(&slip) {
        let run = run.clone();
        run.tasks.clone().spawn(async move { sign(&run, slip).await });
        return Ok(None);
    }
    let patience = Duration::from_millis(SIGNER_WAIT_MS);
    match tokio::time::timeout(patience, sign(run, slip)).await {
        Ok(signed) => signed.map(Some),
        Err(_too_slow) => Ok(None),
    }
}

/// Signs and records, without a moment in between at which the work could be dropped.
async fn sign(run: &Execution, slip: Slip) -> Result<Signature65, SignFault> {
    let Some(id) = slip.request() else {
        return Err(SignFault::Refused("this is no payment".to_owned()));
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
