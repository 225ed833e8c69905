//! The initial markets and vaults of a world that lends, and their names.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, uint};
use alloy_sol_types::SolValue;
use bursar_core::networks::Lending;

use super::OTHERS;
use super::abi::MarketParams;
use super::adapters::{cap_of, market_cap};
use super::blue::{Market, Totals, WAD, market_id};
use super::contracts::Contracts;
use super::state::State;
use super::vaults::{Adapter, Kind, LendsTo, Meta, Two, Vault};

/// One dollar of a stablecoin with six decimals.
pub(crate) const DOLLAR: u64 = 1_000_000;

const YEAR: u64 = 31_536_000;
const CAP: u64 = 50_000_000;

/// A curator or an owner that is in no list.
pub(super) const STRANGER: Address = Address::repeat_byte(0x57);
/// An adapter that no official factory created.
pub(super) const ODD_ADAPTER: Address = Address::repeat_byte(0xe0);
/// Another lender. A world assigns to it the shares that our addresses do not own.
pub(super) const LENDER: Address = Address::repeat_byte(0x1e);

/// The name of a venue: a vault's address or a market's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VenueName {
    Vault(Address),
    Market(B256),
}

impl std::fmt::Display for VenueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vault(vault) => write!(f, "{vault:#x}"),
            Self::Market(id) => write!(f, "{id:#x}"),
        }
    }
}

/// The number of venues that agents can name on each network.
pub(crate) const NAMED_VENUES: usize = 7;

/// Returns the venues of a network in the order of their numbers.
///
/// These are three vaults that the wallet may trust, a market to which a trusted vault lends, another market, a vault
/// with an unknown owner, and a vault that no factory created.
pub(crate) fn named_venues(contracts: &Contracts) -> Vec<VenueName> {
    let (first, second) = (market_id(&params(contracts, 0)), market_id(&params(contracts, 1)));
    let mut all: Vec<VenueName> = trusted(contracts).map(VenueName::Vault).to_vec();
    all.extend([VenueName::Market(first), VenueName::Market(second)]);
    all.extend([new_vault(), impostor()].map(VenueName::Vault));
    all
}

fn lending(contracts: &Contracts) -> &'static Lending {
    contracts.network.lending.expect("a network with Morpho")
}

/// Returns the pinned vaults. If there are only two, the third is a vault that is trusted because of its owner.
fn trusted(contracts: &Contracts) -> [Address; 3] {
    let pinned = lending(contracts).pinned_vaults;
    std::array::from_fn(|at| pinned.get(at).copied().unwrap_or(Address::repeat_byte(0x7a)))
}

fn new_vault() -> Address {
    Address::repeat_byte(0x4e)
}

fn impostor() -> Address {
    Address::repeat_byte(0x1a)
}

/// Returns the adapter of the vault at this index of [`named_venues`].
fn adapter(at: u8) -> Address {
    Address::repeat_byte(0xad - at)
}

/// Returns an adapter of the first Vault V2 of a network.
pub(crate) fn an_adapter(contracts: &Contracts) -> Address {
    adapter(u8::from(lending(contracts).vault_factories.len() > 1))
}

pub(super) fn params(contracts: &Contracts, at: usize) -> MarketParams {
    MarketParams {
        loanToken: contracts.dollar(),
        collateralToken: OTHERS[at % 2],
        oracle: Address::repeat_byte(0x0c),
        irm: lending(contracts).interest_model,
        lltv: [uint!(860_000_000_000_000_000_U256), uint!(915_000_000_000_000_000_U256)][at % 2],
    }
}

fn dollars(amount: u64) -> U256 {
    U256::from(amount) * U256::from(DOLLAR)
}

