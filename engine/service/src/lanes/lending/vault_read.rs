//! Reads all facts about one vault: its kind, its curator and owner, and its adapters.
//!
//! A vault has parts that are found step by step: its adapters, and the vaults behind them. They change seldom. So a
//! read starts from the parts that the last read found, queries them all at once, and shows whether the vault still
//! has exactly these.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::token;
use bursar_core::networks::{AdapterKind, Lending as Contracts, Network, VaultKind};
use bursar_morpho::market::BorrowRate;
use bursar_morpho::trust::{AdapterOrigin, AdapterReading, judge_vault};
use bursar_morpho::vault::{LiquiditySource, v2_liquidity};
use bursar_morpho::views::{self, adapter, factory, market, vault};
use bursar_morpho::{Trust, TrustList, VaultReading};

use crate::lanes::batch::{Answers, Batch};

/// Maximum number of adapters of one vault, or of markets in its queue. A vault with more is unreadable.
const ADAPTERS_OR_MARKETS_MAX: u64 = 32;

/// Maximum number of rounds of one read. Another round follows whenever a round finds new parts: the number of
/// adapters, then the adapters, then the vaults behind them. The last round allows for one change meanwhile.
pub(super) const ROUNDS_MAX: usize = 5;

/// A vault, as it was read at one block.
#[derive(Debug, Clone)]
pub struct VaultFacts {
    pub address: Address,
    pub kind: VaultKind,
    /// The name that the vault reports.
    pub name: String,
    pub symbol: String,
    pub curator: Address,
    pub owner: Address,
    pub trust: Trust,
    /// Whether the vault lends the network's stablecoin.
    pub lends_stablecoin: bool,
    /// The assets under management, in the asset's smallest unit.
    pub total_assets: U256,
    /// The assets that all depositors together can withdraw now, in the same unit; `None` if unknown.
    pub liquid: Option<U256>,
    /// The adapters that lend to markets.
    pub market_adapters: Vec<Address>,
    /// The markets to which a MetaMorpho vault lends directly.
    pub markets: Vec<B256>,
}

impl VaultFacts {
    /// Returns whether Bursar trusts the vault.
    pub fn is_trusted(&self) -> bool {
        matches!(self.trust, Trust::Curated | Trust::Pinned)
    }
}

/// The parts of a vault.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Structure {
    /// The number of adapters of a Vault V2.
    count: u64,
    adapters: Vec<Address>,
    /// Adapters that lend to vaults, each with its vault.
    inner_vaults: Vec<(Address, Address)>,
    /// Address and data of the liquidity adapter of a Vault V2.
    liquidity: Option<(Address, Bytes)>,
    /// The length of a MetaMorpho vault's withdrawal queue.
    queue_length: u64,
    queue: Vec<B256>,
}

