//! No sequence of commands breaks a guarantee.
//!
//! Random histories run through `decide` and `apply`. A model written from the specification predicts what each
//! command may do, and a ledger sums up the value that left the wallet. Neither uses the rules under test.

mod ledger;
mod model;
pub(crate) mod quiet;
mod rules;
mod run;
mod workload;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::support::cases::config;
use quiet::quietly;
use run::Run;
use workload::{any_history, honest_history};

proptest! {
    #![proptest_config(config())]

    /// Invariants I-a, I-b, I-d, I-e, I-g to I-k and I-p hold, whatever agents, operator and clocks do.
    ///
    /// docs/register.md lists them.
    #[test]
    fn no_history_breaks_an_invariant(history in any_history()) {
        quietly(|| Run::run_history(&history).finish())?;
    }

    /// If no clock is set and the first allowance begins at midnight, no date exceeds its limit.
    ///
    /// The value that leaves on a date stays within the largest limit in force on that date.
    #[test]
    fn with_honest_clocks_no_date_exceeds_its_limit(history in honest_history()) {
        quietly(|| {
            let run = Run::run_history(&history);
            run.ledger.assert_dates();
            run.finish();
        })?;
    }
}

/// Checks that the random histories reach every event, answer and code. A property proves nothing about unreached
/// cases.
#[test]
fn the_workload_reaches_every_answer() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _case in 0..96 {
        let history = any_history().new_tree(&mut runner).unwrap().current();
        let mut run = Run::run_history(&history);
        run.finish();
        seen.append(&mut run.reached);
    }
    let missing: Vec<_> = MUST_REACH.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}\nreached: {seen:?}");
}

/// The events, answers and codes that the histories must reach, as [`Run`] notes them.
const MUST_REACH: &[&str] = &[
    "AgentCommissioned",
    "AgentResumed",
    "AgentSuspended",
    "AllowanceRenewed",
    "Frozen",
    "JournalAccepted",
    "NetworkSet",
    "PaymentApproved",
    "PaymentAuthorized",
    "RequestDenied",
    "RequestExpired",
    "RequestHeld",
    "RequestRefused",
    "RequestRejected",
    "PaymentSigned",
    "PolicySet",
    "Thawed",
    "asked: AGENTS_FROZEN",
    "asked: AGENT_NOT_COMMISSIONED",
    "asked: AGENT_SUSPENDED",
    "asked: DOMAIN_NOT_ALLOWED",
    "asked: DOMAIN_URL_REQUIRED",
    "asked: EXCEEDS_DAILY_LIMIT",
    "asked: EXCEEDS_PER_REQUEST_MAX",
    "asked: IDEMPOTENCY_CONFLICT",
    "asked: INVALID_PAYMENT_DATA",
    "asked: INVALID_X402_FORMAT",
    "asked: LIMIT_REACHED",
    "asked: NETWORK_DISABLED",
    "asked: NETWORK_NOT_ALLOWED_BY_POLICY",
    "asked: PAYMENT_EXPIRED",
    "asked: TOO_MANY_PENDING",
    "asked: X402_DISABLED",
    "asked: refused too often to be recorded",
    "asked: while locked",
    "approved: AGENTS_FROZEN",
    "approved: CARD_CHANGED",
    "approved: REQUEST_ALREADY_PROCESSED",
    "approved: REQUEST_NOT_FOUND",
    "approved: WALLET_LOCKED",
    "approved: too late",
    "denied: too late",
    "held: above_threshold",
    "held: domain_contradicted",
    "held: journal_untrusted",
    "held: long_validity",
    "held: manual_only",
    "held: resource_outside_allow_list",
    "rejected: AGENT_SUSPENDED",
    "rejected: EXCEEDS_DAILY_LIMIT",
    "rejected: EXCEEDS_PER_REQUEST_MAX",
    "rejected: LIMIT_REACHED",
    "rejected: X402_DISABLED",
    "reissued",
    "renewed by the operator",
    "repeated: denied",
    "repeated: expired",
    "repeated: held",
    "repeated: refused",
    "repeated: signed",
    "repeated: unsigned",
];
