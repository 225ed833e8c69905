//! The two kinds of vaults as values: their assets, the value of a share, and the liquidity for withdrawals.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, uint};

use super::VenueName;
use super::abi;
use super::blue::{Market, WAD};
use super::math::mul_div;
use super::state::State;

/// The virtual shares of a vault whose asset has six decimals.
pub(super) const VIRTUAL_SHARES: U256 = uint!(1_000_000_000_000_U256);

/// The highest growth rate of a Vault V2 per second, with 18 decimals: 200 % a year.
const RATE_MAX: U256 = uint!(63_419_583_967_U256);

/// All Morpho venues on one chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Venues {
    pub(super) markets: BTreeMap<B256, Market>,
    pub(super) vaults: BTreeMap<Address, Vault>,
    pub(super) adapters: BTreeMap<Address, Adapter>,
    /// The shares that a lying node leaves out of its answers.
    pub(super) hidden: BTreeMap<(VenueName, Address), U256>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vault {
    pub(super) name: &'static str,
    pub(super) asset: Address,
    pub(super) curator: Address,
    pub(super) owner: Address,
    /// Whether the official factory of its kind created the vault.
    pub(super) official: bool,
    pub(super) shares: BTreeMap<Address, U256>,
    pub(super) supply: U256,
    /// The assets that the vault managed at its last update, and the time of that update in Unix seconds.
    pub(super) total: U256,
    pub(super) updated: u64,
    /// The part of the growth that the vault's curator gets, with 18 decimals.
    pub(super) fee: U256,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Two(Two),
    Meta(Meta),
}

/// The fields that only a Vault V2 has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Two {
    pub(super) adapters: Vec<Address>,
    pub(super) liquidity: Option<(Address, Bytes)>,
    pub(super) caps: BTreeMap<B256, U256>,
    /// The gates that are closed.
    pub(super) closed: Gates,
}

/// The gates of a Vault V2 that are closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    pub(super) receive_shares: bool,
    pub(super) send_shares: bool,
    pub(super) receive_assets: bool,
    pub(super) send_assets: bool,
}

/// The fields that only a MetaMorpho vault has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The vault's markets with their caps, in the order of its queues.
    pub(super) queue: Vec<(B256, U256)>,
    /// The loss that the vault does not report.
    pub(super) lost: U256,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(super) official: bool,
    pub(super) lends_to: LendsTo,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LendsTo {
    Markets(Vec<B256>),
    Vault(Address),
}

/// A vault's totals at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VaultTotals {
    pub(super) assets: U256,
    pub(super) shares: U256,
    /// The loss that the vault does not report; see [`Meta::lost`].
    pub(super) lost: U256,
    /// The shares that are due for the fee.
    pub(super) fee_shares: U256,
}

impl VaultTotals {
    pub(super) fn to_assets(self, shares: U256, up: bool) -> U256 {
        mul_div(shares, self.assets + U256::ONE, self.shares + VIRTUAL_SHARES, up)
    }

    pub(super) fn to_shares(self, assets: U256, up: bool) -> U256 {
        mul_div(assets, self.shares + VIRTUAL_SHARES, self.assets + U256::ONE, up)
    }
}

impl Venues {
    pub(crate) fn is_empty(&self) -> bool {
        self.vaults.is_empty()
    }

    /// Returns the part of an account's shares that a node reports.
    pub(super) fn shown_shares(&self, venue: VenueName, who: Address, shares: U256) -> U256 {
        let hidden = self.hidden.get(&(venue, who)).copied().unwrap_or_default();
        shares.saturating_sub(hidden)
    }

    /// Returns the shares of an account.
    pub(crate) fn shares_of(&self, venue: VenueName, who: Address) -> U256 {
        match venue {
            VenueName::Vault(vault) => {
                let vault = self.vaults.get(&vault);
                vault.and_then(|vault| vault.shares.get(&who)).copied().unwrap_or_default()
            }
            VenueName::Market(id) => {
                self.markets.get(&id).map_or(U256::ZERO, |market| market.shares_of(who))
            }
        }
    }

    /// Returns whether no gate blocks withdrawals from a venue.
    pub(crate) fn allows_withdrawals(&self, venue: VenueName) -> bool {
        let VenueName::Vault(vault) = venue else { return true };
        match self.vaults.get(&vault).map(|vault| &vault.kind) {
            Some(Kind::Two(two)) => !two.closed.send_shares && !two.closed.receive_assets,
            Some(Kind::Meta(_)) | None => true,
        }
    }

    /// Opens the exit gates of all vaults.
    pub(super) fn open_exits(&mut self) {
        for vault in self.vaults.values_mut() {
            if let Kind::Two(two) = &mut vault.kind {
                (two.closed.send_shares, two.closed.receive_assets) = (false, false);
            }
        }
    }

    /// Returns all venues.
    pub(crate) fn names(&self) -> Vec<VenueName> {
        let vaults = self.vaults.keys().map(|vault| VenueName::Vault(*vault));
        vaults.chain(self.markets.keys().map(|id| VenueName::Market(*id))).collect()
    }
}

