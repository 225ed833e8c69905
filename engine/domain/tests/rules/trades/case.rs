//! The input of the trading rules, with an ordinary trade that a test can change.

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_domain::assess::Verdict;
use bursar_domain::assess::trading::{Commitments, TradeContext, assess};
use bursar_domain::trades::{TradeAsk, TradeQuote};

use crate::trades::bench;

/// The time of the test's clock, in Unix seconds.
pub(crate) const NOW: u64 = 1_768_478_400;

/// The input of the trading rules. The rules allow the unchanged case.
pub(crate) struct Case {
    pub(crate) ask: TradeAsk,
    pub(crate) quote: TradeQuote,
    pub(crate) policy: Policy,
    pub(crate) network_enabled: bool,
    pub(crate) trusted: bool,
    pub(crate) clock_off: bool,
    pub(crate) promised: Commitments,
    pub(crate) spent: Usd,
    pub(crate) reserved: Usd,
    pub(crate) held: (usize, usize),
}

impl Case {
    pub(crate) fn of(micros: u64) -> Self {
        Self {
            ask: bench::trade(micros),
            quote: bench::quote(micros),
            policy: bench::policy(),
            network_enabled: true,
            trusted: true,
            clock_off: false,
            promised: Commitments { native: U256::ZERO, token_in: U256::ZERO },
            spent: Usd::ZERO,
            reserved: Usd::ZERO,
            held: (0, 0),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        assess(&TradeContext {
            ask: &self.ask,
            quote: &self.quote,
            policy: &self.policy,
            network_enabled: self.network_enabled,
            trusted: self.trusted,
            is_clock_off: self.clock_off,
            now: NOW,
            commitments: self.promised,
            spent: self.spent,
            reserved: self.reserved,
            held_by_agent: self.held.0,
            held_in_all: self.held.1,
        })
    }
}

/// Checks the verdict on an ordinary trade of 10 dollars after a change.
#[track_caller]
pub(crate) fn judge(what: &str, wanted: Wanted, change: impl FnOnce(&mut Case)) {
    let mut case = Case::of(10_000_000);
    change(&mut case);
    assert_eq!(Wanted::from(case.verdict()), wanted, "{what}");
}

/// A verdict without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Act,
    Hold(HoldReason),
    Refuse(Code),
}

impl From<Verdict> for Wanted {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Act => Self::Act,
            Verdict::Hold(reason) => Self::Hold(reason),
            Verdict::Refuse(refusal) => Self::Refuse(refusal.code),
        }
    }
}
