//! Reads where a Vault V2 has its money and what a forced deallocation from there costs, all at one block.
//!
//! Only adapters of the official factories count. A cap limits what a vault may lend, but not what it may take back.
//! So a market with a cap of zero counts too: its lenders need this exit most.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::networks::{AdapterKind, Lending as Contracts, Network, VaultKind};
use bursar_domain::Refusal;
use bursar_morpho::views::{self, adapter, factory, market, vault};
use bursar_morpho::{ForcedSource, MarketParams, VaultFunds, VenueId};

use crate::lanes::batch::{Answers, Batch};

/// Maximum number of adapters of one vault, and of markets of one adapter.
const ADAPTERS_MAX: u64 = 32;

/// Reads one vault at one block.
pub(super) struct ForcedReader<'a> {
    pub(super) chain: &'a dyn Chain,
    pub(super) network: &'a Network,
    pub(super) contracts: &'a Contracts,
    pub(super) vault: Address,
    pub(super) block: u64,
}

/// The vault's own data, without the data of its adapters.
struct VaultOutline {
    idle: U256,
    adapters: u64,
    liquidity_adapter: Address,
    /// The market in the data that the vault passes to its liquidity adapter.
    liquidity_market: Option<B256>,
}

/// An adapter of an official factory.
struct OfficialAdapter {
    adapter: Address,
    penalty_e18: U256,
    lends_to: LendsTo,
}

enum LendsTo {
    /// Markets of Morpho Blue, with their number.
    Markets(u64),
    /// A vault, before it is known whether an official factory created it.
    Vault(Address),
}

/// An adapter and one venue to which it lends, before the amounts are known.
struct AdapterTarget {
    adapter: Address,
    penalty_e18: U256,
    payer: VenueId,
}

