//! The signatures and transactions of loans: each is authorized, in order, exact, and made once.

use super::LoanRecord;
use super::content::Content;
use crate::basics::{Id, Transaction};
use crate::lending::{Loan, VenueKind};
use crate::loan_decode::{LoanCall, decode_loan};
use crate::observations::Signed;
use crate::plans::JudgedStep;
use crate::plans::slots::{Kind, body, is_cancellation, slot_key};
use crate::trading::SignedContent;
use crate::{Auditor, Violation, violation};
use std::collections::BTreeSet;

/// A step, and the loan to which it belongs.
pub(super) struct Step {
    pub(super) key: u64,
    pub(super) kind: Kind,
    call: LoanCall,
}

impl Auditor {
    /// Judges a signature if it concerns a loan. Returns whether it does.
    pub(crate) fn on_loan_signed(&mut self, s: &Signed) -> Result<bool, Violation> {
        let named = s.request.as_ref().and_then(|id| self.loans.book.record_of_id(id));
        match &s.content {
            SignedContent::Permit(permit) => {
                if let Some(key) = named {
                    let what = format!("{permit:?} was signed; a loan has no permit");
                    return Err(self.loan_violation(key, "call data", &what));
                }
                return Ok(false);
            }
            SignedContent::Transaction(tx) => {
                let known = self.loans.book.slots.get(&slot_key(tx)).is_some();
                if !known && (self.transfers.asks_for(tx) || !self.is_loan_step(tx, named)) {
                    return Ok(false);
                }
                if s.signer.to_lowercase() != tx.from.to_lowercase() {
                    let what = format!("{} signed a transaction of {}", s.signer, tx.from);
                    return Err(violation("call data", what));
                }
                if !self.is_loan_signature(tx, s.request.as_ref())? {
                    return Ok(false);
                }
            }
            SignedContent::Undecodable => {
                let Some(key) = named else { return Ok(false) };
                self.check_authority::<Loan>(key)?;
            }
        }
        if let Some(rule) = self.forbidding_rule(None) {
            let what = format!("{} signed for a loan while the wallet is locked", s.signer);
            return Err(violation(rule, what));
        }
        self.count("signature: loan");
        Ok(true)
    }

    /// Returns whether a transaction can only belong to a loan: it calls a venue, or allows a venue to spend.
    fn is_loan_step(&self, tx: &Transaction, named: Option<u64>) -> bool {
        let Some(call) = decode_loan(&tx.data) else { return named.is_some() };
        let LoanCall::Approve { spender, .. } = call else {
            return !self.loans.facts.is_empty();
        };
        let venue = |r: &LoanRecord| {
            let vault = r.terms.kind == VenueKind::Vault && r.terms.venue == spender;
            r.terms.chain == tx.chain && vault
        };
        let singleton = self.loans.facts.get(&tx.chain).is_some_and(|f| f.singleton == spender);
        let trade = self.trades.book.records.values().any(|r| {
            let routers = self.trades.exchanges.get(&tx.chain);
            let there = routers.is_some_and(|ex| {
                [&ex.v3_router, &ex.universal_router, &ex.permit2].contains(&&spender)
            });
            r.terms.chain == tx.chain && there
        });
        let waits =
            self.loans.book.records.values().any(|r| r.terms.chain == tx.chain && r.may_live());
        let known = singleton || self.loans.book.records.values().any(venue);
        // If no trade can need it, an allowance for an unknown spender belongs to a loan.
        known
            || (!trade && waits && self.trades.book.records.values().all(|r| !r.may_live()))
            || named.is_some()
    }

