//! Vaults on a running full chain: both kinds with their adapters, fees, caps and gates. Only the owner of a
//! vault names its curator, as on real networks; the kit may change everything else.

use alloy_primitives::aliases::{U96, U184};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};

use super::addresses::Lending;
use super::lending_abi::{
    IAdapters, IGate, IMarketAdapter, IMetaMorpho, IMetaMorphoFactory, IPlainAdapter, IVaultV2,
    IVaultV2Factory,
};
use super::loans::LoanMarket;
use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

/// A share of one, as the vaults count them.
const WAD: u128 = 1_000_000_000_000_000_000;
/// The least time lock of MetaMorpho.
const TIMELOCK_S: u64 = 24 * 60 * 60;

/// A vault to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewVault {
    pub owner: Address,
    pub curator: Address,
    /// The official factory of the vault's kind, unless another is given.
    pub factory: Option<Address>,
}

/// One of the four gates of a Vault V2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateSide {
    ReceiveShares,
    SendShares,
    ReceiveAssets,
    SendAssets,
}

/// The fees of a Vault V2, and who receives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultFees {
    /// The part of the interest, in percent.
    pub performance: u8,
    /// The part of the assets that is due each year, in percent.
    pub management: u8,
    pub recipient: Address,
}

impl GateSide {
    /// All of them, those that keep money in last.
    pub const ALL: [Self; 4] =
        [Self::ReceiveShares, Self::SendAssets, Self::SendShares, Self::ReceiveAssets];
}

