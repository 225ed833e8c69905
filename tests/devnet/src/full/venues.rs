//! Vaults that are added to a running full chain: both kinds, with their factories and adapters.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};

use super::addresses::Lending;
use super::lending_abi::{
    IAdapters, IMarketAdapter, IMetaMorphoFactory, IPlainAdapter, IVaultV2, IVaultV2Factory,
};
use super::loans::LoanMarket;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

/// The scale of fractions in the vaults: this number stands for one.
const WAD: u128 = 1_000_000_000_000_000_000;
/// The shortest time lock that MetaMorpho allows.
const TIMELOCK_S: u64 = 24 * 60 * 60;

/// A vault to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewVault {
    pub owner: Address,
    pub curator: Address,
    /// The factory that creates the vault; `None` stands for the official factory of its kind.
    pub factory: Option<Address>,
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
        let vault = self.create_contract(factory, create).await?;
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
        self.send_as_maker(vault, &name).await?;
        let registry = self.lending()?.adapter_registry;
        self.send_as_maker(vault, &IVaultV2::setAdapterRegistryCall { registry }).await?;
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
        let vault = self.create_contract(factory, create).await?;
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

    /// Deploys a factory of Vault V2 that is in no table.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_vault_v2_factory(&self) -> Result<Address, DevnetError> {
        self.deploy(own_contracts::VAULT_V2_FACTORY.creation_code(&[])?).await
    }

    /// Deploys a factory of MetaMorpho that is in no table.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_metamorpho_factory(&self) -> Result<Address, DevnetError> {
        let arguments = (self.lending()?.morpho,).abi_encode_params();
        self.deploy(own_contracts::META_MORPHO_FACTORY.creation_code(&arguments)?).await
    }

    /// Makes a factory report any contract as its own Vault V2, and emit the event of its creation.
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
        self.send_as_maker(factory, &register).await
    }

    /// Adds an official market adapter to a Vault V2, without a cap, and makes it the liquidity adapter.
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
        let adapter = self.create_contract(market_adapter_factory, create).await?;
        self.send_as_maker(vault, &IVaultV2::addAdapterCall { adapter }).await?;
        self.allow_market(vault, adapter, market).await?;
        self.set_liquidity_adapter(vault, adapter, market.encoded()).await?;
        Ok(adapter)
    }

    /// Lets a market adapter supply to a market without a cap.
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

    /// Adds an official adapter for a vault of MetaMorpho to a Vault V2, without a cap, and
    /// makes it the liquidity adapter.
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
        let adapter = self.create_contract(self.lending()?.vault_adapter_factory, create).await?;
        self.send_as_maker(vault, &IVaultV2::addAdapterCall { adapter }).await?;
        self.allow_adapter(vault, adapter).await?;
        self.set_liquidity_adapter(vault, adapter, Bytes::new()).await?;
        Ok(adapter)
    }

    /// Lets an adapter that has no markets receive assets without a cap.
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

    /// Returns the ids whose caps limit a market adapter's supply to a market.
    ///
    /// They stand for the adapter, for the collateral, and for the market.
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

    /// Sends a call that creates a contract, and returns the contract's address.
    async fn create_contract<C: SolCall<Return = Address>>(
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

fn salt() -> Result<B256, DevnetError> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| DevnetError::Start(error.to_string()))?;
    Ok(salt.into())
}
