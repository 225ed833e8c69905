//! Calls of agents that lend, while they are open, and the states in which they may be decided.

use super::OpenLoan;
use super::judge::{Case, Snapshot, Verdict};
use crate::Auditor;
use crate::basics::{Address, Proof, Ticket};
use crate::clocks::Instant;
use crate::config::Config;
use crate::expect::{Expect, Input};
use crate::identity::{self, View};
use crate::lending::LoanAsk;
use crate::loan_book::{LoanIdentity, LoanRecord};
use crate::policy::MAX_HELD;
use crate::trade_book::Authorization;
use crate::trades::authority::UNSIGNED_MS;
use std::collections::{BTreeMap, BTreeSet};

/// A clock is off if it is further than this from a chain's, in seconds. A node may be a minute behind.
const CLOCK_OFF_S: u64 = 660;

fn identity_of(ask: &LoanAsk) -> LoanIdentity {
    let agent = ask.agent.clone();
    match (&ask.proof, &ask.idempotency_key) {
        (Proof::Hmac { signature, .. }, _) => {
            LoanIdentity::Hmac { agent, signature: signature.clone() }
        }
        (Proof::Bearer { .. }, Some(key)) => {
            LoanIdentity::Keyed { agent, key: key.clone(), content: ask.content.clone() }
        }
        (Proof::Bearer { .. }, None) => {
            LoanIdentity::Content { agent, content: ask.content.clone() }
        }
    }
}

impl Auditor {
    pub(crate) fn is_loan_input(input: &Input) -> bool {
        matches!(input, Input::Loan(_) | Input::PollLoan(_))
    }

    pub(crate) fn on_loan_called(&mut self, ticket: Ticket, ask: &LoanAsk) {
        let mut ask = ask.clone();
        ask.loan.venue = ask.loan.venue.to_lowercase();
        let identity = identity_of(&ask);
        let now = self.time.instant();
        let book = &mut self.loans.book;
        let known = book.by_identity.get(&identity).copied();
        // Only a call that was surely refused for a bearer agent, or a content that may be over, makes room for a new loan.
        let again = |key: u64, r: &LoanRecord| {
            if r.identity.is_content() {
                let first = book.first_call(key, &self.time);
                return first.is_some_and(|first| !first.may_be_over(&self.time));
            }
            r.refused.is_none() || (!r.identity.is_of_bearer() && !r.unrecorded)
        };
        let joined = known.filter(|key| book.recs.get(key).is_some_and(|r| again(*key, r)));
        let key = match joined {
            Some(key) => key,
            None => {
                let agent = ask.agent.clone();
                book.add(LoanRecord::new(agent, identity, ask.loan.clone(), self.seq))
            }
        };
        if let Some(rec) = book.recs.get_mut(&key) {
            rec.open.insert(ticket);
            if !rec.accepted && rec.refused.is_none() {
                let auth = Authorization::by_order(ticket, self.seq, now);
                rec.authorizations.push(Authorization { by_call: true, ..auth });
            }
        }
        let open = OpenLoan { rec: key, ask, seq: self.seq, errors: Vec::new() };
        self.loans.open.insert(ticket, open);
    }

    /// Lets time pass for everything that concerns loans.
    pub(crate) fn watch_loans(&mut self) {
        let arrivals: Vec<Ticket> = self.open.keys().copied().collect();
        let now = self.time.instant();
        for ticket in arrivals {
            self.loans.arrived.entry(ticket).or_insert(now);
        }
        let tickets: Vec<Ticket> = self.loans.open.keys().copied().collect();
        for ticket in tickets {
            self.watch_open_loan(ticket);
        }
        self.watch_loan_approvals();
        self.note_ceilings();
        self.end_stopped_loans();
    }

    /// Ends the unsigned steps of loans whose agents may not act any longer.
    fn end_stopped_loans(&mut self) {
        let now = self.time.instant();
        let recs = self.loans.book.recs.iter();
        let stopped = |r: &LoanRecord| {
            r.may_live()
                && self.forbids(r.actor()).is_some_and(|rule| {
                    let by_restart = self.trades.restarted && rule == "I-f";
                    !by_restart || self.surely_stopped(&r.agent)
                })
        };
        let forbidden: Vec<u64> = recs.filter(|(_, r)| stopped(r)).map(|(key, _)| *key).collect();
        let failed = self.disk_failed.is_some();
        let book = &mut self.loans.book;
        for (key, rec) in &mut book.recs {
            // A plan that has begun was decided, whether its call is answered or not.
            let begun = book.slots.of(*key).next().is_some();
            rec.may_have_expired |= rec.expired(&now).1;
            // After a failure of the disk, a stop is not recorded.
            if forbidden.contains(key) && !failed {
                let all = rec.authorizations.iter_mut();
                let decided = all.filter(|auth| begun || auth.closed.is_some());
                decided.for_each(|auth| auth.killed = true);
            }
        }
    }

