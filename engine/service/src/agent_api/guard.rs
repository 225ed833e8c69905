//! What is refused before a request is looked at: foreign hosts, web pages, too many requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::RATE_KEYS;
use governor::clock::Clock as RateClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::Api;
use super::reply::Answer;

/// Checks in the order Host, web page, rate. Nothing of the request has been read yet.
pub(super) async fn guard(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let refused = check_host(&request, &api.hosts)
        .and_then(|()| check_page(request.headers()))
        .map_err(Answer::from)
        .and_then(|()| if api.rate.allows(peer.ip()) { Ok(()) } else { Err(Answer::too_many()) });
    match refused {
        Ok(()) => next.run(request).await,
        Err(answer) => answer.into_http(),
    }
}

/// Only loopback names and what the operator listed: a page that rebinds its name to this machine still
/// sends that name.
fn check_host(request: &Request, allowed: &[String]) -> Result<(), Fault> {
    let refuse = || Fault::new(Code::ForeignHostRejected);
    // A proxy's absolute form names a host of its own.
    if request.uri().authority().is_some() {
        return Err(refuse());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_10 => return Ok(()),
        (Some(host), None) => host.to_str().map_err(|_not_ascii| refuse())?,
        _ => return Err(refuse()),
    };
    let name = without_port(host).ok_or_else(refuse)?.to_ascii_lowercase();
    let loopback = matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    if loopback || allowed.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
        Ok(())
    } else {
        Err(refuse())
    }
}

fn without_port(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') {
        host.find(']')?.checked_add(1)?
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (name, port) = host.split_at_checked(end)?;
    let plain = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    plain.then_some(name)
}

/// A browser marks what a page sends. Node's `fetch` sends `sec-fetch-mode` alone: no reason to refuse.
fn check_page(headers: &HeaderMap) -> Result<(), Fault> {
    let site = headers.get("sec-fetch-site").is_some_and(|site| site.as_bytes() != b"none");
    if site || headers.contains_key(header::ORIGIN) || headers.contains_key(header::REFERER) {
        return Err(Fault::new(Code::BrowserOriginRejected));
    }
    Ok(())
}

/// Requests a minute for each caller, by our own monotonic clock.
#[derive(Debug)]
pub(super) struct Rate {
    limiter: Option<Limiter>,
}

type Limiter = RateLimiter<IpAddr, HashMapStateStore<IpAddr>, Ticks, NoOpMiddleware<Nanos>>;

impl Rate {
    /// `per_minute` of 0 switches the limit off.
    pub(super) fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        let quota = NonZeroU32::new(per_minute).map(Quota::per_minute);
        let limiter =
            quota.map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), Ticks(clock)));
        Self { limiter }
    }

    fn allows(&self, peer: IpAddr) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        let mut key = fold(peer);
        if limiter.len() >= RATE_KEYS {
            limiter.retain_recent();
            if limiter.len() >= RATE_KEYS {
                // Full of callers that are all active: newcomers share one bucket.
                key = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        limiter.check_key(&key).is_ok()
    }
}

/// One caller has an IPv4 address, or a /64 of IPv6 of which it may use any address.
fn fold(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        // Every process here may call from any of these addresses.
        local if local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Our clock in the limiter's terms.
#[derive(Debug, Clone)]
struct Ticks(Arc<dyn Clock>);

impl RateClock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.mono_ms().saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = axum::http::Request::builder().uri("/sign");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn only_loopback_names_and_listed_hosts_are_served() {
        let listed = vec!["wallet.lan".to_owned()];
        for good in
            ["localhost", "LOCALHOST:9402", "127.0.0.1:1", "[::1]:9402", "[::1]", "Wallet.LAN:9402"]
        {
            assert!(check_host(&request(&[("host", good)]), &listed).is_ok(), "{good}");
        }
        for bad in [
            "evil.test:9402",
            "0.0.0.0:9402",
            "localhost.evil.test",
            "",
            "127.0.0.1.",
            "127.0.0.2",
            "localhost:",
            "localhost:x",
            "[::1",
            "::1",
            "user@localhost",
        ] {
            assert!(check_host(&request(&[("host", bad)]), &listed).is_err(), "{bad}");
        }
        assert!(check_host(&request(&[]), &listed).is_err());
        let two = request(&[("host", "localhost"), ("host", "localhost")]);
        assert!(check_host(&two, &listed).is_err());
    }

    #[test]
    fn pages_are_refused_and_programs_are_not() {
        for bad in [
            ("origin", "null"),
            ("origin", "http://localhost"),
            ("referer", "http://a.example/"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-origin"),
        ] {
            assert!(check_page(request(&[bad]).headers()).is_err(), "{bad:?}");
        }
        for good in [("sec-fetch-site", "none"), ("sec-fetch-mode", "cors"), ("accept", "*/*")] {
            assert!(check_page(request(&[good]).headers()).is_ok(), "{good:?}");
        }
    }
}
