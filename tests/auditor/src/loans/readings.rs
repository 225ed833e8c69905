//! The nodes' answers about venues, positions and rehearsals, and the true positions on the chains.

use crate::basics::Address;
use crate::lending::{
    ExposureReading, Loan, LoanRehearsed, PositionReading, TruePositions, VenueFacts, VenueReading,
};
use std::collections::BTreeSet;

/// All readings, each with the number of its observation.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    venues: Vec<(u64, VenueReading)>,
    exposures: Vec<(u64, ExposureReading)>,
    rehearsals: Vec<(u64, LoanRehearsed)>,
    truths: Vec<(u64, TruePositions)>,
    prices: Vec<RecordedPrice>,
    /// The observation at which the process last started.
    started: u64,
}

/// A share price that the wallet surely recorded.
#[derive(Debug)]
struct RecordedPrice {
    chain: u64,
    venue: Address,
    /// The lowest price that was read between the two observations.
    price: u128,
    from: u64,
    until: u64,
}

fn since<T>(all: &[(u64, T)], from: u64) -> &[(u64, T)] {
    all.get(all.partition_point(|(seq, _)| *seq < from)..).unwrap_or_default()
}

impl Readings {
    pub(crate) fn add_venue(&mut self, seq: u64, read: &VenueReading) {
        let mut read = read.clone();
        read.venue = read.venue.to_lowercase();
        if let Some(facts) = &mut read.facts {
            facts.asset = facts.asset.to_lowercase();
            facts.curator = facts.curator.to_lowercase();
            facts.owner = facts.owner.to_lowercase();
            facts.interest_model = facts.interest_model.as_ref().map(|one| one.to_lowercase());
            facts.endorsed_by.iter_mut().for_each(|one| *one = one.to_lowercase());
        }
        self.venues.push((seq, read));
    }

    pub(crate) fn add_exposure(&mut self, seq: u64, read: &ExposureReading) {
        let mut read = read.clone();
        read.owner = read.owner.to_lowercase();
        for position in read.positions.iter_mut().flatten() {
            position.venue = position.venue.to_lowercase();
        }
        self.exposures.push((seq, read));
    }

    pub(crate) fn add_rehearsal(&mut self, seq: u64, one: &LoanRehearsed) {
        let (from, venue) = (one.from.to_lowercase(), one.venue.to_lowercase());
        self.rehearsals.push((seq, LoanRehearsed { from, venue, ..one.clone() }));
    }

    pub(crate) fn add_truth(&mut self, seq: u64, truth: &TruePositions) {
        let mut truth = truth.clone();
        truth.owner = truth.owner.to_lowercase();
        truth.positions.iter_mut().for_each(|(venue, _, _)| *venue = venue.to_lowercase());
        self.truths.push((seq, truth));
    }

    pub(crate) fn note_start(&mut self, seq: u64) {
        self.started = seq;
    }

    /// Returns the answers about a venue since an observation, with their observations; `None` for a failed read.
    pub(crate) fn venue_since(
        &self,
        chain: u64,
        venue: &str,
        from: u64,
    ) -> impl Iterator<Item = (u64, Option<&VenueFacts>)> {
        let fits = move |r: &VenueReading| r.chain == chain && r.venue == venue;
        let all = since(&self.venues, from).iter().filter(move |(_, r)| fits(r));
        all.map(|(seq, r)| (*seq, r.facts.as_ref()))
    }

    /// Notes that the wallet recorded a price of a venue that it read between two observations.
    ///
    /// The wallet may have read the venue for other requests too, so only the lowest price is sure. After a failed
    /// read, no price is sure.
    pub(crate) fn record_price(&mut self, (chain, venue): (u64, &str), from: u64, until: u64) {
        let read = self.venue_since(chain, venue, from).map(|(_, facts)| facts);
        let read: Option<Vec<&VenueFacts>> = read.collect();
        let least = read.into_iter().flatten().filter_map(|facts| facts.share_price).min();
        if let Some(price) = least {
            let venue = venue.to_owned();
            self.prices.push(RecordedPrice { chain, venue, price, from, until });
        }
    }

