//! Signing what was authorized.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::limits::SIGNER_WAIT_MS;
use bursar_domain::Action;
use bursar_x402::signature::Signature65;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::core::handle::Handle;
use crate::journal::Slip;
use crate::ports::{SignFault, Signer};

/// Who signs, and where it is recorded.
#[derive(Debug, Clone)]
pub struct Execution {
    pub signer: Arc<dyn Signer>,
    pub core: Handle,
    /// Work that must finish although its caller may go.
    pub tasks: TaskTracker,
}

/// Signs a slip and has the signature recorded. Does not wait for a signer that asks a person; `None` says
/// that it is still asked, and that a poll will find the answer.
///
/// # Errors
/// Why the signer did not sign. The request stays authorized: a later slip may still be signed.
pub async fn execute(run: &Execution, slip: Slip) -> Result<Option<Signature65>, SignFault> {
    let (signer, core) = (Arc::clone(&run.signer), run.core.clone());
    let (tell, told) = oneshot::channel();
    let slow = signer.asks_a_person(&slip);
    run.tasks.spawn(async move {
        let id = slip.request();
        let signed = signer.sign(slip).await;
        let record = signed.clone();
        // The caller may have gone: what was signed is recorded all the same.
        let _gone = tell.send(signed);
        match record {
            Ok(signature) => {
                // Only a record: after a crash the same terms give the same signature.
                if let Err(fault) = core.act(Action::Signed { id, signature }).await {
                    tracing::warn!(request = %id.short(), code = %fault.code, "signature not recorded");
                }
            }
            Err(refused) => tracing::warn!(request = %id.short(), %refused, "not signed"),
        }
    });
    if slow {
        return Ok(None);
    }
    match tokio::time::timeout(Duration::from_millis(SIGNER_WAIT_MS), told).await {
        Ok(Ok(signed)) => signed.map(Some),
        Ok(Err(_stopping)) => Ok(None),
        Err(_still_asking) => Ok(None),
    }
}
