//! Rejects requests to foreign hosts and from web pages before any endpoint runs, and limits the rate of calls.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_serve::http::ProvenCaller;

use super::admit::{RateVerdict, RateVerdictCell};
use super::api::Api;
use super::calls;
use super::rate::WaitMs;
use super::reply::Answer;

/// Checks the Host header, then the headers that browsers send for a page, then the rate.
///
/// A call that may prove an agent is counted after its endpoint has checked the proof. Otherwise callers without a
/// proof would use up an agent's rate.
pub(super) async fn guard(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = api.ports.clock.mono_ms();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let limit = api.rate_limit();
    let proves = RateBucket::of(route) == RateBucket::DecidedByProof;
    let count = || match RateBucket::of(route) {
        RateBucket::Poll => api.rate.count_poll(peer.ip(), limit),
        RateBucket::Unproven => api.rate.count_unproven(peer.ip(), limit),
        RateBucket::DecidedByProof => Ok(()),
    };
    let let_in = api
        .host_rule
        .judge(&request, &api.core.view().settings().hosts)
        .and_then(|()| check_page(request.headers()))
        .map_err(Answer::from)
        .and_then(|()| count().map_err(Answer::too_many));
    let response = match let_in {
        Ok(()) if proves => {
            let mark = RateVerdictCell::default();
            request.extensions_mut().insert(mark.clone());
            let mut response = next.run(request).await;
            if mark.get().is_some_and(RateVerdict::is_of_an_agent) {
                response.extensions_mut().insert(ProvenCaller);
            }
            match count_after(&mark, || api.rate.count_unproven(peer.ip(), limit)) {
                Ok(()) => response,
                Err(wait) => Answer::too_many(wait).into_http(),
            }
        }
        Ok(()) => next.run(request).await,
        Err(answer) => answer.into_http(),
    };
    let took_ms = api.ports.clock.mono_ms().saturating_sub(began);
    calls::log(method.as_str(), route, &response, took_ms, peer.ip());
    response
}

/// The rate bucket that counts a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateBucket {
    /// Polls and health checks, which monitors and agents repeat.
    Poll,
    Unproven,
    /// The bucket of the proven agent, or the unproven bucket if the proof fails. Known only after the body is read.
    DecidedByProof,
}

impl RateBucket {
    fn of(route: Option<&str>) -> Self {
        match route {
            Some(
                "/health" | "/sign/status/{id}" | "/trade/status/{id}" | "/position/status/{id}",
            ) => Self::Poll,
            Some(
                "/sign" | "/callback" | "/mandate" | "/balances" | "/trade" | "/venues"
                | "/position" | "/status",
            ) => Self::DecidedByProof,
            _other => Self::Unproven,
        }
    }
}

/// Counts a call to an endpoint that accepts a proof, after the endpoint ran. Counting afterwards is early enough,
/// because a call without a valid proof has no effect.
fn count_after(
    mark: &RateVerdictCell,
    unproven: impl FnOnce() -> Result<(), WaitMs>,
) -> Result<(), WaitMs> {
    match mark.get() {
        Some(RateVerdict::ForAgent | RateVerdict::Unproven) => Ok(()),
        Some(RateVerdict::AgentWaits(wait) | RateVerdict::UnprovenWaits(wait)) => Err(wait),
        Some(RateVerdict::FailedProofWaits(wait)) => {
            Err(unproven().map_or_else(|longer| longer.max(wait), |()| wait))
        }
        None => unproven(),
    }
}

/// Rejects requests that a browser marks as sent by a page. `sec-fetch-mode` alone is allowed, because Node's
/// `fetch` sends it.
fn check_page(headers: &HeaderMap) -> Result<(), Fault> {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let site = sites.any(|site| site.as_bytes() != b"none");
    if site || headers.contains_key(header::ORIGIN) || headers.contains_key(header::REFERER) {
        return Err(Fault::new(Code::BrowserOriginRejected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let name = axum::http::HeaderName::from_static(name);
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn requests_of_web_pages_are_rejected_and_of_programs_accepted() {
        for (name, values) in [
            ("origin", &["null"][..]),
            ("origin", &["http://localhost"]),
            ("referer", &["http://a.example/"]),
            ("sec-fetch-site", &["cross-site"]),
            ("sec-fetch-site", &["same-origin"]),
            ("sec-fetch-site", &["none", "cross-site"]),
        ] {
            assert!(check_page(&headers(name, values)).is_err(), "{name}: {values:?}");
        }
        for (name, value) in
            [("sec-fetch-site", "none"), ("sec-fetch-mode", "cors"), ("accept", "*/*")]
        {
            assert!(check_page(&headers(name, &[value])).is_ok(), "{name}: {value}");
        }
    }
}