    /// Returns the blocks of the answers about a venue since an observation, with their observations.
    pub(crate) fn venue_blocks_since(
        &self,
        chain: u64,
        venue: &str,
        from: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        let fits =
            move |r: &VenueReading| r.chain == chain && r.venue == venue && r.facts.is_some();
        let all = since(&self.venues, from).iter().filter(move |(_, r)| fits(r));
        all.map(|(seq, r)| (*seq, r.block))
    }

    /// Returns the highest share price that this process surely recorded before the observation `before`.
    ///
    /// Prices from before `approved`, the operator's last approval of a supply to the venue, do not count.
    pub(crate) fn highest_price(
        &self,
        (chain, venue): (u64, &str),
        approved: u64,
        before: u64,
    ) -> Option<u128> {
        let since = self.started.max(approved);
        let here = self.prices.iter().filter(|one| one.chain == chain && one.venue == venue);
        let earlier = here.filter(|one| one.from >= since && one.until < before);
        earlier.map(|one| one.price).max()
    }

    /// Returns the answers about the positions of an address on a network since an observation.
    pub(crate) fn exposures_since(
        &self,
        chain: u64,
        owner: &str,
        from: u64,
    ) -> impl Iterator<Item = (u64, &ExposureReading)> {
        let fits = move |r: &ExposureReading| r.chain == chain && r.owner == owner;
        let all = since(&self.exposures, from).iter();
        all.filter(move |(_, r)| fits(r)).map(|(seq, r)| (*seq, r))
    }

    /// Returns the answers about one position since an observation.
    pub(crate) fn positions_since(
        &self,
        (chain, venue): (u64, &str),
        owner: &str,
        from: u64,
    ) -> impl Iterator<Item = (u64, &PositionReading)> {
        let all = self.exposures_since(chain, owner, from);
        all.filter_map(move |(seq, read)| Some((seq, read.position(venue)?)))
    }

    /// Returns the rehearsals of a loan since an observation.
    pub(crate) fn rehearsals_of(
        &self,
        loan: &Loan,
        payers: &BTreeSet<Address>,
        from: u64,
    ) -> impl Iterator<Item = &LoanRehearsed> {
        let fits = move |r: &LoanRehearsed| {
            (r.chain, &r.venue, r.action, r.amount)
                == (loan.chain, &loan.venue, loan.action, loan.amount)
                && (payers.is_empty() || payers.contains(&r.from))
        };
        since(&self.rehearsals, from).iter().map(|(_, r)| r).filter(move |r| fits(r))
    }

    /// Returns the latest true positions of an address on a network that were shown up to an observation.
    pub(crate) fn truth_at(&self, chain: u64, owner: &str, until: u64) -> Option<&TruePositions> {
        let all = self.truths.iter().rev().filter(|(seq, _)| *seq <= until);
        let mut all = all.map(|(_, truth)| truth);
        all.find(|truth| truth.chain == chain && truth.owner == owner)
    }

    /// Returns the true positions of an address that were shown since an observation.
    pub(crate) fn truths_since(
        &self,
        chain: u64,
        owner: &str,
        from: u64,
    ) -> impl Iterator<Item = &TruePositions> {
        let all = since(&self.truths, from).iter().map(|(_, truth)| truth);
        all.filter(move |truth| truth.chain == chain && truth.owner == owner)
    }
}

impl ExposureReading {
    fn position(&self, venue: &str) -> Option<&PositionReading> {
        self.positions.iter().flatten().find(|position| position.venue == venue)
    }

    /// Returns the value of the position in a venue, if it was read.
    pub(super) fn value_of(&self, venue: &str) -> Option<u128> {
        self.position(venue)?.value
    }
}
