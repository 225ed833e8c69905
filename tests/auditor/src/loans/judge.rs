//! Judges one loan at one instant, in one possible configuration: refuse, hold, or execute.

use super::Reason;
use super::amounts::Principal;
use super::exposure::Exposure;
use super::readings::Readings;
use super::trust::Trust;
use crate::basics::Address;
use crate::clocks::Instant;
use crate::config::Config;
use crate::lending::{LendingFact, LendingPolicy, Loan, LoanAction, LoanAmount, VenueFacts};
use crate::market::Market;
use crate::observations::Policy;
use crate::trading::{NATIVE, Rehearsal};
use std::collections::{BTreeMap, BTreeSet};

/// The least number of virtual shares that a venue must have.
const MIN_VIRTUAL_SHARES: u128 = 1_000_000;
/// A supply without an approval needs free liquidity of this many times its amount.
const LIQUIDITY_FACTOR: u128 = 10;

/// One state in which a loan may have been judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) config: Config,
    pub(crate) now: Instant,
    pub(crate) payer: Option<Address>,
    /// The amount that the other supplies of the address reserve: (least, most).
    pub(crate) reserved: (u128, u128),
    pub(crate) principal: Principal,
    /// The number of the agent's operations today: (least, most).
    pub(crate) operations: (usize, usize),
    /// Whether the address surely never supplied to the venue.
    pub(crate) is_first_supply: bool,
    /// The observation at which the operator last approved a supply to the venue; 0 if there is none.
    pub(crate) last_approval: u64,
    /// Whether a limit on held requests may be a reason to refuse the loan.
    pub(crate) may_be_crowded: bool,
    /// Whether the wallet doubts its journal.
    pub(crate) is_journal_doubted: bool,
    /// The most that may be left of the unattended day, in micro-dollars; `None` if that is not limited.
    pub(crate) unattended_left: Option<u64>,
    /// Whether the wall clock is surely far behind the chain.
    pub(crate) is_clock_behind: bool,
    /// The newest block time that the wallet knew, in Unix seconds.
    pub(crate) newest_s: u64,
}

/// Everything that one judgement depends on.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) config: &'a Config,
    pub(super) policy: &'a Policy,
    pub(super) lending: &'a LendingPolicy,
    pub(super) facts: &'a BTreeMap<u64, LendingFact>,
    pub(super) readings: &'a Readings,
    pub(super) market: &'a Market,
    pub(super) loan: &'a Loan,
    pub(super) payers: &'a BTreeSet<Address>,
    pub(super) snapshot: &'a Snapshot,
    /// The observation at which the call, or the approval, arrived.
    pub(super) from: u64,
}

/// The correct decisions about one loan in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The rule by which the loan must be refused, if there is one.
    pub(crate) must_refuse: Option<Reason>,
    /// The rule by which the loan must not be executed without an approval, if there is one.
    pub(crate) must_hold: Option<Reason>,
    /// The refusal codes that this state explains.
    pub(crate) codes: BTreeSet<&'static str>,
}

