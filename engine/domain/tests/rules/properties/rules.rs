//! The specification's payment rules in their shortest form: policies, and the rules that a request would break. The
//! code uses neither `assess` nor `allowance`.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::networks;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_core::time::{LocalDay, Moment};
use bursar_domain::PaymentAsk;

use crate::support::build;
use crate::support::clock::{HOUR, MINUTE};

/// The part of a policy that concerns payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) enabled: bool,
    pub(crate) daily: u64,
    pub(crate) per_request: u64,
    pub(crate) auto_below: u64,
    allowed: &'static [&'static str],
    blocked: &'static [&'static str],
    /// Whether the policy allows only a network that no request uses.
    other_network_only: bool,
}

const DOLLAR: u64 = 1_000_000;

const BASE: Rules = Rules {
    enabled: true,
    daily: 20 * DOLLAR,
    per_request: 8 * DOLLAR,
    auto_below: 3 * DOLLAR,
    allowed: &[],
    blocked: &[],
    other_network_only: false,
};

/// The policies between which histories switch. The first two are in force at the start.
pub(crate) const VARIANTS: [Rules; 13] = [
    BASE,
    Rules { auto_below: 0, ..BASE },
    Rules { daily: 60 * DOLLAR, per_request: 30 * DOLLAR, auto_below: 10 * DOLLAR, ..BASE },
    Rules { daily: 5 * DOLLAR, per_request: 2 * DOLLAR, auto_below: DOLLAR, ..BASE },
    Rules { daily: 8 * DOLLAR, auto_below: 9 * DOLLAR, ..BASE },
    Rules { daily: 0, ..BASE },
    Rules { per_request: 0, ..BASE },
    Rules { enabled: false, ..BASE },
    Rules { auto_below: 1, ..BASE },
    Rules { allowed: &["good.example"], ..BASE },
    Rules { blocked: &["bad.good.example"], ..BASE },
    Rules { allowed: &["good.example"], blocked: &["bad.good.example"], ..BASE },
    Rules { other_network_only: true, ..BASE },
];

/// URLs that requests name, with their hosts.
pub(crate) const URLS: [(&str, &str); 4] = [
    ("https://good.example/a", "good.example"),
    ("https://api.good.example/b", "api.good.example"),
    ("https://bad.good.example/c", "bad.good.example"),
    ("https://else.example/d", "else.example"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostVerdict {
    Inside,
    Outside,
    Blocked,
}

impl Rules {
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        if self.other_network_only {
            let other = networks::by_id_or_v1_name("sepolia").expect("a row of the table").chain;
            policy.networks = AllowedNetworks::Only([other].into());
        }
        let payments = &mut policy.payments;
        payments.enabled = self.enabled;
        payments.daily = Usd(self.daily);
        payments.per_request = Usd(self.per_request);
        payments.auto_below = Usd(self.auto_below);
        payments.hosts = build::hosts(self.allowed, self.blocked);
        policy
    }

    /// Returns whether `self` allows anything that `old` did not.
    pub(crate) fn loosens(&self, old: &Self) -> bool {
        let dropped = |new: &[&str], old: &[&str]| old.iter().any(|entry| !new.contains(entry));
        let opened = !old.allowed.is_empty()
            && (self.allowed.is_empty() || dropped(old.allowed, self.allowed));
        (self.enabled && !old.enabled)
            || self.daily > old.daily
            || self.per_request > old.per_request
            || self.auto_below > old.auto_below
            || (old.other_network_only && !self.other_network_only)
            || dropped(self.blocked, old.blocked)
            || opened
    }

    fn host_verdict(&self, url: &str) -> HostVerdict {
        let (_, host) = URLS.iter().find(|(known, _)| *known == url).expect("a URL of the table");
        let covers = |entry: &&str| *host == *entry || host.ends_with(&format!(".{entry}"));
        if self.blocked.iter().any(covers) {
            HostVerdict::Blocked
        } else if self.allowed.is_empty() || self.allowed.iter().any(covers) {
            HostVerdict::Inside
        } else {
            HostVerdict::Outside
        }
    }

    /// Applies the specification's domain rule. `Ok(true)` means that the payment is held.
    ///
    /// "Either URL on the block list refuses; the agent's `request_url` outside the allow list refuses, and so does
    /// `resource.url` when the agent sent no `request_url`; only when `request_url` is inside and `resource.url` is
    /// not is the payment held."
    pub(crate) fn domains(
        &self,
        request: Option<&str>,
        resource: Option<&str>,
    ) -> Result<bool, Code> {
        if self.allowed.is_empty() && self.blocked.is_empty() {
            return Ok(false);
        }
        let place = |url: Option<&str>| url.map(|url| self.host_verdict(url));
        let (request, resource) = (place(request), place(resource));
        let own = request.or(resource).ok_or(Code::DomainUrlRequired)?;
        if [request, resource].contains(&Some(HostVerdict::Blocked)) || own == HostVerdict::Outside
        {
            return Err(Code::DomainNotAllowed);
        }
        Ok(resource == Some(HostVerdict::Outside))
    }
}

/// The circumstances of a request.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) rules: Rules,
    pub(crate) from: Address,
    pub(crate) network_on: bool,
    pub(crate) trusted: bool,
    pub(crate) spent: u64,
    /// Value reserved by the agent's other requests.
    pub(crate) reserved: u64,
}

