//! Events of the whole wallet: clocks, crashes, starts and the end of a run.

use crate::book::items_not_in;
use crate::clocks::add_period;
use crate::expect::{Input, OpenCall};
use crate::observations::{Clocks, Loan, Order, Proof, Ticket, Trade};
use crate::requests::RequestState;
use crate::{Auditor, Violation, violation};

/// In the calm phase, a payment that may be signed must be signed within this time.
const SIGNING_MS_MAX: i64 = 60_000;

impl Auditor {
    pub(crate) fn on_clocks(&mut self, to: &Clocks) {
        self.mark_concurrent();
        self.device_plans.note_late_plans(&self.time.instant());
        self.time.set(to, self.seq);
        self.devices.on_clocks(to.wall_ms, self.seq);
        if let Some(time_s) = to.block_ms.and_then(|ms| u64::try_from(ms.div_euclid(1000)).ok()) {
            let lending = self.loans.facts.keys();
            let chains: Vec<u64> = self.trades.exchanges.keys().chain(lending).copied().collect();
            self.trades.market.note_block_time_of_all(chains.into_iter(), time_s);
        }
        let (mut renewals, mut held) = (false, false);
        // A timer may renew the allowance now, or the next check does; the result is the same.
        for w in &mut self.possible_configs {
            for m in w.config.agents.values_mut().filter_map(|a| a.commission.as_mut()) {
                for p in m.periods.clone() {
                    for next in p.after_check(&self.time) {
                        if next == p {
                            held |= p.is_due(&self.time.now);
                        } else {
                            renewals = true;
                            add_period(&mut m.periods, next, self.last_auth);
                        }
                    }
                }
            }
        }
        if renewals {
            self.count("renewal");
        }
        if held {
            self.count("renewal held back");
        }
        self.renew_unattended_day();
        let now = self.time.instant();
        for rec in self.book.records.values_mut() {
            rec.has_lapsed |= rec.valid_before().is_some_and(|(least, _)| now.second() >= least);
            rec.may_be_replaced |= rec.may_be_forgotten(&now);
            // The held request expires now. If the clock is set back later, it is unknown whether the wallet recorded
            // the expiry.
            if rec.base.contains(&RequestState::Held)
                && rec.expired(&now).1
                && !rec.base.contains(&RequestState::Expired)
            {
                rec.base.push(RequestState::Expired);
                rec.expired_since.get_or_insert(now);
            }
        }
    }

    /// Marks a call or order as lost: it is unknown whether it was executed.
    fn mark_uncertain(&mut self, ticket: Ticket, open: &OpenCall) {
        self.lose_plan_call::<Trade>(ticket);
        self.lose_plan_call::<Loan>(ticket);
        let seq = self.seq;
        for (key, rec) in &mut self.book.records {
            let mine: Vec<RequestState> =
                rec.overlay.iter().filter(|(t, _)| *t == ticket).map(|(_, s)| s.clone()).collect();
            rec.overlay.retain(|(t, _)| *t != ticket);
            for mut st in mine {
                if let RequestState::Authorized { hi, .. } = &mut st {
                    *hi = seq;
                }
                if !rec.base.contains(&st) {
                    rec.base.push(st);
                }
                if self.disk_failed.is_some() {
                    self.maybe_written_requests.push((*key, rec.clone()));
                }
            }
        }
        if let Some(key) = open.rec
            && let Some(rec) = self.book.records.get_mut(&key)
        {
            rec.open.remove(&ticket);
            rec.lost = true;
            if rec.id.is_none() && rec.open.is_empty() && rec.base == [RequestState::Nothing] {
                self.book.remove(key);
            }
        }
        if let Input::Sign(ask) = &open.input {
            let lost = self.lost_asks.entry(ask.agent.clone()).or_default();
            *lost = lost.saturating_add(1);
            let rec = open.rec.and_then(|key| self.book.records.get(&key));
            let terms =
                rec.map(|rec| rec.authorizations.iter().map(|(terms, _)| terms.micros).max());
            // A repeat of a signed call is always the same request, so it never spends more.
            let bearer = matches!(ask.proof, Proof::Bearer { .. });
            if let Some(micros) = terms.flatten().filter(|_micros| bearer) {
                let sum = self.book.unanswered_micros.entry(ask.agent.clone()).or_default();
                *sum = sum.saturating_add(micros);
            }
        }
        if let Input::Report(r) = &open.input
            && let Some(rec) = self.book.find_mut(&r.id)
        {
            rec.hash_reported |= r.tx_hash.is_some();
        }
        self.dead_tickets.insert(ticket);
    }

