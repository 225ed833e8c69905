//! The input of the lending rules, with an ordinary loan that a test can change.

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::policy::Policy;
use bursar_domain::assess::Verdict;
use bursar_domain::assess::lending::{LoanContext, assess};
use bursar_domain::assess::trading::Commitments;
use bursar_domain::loans::{LoanAsk, LoanQuote, LoanSize, Standing, VenueFacts};
use bursar_morpho::SharePrice;

use crate::loans::asks;

/// The time of the test's clock, in Unix seconds.
pub(crate) const NOW: u64 = 1_768_478_400;

/// The input of the lending rules. The rules allow the unchanged case.
pub(crate) struct Case {
    pub(crate) ask: LoanAsk,
    pub(crate) quote: LoanQuote,
    pub(crate) policy: Policy,
    pub(crate) network_enabled: bool,
    pub(crate) trusted: bool,
    pub(crate) clock_off: bool,
    pub(crate) promised: Commitments,
    pub(crate) standing: Standing,
    pub(crate) best: Option<SharePrice>,
    pub(crate) is_first: bool,
    pub(crate) deployed: Option<Usd>,
    pub(crate) reserved: Usd,
    pub(crate) operations: u32,
    pub(crate) held: (usize, usize),
}

impl Case {
    /// A first supply to a trusted venue, from an address that has lent nothing.
    pub(crate) fn supply(micros: u64) -> Self {
        Self::of(asks::supply(micros))
    }

    pub(crate) fn withdrawal(micros: u64) -> Self {
        Self::of(asks::withdrawal(micros))
    }

    fn of(ask: LoanAsk) -> Self {
        Self {
            quote: ask.quote.clone(),
            ask,
            policy: asks::policy(),
            network_enabled: true,
            trusted: true,
            clock_off: false,
            promised: Commitments { native: U256::ZERO, token_in: U256::ZERO },
            standing: Standing::Trusted,
            best: None,
            is_first: true,
            deployed: Some(Usd::ZERO),
            reserved: Usd::ZERO,
            operations: 0,
            held: (0, 0),
        }
    }

    pub(crate) fn venue(&mut self) -> &mut VenueFacts {
        self.quote.venue.as_mut().expect("a venue")
    }

    /// Changes the size of the loan and every measurement that depends on it.
    pub(crate) fn resize(&mut self, micros: u64) {
        let assets = Atoms(U256::from(micros));
        self.ask.size = LoanSize::Assets(assets);
        (self.quote.assets, self.quote.redeem_value) = (assets, assets);
        self.quote.shares = assets.0;
    }

    pub(crate) fn verdict(&self) -> Verdict {
        assess(&LoanContext {
            ask: &self.ask,
            quote: &self.quote,
            policy: &self.policy,
            network_enabled: self.network_enabled,
            trusted: self.trusted,
            is_clock_off: self.clock_off,
            now: NOW,
            commitments: self.promised,
            standing: self.standing,
            best_price: self.best,
            is_first_supply: self.is_first,
            total_lent: self.deployed,
            reserved: self.reserved,
            operations: self.operations,
            held_by_agent: self.held.0,
            held_in_all: self.held.1,
        })
    }
}

/// Checks the verdict on an ordinary supply of 10 dollars after a change.
#[track_caller]
pub(crate) fn judge(what: &str, wanted: Wanted, change: impl FnOnce(&mut Case)) {
    judge_case(what, wanted, Case::supply(10_000_000), change);
}

/// Checks the verdict on an ordinary withdrawal of 10 dollars after a change.
#[track_caller]
pub(crate) fn judge_withdrawal(what: &str, wanted: Wanted, change: impl FnOnce(&mut Case)) {
    judge_case(what, wanted, Case::withdrawal(10_000_000), change);
}

#[track_caller]
fn judge_case(what: &str, wanted: Wanted, mut case: Case, change: impl FnOnce(&mut Case)) {
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
