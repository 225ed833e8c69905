//! The HTTP edge of the agent server: its bounds, and the responses that the edge sends instead of a route.

use axum::http::Method;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{
    BODY_BYTES_MAX, BODY_BYTES_PER_S_MIN, BODY_GRACE_MS, BODY_TIMEOUT_MS, CONNECTIONS_MAX,
    CONNECTIONS_PER_PEER_MAX, HANDLER_TIMEOUT_MS, HEAD_BYTES_MAX, HEAD_LINES_MAX, HEAD_TIMEOUT_MS,
    IDLE_TIMEOUT_MS, LARGE_BODIES_MAX, LARGE_BODIES_REMOTE_MAX, LINGER_BYTES_MAX, LINGER_MS_MAX,
    LOOPBACK_CONNECTIONS_RESERVED, OUTBOUND_FILES_RESERVED, REFUSED_CONNECTIONS_MAX,
    REQUEST_LINE_BYTES_MAX, SMALL_BODY_BYTES_MAX, WRITE_TIMEOUT_MS,
};
use bursar_serve::access::IpRanges;
use bursar_serve::http::{
    BodyBounds, Bounds, HeadBounds, Loopback, Refusal, RefusalWriter, slots_for_files,
};
use bursar_serve::program::file_limit;

use super::calls;
use super::reply::Answer;

/// Returns the wallet's bounds. Programs on this machine share an address, so the limit per address exempts
/// them.
pub(super) fn bounds() -> Bounds {
    let head = HeadBounds {
        bytes_max: HEAD_BYTES_MAX,
        line_bytes_max: REQUEST_LINE_BYTES_MAX,
        lines_max: HEAD_LINES_MAX,
        ms_max: HEAD_TIMEOUT_MS,
    };
    let body = BodyBounds {
        bytes_max: u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX),
        ms_max: BODY_TIMEOUT_MS,
        grace_ms: BODY_GRACE_MS,
        bytes_per_s_min: BODY_BYTES_PER_S_MIN,
        uncounted_bytes: SMALL_BODY_BYTES_MAX,
        incomplete_bytes_max: LARGE_BODIES_MAX.saturating_mul(BODY_BYTES_MAX),
        complete_bytes_max: LARGE_BODIES_MAX.saturating_mul(BODY_BYTES_MAX),
        remote_bytes_max: LARGE_BODIES_REMOTE_MAX.saturating_mul(BODY_BYTES_MAX),
        // `/status` accepts an agent's proof in the body of a GET.
        get_with_body_paths: &["/status"],
    };
    Bounds {
        slots_max: slots_for_files(file_limit(), OUTBOUND_FILES_RESERVED).min(CONNECTIONS_MAX),
        slots_per_peer_max: CONNECTIONS_PER_PEER_MAX,
        trusted_proxies: IpRanges::default(),
        loopback: Loopback::Exempt { reserved: LOOPBACK_CONNECTIONS_RESERVED },
        head,
        body,
        idle_ms_max: IDLE_TIMEOUT_MS,
        write_ms_max: WRITE_TIMEOUT_MS,
        handler_ms: Some(HANDLER_TIMEOUT_MS),
        linger_ms_max: LINGER_MS_MAX,
        linger_bytes_max: LINGER_BYTES_MAX,
        refused_connections_max: REFUSED_CONNECTIONS_MAX,
        // A caller that closes its side of the connection does not cancel its payment in flight.
        allow_half_close: true,
        refuse_upgrade: true,
        send_date: false,
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
        let response = Answer::from(fault).mark_unrecorded().into_http();
        let method = refused.method.map_or("-", Method::as_str);
        calls::log(method, None, &response, refused.took_ms, refused.peer);
        response
    })
}
