//! Who is let in, and how often. What callers are answered who are not, their service says.

mod keys;
mod ranges;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use bursar_chain::ports::Clock;
use governor::clock::Clock as RateClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use keys::{ApiKey, add_file, api_keys};
pub use ranges::{IpRange, IpRanges, NotARange};

/// Callers that are told apart; beyond them, newcomers share one allowance.
const CALLERS_MAX: usize = 65_536;

type Limiter = RateLimiter<String, HashMapStateStore<String>, Ticks, NoOpMiddleware<Nanos>>;

/// Who calls, as far as callers are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller<'a> {
    /// Whoever has the key of this name.
    Key(&'a str),
    /// Somebody without a key, behind all proxies that are ours.
    Address(IpAddr),
    /// Nothing is known, not even a peer.
    Nobody,
}

impl Caller<'_> {
    /// Under what its requests are counted. A key may be named like an address, so there is a word before it.
    pub fn account(self) -> String {
        match self {
            Self::Key(name) => format!("key {name}"),
            Self::Address(address) => fold(address).to_string(),
            Self::Nobody => String::new(),
        }
    }
}

/// Why a caller is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("an API key is required")]
    NoKey,
    #[error("too many requests")]
    TooMany,
}

/// The rules of the door.
#[derive(Debug)]
pub struct Access {
    keys: Vec<ApiKey>,
    /// Reverse proxies whose `X-Forwarded-For` is believed.
    proxies: IpRanges,
    limiter: Option<Limiter>,
}

impl Access {
    /// Without `keys` every caller may call. `per_minute` limits each caller's requests, and 0 sets no limit.
    /// `proxies` may name the caller in `X-Forwarded-For`. Programs on this machine have no limit: they are
    /// the operator's.
    pub fn new(
        keys: Vec<ApiKey>,
        proxies: IpRanges,
        per_minute: u32,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let quota = NonZeroU32::new(per_minute).map(Quota::per_minute);
        let limiter =
            quota.map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), Ticks(clock)));
        Self { keys, proxies, limiter }
    }

    /// Lets a caller in, or not. Keys are looked for in `Authorization: Bearer` and in `X-API-Key`; `peer` is who
    /// is connected. Each key has an allowance, or each address where there are no keys.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn admit(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Caller<'_>, Refusal> {
        let origin = peer.map(|peer| self.origin(peer, headers));
        let caller = match (self.key_of(headers), origin) {
            (Some(name), _any) => Caller::Key(name),
            (None, _any) if !self.keys.is_empty() => return Err(Refusal::NoKey),
            (None, Some(origin)) => Caller::Address(origin),
            (None, None) => Caller::Nobody,
        };
        let exempt = peer.is_some_and(|peer| is_local(peer, headers));
        if exempt || self.allows(caller) { Ok(caller) } else { Err(Refusal::TooMany) }
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
    fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer.to_canonical();
        // The nearest is the last of the last line.
        let lines = headers.get_all("x-forwarded-for").iter().rev();
        let hops = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.rsplit(','));
        for hop in hops {
            if !self.proxies.contains(origin) {
                break;
            }
            let Ok(next) = hop.trim().parse::<IpAddr>() else { break };
            origin = next.to_canonical();
        }
        origin
    }

    fn allows(&self, caller: Caller<'_>) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        if limiter.len() >= CALLERS_MAX {
            limiter.retain_recent();
        }
        let full = limiter.len() >= CALLERS_MAX;
        let account = if full { String::new() } else { caller.account() };
        limiter.check_key(&account).is_ok()
    }
}

/// Whether a program on this machine made the request itself. A reverse proxy on this machine passes on
/// requests of strangers, and says so in one of these headers.
fn is_local(peer: IpAddr, headers: &HeaderMap) -> bool {
    const FORWARDED: [&str; 4] = ["x-forwarded-for", "forwarded", "x-real-ip", "via"];
    let forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
    peer.to_canonical().is_loopback() && !forwarded
}

