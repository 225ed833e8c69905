//! The loans in the operator's list of held requests, and their cards.

use crate::basics::{Id, Ticket};
use crate::config::PossibleConfig;
use crate::expect::OpenCall;
use crate::loan_book::LoanRecord;
use crate::observations::Listed;
use crate::{Auditor, Violation};

impl Auditor {
    /// Checks the loans in a list of held requests.
    pub(crate) fn loans_listed(
        &mut self,
        open: &OpenCall,
        list: &[Listed],
    ) -> Result<(), Violation> {
        let now = self.time.instant();
        for listed in list.iter().filter(|listed| listed.trade) {
            let id = &listed.id;
            if !self.loans.book.knows(id) && !self.trades.book.knows(id) {
                self.claim_listed_loan(listed);
            }
            let Some(key) = self.loans.book.by_id.get(id).copied() else { continue };
            let Some(rec) = self.loans.book.recs.get(&key) else { continue };
            if open.isolated && rec.phase_at(open.seq) > 0 {
                let what = "it is listed as held, but it was decided";
                return Err(self.loan_violation(key, "I-p", what));
            }
            if open.isolated {
                self.loan_card(key, &listed.card)?;
            }
        }
        let here = |id: &Option<Id>| list.iter().any(|l| Some(&l.id) == id.as_ref());
        for (key, rec) in &self.loans.book.recs {
            if open.isolated && rec.surely_held(&now) && rec.id.is_some() && !here(&rec.id) {
                return Err(self.loan_violation(*key, "I-p", "it is held, but it is not listed"));
            }
        }
        Ok(())
    }

    /// Finds the loan of an id that was never returned. The trades look for it if no loan may have it.
    fn claim_listed_loan(&mut self, listed: &Listed) {
        let now = self.time.instant();
        let may = |r: &LoanRecord| {
            r.id.is_none() && r.agent == listed.agent && (r.lost || r.may_be_held(&now))
        };
        let recs = self.loans.book.recs.iter();
        let found: Vec<u64> = recs.filter(|(_, r)| may(r)).map(|(key, _)| *key).collect();
        let trades =
            self.trades.book.recs.values().any(|r| {
                r.id.is_none() && r.agent == listed.agent && (r.lost || r.may_be_held(&now))
            });
        match found.as_slice() {
            [] => {}
            [key] if !trades => self.loans.book.bind(*key, &listed.id),
            _ => {
                self.loans.book.loose_ids.insert(listed.id.clone());
            }
        }
    }

    /// Checks a card's digest: the same under one version of the policy.
    fn loan_card(&mut self, key: u64, digest: &str) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let mut all = self.possible_configs.iter().map(|w| w.config.policy_of(&rec.agent));
        let Some(Some((policy, first))) = all.next() else { return Ok(()) };
        if all.any(|other| other != Some((policy, first))) {
            return Ok(());
        }
        let here = (policy, first.version, digest.to_owned());
        let changed = |c: &&(Ticket, u64, String)| (c.0, c.1) == (here.0, here.1) && c.2 != here.2;
        if let Some(before) = rec.cards.iter().find(changed) {
            let what = format!("its card was {before:?}, and is {here:?} under the same policy");
            return Err(self.loan_violation(key, "card", &what));
        }
        if let Some(rec) = self.loans.book.recs.get_mut(&key) {
            rec.cards.push(here);
        }
        Ok(())
    }

    /// Checks that the card which the operator approved is the current one.
    pub(super) fn check_loan_card_shown(&self, key: u64, shown: &str) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let current = |w: &PossibleConfig| {
            let policy = w.config.policy_of(&rec.agent).map(|(uid, p)| (uid, p.version));
            rec.cards.iter().any(|c| Some((c.0, c.1)) == policy && c.2 != shown)
        };
        if !self.possible_configs.is_empty() && self.possible_configs.iter().all(current) {
            let what = format!("it was approved by the card {shown}, which is not the current one");
            return Err(self.loan_violation(key, "card", &what));
        }
        Ok(())
    }
}
