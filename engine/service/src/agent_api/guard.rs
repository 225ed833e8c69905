//! What is refused before a request is looked at: foreign hosts, web pages, too many requests.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::Api;
use super::calls;
use super::reply::Answer;

/// Checks in the order Host, web page, rate. Nothing of the request's body has been read yet.
pub(super) async fn guard(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let began = api.ports.clock.mono_ms();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let refused = api
        .host_rule
        .judge(&request)
        .and_then(|()| check_page(request.headers()))
        .map_err(Answer::from)
        .and_then(|()| if api.rate.allows(peer.ip()) { Ok(()) } else { Err(Answer::too_many()) });
    let response = match refused {
        Ok(()) => next.run(request).await,
        Err(answer) => answer.into_http(),
    };
    let took_ms = api.ports.clock.mono_ms().saturating_sub(began);
    let route = route.as_ref().map(MatchedPath::as_str);
    calls::log(method.as_str(), route, &response, took_ms, peer.ip());
    response
}

/// A browser marks what a page sends. Node's `fetch` sends `sec-fetch-mode` alone: no reason to refuse.
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
    fn pages_are_refused_and_programs_are_not() {
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
