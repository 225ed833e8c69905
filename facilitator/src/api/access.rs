//! Rejects callers without access, and identifies admitted callers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::{Address, B256, keccak256};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use bursar_serve::access::{self, AccessRefusal};

use crate::api::error_code::ErrorCode;
use crate::api::responses;
use crate::api::state::Api;
use crate::book::record::RequestOrigin;
use crate::requester::Requester;

/// Maximum length of an `Idempotency-Key` in bytes.
const KEY_BYTES_MAX: usize = 255;

/// An admitted caller.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// A digest of the caller's name.
    digest: B256,
    /// The receivers that belong to the caller's API key.
    receivers: Arc<BTreeSet<Address>>,
}

impl Caller {
    fn of(caller: access::Caller<'_>) -> Self {
        let receivers = match caller {
            access::Caller::Key(key) => key.receivers.clone(),
            access::Caller::Address(_) | access::Caller::Unknown => BTreeSet::new(),
        };
        Self { digest: keccak256(caller.account()), receivers: Arc::new(receivers) }
    }

    /// Returns the requester: the caller and the `Idempotency-Key` of its request.
    ///
    /// # Errors
    /// A sentence for the caller, if the key is invalid.
    pub(super) fn requester(&self, headers: &HeaderMap) -> Result<Requester, &'static str> {
        let mut keys = headers.get_all("idempotency-key").iter();
        let idempotency = match (keys.next(), keys.next()) {
            (None, _none) => None,
            (Some(key), None) if (1..=KEY_BYTES_MAX).contains(&key.len()) => {
                Some(keccak256([self.digest.as_slice(), key.as_bytes()].concat()))
            }
            _odd => return Err("Send one Idempotency-Key of 1 to 255 bytes, or leave it out."),
        };
        let origin = RequestOrigin { caller: self.digest, idempotency };
        Ok(Requester { origin, receivers: Arc::clone(&self.receivers) })
    }
}

/// Forwards the request of an admitted caller, and rejects any other request.
pub(super) async fn guard(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.ip());
    match api.access.admit(request.headers(), peer) {
        Ok(caller) => {
            let caller = Caller::of(caller);
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(AccessRefusal::NoKey) => responses::error(ErrorCode::ApiKeyRequired),
        Err(AccessRefusal::TooMany { wait_s }) => {
            responses::retry_after(responses::error(ErrorCode::TooManyRequests), wait_s)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(keys: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append("idempotency-key", key.parse().unwrap());
        }
        headers
    }

    #[test]
    fn idempotency_key_repeats_a_request_of_the_same_caller_only() {
        let named = |digest| Caller { digest, receivers: Arc::default() };
        let (one, other) = (named(B256::repeat_byte(1)), named(B256::repeat_byte(2)));
        let by = |caller: &Caller, keys: &[&str]| caller.requester(&headers(keys)).unwrap().origin;
        assert!(by(&one, &["a"]).repeats(&by(&one, &["a"])));
        assert!(!by(&one, &["a"]).repeats(&by(&one, &["b"])));
        assert!(!by(&one, &["a"]).repeats(&by(&other, &["a"])));
        assert!(!by(&one, &[]).repeats(&by(&one, &[])), "without a key nothing is repeated");
        let long = "k".repeat(256);
        for odd in [&[""][..], &[long.as_str()], &["a", "a"]] {
            assert!(one.requester(&headers(odd)).is_err());
        }
    }
}
