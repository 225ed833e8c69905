//! Which venues may receive money: official ones of trusted curators and owners, or ones that the operator confirmed.

use super::readings::Readings;
use crate::config::Config;
use crate::lending::{LendingFact, Loan, VenueFacts, VenueKind};

/// The zero address.
const NONE: &str = "0x0000000000000000000000000000000000000000";

/// The facts that decide whether a venue is trusted.
#[derive(Clone, Copy)]
pub(super) struct Trust<'a> {
    pub(super) config: &'a Config,
    pub(super) fact: &'a LendingFact,
    pub(super) readings: &'a Readings,
    pub(super) coin: &'a str,
    /// The observation since which a reading counts as fresh.
    pub(super) from: u64,
}

impl Trust<'_> {
    /// Checks what a node reported about the venue of a loan. Fails with the reason not to trust the venue.
    pub(super) fn check(&self, loan: &Loan, facts: &VenueFacts) -> Result<(), &'static str> {
        if facts.asset != self.coin {
            return Err("the venue lends another token than the stablecoin");
        }
        match loan.kind {
            VenueKind::Vault => self.check_vault(&loan.venue, facts),
            VenueKind::Market => self.check_market(&loan.venue, facts),
        }
    }

    /// Returns whether the operator confirmed the venue with its present curator and owner.
    pub(super) fn is_confirmed(&self, venue: &str, facts: &VenueFacts) -> bool {
        let at = (self.fact.chain, venue.to_owned());
        let with = self.config.confirmed_venues.get(&at);
        with.is_some_and(|(curator, owner)| (curator, owner) == (&facts.curator, &facts.owner))
    }

    fn check_vault(&self, vault: &str, facts: &VenueFacts) -> Result<(), &'static str> {
        if !facts.official {
            return Err("no official factory made the vault");
        }
        if !facts.adapters_official {
            return Err("an adapter of the vault is not official");
        }
        let curated = self.fact.trusted_curators.contains(&facts.curator);
        let owned = self.fact.trusted_owners.contains(&facts.owner)
            || self.fact.pinned.iter().any(|pinned| pinned == vault);
        if (curated && owned) || self.is_confirmed(vault, facts) {
            Ok(())
        } else if curated {
            Err("the vault's owner is not trusted, and the operator did not confirm it so")
        } else {
            Err("the vault's curator is not trusted, and the operator did not confirm it so")
        }
    }

    fn check_market(&self, market: &str, facts: &VenueFacts) -> Result<(), &'static str> {
        if facts.interest_model.as_ref() != Some(&self.fact.interest_model) {
            return Err("the market's interest model is not official");
        }
        let chain = self.fact.chain;
        let trusted = |vault: &String| {
            let all = self.readings.venue_since(chain, vault, 0);
            let mut fresh: Vec<_> = all.collect();
            let old = fresh.iter().filter(|(seq, _)| *seq < self.from).count();
            fresh.drain(..old.min(fresh.len().saturating_sub(1)));
            fresh
                .iter()
                .filter_map(|(_, facts)| *facts)
                .any(|facts| facts.asset == self.coin && self.check_vault(vault, facts).is_ok())
        };
        let nobody = facts.curator == NONE && facts.owner == NONE;
        let confirmed = nobody && self.is_confirmed(market, facts);
        if facts.endorsed_by.iter().any(trusted) || confirmed {
            Ok(())
        } else {
            Err("no trusted vault has a cap for the market")
        }
    }
}
