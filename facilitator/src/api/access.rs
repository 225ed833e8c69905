//! Who is let in, and how often.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bursar_chain::ports::Clock;
use governor::clock::Clock as RateClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{Api, answers, later};
use crate::config::ApiKey;

/// Callers that are told apart; beyond them, newcomers share one allowance.
const CALLERS_MAX: usize = 65_536;

type Limiter = RateLimiter<String, HashMapStateStore<String>, Ticks, NoOpMiddleware<Nanos>>;

/// The rules of the door.
#[derive(Debug)]
pub struct Access {
    keys: Vec<ApiKey>,
    /// Whose word about callers is believed.
    proxies: BTreeSet<IpAddr>,
    limiter: Option<Limiter>,
}

impl Access {
    pub fn new(
        keys: Vec<ApiKey>,
        proxies: BTreeSet<IpAddr>,
        per_minute: u32,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let quota = NonZeroU32::new(per_minute).map(Quota::per_minute);
        let limiter =
            quota.map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), Ticks(clock)));
        Self { keys, proxies, limiter }
    }

    /// The name of the key that a caller has. All are compared, so that the time tells nothing.
    fn key_of(&self, headers: &HeaderMap) -> Option<&str> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let plain = headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let digest = Sha256::digest(bearer.or(plain)?.trim().as_bytes());
        let mut found = None;
        for key in &self.keys {
            if bool::from(key.sha256.ct_eq(digest.as_slice())) {
                found = Some(key.name.as_str());
            }
        }
        found
    }

    /// Where a request comes from: the nearest hop that is none of our proxies.
    fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut caller = peer.to_canonical();
        let lines = headers.get_all("x-forwarded-for").iter();
        let hops: Vec<&str> = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .collect();
        for hop in hops.into_iter().rev() {
            if !self.proxies.contains(&caller) {
                break;
            }
            let Ok(next) = hop.parse::<IpAddr>() else { break };
            caller = next.to_canonical();
        }
        caller
    }

    fn allows(&self, caller: String) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        if limiter.len() >= CALLERS_MAX {
            limiter.retain_recent();
        }
        let caller = if limiter.len() >= CALLERS_MAX { String::new() } else { caller };
        limiter.check_key(&caller).is_ok()
    }
}

/// Lets a request in, or answers it.
pub(super) async fn guard(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let access = &api.access;
    let name = access.key_of(request.headers());
    if name.is_none() && !access.keys.is_empty() {
        let text = "Send an API key of this facilitator, as Authorization: Bearer or as X-API-Key.";
        return answers::error(StatusCode::UNAUTHORIZED, text);
    }
    if access.limiter.is_some() {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let address = peer.map(|ConnectInfo(peer)| access.caller(peer.ip(), request.headers()));
        let caller = match (name, address) {
            (Some(name), _any) => format!("key {name}"),
            (None, Some(address)) => fold(address).to_string(),
            (None, None) => String::new(),
        };
        if !access.allows(caller) {
            let text = "Too many requests: wait for Retry-After seconds.";
            return later(answers::error(StatusCode::TOO_MANY_REQUESTS, text));
        }
    }
    next.run(request).await
}

/// One caller has an IPv4 address, or a /64 of IPv6 of which it may use any address.
fn fold(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
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
    use bursar_chain::clock::SystemClock;

    fn access(proxies: &[&str]) -> Access {
        let proxies = proxies.iter().map(|text| text.parse().unwrap()).collect();
        let key = ApiKey { name: "shop".to_owned(), sha256: Sha256::digest("secret").into() };
        Access::new(vec![key], proxies, 1, Arc::new(SystemClock::new().unwrap()))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_key_is_known_by_its_digest_in_either_header() {
        let access = access(&[]);
        let name = |name, value| access.key_of(&headers(&[(name, value)])).map(str::to_owned);
        assert_eq!(name("authorization", "Bearer secret").as_deref(), Some("shop"));
        assert_eq!(name("x-api-key", "secret").as_deref(), Some("shop"));
        assert_eq!(name("x-api-key", "Secret"), None);
        assert_eq!(name("authorization", "secret"), None);
        assert_eq!(access.key_of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_caller_is_the_nearest_hop_that_is_no_proxy_of_ours() {
        let of = |proxies: &[&str], peer: &str, forwarded: &str| {
            let headers = headers(&[("x-forwarded-for", forwarded)]);
            access(proxies).caller(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(of(&[], "10.0.0.1", "1.2.3.4"), "10.0.0.1", "nobody is believed unasked");
        assert_eq!(of(&["10.0.0.1"], "10.0.0.1", "6.6.6.6, 1.2.3.4"), "1.2.3.4");
        let two = &["10.0.0.1", "10.0.0.2"];
        assert_eq!(of(two, "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2"), "1.2.3.4");
        assert_eq!(of(two, "10.0.0.1", "nonsense"), "10.0.0.1");
    }

    #[test]
    fn each_caller_has_an_allowance_of_its_own() {
        let access = access(&[]);
        assert!(access.allows("a".to_owned()));
        assert!(!access.allows("a".to_owned()));
        assert!(access.allows("b".to_owned()));
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let other: IpAddr = "2001:db8::2".parse().unwrap();
        assert_eq!(fold(one), fold(other));
    }
}
