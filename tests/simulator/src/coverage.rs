//! Coverage: the steps, codes, rules and fault points that a set of runs has reached.

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::{Plan, Step, Swarm};
use crate::run::Outcome;

/// The coverage of a number of runs.
#[derive(Debug, Default)]
pub struct Coverage {
    pub runs: u64,
    pub observations: u64,
    pub processes: u64,
    /// The number of runs for each kind of step and each kind of trouble that a run may contain.
    pairs: BTreeMap<(&'static str, &'static str), u64>,
    codes: BTreeMap<String, u64>,
    rule_counts: BTreeMap<&'static str, u64>,
    fault_point_counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Adds one run.
    pub fn count(&mut self, plan: &Plan, outcome: &Outcome) {
        self.runs += 1;
        self.observations += outcome.observations;
        self.processes += u64::from(outcome.processes);
        let on = plan.swarm.enabled();
        for step in &plan.steps {
            for trouble in &on {
                *self.pairs.entry((step.kind(), trouble)).or_default() += 1;
            }
        }
        for (code, times) in &outcome.codes {
            *self.codes.entry(code.clone()).or_default() += times;
        }
        for (rule, times) in &outcome.rule_counts {
            *self.rule_counts.entry(rule).or_default() += times;
        }
        for (point, times) in &outcome.deaths {
            *self.fault_point_counts.entry(point).or_default() += times;
        }
    }

    /// Adds the coverage of other runs.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.observations += other.observations;
        self.processes += other.processes;
        for (pair, times) in other.pairs {
            *self.pairs.entry(pair).or_default() += times;
        }
        for (code, times) in other.codes {
            *self.codes.entry(code).or_default() += times;
        }
        for (rule, times) in other.rule_counts {
            *self.rule_counts.entry(rule).or_default() += times;
        }
        for (point, times) in other.fault_point_counts {
            *self.fault_point_counts.entry(point).or_default() += times;
        }
    }

    /// Returns the pairs and codes that a large number of seeds should have reached but did not.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for kind in Step::KINDS {
            for trouble in Swarm::NAMES {
                let times = self.pairs.get(&(*kind, *trouble)).copied().unwrap_or(0);
                // Few worlds use the real store.
                let wanted =
                    if *trouble == "sectors" { PAIR_COUNT_MIN / 2 } else { PAIR_COUNT_MIN };
                if times < wanted {
                    gaps.push(format!("{kind} × {trouble}: {times} times"));
                }
            }
        }
        for code in EXPECTED_CODES {
            if !self.codes.contains_key(*code) {
                gaps.push(format!("{code} was never returned"));
            }
        }
        for case in EXPECTED_RULES {
            if !self.rule_counts.contains_key(case) {
                gaps.push(format!("{case} was never judged"));
            }
        }
        gaps
    }
}

/// How many times each pair of step and trouble must have been drawn.
const PAIR_COUNT_MIN: u64 = 50;

/// Codes that must have been returned.
const EXPECTED_CODES: &[&str] = &[
    "AGENTS_FROZEN",
    "AGENT_NOT_COMMISSIONED",
    "AGENT_SUSPENDED",
    "AUTH_FAILED",
    "BAD_INPUT",
    "BELOW_MIN_ETH",
    "CARD_CHANGED",
    "CHAIN_UNAVAILABLE",
    "DEADLINE_PASSED",
    "DOMAIN_NOT_ALLOWED",
    "DOMAIN_URL_REQUIRED",
    "EXCEEDS_DAILY_LIMIT",
    "EXCEEDS_DAILY_VOLUME",
    "EXCEEDS_MAX_SLIPPAGE",
    "EXCEEDS_PER_REQUEST_MAX",
    "EXCEEDS_PER_TRADE_MAX",
    "EXECUTED",
    "EXECUTION_ERROR",
    "IDEMPOTENCY_CONFLICT",
    "INSUFFICIENT_FUNDS",
    "INVALID_PAYMENT_DATA",
    "INVALID_X402_FORMAT",
    "IN_USE",
    "JOURNAL_FAILED",
    "LIMIT_REACHED",
    "NAME_TAKEN",
    "NETWORK_DISABLED",
    "NETWORK_NOT_ALLOWED_BY_POLICY",
    "NOTHING_FOUND",
    "NO_POOL",
    "PAYMENT_ALREADY_SETTLED",
    "PAYMENT_EXPIRED",
    "PLAN_EXPIRED",
    "POOL_TOO_SMALL",
    "PRICE_MOVED",
    "QUOTE_FAILED",
    "RATE_LIMIT_EXCEEDED",
    "REQUEST_ALREADY_PROCESSED",
    "REQUEST_EXPIRED",
    "TOO_MANY_PENDING",
    "TRADING_DISABLED",
    "UNAUTHORIZED",
    "UNSUPPORTED_ASSET",
    "UNSUPPORTED_SCHEME",
    "WALLET_LOCKED",
    "WOULD_FAIL",
    "WRONG_PASSWORD",
    "X402_DISABLED",
];

/// Rules about loans, and about payments and trades of devices, that the auditor must have applied.
const EXPECTED_RULES: &[&str] = &[
    "broadcast: loan",
    "deployed",
    "device: asked",
    "device: paid",
    "device: pressed",
    "device: read",
    "device: recorded",
    "device: refused",
    "device: rejected",
    "device: signed",
    "device: standing",
    "device: swapped",
    "device: waits",
    "device trade: allowed",
    "device trade: approval",
    "device trade: asked",
    "device trade: asked for a revocation",
    "device trade: asked for an empty transaction",
    "device trade: displaced",
    "device trade: executed",
    "device trade: executing",
    "device trade: failed",
    "device trade: final",
    "device trade: included",
    "device trade: permit",
    "device trade: pressed",
    "device trade: refused",
    "device trade: rejected",
    "device trade: revocation",
    "device trade: revocation refused",
    "device trade: sent",
    "device trade: signed",
    "device trade: swap",
    "device trade: swapped",
    "device trade: unmined",
    "device trade: waits",
    "included: loan",
    "loan: approved",
    "loan: automatic",
    "loan: denied",
    "loan: displaced",
    "loan: executed",
    "loan: failed",
    "loan: held",
    "loan: refused",
    "loan: rejected",
    "mined: loan",
    "signature: loan",
    "unmined: loan",
];

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} worlds, {} processes, {} observations",
            self.runs, self.processes, self.observations
        )?;
        writeln!(f, "\nsteps by kind of trouble enabled in their world:")?;
        write!(f, "{:<15}", "")?;
        for trouble in Swarm::NAMES {
            write!(f, "{:>9}", trouble.chars().take(8).collect::<String>())?;
        }
        writeln!(f)?;
        for kind in Step::KINDS {
            write!(f, "{kind:<15}")?;
            for trouble in Swarm::NAMES {
                let times = self.pairs.get(&(*kind, *trouble)).copied().unwrap_or(0);
                write!(f, "{times:>9}")?;
            }
            writeln!(f)?;
        }
        list(
            f,
            "deaths by point",
            self.fault_point_counts.iter().map(|(name, times)| (*name, *times)),
        )?;
        list(f, "codes", self.codes.iter().map(|(name, times)| (name.as_str(), *times)))?;
        list(f, "judged", self.rule_counts.iter().map(|(name, times)| (*name, *times)))
    }
}

fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl Iterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    writeln!(f, "\n{title}:")?;
    rows.into_iter().try_for_each(|(name, times)| writeln!(f, "{times:>12}  {name}"))
}