    /// Returns whether a freeze or suspension surely stops the agent, whether the wallet is open or not.
    fn surely_stopped(&self, agent: &str) -> bool {
        let stops = |config: &Config| {
            config.frozen || config.agents.get(agent).is_none_or(|known| known.suspended)
        };
        !agent.is_empty() && self.possible_configs.iter().all(|w| stops(&w.config))
    }

    /// Returns the number of each agent's loans that may be held.
    pub(crate) fn held_loans(&self) -> BTreeMap<String, usize> {
        let now = self.time.instant();
        let mut held = BTreeMap::new();
        for rec in self.loans.book.recs.values().filter(|rec| rec.may_be_held(&now)) {
            let count: &mut usize = held.entry(rec.agent.clone()).or_default();
            *count = count.saturating_add(1);
        }
        held
    }

    fn watch_open_loan(&mut self, ticket: Ticket) {
        let Some(open) = self.loans.open.get(&ticket).cloned() else { return };
        let agent = &open.ask.agent;
        let mut errors = Vec::new();
        let mut allowed = Vec::new();
        for w in &self.possible_configs {
            let v = View {
                config: &w.config,
                time: &self.time,
                book: &self.book,
                disk_failed: self.disk_failed,
                doubted: self.doubted,
                unattended: self.unattended_least(),
            };
            if let Err(instead) = identity::prove(v, agent, &open.ask.proof) {
                errors.extend(instead.iter().filter_map(|e| match e {
                    Expect::Refuse { http, code, .. } => Some((*http, *code)),
                    _ => None,
                }));
            } else if let Err(code) = identity::gate(&w.config, agent) {
                errors.push((403, code));
            } else {
                allowed.push(w.config.clone());
            }
        }
        if let Proof::Hmac { timestamp_s, .. } = &open.ask.proof
            && self.time.may_be_forgotten(*timestamp_s)
        {
            errors.extend([(401, "AUTH_FAILED"), (429, "RATE_LIMIT_EXCEEDED")]);
        }
        self.note_loan_states(ticket, open.rec, allowed);
        let Some(open) = self.loans.open.get_mut(&ticket) else { return };
        for error in errors {
            if !open.errors.contains(&error) {
                open.errors.push(error);
            }
        }
    }

    /// Notes the states in which approvals may apply the policy again, until the first step is signed.
    fn watch_loan_approvals(&mut self) {
        let now = self.time.instant();
        let recent = |a: &Authorization| {
            a.closed.is_none_or(|at| at.elapsed(&now).1.is_some_and(|ms| ms <= UNSIGNED_MS))
        };
        let mut open = Vec::new();
        for (key, rec) in &self.loans.book.recs {
            if rec.may_live() && !self.loans.book.begun(*key) {
                let all = rec.authorizations.iter().filter(|a| !a.by_call && !a.killed);
                open.extend(all.filter(|a| recent(a)).map(|a| (a.ticket, *key)));
            }
        }
        for (ticket, key) in open {
            let configs = self.possible_configs.iter().map(|w| w.config.clone()).collect();
            self.note_loan_states(ticket, key, configs);
        }
    }

    /// Adds the present states to those in which a call or an approval may be decided.
    fn note_loan_states(&mut self, ticket: Ticket, key: u64, configs: Vec<Config>) {
        let taken: Vec<Snapshot> =
            configs.into_iter().flat_map(|config| self.loan_snapshots(key, &config)).collect();
        let now = self.time.instant();
        if let Some(rec) = self.loans.book.recs.get_mut(&key)
            && !taken.is_empty()
        {
            rec.payers.extend(taken.iter().filter_map(|one| one.payer.clone()));
            let waiting = !rec.accepted && rec.refused.is_none();
            if waiting && !rec.moments.contains(&now) {
                rec.moments.push(now);
            }
        }
        let known = self.loans.snapshots.entry(ticket).or_default();
        for one in taken {
            if !known.contains(&one) {
                known.push(one);
            }
        }
    }

