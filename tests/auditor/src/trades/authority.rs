//! Who may sign a step of a trade, and when: approvals, automatic execution, and one plan at a time.

use super::judge::UNQUOTED;
use crate::basics::Transaction;
use crate::clocks::{Instant, Time};
use crate::market::is_wrap;
use crate::trade_book::{Authorization, TradeRecord};
use crate::trade_slots::Kind;
use crate::trading::TradeState;
use crate::{Auditor, Violation};

/// Plans of one agent that may pay for gas and fail on one UTC day before the operator is asked.
const FAILED_A_DAY: usize = 20;

/// Nothing unsigned survives this time after its approval (5 minutes).
pub(crate) const UNSIGNED_MS: i64 = 300_000;

/// Returns whether nothing unsigned survives of an authorization because five minutes are over.
pub(crate) fn has_lapsed(auth: &Authorization, now: &Instant) -> bool {
    decided(auth, now).elapsed(now).1.is_none_or(|ms| ms > UNSIGNED_MS)
}

/// Returns whether a plan may have ended because five minutes are over since the first moment of its authorizations.
pub(crate) fn may_have_lapsed(all: &[Authorization], now: &Instant) -> bool {
    let over = |auth: &Authorization| auth.opened.elapsed(now).1.is_none_or(|ms| ms >= UNSIGNED_MS);
    !all.is_empty() && all.iter().all(over)
}

/// Returns whether the time in which a swap may be signed may be over, because it may have been ordered as soon as this
/// authorization began. The wallet measures it by the wall clock, which may have been set meanwhile.
fn swap_may_be_over(auth: &Authorization, swap_s: u64, time: &Time) -> bool {
    let ms = i64::try_from(swap_s.saturating_mul(1000)).unwrap_or(i64::MAX);
    let by_wall = time.latest_ms.saturating_sub(auth.opened.wall_ms);
    by_wall >= ms || auth.opened.elapsed(&time.instant()).1.is_none_or(|boot| boot >= ms)
}

/// Like [`has_lapsed`], but after a boot the wall clock decides.
pub(crate) fn has_surely_lapsed(auth: &Authorization, now: &Instant) -> bool {
    let (wall, boot) = decided(auth, now).elapsed(now);
    boot.unwrap_or(wall) > UNSIGNED_MS
}

/// Returns the latest instant at which an authorization may have been decided.
fn decided(auth: &Authorization, now: &Instant) -> Instant {
    auth.closed.or(auth.lost).unwrap_or(*now)
}

