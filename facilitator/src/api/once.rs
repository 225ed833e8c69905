//! Records that a success was returned, once its last byte was written to the connection.

use std::sync::Arc;

use axum::response::Response;
use bursar_serve::http::delivery;

use crate::api::state::Api;
use crate::settle::once::Right;

/// Makes the connection report whether it wrote an answer. A success that was not written may be returned again.
pub(super) fn watch(api: &Arc<Api>, right: Right, response: &mut Response) {
    let (delivery, delivered) = delivery();
    response.extensions_mut().insert(delivery);
    let watching = Arc::clone(api);
    api.answers.spawn(async move {
        if !delivered.await {
            tracing::info!(
                "a success did not reach its connection: the next request may receive it"
            );
            return;
        }
        watching.door.failpoints.pass("settle.before answered");
        let at = watching.clock.utc();
        if let Err(fault) = watching.door.ledger.answered(right.key, right.by, at).await {
            tracing::error!(%fault, "the note of a returned success could not be stored");
        }
        watching.door.failpoints.pass("settle.after answered");
        // Only now may another request check whether it was returned.
        drop(right);
    });
}
