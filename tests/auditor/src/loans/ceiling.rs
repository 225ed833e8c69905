//! The ceiling on all deployed stablecoins, checked at the signature and at the block of each supply (rule I-r).

use super::LoanRecord;
use super::amounts::Place;
use crate::basics::Address;
use crate::clocks::Instant;
use crate::lending::TruePositions;
use crate::{Auditor, Violation};
use std::collections::{BTreeMap, BTreeSet};

impl Auditor {
    /// Notes the largest ceiling of each unfinished loan's agent, and the chains that surely count toward it.
    pub(super) fn note_ceilings(&mut self) {
        for rec in self.loans.book.records.values_mut() {
            if !rec.may_live() || !rec.is_supply() {
                continue;
            }
            for w in &self.possible_configs {
                let Some((_, policy)) = w.config.policy_of(&rec.agent) else { continue };
                rec.extra.largest_total =
                    rec.extra.largest_total.max(policy.lending.max_total.into());
                let networks = w.config.networks.iter().filter(|(chain, network)| {
                    let all = &policy.policy.networks;
                    network.is_enabled && all.as_ref().is_none_or(|all| all.contains(chain))
                });
                let on: BTreeSet<u64> = networks.map(|(chain, _)| *chain).collect();
                let known = rec.extra.counted_chains.get_or_insert_with(|| on.clone());
                known.retain(|chain| on.contains(chain));
            }
        }
    }

    fn coins(&self) -> BTreeMap<u64, Address> {
        let config = self.possible_configs.first().map(|w| &w.config);
        let all = config.iter().flat_map(|config| config.networks.iter());
        all.map(|(chain, network)| (*chain, network.stablecoin.clone())).collect()
    }

    /// Checks that a supply stays below the ceiling when it is signed, in whatever order the wallet decided concurrent
    /// calls.
    ///
    /// Compares with the largest ceiling that was in force during the life of the loan.
    pub(super) fn check_ceiling(
        &self,
        key: u64,
        rec: &LoanRecord,
        payer: &str,
        since: u64,
    ) -> Result<(), Violation> {
        let Some(amount) = rec.supplied_assets() else { return Ok(()) };
        let on =
            |chain: u64| rec.extra.counted_chains.as_ref().is_none_or(|all| all.contains(&chain));
        let counts = |chain: u64| (on(chain), true);
        let now: Instant = self.time.instant();
        let book = &self.loans.book;
        let reserved = book.reserved_by_others(payer, key, &counts, &now).0;
        let mut places = book.principal(payer, &self.coins(), &self.loans.written_off);
        for chain in self.loans.facts.keys() {
            for (_, read) in self.loans.readings.exposures_since(*chain, payer, since) {
                for position in read.positions.iter().flatten() {
                    places.entry((*chain, position.venue.clone())).or_default();
                }
            }
        }
        let value = |((chain, venue), (least, _)): (&Place, &(u128, u128))| {
            let read = self.loans.readings.positions_since((*chain, venue.as_str()), payer, since);
            let read = read.filter_map(|(_, position)| position.value).min();
            read.unwrap_or(0).max(*least)
        };
        let counted = places.iter().filter(|((chain, _), _)| on(*chain));
        let deployed = counted.map(value).fold(0u128, u128::saturating_add);
        let sum = deployed.saturating_add(reserved).saturating_add(amount);
        if sum > rec.extra.largest_total {
            let what = format!(
                "a supply was signed that makes {sum} of deployed {deployed}, reserved {reserved} and its own {amount}; the ceiling was never above {}",
                rec.extra.largest_total
            );
            return Err(self.loan_violation(key, "exposure", &what));
        }
        Ok(())
    }

    /// Judges the supplies in the block for which the true positions are shown.
    pub(crate) fn on_deployed(&mut self, truth: &TruePositions) -> Result<(), Violation> {
        self.loans.readings.add_truth(self.seq, truth);
        let owner = truth.owner.to_lowercase();
        let recs = self.loans.book.records.iter().filter(|(_, rec)| rec.is_supply());
        for (key, rec) in recs {
            let Some((at, slot)) = self.loans.book.main_of(*key) else { continue };
            let here = (at.0, &at.1) == (truth.chain, &owner);
            let block = slot.included.as_ref().map(|included| included.block);
            if here && slot.succeeded() && block == Some(truth.block) {
                self.check_block(*key, rec, &owner, slot.signed_at)?;
            }
        }
        self.count("deployed");
        Ok(())
    }

    /// Checks rule I-r for one supply.
    ///
    /// The sum to compare with the ceiling has the true positions, less the interest since the wallet read them, and
    /// the earlier supplies that are in no block yet.
    fn check_block(
        &self,
        key: u64,
        rec: &LoanRecord,
        owner: &str,
        signed: u64,
    ) -> Result<(), Violation> {
        let book = &self.loans.book;
        let since = rec.authorizations.iter().map(|auth| auth.seq).max().unwrap_or(rec.from);
        let on =
            |chain: u64| rec.extra.counted_chains.as_ref().is_none_or(|all| all.contains(&chain));
        let mut deployed = 0u128;
        for chain in self.loans.facts.keys().filter(|chain| on(**chain)) {
            let Some(truth) = self.loans.readings.truth_at(*chain, owner, self.seq) else {
                continue;
            };
            for (venue, value, _) in &truth.positions {
                let place = (*chain, venue.clone());
                let later =
                    book.supplied_between(owner, &place, signed.saturating_add(1)..=self.seq);
                let own = book.supplied_between(owner, &place, since..=signed);
                // The wallet may have decided with the earliest block that it read, while other calls read a later one.
                let read = self.loans.readings.exposures_since(*chain, owner, since);
                let read = read.filter(|(seq, _)| *seq <= signed);
                let read = read.filter_map(|(_, one)| Some((one.block, one.value_of(venue)?)));
                let read = read.min_by_key(|(block, value)| (*block, std::cmp::Reverse(*value)));
                let before = self.loans.readings.truth_at(*chain, owner, since);
                let before = before.and_then(|truth| {
                    let mut all = truth.positions.iter();
                    all.find(|(v, _, _)| v == venue).map(|(_, value, _)| *value)
                });
                let read = read.map(|(_, value)| value);
                let known = read.or(before).unwrap_or(0).saturating_add(own);
                let counted = value.saturating_sub(later).min(known);
                deployed = deployed.saturating_add(counted);
            }
        }
        let unconfirmed = book.records.iter().filter(|(other, r)| {
            let earlier = book.main_of(**other).is_some_and(|(_, slot)| {
                let open = !slot.is_done() && slot.unmined_at.is_none() && !slot.may_return();
                slot.signed_at < signed && open && !slot.hashes.is_empty()
            });
            **other != key && r.is_paid_by(owner).0 && on(r.terms.chain) && earlier
        });
        let unconfirmed = unconfirmed.filter_map(|(_, r)| r.supplied_assets());
        let sum = unconfirmed.fold(deployed, u128::saturating_add);
        if sum > rec.extra.largest_total {
            let what = format!(
                "with its block {sum} are deployed, interest since the decision aside; the ceiling was never above {}",
                rec.extra.largest_total
            );
            return Err(self.loan_violation(key, "I-r", &what));
        }
        Ok(())
    }
}
