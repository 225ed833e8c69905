//! Reads a body: bounded, uncompressed, one JSON object with unique keys.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{self, Object, Value};
use bursar_core::limits::{
    BODY_BYTES_MAX, BODY_DEPTH_MAX, BODY_VALUES_MAX, IDEMPOTENCY_KEY_BYTES_MAX,
};

/// Reads the object of a body. An empty body is an empty object, as in the original wallet.
pub(super) async fn object(headers: &HeaderMap, body: Body) -> Result<Object, Fault> {
    let encoded = headers.get(header::CONTENT_ENCODING);
    if encoded.is_some_and(|encoding| encoding.as_bytes() != b"identity") {
        return Err(Fault::new(Code::UnsupportedEncoding));
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| length > BODY_BYTES_MAX)
    {
        return Err(Fault::new(Code::PayloadTooLarge));
    }
    let bytes = to_bytes(body, BODY_BYTES_MAX)
        .await
        .map_err(|_too_large| Fault::new(Code::PayloadTooLarge))?;
    if bytes.is_empty() {
        return Ok(Object::new());
    }
    match json::parse_few(&bytes, BODY_DEPTH_MAX, BODY_VALUES_MAX) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_not_an_object) => Err(Fault::new(Code::InvalidJson)),
        Err(error) => Err(Fault::new(Code::InvalidJson).with_detail(error)),
    }
}

/// Returns the idempotency key of a body, if it has one.
///
/// # Errors
/// `INVALID_REQUEST` if the key is too long or has other characters than visible ASCII.
pub(super) fn idempotency_key(body: &Object) -> Result<Option<String>, Fault> {
    let key = text(body, "idempotency_key")?.filter(|key| !key.is_empty());
    if key.is_some_and(|key| {
        key.len() > IDEMPOTENCY_KEY_BYTES_MAX || !key.bytes().all(|b| b.is_ascii_graphic())
    }) {
        return Err(Fault::because(
            Code::InvalidRequest,
            "idempotency_key must have 1 to 128 visible ASCII characters.",
        ));
    }
    Ok(key.map(str::to_owned))
}

/// Returns a text field; `None` if it is absent or null.
pub(super) fn text<'a>(body: &'a Object, name: &str) -> Result<Option<&'a str>, Fault> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_other) => {
            Err(Fault::because(Code::InvalidRequest, format!("{name} must be a string.")))
        }
    }
}
