//! Marks requests, and divides the marked ones by what one decision does with them.

use bursar_control::card_text;
use bursar_core::card::{Card, HoldReason, Lane};

use super::queued::QueuedRequest;
use super::selection::{LeftOut, Selection};
use super::{Model, Pane};

/// The oldest quote of a trade or loan that can be approved together with other requests.
const QUOTE_AGE_MS_MAX: u64 = 30_000;

impl Model {
    /// Divides the marked requests, in the order of the queue.
    pub(crate) fn select_marked(&self, approve: bool) -> Selection {
        let mut selection = Selection::default();
        let mut unknown = self.marks.clone();
        let shown = self.shown_rows(Pane::Approvals);
        for (index, row) in self.server.queue.iter().enumerate() {
            let Some(digest) = unknown.remove(&row.request.id) else { continue };
            // A decision never covers a request that the operator does not see.
            let hidden = (!shown.contains(index)).then_some(LeftOut::Hidden);
            match hidden.or_else(|| self.left_out(row, &digest, approve)) {
                None => selection.choose(row, digest),
                Some(why) => selection.leave_out(row.request.id.clone(), why),
            }
        }
        for id in unknown.keys() {
            selection.leave_out(id.clone(), LeftOut::Ended("no longer waiting".to_owned()));
        }
        selection
    }

    /// Returns why a decision leaves out this marked request; `None` if it covers the request.
    fn left_out(&self, row: &QueuedRequest, digest: &str, approve: bool) -> Option<LeftOut> {
        if let Some(outcome) = row.closed_reason(self.now_ms) {
            return Some(LeftOut::Ended(outcome.to_owned()));
        }
        let Some(card) = row.request.card.as_ref().filter(|card| card.digest == digest) else {
            return Some(LeftOut::Changed);
        };
        if !approve {
            return None;
        }
        if card.device.is_some() || self.is_on_ledger(card) {
            Some(LeftOut::OnLedger)
        } else if card.obstacle.is_some() {
            Some(LeftOut::CannotBeApproved)
        } else if card.is_dangerous() {
            Some(LeftOut::Dangerous)
        } else if card.type_amount || card.unpriced {
            Some(LeftOut::NeedsTypedAmount)
        } else if card.terms.lane == Lane::Payment && card.has_unknown_payee() {
            Some(LeftOut::FirstPayment)
        } else if !is_plain(card) {
            Some(LeftOut::HasWarning)
        } else if row.quote_age_ms(self.now_ms).is_some_and(|age| age > QUOTE_AGE_MS_MAX) {
            Some(LeftOut::OldQuote)
        } else {
            None
        }
    }

    fn is_on_ledger(&self, card: &Card) -> bool {
        let mut known = self.server.addresses.iter().flatten();
        let paying = known.find(|known| known.address == card.terms.address);
        // An address that is not known yet may be on a Ledger.
        paying.is_none_or(|known| known.backing.starts_with("Ledger"))
    }

    /// Marks a request, or removes its mark. A request without a card cannot be marked.
    pub(crate) fn toggle_mark(&mut self, index: usize) {
        let row = self.server.queue.get(index);
        let row = row.filter(|row| row.closed_reason(self.now_ms).is_none());
        let Some((id, digest)) = row.and_then(mark_of) else { return };
        if self.marks.remove(&id).is_none() {
            self.marks.insert(id, digest);
        }
    }

    /// Marks these requests, or removes their marks if all of them are marked.
    pub(crate) fn toggle_marks(&mut self, indexes: &[usize]) {
        let rows = indexes.iter().filter_map(|index| self.server.queue.get(*index));
        let rows = rows.filter(|row| row.closed_reason(self.now_ms).is_none());
        let marks: Vec<(String, String)> = rows.filter_map(mark_of).collect();
        if marks.iter().all(|(id, _digest)| self.marks.contains_key(id)) {
            self.marks.retain(|known, _digest| !marks.iter().any(|(id, _other)| id == known));
            return;
        }
        for (id, digest) in marks {
            // A known mark keeps the digest of the card at that moment.
            self.marks.entry(id).or_insert(digest);
        }
    }
}

/// Returns whether the amount alone is why the request is held, and nothing on its card warns.
fn is_plain(card: &Card) -> bool {
    let by_amount = matches!(card.hold, HoldReason::AboveThreshold | HoldReason::ManualOnly);
    by_amount && card.asset.is_none() && !card_text::has_warnings(card)
}

fn mark_of(row: &QueuedRequest) -> Option<(String, String)> {
    Some((row.request.id.clone(), row.request.card.as_ref()?.digest.clone()))
}