/// Creates the venues of a chain at a time in Unix seconds.
pub(crate) fn open_venues(state: &mut State, contracts: &Contracts, time: u64) {
    let mut build = Build { state, contracts, time };
    build.market(0, 1_000_000, 60);
    build.market(1, 80_000, 45);
    let [first, second, third] = trusted(contracts);
    let is_base = lending(contracts).vault_factories.len() > 1;
    if is_base {
        build.meta(first, "First", &[0, 1], 200_000);
        build.meta(third, "Third", &[0], 3_000);
        build.vault(second, "Second", 800, LiquidIn::Vault(third, adapter(1)), 1_200);
    } else {
        build.vault(first, "First", 5_000, LiquidIn::Market(0, adapter(0)), 400_000);
        build.vault(second, "Second", 1_500, LiquidIn::Nothing(adapter(1)), 30_000);
        build.vault(third, "Third", 100, LiquidIn::Market(1, adapter(2)), 20_000);
    }
    build.vault(new_vault(), "New", 2_000, LiquidIn::Market(0, adapter(3)), 9_000);
    build.vault(impostor(), "Impostor", 2_000, LiquidIn::Market(0, adapter(4)), 9_000);
    let owners = lending(contracts).owners;
    let vaults = &mut build.state.lending.vaults;
    if let (Some(third), Some(owner)) = (vaults.get_mut(&third), owners.first()) {
        third.owner = *owner;
    }
    if let Some(impostor) = vaults.get_mut(&impostor()) {
        impostor.official = false;
    }
    // The contracts have enough coins that markets and vaults can always pay their debts.
    let huge = U256::from(10).pow(U256::from(40));
    let singleton = lending(contracts).singleton;
    if let Some(coin) = build.state.tokens.get_mut(&contracts.dollar()) {
        coin.balances.insert(singleton, huge);
    }
}

impl State {
    /// Returns whether the wallet may trust a venue.
    ///
    /// A vault needs a trusted curator, the right adapters, and a trusted owner or a place in the table. A market needs
    /// a vault of the table that the wallet may trust and that lends to the market.
    pub(crate) fn may_be_trusted(&self, contracts: &Contracts, venue: VenueName) -> bool {
        let table = lending(contracts);
        match venue {
            VenueName::Vault(vault) => {
                let known = self.lending.vaults.get(&vault);
                known.is_some_and(|known| {
                    let by_place =
                        table.pinned_vaults.contains(&vault) || table.owners.contains(&known.owner);
                    by_place
                        && known.official
                        && known.asset == contracts.dollar()
                        && table.curators.contains(&known.curator)
                        && self.has_right_adapters(known)
                })
            }
            VenueName::Market(id) => table.pinned_vaults.iter().any(|vault| {
                self.lends_to(*vault, id)
                    && self.may_be_trusted(contracts, VenueName::Vault(*vault))
            }),
        }
    }

    pub(super) fn has_right_adapters(&self, vault: &Vault) -> bool {
        let Kind::Two(two) = &vault.kind else { return true };
        two.adapters.iter().all(|adapter| match self.lending.adapters.get(adapter) {
            Some(Adapter { official: true, lends_to: LendsTo::Markets(_) }) => true,
            Some(Adapter { official: true, lends_to: LendsTo::Vault(inner) }) => {
                self.lending.vaults.get(inner).is_some_and(|inner| inner.official)
            }
            Some(Adapter { official: false, .. }) | None => false,
        })
    }

    /// Returns whether a vault has a cap for a market.
    pub(super) fn lends_to(&self, vault: Address, id: B256) -> bool {
        let Some(params) = self.lending.markets.get(&id).map(|market| market.params.clone()) else {
            return false;
        };
        match self.lending.vaults.get(&vault).map(|vault| &vault.kind) {
            Some(Kind::Meta(meta)) => {
                meta.queue.iter().any(|(known, cap)| *known == id && !cap.is_zero())
            }
            Some(Kind::Two(two)) => two.adapters.iter().any(|adapter| {
                let cap = two.caps.get(&market_cap(*adapter, &params));
                cap.is_some_and(|cap| !cap.is_zero())
            }),
            None => false,
        }
    }
}

/// The place of a Vault V2's money that is not idle: a market or a vault, through an adapter.
enum LiquidIn {
    Market(usize, Address),
    Vault(Address, Address),
    /// The money is in the first market, and no withdrawal can take it out.
    Nothing(Address),
}

struct Build<'a> {
    state: &'a mut State,
    contracts: &'a Contracts,
    time: u64,
}

