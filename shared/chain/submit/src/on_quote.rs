//! Reactions to a new quote: first offers, higher offers, and filling gaps.

use std::ops::Range;

use alloy_primitives::keccak256;
use bursar_core::time::Utc;

use crate::actions::{trouble_change, withdraw};
use crate::call::{Call, Fees};
use crate::event::{Event, Outcome};
use crate::fees;
use crate::input::{Action, Quote, Rules, Step};
use crate::outbox::{Attempt, ChainState, Kind, Outbox, Submission, SubmissionId, Trouble};
use crate::{apply, nonces};

/// Maximum number of attempts of one submission; twice as many if it needs an empty transaction. If each attempt
/// offers an eighth more, the last offer is about forty times the first.
const ATTEMPTS_MAX: usize = 32;

/// The number of patience periods after which a wait counts as very long.
const STUCK_PATIENCE_FACTOR: i64 = 8;

/// Decides on all offers that a quote permits. Works on a copy of the outbox, so that each decision sees the previous
/// decisions.
pub(crate) fn advance(outbox: &Outbox, rules: &Rules, at: Utc, quote: &Quote) -> Step {
    let mut draft = Draft { outbox: outbox.clone(), at, step: Step::default() };
    draft.first_offers(rules, quote);
    draft.higher_offers(rules, quote);
    // Fill no gap if a person signs: the person would see a transaction that no caller requested.
    if !rules.person_signs {
        draft.fill_gap(rules, quote);
    }
    draft.step
}

/// Returns the offer that [`crate::Input::Raise`] would make; `None` if that input would be refused.
pub fn raised_offer(
    outbox: &Outbox,
    rules: &Rules,
    id: SubmissionId,
    quote: &Quote,
) -> Option<Fees> {
    next_attempt(outbox.open.get(&id)?, rules, quote).map(|(_kind, fees)| fees)
}

/// Returns the attempt that [`raise`] authorizes.
fn next_attempt(one: &Submission, rules: &Rules, quote: &Quote) -> Option<(Kind, Fees)> {
    let may_follow = one.unsigned_attempt().is_none() && one.chain_state == ChainState::Pending;
    let (_newest, tried, _raw) = one.newest().filter(|_any| may_follow)?;
    let empty = Kind::Empty { gas_limit: quote.plain_gas };
    let kind = if one.cancel || one.filler { empty } else { tried.kind };
    let first_empty = tried.kind == Kind::Call && kind != Kind::Call;
    let ceiling = one.ceiling.max(rules.ceiling);
    let current = || fees::offer_within(&quote.fee, ceiling).filter(|_fees| first_empty);
    let fees = fees::bump(&tried.fees, &quote.fee, ceiling).or_else(current)?;
    Some((kind, fees))
}

/// Authorizes the attempt that the host requests. Returns `None` if the submission is not signed or not pending, if an
/// attempt waits for its signature, or if the ceiling allows no higher offer.
pub(crate) fn raise(
    outbox: &Outbox,
    rules: &Rules,
    at: Utc,
    id: SubmissionId,
    quote: &Quote,
) -> Option<Step> {
    let (kind, fees) = next_attempt(outbox.open.get(&id)?, rules, quote)?;
    let mut draft = Draft { outbox: outbox.clone(), at, step: Step::default() };
    draft.authorize(id, kind, fees);
    Some(draft.step)
}

/// Returns whether a submission needs a quote: to raise its offer, or to be replaced by an empty transaction.
pub(crate) fn needs_quote(one: &Submission, rules: &Rules, at: Utc) -> bool {
    if !matches!(one.chain_state, ChainState::Pending) || one.unsigned_attempt().is_some() {
        return false;
    }
    let Some(last) = one.attempts.last() else { return false };
    if rules.person_signs {
        // The quote is for the empty transaction that a cancelled or late call needs; the host requests all other
        // quotes.
        let is_empty = |tried: &&Attempt| matches!(tried.kind, Kind::Empty { .. });
        // An empty transaction that was declined, or that pays too little now, is requested again only if the call
        // has a time limit. No host can request it for an expired call, which holds its nonce until the empty
        // transaction is mined.
        let very_long = rules.patience_ms.saturating_mul(STUCK_PATIENCE_FACTOR);
        let again = |tried: &Attempt| one.until.is_some() && has_passed(very_long, tried.at, at);
        let last = one.attempts.iter().rfind(is_empty);
        return !one.may_offer_call(at) && one.is_signed() && last.is_none_or(again);
    }
    // A cancelled call needs an empty transaction that the signer has not declined.
    if one.cancel && !one.is_given_up() && one.is_signed() {
        return true;
    }
    // A higher offer is impossible or would not help: the signed transaction waits for lower prices or for funds,
    // or a node refuses it.
    let cannot_raise = [Trouble::TooExpensive, Trouble::Unfunded, Trouble::Refused];
    if one.is_signed() && one.trouble.is_some_and(|trouble| cannot_raise.contains(&trouble)) {
        return false;
    }
    let impatient = has_passed(rules.patience_ms, last.at, at);
    let urgent = one.trouble == Some(Trouble::Underpriced);
    impatient || (urgent && !last.declined)
}

