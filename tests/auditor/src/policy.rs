//! Judges one payment by a policy: act, hold or refuse. Depends on nothing but its arguments.

use crate::clocks::Instant;
use crate::config::{Config, VersionedPolicy};
use crate::domains;
use crate::observations::{Address, Ask, Domain, Micros, Offer, Payment};

/// The largest valid amount, in micro-dollars.
const MAX_MICROS: u128 = 1_000_000_000_000_000;
/// The number of held requests of one agent, and of all agents, that the wallet allows.
pub(crate) const HELD_MAX: (usize, usize) = (20, 500);
const ZERO_ADDRESS: &str = "0x0000000000000000000000000000000000000000";

/// The terms to be signed, except for the times and the nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) version: u8,
    pub(crate) chain: u64,
    pub(crate) asset: Address,
    pub(crate) payee: Address,
    pub(crate) amount: u128,
    /// `None` if the account's address was never returned.
    pub(crate) payer: Option<Address>,
    pub(crate) validity_s: u64,
    /// The value of the payment for the limits, in micro-dollars. A token without a price counts as zero.
    pub(crate) micros: Micros,
    pub(crate) is_priced: bool,
    pub(crate) request_url: Option<String>,
    pub(crate) resource_url: Option<String>,
}

impl Terms {
    /// Returns whether a payment has these terms, if the wallet decided it at this instant.
    pub(crate) fn matches(&self, at: &Instant, p: &Payment) -> bool {
        let t = self;
        let now = u64::try_from(at.second()).unwrap_or(0);
        let after = if t.version == 1 { now.saturating_sub(600) } else { 0 };
        p.version == t.version
            && p.chain == t.chain
            && p.asset.to_lowercase() == t.asset
            && p.payee.to_lowercase() == t.payee
            && p.amount == t.amount
            && t.payer.as_ref().is_none_or(|payer| *payer == p.payer.to_lowercase())
            && p.valid_after_s == after
            && p.valid_before_s == now.saturating_add(t.validity_s)
    }
}

/// Bounds of what an agent has used of its allowance, in micro-dollars: (least, most).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UsedBounds {
    pub(crate) spent: (u64, u64),
    /// The sum of spent and reserved.
    pub(crate) total: (u64, u64),
}

/// Number of held requests of the agent and of all agents: (least, most).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeldCounts {
    pub(crate) agent: (usize, usize),
    pub(crate) all: (usize, usize),
}

/// A refusal, and whether it is certain or only possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) http: u16,
    pub(crate) code: &'static str,
    pub(crate) is_certain: bool,
}

/// All correct outcomes for one payment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Judgement {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) act: Option<&'static str>,
    pub(crate) hold: Option<&'static str>,
    pub(crate) terms: Option<Terms>,
}

impl Judgement {
    pub(crate) fn refuse(&mut self, http: u16, code: &'static str, sure: bool) {
        if let Some(there) = self.refusals.iter_mut().find(|r| r.code == code) {
            there.is_certain |= sure;
        } else {
            self.refusals.push(Refusal { http, code, is_certain: sure });
        }
    }

    pub(crate) fn must_refuse(&self) -> bool {
        self.refusals.iter().any(|r| r.is_certain)
    }
}

fn is_transferable(offer: &Offer) -> bool {
    offer.transfer_method.as_deref().is_none_or(|m| m == "eip3009")
}

pub(crate) fn validity_s(offer: &Offer) -> u64 {
    offer.max_timeout_s.unwrap_or(300).max(30)
}

/// Returns the selected offer: the first payable one, or else the first `exact` one on a known chain.
pub(crate) fn select<'a>(
    offers: &'a [Offer],
    config: &Config,
    policy: &VersionedPolicy,
) -> Option<&'a Offer> {
    let allows = |chain: u64| policy.policy.networks.as_ref().is_none_or(|n| n.contains(&chain));
    let usable = |o: &&Offer| {
        o.scheme == "exact"
            && is_transferable(o)
            && o.reference
            && config.networks.get(&o.chain).is_some_and(|n| n.is_enabled)
            && allows(o.chain)
    };
    let known = |o: &&Offer| o.scheme == "exact" && config.networks.contains_key(&o.chain);
    offers.iter().find(usable).or_else(|| offers.iter().find(known))
}

/// Adds the refusals by the terms and the current policy. New requests and approvals use the same ones.
pub(crate) fn refuse_terms(
    j: &mut Judgement,
    t: &Terms,
    config: &Config,
    p: &VersionedPolicy,
    used: UsedBounds,
) {
    let policy = &p.policy;
    if !policy.payments {
        j.refuse(403, "X402_DISABLED", true);
    }
    if !config.networks.get(&t.chain).is_some_and(|n| n.is_enabled) {
        j.refuse(403, "NETWORK_DISABLED", true);
    }
    if policy.networks.as_ref().is_some_and(|n| !n.contains(&t.chain)) {
        j.refuse(403, "NETWORK_NOT_ALLOWED_BY_POLICY", true);
    }
    if !t.is_priced {
        j.refuse(400, "UNSUPPORTED_ASSET", true);
    }
    let ruling = domains::judge_urls(
        t.request_url.as_deref(),
        t.resource_url.as_deref(),
        &policy.allowed_domains,
        &policy.blocked_domains,
    );
    if ruling.deny {
        let sure = !ruling.allow && !ruling.hold;
        if ruling.may_lack_url {
            j.refuse(403, "DOMAIN_URL_REQUIRED", sure);
        }
        if !ruling.may_lack_url || t.request_url.is_some() || t.resource_url.is_some() {
            j.refuse(403, "DOMAIN_NOT_ALLOWED", sure);
        }
    }
    if t.micros > policy.per_request {
        j.refuse(403, "EXCEEDS_PER_REQUEST_MAX", true);
    }
    if used.spent.1 >= policy.daily {
        j.refuse(429, "LIMIT_REACHED", used.spent.0 >= policy.daily);
    }
    if !t.is_priced && used.total.1 > policy.daily {
        // A token without a price adds nothing, but the agent may already have exceeded its allowance.
        j.refuse(429, "EXCEEDS_DAILY_LIMIT", false);
    }
    if t.is_priced && used.total.1.saturating_add(t.micros) > policy.daily {
        let sure = used.total.0.saturating_add(t.micros) > policy.daily;
        j.refuse(429, "EXCEEDS_DAILY_LIMIT", sure);
    }
}

