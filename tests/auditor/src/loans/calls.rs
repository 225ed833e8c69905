//! Open calls of agents that lend, and the states in which the wallet may decide them.

use super::LoanRecord;
use super::judge::{Case, Snapshot, Verdict};
use crate::Auditor;
use crate::basics::{Address, Ticket};
use crate::config::Config;
use crate::lending::Loan;
use crate::plans::add_new;
use std::collections::{BTreeMap, BTreeSet};

/// A clock is off if it differs from a chain's time by more than this, in seconds. A node may be a minute behind.
const CLOCK_DEVIATION_S_MAX: u64 = 660;

impl Auditor {
    /// Updates the open calls and approvals of loans after an observation.
    pub(crate) fn watch_loans(&mut self) {
        let tickets: Vec<Ticket> = self.loans.book.open.keys().copied().collect();
        for ticket in tickets {
            self.watch_open_loan(ticket);
        }
        self.watch_loan_approvals();
        self.note_ceilings();
        self.end_stopped_plans::<Loan>();
    }

    fn watch_open_loan(&mut self, ticket: Ticket) {
        let Some(call) = self.loans.book.open.get(&ticket) else { return };
        let key = call.rec;
        let (errors, allowed) = self.judge_caller(&call.ask);
        let snapshots = self.note_loan_states(key, allowed);
        let Some(call) = self.loans.book.open.get_mut(&ticket) else { return };
        add_new(&mut call.errors, errors);
        add_new(&mut call.snapshots, snapshots);
    }

    /// Until the first step is signed, notes the states in which the wallet may apply the policy to an approved loan
    /// again.
    fn watch_loan_approvals(&mut self) {
        let now = self.time.instant();
        let mut open = Vec::new();
        for (key, rec) in &self.loans.book.records {
            if rec.may_live() && !self.loans.book.has_begun(*key) {
                let all = rec.authorizations.iter().filter(|auth| auth.is_recent_approval(&now));
                open.extend(all.map(|auth| (auth.ticket, *key)));
            }
        }
        for (ticket, key) in open {
            let configs = self.possible_configs.iter().map(|w| w.config.clone()).collect();
            let snapshots = self.note_loan_states(key, configs);
            add_new(self.loans.snapshots.entry(ticket).or_default(), snapshots);
        }
    }

    /// Returns the present states, in which the wallet may decide a call or an approval.
    fn note_loan_states(&mut self, key: u64, configs: Vec<Config>) -> Vec<Snapshot> {
        let taken: Vec<Snapshot> =
            configs.into_iter().flat_map(|config| self.loan_snapshots(key, &config)).collect();
        let now = self.time.instant();
        if let Some(rec) = self.loans.book.records.get_mut(&key)
            && !taken.is_empty()
        {
            rec.payers.extend(taken.iter().filter_map(|one| one.payer.clone()));
            let waiting = !rec.accepted && rec.refused.is_none();
            if waiting && !rec.acceptance_instants.contains(&now) {
                rec.acceptance_instants.push(now);
            }
        }
        taken
    }

    /// Returns the present state for each address that may pay.
    ///
    /// These are the agent's address and, if the loan was accepted, the agent's earlier addresses.
    fn loan_snapshots(&self, key: u64, config: &Config) -> Vec<Snapshot> {
        let Some(rec) = self.loans.book.records.get(&key) else { return Vec::new() };
        let payer = || {
            let commission = config.agents.get(&rec.agent)?.commission.as_ref()?;
            Some(config.accounts.get(&commission.account)?.address.clone())
        };
        let Some(payer) = payer() else { return Vec::new() };
        let earlier = rec.payers.iter().filter(|_| rec.accepted).cloned().map(Some);
        let all: BTreeSet<Option<Address>> = earlier.chain([payer]).collect();
        all.into_iter()
            .filter_map(|one| self.loan_snapshot(rec, key, config.clone(), one))
            .collect()
    }

