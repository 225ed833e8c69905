//! Reads the vaults of our table: what they are, whom they name, and whether they are trusted.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_core::networks::{AdapterKind, Lending as Contracts, Network, VaultKind};
use bursar_domain::Refusal;
use bursar_morpho::trust::{AdapterOrigin, AdapterReading, judge_vault};
use bursar_morpho::vault::{LiquiditySource, v2_liquidity};
use bursar_morpho::views::{self, adapter, factory, market, vault};
use bursar_morpho::{Trust, TrustedParties, VaultReading};

use super::lane::Lending;
use crate::lanes::batch::{Answers, Batch};

/// Most adapters of one vault that are read. A vault with more is unreadable.
const ADAPTERS_MAX: u64 = 32;

/// The vaults of a network, all at one block.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub venues: Vec<Venue>,
    /// Vaults without a valid answer, and what is wrong.
    pub unreadable: Vec<(Address, &'static str)>,
}

/// One vault.
#[derive(Debug, Clone)]
pub struct Venue {
    pub address: Address,
    pub kind: VaultKind,
    /// The vault's own claims.
    pub name: String,
    pub symbol: String,
    pub curator: Address,
    pub owner: Address,
    pub trust: Trust,
    /// It lends the network's stablecoin.
    pub lends_stablecoin: bool,
    /// What it manages, in its asset's smallest unit.
    pub total_assets: U256,
    /// What all depositors of a Vault V2 together can withdraw now, in the same unit. A MetaMorpho vault answers for
    /// each depositor alone.
    pub liquid: Option<U256>,
}

impl Lending {
    /// Reads all vaults of a network's table.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn survey(&self, network: &Network) -> Result<Survey, Refusal> {
        let Some(contracts) = network.lending else { return Ok(Survey::default()) };
        let (chain, block) = self.at_newest_block(network).await?;
        survey_at(&*chain, block, network, contracts).await
    }
}

/// Reads all vaults of the table at a block.
pub(super) async fn survey_at(
    chain: &dyn Chain,
    block: u64,
    network: &Network,
    contracts: &Contracts,
) -> Result<Survey, Refusal> {
    let mut survey = Survey::default();
    let mut batch = Batch::default();
    let asked: Vec<_> = contracts
        .pinned_vaults
        .iter()
        .map(|address| First::ask(&mut batch, *address, network, contracts))
        .collect();
    let answers = batch.run_at(chain, block).await?;
    let mut known = Vec::new();
    for first in asked {
        match first.read(&answers) {
            Ok(identity) => known.push(identity),
            Err(reason) => survey.unreadable.push((first.address, reason)),
        }
    }
    let mut batch = Batch::default();
    let asked: Vec<_> = known.iter().map(|one| Second::ask(&mut batch, one)).collect();
    let answers = batch.run_at(chain, block).await?;
    let mut parts = Vec::new();
    for (identity, second) in known.into_iter().zip(asked) {
        match second.read(&answers) {
            Some(second) => parts.push((identity, second)),
            None => survey.unreadable.push((identity.address, "an adapter gives no valid answer")),
        }
    }
    let mut batch = Batch::default();
    let asked: Vec<_> = parts
        .iter()
        .map(|(identity, adapters)| Third::ask(&mut batch, identity, adapters, contracts))
        .collect();
    let answers = batch.run_at(chain, block).await?;
    let mut read = Vec::new();
    for ((identity, _adapters), third) in parts.into_iter().zip(asked) {
        match third.read(&answers) {
            Some((origins, source)) => read.push((identity, origins, source)),
            None => survey.unreadable.push((identity.address, "an adapter gives no valid answer")),
        }
    }
    let mut batch = Batch::default();
    let asked: Vec<_> = read
        .iter()
        .map(|(identity, origins, _)| Fourth::ask(&mut batch, identity, origins, contracts))
        .collect();
    let answers = batch.run_at(chain, block).await?;
    for ((identity, mut origins, mut source), fourth) in read.into_iter().zip(asked) {
        match fourth.read(&answers, &mut origins, &mut source) {
            Some(()) => survey.venues.push(identity.judge(origins, &source, network, contracts)),
            None => {
                let what = "the vault behind an adapter gives no valid answer";
                survey.unreadable.push((identity.address, what));
            }
        }
    }
    Ok(survey)
}

/// The places of the first reads of a vault.
struct First {
    address: Address,
    official: Vec<(VaultKind, usize)>,
    asset: usize,
    curator: usize,
    owner: usize,
    name: usize,
    symbol: usize,
    total: usize,
    idle: usize,
    adapter_count: usize,
    registry: usize,
    liquidity_adapter: usize,
    liquidity_data: usize,
}