/// One caller has an IPv4 address, or a /64 of IPv6 of which it may use any address.
pub(crate) fn fold(address: IpAddr) -> IpAddr {
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
            access(proxies).origin(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(of(&[], "10.0.0.1", "1.2.3.4"), "10.0.0.1", "nobody is believed unasked");
        assert_eq!(of(&["10.0.0.1"], "10.0.0.1", "6.6.6.6, 1.2.3.4"), "1.2.3.4");
        let two = &["10.0.0.1", "10.0.0.2"];
        assert_eq!(of(two, "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2"), "1.2.3.4");
        assert_eq!(of(two, "10.0.0.1", "nonsense"), "10.0.0.1");
        let lines =
            headers(&[("x-forwarded-for", "6.6.6.6, 1.2.3.4"), ("x-forwarded-for", "10.0.0.2")]);
        let origin = access(two).origin("::ffff:10.0.0.1".parse().unwrap(), &lines);
        assert_eq!(origin.to_string(), "1.2.3.4", "the last line is the nearest");
    }

    #[test]
    fn a_trusted_range_covers_every_proxy_in_it() {
        let of = |proxies: &[&str], peer: &str, forwarded: &str| {
            let headers = headers(&[("x-forwarded-for", forwarded)]);
            access(proxies).origin(peer.parse().unwrap(), &headers).to_string()
        };
        let range = &["10.0.0.0/8", "fd00::/8"];
        assert_eq!(of(range, "10.200.3.4", "1.2.3.4, 10.9.9.9"), "1.2.3.4");
        assert_eq!(of(range, "fd12::1", "1.2.3.4"), "1.2.3.4");
        assert_eq!(of(range, "11.0.0.1", "1.2.3.4"), "11.0.0.1");
    }

    #[test]
    fn programs_on_this_machine_have_no_limit_and_a_proxy_on_it_gives_no_exemption() {
        let open = Access { keys: Vec::new(), ..access(&[]) };
        let nothing = HeaderMap::new();
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let here = Some(here.parse().unwrap());
            assert!((0..9).all(|_| open.admit(&nothing, here).is_ok()));
        }
        let near = Some([10, 0, 0, 1].into());
        assert!(open.admit(&nothing, near).is_ok());
        assert_eq!(
            open.admit(&nothing, near),
            Err(Refusal::TooMany),
            "a private address is not this machine"
        );
        // Every customer of a proxy that was not named shares one allowance.
        let here = Some([127, 0, 0, 1].into());
        let through = |name, value| headers(&[(name, value)]);
        assert!(open.admit(&through("x-forwarded-for", "1.1.1.1"), here).is_ok());
        for (name, value) in [
            ("x-forwarded-for", "2.2.2.2"),
            ("forwarded", "for=2.2.2.2"),
            ("x-real-ip", "2.2.2.2"),
            ("via", "1.1 nginx"),
        ] {
            assert_eq!(open.admit(&through(name, value), here), Err(Refusal::TooMany), "{name}");
        }
        // A stranger behind a trusted proxy does not become local by saying so.
        let trusting = Access { keys: Vec::new(), ..access(&["127.0.0.1"]) };
        let said = through("x-forwarded-for", "127.0.0.1");
        assert!(trusting.admit(&said, here).is_ok());
        assert_eq!(trusting.admit(&said, here), Err(Refusal::TooMany));
        // With keys the exemption holds for every holder of one.
        let guarded = access(&[]);
        let shop = headers(&[("x-api-key", "secret")]);
        assert!((0..9).all(|_| guarded.admit(&shop, here).is_ok()));
        assert_eq!(guarded.admit(&nothing, here), Err(Refusal::NoKey));
    }

    #[test]
    fn each_caller_has_an_allowance_of_its_own() {
        let access = access(&[]);
        assert!(access.allows(Caller::Key("a")));
        assert!(!access.allows(Caller::Key("a")));
        assert!(access.allows(Caller::Key("b")));
        let address = |text: &str| Caller::Address(text.parse().unwrap());
        assert!(access.allows(address("2001:db8::1")));
        assert!(!access.allows(address("2001:db8::2")), "one caller has a /64");
        assert!(access.allows(address("2001:db8:0:1::1")));
    }

    #[test]
    fn who_has_a_key_is_let_in_as_often_as_the_key_may_and_without_keys_anybody_is() {
        let (shop, nothing) = (headers(&[("x-api-key", "secret")]), HeaderMap::new());
        let (one, other) = (Some([1; 4].into()), Some([2; 4].into()));
        let guarded = access(&[]);
        assert_eq!(guarded.admit(&nothing, one), Err(Refusal::NoKey));
        assert_eq!(guarded.admit(&shop, one), Ok(Caller::Key("shop")));
        assert_eq!(guarded.admit(&shop, other), Err(Refusal::TooMany), "wherever it calls from");
        let open = Access { keys: Vec::new(), ..access(&[]) };
        assert_eq!(open.admit(&shop, one), Ok(Caller::Address([1; 4].into())));
        assert_eq!(open.admit(&nothing, one), Err(Refusal::TooMany));
        assert_eq!(open.admit(&nothing, other), Ok(Caller::Address([2; 4].into())));
        assert_eq!(open.admit(&nothing, None), Ok(Caller::Nobody));
        let endless = Access { limiter: None, ..open };
        assert!((0..9).all(|_| endless.admit(&nothing, one).is_ok()));
    }
}
