//! Whom the wallet has paid before: for the cards, never for deciding.
//!
//! Not part of [`State`]: agents choose payees freely within their limits, and every entry of a
//! state is copied into its snapshots. The journal keeps one row for each payee instead, which is small beside
//! the entry and the record of the payment that made it.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use bursar_core::card::PaidBefore;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::text;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::apply::{Touched, apply};
use crate::event::{Entry, Event};
use crate::requests::Request;
use crate::state::State;

/// One address on one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Payee {
    pub chain: ChainId,
    pub address: Address,
}

/// What was authorized to a payee so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    pub times: u64,
    /// How many of them an operator approved: what a policy lets through is the agent's choice alone.
    pub approved: u64,
    pub first: Utc,
    pub last: Utc,
    pub usd: Usd,
}

/// What was authorized to everybody.
pub type Tally = BTreeMap<Payee, Paid>;

impl Payee {
    pub fn of(request: &Request) -> Self {
        Self { chain: request.ask.chain, address: request.ask.payee }
    }
}

impl Paid {
    /// With a later payment. Saturates: it is shown and decides nothing.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            times: self.times.saturating_add(later.times),
            approved: self.approved.saturating_add(later.approved),
            first: self.first,
            last: later.last,
            usd: Usd(self.usd.0.saturating_add(later.usd.0)),
        }
    }

    /// In the words of a card; of nobody the wallet has paid there is nothing.
    pub fn told(paid: Option<Self>) -> PaidBefore {
        PaidBefore {
            times: paid.map_or(0, |paid| paid.times),
            approved: paid.map_or(0, |paid| paid.approved),
            first: paid.map(|paid| text::utc(paid.first)),
            last: paid.map(|paid| text::utc(paid.last)),
            usd: paid.map_or(Usd::ZERO, |paid| paid.usd),
        }
    }
}

/// The payment that an entry authorized, if it did. What is held, denied, refused or expired is none, and
/// neither is the record of a signature.
pub fn payment(entry: &Entry, touched: Option<&Touched>) -> Option<(Payee, Paid)> {
    let approved = match &entry.event {
        Event::PaymentAuthorized { .. } => 0,
        Event::PaymentApproved { .. } => 1,
        _none => return None,
    };
    let Some(Touched::Request(request)) = touched else { return None };
    let paid = Paid { times: 1, approved, first: entry.at, last: entry.at, usd: request.ask.usd };
    Some((Payee::of(request), paid))
}

/// Counts what entries authorized, each after the one before.
#[derive(Debug)]
pub struct Count {
    state: State,
    pub tally: Tally,
}

impl Count {
    /// `state` is the one before the first entry.
    pub fn from(state: State) -> Self {
        Self { state, tally: Tally::new() }
    }

    pub fn next(&mut self, entry: &Entry) {
        let touched = apply(&mut self.state, entry);
        count(&mut self.tally, entry, touched.as_ref());
    }
}

/// Counts the payment that an entry authorized.
pub fn count(tally: &mut Tally, entry: &Entry, touched: Option<&Touched>) {
    if let Some((payee, paid)) = payment(entry, touched) {
        tally.entry(payee).and_modify(|known| *known = known.and(paid)).or_insert(paid);
    }
}