impl Context {
    /// Returns every code with which a rule would refuse the request.
    pub(crate) fn refusals(&self, ask: &PaymentAsk) -> Vec<Code> {
        let rules = &self.rules;
        let usd = ask.usd.0;
        let nobody = [Address::ZERO, ask.asset, self.from].contains(&ask.payee);
        let domains = rules.domains(ask.request_url.as_deref(), ask.resource_url.as_deref());
        let broken = [
            (!rules.enabled, Code::X402Disabled),
            (usd == 0 || usd > 1_000_000_000 * DOLLAR, Code::InvalidX402Format),
            (nobody, Code::InvalidPaymentData),
            (!self.network_on, Code::NetworkDisabled),
            (rules.other_network_only, Code::NetworkNotAllowed),
            (usd > rules.per_request, Code::ExceedsPerRequestMax),
            (self.spent >= rules.daily, Code::LimitReached),
            (self.spent + self.reserved + usd > rules.daily, Code::ExceedsDailyLimit),
        ];
        let mut codes: Vec<_> =
            broken.into_iter().filter_map(|(broken, code)| broken.then_some(code)).collect();
        codes.extend(domains.err());
        codes
    }

    /// Returns every reason for which the operator must decide.
    pub(crate) fn holds(&self, ask: &PaymentAsk, now: &Moment) -> Vec<HoldReason> {
        let rules = &self.rules;
        let astray =
            now.chain_hint.is_some_and(|block| (now.utc.0 - block.0).abs() > TEN_MINUTES_MS);
        let outside =
            rules.domains(ask.request_url.as_deref(), ask.resource_url.as_deref()) == Ok(true);
        let zero = rules.auto_below == 0;
        let reasons = [
            (!self.trusted, HoldReason::JournalUntrusted),
            (astray, HoldReason::ClockOff),
            (ask.domain_contradicted, HoldReason::DomainContradicted),
            (ask.valid_seconds > 3600, HoldReason::LongValidity),
            (outside, HoldReason::ResourceOutsideAllowList),
            (zero, HoldReason::ManualOnly),
            (!zero && ask.usd.0 >= rules.auto_below, HoldReason::AboveThreshold),
        ];
        reasons.into_iter().filter_map(|(so, reason)| so.then_some(reason)).collect()
    }
}

/// The running allowance of an agent, by the specification's rule for daily allowances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) day: LocalDay,
    pub(crate) start_ms: i64,
    pub(crate) spent: u64,
    boot_id: String,
    /// The earliest and the latest boot clock reading at which this allowance may begin, by the specification.
    ///
    /// They differ if the operator granted a start that only the wall clock confirms.
    boot_ms: (i64, i64),
}

/// The renewal that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Renewal(Allowance),
    /// The specification does not decide whether enough time has passed on the boot clock: both answers are correct.
    Either(Allowance),
    /// Only the operator may grant this allowance.
    Grant(Allowance),
}

const TWENTY_HOURS_MS: i64 = 20 * HOUR;
const TEN_MINUTES_MS: i64 = 10 * 60 * 1000;
const CLOCK_SLACK_MS: i64 = 5 * MINUTE;

fn boot_clock(now: &Moment) -> i64 {
    i64::try_from(now.boottime_ms).expect("a boot clock of this age")
}

impl Allowance {
    pub(crate) fn first(now: &Moment) -> Self {
        Self::begun_at(now, now.day_start.0)
    }

    fn begun_at(now: &Moment, start_ms: i64) -> Self {
        let by_wall = boot_clock(now) - (now.utc.0 - start_ms);
        let (day, boot_id) = (now.local_day, now.boot_id.clone());
        Self { day, start_ms, spent: 0, boot_id, boot_ms: (by_wall, by_wall) }
    }

    pub(crate) fn due(&self, now: &Moment) -> Due {
        let lasted = now.day_start.0 - self.start_ms;
        if now.local_day <= self.day || lasted < TWENTY_HOURS_MS {
            return Due::Nothing;
        }
        let mut next = Self::begun_at(now, now.day_start.0);
        let ahead = now.chain_hint.is_some_and(|block| now.utc.0 - block.0 > HOUR);
        let (earliest, latest) = self.boot_ms;
        let counted = |from: i64| {
            self.boot_id != now.boot_id || boot_clock(now) - from >= lasted - CLOCK_SLACK_MS
        };
        if ahead || !counted(earliest) {
            next.boot_ms.1 = boot_clock(now);
            return Due::Grant(next);
        }
        if self.boot_id == now.boot_id {
            // If setting the wall clock moves a start into the past, no second allowance may begin within this one.
            let (by_wall, _) = next.boot_ms;
            let after =
                |from: i64| by_wall.max(from + lasted - CLOCK_SLACK_MS).min(boot_clock(now));
            next.boot_ms = (after(earliest), after(latest));
        }
        if counted(latest) { Due::Renewal(next) } else { Due::Either(next) }
    }
}