impl First {
    fn ask(batch: &mut Batch, address: Address, network: &Network, contracts: &Contracts) -> Self {
        let official = contracts.vault_factories.iter().map(|known| {
            let asked = factory::is_vault_call(known.kind, address);
            (known.kind, batch.add(known.address, asked))
        });
        let official = official.collect();
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
            adapter_count: batch.add(address, vault::adapter_count_call()),
            registry: batch.add(address, vault::adapter_registry_call()),
            liquidity_adapter: batch.add(address, vault::liquidity_adapter_call()),
            liquidity_data: batch.add(address, vault::liquidity_data_call()),
        }
    }

    fn read(&self, answers: &Answers) -> Result<Identity, &'static str> {
        let address_at = |at: usize| {
            answers
                .bytes(at)
                .ok()
                .and_then(|answer| views::decode_address(answer))
                .ok_or("it is not a vault")
        };
        let mut official = None;
        for (kind, at) in &self.official {
            let answer = answers.bytes(*at).ok().and_then(|answer| views::decode_flag(answer));
            if answer.ok_or("a factory gives no valid answer")? {
                official = Some(*kind);
            }
        }
        let text =
            |at: usize| answers.bytes(at).map(|answer| token::text(answer)).unwrap_or_default();
        // A vault of no factory is refused whatever its kind: its further answers are not needed.
        let is_v2 = official == Some(VaultKind::V2);
        let (mut adapters, mut registry, mut liquidity) = (0, None, None);
        if is_v2 {
            let count = answers.bytes(self.adapter_count).ok();
            adapters = count
                .and_then(|count| views::decode_length(count))
                .filter(|count| *count <= ADAPTERS_MAX)
                .ok_or("its adapters cannot be read")?;
            registry = Some(address_at(self.registry)?);
            let data = answers.bytes(self.liquidity_data).ok();
            let data = data.and_then(|data| vault::decode_liquidity_data(data));
            let data = data.ok_or("its liquidity adapter cannot be read")?;
            liquidity = Some((address_at(self.liquidity_adapter)?, data));
        }
        Ok(Identity {
            address: self.address,
            official,
            asset: address_at(self.asset)?,
            curator: address_at(self.curator)?,
            owner: address_at(self.owner)?,
            name: text(self.name),
            symbol: text(self.symbol),
            total_assets: answers.number(self.total).map_err(|_odd| "it is not a vault")?,
            idle: answers.number(self.idle).map_err(|_odd| "the stablecoin cannot be read")?,
            adapters,
            registry,
            liquidity,
        })
    }
}

/// What the first reads show.
struct Identity {
    address: Address,
    /// The kind of the factory that created it.
    official: Option<VaultKind>,
    asset: Address,
    curator: Address,
    owner: Address,
    name: String,
    symbol: String,
    total_assets: U256,
    /// The vault's own balance of the stablecoin.
    idle: U256,
    /// The number of adapters of a Vault V2.
    adapters: u64,
    registry: Option<Address>,
    /// Address and data of the liquidity adapter of a Vault V2.
    liquidity: Option<(Address, alloy_primitives::Bytes)>,
}

impl Identity {
    fn judge(
        self,
        adapters: Vec<AdapterReading>,
        source: &LiquiditySource,
        network: &Network,
        contracts: &Contracts,
    ) -> Venue {
        let kind = self.official.unwrap_or(VaultKind::V2);
        let reading = VaultReading {
            vault: self.address,
            kind,
            is_from_official_factory: self.official.is_some(),
            asset: self.asset,
            curator: self.curator,
            owner: self.owner,
            adapters,
            adapter_registry: self.registry,
        };
        let trusted = TrustedParties {
            stablecoin: network.stablecoin.address,
            curators: contracts.curators,
            owners: contracts.owners,
            pinned_vaults: contracts.pinned_vaults,
            adapter_registry: contracts.adapter_registry,
            interest_model: contracts.interest_model,
        };
        let liquid = match (kind, source) {
            (VaultKind::MetaMorpho, _) | (VaultKind::V2, LiquiditySource::Unknown) => None,
            (VaultKind::V2, known) => v2_liquidity(self.idle, known),
        };
        Venue {
            address: self.address,
            kind,
            name: self.name,
            symbol: self.symbol,
            curator: self.curator,
            owner: self.owner,
            trust: judge_vault(&reading, &trusted),
            lends_stablecoin: self.asset == network.stablecoin.address,
            total_assets: self.total_assets,
            liquid,
        }
    }
}

/// The places of the adapters' addresses.
struct Second(Vec<usize>);

impl Second {
    fn ask(batch: &mut Batch, identity: &Identity) -> Self {
        let adapters = 0..identity.adapters;
        Self(adapters.map(|at| batch.add(identity.address, vault::adapter_call(at))).collect())
    }

    fn read(&self, answers: &Answers) -> Option<Vec<Address>> {
        let read = |at: &usize| views::decode_address(answers.bytes(*at).ok()?);
        self.0.iter().map(read).collect()
    }
}

/// The places of what is asked about the adapters.
struct Third {
    adapters: Vec<AdapterPlaces>,
    liquidity: LiquidityPlaces,
}

struct AdapterPlaces {
    address: Address,
    origins: Vec<(AdapterKind, usize)>,
    inner_vault: usize,
}

