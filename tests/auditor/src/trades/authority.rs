//! Who may sign a step of a trade: approvals, automatic execution, and the daily volume.

use super::TradeRecord;
use super::judge::UNQUOTED;
use crate::market::is_wrap;
use crate::plans::Authorization;
use crate::{Auditor, Violation};

/// When this many plans of an agent have paid for gas and failed on one UTC day, its next plan needs the operator.
const FAILED_PLANS_PER_DAY_MAX: usize = 20;

impl Auditor {
    /// Checks that a step may be signed: without an approval, or with one and a fresh quote that reaches the minimum.
    pub(super) fn check_permission(
        &self,
        key: u64,
        rec: &TradeRecord,
        in_time: &[&Authorization],
    ) -> Result<(), Violation> {
        let approvals: Vec<&&Authorization> = in_time.iter().filter(|a| !a.by_call).collect();
        if approvals.is_empty() {
            self.check_failures(key, rec)?;
            return self.check_automatic(key, rec);
        }
        let ex = self.trades.exchanges.get(&rec.terms.chain);
        if ex.is_none_or(|ex| is_wrap(&rec.terms, &ex.wrapped)) {
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

    /// Checks that in some state since the approval, the policy allows the trade at its fresh value.
    fn check_policy_again(&self, key: u64, approvals: &[&&Authorization]) -> Result<(), Violation> {
        let begun = self.trades.book.has_begun(key);
        if begun || approvals.iter().any(|auth| auth.snapshots.is_empty()) {
            return Ok(());
        }
        let mut why = None;
        for auth in approvals {
            for snapshot in &auth.snapshots {
                let Some((verdict, _)) = self.verdict_in(key, auth.seq, snapshot) else { continue };
                let unquoted = verdict.must_refuse == Some(UNQUOTED);
                if (verdict.must_refuse.is_none() || unquoted) && !verdict.must_refuse_for_volume {
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

    /// Checks that a plan without an approval begins only while few plans of its agent have failed today.
    fn check_failures(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let book = &self.trades.book;
        let Some(today) = self.time.sure_day() else { return Ok(()) };
        if rec.utc_day != Some(today) || book.has_begun(key) {
            return Ok(());
        }
        let mine =
            book.records.iter().filter(|(_, r)| r.agent == rec.agent && r.utc_day == Some(today));
        let failed = mine.filter(|(other, r)| self.trades.surely_failed(**other, r)).count();
        if failed >= FAILED_PLANS_PER_DAY_MAX {
            let what = format!("a plan began without approval after {failed} failed ones today");
            return Err(self.trade_violation(key, "failed plans", &what));
        }
        Ok(())
    }

    /// Checks that a trade without an approval may be executed.
    fn check_automatic(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let mut why = rec.not_automatic;
        if rec.may_be_automatic {
            return Ok(());
        }
        for call in self.trades.book.open.values().filter(|call| call.rec == key) {
            for verdict in self.verdicts(call) {
                if verdict.must_hold.is_none() && !verdict.must_refuse_for_volume {
                    return Ok(());
                }
                let volume =
                    verdict.must_refuse_for_volume.then_some("it exceeds the daily volume");
                why = verdict.must_hold.or(volume).or(why);
            }
        }
        let why = why.unwrap_or("no state of the wallet allows it");
        let what = format!("it was executed without asking, but {why}");
        Err(self.trade_violation(key, rule_of(why), &what))
    }

    /// Checks that the swaps are within the daily volume, in whatever order the wallet decided concurrent calls.
    ///
    /// Compares with the largest daily volume that was ever in force.
    pub(super) fn check_volume(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let Some((least, _)) = rec.extra.value else { return Ok(()) };
        let periods = self.trade_periods(&rec.agent);
        let used = self.trades.volume_of_others(&rec.agent, key, &periods, &self.time.instant());
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

/// Returns the rule that a trade breaks if it needed the operator for this reason and was executed without one.
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