impl Auditor {
    /// Checks that a new step of a trade may be signed now. Returns whether its signature is void.
    ///
    /// A slow signer may finish after the end of the plan. Such a signature must never be broadcast.
    pub(super) fn check_authority(&self, key: u64) -> Result<bool, Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(false) };
        if let Some(rule) = self.forbids(Some(&rec.agent)) {
            let what = "a step was signed, but nothing may be signed for the agent";
            return Err(self.trade_violation(key, rule, what));
        }
        let allows = |w: &crate::config::PossibleConfig| {
            let policy = w.config.policy_of(&rec.agent).map(|(_, p)| &p.policy);
            let chain = rec.trade.chain;
            let on = w.config.networks.get(&chain).is_some_and(|n| n.on);
            on && policy.is_some_and(|p| {
                p.trading.enabled && p.networks.as_ref().is_none_or(|n| n.contains(&chain))
            })
        };
        if !self.possible_configs.iter().any(allows) {
            // A slow signer may finish after trading or the network was turned off.
            return Ok(true);
        }
        if rec.rejected {
            return Ok(true);
        }
        let now = self.time.instant();
        // What was written before a crash continues after the restart, within its five minutes.
        let alive = |auth: &&Authorization| !auth.killed || auth.lost.is_some();
        let in_time = |auth: &&Authorization| !has_surely_lapsed(auth, &now);
        let mut living = rec.authorizations.iter().filter(alive).peekable();
        if living.peek().is_none() {
            let (rule, what) = if rec.denied() {
                ("approvals", "a step was signed after the operator had denied the trade")
            } else if rec.authorizations.is_empty() {
                ("approvals", "a step was signed before an approval")
            } else {
                ("T-53", "a step was signed that a freeze, lock or suspension had ended")
            };
            return Err(self.trade_violation(key, rule, what));
        }
        let executed = matches!(rec.end, Some(TradeState::Executed { .. }));
        if executed {
            let what = "a step was signed after the trade had ended";
            return Err(self.trade_violation(key, "I-p", what));
        }
        let begun: Vec<&Authorization> = living.filter(in_time).collect();
        let ended = rec.refused.is_some() || (rec.end.is_some() && !rec.soft_end);
        if begun.is_empty() || ended {
            return Ok(true);
        }
        self.check_permission(key, rec, &begun).map(|()| false)
    }

    /// Returns whether the plan of a trade may have ended because its swap was not signed in time.
    ///
    /// The swap may also have been ordered later, so that its signature is in time.
    pub(super) fn may_be_late(&self, key: u64) -> bool {
        let Some(rec) = self.trades.book.recs.get(&key) else { return false };
        let swap_s = self.trades.exchanges.get(&rec.trade.chain).map_or(0, |ex| ex.deadline_s);
        rec.authorizations.iter().any(|auth| swap_may_be_over(auth, swap_s, &self.time))
    }

    /// Checks the first condition of an authorization: below the threshold, or a fresh quote that still reaches.
    fn check_permission(
        &self,
        key: u64,
        rec: &TradeRecord,
        begun: &[&Authorization],
    ) -> Result<(), Violation> {
        let approvals: Vec<&&Authorization> = begun.iter().filter(|a| !a.by_call).collect();
        if approvals.is_empty() {
            self.check_failures(key, rec)?;
            return self.check_automatic(key, rec);
        }
        let ex = self.trades.exchanges.get(&rec.trade.chain);
        if ex.is_none_or(|ex| is_wrap(&rec.trade, &ex.wrapped)) {
            return Ok(());
        }
        let late = approvals.iter().all(|auth| rec.expired(&auth.opened).0);
        if late {
            let what = "a step was signed although the approval came after 15 minutes";
            return Err(self.trade_violation(key, "I-e", what));
        }
        let since = approvals.iter().map(|auth| auth.seq).min().unwrap_or(0);
        self.check_policy_again(key, &approvals)?;
        let Some(best) = self.best_since(rec, since) else {
            let what = "a step was signed, but the pool was not quoted since the approval";
            return Err(self.trade_violation(key, "price moved", what));
        };
        match self.committed_floor(rec) {
            Some((floor, _)) if best < floor => {
                let what = format!(
                    "a step was signed, but the fresh quote {best} is below the committed minimum {floor}"
                );
                Err(self.trade_violation(key, "price moved", &what))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the policy allows the fresh value in some state since the approval.
    fn check_policy_again(&self, key: u64, approvals: &[&&Authorization]) -> Result<(), Violation> {
        let begun = self.trades.book.slots.of(key).next().is_some();
        if begun || approvals.iter().any(|auth| auth.snapshots.is_empty()) {
            return Ok(());
        }
        let mut why = None;
        for auth in approvals {
            for snapshot in &auth.snapshots {
                let Some((verdict, _)) = self.verdict_in(key, auth.seq, snapshot) else { continue };
                let unquoted = verdict.must_refuse == Some(UNQUOTED);
                if (verdict.must_refuse.is_none() || unquoted) && !verdict.volume_must {
                    return Ok(());
                }
                why = Some(verdict.must_refuse.unwrap_or("it exceeds the daily volume"));
            }
        }
        let why = why.unwrap_or("the agent has no policy");
        let rule = if why.contains("daily volume") { "volume" } else { "refusals" };
        let what = format!("a step was signed after the approval, but {why}");
        Err(self.trade_violation(key, rule, &what))
    }

    /// Checks that a plan which nobody approved begins only while few plans of its agent have failed today.
    fn check_failures(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let book = &self.trades.book;
        let Some(today) = self.time.sure_day() else { return Ok(()) };
        if rec.day != Some(today) || book.slots.of(key).next().is_some() {
            return Ok(());
        }
        let mine = book.recs.iter().filter(|(_, r)| r.agent == rec.agent && r.day == Some(today));
        let failed = mine.filter(|(other, r)| book.surely_failed(**other, r)).count();
        if failed >= FAILED_A_DAY {
            let what = format!("a plan began without approval after {failed} failed ones today");
            return Err(self.trade_violation(key, "failed plans", &what));
        }
        Ok(())
    }

    /// Checks that a trade which nobody approved may be executed.
    fn check_automatic(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let mut why = rec.not_automatic;
        if rec.automatic {
            return Ok(());
        }
        for open in self.trades.open.values().filter(|open| open.rec == key) {
            for verdict in self.verdicts(open) {
                if verdict.must_hold.is_none() && !verdict.volume_must {
                    return Ok(());
                }
                let volume = verdict.volume_must.then_some("it exceeds the daily volume");
                why = verdict.must_hold.or(volume).or(why);
            }
        }
        let why = why.unwrap_or("no state of the wallet allows it");
        let what = format!("it was executed without asking, but {why}");
        Err(self.trade_violation(key, rule_of(why), &what))
    }

    /// Checks the order of the steps: one plan at a time, each step once, and each after the one before.
    pub(super) fn check_plan(
        &self,
        key: u64,
        kind: Kind,
        tx: &Transaction,
    ) -> Result<(), Violation> {
        let book = &self.trades.book;
        let from = tx.from.to_lowercase();
        if book.slots.of(key).any(|(_, slot)| slot.kind == kind && !slot.taken) {
            let (rule, what) = match kind {
                Kind::Swap => ("I-b", "a second swap was signed"),
                _ => ("allowance", "a second allowance was signed"),
            };
            return Err(self.trade_violation(key, rule, what));
        }
        for (other, rec) in book.recs.iter().filter(|(other, _)| **other != key) {
            let here = book.slots.of(*other).any(|((c, f, _), _)| *c == tx.chain && *f == from);
            if here && !self.plan_is_over(*other, rec) {
                let what = format!(
                    "a step was signed while the plan of {:?} was unfinished on the same address",
                    rec.id
                );
                return Err(self.trade_violation(key, "one plan", &what));
            }
        }
        if let Some(loan) = self.unfinished_loan(tx.chain, &from, None) {
            let what = format!(
                "a step was signed while the plan of the loan {:?} was unfinished on the same address",
                self.loans.book.recs.get(&loan).and_then(|rec| rec.id.clone())
            );
            return Err(self.trade_violation(key, "one plan", &what));
        }
        let now = self.time.instant();
        let unfinished = book.slots.of(key).any(|(_, slot)| {
            let allows = matches!(slot.kind, Kind::Approve | Kind::Permit2Approve);
            allows && !slot.may_have_receipt(&now)
        });
        if kind == Kind::Swap && unfinished {
            let what = "the swap was signed before its allowance was mined";
            return Err(self.trade_violation(key, "plan order", what));
        }
        Ok(())
    }

    /// Returns the trade whose plan is unfinished on this address.
    pub(crate) fn unfinished_trade(&self, chain: u64, from: &str) -> Option<u64> {
        let book = &self.trades.book;
        let here = |key: u64| book.slots.of(key).any(|((c, f, _), _)| *c == chain && f == from);
        let recs = book.recs.iter().filter(|(key, _)| here(**key));
        recs.filter(|(key, rec)| !self.plan_is_over(**key, rec)).map(|(key, _)| *key).next()
    }

    /// Returns whether a plan may be over: nothing is in flight, and its allowance is used or revoked.
    fn plan_is_over(&self, key: u64, rec: &TradeRecord) -> bool {
        let slots = || self.trades.book.slots.of(key).map(|(_, slot)| slot);
        if slots().any(|slot| !slot.is_done() && !slot.is_unsent()) {
            return false;
        }
        // What a freeze, or the end of five minutes, interrupted may be kept.
        let now = self.time.instant();
        let dead = rec.authorizations.iter().all(|auth| auth.killed || has_lapsed(auth, &now));
        // Nothing is signed for a stopped agent, so its revocation waits, and other plans do not wait for it.
        let stopped = self.forbids(Some(&rec.agent)).is_some();
        let approved = slots()
            .any(|s| matches!(s.kind, Kind::Approve | Kind::Permit2Approve) && s.succeeded());
        let used = slots().any(|s| s.kind == Kind::Swap && s.succeeded());
        let revoked = slots()
            .any(|s| (s.kind == Kind::Revoke && s.succeeded()) || s.is_reverted_revocation());
        dead || stopped || !approved || used || revoked
    }

    /// Checks, in whatever order concurrent calls were decided, that the swaps are within the daily volume.
    ///
    /// Compares with the largest volume that was ever in force.
    pub(super) fn check_volume(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let Some((least, _)) = rec.value else { return Ok(()) };
        let periods = self.trade_periods(&rec.agent);
        let used = self.trades.book.used(&rec.agent, key, &periods, &self.time.instant());
        let most = self.trades.largest_volume.get(&rec.agent).copied().unwrap_or(0);
        let sum = used.0.saturating_add(least);
        if sum > most {
            let what = format!(
                "a swap was signed that makes the volume of the day {sum}; it was never above {most}"
            );
            return Err(self.trade_violation(key, "volume", &what));
        }
        Ok(())
    }
}

/// Returns the rule that a trade breaks which needed the operator for this reason.
pub(crate) fn rule_of(why: &str) -> &'static str {
    let price = ["price API", "the feed", "the price", "API and feed", "has no price"];
    if why.contains("daily volume") {
        "volume"
    } else if why.contains("not below") {
        "I-j"
    } else if price.iter().any(|part| why.contains(part)) {
        "value"
    } else {
        "automatic"
    }
}