enum LiquidityPlaces {
    Absent,
    Unknown,
    Market { supplied: usize, market: usize },
}

impl Third {
    fn ask(
        batch: &mut Batch,
        identity: &Identity,
        adapters: &[Address],
        contracts: &Contracts,
    ) -> Self {
        let places = adapters.iter().map(|address| {
            let origins = contracts.adapter_factories.iter().map(|known| {
                let asked = match known.kind {
                    AdapterKind::Markets => factory::is_market_adapter_call(*address),
                    AdapterKind::MetaMorpho => factory::is_vault_adapter_call(*address),
                };
                (known.kind, batch.add(known.address, asked))
            });
            let origins = origins.collect();
            let inner_vault = batch.add(*address, adapter::inner_vault_call());
            AdapterPlaces { address: *address, origins, inner_vault }
        });
        let adapters = places.collect();
        let liquidity = match &identity.liquidity {
            None => LiquidityPlaces::Absent,
            Some((address, _data)) if address.is_zero() => LiquidityPlaces::Absent,
            Some((address, data)) => match adapter::decode_liquidity_market(data) {
                Some(params) => LiquidityPlaces::Market {
                    supplied: batch.add(*address, adapter::supplied_call(params.id())),
                    market: batch.add(contracts.singleton, market::market_call(params.id())),
                },
                None => LiquidityPlaces::Unknown,
            },
        };
        Self { adapters, liquidity }
    }

    fn read(&self, answers: &Answers) -> Option<(Vec<AdapterReading>, LiquiditySource)> {
        let mut origins = Vec::with_capacity(self.adapters.len());
        for places in &self.adapters {
            origins
                .push(AdapterReading { adapter: places.address, origin: places.origin(answers)? });
        }
        let source = match self.liquidity {
            LiquidityPlaces::Absent => LiquiditySource::Absent,
            LiquidityPlaces::Unknown => LiquiditySource::Unknown,
            LiquidityPlaces::Market { supplied, market } => {
                let supplied = answers.number(supplied).ok()?;
                let market = market::decode_market(answers.bytes(market).ok()?)?;
                // Interest adds the same to what is lent and to what is owed, so it does not change the difference.
                let lent = market.total_supply_assets.saturating_sub(market.total_borrow_assets);
                LiquiditySource::Market { supplied, liquidity: U256::from(lent) }
            }
        };
        Some((origins, source))
    }
}

impl AdapterPlaces {
    /// Returns where an adapter comes from. The vault behind it counts as unofficial until its factory is asked.
    fn origin(&self, answers: &Answers) -> Option<AdapterOrigin> {
        let mut origin = AdapterOrigin::Unofficial;
        for (kind, at) in &self.origins {
            if !views::decode_flag(answers.bytes(*at).ok()?)? {
                continue;
            }
            origin = match kind {
                AdapterKind::Markets => AdapterOrigin::Markets,
                AdapterKind::MetaMorpho => {
                    let inner_vault = views::decode_address(answers.bytes(self.inner_vault).ok()?)?;
                    AdapterOrigin::Vault { inner_vault, is_inner_official: false }
                }
            };
        }
        Some(origin)
    }
}

/// The places of what is asked about the vaults behind adapters.
struct Fourth {
    /// The adapter's index, and one answer of each factory.
    inner: Vec<(usize, Vec<usize>)>,
    /// What the vault behind the liquidity adapter can give.
    max_withdraw: Option<usize>,
}

impl Fourth {
    fn ask(
        batch: &mut Batch,
        identity: &Identity,
        origins: &[AdapterReading],
        contracts: &Contracts,
    ) -> Self {
        let (mut inner, mut max_withdraw) = (Vec::new(), None);
        for (index, reading) in origins.iter().enumerate() {
            let AdapterOrigin::Vault { inner_vault, .. } = reading.origin else { continue };
            let factories = contracts.vault_factories.iter().map(|known| {
                batch.add(known.address, factory::is_vault_call(known.kind, inner_vault))
            });
            inner.push((index, factories.collect()));
            if identity.liquidity.as_ref().is_some_and(|(known, _)| *known == reading.adapter) {
                let asked = vault::max_withdraw_call(reading.adapter);
                max_withdraw = Some(batch.add(inner_vault, asked));
            }
        }
        Self { inner, max_withdraw }
    }

    fn read(
        &self,
        answers: &Answers,
        origins: &mut [AdapterReading],
        source: &mut LiquiditySource,
    ) -> Option<()> {
        for (index, factories) in &self.inner {
            let mut official = false;
            for at in factories {
                official |= views::decode_flag(answers.bytes(*at).ok()?)?;
            }
            if let AdapterOrigin::Vault { is_inner_official, .. } =
                &mut origins.get_mut(*index)?.origin
            {
                *is_inner_official = official;
            }
        }
        if let Some(at) = self.max_withdraw {
            *source = LiquiditySource::MetaMorpho { max_withdraw: answers.number(at).ok()? };
        }
        Some(())
    }
}
