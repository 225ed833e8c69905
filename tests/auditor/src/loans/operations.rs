//! The operations of an agent today: the supplies and withdrawals that it sent.

use super::LoanRecord;
use crate::Auditor;
use crate::clocks::local_date;
use crate::plans::JudgedStep;
use crate::plans::slots::Kind;

impl Auditor {
    /// Notes the first signature of a loan's main transaction.
    pub(super) fn note_operation(&mut self, judged: &JudgedStep) {
        let moves = judged.kind == Kind::Loan && !judged.is_void;
        let Some(key) = judged.rec.filter(|_| moves) else { return };
        if self.loans.book.main_of(key).is_none() {
            self.loans.operations.push((key, self.seq, self.time.instant()));
        }
    }

    /// Returns the operations of an agent today, without this loan: (least, most).
    ///
    /// The documents do not define whether a day is a local date or a period of the allowance. So both are counted: the
    /// lower number is the least, and the higher number the most. Held requests count only toward the most, and
    /// operations whose transactions failed do not count toward the least.
    pub(super) fn operations_today(&self, agent: &str, except: u64) -> (usize, usize) {
        let date = |wall_ms: i64| local_date(wall_ms, &self.time.now.zone);
        let today = date(self.time.now.wall_ms);
        let periods = self.trade_periods(agent);
        let book = &self.loans.book;
        let of = |key: u64| book.records.get(&key).is_some_and(|rec| rec.agent == agent);
        let stands = |key: u64| {
            book.main_of(key).is_some_and(|(_, slot)| !slot.may_return() && !slot.is_nonce_taken)
        };
        let mine = || self.loans.operations.iter().filter(|(key, _, _)| of(*key) && stands(*key));
        let by_date = mine().filter(|(_, _, at)| date(at.wall_ms) == today).count();
        let sent_since = |seq: u64| mine().filter(|(_, at, _)| *at > seq).count();
        let by_period = periods.iter().map(|p| sent_since(p.latest)).min();
        let began = periods.iter().map(|p| p.period.since_event).min().unwrap_or(0);
        // An operation may count on the day on which its transaction became final.
        let recent = |key: u64, rec: &LoanRecord| {
            let signed = book.main_of(key).map_or(0, |(_, slot)| slot.signed_at);
            let shown = rec.history.last().map_or(0, |(seq, _)| *seq);
            // An unfinished loan has no reported end, so its transaction may have become final at any time.
            rec.may_live() || rec.from.max(signed).max(shown) > began
        };
        let others = book.records.iter().filter(|(key, rec)| {
            let other = **key != except && rec.agent == agent && rec.refused.is_none();
            other && recent(**key, rec)
        });
        let least = by_period.unwrap_or(by_date).min(by_date);
        (least, others.count().max(by_date))
    }
}
