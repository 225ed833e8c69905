//! Changes of venues by other accounts.

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};

use super::VenueName;
use super::blue::WAD;
use super::contracts::Contracts;
use super::state::State;
use super::vaults::{Adapter, Kind, LendsTo, Two};
use super::venues::{DOLLAR, LENDER, ODD_ADAPTER, STRANGER};

const YEAR: u64 = 31_536_000;

/// A change of one venue by another account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueChange {
    /// Sets the interest that borrowers pay to this many thousandths a year.
    Rate(u64),
    /// Makes a market lose this many thousandths of its assets.
    Loss(u64),
    /// Borrows all but this many dollars, or takes them out of an idle balance.
    Drain(u64),
    /// Pays back most of the borrowed assets.
    Return,
    /// Closes a gate, by its number from 0 to 3.
    CloseGate(u8),
    OpenGates,
    /// Sets a curator that is in no list.
    StrangeCurator,
    /// Sets the trusted curator.
    RightCurator,
    /// Gives the vault to another owner.
    StrangeOwner,
    OddAdapter,
    /// Removes an adapter that no factory created.
    RightAdapters,
    /// Donates this many dollars to a venue.
    Donation(u64),
    /// Stops a vault from lending more to its market.
    NoCap,
}

impl State {
    pub(crate) fn change_venue(
        &mut self,
        contracts: &Contracts,
        venue: VenueName,
        change: VenueChange,
        time: u64,
    ) {
        let markets = self.markets_behind(venue);
        match change {
            VenueChange::Rate(permille) => {
                for id in &markets {
                    self.on_market(*id, time, |totals| {
                        let scale = U256::from(1_000 * YEAR);
                        totals.rate = WAD * U256::from(permille) / scale;
                    });
                }
            }
            VenueChange::Loss(permille) => {
                for id in &markets {
                    self.on_market(*id, time, |totals| {
                        let lost = totals.supply_assets * U256::from(permille) / U256::from(1_000);
                        let lost = lost.min(totals.borrow_assets);
                        totals.supply_assets -= lost;
                        totals.borrow_assets -= lost;
                    });
                }
            }
            VenueChange::Drain(left) => self.drain(contracts, venue, &markets, left, time),
            VenueChange::Return => {
                for id in &markets {
                    self.on_market(*id, time, |totals| {
                        let half = totals.supply_assets / U256::from(2);
                        totals.borrow_assets = totals.borrow_assets.min(half);
                    });
                }
                if let VenueName::Vault(vault) = venue {
                    self.set_idle(contracts, vault, 2_000);
                }
            }
            VenueChange::Donation(dollars) => self.donate(contracts, venue, dollars, time),
            VenueChange::CloseGate(_)
            | VenueChange::OpenGates
            | VenueChange::StrangeCurator
            | VenueChange::RightCurator
            | VenueChange::StrangeOwner
            | VenueChange::OddAdapter
            | VenueChange::RightAdapters
            | VenueChange::NoCap => self.change_vault(contracts, venue, change),
        }
    }

    fn change_vault(&mut self, contracts: &Contracts, venue: VenueName, change: VenueChange) {
        let VenueName::Vault(address) = venue else { return };
        let curators = contracts.network.lending.map_or(&[][..], |one| one.curators);
        let Some(vault) = self.lending.vaults.get_mut(&address) else { return };
        match change {
            VenueChange::StrangeCurator => vault.curator = STRANGER,
            VenueChange::RightCurator => {
                vault.curator = curators.first().copied().unwrap_or_default();
            }
            VenueChange::StrangeOwner => vault.owner = STRANGER,
            VenueChange::NoCap => {
                if let Kind::Two(two) = &mut vault.kind {
                    two.caps.clear();
                }
            }
            other => {
                if let Kind::Two(two) = &mut vault.kind {
                    change_two(two, other);
                }
            }
        }
        if change == VenueChange::OddAdapter {
            let odd = Adapter { official: false, lends_to: LendsTo::Markets(Vec::new()) };
            self.lending.adapters.insert(ODD_ADAPTER, odd);
        }
    }

    /// Returns the markets that hold a venue's money.
    fn markets_behind(&self, venue: VenueName) -> Vec<alloy_primitives::B256> {
        let vault = match venue {
            VenueName::Market(id) => return vec![id],
            VenueName::Vault(vault) => vault,
        };
        let Some(vault) = self.lending.vaults.get(&vault) else { return Vec::new() };
        match &vault.kind {
            Kind::Meta(meta) => meta.queue.iter().map(|(id, _cap)| *id).collect(),
            Kind::Two(two) => {
                let behind = two.adapters.iter().filter_map(|one| self.lending.adapters.get(one));
                let each = behind.flat_map(|one| match &one.lends_to {
                    LendsTo::Markets(ids) => ids.clone(),
                    LendsTo::Vault(inner) => self.markets_behind(VenueName::Vault(*inner)),
                });
                each.collect()
            }
        }
    }

