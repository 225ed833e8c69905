//! Signs authorized payments.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::SIGNER_WAIT_MS;
use bursar_x402::signature::Signature65;
use tokio_util::task::TaskTracker;

use crate::core::handle::Handle;
use crate::journal::SigningOrder;
use crate::ports::{Failpoints, SignFault, Signer};

/// The signer, and the core that records signatures.
#[derive(Debug, Clone)]
pub struct Execution {
    pub signer: Arc<dyn Signer>,
    pub core: Handle,
    /// Tasks that must finish even if their caller goes away.
    pub tasks: TaskTracker,
    pub failpoints: Arc<dyn Failpoints>,
    pub clock: Arc<dyn Clock>,
}

/// Signs an order and records the signature.
///
/// Returns `None` if the signer waits for a person or takes longer than [`SIGNER_WAIT_MS`]. Signing continues, and a
/// poll finds the signature.
///
/// # Errors
/// The reason why the signer did not sign. The request stays authorized: a later slip may still be signed.
pub async fn execute(
    run: &Execution,
    order: SigningOrder,
) -> Result<Option<Signature65>, SignFault> {
    let asks_a_person = run.signer.asks_a_person(&order.slip);
    let owned = run.clone();
    // A separate task signs and records even if the caller goes away or stops waiting.
    let signing = run.tasks.spawn(async move { sign(&owned, order).await });
    if asks_a_person {
        return Ok(None);
    }
    let until = run.clock.mono_ms().saturating_add(SIGNER_WAIT_MS);
    // cancel-safe: both branches only wait.
    tokio::select! {
        biased;
        signed = signing => match signed {
            Ok(signed) => signed.map(Some),
            Err(ended) => Err(SignFault::Refused(ended.to_string())),
        },
        () = run.clock.sleep_until(until) => Ok(None),
    }
}

/// Signs and records in one task, so that a dropped caller cannot lose the signature.
async fn sign(run: &Execution, order: SigningOrder) -> Result<Signature65, SignFault> {
    let Some(id) = order.slip.request() else {
        return Err(SignFault::Refused("this is not a payment".to_owned()));
    };
    let hit =
        |point| run.failpoints.hit(point).map_err(|error| SignFault::Refused(error.to_string()));
    hit("sign.before")?;
    let signed = run.signer.sign(order.slip, order.terms).await;
    hit("sign.after")?;
    match &signed {
        Ok(signature) => run.core.record(id, *signature),
        Err(refused) => tracing::warn!(request = %id.short(), %refused, "a payment was not signed"),
    }
    signed
}