fn is_malformed(o: &Offer) -> Option<bool> {
    if o.amount == 0 || o.max_timeout_s.is_some_and(|s| s > u64::from(u32::MAX)) {
        return Some(true);
    }
    // The maximum is in micro-dollars. For a token without a price, the specification defines no unit.
    (o.amount > MAX_MICROS).then_some(o.reference)
}

/// Returns the terms of an offer.
pub(crate) fn terms_of(ask: &Ask, o: &Offer, payer: Option<Address>) -> Terms {
    Terms {
        version: o.version,
        chain: o.chain,
        asset: o.asset.to_lowercase(),
        payee: o.payee.to_lowercase(),
        amount: o.amount,
        payer,
        validity_s: validity_s(o),
        micros: if o.reference { u64::try_from(o.amount).unwrap_or(u64::MAX) } else { 0 },
        is_priced: o.reference,
        request_url: ask.request_url.clone(),
        resource_url: o.resource_url.clone(),
    }
}

/// Judges a new request. `off`: whether the wallet may find that its clock differs too much from the chain's.
pub(crate) fn judge(
    ask: &Ask,
    config: &Config,
    p: &VersionedPolicy,
    payer: Option<Address>,
    used: UsedBounds,
    held: HeldCounts,
    off: bool,
) -> Judgement {
    let mut j = Judgement::default();
    let policy = &p.policy;
    let Some(offer) = select(&ask.offers, config, p) else {
        let any_exact = ask.offers.iter().any(|o| o.scheme == "exact");
        j.refuse(400, if any_exact { "UNKNOWN_NETWORK" } else { "UNSUPPORTED_SCHEME" }, true);
        // The policy may refuse before the wallet looks at the offer.
        if !policy.payments {
            j.refuse(403, "X402_DISABLED", true);
        }
        if used.spent.1 >= policy.daily {
            j.refuse(429, "LIMIT_REACHED", false);
        }
        if ask.offers.iter().any(|o| is_malformed(o).is_some()) {
            j.refuse(400, "INVALID_X402_FORMAT", false);
        }
        return j;
    };
    let terms = terms_of(ask, offer, payer.clone());
    if let Some(sure) = is_malformed(offer) {
        j.refuse(400, "INVALID_X402_FORMAT", sure);
    } else if ask.offers.iter().any(|o| is_malformed(o).is_some()) {
        j.refuse(400, "INVALID_X402_FORMAT", false);
    }
    let bad_payee = terms.payee == ZERO_ADDRESS || terms.payee == terms.asset;
    if bad_payee || payer.as_ref() == Some(&terms.payee) || !is_transferable(offer) {
        j.refuse(400, "INVALID_PAYMENT_DATA", true);
    }
    if payer.is_none() {
        j.refuse(400, "INVALID_PAYMENT_DATA", false);
    }
    refuse_terms(&mut j, &terms, config, p, used);
    if !j.must_refuse() {
        hold_or_act(&mut j, offer, &terms, config, p, held, off);
    }
    j.terms = Some(terms);
    j
}

fn hold_or_act(
    j: &mut Judgement,
    offer: &Offer,
    t: &Terms,
    config: &Config,
    p: &VersionedPolicy,
    held: HeldCounts,
    off: bool,
) {
    let policy = &p.policy;
    let ruling = domains::judge_urls(
        t.request_url.as_deref(),
        t.resource_url.as_deref(),
        &policy.allowed_domains,
        &policy.blocked_domains,
    );
    let why = if policy.auto_below == 0 {
        Some("hold: manual only")
    } else if t.micros == policy.auto_below {
        Some("hold: equal to the threshold")
    } else if t.micros > policy.auto_below {
        Some("hold: above threshold")
    } else if offer.domain == Domain::Contradicts {
        Some("hold: the token's name is contradicted")
    } else if t.validity_s > config.max_validity {
        Some("hold: valid too long")
    } else if ruling.hold && !ruling.allow {
        Some("hold: the payment names another host")
    } else {
        None
    };
    if why.is_none() {
        j.act = Some("act");
    }
    let may = off || ruling.hold;
    let why = why.or(may.then_some("hold: clock off the chain"));
    if let Some(why) = why {
        if held.agent.0 < HELD_MAX.0 && held.all.0 < HELD_MAX.1 {
            j.hold = Some(why);
        }
        if held.agent.1 >= HELD_MAX.0 || held.all.1 >= HELD_MAX.1 {
            let sure = j.act.is_none() && j.hold.is_none();
            j.refuse(429, "TOO_MANY_PENDING", sure);
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
