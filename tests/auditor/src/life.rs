//! Clocks, crashes, starts and the end: events that concern the wallet as a whole.

use crate::book::missing;
use crate::clocks::add_period;
use crate::expect::{Asked, Open};
use crate::requests::St;
use crate::seen::{Clocks, Order, Proof, Ticket};
use crate::{Auditor, Violation, violation};

/// In the calm phase, a payment that may be signed must be signed within this time.
const SIGNED_WITHIN_MS: i64 = 60_000;

impl Auditor {
    pub(crate) fn on_clocks(&mut self, to: &Clocks) {
        self.crowd();
        self.time.set(to, self.seq);
        let (mut renewals, mut held) = (false, false);
        // The renewal may happen by a timer now, or at the next check; the result is the same.
        for w in &mut self.worlds {
            for m in w.config.agents.values_mut().filter_map(|a| a.commission.as_mut()) {
                for p in m.periods.clone() {
                    for next in p.looked(&self.time) {
                        if next == p {
                            held |= p.due(&self.time.now);
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
        let now = self.time.instant();
        for rec in self.book.recs.values_mut() {
            rec.lapsed |= rec.valid_before().is_some_and(|(least, _)| now.second() >= least);
            // It expires now. If the clock is set back, the wallet may or may not have recorded that.
            if rec.base.contains(&St::Held) && rec.over(&now).1 && !rec.base.contains(&St::Expired)
            {
                rec.base.push(St::Expired);
                rec.over_since.get_or_insert(now);
            }
        }
    }

    /// Marks a call or order as executed or not: it is unknown which.
    fn lose(&mut self, ticket: Ticket, open: &Open) {
        let seq = self.seq;
        for (key, rec) in &mut self.book.recs {
            let mine: Vec<St> =
                rec.overlay.iter().filter(|(t, _)| *t == ticket).map(|(_, s)| s.clone()).collect();
            rec.overlay.retain(|(t, _)| *t != ticket);
            for mut st in mine {
                if let St::Auth { hi, .. } = &mut st {
                    *hi = seq;
                }
                if !rec.base.contains(&st) {
                    rec.base.push(st);
                }
                if self.disk_failed.is_some() {
                    self.perhaps_written.push((*key, rec.clone()));
                }
            }
        }
        if let Some(key) = open.rec
            && let Some(rec) = self.book.recs.get_mut(&key)
        {
            rec.open.remove(&ticket);
            rec.lost = true;
            if rec.id.is_none() && rec.open.is_empty() && rec.base == [St::Nothing] {
                self.book.remove(key);
            }
        }
        if let Asked::Sign(ask) = &open.asked {
            let lost = self.lost_asks.entry(ask.agent.clone()).or_default();
            *lost = lost.saturating_add(1);
            let rec = open.rec.and_then(|key| self.book.recs.get(&key));
            let terms = rec.map(|rec| rec.acts.iter().map(|(terms, _)| terms.micros).max());
            // A repeat of a signed call is always the same request, so it never takes anything more.
            let bearer = matches!(ask.proof, Proof::Bearer { .. });
            if let Some(micros) = terms.flatten().filter(|_micros| bearer) {
                let sum = self.book.lost.entry(ask.agent.clone()).or_default();
                *sum = sum.saturating_add(micros);
            }
        }
        if let Asked::Report(r) = &open.asked
            && let Some(rec) = self.book.find_mut(&r.id)
        {
            rec.hash_told |= r.tx_hash.is_some();
        }
        self.dead.insert(ticket);
    }

    /// Handles `JOURNAL_FAILED`: the record was not written, or it is on disk without confirmation.
    pub(crate) fn journal_failed(&mut self, ticket: Ticket, open: &Open) -> Result<(), Violation> {
        if self.disk_failed.is_none() {
            let what = format!("{:?} was answered JOURNAL_FAILED, but the disk works", open.asked);
            return Err(violation("disk", what));
        }
        self.lose(ticket, open);
        for w in &mut self.worlds {
            w.applied.remove(&ticket);
        }
        self.merge_worlds();
        // Until the next start, answers reflect the state published before.
        self.perhaps_set_up.extend(self.worlds.iter().cloned());
        self.count("refuse: JOURNAL_FAILED");
        Ok(())
    }

    /// Restores what the previous process may have written without confirmation, whatever it returned afterwards.
    fn remember(&mut self) {
        for (key, then) in std::mem::take(&mut self.perhaps_written) {
            if let Some(rec) = self.book.recs.get_mut(&key) {
                rec.base.extend(missing(&then.base, &rec.base));
                rec.acts.extend(missing(&then.acts, &rec.acts));
                rec.holds.extend(missing(&then.holds, &rec.holds));
                rec.denials.extend(missing(&then.denials, &rec.denials));
                rec.ended.extend(missing(&then.ended, &rec.ended));
            }
        }
    }

    pub(crate) fn on_died(&mut self) {
        let open = std::mem::take(&mut self.open);
        for (ticket, one) in &open {
            self.lose(*ticket, one);
            self.count(match one.asked {
                Asked::Order(Order::Approve { .. }) => "lost: approval",
                Asked::Order(_) => "lost: order",
                Asked::Sign(_) => "lost: ask",
                _ => "lost: call",
            });
        }
        for w in &mut self.worlds {
            w.applied.clear();
        }
        for rec in self.book.recs.values_mut() {
            rec.died = true;
        }
        self.down();
    }

    fn down(&mut self) {
        self.remember();
        self.adopt_signed();
        if self.disk_failed.is_some() {
            // After the failure, neither signatures nor the ends of held requests were recorded.
            for rec in self.book.recs.values_mut() {
                rec.died = true;
                if rec.may_be(&St::Held) {
                    rec.ended.clear();
                }
            }
        }
        self.worlds.append(&mut self.perhaps_set_up);
        // The wallet is locked from here on, so nothing may be signed before the next unlock.
        for w in &mut self.worlds {
            w.config.open = false;
        }
        self.merge_worlds();
        self.running = false;
        self.disk_failed = None;
    }

    pub(crate) fn on_stopped(&mut self) -> Result<(), Violation> {
        if let Some((ticket, open)) = self.open.iter().next() {
            let what = format!(
                "the process stopped in good order, but {ticket} ({:?}) has no answer",
                open.asked
            );
            return Err(violation("I-n", what));
        }
        self.down();
        Ok(())
    }

    pub(crate) fn on_started(&mut self) {
        self.down();
        self.running = true;
        self.count("start");
    }

    /// Notes since when each authorized request could have been signed.
    pub(crate) fn watch_calm(&mut self) {
        if self.calm.is_none() {
            return;
        }
        let now = self.time.instant();
        for rec in self.book.recs.values_mut() {
            let authorized = rec.id.is_some()
                && rec.stands(None).all(|s| matches!(s, St::Auth { .. }))
                && rec.digest.is_none();
            let able = authorized
                && rec.others.is_empty()
                && !rec.declined
                && !rec.lapsed
                && self.running
                && self.worlds.iter().all(|w| w.config.may_sign_for(&rec.agent).is_ok())
                && rec.valid_before().is_some_and(|(least, _)| now.second() < least);
            if !able {
                rec.signable = None;
            } else if rec.signable.is_none() {
                rec.signable = Some(now);
            }
        }
    }

    pub(crate) fn on_over(&mut self) -> Result<(), Violation> {
        if let Some((ticket, open)) = self.open.iter().next() {
            let what = format!(
                "{ticket} ({:?}), asked at event {}, never had an end",
                open.asked, open.seq
            );
            return Err(violation("I-n", what));
        }
        let now = self.time.instant();
        for rec in self.book.recs.values() {
            let since = rec.signable.map(|at| (at, at.ages(&now).1));
            if let Some((at, Some(ms))) = since
                && ms >= SIGNED_WITHIN_MS
            {
                let what = format!(
                    "request {:?} of {} is authorized and could have been signed since {at:?}; it is not at {now:?}",
                    rec.id, rec.agent
                );
                return Err(violation("I-n", what));
            }
        }
        self.count("over");
        Ok(())
    }
}