/// The outcome of reading a vault.
pub(super) enum VaultOutcome {
    Read(Box<VaultFacts>),
    /// The vault has other parts than expected: read again with these.
    OtherParts(Structure),
    Unreadable(&'static str),
}

/// The batch indexes of the reads of one vault.
pub(super) struct VaultReads {
    address: Address,
    official: Vec<(VaultKind, usize)>,
    asset: usize,
    curator: usize,
    owner: usize,
    name: usize,
    symbol: usize,
    total: usize,
    idle: usize,
    count: usize,
    registry: usize,
    liquidity_adapter: usize,
    liquidity_data: usize,
    adapters: Vec<AdapterReads>,
    liquidity: LiquidityReads,
    /// For each vault behind an adapter, the index of each factory's answer.
    inner: Vec<Vec<usize>>,
    queue_length: usize,
    queue: Vec<QueueReads>,
    expected: Structure,
}

/// The batch indexes of the reads of one adapter.
struct AdapterParts {
    /// The index of each adapter factory's answer.
    origins: Vec<(AdapterKind, usize)>,
    inner_vault: usize,
}

struct AdapterReads {
    at: usize,
    /// The reads about the adapter that the last read found at this index; `None` if it found none there.
    parts: Option<AdapterParts>,
}

struct QueueReads {
    at: usize,
    /// The reads of a market's totals and of the vault's position in it; `None` if the last read found no market
    /// here.
    market_reads: Option<(usize, usize)>,
}

enum LiquidityReads {
    Absent,
    Unknown,
    Market { supplied: usize, market: usize },
    Vault { max_withdraw: usize },
}

impl VaultReads {
    /// Adds the reads of a vault to the batch, for the parts that the last read found.
    pub(super) fn ask(
        batch: &mut Batch,
        address: Address,
        network: &Network,
        contracts: &Contracts,
        asked: Structure,
    ) -> Self {
        let is_vault = |batch: &mut Batch, vault| -> Vec<(VaultKind, usize)> {
            let factories = contracts.vault_factories.iter().map(|known| {
                let call = factory::is_vault_call(known.kind, vault);
                (known.kind, batch.add(known.address, call))
            });
            factories.collect()
        };
        let official = is_vault(batch, address);
        let adapters = (0..asked.count)
            .map(|index| AdapterReads::ask(batch, address, index, contracts, &asked))
            .collect();
        let inner = asked
            .inner_vaults
            .iter()
            .map(|(_adapter, vault)| {
                is_vault(batch, *vault).into_iter().map(|(_kind, at)| at).collect()
            })
            .collect();
        Self {
            address,
            official,
            asset: batch.add(address, vault::asset_call()),
            curator: batch.add(address, vault::curator_call()),
            owner: batch.add(address, vault::owner_call()),
            name: batch.add(address, token::name_call()),
            symbol: batch.add(address, token::symbol_call()),
            total: batch.add(address, vault::total_assets_call()),
            idle: batch.add(network.stablecoin.address, token::balance_call(address)),
            count: batch.add(address, vault::adapter_count_call()),
            registry: batch.add(address, vault::adapter_registry_call()),
            liquidity_adapter: batch.add(address, vault::liquidity_adapter_call()),
            liquidity_data: batch.add(address, vault::liquidity_data_call()),
            adapters,
            liquidity: LiquidityReads::ask(batch, contracts, &asked),
            inner,
            queue_length: batch.add(address, vault::withdraw_queue_length_call()),
            queue: (0..asked.queue_length)
                .map(|index| QueueReads::ask(batch, address, index, contracts, &asked))
                .collect(),
            expected: asked,
        }
    }

    /// Reads the answers and judges the vault.
    pub(super) fn read(
        &self,
        answers: &Answers,
        network: &Network,
        contracts: &Contracts,
    ) -> VaultOutcome {
        self.try_read(answers, network, contracts).unwrap_or_else(VaultOutcome::Unreadable)
    }

    fn try_read(
        &self,
        answers: &Answers,
        network: &Network,
        contracts: &Contracts,
    ) -> Result<VaultOutcome, &'static str> {
        let address_at = |at| answers.address(at).ok_or("it is not a vault");
        let mut official = None;
        for (kind, at) in &self.official {
            if answers.flag(*at).ok_or("a factory gives no valid answer")? {
                official = Some(*kind);
            }
        }
        // A vault that no official factory created is refused whatever its kind, so its parts are not needed.
        let is_v2 = official == Some(VaultKind::V2);
        let (mut found, mut registry) = (Structure::default(), None);
        let mut origins = Vec::new();
        if is_v2 {
            registry = Some(address_at(self.registry)?);
            found.count = self.count(answers)?;
            found.liquidity = self.liquidity_adapter(answers)?;
            if found.count == self.expected.count {
                origins = self.origins(answers, &mut found)?;
            }
        }
        if official == Some(VaultKind::MetaMorpho) {
            self.find_queue(answers, &mut found)?;
        }
        if found != self.expected {
            return Ok(VaultOutcome::OtherParts(found));
        }
        self.confirm_inner(answers, &mut origins)?;
        let idle = answers.number(self.idle).map_err(|_odd| "the stablecoin cannot be read")?;
        let source = self.source(answers)?;
        let kind = official.unwrap_or(VaultKind::V2);
        let liquid = match (kind, &source) {
            (VaultKind::MetaMorpho, _) => self.free_in_queue(answers),
            (VaultKind::V2, LiquiditySource::Unknown) => None,
            (VaultKind::V2, known) => v2_liquidity(idle, known),
        };
        let is_market = |one: &&AdapterReading| one.origin == AdapterOrigin::Markets;
        let market_adapters = origins.iter().filter(is_market).map(|one| one.adapter).collect();
        let reading = VaultReading {
            vault: self.address,
            kind,
            is_from_official_factory: official.is_some(),
            asset: address_at(self.asset)?,
            curator: address_at(self.curator)?,
            owner: address_at(self.owner)?,
            adapters: origins,
            adapter_registry: registry,
        };
        let text =
            |at| answers.bytes(at).map(|answer| token::decode_text(answer)).unwrap_or_default();
        Ok(VaultOutcome::Read(Box::new(VaultFacts {
            address: self.address,
            kind,
            name: text(self.name),
            symbol: text(self.symbol),
            curator: reading.curator,
            owner: reading.owner,
            trust: judge_vault(&reading, &trusted_parties(network, contracts)),
            lends_stablecoin: reading.asset == network.stablecoin.address,
            total_assets: answers.number(self.total).map_err(|_odd| "it is not a vault")?,
            liquid,
            market_adapters,
            markets: found.queue,
        })))
    }

