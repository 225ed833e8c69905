//! Access control: API keys and rate limits. The service writes the response to a refused caller.

mod keys;
pub(crate) mod ranges;

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

pub use keys::{ApiKey, add_key_file, api_keys};
pub use ranges::IpRanges;

/// Maximum number of callers with their own allowance. Once this many callers are counted, all callers share one
/// allowance.
const CALLERS_MAX: usize = 65_536;

type Limiter = RateLimiter<String, HashMapStateStore<String>, LimiterClock, NoOpMiddleware<Nanos>>;

/// A caller, as far as callers can be distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller<'a> {
    /// The holder of this key.
    Key(&'a ApiKey),
    /// A caller without a key: the nearest address that is not one of our proxies.
    Address(IpAddr),
    /// A caller without a key or a known address.
    Unknown,
}

impl Caller<'_> {
    /// Returns the name under which requests are counted.
    ///
    /// Keys have a prefix, because a key's name may look like an address.
    pub fn account(self) -> String {
        match self {
            Self::Key(key) => format!("key {}", key.name),
            Self::Address(address) => client_address(address).to_string(),
            Self::Unknown => String::new(),
        }
    }
}

/// The reason why a caller is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    #[error("an API key is required")]
    NoKey,
    /// The next request is admitted after `wait_s` seconds: the value of `Retry-After`, rounded up and at least 1.
    #[error("too many requests")]
    TooMany { wait_s: u64 },
}

/// The access rules of a service.
#[derive(Debug)]
pub struct Access {
    keys: Vec<ApiKey>,
    /// Reverse proxies whose `X-Forwarded-For` is trusted.
    proxies: IpRanges,
    limiter: Option<Limiter>,
}

impl Access {
    /// Creates access rules.
    ///
    /// Without `keys`, every caller is admitted. `per_minute` limits each caller's requests; 0 sets no limit. `proxies`
    /// may name the caller in `X-Forwarded-For`. Programs on this machine belong to the operator and have no limit.
    pub fn new(
        keys: Vec<ApiKey>,
        proxies: IpRanges,
        per_minute: u32,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let quota = NonZeroU32::new(per_minute).map(Quota::per_minute);
        let limiter = quota.map(|quota| {
            RateLimiter::new(quota, HashMapStateStore::default(), LimiterClock(clock))
        });
        Self { keys, proxies, limiter }
    }

    /// Admits a caller, or refuses it.
    ///
    /// Looks for a key in `Authorization: Bearer`, otherwise in `X-API-Key`. `peer` is the address of the connection.
    /// Each key has its own allowance. If there are no keys, each address has its own allowance.
    ///
    /// # Errors
    /// [`AccessRefusal`].
    pub fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Caller<'_>, AccessRefusal> {
        let origin = peer.map(|peer| self.origin(peer, headers));
        let caller = match (self.key_of(headers), origin) {
            (Some(key), _any) => Caller::Key(key),
            (None, _any) if !self.keys.is_empty() => return Err(AccessRefusal::NoKey),
            (None, Some(origin)) => Caller::Address(origin),
            (None, None) => Caller::Unknown,
        };
        if !peer.is_some_and(|peer| is_local(peer, headers)) {
            self.count(caller)?;
        }
        Ok(caller)
    }

    /// Returns the caller's key. It compares the digest with the digests of all keys, so that the duration reveals
    /// nothing.
    fn key_of(&self, headers: &HeaderMap) -> Option<&ApiKey> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let plain = headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let digest = Sha256::digest(bearer.or(plain)?.trim().as_bytes());
        let mut found = None;
        for key in &self.keys {
            if bool::from(key.sha256.ct_eq(digest.as_slice())) {
                found = Some(key);
            }
        }
        found
    }

    /// Returns the origin of a request: the nearest hop that is not one of our proxies.
    fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer.to_canonical();
        // Each proxy appends the address of its peer, so the nearest hop is at the end of the last line.
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

    /// Counts a request of the caller, or refuses it.
    fn count(&self, caller: Caller<'_>) -> Result<(), AccessRefusal> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if limiter.len() >= CALLERS_MAX {
            limiter.retain_recent();
        }
        let full = limiter.len() >= CALLERS_MAX;
        let account = if full { String::new() } else { caller.account() };
        limiter.check_key(&account).map_err(|refused| {
            let wait = refused.wait_time_from(limiter.clock().now());
            let wait_s = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            // The wait is at least 1, because the next request may be admissible by now.
            AccessRefusal::TooMany { wait_s: wait_s.max(1) }
        })
    }
}

/// Returns whether a program on this machine made the request itself.
///
/// A reverse proxy on this machine forwards requests from other machines, and marks them with one of these headers.
fn is_local(peer: IpAddr, headers: &HeaderMap) -> bool {
    const FORWARDING_HEADERS: [&str; 4] = ["x-forwarded-for", "forwarded", "x-real-ip", "via"];
    let forwarded = FORWARDING_HEADERS.iter().any(|name| headers.contains_key(*name));
    peer.to_canonical().is_loopback() && !forwarded
}

/// Returns the address that stands for a caller in rate limits.
///
/// Each IPv4 address is one caller. All addresses of an IPv6 /64 are one caller, because one host can use any of them.
pub fn client_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Our clock for the rate limiter.
#[derive(Debug, Clone)]
struct LimiterClock(Arc<dyn Clock>);