    fn on_market(
        &mut self,
        id: alloy_primitives::B256,
        time: u64,
        change: impl Fn(&mut super::blue::Totals),
    ) {
        if let Some(market) = self.lending.markets.get_mut(&id) {
            market.totals = market.totals.accrued_at(time);
            change(&mut market.totals);
        }
    }

    fn set_idle(&mut self, contracts: &Contracts, vault: Address, dollars: u64) {
        let is_idle = self
            .lending
            .vaults
            .get(&vault)
            .is_some_and(|one| matches!(&one.kind, Kind::Two(two) if two.liquidity.is_none()));
        if is_idle && let Some(coin) = self.tokens.get_mut(&contracts.dollar()) {
            coin.balances.insert(vault, U256::from(dollars) * U256::from(DOLLAR));
        }
    }

    fn drain(
        &mut self,
        contracts: &Contracts,
        venue: VenueName,
        markets: &[alloy_primitives::B256],
        left: u64,
        time: u64,
    ) {
        let left_atoms = U256::from(left) * U256::from(DOLLAR);
        for id in markets {
            self.on_market(*id, time, |totals| {
                let most = totals.supply_assets.saturating_sub(left_atoms);
                totals.borrow_assets = totals.borrow_assets.max(most);
            });
        }
        // Other depositors withdraw, so this money no longer belongs to the vault.
        if let VenueName::Vault(vault) = venue {
            let held = self.balance(contracts.dollar(), vault);
            let taken = held.saturating_sub(left_atoms);
            let shares = self.vault_totals(vault, time).map(|one| one.to_shares(taken, true));
            let coin = self.tokens.get_mut(&contracts.dollar());
            let one = self.lending.vaults.get_mut(&vault);
            if let (Some(coin), Some(one), Some(shares)) = (coin, one, shares) {
                let theirs = one.shares.entry(LENDER).or_default();
                let Some(rest) = theirs.checked_sub(shares) else { return };
                *theirs = rest;
                one.supply -= shares;
                one.total = one.total.saturating_sub(taken);
                coin.balances.insert(vault, held - taken);
            }
        }
    }

    fn donate(&mut self, contracts: &Contracts, venue: VenueName, dollars: u64, time: u64) {
        let assets = U256::from(dollars) * U256::from(DOLLAR);
        let VenueName::Vault(vault) = venue else { return };
        let receiver = match self.lending.vaults.get(&vault).map(|one| &one.kind) {
            Some(Kind::Meta(meta)) => meta.queue.first().map(|(id, _cap)| (*id, vault)),
            Some(Kind::Two(two)) => two.adapters.first().and_then(|adapter| {
                match &self.lending.adapters.get(adapter)?.lends_to {
                    LendsTo::Markets(ids) => Some((*ids.first()?, *adapter)),
                    LendsTo::Vault(_) => None,
                }
            }),
            None => None,
        };
        match receiver {
            Some((id, receiver)) => {
                if let Some(market) = self.lending.markets.get_mut(&id) {
                    market.totals = market.totals.accrued_at(time);
                    let shares = market.totals.to_shares(assets, false);
                    market.totals.supply_assets += assets;
                    market.totals.supply_shares += shares;
                    *market.positions.entry(receiver).or_default() += shares;
                }
            }
            None => {
                if let Some(coin) = self.tokens.get_mut(&contracts.dollar()) {
                    *coin.balances.entry(vault).or_default() += assets;
                }
            }
        }
    }
}

fn change_two(two: &mut Two, change: VenueChange) {
    match change {
        VenueChange::CloseGate(which) => match which % 4 {
            0 => two.closed.receive_shares = true,
            1 => two.closed.send_shares = true,
            2 => two.closed.receive_assets = true,
            _ => two.closed.send_assets = true,
        },
        VenueChange::OpenGates => two.closed = super::vaults::Gates::default(),
        VenueChange::OddAdapter if !two.adapters.contains(&ODD_ADAPTER) => {
            two.adapters.push(ODD_ADAPTER);
        }
        VenueChange::RightAdapters => two.adapters.retain(|one| *one != ODD_ADAPTER),
        _other => {}
    }
}