/// Returns whether a submission has waited longer than `patience_ms`. If so, a lower nonce may be missing.
pub(crate) fn is_stuck(one: &Submission, patience_ms: i64, at: Utc) -> bool {
    let first = one.attempts.first();
    let waited = first.is_some_and(|first| has_passed(patience_ms, first.at, at));
    waited && one.is_signed() && matches!(one.chain_state, ChainState::Pending)
}

/// Returns whether `ms` milliseconds have passed since `then`. A clock that was set back must not block
/// anything for years, so a time in the future counts as passed.
pub(crate) fn has_passed(ms: i64, then: Utc, now: Utc) -> bool {
    !(0..ms).contains(&now.since_ms(then))
}

/// A copy of the outbox, and the step so far.
struct Draft {
    outbox: Outbox,
    at: Utc,
    step: Step,
}

impl Draft {
    /// Applies an event to the copy and records it.
    fn record(&mut self, event: Event) {
        apply(&mut self.outbox, &event);
        self.step.events.push(event);
    }

    /// Offers a price for queued submissions, in order of arrival.
    fn first_offers(&mut self, rules: &Rules, quote: &Quote) {
        let mut queued: Vec<(u64, SubmissionId)> = self
            .outbox
            .open
            .iter()
            .filter(|(_id, one)| one.nonce.is_none())
            .map(|(id, one)| (one.turn, *id))
            .collect();
        queued.sort_unstable();
        for (_turn, id) in queued {
            if self.outbox.held_nonces().len() >= rules.window {
                break;
            }
            let Some(one) = self.outbox.open.get(&id) else { continue };
            if !one.may_offer_call(self.at) {
                self.record(Event::Finished { id, outcome: Outcome::Dropped });
                continue;
            }
            let offer = if rules.person_signs {
                fees::offer_whole_ceiling(&quote.fee, one.ceiling)
            } else {
                fees::offer_within(&quote.fee, one.ceiling)
            };
            let (trouble, accepted) = match (
                offer,
                nonces::lowest_free_nonce(&self.outbox, quote.pending, quote.mined),
            ) {
                (None, _any) => (Some(Trouble::TooExpensive), None),
                (_any, None) => (Some(Trouble::NonceJump), None),
                (Some(fees), Some(nonce)) => (None, Some((fees, nonce))),
            };
            if let Some(changed) = trouble_change(id, one, trouble) {
                self.record(changed);
            }
            if let Some((fees, nonce)) = accepted {
                self.record(Event::Reserved { id, nonce });
                self.authorize(id, Kind::Call, fees);
            }
        }
    }