    /// Handles `JOURNAL_FAILED`: the record was not written, or it is on disk without confirmation.
    pub(crate) fn journal_failed(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
    ) -> Result<(), Violation> {
        if self.disk_failed.is_none() {
            let what = format!("{:?} was answered JOURNAL_FAILED, but the disk works", open.input);
            return Err(violation("disk", what));
        }
        self.mark_uncertain(ticket, open);
        for w in &mut self.possible_configs {
            w.applied_orders.remove(&ticket);
        }
        self.merge_configs();
        // Until the next start, answers show the state that was published before the failure.
        self.maybe_configs.extend(self.possible_configs.iter().cloned());
        self.count("refuse: JOURNAL_FAILED");
        Ok(())
    }

    /// Restores the states that the previous process may have written without confirmation, whatever it answered
    /// afterwards.
    fn restore_maybe_written(&mut self) {
        for (key, then) in std::mem::take(&mut self.maybe_written_requests) {
            if let Some(rec) = self.book.records.get_mut(&key) {
                rec.base.extend(items_not_in(&then.base, &rec.base));
                rec.authorizations.extend(items_not_in(&then.authorizations, &rec.authorizations));
                rec.holds.extend(items_not_in(&then.holds, &rec.holds));
                rec.denials.extend(items_not_in(&then.denials, &rec.denials));
                rec.ended.extend(items_not_in(&then.ended, &rec.ended));
            }
        }
    }

    pub(crate) fn on_died(&mut self) {
        let open = std::mem::take(&mut self.open);
        for (ticket, one) in &open {
            self.mark_uncertain(*ticket, one);
            self.count(match one.input {
                Input::Order(Order::Approve { .. }) => "lost: approval",
                Input::Order(_) => "lost: order",
                Input::Sign(_) => "lost: ask",
                _ => "lost: call",
            });
        }
        for w in &mut self.possible_configs {
            w.applied_orders.clear();
        }
        for rec in self.book.records.values_mut() {
            rec.died = true;
        }
        self.process_ended();
    }

    fn process_ended(&mut self) {
        self.trades.book.process_ended();
        self.loans.book.process_ended();
        self.trades.is_locked_by_restart = true;
        self.restore_maybe_written();
        self.assign_signatures();
        if self.disk_failed.is_some() {
            // After the failure of the disk, neither signatures nor the ends of held requests were recorded.
            for rec in self.book.records.values_mut() {
                rec.died = true;
                if rec.may_be(&RequestState::Held) {
                    rec.ended.clear();
                }
            }
        }
        self.possible_configs.append(&mut self.maybe_configs);
        self.device_process_ended();
        self.device_plans_process_ended();
        // The wallet is now locked, so nothing may be signed before the next unlock.
        for w in &mut self.possible_configs {
            w.config.is_open = false;
        }
        self.merge_configs();
        self.is_running = false;
        self.disk_failed = None;
    }

    pub(crate) fn on_stopped(&mut self) -> Result<(), Violation> {
        if let Some((ticket, open)) = self.open.iter().next() {
            let what = format!(
                "the process stopped in an orderly way, but {ticket} ({:?}) has no answer",
                open.input
            );
            return Err(violation("I-n", what));
        }
        self.process_ended();
        Ok(())
    }

    pub(crate) fn on_started(&mut self) {
        self.process_ended();
        self.is_running = true;
        self.trades.market.note_start(self.seq);
        self.loans.readings.note_start(self.seq);
        self.count("start");
    }

    /// Notes the instant since which each authorized request could have been signed.
    pub(crate) fn watch_calm(&mut self) {
        if self.calm_since.is_none() {
            return;
        }
        let now = self.time.instant();
        for rec in self.book.records.values_mut() {
            let authorized = rec.id.is_some()
                && rec.possible_states(None).all(|s| matches!(s, RequestState::Authorized { .. }))
                && rec.digest.is_none();
            let able = authorized
                && rec.other_agents.is_empty()
                && !rec.declined
                && !rec.has_lapsed
                && self.is_running
                && self.possible_configs.iter().all(|w| w.config.may_sign_for(&rec.agent).is_ok())
                && rec.valid_before().is_some_and(|(least, _)| now.second() < least);
            if !able {
                rec.signable_since = None;
            } else if rec.signable_since.is_none() {
                rec.signable_since = Some(now);
            }
        }
    }

    pub(crate) fn on_over(&mut self) -> Result<(), Violation> {
        if let Some((ticket, open)) = self.open.iter().next() {
            let what = format!(
                "{ticket} ({:?}), received at event {}, was never answered",
                open.input, open.seq
            );
            return Err(violation("I-n", what));
        }
        let now = self.time.instant();
        for rec in self.book.records.values() {
            let since = rec.signable_since.map(|at| (at, at.elapsed(&now).1));
            if let Some((at, Some(ms))) = since
                && ms >= SIGNING_MS_MAX
            {
                let what = format!(
                    "request {:?} of {} is authorized and could have been signed since {at:?}; it is not at {now:?}",
                    rec.id, rec.agent
                );
                return Err(violation("I-n", what));
            }
        }
        self.check_plans_over::<Trade>()?;
        self.check_plans_over::<Loan>()?;
        self.check_device_plans_over()?;
        self.count("over");
        Ok(())
    }
}
