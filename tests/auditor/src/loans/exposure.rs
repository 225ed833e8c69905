//! The exposure of an address as the wallet had to see it: at each venue the higher of chain value and journal value.

use super::judge::Case;
use crate::wide;
use std::collections::BTreeSet;

const WHOLE_BPS: u128 = 10_000;

/// The deployed and reserved stablecoins, without the loan that is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Exposure {
    pub(super) least: u128,
    pub(super) most: u128,
    /// The reason why the exposure is surely unknown, if it is.
    pub(super) unreadable_reason: Option<&'static str>,
    pub(super) may_be_unread: bool,
}

impl Case<'_> {
    /// Returns whether a network counts toward the ceiling: (surely, possibly).
    pub(super) fn network_counts(&self, chain: u64) -> (bool, bool) {
        let there = self.facts.contains_key(&chain);
        let on = self.config.networks.get(&chain).is_some_and(|network| network.is_enabled);
        let allowed = self.policy.networks.as_ref().is_none_or(|all| all.contains(&chain));
        (there && allowed && on, there && allowed)
    }

    pub(super) fn exposure(&self) -> Exposure {
        let mut all = Exposure {
            least: self.snapshot.reserved.0,
            most: self.snapshot.reserved.1,
            ..Exposure::default()
        };
        let Some(payer) = &self.snapshot.payer else {
            return Exposure { may_be_unread: true, most: u128::MAX, ..all };
        };
        for chain in self.facts.keys() {
            if self.network_counts(*chain).1 {
                self.add_network(*chain, payer, &mut all);
            }
        }
        all
    }

    fn add_network(&self, chain: u64, payer: &str, all: &mut Exposure) {
        let sure = self.network_counts(chain).0;
        let reads: Vec<_> = self.readings.exposures_since(chain, payer, self.from).collect();
        let listed: Vec<_> =
            reads.iter().flat_map(|(_, read)| read.positions.iter().flatten()).collect();
        let read = reads.iter().any(|(_, read)| read.positions.is_some());
        all.may_be_unread |= !read
            || reads.iter().any(|(_, read)| read.positions.is_none())
            || listed.iter().any(|position| position.value.is_none());
        if sure && !read {
            all.unreadable_reason =
                Some("no node answered about the positions on a network that counts");
        }
        let truth = self.readings.truth_at(chain, payer, self.from);
        let truths = || truth.iter().flat_map(|truth| truth.positions.iter());
        let mut venues: BTreeSet<&str> = listed.iter().map(|one| one.venue.as_str()).collect();
        let journal = self.snapshot.principal.keys().filter(|(c, _)| *c == chain);
        venues.extend(journal.map(|(_, venue)| venue.as_str()));
        venues.extend(truths().map(|(venue, _, _)| venue.as_str()));
        for venue in venues {
            let mine = || listed.iter().filter(|one| one.venue == venue);
            let values = || mine().filter_map(|one| one.value);
            if sure && mine().next().is_some() && values().next().is_none() {
                all.unreadable_reason = Some("no node answered about a position");
            }
            // A position that the chain shows counts, even if the wallet did not read it.
            let unlisted = read && mine().next().is_none();
            let held =
                truths().find(|(v, _, _)| unlisted && v == venue).map(|(_, value, _)| *value);
            let place = (chain, venue.to_owned());
            let (least, most) = self.snapshot.principal.get(&place).copied().unwrap_or_default();
            let least = values().min().or(held).unwrap_or(0).max(least);
            let most = values().max().or(held).unwrap_or(0).max(most);
            if sure {
                all.least = all.least.saturating_add(least);
            }
            all.most = all.most.saturating_add(most);
        }
    }

    /// Returns the ceiling in force, in the smallest units of the stablecoin: (least, most).
    pub(super) fn ceiling(&self, exposure: &Exposure) -> (u128, u128) {
        let total = u128::from(self.lending.max_total);
        let Some(bps) = self.lending.max_percent_bps else { return (total, total) };
        let liquid = self.liquid_coins();
        let part = |sum: u128| wide::floor(sum, u128::from(bps), WHOLE_BPS);
        let (least, most) = match liquid {
            Some((least, most)) => {
                let deployed = exposure.least.saturating_sub(self.snapshot.reserved.0);
                (part(least.saturating_add(deployed)), part(most.saturating_add(exposure.most)))
            }
            None => (0, u128::MAX),
        };
        (least.min(total), most.min(total))
    }

    /// Returns the address's stablecoins on the networks that count: (least, most); `None` if no balance was read.
    fn liquid_coins(&self) -> Option<(u128, u128)> {
        let payer = self.snapshot.payer.as_ref()?;
        let mut sum = None;
        for (chain, network) in
            self.config.networks.iter().filter(|(c, _)| self.network_counts(**c).1)
        {
            let read = self.market.balance(*chain, payer, &network.stablecoin, self.from);
            let Some((least, most)) = read else { continue };
            let (a, b) = sum.unwrap_or((0u128, 0u128));
            sum = Some((a.saturating_add(least), b.saturating_add(most)));
        }
        sum
    }
}
