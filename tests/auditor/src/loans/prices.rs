//! The share prices that the wallet surely recorded.
//!
//! The journal has no price that the wallet read only for a list of venues, or for a step that it then did not order.
//! So later prices need not be compared with such a price.

use super::LoanRecord;
use super::trust::Trust;
use crate::Auditor;
use crate::config::Config;
use crate::plans::slots::Kind;

impl Auditor {
    /// Notes that the wallet accepted a call, and so recorded the price that it had measured.
    pub(super) fn note_accepted_price(&mut self, key: u64) {
        let Some(rec) = self.loans.book.records.get(&key) else { return };
        self.loans.readings.record_price(rec.network_and_venue(), rec.from, self.seq);
    }

    /// Notes that the wallet recorded the refusal of a call.
    ///
    /// The record contains a price only if the wallet measured the loan, which a rehearsal shows, and if the venue was
    /// trusted.
    pub(super) fn note_refused_price(&mut self, key: u64) {
        let Some(rec) = self.loans.book.records.get(&key) else { return };
        let readings = &self.loans.readings;
        let measured = readings.rehearsals_of(&rec.terms, &rec.payers, rec.from).next().is_some();
        if measured && self.possible_configs.iter().all(|w| self.was_trusted(&w.config, rec)) {
            self.loans.readings.record_price(rec.network_and_venue(), rec.from, self.seq);
        }
    }

    /// Notes that a loan was approved, with the readings since the order arrived.
    pub(super) fn note_approved_price(&mut self, key: u64, ordered: u64) {
        let Some(rec) = self.loans.book.records.get(&key) else { return };
        self.loans.readings.record_price(rec.network_and_venue(), ordered, self.seq);
    }

    /// Notes that a step was ordered, with the readings since the previous step, or since the call or the approval.
    pub(super) fn note_step_price(&mut self, key: u64) {
        let Some(rec) = self.loans.book.records.get(&key).filter(|rec| !rec.by_operator()) else {
            return;
        };
        let steps = self.loans.book.slots.of_record(key).map(|(_, slot)| slot);
        let steps = steps.filter(|slot| slot.kind != Kind::Revoke && !slot.is_nonce_taken);
        let approvals = rec.authorizations.iter().filter(|auth| !auth.by_call && !auth.is_killed);
        let began = approvals.map(|auth| auth.seq).min().unwrap_or(rec.from);
        let since = steps.map(|slot| slot.signed_at).max().unwrap_or(began);
        self.loans.readings.record_price(rec.network_and_venue(), since, self.seq);
    }

    /// Returns whether every reading of the venue since the loan's call shows a trusted venue.
    fn was_trusted(&self, config: &Config, rec: &LoanRecord) -> bool {
        let (chain, venue) = rec.network_and_venue();
        let (fact, network) = (self.loans.facts.get(&chain), config.networks.get(&chain));
        let Some((fact, network)) = fact.zip(network) else { return false };
        let (readings, coin, from) = (&self.loans.readings, network.stablecoin.as_str(), rec.from);
        let trust = Trust { config, fact, readings, coin, from };
        let mut read = readings.venue_since(chain, venue, from).filter_map(|(_, facts)| facts);
        read.all(|facts| trust.check(&rec.terms, facts).is_ok())
    }
}