impl ForcedReader<'_> {
    /// Reads where the vault has its money.
    ///
    /// `plain` is the amount that a plain withdrawal can pay. If it is `None`, the amount is not known, and only the
    /// idle balance counts.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`, or the contract is not a Vault V2 of the official factory.
    pub(super) async fn read_money(&self, plain: Option<U256>) -> Result<VaultFunds, Refusal> {
        let outline = self.outline().await?;
        let adapters = self.adapters(outline.adapters).await?;
        let officials = self.official_adapters(&adapters).await?;
        let targets = self.targets(&officials).await?;
        let plain = plain.unwrap_or(outline.idle);
        let mut money = VaultFunds { plain_withdrawal_max: plain, ..VaultFunds::default() };
        self.read_targets(&targets, &outline, &mut money).await?;
        // The plain withdrawal takes this amount from the liquidity adapter's market, so forced deallocations cannot.
        let taken = plain.saturating_sub(outline.idle);
        let payer = outline.liquidity_market.map(VenueId::Market);
        if let Some(free) = payer.and_then(|payer| money.free_by_payer.get_mut(&payer)) {
            *free = free.saturating_sub(taken);
        }
        Ok(money)
    }

    async fn run(&self, batch: &Batch) -> Result<Answers, Refusal> {
        batch.run_at(self.chain, self.block).await
    }

    async fn outline(&self) -> Result<VaultOutline, Refusal> {
        let Self { contracts, vault: address, .. } = *self;
        let mut batch = Batch::default();
        let factories = contracts.vault_factories.iter().filter(|one| one.kind == VaultKind::V2);
        let official: Vec<usize> = factories
            .map(|one| batch.add(one.address, factory::is_vault_call(one.kind, address)))
            .collect();
        let idle = batch.add(self.network.stablecoin.address, token::balance_call(address));
        let count = batch.add(address, vault::adapter_count_call());
        let liquidity_adapter = batch.add(address, vault::liquidity_adapter_call());
        let liquidity_data = batch.add(address, vault::liquidity_data_call());
        let answers = self.run(&batch).await?;
        if !official.iter().any(|at| answers.flag(*at) == Some(true)) {
            let message = "This venue is not a Vault V2 of Morpho: only those have forced \
                           deallocations. Leave out --force-deallocate.";
            return Err(Refusal::because(Code::BadInput, message));
        }
        let odd = || Refusal::because(Code::WouldFail, "The vault's adapters cannot be read.");
        let count = answers.bytes(count).ok().and_then(|one| views::decode_length(one));
        let data: Option<Bytes> =
            answers.bytes(liquidity_data).ok().and_then(|data| vault::decode_liquidity_data(data));
        let market = data.and_then(|data| adapter::decode_liquidity_market(&data));
        Ok(VaultOutline {
            idle: answers.number(idle)?,
            adapters: count.filter(|count| *count <= ADAPTERS_MAX).ok_or_else(odd)?,
            liquidity_adapter: answers.address(liquidity_adapter).ok_or_else(odd)?,
            liquidity_market: market.map(|params| params.id()),
        })
    }

    async fn adapters(&self, count: u64) -> Result<Vec<Address>, Refusal> {
        let mut batch = Batch::default();
        let indexes: Vec<usize> =
            (0..count).map(|index| batch.add(self.vault, vault::adapter_call(index))).collect();
        let answers = self.run(&batch).await?;
        Ok(indexes.into_iter().filter_map(|at| answers.address(at)).collect())
    }

    /// Finds the adapters of official factories. An adapter that gives no valid answer is left out.
    async fn official_adapters(
        &self,
        adapters: &[Address],
    ) -> Result<Vec<OfficialAdapter>, Refusal> {
        let mut batch = Batch::default();
        let mut indexes = Vec::with_capacity(adapters.len());
        for address in adapters {
            let kinds: Vec<(AdapterKind, usize)> = self
                .contracts
                .adapter_factories
                .iter()
                .map(|known| {
                    let call = match known.kind {
                        AdapterKind::Markets => factory::is_market_adapter_call(*address),
                        AdapterKind::MetaMorpho => factory::is_vault_adapter_call(*address),
                    };
                    (known.kind, batch.add(known.address, call))
                })
                .collect();
            let penalty = batch.add(self.vault, vault::force_deallocate_penalty_call(*address));
            let count = batch.add(*address, adapter::market_count_call());
            let inner = batch.add(*address, adapter::inner_vault_call());
            indexes.push((*address, kinds, penalty, count, inner));
        }
        let answers = self.run(&batch).await?;
        let read = |(adapter, kinds, penalty, count, inner): (_, Vec<(_, usize)>, _, _, _)| {
            let kind = kinds.iter().find(|(_kind, at)| answers.flag(*at) == Some(true))?.0;
            let lends_to = match kind {
                AdapterKind::Markets => {
                    let count = views::decode_length(answers.bytes(count).ok()?)?;
                    LendsTo::Markets(count.min(ADAPTERS_MAX))
                }
                AdapterKind::MetaMorpho => LendsTo::Vault(answers.address(inner)?),
            };
            Some(OfficialAdapter { adapter, penalty_e18: answers.number(penalty).ok()?, lends_to })
        };
        Ok(indexes.into_iter().filter_map(read).collect())
    }

    /// Reads the markets of market adapters, and which vaults behind the other adapters are official.
    async fn targets(&self, officials: &[OfficialAdapter]) -> Result<Vec<AdapterTarget>, Refusal> {
        let mut batch = Batch::default();
        let mut asked = Vec::new();
        for one in officials {
            let at: Vec<usize> = match one.lends_to {
                LendsTo::Markets(count) => (0..count)
                    .map(|index| batch.add(one.adapter, adapter::market_id_call(index)))
                    .collect(),
                LendsTo::Vault(inner) => {
                    let factories = self.contracts.vault_factories.iter();
                    factories
                        .map(|known| {
                            batch.add(known.address, factory::is_vault_call(known.kind, inner))
                        })
                        .collect()
                }
            };
            asked.push((one, at));
        }
        let answers = self.run(&batch).await?;
        let mut targets = Vec::new();
        for (one, at) in asked {
            let OfficialAdapter { adapter, penalty_e18, .. } = *one;
            let target = |payer| AdapterTarget { adapter, penalty_e18, payer };
            match one.lends_to {
                LendsTo::Markets(_) => {
                    let ids = at
                        .iter()
                        .filter_map(|at| views::decode_market_id(answers.bytes(*at).ok()?));
                    targets.extend(ids.map(|id| target(VenueId::Market(id))));
                }
                LendsTo::Vault(inner) => {
                    let official = at.iter().any(|at| answers.flag(*at) == Some(true));
                    targets.extend(official.then(|| target(VenueId::Vault(inner))));
                }
            }
        }
        Ok(targets)
    }

    /// Reads the assets of each target, and the free assets of the market or vault that pays them. Skips a target
    /// without a valid answer.
    async fn read_targets(
        &self,
        targets: &[AdapterTarget],
        outline: &VaultOutline,
        money: &mut VaultFunds,
    ) -> Result<(), Refusal> {
        let singleton = self.contracts.singleton;
        let mut batch = Batch::default();
        let mut asked = Vec::with_capacity(targets.len());
        for target in targets {
            let [supplied, params, totals] = match target.payer {
                VenueId::Market(id) => [
                    (target.adapter, adapter::supplied_call(id)),
                    (singleton, market::market_params_call(id)),
                    (singleton, market::market_call(id)),
                ]
                .map(|(to, data)| Some(batch.add(to, data))),
                VenueId::Vault(inner) => {
                    let most = vault::max_withdraw_call(target.adapter);
                    [Some(batch.add(inner, most)), None, None]
                }
            };
            asked.push((target, supplied, params, totals));
        }
        let answers = self.run(&batch).await?;
        for (target, supplied, params, totals) in asked {
            let number = |at: Option<usize>| answers.number(at?).ok();
            let Some(supplied) = number(supplied) else { continue };
            let (market, free) = match target.payer {
                VenueId::Market(id) => {
                    let Some(known) = market_of(&answers, id, params, totals) else { continue };
                    (Some(known.0), known.1)
                }
                VenueId::Vault(_) => (None, supplied),
            };
            let known: &mut BTreeMap<VenueId, U256> = &mut money.free_by_payer;
            let most = known.entry(target.payer).or_default();
            *most = (*most).max(free);
            if !is_in_plain_withdrawal(target, outline) {
                let AdapterTarget { adapter, penalty_e18, payer } = *target;
                let source = ForcedSource { adapter, market, payer, supplied, penalty_e18 };
                money.sources.push(source);
            }
        }
        Ok(())
    }
}

/// Returns whether a plain withdrawal already reaches this target: its adapter is the liquidity adapter and, for a
/// market, the vault's data for that adapter names the market.
fn is_in_plain_withdrawal(target: &AdapterTarget, outline: &VaultOutline) -> bool {
    target.adapter == outline.liquidity_adapter
        && match target.payer {
            VenueId::Market(id) => outline.liquidity_market == Some(id),
            VenueId::Vault(_) => true,
        }
}

/// Returns the parameters of a market and the assets that it can pay: the supplied assets less the borrowed assets.
/// Interest adds the same amount to both, so it does not change the difference.
fn market_of(
    answers: &Answers,
    id: B256,
    params: Option<usize>,
    totals: Option<usize>,
) -> Option<(MarketParams, U256)> {
    let params = market::decode_market_params(id, answers.bytes(params?).ok()?)?;
    let totals = market::decode_market(answers.bytes(totals?).ok()?)?;
    let free = totals.total_supply_assets.saturating_sub(totals.total_borrow_assets);
    Some((params, U256::from(free)))
}