    fn count(&self, answers: &Answers) -> Result<u64, &'static str> {
        let count = answers.bytes(self.count).ok().and_then(|count| views::decode_length(count));
        count.filter(|count| *count <= ADAPTERS_OR_MARKETS_MAX).ok_or("its adapters cannot be read")
    }

    fn liquidity_adapter(
        &self,
        answers: &Answers,
    ) -> Result<Option<(Address, Bytes)>, &'static str> {
        let data = answers.bytes(self.liquidity_data).ok();
        let data = data.and_then(|data| vault::decode_liquidity_data(data));
        let both = answers.address(self.liquidity_adapter).zip(data);
        let (address, data) = both.ok_or("its liquidity adapter cannot be read")?;
        Ok((!address.is_zero()).then_some((address, data)))
    }

    /// Reads the adapters and their origins. The vaults behind them count as unofficial until `confirm_inner` has
    /// checked them.
    fn origins(
        &self,
        answers: &Answers,
        found: &mut Structure,
    ) -> Result<Vec<AdapterReading>, &'static str> {
        let odd = "an adapter gives no valid answer";
        for places in &self.adapters {
            found.adapters.push(answers.address(places.at).ok_or(odd)?);
        }
        if found.adapters != self.expected.adapters {
            return Ok(Vec::new());
        }
        let mut origins = Vec::with_capacity(self.adapters.len());
        for (adapter, places) in found.adapters.iter().zip(&self.adapters) {
            let origin = places.origin(answers).ok_or(odd)?;
            if let AdapterOrigin::Vault { inner_vault, .. } = origin {
                found.inner_vaults.push((*adapter, inner_vault));
            }
            origins.push(AdapterReading { adapter: *adapter, origin });
        }
        Ok(origins)
    }

    /// Reads whether official factories created the vaults behind adapters.
    fn confirm_inner(
        &self,
        answers: &Answers,
        origins: &mut [AdapterReading],
    ) -> Result<(), &'static str> {
        let behind = origins.iter_mut().filter_map(|one| match &mut one.origin {
            AdapterOrigin::Vault { is_inner_official, .. } => Some(is_inner_official),
            AdapterOrigin::Markets | AdapterOrigin::Unofficial => None,
        });
        for (is_official, factories) in behind.zip(&self.inner) {
            for at in factories {
                *is_official |= answers.flag(*at).ok_or("a factory gives no valid answer")?;
            }
        }
        Ok(())
    }

    fn find_queue(&self, answers: &Answers, found: &mut Structure) -> Result<(), &'static str> {
        let odd = "its queue of markets cannot be read";
        let count = answers.bytes(self.queue_length).ok().and_then(|one| views::decode_length(one));
        found.queue_length = count.filter(|count| *count <= ADAPTERS_OR_MARKETS_MAX).ok_or(odd)?;
        if found.queue_length == self.expected.queue_length {
            for places in &self.queue {
                let id = answers.bytes(places.at).ok().and_then(|id| views::decode_market_id(id));
                found.queue.push(id.ok_or(odd)?);
            }
        }
        Ok(())
    }

    /// Returns the amount that the markets of the queue can pay the vault now, without the interest that is due.
    fn free_in_queue(&self, answers: &Answers) -> Option<U256> {
        self.queue.iter().try_fold(U256::ZERO, |sum, places| {
            let (market, position) = places.market_reads?;
            let market = market::decode_market(answers.bytes(market).ok()?)?;
            let position = market::decode_position(answers.bytes(position).ok()?)?;
            let at = u64::try_from(market.last_update).ok()?;
            let market = market.accrue(BorrowRate::NoModel, at).ok()?;
            sum.checked_add(market.withdrawable(position.supply_shares)?)
        })
    }

    fn source(&self, answers: &Answers) -> Result<LiquiditySource, &'static str> {
        let number = |at| answers.number(at).map_err(|_odd| "what it can pay cannot be read");
        Ok(match self.liquidity {
            LiquidityReads::Absent => LiquiditySource::Absent,
            LiquidityReads::Unknown => LiquiditySource::Unknown,
            LiquidityReads::Vault { max_withdraw } => {
                LiquiditySource::MetaMorpho { max_withdraw: number(max_withdraw)? }
            }
            LiquidityReads::Market { supplied, market } => {
                let market = answers.bytes(market).ok().and_then(|one| market::decode_market(one));
                let market = market.ok_or("what it can pay cannot be read")?;
                // Interest adds the same amount to the supplied and to the borrowed assets, so it does not change the
                // difference.
                let lent = market.total_supply_assets.saturating_sub(market.total_borrow_assets);
                let liquidity = U256::from(lent);
                LiquiditySource::Market { supplied: number(supplied)?, liquidity }
            }
        })
    }
}

