//! The reported states of a loan: forward only, final only on the chain's evidence, and with what truly moved.

use super::amounts::moved;
use crate::expect::OpenCall;
use crate::lending::LoanState;
use crate::loan_book::LoanRecord;
use crate::trade_slots::{Kind, Slot, SlotKey};
use crate::{Auditor, Violation};

/// Returns the phase of a state: 0 pending, 1 executing, 2 ended.
pub(super) fn phase(state: &LoanState) -> u8 {
    match state {
        LoanState::Pending => 0,
        LoanState::Executing => 1,
        LoanState::Executed { .. } | LoanState::Rejected { .. } | LoanState::Failed { .. } => 2,
    }
}

impl Auditor {
    /// Checks a reported state against everything reported and seen before.
    pub(super) fn check_loan_state(
        &mut self,
        key: u64,
        open: &OpenCall,
        since: u64,
        state: &LoanState,
    ) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        if let Some(first) = &rec.refused {
            if first != state {
                let what = format!("it was refused as {first:?}, and is {state:?} now");
                return Err(self.loan_violation(key, "I-p", &what));
            }
            return Ok(());
        }
        let shown = rec.phase_at(since);
        if let Some(end) = rec.end.as_ref().filter(|_| !rec.soft_end && shown == 2) {
            if end != state {
                let what = format!("it had ended as {end:?}, and is {state:?} now");
                return Err(self.loan_violation(key, "I-p", &what));
            }
            return Ok(());
        }
        if phase(state) < shown {
            let what = format!("its status went back to {state:?}");
            return Err(self.loan_violation(key, "I-p", &what));
        }
        self.check_new_state(key, open, state)?;
        let (seq, now) = (self.seq, self.time.instant());
        let soft = self.disk_failed.is_some() && matches!(state, LoanState::Rejected { .. });
        if let Some(rec) = self.loans.book.recs.get_mut(&key) {
            rec.accepted = true;
            rec.history.push((seq, phase(state)));
            if phase(state) == 2 {
                rec.end = Some(state.clone());
                rec.soft_end = soft;
                rec.ended = Some(now);
                rec.last_poll = None;
            }
        }
        self.count(match state {
            LoanState::Pending => "loan: pending",
            LoanState::Executing => "loan: executing",
            LoanState::Executed { .. } => "loan: executed",
            LoanState::Rejected { .. } => "loan: rejected",
            LoanState::Failed { .. } => "loan: failed",
        });
        Ok(())
    }

    fn check_new_state(
        &self,
        key: u64,
        open: &OpenCall,
        state: &LoanState,
    ) -> Result<(), Violation> {
        match state {
            LoanState::Pending => self.check_loan_pending(key, open),
            LoanState::Executing => self.check_loan_executing(key),
            LoanState::Executed { tx_hash, assets_moved, position_after } => {
                self.check_loan_executed(key, tx_hash, *assets_moved)?;
                self.check_position(key, *position_after)
            }
            LoanState::Rejected { .. } => {
                self.check_loan_effect(key, state)?;
                self.check_loan_rejected(key)?;
                self.check_end_codes(key, state)
            }
            LoanState::Failed { .. } => {
                self.check_loan_effect(key, state)?;
                self.check_loan_executing(key)?;
                self.check_end_codes(key, state)
            }
        }
    }

    fn check_end_codes(&self, key: u64, state: &LoanState) -> Result<(), Violation> {
        self.check_money_refusal(key, &super::refusals::codes_of(state))?;
        super::refusals::check_retryable(state)
            .map_err(|what| self.loan_violation(key, "answers", &what))
    }

    fn check_loan_pending(&self, key: u64, open: &OpenCall) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let now = self.time.instant();
        if open.isolated && rec.accepted && rec.until.is_some() && rec.expired(&now).0 {
            let what = "it is pending after 15 minutes";
            return Err(self.loan_violation(key, "I-e", what));
        }
        if self.loans.book.begun(key) {
            let what = "it is pending, but a step of it was signed";
            return Err(self.loan_violation(key, "I-p", what));
        }
        Ok(())
    }

    /// Checks that something authorizes the execution of the loan.
    fn check_loan_executing(&self, key: u64) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        if rec.accepted && rec.authorizations.is_empty() && !rec.lost {
            let what = "it is executed, but the operator did not approve it";
            return Err(self.loan_violation(key, "approvals", what));
        }
        Ok(())
    }

    /// Checks an executed loan: its transaction is final, and the amount is what the chain moved.
    fn check_loan_executed(
        &self,
        key: u64,
        tx_hash: &str,
        assets_moved: Option<u128>,
    ) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let mains = self.loans.book.slots.of(key).filter(|(_, slot)| slot.kind == Kind::Loan);
        let Some((at, slot)) = mains.max_by_key(|(_, slot)| slot.hashes.contains(tx_hash)) else {
            let what = "it is executed, but nothing that moves its money was signed";
            return Err(self.loan_violation(key, "executed", what));
        };
        if !slot.hashes.contains(tx_hash) {
            let what = format!("it is executed by {tx_hash}; its own is {:?}", slot.hashes);
            return Err(self.loan_violation(key, "executed", &what));
        }
        if !self.loan_is_final(at, slot) || !slot.succeeded() {
            let what = "it is executed, but its transaction has not succeeded with the network's confirmations";
            return Err(self.loan_violation(key, "executed", what));
        }
        let coins = self.possible_configs.first().map(|w| &w.config.networks);
        let coin = coins.and_then(|all| all.get(&at.0)).map(|network| &network.stablecoin);
        let (Some(told), Some(included), Some(coin)) = (assets_moved, &slot.included, coin) else {
            return Ok(());
        };
        let right = moved(rec, included, coin, &at.1);
        if told != right {
            let what = format!("it reports that {told} moved; by the chain {right} moved");
            return Err(self.loan_violation(key, "fill", &what));
        }
        Ok(())
    }

    /// Checks a reported position: a node or the chain showed this value after the transaction was signed.
    fn check_position(&self, key: u64, position_after: Option<u128>) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let (Some(told), Some((at, slot))) = (position_after, self.loans.book.main_of(key)) else {
            return Ok(());
        };
        let place = (rec.loan.chain, rec.loan.venue.as_str());
        let read = self.loans.readings.positions_since(place, &at.1, slot.signed);
        let mut shown: Vec<u128> = read.filter_map(|(_, one)| one.value).collect();
        for truth in self.loans.readings.truths_since(place.0, &at.1, slot.signed) {
            let value = truth.positions.iter().find(|(venue, _, _)| *venue == rec.loan.venue);
            shown.push(value.map_or(0, |(_, value, _)| *value));
        }
        if !shown.contains(&told) {
            let what =
                format!("it reports the position {told}; since its signature {shown:?} were shown");
            return Err(self.loan_violation(key, "position", &what));
        }
        Ok(())
    }

    /// Returns whether a transaction has the network's confirmations.
    fn loan_is_final(&self, at: &SlotKey, slot: &Slot) -> bool {
        if slot.mined.is_some() || slot.taken || slot.cancelled {
            return true;
        }
        let deep = self.loans.facts.get(&at.0).map_or(1, |fact| fact.confirmations);
        let newest = self.trades.market.newest_block(at.0);
        slot.included.as_ref().zip(newest).is_some_and(|(included, newest)| {
            newest.saturating_add(1) >= included.block.saturating_add(deep)
        })
    }

    /// Checks that a loan that ends without effect has no transaction that may have, or still get, one.
    ///
    /// Else its reservation would end twice: returned, and spent by the chain.
    fn check_loan_effect(&self, key: u64, state: &LoanState) -> Result<(), Violation> {
        for (at, slot) in self.loans.book.slots.of(key).filter(|(_, s)| s.kind == Kind::Loan) {
            let unsent = slot.hashes.is_empty() && slot.cancel_hashes.is_empty();
            let reverted =
                slot.mined == Some(false) || (slot.included.is_some() && !slot.succeeded());
            let dead = slot.cancelled || reverted;
            if unsent || slot.taken || (dead && self.loan_is_final(at, slot)) {
                continue;
            }
            let what =
                format!("it ended as {state:?}, but its transaction may have an effect: {slot:?}");
            return Err(self.loan_violation(key, "I-d", &what));
        }
        Ok(())
    }

    /// Checks that something explains the rejection of a loan that was accepted.
    fn check_loan_rejected(&self, key: u64) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        if !self.is_explained(rec) {
            let what = "it was rejected without expiry, denial or approval";
            return Err(self.loan_violation(key, "I-p", what));
        }
        Ok(())
    }

    fn is_explained(&self, rec: &LoanRecord) -> bool {
        let now = self.time.instant();
        let newest_s = self.trades.market.newest_time_s(rec.loan.chain).unwrap_or(0);
        let late = rec.loan.deadline_s.is_some_and(|at| at <= newest_s);
        let decided = !rec.authorizations.is_empty() || !rec.denials.is_empty();
        let known = rec.accepted && rec.until.is_some();
        !known || decided || rec.expired(&now).1 || late || rec.maybe_closed
    }
}
