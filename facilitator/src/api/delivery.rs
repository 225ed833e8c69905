//! Records that a success was returned, once its last byte was written to the connection.

use std::sync::Arc;

use axum::response::Response;
use bursar_serve::http::delivery;

use crate::api::state::Api;
use crate::settle::success_rights::SuccessRight;

/// Marks the success as returned once the connection has written the response. If the write fails, a later request may
/// receive the success.
pub(super) fn record(api: &Arc<Api>, right: SuccessRight, response: &mut Response) {
    let (delivery, delivered) = delivery();
    response.extensions_mut().insert(delivery);
    let shared = Arc::clone(api);
    api.deliveries.spawn(async move {
        if !delivered.await {
            tracing::info!(
                "a success answer was not written to its connection: the next request for the payment may receive it"
            );
            return;
        }
        shared.settlement.failpoints.pass("settle.before answered");
        let at = shared.clock.utc();
        if let Err(fault) =
            shared.settlement.ledger.mark_answered(right.key, right.origin, at).await
        {
            tracing::error!(%fault, "could not store that a success was returned");
        }
        shared.settlement.failpoints.pass("settle.after answered");
        // Free the right only after the write, so that the next request finds the success marked as returned.
        drop(right);
    });
}
