//! Reads requests, and creates the responses to requests that cannot be read.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bursar_core::{json, text};
use bursar_x402::error::X402Error;
use bursar_x402::settlement::{SettlementFault, SettlementRequest};

use crate::api::access::Caller;
use crate::api::error_code::ErrorCode;
use crate::api::responses;
use crate::metrics::Route;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;

/// Maximum length of a body in bytes. The payment of a wallet with many owners takes some kilobytes.
pub(super) const BODY_BYTES_MAX: usize = 256 << 10;
/// Maximum nesting depth of a body.
const DEPTH_MAX: usize = 32;
/// Maximum number of values in a body. A request has about thirty, plus third-party extensions.
const VALUES_MAX: usize = 4_096;

/// The body of a request, or the reason why it was rejected: it was too long or incomplete.
pub(super) type BodyResult = Result<Bytes, BytesRejection>;

/// Why a request could not be read.
pub(super) enum RequestError {
    Body(BytesRejection),
    Json(json::JsonError),
    Malformed(X402Error),
    /// A part of the request is missing or invalid. Contains a sentence for the caller.
    Invalid(&'static str),
    /// The version is not supported. The answer repeats the requested `network`. `short` marks requests of older
    /// clients, which check only the status.
    Version {
        network: Option<String>,
        short: bool,
    },
    /// This endpoint does not accept the payload.
    Rejected {
        rejection: Rejection,
        request: Box<SettlementRequest>,
    },
    /// The payload of a bare body is rejected.
    Bare {
        network: String,
        rejection: Rejection,
    },
}

/// A parsed request and its requester, or why the request could not be read.
pub(super) type ParsedRequest = Result<(SettlementRequest, Requester), RequestError>;

impl RequestError {
    /// Returns the response: a verdict if the version is unsupported or the payload is rejected, otherwise an error.
    pub(super) fn response(self, route: Route) -> (&'static str, Response) {
        let mut code = ErrorCode::InvalidPayload;
        let why = match self {
            Self::Body(fault) => {
                if fault.status() == StatusCode::PAYLOAD_TOO_LARGE {
                    code = ErrorCode::BodyTooLarge;
                }
                format!("The body could not be read: {}.", text::snippet(&fault.body_text()))
            }
            Self::Version { network, short } => {
                let rejection = Rejection::from(Reason::Version);
                let answer = match route {
                    Route::verify => responses::invalid_response(&rejection),
                    Route::settle => {
                        let body =
                            responses::settle_failure_body_of(network.as_deref(), &rejection);
                        responses::settle_failure(short, body)
                    }
                };
                return (Reason::Version.text(), answer);
            }
            Self::Rejected { rejection, request } => {
                let body = responses::settle_failure_body(&request, &rejection);
                let response = responses::settle_failure(request.lacks_extra, body);
                return (rejection.reason.text(), response);
            }
            Self::Bare { network, rejection } => {
                let body = responses::settle_failure_body_of(Some(&network), &rejection);
                return (rejection.reason.text(), responses::settle_failure(true, body));
            }
            Self::Invalid(why) => why.to_owned(),
            Self::Json(fault) => format!("The body is not valid JSON: {fault}."),
            Self::Malformed(fault) => {
                format!("The body is not a valid request: {}.", fault.reason())
            }
        };
        ("malformed", responses::malformed_response(code, route, &why))
    }
}

/// Reads a request of `/verify` and `/settle`.
pub(super) fn parse(body: BodyResult, caller: &Caller, headers: &HeaderMap) -> ParsedRequest {
    let requester = caller.requester(headers).map_err(RequestError::Invalid)?;
    Ok((parse_settlement_request(&body_of(body)?)?, requester))
}

/// Reads the JSON of a body.
pub(super) fn body_of(body: BodyResult) -> Result<json::Value, RequestError> {
    let body = body.map_err(RequestError::Body)?;
    json::parse_few(&body, DEPTH_MAX, VALUES_MAX).map_err(RequestError::Json)
}

/// Reads the body of `/verify` and `/settle`.
pub(super) fn parse_settlement_request(
    body: &json::Value,
) -> Result<SettlementRequest, RequestError> {
    SettlementRequest::parse(body).map_err(|fault| match fault {
        SettlementFault::Malformed(fault) => RequestError::Malformed(fault),
        SettlementFault::Version => {
            let requirement = |key| body.get("paymentRequirements")?.get(key);
            let network = requirement("network").and_then(json::Value::as_str).map(str::to_owned);
            RequestError::Version { network, short: requirement("extra").is_none() }
        }
    })
}