    /// Judges a signed transaction. Returns whether it belongs to a loan.
    ///
    /// It may belong to a trade that uses the nonce of an unused loan step.
    fn is_loan_signature(
        &mut self,
        tx: &Transaction,
        request: Option<&Id>,
    ) -> Result<bool, Violation> {
        let at = slot_key(tx);
        let traded = self
            .trades
            .book
            .slots
            .get(&at)
            .is_some_and(|slot| !slot.is_unsent() && !slot.is_nonce_taken);
        let own = self.loans.book.slots.get(&at);
        if traded && own.is_some_and(|slot| slot.is_unsent() || slot.is_nonce_taken) {
            // A trade took the nonce that a loan never used, so this transaction belongs to the trade.
            return Ok(false);
        }
        if self.transfers.owns_nonce(&at) || traded {
            let what = format!("{tx:?} uses the nonce of another transaction");
            return Err(violation("I-b", what));
        }
        if let Some(slot) = self.loans.book.slots.get(&at) {
            let same = slot.body == body(tx);
            let free = (slot.may_be_unrecorded && slot.hashes.is_empty())
                || slot.is_nonce_taken
                || slot.is_unsent();
            // Another request may sign the same call with a nonce that was never used.
            let other = free && request.is_some() && slot.request.as_ref() != request;
            if (same && !other) || is_cancellation(tx) {
                self.replacement_signed::<Loan>(tx)?;
                return Ok(true);
            }
            let named = request.and_then(|id| self.loans.book.record_of_id(id));
            if free && !self.is_loan_step(tx, named) {
                return Ok(false);
            }
            if !free {
                let before = slot.body.clone();
                let judged = self.judge_loan_step(tx, request)?;
                self.nonce_signed_again::<Loan>(tx, &judged, &before)?;
                return Ok(true);
            }
        }
        let judged = self.judge_loan_step(tx, request)?;
        self.note_operation(&judged);
        self.note_step::<Loan>(&judged, tx, request);
        Ok(true)
    }

    /// Judges a new transaction. Returns its loan and the kind of its step.
    fn judge_loan_step(
        &mut self,
        tx: &Transaction,
        request: Option<&Id>,
    ) -> Result<JudgedStep, Violation> {
        let named = request.and_then(|id| self.loans.book.record_of_id(id));
        let Some(call) = decode_loan(&tx.data) else {
            let what = format!("{tx:?} is no call of a loan");
            return Err(self.step_violation(named, "call data", what));
        };
        if let LoanCall::Approve { spender, amount: 0 } = &call {
            let rec = self.loan_of_revocation(tx, spender, named);
            return Ok(JudgedStep::in_time(rec, Kind::Revoke));
        }
        let step = self.attribute_loan(tx, call, named, request)?;
        let (rec, kind) = (Some(step.key), step.kind);
        if self.check_authority::<Loan>(step.key)? {
            return Ok(JudgedStep { is_void: true, ..JudgedStep::in_time(rec, kind) });
        }
        self.check_plan::<Loan>(step.key, step.kind, tx)?;
        self.check_loan_content(step.key, tx, &step.call)?;
        self.check_supply(&step, tx)?;
        self.note_step_price(step.key);
        self.decided_by_step::<Loan>(step.key, tx);
        Ok(JudgedStep::in_time(rec, kind))
    }

    fn step_violation(&self, key: Option<u64>, rule: &'static str, what: String) -> Violation {
        match key {
            Some(key) => self.loan_violation(key, rule, &what),
            None => violation(rule, what),
        }
    }

