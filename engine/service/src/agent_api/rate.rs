//! How often a caller may call, whatever it says of itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::RATE_KEYS;
use governor::clock::Clock as RateClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

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

    pub(super) fn allows(&self, peer: IpAddr) -> bool {
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
pub(super) fn fold(peer: IpAddr) -> IpAddr {
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
pub(super) struct Ticks(pub(super) Arc<dyn Clock>);

impl RateClock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.mono_ms().saturating_mul(1_000_000))
    }
}
