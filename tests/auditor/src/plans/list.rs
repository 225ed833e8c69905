//! The trades and loans in the operator's list of held requests, and their cards.

use super::{Plan, PlanBook, PlanRecord};
use crate::basics::{Id, Ticket};
use crate::clocks::Instant;
use crate::config::PossibleConfig;
use crate::expect::OpenCall;
use crate::lending::Loan;
use crate::observations::Listed;
use crate::trading::Trade;
use crate::{Auditor, Violation, violation};

impl<P: Plan> PlanBook<P> {
    /// Returns the records without an id that may be this listed request.
    fn may_be_listed(&self, listed: &Listed, now: &Instant) -> Vec<u64> {
        let may = |r: &PlanRecord<P>| {
            r.id.is_none() && r.agent == listed.agent && (r.lost || r.may_be_held(now))
        };
        self.records.iter().filter(|(_, r)| may(r)).map(|(key, _)| *key).collect()
    }
}

impl Auditor {
    /// Checks the trades and loans in a list of held requests.
    pub(crate) fn plans_listed(
        &mut self,
        open: &OpenCall,
        list: &[Listed],
    ) -> Result<(), Violation> {
        let plans = || list.iter().filter(|listed| listed.trade);
        for listed in plans() {
            if !self.loans.book.knows_id(&listed.id) && !self.trades.book.knows_id(&listed.id) {
                self.claim_listed_loan(listed);
            }
            self.check_listed::<Loan>(open, listed)?;
        }
        self.check_all_listed::<Loan>(open, list)?;
        for listed in plans() {
            if self.loans.book.knows_id(&listed.id) {
                continue;
            }
            if !self.trades.book.knows_id(&listed.id) {
                self.claim_listed_trade(listed)?;
            }
            self.check_listed::<Trade>(open, listed)?;
        }
        self.check_all_listed::<Trade>(open, list)
    }

    /// Finds the loan of a listed id that no answer has returned. If no loan can have this id, a trade must have it.
    fn claim_listed_loan(&mut self, listed: &Listed) {
        let now = self.time.instant();
        let trades = self.trades.book.may_be_listed(listed, &now);
        match self.loans.book.may_be_listed(listed, &now).as_slice() {
            [] => {}
            [key] if trades.is_empty() => self.loans.book.bind(*key, &listed.id),
            _ => {
                self.loans.book.unassigned_ids.insert(listed.id.clone());
            }
        }
    }

    /// Finds the trade of a listed id that no answer has returned, and that no loan can have.
    fn claim_listed_trade(&mut self, listed: &Listed) -> Result<(), Violation> {
        let now = self.time.instant();
        match self.trades.book.may_be_listed(listed, &now).as_slice() {
            [] => {
                let what = format!("{} is listed, but no call may be held under it", listed.id);
                return Err(violation("I-m", what));
            }
            [key] => self.trades.book.bind(*key, &listed.id),
            _ => {
                self.trades.book.unassigned_ids.insert(listed.id.clone());
            }
        }
        Ok(())
    }

    fn check_listed<P: Plan>(&mut self, open: &OpenCall, listed: &Listed) -> Result<(), Violation> {
        let Some((key, rec)) = P::book(self).find(&listed.id) else { return Ok(()) };
        if !open.is_isolated {
            return Ok(());
        }
        if rec.phase_at(open.seq) > 0 {
            let what = "it is listed as held, but it was decided";
            return Err(self.plan_violation::<P>(key, "I-p", what));
        }
        self.note_card::<P>(key, &listed.card)
    }

    /// Checks that every request which is surely held is listed.
    fn check_all_listed<P: Plan>(&self, open: &OpenCall, list: &[Listed]) -> Result<(), Violation> {
        let now = self.time.instant();
        let here = |id: &Id| list.iter().any(|listed| listed.id == *id);
        for (key, rec) in &P::book(self).records {
            let hidden = rec.id.as_ref().is_some_and(|id| !here(id));
            if open.is_isolated && hidden && rec.is_surely_held(&now) {
                let what = "it is held, but it is not listed";
                return Err(self.plan_violation::<P>(*key, "I-p", what));
            }
        }
        Ok(())
    }

    /// Checks that a card's digest does not change while the policy has the same version.
    fn note_card<P: Plan>(&mut self, key: u64, digest: &str) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        let mut all = self.possible_configs.iter().map(|w| w.config.policy_of(&rec.agent));
        let Some(Some((policy, first))) = all.next() else { return Ok(()) };
        if all.any(|other| other != Some((policy, first))) {
            return Ok(());
        }
        let here = (policy, first.version, digest.to_owned());
        let changed = |c: &&(Ticket, u64, String)| (c.0, c.1) == (here.0, here.1) && c.2 != here.2;
        if let Some(before) = rec.cards.iter().find(changed) {
            let what = format!("its card was {before:?}, and is {here:?} under the same policy");
            return Err(self.plan_violation::<P>(key, "card", &what));
        }
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            rec.cards.push(here);
        }
        Ok(())
    }

    /// Checks that the card which the operator approved is the current one.
    pub(super) fn check_shown_card<P: Plan>(&self, key: u64, shown: &str) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        let current = |w: &PossibleConfig| {
            let policy = w.config.policy_of(&rec.agent).map(|(uid, p)| (uid, p.version));
            rec.cards.iter().any(|c| Some((c.0, c.1)) == policy && c.2 != shown)
        };
        if !self.possible_configs.is_empty() && self.possible_configs.iter().all(current) {
            let what = format!("it was approved by the card {shown}, which is not the current one");
            return Err(self.plan_violation::<P>(key, "card", &what));
        }
        Ok(())
    }
}