    fn loan_snapshot(
        &self,
        rec: &LoanRecord,
        key: u64,
        config: Config,
        payer: Option<Address>,
    ) -> Option<Snapshot> {
        let now = self.time.instant();
        let (_, policy) = config.policy_of(&rec.agent)?;
        let counts = |chain: u64| {
            let networks = &policy.policy.networks;
            let may = networks.as_ref().is_none_or(|all| all.contains(&chain));
            (may && config.networks.get(&chain).is_some_and(|network| network.is_enabled), may)
        };
        let of = payer.clone().unwrap_or_default();
        let coins: BTreeMap<u64, Address> =
            config.networks.iter().map(|(chain, n)| (*chain, n.stablecoin.clone())).collect();
        Some(Snapshot {
            reserved: self.loans.book.reserved_by_others(&of, key, &counts, &now),
            principal: self.loans.book.principal(&of, &coins, &self.loans.written_off),
            operations: self.operations_today(&rec.agent, key),
            is_first_supply: self.is_first_supply(key, rec, &of),
            last_approval: self.last_approval(rec),
            may_be_crowded: self.may_hold_too_many::<Loan>(&rec.agent, &now),
            is_journal_doubted: self.is_journal_doubted,
            unattended_left: self.unattended_left(&config),
            is_clock_behind: self.clock_is_behind(rec.terms.chain),
            newest_s: self.trades.market.newest_time_s(rec.terms.chain).unwrap_or(0),
            config,
            now,
            payer,
        })
    }

    /// Returns the observation at which the operator last approved a supply to the venue of a loan; 0 if there is none.
    fn last_approval(&self, rec: &LoanRecord) -> u64 {
        let place = (rec.terms.chain, &rec.terms.venue);
        let same =
            self.loans.book.records.values().filter(|other| {
                other.is_supply() && (other.terms.chain, &other.terms.venue) == place
            });
        let all = same.flat_map(|other| &other.authorizations);
        all.filter(|auth| !auth.by_call).map(|auth| auth.seq).max().unwrap_or(0)
    }

    /// Returns whether this address surely never supplied to the venue.
    fn is_first_supply(&self, key: u64, rec: &LoanRecord, payer: &str) -> bool {
        let (chain, venue) = (rec.terms.chain, &rec.terms.venue);
        let mut others = self.loans.book.records.iter().filter(|(other, _)| **other != key);
        let used = others.any(|(other, r)| {
            let same = (r.terms.chain, &r.terms.venue) == (chain, venue) && r.is_supply();
            let approved = r.authorizations.iter().any(|auth| !auth.by_call);
            same && (approved || self.loans.book.main_of(*other).is_some())
        });
        let truth = self.loans.readings.truth_at(chain, payer, self.seq);
        let held = truth.is_some_and(|truth| truth.positions.iter().any(|(v, _, _)| v == venue));
        !used && !held
    }

    /// Returns whether a block that a node showed is surely later than the wall clock.
    ///
    /// A wall clock ahead of the chain is not judged: with only one block, it looks like an idle chain.
    fn clock_is_behind(&self, chain: u64) -> bool {
        let newest_s = self.trades.market.newest_time_s(chain).unwrap_or(0);
        let wall_s = u64::try_from(self.time.now.wall_ms / 1_000).unwrap_or(0);
        newest_s > wall_s.saturating_add(CLOCK_DEVIATION_S_MAX)
    }

    /// Judges a loan in one state, with everything that the wallet has read since the observation `from`.
    pub(super) fn loan_verdict(&self, key: u64, from: u64, snapshot: &Snapshot) -> Option<Verdict> {
        let rec = self.loans.book.records.get(&key)?;
        let (_, policy) = snapshot.config.policy_of(&rec.agent)?;
        let payers: BTreeSet<Address> = snapshot.payer.iter().cloned().collect();
        let case = Case {
            config: &snapshot.config,
            policy: &policy.policy,
            lending: &policy.lending,
            facts: &self.loans.facts,
            readings: &self.loans.readings,
            market: &self.trades.market,
            loan: &rec.terms,
            payers: &payers,
            snapshot,
            from,
        };
        Some(case.judge())
    }

    /// Returns the verdicts of all states in which a call or an approval may have been decided.
    pub(super) fn loan_verdicts(&self, key: u64, from: u64, all: &[Snapshot]) -> Vec<Verdict> {
        all.iter().filter_map(|one| self.loan_verdict(key, from, one)).collect()
    }
}
