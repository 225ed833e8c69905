//! Calls of agents that trade, while they are open.

use super::OpenTrade;
use super::judge::{Case, Verdict};
use crate::basics::{Proof, Ticket};
use crate::clocks::{AllowancePeriod, Instant};
use crate::config::PossibleConfig;
use crate::expect::{Expect, Input};
use crate::identity::{self, View};
use crate::policy::MAX_HELD;
use crate::trade_book::{Allowance, Authorization, Snapshot, TradeIdentity, TradeRecord};
use crate::trading::TradeAsk;
use crate::{Auditor, violation};
use std::collections::{BTreeMap, BTreeSet};

fn identity_of(ask: &TradeAsk) -> TradeIdentity {
    let agent = ask.agent.clone();
    match (&ask.proof, &ask.idempotency_key) {
        (Proof::Hmac { signature, .. }, _) => {
            TradeIdentity::Hmac { agent, signature: signature.clone() }
        }
        (Proof::Bearer { .. }, Some(key)) => {
            TradeIdentity::Keyed { agent, key: key.clone(), content: ask.content.clone() }
        }
        (Proof::Bearer { .. }, None) => {
            TradeIdentity::Content { agent, content: ask.content.clone() }
        }
    }
}

impl Auditor {
    pub(crate) fn on_trade_called(&mut self, ticket: Ticket, ask: &TradeAsk) {
        let identity = identity_of(ask);
        let now = self.time.instant();
        let book = &mut self.trades.book;
        let known = book.by_identity.get(&identity).copied();
        // Only a call that was surely refused for a bearer agent, or a content that may be over, makes room for a new trade.
        let again = |key: u64, r: &TradeRecord| {
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
                let rec = TradeRecord::new(agent, identity, ask.trade.clone(), self.seq);
                book.add(TradeRecord { day: self.time.sure_day(), ..rec })
            }
        };
        if let Some(rec) = book.recs.get_mut(&key) {
            rec.open.insert(ticket);
            if !rec.accepted && rec.refused.is_none() {
                rec.authorizations.push(Authorization {
                    ticket,
                    by_call: true,
                    seq: self.seq,
                    opened: now,
                    closed: None,
                    killed: false,
                    lost: None,
                    snapshots: Vec::new(),
                });
            }
        }
        let open = OpenTrade {
            rec: key,
            ask: ask.clone(),
            seq: self.seq,
            errors: Vec::new(),
            snapshots: Vec::new(),
            periods: Vec::new(),
        };
        self.trades.open.insert(ticket, open);
    }

    /// Lets time pass for everything that concerns trades.
    pub(crate) fn watch_trades(&mut self) {
        self.sync_trade_periods();
        self.note_volumes();
        let tickets: Vec<Ticket> = self.trades.open.keys().copied().collect();
        for ticket in tickets {
            self.watch_open_trade(ticket);
        }
        self.watch_approvals();
        let now = self.time.instant();
        self.trades.restarted &= self.possible_configs.iter().all(|w| !w.config.open);
        let stopped = |r: &TradeRecord| {
            r.may_live()
                && self.forbids(Some(&r.agent)).is_some_and(|rule| {
                    let by_restart = self.trades.restarted && rule == "I-f";
                    !by_restart || self.is_stopped(&r.agent)
                })
        };
        let recs = self.trades.book.recs.iter();
        let forbidden: Vec<u64> = recs.filter(|(_, r)| stopped(r)).map(|(key, _)| *key).collect();
        let failed = self.disk_failed.is_some();
        let book = &mut self.trades.book;
        for (key, rec) in &mut book.recs {
            // A plan that has begun was decided, whether its call is answered or not.
            let begun = book.slots.of(*key).next().is_some();
            rec.may_have_expired |= rec.expired(&now).1;
            // After a failure of the disk, a stop is not recorded.
            if forbidden.contains(key) && !failed {
                rec.disturbed = true;
                let all = rec.authorizations.iter_mut();
                let decided = all.filter(|auth| begun || auth.closed.is_some());
                decided.for_each(|auth| auth.killed = true);
            }
        }
        self.book.held_trades = self.held_trades();
        for (agent, loans) in self.held_loans() {
            let count = self.book.held_trades.entry(agent).or_default();
            *count = count.saturating_add(loans);
        }
    }

    /// Returns whether a freeze or suspension surely stops the agent, whether the wallet is open or not.
    fn is_stopped(&self, agent: &str) -> bool {
        let stops = |config: &crate::config::Config| {
            config.frozen || config.agents.get(agent).is_none_or(|known| known.suspended)
        };
        self.possible_configs.iter().all(|w| stops(&w.config))
    }

    fn note_volumes(&mut self) {
        for w in &self.possible_configs {
            for agent in w.config.agents.keys() {
                let Some((_, record)) = w.config.policy_of(agent) else { continue };
                let most = self.trades.largest_volume.entry(agent.clone()).or_default();
                *most = record.policy.trading.daily.max(*most);
            }
        }
    }

    fn held_trades(&self) -> BTreeMap<String, usize> {
        let now = self.time.instant();
        let mut held = BTreeMap::new();
        for rec in self.trades.book.recs.values().filter(|rec| rec.may_be_held(&now)) {
            let count: &mut usize = held.entry(rec.agent.clone()).or_default();
            *count = count.saturating_add(1);
        }
        held
    }

    /// Begins the trade allowances of agents, and lets them renew.
    fn sync_trade_periods(&mut self) {
        let commissioned = |w: &PossibleConfig, agent: &str| {
            w.config.agents.get(agent).map(|a| a.commission.is_some())
        };
        let configs = || self.possible_configs.iter();
        let agents: BTreeSet<&String> = configs().flat_map(|w| w.config.agents.keys()).collect();
        let periods = &mut self.trades.book.periods;
        periods.retain(|agent, _| agents.contains(agent));
        for agent in agents {
            let begun = configs().any(|w| commissioned(w, agent) == Some(true));
            // While the order is open, the allowance begins at any of its instants.
            let open = configs().any(|w| commissioned(w, agent) != Some(true));
            let known = periods.contains_key(agent);
            if let Some(first) = AllowancePeriod::first(&self.time)
                && begun
                && (!known || open)
            {
                let all = periods.entry(agent.clone()).or_default();
                Allowance::add(all, Allowance::new(first));
            }
        }
        for all in periods.values_mut() {
            for known in all.clone() {
                for next in known.period.after_check(&self.time) {
                    if next != known.period {
                        Allowance::add(all, Allowance::new(next));
                    }
                }
            }
        }
    }

    /// Returns the trade allowances of an agent that may be in force after a check.
    pub(crate) fn trade_periods(&self, agent: &str) -> Vec<Allowance> {
        let Some(known) = self.trades.book.periods.get(agent) else { return Vec::new() };
        let mut all = if self.disk_failed.is_some() { known.clone() } else { Vec::new() };
        for one in known {
            for next in one.period.after_check(&self.time) {
                let same = next == one.period;
                let next = if same { one.clone() } else { Allowance::new(next) };
                Allowance::add(&mut all, next);
            }
        }
        all
    }

    /// Lets an operator's renewal, which may have happened, renew the trade allowance too.
    pub(crate) fn renew_trade_periods(&mut self, named: &str) {
        let code = self.possible_configs.iter().find_map(|w| w.config.agent_code(named));
        let Some(all) = code.and_then(|code| self.trades.book.periods.get_mut(&code)) else {
            return;
        };
        for known in all.clone() {
            if known.period.is_due(&self.time.now)
                && let Some(next) = known.period.renewed(&self.time.now, self.seq)
            {
                Allowance::add(all, Allowance::new(next));
            }
        }
    }

    fn watch_open_trade(&mut self, ticket: Ticket) {
        let Some(open) = self.trades.open.get(&ticket).cloned() else { return };
        let agent = &open.ask.agent;
        let now = self.time.instant();
        let periods = self.trade_periods(agent);
        let mut used = self.trades.book.used(agent, open.rec, &periods, &now);
        // A repeat may become a new trade while it is open: then the first one counts too.
        let repeats = self.trades.book.recs.get(&open.rec).is_some_and(|rec| rec.accepted);
        let except = if repeats { u64::MAX } else { open.rec };
        used.1 = self.trades.book.used(agent, except, &periods, &now).1;
        let newest_s = self.trades.market.newest_time_s(open.ask.trade.chain).unwrap_or(0);
        let mut errors = Vec::new();
        let mut snapshots = Vec::new();
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
                snapshots.push(Snapshot {
                    config: w.config.clone(),
                    now,
                    used,
                    crowded: self.crowded(agent, except, &now),
                    doubted: self.doubted,
                    unattended_left: self.unattended_left(&w.config),
                    newest_s,
                });
            }
        }
        if let Proof::Hmac { timestamp_s, .. } = &open.ask.proof
            && self.time.may_be_forgotten(*timestamp_s)
        {
            errors.extend([(401, "AUTH_FAILED"), (429, "RATE_LIMIT_EXCEEDED")]);
        }
        for snapshot in &snapshots {
            self.note_snapshot(&open, snapshot);
        }
        let Some(open) = self.trades.open.get_mut(&ticket) else { return };
        for error in errors {
            if !open.errors.contains(&error) {
                open.errors.push(error);
            }
        }
        for snapshot in snapshots {
            if !open.snapshots.contains(&snapshot) {
                open.snapshots.push(snapshot);
            }
        }
        for p in periods {
            Allowance::add(&mut open.periods, p);
        }
    }

    /// Returns whether other requests may be a reason to refuse this one: too many are held, or share its balance.
    fn crowded(&self, agent: &str, key: u64, now: &Instant) -> bool {
        let mut others = self.trades.book.recs.iter().filter(|(other, _)| **other != key);
        if others.any(|(_, other)| other.may_live()) {
            return true;
        }
        let payments = self.book.held_counts(agent, None, now);
        let mine = self.trades.book.may_be_held(Some(agent), now).max(payments.agent.1);
        let all = self.trades.book.may_be_held(None, now).max(payments.all.1);
        mine >= MAX_HELD.0 || all >= MAX_HELD.1
    }

    /// Adds what this state may make of the trade.
    pub(super) fn note_snapshot(&mut self, open: &OpenTrade, snapshot: &Snapshot) {
        let Some((verdict, payer)) = self.verdict_in(open.rec, open.seq, snapshot) else { return };
        let Some(rec) = self.trades.book.recs.get_mut(&open.rec) else { return };
        if rec.accepted || rec.refused.is_some() {
            return;
        }
        rec.payers.extend(payer);
        rec.include_value(verdict.value);
        rec.include_slippage(verdict.slippage);
        if !rec.moments.contains(&snapshot.now) {
            rec.moments.push(snapshot.now);
        }
    }

    /// Judges a trade in one state, with all that the wallet has read since `from`.
    pub(crate) fn verdict_in(
        &self,
        key: u64,
        from: u64,
        snapshot: &Snapshot,
    ) -> Option<(Verdict, Option<String>)> {
        let rec = self.trades.book.recs.get(&key)?;
        let (_, policy) = snapshot.config.policy_of(&rec.agent)?;
        let commission = snapshot.config.agents.get(&rec.agent)?.commission.as_ref()?;
        let account = snapshot.config.accounts.get(&commission.account);
        let payer = account.and_then(|account| account.address.clone());
        let mut payers = rec.payers.clone();
        payers.extend(payer.clone());
        let case = Case {
            config: &snapshot.config,
            policy: &policy.policy,
            market: &self.trades.market,
            exchange: self.trades.exchanges.get(&rec.trade.chain),
            trade: &rec.trade,
            payers: &payers,
            from,
            now: snapshot.now,
            used: snapshot.used,
            crowded: snapshot.crowded,
            doubted: snapshot.doubted,
            unattended_left: snapshot.unattended_left,
            newest_s: snapshot.newest_s,
        };
        Some((case.judge(), payer))
    }

    /// Returns the verdicts of all states in which an open call may have been judged.
    pub(crate) fn verdicts(&self, open: &OpenTrade) -> Vec<Verdict> {
        let all = open.snapshots.iter();
        all.filter_map(|s| self.verdict_in(open.rec, open.seq, s).map(|(v, _)| v)).collect()
    }

    /// Notes whether a call may have been executed without asking, and why surely not.
    pub(crate) fn note_automatic(&mut self, open: &OpenTrade) {
        let verdicts = self.verdicts(open);
        let Some(rec) = self.trades.book.recs.get_mut(&open.rec) else { return };
        let free = |v: &Verdict| v.must_hold.is_none() && !v.volume_must;
        rec.automatic |= verdicts.iter().any(free);
        rec.not_automatic = verdicts.iter().find_map(|v| v.must_hold).or(rec.not_automatic);
        if rec.not_automatic.is_none() && verdicts.iter().any(|v| v.volume_must) {
            rec.not_automatic = Some("it exceeds the daily volume");
        }
    }

    /// Ends the calls that the process left without an answer.
    pub(crate) fn lose_trade_call(&mut self, ticket: Ticket) {
        if let Some(open) = self.trades.open.remove(&ticket) {
            self.note_automatic(&open);
        }
        self.trades.arrived.remove(&ticket);
        self.trades.book.lost(ticket, self.time.instant());
    }

    /// Returns the open call that a violation concerns, for messages.
    pub(crate) fn is_trade_input(input: &Input) -> bool {
        matches!(input, Input::Trade(_) | Input::PollTrade(_))
    }

    pub(crate) fn trade_violation(
        &self,
        key: u64,
        rule: &'static str,
        what: &str,
    ) -> crate::Violation {
        let rec = self.trades.book.recs.get(&key);
        let who = rec.map(|r| format!("trade {:?} of {}: {:?}", r.id, r.agent, r.trade));
        violation(rule, format!("{what} ({})", who.unwrap_or_default()))
    }
}