    /// Returns the present state for each address that may pay: the agent's, and that of a loan which was accepted before
    /// the agent got another one.
    fn loan_snapshots(&self, key: u64, config: &Config) -> Vec<Snapshot> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Vec::new() };
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
            (may && config.networks.get(&chain).is_some_and(|network| network.on), may)
        };
        let of = payer.clone().unwrap_or_default();
        let coins: BTreeMap<u64, Address> =
            config.networks.iter().map(|(chain, n)| (*chain, n.stablecoin.clone())).collect();
        Some(Snapshot {
            reserved: self.loans.book.reserved(&of, key, &counts, &now),
            principal: self.loans.book.principal(&of, &coins, &self.loans.written_off),
            operations: self.operations_today(&rec.agent, key),
            first: self.is_first_supply(key, rec, &of),
            approved: self.last_approval(rec),
            crowded: self.loan_crowded(&rec.agent, &now),
            doubted: self.doubted,
            unattended_left: self.unattended_left(&config),
            clock_off: self.clock_is_behind(rec.loan.chain),
            newest_s: self.trades.market.newest_time_s(rec.loan.chain).unwrap_or(0),
            config,
            now,
            payer,
        })
    }

    /// Returns the observation at which the operator last approved a supply to the venue of a loan; 0 if there is none.
    fn last_approval(&self, rec: &LoanRecord) -> u64 {
        let place = (rec.loan.chain, &rec.loan.venue);
        let same =
            self.loans.book.recs.values().filter(|other| {
                other.is_supply() && (other.loan.chain, &other.loan.venue) == place
            });
        let all = same.flat_map(|other| &other.authorizations);
        all.filter(|auth| !auth.by_call).map(|auth| auth.seq).max().unwrap_or(0)
    }

    /// Returns whether the venue was surely never supplied to from this address.
    fn is_first_supply(&self, key: u64, rec: &LoanRecord, payer: &str) -> bool {
        let (chain, venue) = (rec.loan.chain, &rec.loan.venue);
        let mut others = self.loans.book.recs.iter().filter(|(other, _)| **other != key);
        let used = others.any(|(other, r)| {
            let same = (r.loan.chain, &r.loan.venue) == (chain, venue) && r.is_supply();
            let approved = r.authorizations.iter().any(|auth| !auth.by_call);
            same && (approved || self.loans.book.main_of(*other).is_some())
        });
        let truth = self.loans.readings.truth_at(chain, payer, self.seq);
        let held = truth.is_some_and(|truth| truth.positions.iter().any(|(v, _, _)| v == venue));
        !used && !held
    }

    /// Returns whether a block that a node showed is surely later than the wall clock. A clock that is ahead looks like an
    /// idle chain, which only a second block tells apart.
    fn clock_is_behind(&self, chain: u64) -> bool {
        let newest_s = self.trades.market.newest_time_s(chain).unwrap_or(0);
        let wall_s = u64::try_from(self.time.now.wall_ms / 1_000).unwrap_or(0);
        newest_s > wall_s.saturating_add(CLOCK_OFF_S)
    }

    /// Returns whether the bound of held requests may refuse this one.
    fn loan_crowded(&self, agent: &str, now: &Instant) -> bool {
        let payments = self.book.held_counts(agent, None, now);
        let mine = self.loans.book.may_be_held(Some(agent), now).max(payments.agent.1);
        let all = self.loans.book.may_be_held(None, now).max(payments.all.1);
        mine >= MAX_HELD.0 || all >= MAX_HELD.1
    }

    /// Judges a loan in one state, with all that the wallet has read since `from`.
    pub(super) fn loan_verdict(&self, key: u64, from: u64, snapshot: &Snapshot) -> Option<Verdict> {
        let rec = self.loans.book.recs.get(&key)?;
        let (_, policy) = snapshot.config.policy_of(&rec.agent)?;
        let payers: BTreeSet<Address> = snapshot.payer.iter().cloned().collect();
        let case = Case {
            config: &snapshot.config,
            policy: &policy.policy,
            lending: &policy.lending,
            facts: &self.loans.facts,
            readings: &self.loans.readings,
            market: &self.trades.market,
            loan: &rec.loan,
            payers: &payers,
            snapshot,
            from,
        };
        Some(case.judge())
    }

    /// Returns the verdicts of all states in which a call or an approval may have been decided.
    pub(super) fn loan_verdicts(&self, key: u64, ticket: Ticket, from: u64) -> Vec<Verdict> {
        let all = self.loans.snapshots.get(&ticket).map_or(&[][..], Vec::as_slice).iter();
        all.filter_map(|one| self.loan_verdict(key, from, one)).collect()
    }

    /// Notes whether a call may have been executed without asking, and why surely not.
    pub(super) fn note_automatic_loan(&mut self, ticket: Ticket, open: &OpenLoan) {
        let verdicts = self.loan_verdicts(open.rec, ticket, open.seq);
        let Some(rec) = self.loans.book.recs.get_mut(&open.rec) else { return };
        rec.automatic |= verdicts.iter().any(|v| v.must_hold.is_none());
        rec.not_automatic = verdicts.iter().find_map(|v| v.must_hold).or(rec.not_automatic);
    }

    /// Ends the calls and orders that the process left without an answer.
    pub(crate) fn lose_loan_call(&mut self, ticket: Ticket) {
        if let Some(open) = self.loans.open.remove(&ticket) {
            self.note_automatic_loan(ticket, &open);
        }
        self.loans.arrived.remove(&ticket);
        self.loans.book.lost(ticket, self.time.instant());
    }
}

impl LoanRecord {
    /// Returns the agent whose permission to act a signature needs; `None` for the operator.
    pub(super) fn actor(&self) -> Option<&str> {
        (!self.by_operator()).then_some(self.agent.as_str())
    }
}