impl Case<'_> {
    pub(super) fn judge(&self) -> Verdict {
        let exposure = self.exposure();
        let must_refuse = self.must_refuse(&exposure);
        Verdict {
            must_hold: must_refuse.or_else(|| self.must_hold()),
            codes: self.codes(&exposure),
            must_refuse,
        }
    }

    fn supplied_assets(&self) -> Option<u128> {
        match (self.loan.action, self.loan.amount) {
            (LoanAction::Supply, LoanAmount::Assets(assets)) => Some(assets),
            _ => None,
        }
    }

    fn trust(&self) -> Option<Trust<'_>> {
        let fact = self.facts.get(&self.loan.chain)?;
        let coin = &self.config.networks.get(&self.loan.chain)?.stablecoin;
        let (config, readings, from) = (self.config, self.readings, self.from);
        Some(Trust { config, fact, readings, coin, from })
    }

    /// Returns the reason why lending is not possible at all.
    fn disabled_reason(&self) -> Option<Reason> {
        let chain = self.loan.chain;
        let what = if !self.lending.enabled {
            "lending is disabled"
        } else if !self.facts.contains_key(&chain) {
            "the network has no lending"
        } else if !self.network_counts(chain).0 {
            "the network is off or not allowed"
        } else {
            return None;
        };
        Some(("lending off", what))
    }

    fn must_refuse(&self, exposure: &Exposure) -> Option<Reason> {
        if let Some(off) = self.disabled_reason() {
            return Some(off);
        }
        if self.loan.deadline_s.is_some_and(|at| self.has_passed(at)) {
            return Some(("deadline", "the deadline has passed by the chain's time"));
        }
        let empty = matches!(self.loan.amount, LoanAmount::Assets(0) | LoanAmount::Shares(0));
        if empty {
            return Some(("refusals", "there is nothing to move"));
        }
        if self.loan.action == LoanAction::Withdraw {
            return None;
        }
        let Some(amount) = self.supplied_assets() else {
            return Some(("refusals", "a supply has an amount of assets"));
        };
        let ops = usize::try_from(self.lending.ops_per_day).unwrap_or(usize::MAX);
        if amount > u128::from(self.lending.max_deposit) {
            Some(("per deposit", "the amount is above the maximum of one deposit"))
        } else if self.snapshot.operations.0 >= ops {
            Some(("operations", "the operations of the day are used up"))
        } else if let Some(what) = exposure.unreadable_reason {
            Some(("exposure unread", what))
        } else if exposure.least.saturating_add(amount) > self.ceiling(exposure).1 {
            Some(("exposure", "it would exceed the ceiling of everything deployed"))
        } else {
            self.bad_venue_reason().or_else(|| self.bad_price_reason())
        }
    }

    /// Returns whether a time has passed on the chain, and by every block at which the wallet read the venue.
    fn has_passed(&self, at_s: u64) -> bool {
        let (chain, from) = (self.loan.chain, self.from);
        let mut read = self.readings.venue_blocks_since(chain, &self.loan.venue, from);
        let in_time =
            |(seq, block)| self.market.is_in_time((chain, Some(block)), (from, seq), at_s);
        at_s < self.snapshot.newest_s && !read.any(in_time)
    }

    /// Returns the reason why no reading of the venue allows a supply.
    fn bad_venue_reason(&self) -> Option<Reason> {
        let mut why = Some(("trust", "the venue was not read"));
        for (_, facts) in self.venue_reads() {
            match facts.map(|facts| self.venue_refusal(facts)) {
                Some(None) => return None,
                Some(bad) => why = bad,
                None => {}
            }
        }
        why
    }

    fn venue_reads(&self) -> impl Iterator<Item = (u64, Option<&VenueFacts>)> {
        self.readings.venue_since(self.loan.chain, &self.loan.venue, self.from)
    }

    fn venue_refusal(&self, facts: &VenueFacts) -> Option<Reason> {
        let Some(trust) = self.trust() else {
            return Some(("trust", "the network has no lending"));
        };
        let judged = trust.check(self.loan, facts);
        if let Err(what) = judged
            && (self.lending.restricted || facts.asset != trust.coin)
        {
            Some(("trust", what))
        } else if facts.virtual_shares < MIN_VIRTUAL_SHARES {
            Some(("share price", "the venue has too few virtual shares"))
        } else if !facts.gates_open {
            Some(("gates", "a gate of the venue is closed for the address"))
        } else {
            None
        }
    }

    /// Returns the reason why, by every rehearsal, the shares of a supply would be worth too little.
    fn bad_price_reason(&self) -> Option<Reason> {
        let amount = self.supplied_assets()?;
        let all = self.readings.rehearsals_of(self.loan, self.payers, self.from);
        let mut proved = all.filter(|one| one.outcome == Rehearsal::Proved).peekable();
        proved.peek()?;
        let fair = |redeems: u128| redeems.saturating_mul(1000) >= amount.saturating_mul(999);
        let any = proved.any(|one| one.redeems_for.is_some_and(fair));
        (!any).then_some(("share price", "the new shares redeem for less than 99.9 %"))
    }

    /// Returns the reason why the operator must approve the loan.
    fn must_hold(&self) -> Option<Reason> {
        if self.snapshot.is_journal_doubted {
            return Some(("must ask", "the journal is not trusted"));
        }
        if self.snapshot.is_clock_behind {
            return Some(("must ask", "the clock is far behind the chain's"));
        }
        let value = self.supplied_assets().or_else(|| self.withdrawal_min());
        if value.is_some_and(|value| value >= u128::from(self.lending.auto_below)) {
            return Some(("I-j", "the value is not below the automatic limit"));
        }
        let left = self.snapshot.unattended_left;
        let counted = self.supplied_assets().unwrap_or(0);
        if counted > 0 && left.is_some_and(|left| counted > u128::from(left)) {
            return Some(("unattended", "the unattended day is used up"));
        }
        if self.loan.action == LoanAction::Supply {
            if let Some(why) = self.risky_supply_reason() {
                return Some(why);
            }
        } else {
            let ops = usize::try_from(self.lending.ops_per_day).unwrap_or(usize::MAX);
            if self.snapshot.operations.0 >= ops {
                return Some(("operations", "the operations of the day are used up"));
            }
        }
        let mut all = self.readings.rehearsals_of(self.loan, self.payers, self.from);
        let proved = all.any(|one| one.outcome == Rehearsal::Proved);
        (!proved || value.is_none()).then_some(("must ask", "no rehearsal proved the effects"))
    }

    /// Returns the least value of a withdrawal by any reading.
    fn withdrawal_min(&self) -> Option<u128> {
        if let LoanAmount::Assets(assets) = self.loan.amount {
            return Some(assets);
        }
        let all = self.readings.rehearsals_of(self.loan, self.payers, self.from);
        let rehearsed = all.filter_map(|one| one.assets);
        let payer = self.snapshot.payer.as_ref()?;
        let place = (self.loan.chain, self.loan.venue.as_str());
        let read = self.readings.positions_since(place, payer, self.from);
        let whole = self.loan.amount == LoanAmount::All;
        rehearsed.chain(read.filter(|_| whole).filter_map(|(_, one)| one.value)).min()
    }

    fn risky_supply_reason(&self) -> Option<Reason> {
        let mut why = None;
        for (_, facts) in self.venue_reads() {
            let Some(facts) = facts else { continue };
            match self.risky_venue_reason(facts) {
                None => return self.underfunded_reason(),
                bad => why = bad,
            }
        }
        why.or_else(|| self.underfunded_reason())
    }

    fn risky_venue_reason(&self, facts: &VenueFacts) -> Option<Reason> {
        let curated = self.trust().is_some_and(|trust| trust.check(self.loan, facts).is_ok());
        let place = (self.loan.chain, self.loan.venue.as_str());
        let highest = self.readings.highest_price(place, self.snapshot.last_approval, self.from);
        let amount = self.supplied_assets().unwrap_or(0);
        if !curated && self.snapshot.is_first_supply {
            Some(("must ask", "it is the first supply to a venue that is not curated"))
        } else if highest.is_some() && facts.share_price < highest {
            Some(("must ask", "the share price is below the highest recorded"))
        } else if facts.free_liquidity < amount.saturating_mul(LIQUIDITY_FACTOR) {
            Some(("must ask", "the free liquidity is less than ten times the deposit"))
        } else {
            None
        }
    }

    /// Returns the reason to hold if the native coins left do not pay for two of the cheapest transactions, to exit.
    fn underfunded_reason(&self) -> Option<Reason> {
        let payer = self.snapshot.payer.as_ref()?;
        let chain = self.loan.chain;
        let (_, there) = self.market.balance(chain, payer, NATIVE, self.from)?;
        let (cost, _) = self.market.gas_cost(chain, self.from)?;
        (there < cost.saturating_mul(2))
            .then_some(("must ask", "too little native coin is left to exit"))
    }

    /// Returns the refusal codes that this state explains, among those that the specification defines.
    fn codes(&self, exposure: &Exposure) -> BTreeSet<&'static str> {
        let mut codes = BTreeSet::new();
        let mut may = |code, is: bool| {
            if is {
                codes.insert(code);
            }
        };
        may("DEFI_DISABLED", self.disabled_reason().is_some());
        may("TOO_MANY_PENDING", self.snapshot.may_be_crowded);
        // The wallet always permits a withdrawal from a venue that holds our money.
        let place = (self.loan.chain, self.loan.venue.clone());
        let stuck = self.snapshot.principal.get(&place).is_some_and(|(least, _)| *least > 0);
        let withdrawal = self.loan.action == LoanAction::Withdraw;
        may("VENUE_NOT_PERMITTED", withdrawal && !stuck);
        let Some(amount) = self.supplied_assets() else { return codes };
        let ops = usize::try_from(self.lending.ops_per_day).unwrap_or(usize::MAX);
        may("PER_DEPOSIT_EXCEEDED", amount > u128::from(self.lending.max_deposit));
        may("DAILY_OPS_EXCEEDED", self.snapshot.operations.1 >= ops);
        let failed = self.facts.keys().any(|chain| self.market.failed_read(*chain, self.from));
        may("EXPOSURE_UNREADABLE", exposure.may_be_unread || failed);
        let over = exposure.most.saturating_add(amount) > self.ceiling(exposure).0;
        may("EXPOSURE_EXCEEDED", over);
        let mut reads = self.venue_reads().peekable();
        let unread = reads.peek().is_none();
        let usable = |facts: &VenueFacts| {
            let trusted = self.trust().is_some_and(|trust| trust.check(self.loan, facts).is_ok());
            trusted && self.venue_refusal(facts).is_none()
        };
        may("VENUE_NOT_PERMITTED", unread || reads.any(|(_, f)| !f.is_some_and(usable)));
        codes
    }
}
