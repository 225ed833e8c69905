use super::*;
use crate::config::Network;
use crate::observations::{Policy, Proof, TradingPolicy};
use crate::{Facts, NetworkFact};

const COIN: &str = "0xc000000000000000000000000000000000000001";
const SHOP: &str = "0xb000000000000000000000000000000000000001";

fn config() -> Config {
    let networks =
        vec![NetworkFact { chain: 1, on: true, stablecoin: COIN.into(), exchange: None }];
    let mut config = Config::new(&Facts { networks, signed_days: 30 });
    config.networks.insert(2, Network { is_enabled: false, stablecoin: COIN.into() });
    config
}

fn policy() -> Policy {
    Policy {
        payments: true,
        daily: 100,
        per_request: 50,
        auto_below: 20,
        networks: None,
        allowed_domains: vec![],
        blocked_domains: vec![],
        trading: TradingPolicy::default(),
    }
}

fn offer(amount: u128) -> Offer {
    Offer {
        version: 2,
        scheme: "exact".into(),
        transfer_method: None,
        chain: 1,
        reference: true,
        asset: COIN.into(),
        amount,
        payee: SHOP.into(),
        max_timeout_s: None,
        resource_url: None,
        domain: Domain::Agrees,
    }
}

/// Returns all correct outcomes, separated by spaces: "act", "hold" or error codes.
fn outcomes(policy: Policy, offer: Offer, used: UsedBounds, held: HeldCounts, off: bool) -> String {
    let ask = Ask {
        agent: "A".into(),
        proof: Proof::Bearer { is_valid: true },
        content: String::new(),
        idempotency_key: None,
        request_url: None,
        offers: vec![offer],
    };
    let lending = crate::lending::LendingPolicy::default();
    let p = VersionedPolicy { name: "p".into(), version: 1, policy, lending };
    let j = judge(&ask, &config(), &p, Some("0xa".into()), used, held, off);
    let mut out: Vec<&str> = Vec::new();
    out.extend(j.act.map(|_| "act"));
    out.extend(j.hold.map(|_| "hold"));
    out.extend(j.refusals.iter().map(|r| r.code));
    out.join(" ")
}

fn outcomes_of_plain(offer: Offer) -> String {
    outcomes(policy(), offer, UsedBounds::default(), HeldCounts::default(), false)
}

#[test]
fn amount_below_the_threshold_acts_and_an_equal_amount_is_held() {
    assert_eq!(outcomes_of_plain(offer(19)), "act");
    assert_eq!(outcomes_of_plain(offer(20)), "hold");
    assert_eq!(outcomes_of_plain(offer(50)), "hold");
    assert_eq!(outcomes_of_plain(offer(51)), "EXCEEDS_PER_REQUEST_MAX");
    assert_eq!(outcomes_of_plain(offer(0)), "INVALID_X402_FORMAT");
    let manual = Policy { auto_below: 0, ..policy() };
    assert_eq!(
        outcomes(manual, offer(1), UsedBounds::default(), HeldCounts::default(), false),
        "hold"
    );
}

#[test]
fn daily_limit_counts_spent_and_reserved_amounts() {
    let used = |spent, total| UsedBounds { spent: (spent, spent), total: (total, total) };
    let at = |used| outcomes(policy(), offer(10), used, HeldCounts::default(), false);
    assert_eq!(at(used(80, 90)), "act");
    assert_eq!(at(used(80, 91)), "EXCEEDS_DAILY_LIMIT");
    assert_eq!(at(used(100, 100)), "LIMIT_REACHED EXCEEDS_DAILY_LIMIT");
    assert_eq!(at(UsedBounds { spent: (0, 0), total: (90, 91) }), "act EXCEEDS_DAILY_LIMIT");
}

#[test]
fn unpayable_offers_are_refused_and_doubtful_ones_held() {
    assert_eq!(outcomes_of_plain(Offer { payee: COIN.into(), ..offer(5) }), "INVALID_PAYMENT_DATA");
    assert_eq!(
        outcomes_of_plain(Offer { payee: "0xA".into(), ..offer(5) }),
        "INVALID_PAYMENT_DATA"
    );
    assert_eq!(
        outcomes_of_plain(Offer { transfer_method: Some("permit2".into()), ..offer(5) }),
        "INVALID_PAYMENT_DATA"
    );
    assert_eq!(outcomes_of_plain(Offer { chain: 2, ..offer(5) }), "NETWORK_DISABLED");
    assert_eq!(outcomes_of_plain(Offer { chain: 3, ..offer(5) }), "UNKNOWN_NETWORK");
    assert_eq!(
        outcomes_of_plain(Offer { scheme: "upto".into(), ..offer(5) }),
        "UNSUPPORTED_SCHEME"
    );
    assert_eq!(outcomes_of_plain(Offer { reference: false, ..offer(5) }), "UNSUPPORTED_ASSET");
    assert_eq!(outcomes_of_plain(Offer { domain: Domain::Contradicts, ..offer(5) }), "hold");
    assert_eq!(outcomes_of_plain(Offer { domain: Domain::ConfirmedByChain, ..offer(5) }), "act");
    assert_eq!(outcomes_of_plain(Offer { max_timeout_s: Some(3600), ..offer(5) }), "act");
    assert_eq!(outcomes_of_plain(Offer { max_timeout_s: Some(3601), ..offer(5) }), "hold");
    let only = Policy { networks: Some(vec![2]), ..policy() };
    let found = outcomes(only, offer(5), UsedBounds::default(), HeldCounts::default(), false);
    assert_eq!(found, "NETWORK_NOT_ALLOWED_BY_POLICY");
}

#[test]
fn full_queue_refuses_only_payments_that_would_be_held() {
    let full = HeldCounts { agent: (20, 20), all: (20, 20) };
    assert_eq!(
        outcomes(policy(), offer(20), UsedBounds::default(), full, false),
        "TOO_MANY_PENDING"
    );
    assert_eq!(outcomes(policy(), offer(19), UsedBounds::default(), full, false), "act");
    let nearly = HeldCounts { agent: (19, 19), all: (499, 499) };
    assert_eq!(outcomes(policy(), offer(20), UsedBounds::default(), nearly, false), "hold");
}

#[test]
fn clock_off_the_chain_permits_acting_and_holding() {
    assert_eq!(
        outcomes(policy(), offer(5), UsedBounds::default(), HeldCounts::default(), true),
        "act hold"
    );
}