    /// Raises the offers that wait too long, and replaces withdrawn calls.
    fn higher_offers(&mut self, rules: &Rules, quote: &Quote) {
        let due: Vec<SubmissionId> = self
            .outbox
            .open
            .iter()
            .filter(|(_id, one)| needs_quote(one, rules, self.at))
            .map(|(id, _one)| *id)
            .collect();
        for id in due {
            let late = self.outbox.open.get(&id).and_then(|one| withdraw(id, one, self.at));
            if let Some(withdrawn) = late {
                self.record(withdrawn);
            }
            let Some(one) = self.outbox.open.get(&id) else { continue };
            let Some((_newest, tried, _raw)) = one.newest() else { continue };
            // A person signs again only if the signed empty transaction pays too little for the next block.
            let pays_enough = tried.fees.max_price() >= quote.fee.needed;
            if rules.person_signs && matches!(tried.kind, Kind::Empty { .. }) && pays_enough {
                continue;
            }
            // After an empty transaction, only further empty transactions are offered.
            let empty = Kind::Empty { gas_limit: quote.plain_gas };
            let kind = if one.cancel || one.filler { empty } else { tried.kind };
            // An empty transaction is cheap and must always be possible, so it may exceed the submission's own
            // ceiling.
            let is_empty = matches!(kind, Kind::Empty { .. }) || one.filler;
            let ceiling = if is_empty { one.ceiling.max(rules.ceiling) } else { one.ceiling };
            let attempts_max = if is_empty { ATTEMPTS_MAX.saturating_mul(2) } else { ATTEMPTS_MAX };
            // If the ceiling leaves no room to outbid the call, offer the empty transaction at the current price. A
            // node that does not have the call can accept it.
            let first_empty =
                !matches!(tried.kind, Kind::Empty { .. }) && matches!(kind, Kind::Empty { .. });
            let current = || fees::offer_within(&quote.fee, ceiling).filter(|_fees| first_empty);
            let offer = fees::bump(&tried.fees, &quote.fee, ceiling)
                .or_else(current)
                .filter(|_offer| one.attempts.len() < attempts_max);
            match offer {
                Some(fees) => self.authorize(id, kind, fees),
                None => {
                    if let Some(changed) = trouble_change(id, one, Some(Trouble::TooExpensive)) {
                        self.record(changed);
                    }
                }
            }
        }
    }

    /// Fills the gap of nonces below a transaction that waits too long.
    fn fill_gap(&mut self, rules: &Rules, quote: &Quote) {
        let above = quote.pending.max(self.outbox.floor);
        // A reorganization deeper than the confirmations may have removed transactions that count as mined.
        // Only a very long wait is evidence of that.
        let very_long = rules.patience_ms.saturating_mul(STUCK_PATIENCE_FACTOR);
        let gap = self.gap_below_stuck(above, rules.patience_ms);
        let gap = gap.or_else(|| self.gap_below_stuck(quote.pending, very_long));
        let Some((stuck, one, gap)) = gap else { return };
        let ceiling = one.ceiling.max(rules.ceiling);
        let Some(fees) = fees::offer_within(&quote.fee, ceiling) else { return };
        if gap.end.saturating_sub(gap.start) > nonces::GAP_MAX {
            if let Some(changed) = trouble_change(stuck, one, Some(Trouble::NonceJump)) {
                self.record(changed);
            }
            return;
        }
        for nonce in gap {
            let id = self.filler_id(nonce);
            if self.outbox.open.contains_key(&id) {
                continue;
            }
            let call = Call::empty(self.outbox.key.signer, quote.plain_gas);
            self.record(Event::Opened { id, call, ceiling, filler: true, until: None });
            self.record(Event::Reserved { id, nonce });
            self.authorize(id, Kind::Call, fees);
        }
    }

    /// Returns the first gap at or above `from`, if the transaction above the gap waits longer than `patience_ms`.
    fn gap_below_stuck(
        &self,
        from: u64,
        patience_ms: i64,
    ) -> Option<(SubmissionId, &Submission, Range<u64>)> {
        let (stuck, gap) = nonces::first_nonce_gap(&self.outbox, from)?;
        let one = self.outbox.open.get(&stuck)?;
        is_stuck(one, patience_ms, self.at).then_some((stuck, one, gap))
    }

    /// Returns a filler's id, which differs each time a nonce is filled.
    fn filler_id(&self, nonce: u64) -> SubmissionId {
        let mut seed = self.outbox.key.chain.0.to_be_bytes().to_vec();
        seed.extend(self.outbox.key.signer);
        seed.extend(nonce.to_be_bytes());
        seed.extend(self.outbox.turns.to_be_bytes());
        let digest = keccak256(seed);
        let mut id = [0; 16];
        id.copy_from_slice(digest.get(..16).unwrap_or(&[0; 16]));
        SubmissionId(id)
    }

    /// Authorizes and requests the signature of a further attempt.
    fn authorize(&mut self, id: SubmissionId, kind: Kind, fees: Fees) {
        let Some(one) = self.outbox.open.get(&id) else { return };
        let Some(unsigned) = one.unsigned(&self.outbox.key, kind, fees) else { return };
        let attempt = one.attempts.len();
        let digest = unsigned.digest();
        self.record(Event::Authorized { id, kind, fees, digest, at: self.at });
        self.step.actions.push(Action::Sign { id, attempt, digest });
    }
}