impl State {
    /// Returns the value of shares of a venue at `time`; zero if the venue does not exist.
    pub(crate) fn worth(&self, venue: VenueName, shares: U256, time: u64) -> U256 {
        match venue {
            VenueName::Vault(vault) => {
                let totals = self.vault_totals(vault, time);
                totals.map_or(U256::ZERO, |totals| totals.to_assets(shares, false))
            }
            VenueName::Market(id) => {
                let market = self.lending.markets.get(&id);
                let totals = market.map(|market| market.totals.accrued_at(time));
                totals.map_or(U256::ZERO, |totals| totals.to_assets(shares, false))
            }
        }
    }

    /// Returns the assets that an account can withdraw from a venue at `time`.
    pub(crate) fn withdrawable(&self, venue: VenueName, who: Address, time: u64) -> U256 {
        let worth = self.worth(venue, self.lending.shares_of(venue, who), time);
        worth.min(self.free_in(venue, time))
    }

    /// Returns the assets that all accounts together can withdraw from a venue at `time`.
    pub(crate) fn free_in(&self, venue: VenueName, time: u64) -> U256 {
        match venue {
            VenueName::Vault(vault) => self.free(vault, time),
            VenueName::Market(id) => {
                let market = self.lending.markets.get(&id);
                market.map_or(U256::ZERO, |market| market.totals.accrued_at(time).liquidity())
            }
        }
    }

    /// Returns a vault's totals at `time`, with its interest and the shares for its fee.
    pub(super) fn vault_totals(&self, vault: Address, time: u64) -> Option<VaultTotals> {
        let one = self.lending.vaults.get(&vault)?;
        let (assets, lost) = match &one.kind {
            Kind::Two(two) => {
                let elapsed = U256::from(time.saturating_sub(one.updated));
                let most = one.total + mul_div(one.total * elapsed, RATE_MAX, WAD, false);
                (self.real_assets(vault, one.asset, two, time).min(most), U256::ZERO)
            }
            Kind::Meta(meta) => {
                let each = meta.queue.iter().filter_map(|(id, _cap)| {
                    Some(self.lending.markets.get(id)?.assets_of(vault, time))
                });
                let real = each.fold(U256::ZERO, |sum, one| sum + one);
                let lost = if real < one.total.saturating_sub(meta.lost) {
                    one.total - real
                } else {
                    meta.lost
                };
                (real + lost, lost)
            }
        };
        let grown = assets.saturating_sub(one.total);
        let fee = mul_div(grown, one.fee, WAD, false);
        let fee_shares = if fee.is_zero() {
            U256::ZERO
        } else {
            mul_div(fee, one.supply + VIRTUAL_SHARES, assets + U256::ONE - fee, false)
        };
        Some(VaultTotals { assets, shares: one.supply + fee_shares, lost, fee_shares })
    }

    /// Returns the assets of a Vault V2: its idle money, and the money that its adapters have lent.
    fn real_assets(&self, vault: Address, asset: Address, two: &Two, time: u64) -> U256 {
        let adapters = two.adapters.iter().map(|adapter| self.assets_lent_by(*adapter, time));
        adapters.fold(self.balance(asset, vault), |sum, one| sum + one)
    }

    /// Returns the assets that an adapter has lent.
    pub(super) fn assets_lent_by(&self, adapter: Address, time: u64) -> U256 {
        match self.lending.adapters.get(&adapter).map(|one| &one.lends_to) {
            Some(LendsTo::Markets(ids)) => {
                let each = ids.iter().filter_map(|id| self.lending.markets.get(id));
                each.fold(U256::ZERO, |sum, market| sum + market.assets_of(adapter, time))
            }
            Some(LendsTo::Vault(inner)) => {
                let venue = VenueName::Vault(*inner);
                self.worth(venue, self.lending.shares_of(venue, adapter), time)
            }
            None => U256::ZERO,
        }
    }

    /// Returns the assets that all depositors of a vault together can withdraw at `time`.
    pub(super) fn free(&self, vault: Address, time: u64) -> U256 {
        let Some(one) = self.lending.vaults.get(&vault) else { return U256::ZERO };
        match &one.kind {
            Kind::Meta(meta) => {
                let each = meta.queue.iter().filter_map(|(id, _cap)| {
                    Some(self.lending.markets.get(id)?.withdrawable(vault, time))
                });
                each.fold(U256::ZERO, |sum, one| sum + one)
            }
            Kind::Two(two) => {
                let idle = self.balance(one.asset, vault);
                let Some((adapter, data)) = &two.liquidity else { return idle };
                let more = match self.lending.adapters.get(adapter).map(|one| &one.lends_to) {
                    Some(LendsTo::Markets(_)) => {
                        let market = liquidity_market(data);
                        let market = market.and_then(|id| self.lending.markets.get(&id));
                        market.map_or(U256::ZERO, |market| market.withdrawable(*adapter, time))
                    }
                    Some(LendsTo::Vault(inner)) => {
                        self.withdrawable(VenueName::Vault(*inner), *adapter, time)
                    }
                    None => U256::ZERO,
                };
                idle + more
            }
        }
    }
}

/// Returns the market in the data that a vault passes to its liquidity adapter.
pub(super) fn liquidity_market(data: &Bytes) -> Option<B256> {
    use alloy_sol_types::SolValue;
    let params = abi::MarketParams::abi_decode_validate(data).ok()?;
    Some(super::blue::market_id(&params))
}
