//! The HTTP edge of the agent server: its bounds, and the responses that the edge sends instead of a route.

use axum::http::Method;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{
    BODY_BYTES, BODY_BYTES_PER_S, BODY_GRACE_MS, BODY_MS, CONNECTIONS, CONNECTIONS_FOR_LOOPBACK,
    CONNECTIONS_PER_PEER, HANDLER_MS, HEAD_BYTES, HEAD_LINES, HEAD_MS, IDLE_MS, LARGE_BODIES,
    LARGE_BODIES_REMOTE, LINGER_BYTES, LINGER_MS, OUTBOUND_FILES, REFUSED_CONNECTIONS,
    REQUEST_LINE_BYTES, SMALL_BODY_BYTES, WRITE_MS,
};
use bursar_serve::access::IpRanges;
use bursar_serve::http::{BodyBounds, Bounds, HeadBounds, Loopback, Refusal, RefusalWriter, slots};
use bursar_serve::program::file_limit;

use super::calls;
use super::reply::Answer;

/// Returns the wallet's bounds. Programs on this machine share an address, so the limit per address exempts
/// them.
pub(super) fn bounds() -> Bounds {
    let head = HeadBounds {
        bytes: HEAD_BYTES,
        line_bytes: REQUEST_LINE_BYTES,
        lines: HEAD_LINES,
        ms: HEAD_MS,
    };
    let body = BodyBounds {
        bytes: u64::try_from(BODY_BYTES).unwrap_or(u64::MAX),
        ms: BODY_MS,
        grace_ms: BODY_GRACE_MS,
        bytes_per_s: BODY_BYTES_PER_S,
        free_bytes: SMALL_BODY_BYTES,
        all_bytes: LARGE_BODIES.saturating_mul(BODY_BYTES),
        whole_bytes: LARGE_BODIES.saturating_mul(BODY_BYTES),
        remote_bytes: LARGE_BODIES_REMOTE.saturating_mul(BODY_BYTES),
        // `/status` accepts an agent's proof in the body of a GET.
        on_get: &["/status"],
    };
    Bounds {
        slots: slots(file_limit(), OUTBOUND_FILES).min(CONNECTIONS),
        slots_per_peer: CONNECTIONS_PER_PEER,
        trusted: IpRanges::default(),
        loopback: Loopback::Exempt { reserved: CONNECTIONS_FOR_LOOPBACK },
        head,
        body,
        idle_ms: IDLE_MS,
        write_ms: WRITE_MS,
        handler_ms: Some(HANDLER_MS),
        linger_ms: LINGER_MS,
        linger_bytes: LINGER_BYTES,
        refused: REFUSED_CONNECTIONS,
        // A caller that closes its side of the connection does not cancel its payment in flight.
        half_close: true,
        refuse_upgrade: true,
        date: false,
    }
}

/// Answers refused requests in the wallet's format, with a log line each.
pub(super) fn refuse() -> RefusalWriter {
    RefusalWriter::new(|refused| {
        let code = match refused.why {
            Refusal::Malformed | Refusal::Target => Code::BadRequest,
            Refusal::Length => Code::InvalidContentLength,
            Refusal::HeadTooLarge => Code::HeadTooLarge,
            Refusal::BodyTooLarge => Code::PayloadTooLarge,
            Refusal::Timeout => Code::RequestTimeout,
            Refusal::Busy => Code::Busy,
        };
        // A route that may have recorded its request has claimed the response, so the edge never refuses that call
        // here.
        let fault = match refused.why {
            Refusal::Target => Fault::because(code, refused.why.text()),
            _other => Fault::new(code),
        };
        let response = Answer::from(fault).unrecorded().into_http();
        let method = refused.method.map_or("-", Method::as_str);
        calls::log(method, None, &response, refused.took_ms, refused.peer);
        response
    })
}