impl Devnet {
    /// Creates a Vault V2 for the stablecoin, without adapters.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn create_vault_v2(&self, new: &NewVault) -> Result<Address, DevnetError> {
        let create = IVaultV2Factory::createVaultV2Call {
            owner: new.owner,
            asset: self.network.stablecoin.address,
            salt: salt()?,
        };
        let factory = new.factory.unwrap_or(self.lending()?.vault_v2_factory);
        let vault = self.created(factory, create).await?;
        self.prepare_vault_v2(vault, new).await?;
        Ok(vault)
    }

    /// Gives a vault its curator, its name and the official registry.
    pub(super) async fn prepare_vault_v2(
        &self,
        vault: Address,
        new: &NewVault,
    ) -> Result<(), DevnetError> {
        let symbol = self.network.stablecoin.symbol;
        let name = IVaultV2::setNameAndSymbolCall {
            name: format!("Local {symbol} Vault V2"),
            symbol: format!("local{symbol}2"),
        };
        self.make(vault, &name).await?;
        let registry = self.lending()?.adapter_registry;
        self.make(vault, &IVaultV2::setAdapterRegistryCall { registry }).await?;
        self.set_curator(vault, new.owner, new.curator).await
    }

    /// Creates a vault of MetaMorpho 1.1 for the stablecoin that lends through these markets, in this order.
    ///
    /// # Errors
    /// The network has no factory and none is given, or a transaction failed.
    pub async fn create_metamorpho(
        &self,
        new: &NewVault,
        markets: &[LoanMarket],
    ) -> Result<Address, DevnetError> {
        let official = self.lending()?.metamorpho_factory;
        let missing = || DevnetError::Contract("no factory of MetaMorpho here".to_owned());
        let factory = new.factory.or(official).ok_or_else(missing)?;
        let symbol = self.network.stablecoin.symbol;
        let create = IMetaMorphoFactory::createMetaMorphoCall {
            initialOwner: new.owner,
            initialTimelock: U256::from(TIMELOCK_S),
            asset: self.network.stablecoin.address,
            name: format!("Local {symbol} MetaMorpho"),
            symbol: format!("local{symbol}1"),
            salt: salt()?,
        };
        let vault = self.created(factory, create).await?;
        self.prepare_metamorpho(vault, new, markets).await?;
        Ok(vault)
    }

    pub(super) async fn prepare_metamorpho(
        &self,
        vault: Address,
        new: &NewVault,
        markets: &[LoanMarket],
    ) -> Result<(), DevnetError> {
        for market in markets {
            self.set_market_cap(vault, market, U256::from(u128::MAX)).await?;
        }
        self.set_curator(vault, new.owner, new.curator).await
    }

    /// Deploys a factory of Vault V2 that no table names.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_vault_v2_factory(&self) -> Result<Address, DevnetError> {
        self.deploy(own_contracts::VAULT_V2_FACTORY.creation_code(&[])?).await
    }

    /// Deploys a factory of MetaMorpho that no table names.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_metamorpho_factory(&self) -> Result<Address, DevnetError> {
        let arguments = (self.lending()?.morpho,).abi_encode_params();
        self.deploy(own_contracts::META_MORPHO_FACTORY.creation_code(&arguments)?).await
    }

    /// Makes a factory report any contract as its own Vault V2, with the event of a creation.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn register_vault_v2(
        &self,
        factory: Address,
        owner: Address,
        vault: Address,
    ) -> Result<(), DevnetError> {
        let asset = self.network.stablecoin.address;
        let register = IVaultV2Factory::registerCall { owner, asset, salt: salt()?, vault };
        self.make(factory, &register).await
    }

    /// Adds an official market adapter to a Vault V2, without a bound, and makes it the liquidity adapter.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn add_market_adapter(
        &self,
        vault: Address,
        market: &LoanMarket,
    ) -> Result<Address, DevnetError> {
        let Lending { market_adapter_factory, .. } = self.lending()?;
        let create = IAdapters::createMorphoMarketV1AdapterV2Call { parentVault: vault };
        let adapter = self.created(market_adapter_factory, create).await?;
        self.make(vault, &IVaultV2::addAdapterCall { adapter }).await?;
        self.allow_market(vault, adapter, market).await?;
        self.set_liquidity_adapter(vault, adapter, market.encoded()).await?;
        Ok(adapter)
    }

    /// Lets a market adapter supply to a market without a bound.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn allow_market(
        &self,
        vault: Address,
        adapter: Address,
        market: &LoanMarket,
    ) -> Result<(), DevnetError> {
        for id in self.market_cap_ids(adapter, market).await? {
            self.set_vault_cap(vault, id, u128::MAX, WAD).await?;
        }
        Ok(())
    }

    /// Adds an official adapter for a vault of MetaMorpho to a Vault V2, without a bound, and makes it the
    /// liquidity adapter.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn add_vault_adapter(
        &self,
        vault: Address,
        inner: Address,
    ) -> Result<Address, DevnetError> {
        let create =
            IAdapters::createMorphoVaultV1AdapterCall { parentVault: vault, morphoVaultV1: inner };
        let adapter = self.created(self.lending()?.vault_adapter_factory, create).await?;
        self.make(vault, &IVaultV2::addAdapterCall { adapter }).await?;
        self.allow_adapter(vault, adapter).await?;
        self.set_liquidity_adapter(vault, adapter, Bytes::new()).await?;
        Ok(adapter)
    }

    /// Lets an adapter without markets receive assets without a bound.
    pub(super) async fn allow_adapter(
        &self,
        vault: Address,
        adapter: Address,
    ) -> Result<(), DevnetError> {
        for id in self.read(adapter, IPlainAdapter::idsCall {}).await? {
            self.set_vault_cap(vault, id, u128::MAX, WAD).await?;
        }
        Ok(())
    }

    /// Returns the ids whose caps bound what a market adapter supplies to a market: of the adapter, of the
    /// collateral, and of the market.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn market_cap_ids(
        &self,
        adapter: Address,
        market: &LoanMarket,
    ) -> Result<Vec<B256>, DevnetError> {
        self.read(adapter, IMarketAdapter::idsCall { params: market.params() }).await
    }

    /// Sets the caps of an id in a Vault V2: in smallest units, and as a part of all assets times 10^18.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_vault_cap(
        &self,
        vault: Address,
        id: B256,
        absolute: u128,
        relative: u128,
    ) -> Result<(), DevnetError> {
        let (absolute, relative_) = (U256::from(absolute), U256::from(relative));
        self.make(vault, &IVaultV2::setCapsCall { id, absolute, relative_ }).await
    }

    /// Sets the cap of a market in a vault of MetaMorpho. The first cap puts the market last in its queues.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_market_cap(
        &self,
        vault: Address,
        market: &LoanMarket,
        cap: U256,
    ) -> Result<(), DevnetError> {
        let cap = U184::saturating_from(cap);
        self.make(vault, &IMetaMorpho::setCapCall { params: market.params(), cap }).await
    }

    /// Sets the adapter of a Vault V2 that deposits go to and exits come from; the zero address for none.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_liquidity_adapter(
        &self,
        vault: Address,
        adapter: Address,
        data: Bytes,
    ) -> Result<(), DevnetError> {
        self.make(vault, &IVaultV2::setLiquidityAdapterAndDataCall { adapter, data }).await
    }

    /// Moves assets of a Vault V2 from an adapter to its idle balance.
    ///
    /// # Errors
    /// The adapter cannot pay, or the transaction failed.
    pub async fn deallocate(
        &self,
        vault: Address,
        adapter: Address,
        data: Bytes,
        assets: u128,
    ) -> Result<(), DevnetError> {
        let assets = U256::from(assets);
        self.make(vault, &IVaultV2::deallocateCall { adapter, data, assets }).await
    }

    /// Sets the curator of a vault of either kind, as its owner.
    ///
    /// # Errors
    /// `owner` is not the owner, or the transaction failed.
    pub async fn set_curator(
        &self,
        vault: Address,
        owner: Address,
        curator: Address,
    ) -> Result<(), DevnetError> {
        let set = IVaultV2::setCuratorCall { newCurator: curator };
        self.send_paid(&Call::new(owner, vault, &set)).await.map(|_receipt| ())
    }

    /// Sets the fees of a Vault V2.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_vault_fees(&self, vault: Address, fees: VaultFees) -> Result<(), DevnetError> {
        let a_year = 365 * 24 * 60 * 60;
        let set = IVaultV2::setFeesCall {
            performance: percent(fees.performance),
            management: percent(fees.management).wrapping_div(U96::from(a_year)),
            recipient: fees.recipient,
        };
        self.make(vault, &set).await
    }

    /// Sets the fee of a vault of MetaMorpho: a part of the interest, in percent.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_metamorpho_fee(
        &self,
        vault: Address,
        fee: u8,
        recipient: Address,
    ) -> Result<(), DevnetError> {
        self.make(vault, &IMetaMorpho::setFeeCall { fee: percent(fee), recipient }).await
    }

    /// Sets the fastest growth of a Vault V2's assets, per second times 10^18; `u64::MAX` removes the bound, so
    /// that a donation raises the share price at once.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_max_rate(&self, vault: Address, rate: u64) -> Result<(), DevnetError> {
        self.make(vault, &IVaultV2::setMaxRateCall { rate }).await
    }

    /// Sets what a forced deallocation from an adapter costs, in hundredths of a percent: at most 200.
    ///
    /// # Errors
    /// The penalty is too high, or the transaction failed.
    pub async fn set_exit_penalty(
        &self,
        vault: Address,
        adapter: Address,
        bps: u64,
    ) -> Result<(), DevnetError> {
        let penalty = U256::from(u128::from(bps).saturating_mul(WAD / 10_000));
        self.make(vault, &IVaultV2::setForceDeallocatePenaltyCall { adapter, penalty }).await
    }

    /// Gives a Vault V2 new dollars that belong to no one: see [`Devnet::set_max_rate`]. A vault of MetaMorpho
    /// counts only what [`Devnet::supply_market`] supplies on its behalf.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn donate(&self, vault: Address, assets: u128) -> Result<(), DevnetError> {
        self.mint(vault, assets).await.map(|_hash| ())
    }

    /// Puts a new gate on one side of a Vault V2 and returns it. It is open; [`Devnet::set_gate_open`] changes
    /// that.
    ///
    /// # Errors
    /// The deployment or the transaction failed.
    pub async fn add_gate(&self, vault: Address, side: GateSide) -> Result<Address, DevnetError> {
        let gate = self.deploy(own_contracts::GATE.creation_code(&[])?).await?;
        self.set_gate(vault, side, gate).await?;
        Ok(gate)
    }

    /// Sets the gate of one side of a Vault V2; the zero address removes it.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_gate(
        &self,
        vault: Address,
        side: GateSide,
        gate: Address,
    ) -> Result<(), DevnetError> {
        let set = match side {
            GateSide::ReceiveShares => IVaultV2::setReceiveSharesGateCall { gate }.abi_encode(),
            GateSide::SendShares => IVaultV2::setSendSharesGateCall { gate }.abi_encode(),
            GateSide::ReceiveAssets => IVaultV2::setReceiveAssetsGateCall { gate }.abi_encode(),
            GateSide::SendAssets => IVaultV2::setSendAssetsGateCall { gate }.abi_encode(),
        };
        self.send(&self.call_from_payer(vault, set)).await.map(|_receipt| ())
    }

    /// Opens or closes a gate.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_gate_open(&self, gate: Address, open: bool) -> Result<(), DevnetError> {
        self.make(gate, &IGate::setOpenCall { open }).await
    }

    /// Sends a call that creates a contract, and returns the contract's address.
    async fn created<C: SolCall<Return = Address>>(
        &self,
        factory: Address,
        create: C,
    ) -> Result<Address, DevnetError> {
        let call = self.call_from_payer(factory, create.abi_encode());
        let answer = self.simulate(&call).await?;
        self.send(&call).await?;
        C::abi_decode_returns(&answer).map_err(|error| DevnetError::Contract(error.to_string()))
    }
}

fn percent(percent: u8) -> U96 {
    U96::from(u128::from(percent).saturating_mul(WAD / 100))
}

fn salt() -> Result<B256, DevnetError> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| DevnetError::Start(error.to_string()))?;
    Ok(salt.into())
}