impl AdapterReads {
    fn ask(
        batch: &mut Batch,
        vault: Address,
        index: u64,
        contracts: &Contracts,
        asked: &Structure,
    ) -> Self {
        let at = batch.add(vault, vault::adapter_call(index));
        let known = usize::try_from(index).ok().and_then(|index| asked.adapters.get(index));
        let known = known.map(|address| {
            let origins = contracts.adapter_factories.iter().map(|known| {
                let asked = match known.kind {
                    AdapterKind::Markets => factory::is_market_adapter_call(*address),
                    AdapterKind::MetaMorpho => factory::is_vault_adapter_call(*address),
                };
                (known.kind, batch.add(known.address, asked))
            });
            let origins = origins.collect();
            let inner_vault = batch.add(*address, adapter::inner_vault_call());
            AdapterParts { origins, inner_vault }
        });
        Self { at, parts: known }
    }

    fn origin(&self, answers: &Answers) -> Option<AdapterOrigin> {
        let AdapterParts { origins, inner_vault, .. } = self.parts.as_ref()?;
        let mut origin = AdapterOrigin::Unofficial;
        for (kind, at) in origins {
            if !answers.flag(*at)? {
                continue;
            }
            origin = match kind {
                AdapterKind::Markets => AdapterOrigin::Markets,
                AdapterKind::MetaMorpho => {
                    let inner_vault = answers.address(*inner_vault)?;
                    AdapterOrigin::Vault { inner_vault, is_inner_official: false }
                }
            };
        }
        Some(origin)
    }
}

impl QueueReads {
    fn ask(
        batch: &mut Batch,
        address: Address,
        index: u64,
        contracts: &Contracts,
        asked: &Structure,
    ) -> Self {
        let at = batch.add(address, vault::withdraw_queue_call(index));
        let known = usize::try_from(index).ok().and_then(|index| asked.queue.get(index));
        let known = known.map(|id| {
            let market = batch.add(contracts.singleton, market::market_call(*id));
            (market, batch.add(contracts.singleton, market::position_call(*id, address)))
        });
        Self { at, market_reads: known }
    }
}

impl LiquidityReads {
    fn ask(batch: &mut Batch, contracts: &Contracts, asked: &Structure) -> Self {
        let Some((address, data)) = &asked.liquidity else { return Self::Absent };
        if let Some((adapter, inner)) =
            asked.inner_vaults.iter().find(|(adapter, _)| adapter == address)
        {
            let max_withdraw = batch.add(*inner, vault::max_withdraw_call(*adapter));
            return Self::Vault { max_withdraw };
        }
        match adapter::decode_liquidity_market(data) {
            Some(params) => Self::Market {
                supplied: batch.add(*address, adapter::supplied_call(params.id())),
                market: batch.add(contracts.singleton, market::market_call(params.id())),
            },
            None => Self::Unknown,
        }
    }
}

pub(super) fn trusted_parties<'a>(network: &Network, contracts: &'a Contracts) -> TrustList<'a> {
    TrustList {
        stablecoin: network.stablecoin.address,
        curators: contracts.curators,
        owners: contracts.owners,
        pinned_vaults: contracts.pinned_vaults,
        adapter_registry: contracts.adapter_registry,
        interest_model: contracts.interest_model,
    }
}
