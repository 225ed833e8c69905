//! Calls of agents that trade, while they are open.

use super::TradeRecord;
use super::judge::{Case, Snapshot, Verdict};
use super::volume::Allowance;
use crate::basics::Ticket;
use crate::clocks::{AllowancePeriod, Instant};
use crate::config::PossibleConfig;
use crate::plans::{OpenPlan, add_new};
use crate::trading::Trade;
use crate::{Auditor, Violation};
use std::collections::BTreeSet;

impl Auditor {
    /// Updates the open calls, volumes and approvals of trades after an observation.
    pub(crate) fn watch_trades(&mut self) {
        self.sync_trade_periods();
        self.note_volumes();
        let tickets: Vec<Ticket> = self.trades.book.open.keys().copied().collect();
        for ticket in tickets {
            self.watch_open_trade(ticket);
        }
        self.watch_approvals();
        self.trades.is_locked_by_restart &= self.possible_configs.iter().all(|w| !w.config.is_open);
        self.end_stopped_plans::<Trade>();
        self.book.held_trades = self.held_plans();
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

    /// Begins and renews the daily volumes of agents.
    fn sync_trade_periods(&mut self) {
        let commissioned = |w: &PossibleConfig, agent: &str| {
            w.config.agents.get(agent).map(|a| a.commission.is_some())
        };
        let configs = || self.possible_configs.iter();
        let agents: BTreeSet<&String> = configs().flat_map(|w| w.config.agents.keys()).collect();
        let periods = &mut self.trades.periods;
        periods.retain(|agent, _| agents.contains(agent));
        for agent in agents {
            let begun = configs().any(|w| commissioned(w, agent) == Some(true));
            // While the order for a commission is open, the first day may begin at any instant.
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

    /// Returns the daily volumes of an agent that may be in force after a check of the clocks.
    pub(crate) fn trade_periods(&self, agent: &str) -> Vec<Allowance> {
        let Some(known) = self.trades.periods.get(agent) else { return Vec::new() };
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

    /// Renews the daily volume if the operator's renewal of the allowance may have happened.
    pub(crate) fn renew_trade_periods(&mut self, named: &str) {
        let code = self.possible_configs.iter().find_map(|w| w.config.agent_code(named));
        let Some(all) = code.and_then(|code| self.trades.periods.get_mut(&code)) else {
            return;
        };
        for known in all.clone() {
            if known.period.is_due(&self.time.now)
                && let Some(next) = known.period.renew(&self.time.now, self.seq)
            {
                Allowance::add(all, Allowance::new(next));
            }
        }
    }

    fn watch_open_trade(&mut self, ticket: Ticket) {
        let Some(call) = self.trades.book.open.get(&ticket) else { return };
        let (key, from, agent, now) = (call.rec, call.seq, &call.ask.agent, self.time.instant());
        let periods = self.trade_periods(agent);
        let mut used = self.trades.volume_of_others(agent, key, &periods, &now);
        // While a repeat is open, it may become a new trade, and then the first trade counts too.
        let repeats = self.trades.book.records.get(&key).is_some_and(|rec| rec.accepted);
        let except = if repeats { u64::MAX } else { key };
        used.1 = self.trades.volume_of_others(agent, except, &periods, &now).1;
        let newest_s = self.trades.market.newest_time_s(call.ask.terms.chain).unwrap_or(0);
        let (errors, allowed) = self.judge_caller(&call.ask);
        let (crowded, doubted) =
            (self.may_be_crowded(agent, except, &now), self.is_journal_doubted);
        let snapshots: Vec<Snapshot> = allowed
            .into_iter()
            .map(|config| {
                let unattended_left = self.unattended_left(&config);
                Snapshot { config, now, used, crowded, doubted, unattended_left, newest_s }
            })
            .collect();
        for snapshot in &snapshots {
            self.note_snapshot(key, from, snapshot);
        }
        let Some(call) = self.trades.book.open.get_mut(&ticket) else { return };
        add_new(&mut call.errors, errors);
        add_new(&mut call.snapshots, snapshots);
        for p in periods {
            Allowance::add(&mut call.periods, p);
        }
    }

    /// Notes the states in which the wallet may apply the policy to an approved trade again, before the first step is
    /// signed.
    fn watch_approvals(&mut self) {
        let now = self.time.instant();
        let open = |key: u64, r: &TradeRecord| {
            let mut approvals = r.authorizations.iter().filter(|a| a.is_recent_approval(&now));
            let begun = self.trades.book.has_begun(key);
            approvals.next().filter(|_| r.may_live() && !begun).map(|auth| auth.seq)
        };
        let recs = self.trades.book.records.iter();
        let keys: Vec<(u64, u64)> =
            recs.filter_map(|(key, r)| open(*key, r).map(|seq| (*key, seq))).collect();
        for (key, seq) in keys {
            let Some(rec) = self.trades.book.records.get(&key) else { continue };
            let periods = self.trade_periods(&rec.agent);
            let used = self.trades.volume_of_others(&rec.agent, key, &periods, &now);
            let (crowded, doubted) = (false, self.is_journal_doubted);
            let newest_s = self.trades.market.newest_time_s(rec.terms.chain).unwrap_or(0);
            let configs = self.possible_configs.iter().map(|w| w.config.clone());
            let snapshots: Vec<Snapshot> = configs
                .map(|config| {
                    // The limit of the unattended day does not apply to an approved trade.
                    let unattended_left = None;
                    Snapshot { config, now, used, crowded, doubted, unattended_left, newest_s }
                })
                .collect();
            let noted: Vec<(Verdict, Option<String>)> =
                snapshots.iter().filter_map(|s| self.verdict_in(key, seq, s)).collect();
            let Some(rec) = self.trades.book.records.get_mut(&key) else { continue };
            for (verdict, payer) in noted {
                rec.payers.extend(payer);
                rec.include_value(verdict.value);
            }
            for auth in rec.authorizations.iter_mut().filter(|a| !a.by_call && !a.is_killed) {
                for snapshot in &snapshots {
                    if !auth.snapshots.contains(snapshot) {
                        auth.snapshots.push(snapshot.clone());
                    }
                }
            }
        }
    }

    /// Returns whether other requests may be a reason to refuse this trade: too many are held, or they share its
    /// balance.
    fn may_be_crowded(&self, agent: &str, key: u64, now: &Instant) -> bool {
        let mut others = self.trades.book.records.iter().filter(|(other, _)| **other != key);
        if others.any(|(_, other)| other.may_live()) {
            return true;
        }
        self.may_hold_too_many::<Trade>(agent, now)
    }

    /// Adds the verdict and the payer in this state to the record of a trade.
    pub(super) fn note_snapshot(&mut self, key: u64, from: u64, snapshot: &Snapshot) {
        let Some((verdict, payer)) = self.verdict_in(key, from, snapshot) else { return };
        let Some(rec) = self.trades.book.records.get_mut(&key) else { return };
        if rec.accepted || rec.refused.is_some() {
            return;
        }
        rec.payers.extend(payer);
        rec.include_value(verdict.value);
        rec.include_slippage(verdict.slippage);
        if !rec.acceptance_instants.contains(&snapshot.now) {
            rec.acceptance_instants.push(snapshot.now);
        }
    }

    /// Judges a trade in one state, with everything that the wallet has read since the observation `from`.
    pub(crate) fn verdict_in(
        &self,
        key: u64,
        from: u64,
        snapshot: &Snapshot,
    ) -> Option<(Verdict, Option<String>)> {
        let rec = self.trades.book.records.get(&key)?;
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
            exchange: self.trades.exchanges.get(&rec.terms.chain),
            trade: &rec.terms,
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
    pub(crate) fn verdicts(&self, call: &OpenPlan<Trade>) -> Vec<Verdict> {
        let all = call.snapshots.iter();
        all.filter_map(|s| self.verdict_in(call.rec, call.seq, s).map(|(v, _)| v)).collect()
    }

    /// Notes whether a call may have been executed without an approval, and if not, the reason.
    pub(crate) fn note_automatic(&mut self, call: &OpenPlan<Trade>) {
        let verdicts = self.verdicts(call);
        let Some(rec) = self.trades.book.records.get_mut(&call.rec) else { return };
        let free = |v: &Verdict| v.must_hold.is_none() && !v.must_refuse_for_volume;
        rec.may_be_automatic |= verdicts.iter().any(free);
        rec.not_automatic = verdicts.iter().find_map(|v| v.must_hold).or(rec.not_automatic);
        if rec.not_automatic.is_none() && verdicts.iter().any(|v| v.must_refuse_for_volume) {
            rec.not_automatic = Some("it exceeds the daily volume");
        }
    }

    pub(crate) fn trade_violation(&self, key: u64, rule: &'static str, what: &str) -> Violation {
        self.plan_violation::<Trade>(key, rule, what)
    }
}
