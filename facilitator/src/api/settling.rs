//! Handles the requests of all endpoints that settle.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use bursar_core::text;
use bursar_x402::settlement::SettlementRequest;
use tracing::field;

use crate::api::error_code::ErrorCode;
use crate::api::request::{ParsedRequest, RequestError};
use crate::api::state::Api;
use crate::api::{delivery, responses};
use crate::metrics::Route;
use crate::reason::{Reason, Rejection};
use crate::settle::intake::{SettleError, SettleOutcome};

/// Logs the end of a request, each fact as a separate field.
fn log(request: &SettlementRequest, outcome: &SettleOutcome, result: &str, took_ms: u64) {
    let (hash, payer, detail) = match outcome {
        SettleOutcome::Settled { hash, payer, .. } => (*hash, *payer, None),
        SettleOutcome::Pending { hash, payer } => (Some(*hash), *payer, None),
        SettleOutcome::Rejected(rejection) => {
            (rejection.settled_in, rejection.payer, Some(rejection.message.as_str()))
        }
    };
    let required = &request.requirements;
    tracing::info!(
        network = %text::quoted(&required.network, 64), pay_to = %required.pay_to, amount = %required.amount,
        asset = %required.asset, payer = payer.map(field::display),
        transaction = hash.map(field::display), result, detail,
        took_ms, "settle"
    );
}

/// Settles the request that `parse` reads.
pub(super) async fn settle_parsed(
    api: Arc<Api>,
    parse: impl FnOnce() -> ParsedRequest,
) -> Response {
    if api.stopping.is_cancelled() {
        return responses::with_retry_after(responses::error(ErrorCode::Stopping));
    }
    let started_ms = api.clock.mono_ms();
    let (result, response) = match parse() {
        Err(error) => error.response(Route::settle),
        Ok((request, requester)) => match api.settlement.settle(&request, &requester).await {
            Ok(mut outcome) => {
                let mut answer = responses::settle_response(&request, &outcome);
                if let SettleOutcome::Settled { right, .. } = &mut outcome
                    && let Some(right) = right.take()
                {
                    delivery::record(&api, right, &mut answer.1);
                }
                let took_ms = api.clock.mono_ms().saturating_sub(started_ms);
                log(&request, &outcome, answer.0, took_ms);
                answer
            }
            Err(SettleError::Malformed(fault)) => {
                RequestError::Malformed(fault).response(Route::settle)
            }
            Err(error) => {
                tracing::warn!(trouble = %error, "a settle request ended without an outcome");
                let reason = Reason::UnexpectedSettle;
                let body = responses::settle_failure_body(&request, &Rejection::from(reason));
                (
                    reason.text(),
                    responses::with_retry_after(responses::with_status(
                        StatusCode::SERVICE_UNAVAILABLE,
                        body,
                    )),
                )
            }
        },
    };
    api.metrics.count_answer(Route::settle, result, api.clock.mono_ms().saturating_sub(started_ms));
    response
}