impl RateClock for LimiterClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.mono_ms().saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    /// The refusal right after the only request of a minute.
    const TOO_MANY: AccessRefusal = AccessRefusal::TooMany { wait_s: 60 };

    /// Returns a key with this name. The key itself is `secret`.
    fn key(name: &str) -> ApiKey {
        let sha256 = Sha256::digest("secret").into();
        ApiKey { name: name.to_owned(), sha256, receivers: [].into() }
    }

    /// Returns rules that allow one request per minute, with a clock that stands still.
    fn access(proxies: &[&str]) -> Access {
        let proxies = IpRanges::parse(proxies.iter().copied()).unwrap();
        Access::new(vec![key("shop")], proxies, 1, Arc::new(ManualClock::new(Utc(0))))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn an_api_key_is_recognized_in_either_header() {
        let access = access(&[]);
        let name =
            |name, value| access.key_of(&headers(&[(name, value)])).map(|key| key.name.clone());
        assert_eq!(name("authorization", "Bearer secret").as_deref(), Some("shop"));
        assert_eq!(name("x-api-key", "secret").as_deref(), Some("shop"));
        assert_eq!(name("x-api-key", "Secret"), None);
        assert_eq!(name("authorization", "secret"), None);
        assert_eq!(access.key_of(&HeaderMap::new()), None);
    }

    #[test]
    fn the_caller_is_the_nearest_untrusted_hop() {
        let of = |proxies: &[&str], peer: &str, forwarded: &str| {
            let headers = headers(&[("x-forwarded-for", forwarded)]);
            access(proxies).origin(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(of(&[], "10.0.0.1", "1.2.3.4"), "10.0.0.1", "no proxy is trusted by default");
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
    fn only_direct_local_callers_are_exempt_from_the_rate_limit() {
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
            Err(TOO_MANY),
            "a private address is not this machine"
        );
        // All callers behind an unlisted proxy share one allowance.
        let here = Some([127, 0, 0, 1].into());
        let through = |name, value| headers(&[(name, value)]);
        assert!(open.admit(&through("x-forwarded-for", "1.1.1.1"), here).is_ok());
        for (name, value) in [
            ("x-forwarded-for", "2.2.2.2"),
            ("forwarded", "for=2.2.2.2"),
            ("x-real-ip", "2.2.2.2"),
            ("via", "1.1 nginx"),
        ] {
            assert_eq!(open.admit(&through(name, value), here), Err(TOO_MANY), "{name}");
        }
        // A remote caller behind a trusted proxy cannot claim to be local.
        let trusting = Access { keys: Vec::new(), ..access(&["127.0.0.1"]) };
        let claim = through("x-forwarded-for", "127.0.0.1");
        assert!(trusting.admit(&claim, here).is_ok());
        assert_eq!(trusting.admit(&claim, here), Err(TOO_MANY));
        // If keys are set, every local holder of a key is exempt from the limit.
        let guarded = access(&[]);
        let shop = headers(&[("x-api-key", "secret")]);
        assert!((0..9).all(|_| guarded.admit(&shop, here).is_ok()));
        assert_eq!(guarded.admit(&nothing, here), Err(AccessRefusal::NoKey));
    }

    #[test]
    fn each_caller_has_its_own_allowance() {
        let access = access(&[]);
        let (a, b) = (key("a"), key("b"));
        assert!(access.count(Caller::Key(&a)).is_ok());
        assert_eq!(access.count(Caller::Key(&a)), Err(TOO_MANY));
        assert!(access.count(Caller::Key(&b)).is_ok());
        let address = |text: &str| Caller::Address(text.parse().unwrap());
        assert!(access.count(address("2001:db8::1")).is_ok());
        assert_eq!(access.count(address("2001:db8::2")), Err(TOO_MANY), "one caller has a /64");
        assert!(access.count(address("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn rate_limits_apply_per_key_or_per_address_without_keys() {
        let (shop, nothing) = (headers(&[("x-api-key", "secret")]), HeaderMap::new());
        let (one, other) = (Some([1; 4].into()), Some([2; 4].into()));
        let guarded = access(&[]);
        assert_eq!(guarded.admit(&nothing, one), Err(AccessRefusal::NoKey));
        assert_eq!(guarded.admit(&shop, one), Ok(Caller::Key(&key("shop"))));
        assert_eq!(guarded.admit(&shop, other), Err(TOO_MANY), "wherever it calls from");
        let open = Access { keys: Vec::new(), ..access(&[]) };
        assert_eq!(open.admit(&shop, one), Ok(Caller::Address([1; 4].into())));
        assert_eq!(open.admit(&nothing, one), Err(TOO_MANY));
        assert_eq!(open.admit(&nothing, other), Ok(Caller::Address([2; 4].into())));
        assert_eq!(open.admit(&nothing, None), Ok(Caller::Unknown));
        let endless = Access { limiter: None, ..open };
        assert!((0..9).all(|_| endless.admit(&nothing, one).is_ok()));
    }

    #[test]
    fn a_refused_caller_learns_when_it_is_admitted_again() {
        let clock = Arc::new(ManualClock::new(Utc(0)));
        // The limit is one request every 60/7 seconds (8,571.43 ms), and a burst of seven.
        let access = Access::new(Vec::new(), IpRanges::default(), 7, Arc::clone(&clock) as _);
        let admit = |host: u8| access.admit(&HeaderMap::new(), Some([10, 0, 0, host].into()));
        let refused = |wait_s| Err(AccessRefusal::TooMany { wait_s });
        assert!((0..7).all(|_| admit(1).is_ok()));
        assert_eq!(admit(1), refused(9));
        clock.advance(571);
        assert_eq!(admit(1), refused(9), "8000.43 ms are left");
        clock.advance(1);
        assert_eq!(admit(1), refused(8), "a refused request does not prolong the wait");
        assert!(admit(2).is_ok(), "another caller does not wait");
        clock.advance(7_999);
        assert_eq!(admit(1), refused(1), "0.43 ms are left");
        clock.advance(1);
        assert!(admit(1).is_ok());
        assert_eq!(admit(1), refused(9));
    }
}
