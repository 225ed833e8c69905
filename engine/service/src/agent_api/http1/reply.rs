//! An answer as bytes, with the two headers that belong to the connection.

use std::io::Write;

use axum::body::{Body, to_bytes};
use axum::http::{Response, StatusCode, header};
use bursar_core::limits::REPLY_BYTES;
use bytes::Bytes;

/// What the peer may do after this answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Send another request, which HTTP/1.1 takes for granted.
    Continue,
    /// The same, for a peer that takes it for granted only when it is said.
    SayContinue,
    Close,
}

/// Replaces what is in `out` by the whole answer, so that it leaves in one write. The answer to `HEAD` has
/// the length of the body that it lacks.
pub(super) async fn encode(
    out: &mut Vec<u8>,
    response: Response<Body>,
    to_head: bool,
    after: After,
) {
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, REPLY_BYTES).await.unwrap_or_else(|error| {
        // Answers are made in memory and documents have a size: this one is a mistake of ours, and no
        // answer that its reader could take for one.
        tracing::error!(%error, "an answer could not be sent");
        parts.status = StatusCode::INTERNAL_SERVER_ERROR;
        Bytes::new()
    });
    out.clear();
    let reason = parts.status.canonical_reason().unwrap_or_default();
    push(out, format_args!("HTTP/1.1 {} {reason}\r\n", parts.status.as_u16()));
    let mut announced = None;
    for (name, value) in &parts.headers {
        if name == header::CONTENT_LENGTH {
            announced = Some(value);
        } else if name != header::CONNECTION {
            line(out, name.as_str(), value.as_bytes());
        }
    }
    match announced {
        Some(length) if to_head => line(out, "content-length", length.as_bytes()),
        Some(_) | None => push(out, format_args!("content-length: {}\r\n", body.len())),
    }
    match after {
        After::Continue => {}
        After::SayContinue => line(out, "connection", b"keep-alive"),
        After::Close => line(out, "connection", b"close"),
    }
    out.extend_from_slice(b"\r\n");
    if !to_head {
        out.extend_from_slice(&body);
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _vectors_take_everything = out.write_fmt(text);
}