impl Build<'_> {
    fn market(&mut self, at: usize, supplied: u64, lent_percent: u64) {
        let params = params(self.contracts, at);
        let assets = dollars(supplied);
        let shares = assets * uint!(1_000_000_U256);
        let part = |whole: U256| whole * U256::from(lent_percent) / U256::from(100);
        let totals = Totals {
            supply_assets: assets,
            supply_shares: shares,
            borrow_assets: part(assets),
            borrow_shares: part(shares),
            updated_s: self.time,
            fee: if at == 0 { U256::ZERO } else { WAD / U256::from(10) },
            rate: WAD / U256::from(14 * YEAR),
        };
        let positions = BTreeMap::from([(LENDER, shares)]);
        let id = market_id(&params);
        self.state.lending.markets.insert(id, Market { params, totals, positions });
    }

    /// Supplies to a market for a vault or an adapter.
    fn lend(&mut self, at: usize, to: Address, amount: u64) {
        let id = market_id(&params(self.contracts, at));
        if let Some(market) = self.state.lending.markets.get_mut(&id) {
            let shares = market.totals.to_shares(dollars(amount), false);
            market.totals.supply_assets += dollars(amount);
            market.totals.supply_shares += shares;
            *market.positions.entry(to).or_default() += shares;
        }
    }

    fn bare(&self, name: &'static str, total: u64, kind: Kind) -> Vault {
        let curator = lending(self.contracts).curators.first().copied().unwrap_or_default();
        let shares = dollars(total) * uint!(1_000_000_000_000_U256);
        Vault {
            name,
            asset: self.contracts.dollar(),
            curator,
            owner: STRANGER,
            official: true,
            shares: BTreeMap::from([(LENDER, shares)]),
            supply: shares,
            total: dollars(total),
            updated: self.time,
            fee: WAD / U256::from(10),
            kind,
        }
    }

    fn meta(&mut self, address: Address, name: &'static str, markets: &[usize], total: u64) {
        self.lend(markets[0], address, total);
        let id = |at: &usize| (market_id(&params(self.contracts, *at)), dollars(CAP));
        let queue = markets.iter().map(id).collect();
        let meta = Kind::Meta(Meta { queue, lost: U256::ZERO });
        let vault = self.bare(name, total, meta);
        self.state.lending.vaults.insert(address, vault);
    }

    fn vault(
        &mut self,
        address: Address,
        name: &'static str,
        idle: u64,
        place: LiquidIn,
        lent: u64,
    ) {
        let mut two = Two::default();
        let (adapter, lends_to) = match place {
            LiquidIn::Market(at, adapter) => {
                let params = params(self.contracts, at);
                self.lend(at, adapter, lent);
                two.liquidity = Some((adapter, params.abi_encode().into()));
                (adapter, LendsTo::Markets(vec![market_id(&params)]))
            }
            LiquidIn::Nothing(adapter) => {
                let params = params(self.contracts, 0);
                self.lend(0, adapter, lent);
                two.caps.insert(market_cap(adapter, &params), dollars(CAP));
                (adapter, LendsTo::Markets(vec![market_id(&params)]))
            }
            LiquidIn::Vault(inner, adapter) => {
                self.join(inner, adapter, lent);
                two.liquidity = Some((adapter, Bytes::new()));
                (adapter, LendsTo::Vault(inner))
            }
        };
        if let Some((adapter, data)) = &two.liquidity {
            two.caps.insert(cap_of(*adapter, data), dollars(CAP));
        }
        two.adapters.push(adapter);
        self.state.lending.adapters.insert(adapter, Adapter { official: true, lends_to });
        let vault = self.bare(name, idle + lent, Kind::Two(two));
        self.state.lending.vaults.insert(address, vault);
        if let Some(coin) = self.state.tokens.get_mut(&self.contracts.dollar()) {
            coin.balances.insert(address, dollars(idle));
        }
    }

    /// Lends to a MetaMorpho vault for an adapter.
    fn join(&mut self, inner: Address, adapter: Address, amount: u64) {
        self.lend(0, inner, amount);
        if let Some(vault) = self.state.lending.vaults.get_mut(&inner) {
            let shares = dollars(amount) * uint!(1_000_000_000_000_U256);
            vault.shares.insert(adapter, shares);
            vault.supply += shares;
            vault.total += dollars(amount);
        }
    }
}
