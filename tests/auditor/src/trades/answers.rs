//! Finds wrong answers to `POST /trade`: an acceptance against the policy, or a refusal without a reason.

use super::authority::rule_of;
use super::judge::Verdict;
use crate::expect::OpenCall;
use crate::plans::OpenPlan;
use crate::trading::{Trade, TradeState};
use crate::{Auditor, Violation};

/// The `reason_code` of a refusal for the daily volume.
const EXCEEDS_VOLUME: &str = "EXCEEDS_DAILY_VOLUME";

impl Auditor {
    /// Checks that a trade was rightly accepted.
    pub(super) fn check_acceptance(
        &self,
        call: &OpenPlan<Trade>,
        state: &TradeState,
    ) -> Result<(), Violation> {
        let (key, verdicts) = (call.rec, self.verdicts(call));
        let begun = self.trades.book.has_begun(key);
        if begun && self.trades.book.records.get(&key).is_some_and(|rec| rec.may_be_automatic) {
            // The wallet decided before the first step of the plan, and that step was judged when it was signed.
            return Ok(());
        }
        let fits = |v: &Verdict| v.must_refuse.is_none() && !v.must_refuse_for_volume;
        if !verdicts.iter().any(fits) {
            let why = verdicts.iter().find_map(|v| v.must_refuse);
            let rule = if why.is_some() { "refusals" } else { "volume" };
            let what = format!(
                "it was answered {state:?}, but {}",
                why.unwrap_or("it exceeds the daily volume")
            );
            return Err(self.trade_violation(key, rule, &what));
        }
        // A trade that failed before any signature was not executed.
        let going = matches!(state, TradeState::Executing | TradeState::Executed { .. });
        let free = |v: &Verdict| v.must_hold.is_none() && !v.must_refuse_for_volume;
        let automatic = self.trades.book.records.get(&key).is_some_and(|rec| rec.may_be_automatic);
        if going && !automatic && !verdicts.iter().any(free) {
            let why =
                verdicts.iter().find_map(|v| v.must_hold).unwrap_or("it exceeds the daily volume");
            let what = format!("it was answered {state:?} without an approval, but {why}");
            return Err(self.trade_violation(key, rule_of(why), &what));
        }
        Ok(())
    }

    /// Checks that a trade was rightly refused, in the cases that the specification defines.
    pub(super) fn check_refusal(
        &self,
        open: &OpenCall,
        call: &OpenPlan<Trade>,
        reason: &str,
    ) -> Result<(), Violation> {
        let verdicts = self.verdicts(call);
        if reason == EXCEEDS_VOLUME && !verdicts.iter().any(|v| v.may_refuse_for_volume) {
            let used: Vec<_> = call.snapshots.iter().map(|s| s.used).collect();
            let what = format!("it was refused for the daily volume, of which {used:?} is used");
            return Err(self.trade_violation(call.rec, "volume", &what));
        }
        let decided = open.is_isolated && self.disk_failed.is_none() && !verdicts.is_empty();
        if decided && verdicts.iter().all(|v| v.must_accept) {
            let what = format!("it was refused ({reason}) although nothing is a reason to");
            return Err(self.trade_violation(call.rec, "refusals", &what));
        }
        Ok(())
    }
}