    /// Checks the ceiling when the transaction of a supply is signed.
    fn check_supply(&self, step: &Step, tx: &Transaction) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.records.get(&step.key) else { return Ok(()) };
        if step.kind != Kind::Loan || !rec.is_supply() {
            return Ok(());
        }
        let living = rec.authorizations.iter().filter(|auth| !auth.is_killed);
        let since = living.map(|auth| auth.seq).max().unwrap_or(rec.from);
        self.check_ceiling(step.key, rec, &tx.from.to_lowercase(), since)
    }

    /// Returns the loan whose allowance is revoked: the one named by the signature, or else the newest that fits.
    fn loan_of_revocation(
        &self,
        tx: &Transaction,
        spender: &str,
        named: Option<u64>,
    ) -> Option<u64> {
        let from = tx.from.to_lowercase();
        let prefix = format!("095ea7b3{:0>64}", spender.trim_start_matches("0x"));
        let approved = |key: u64| {
            self.loans.book.slots.of_record(key).any(|((chain, f, _), slot)| {
                let here = *chain == tx.chain && *f == from && slot.kind == Kind::Approve;
                here && slot.body.2.starts_with(&prefix)
            })
        };
        let all = self.loans.book.records.keys().rev().copied();
        let fits: Vec<u64> = all.filter(|key| approved(*key)).collect();
        named.filter(|key| fits.contains(key)).or(fits.first().copied())
    }

    /// Returns the shares of a venue that any source showed for an address since the loan's call, or last before it.
    fn shares_shown(&self, rec: &LoanRecord, owner: &str) -> BTreeSet<u128> {
        let (chain, venue) = (rec.terms.chain, rec.terms.venue.as_str());
        let readings = &self.loans.readings;
        let read = readings.positions_since((chain, venue), owner, rec.from);
        let mut all: BTreeSet<u128> = read.filter_map(|(_, one)| one.shares).collect();
        let truths = readings.truth_at(chain, owner, rec.from).into_iter();
        let truths = truths.chain(readings.truths_since(chain, owner, rec.from));
        let of_venue =
            truths.flat_map(|truth| truth.positions.iter().filter(|(v, _, _)| v == venue));
        all.extend(of_venue.map(|(_, _, shares)| *shares));
        all
    }

    fn check_loan_content(
        &self,
        key: u64,
        tx: &Transaction,
        call: &LoanCall,
    ) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.records.get(&key) else { return Ok(()) };
        let config = self.possible_configs.first().map(|w| &w.config);
        let network = config.and_then(|config| config.networks.get(&tx.chain));
        let (Some(fact), Some(network)) = (self.loans.facts.get(&tx.chain), network) else {
            let what = "the network has no lending";
            return Err(self.loan_violation(key, "lending off", what));
        };
        let shares = self.shares_shown(rec, &tx.from.to_lowercase());
        let coin = network.stablecoin.as_str();
        let content = Content { loan: &rec.terms, tx, fact, coin, shares: &shares };
        content.check(call).map_err(|(rule, what)| self.loan_violation(key, rule, &what))
    }

    /// Finds the loan to which a step belongs.
    fn attribute_loan(
        &self,
        tx: &Transaction,
        call: LoanCall,
        named: Option<u64>,
        request: Option<&Id>,
    ) -> Result<Step, Violation> {
        let kind = if call.is_main() { Kind::Loan } else { Kind::Approve };
        let from = tx.from.to_lowercase();
        let of = |r: &LoanRecord| r.terms.chain == tx.chain && r.is_paid_by(&from).1;
        let rank = |key: u64, r: &LoanRecord| {
            let unused = !self.loans.book.slots.of_record(key).any(|(_, slot)| slot.kind == kind);
            let alive = r.authorizations.iter().any(|auth| !auth.is_killed);
            let fits = self.check_loan_content(key, tx, &call).is_ok();
            // If the signature names a request, a loan with another id does not match.
            let own = request.zip(r.id.as_ref()).is_none_or(|(request, id)| request == id);
            let begun = self.loans.book.has_begun(key);
            (Some(key) == named, fits, r.may_live() && unused, own, alive, begun)
        };
        let all = self.loans.book.records.iter().filter(|(_, r)| of(r));
        let best = all.max_by_key(|(key, r)| rank(**key, r)).map(|(key, _)| *key);
        match best.filter(|key| named.is_none_or(|named| named == *key)).or(named) {
            Some(key) => {
                if best != Some(key) {
                    let what = format!("{tx:?} is not on its network, or not from its address");
                    return Err(self.loan_violation(key, "call data", &what));
                }
                Ok(Step { key, kind, call })
            }
            None => Err(violation("call data", format!("{tx:?} belongs to no loan"))),
        }
    }

    /// Notes a broadcast transaction if it is a step of a loan. Returns whether it is.
    pub(crate) fn on_loan_broadcast(&mut self, tx: &Transaction) -> Result<bool, Violation> {
        let at = slot_key(tx);
        self.check_not_void::<Loan>(tx)?;
        self.check_not_rejected::<Loan>(tx)?;
        let slot = self.loans.book.slots.get(&at);
        let unsent = slot
            .is_some_and(|slot| slot.is_unsent() && slot.body != body(tx) && !is_cancellation(tx));
        if slot.is_none() || unsent {
            let foreign = self.transfers.owns_nonce(&at)
                || self.transfers.asks_for(tx)
                || self.trades.book.slots.get(&at).is_some_and(|slot| slot.body == body(tx));
            if foreign || self.loans.book.records.is_empty() || !self.is_loan_step(tx, None) {
                return Ok(false);
            }
            // The signature of this transaction was shown without its content, so the transaction is judged now.
            let judged = self.judge_loan_step(tx, None)?;
            if judged.is_void {
                let what = format!("{tx:?} was broadcast after the end of its plan");
                return Err(violation("T-53", what));
            }
            self.note_operation(&judged);
            self.loans.book.slots.insert(at, judged.slot(tx, None, self.seq));
        }
        self.step_sent::<Loan>(tx)
    }
}
