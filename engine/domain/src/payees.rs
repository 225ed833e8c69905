//! Payees that the wallet has paid before: shown on cards, never used in a decision.
//!
//! Apart from the operator's labels, payees are not part of [`State`]: agents choose any number of them within their
//! limits, and every snapshot copies the whole state. The journal keeps one row per payee instead. A row is small
//! compared with a payment's entry and record.

use std::collections::BTreeMap;

use bursar_core::card::PaidBefore;
use bursar_core::hosts;
use bursar_core::money::Usd;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::text;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::apply::{ChangedRecord, apply};
use crate::approver::Approver;
use crate::event::{Entry, Event};
use crate::payee::Payee;
use crate::requests::{PaymentAsk, Request, Status};
use crate::state::State;

/// Totals of the payments that were authorized to a payee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentTotals {
    pub times: u64,
    /// The number of payments that the operator approved.
    ///
    /// The policy allowed the others, so the agent alone chose them.
    pub approved: u64,
    pub first: Utc,
    pub last: Utc,
    pub usd: Usd,
}

/// The totals of each payee.
pub type Tally = BTreeMap<Payee, PaymentTotals>;

/// Returns the hosts of all URLs of a payment.
pub fn hosts(payment: &PaymentAsk) -> impl Iterator<Item = String> {
    let named = payment.request_url.iter().chain(&payment.resource_url);
    named.chain(&payment.other_urls).filter_map(|url| hosts::called_host(url))
}

/// Returns the operator's label of the payee of a payment.
pub fn label<'a>(state: &'a State, request: &Request) -> Option<&'a PayeeLabel> {
    state.payee_names.get(&Payee::of(request.ask.payment()?))
}

impl PaymentTotals {
    /// Adds a later payment.
    ///
    /// The totals saturate, because they are only shown.
    #[must_use]
    pub fn plus(self, later: Self) -> Self {
        Self {
            times: self.times.saturating_add(later.times),
            approved: self.approved.saturating_add(later.approved),
            first: self.first,
            last: later.last,
            usd: Usd(self.usd.0.saturating_add(later.usd.0)),
        }
    }

    /// Converts the totals for a card; all zero for a payee that was never paid.
    pub fn to_card(paid: Option<Self>) -> PaidBefore {
        PaidBefore {
            times: paid.map_or(0, |paid| paid.times),
            approved: paid.map_or(0, |paid| paid.approved),
            first: paid.map(|paid| text::utc(paid.first)),
            last: paid.map(|paid| text::utc(paid.last)),
            usd: paid.map_or(Usd::ZERO, |paid| paid.usd),
        }
    }
}

/// Returns the payment that an entry authorized, if any.
///
/// The record of a signature is not another payment: the payment was authorized before. Only with a device does the
/// signature authorize the payment. Held, denied, refused and expired requests are not payments.
pub fn payment(entry: &Entry, changed: Option<&ChangedRecord>) -> Option<(Payee, PaymentTotals)> {
    let Some(ChangedRecord::Request(request)) = changed else { return None };
    let Status::Authorized { by, .. } = &request.status else { return None };
    if matches!(entry.event, Event::PaymentSigned { .. }) {
        return None;
    }
    let payment = request.ask.payment()?;
    let approved = u64::from(matches!(by, Approver::Operator(_)));
    let paid =
        PaymentTotals { times: 1, approved, first: entry.at, last: entry.at, usd: payment.usd };
    Some((Payee::of(payment), paid))
}

/// Counts the payments of consecutive entries by replaying them.
#[derive(Debug)]
pub struct TallyReplay {
    state: State,
    pub tally: Tally,
}

impl TallyReplay {
    /// Starts at `state`, the state before the first entry.
    pub fn from(state: State) -> Self {
        Self { state, tally: Tally::new() }
    }

    /// Applies the next entry and counts its payment.
    pub fn next(&mut self, entry: &Entry) {
        let changed = apply(&mut self.state, entry);
        count(&mut self.tally, entry, changed.as_ref());
    }
}

/// Adds the payment that an entry authorized, if any, to the tally.
pub fn count(tally: &mut Tally, entry: &Entry, changed: Option<&ChangedRecord>) {
    if let Some((payee, paid)) = payment(entry, changed) {
        tally.entry(payee).and_modify(|known| *known = known.plus(paid)).or_insert(paid);
    }
}
