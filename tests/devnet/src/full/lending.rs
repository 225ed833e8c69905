//! Morpho Blue on a full chain: the real contract, and one market of WETH against the dollar token with a borrower.
//! Stand-ins of the vaults, with their factories, lend through the market.

use alloy_primitives::{Bytes, U256};
use alloy_sol_types::SolValue;

use super::addresses::{LLTV, Lending};
use super::builder::{Builder, DOLLAR, ETHER};
use super::lending_abi::{IMetaMorphoFactory, IMorpho, IVaultV2};
use super::loans::ORACLE_PRICE;
use super::venues::NewVault;
use crate::error::DevnetError;
use crate::own_contracts;

/// The deposit in each of the two ready vaults, the loan and its collateral. Only a tenth is borrowed, so interest
/// accrues and nearly everything can be withdrawn.
const VAULT_DEPOSIT: u128 = 500_000 * DOLLAR;
const BORROWED_DOLLARS: u128 = 100_000 * DOLLAR;
const COLLATERAL: u128 = 100 * ETHER;
/// The shortest time lock that MetaMorpho allows.
const TIMELOCK_S: u64 = 24 * 60 * 60;

impl Builder<'_> {
    pub(super) async fn place_lending(&self) -> Result<(), DevnetError> {
        let Lending { morpho, irm, oracle, .. } = self.contracts.lending;
        let code = self.packages.morpho(&(self.maker,).abi_encode_params());
        self.place(morpho, code).await?;
        self.place(irm, own_contracts::IRM.creation_code(&[])?).await?;
        let price = (U256::from(ORACLE_PRICE),).abi_encode_params();
        self.place(oracle, own_contracts::ORACLE.creation_code(&price)?).await?;
        self.send(morpho, &IMorpho::enableIrmCall { irm }).await?;
        self.send(morpho, &IMorpho::enableLltvCall { lltv: U256::from(LLTV) }).await?;
        let params = self.devnet.loan_market()?.params();
        self.send(morpho, &IMorpho::createMarketCall { params }).await?;
        self.place_factories().await?;
        self.place_vaults_v2().await?;
        self.place_metamorpho().await
    }

    async fn place_factories(&self) -> Result<(), DevnetError> {
        let lending = self.contracts.lending;
        let morpho = (lending.morpho,).abi_encode_params();
        let code = own_contracts::VAULT_V2_FACTORY.creation_code(&[])?;
        self.place(lending.vault_v2_factory, code).await?;
        if let Some(factory) = lending.metamorpho_factory {
            let code = own_contracts::META_MORPHO_FACTORY.creation_code(&morpho)?;
            self.place(factory, code).await?;
        }
        let models = (lending.morpho, lending.irm).abi_encode_params();
        let code = own_contracts::MARKET_ADAPTER_FACTORY.creation_code(&models)?;
        self.place(lending.market_adapter_factory, code).await?;
        let code = own_contracts::VAULT_V1_ADAPTER_FACTORY.creation_code(&[])?;
        self.place(lending.vault_adapter_factory, code).await?;
        let factories = (lending.market_adapter_factory, lending.vault_adapter_factory);
        let code = own_contracts::ADAPTER_REGISTRY.creation_code(&factories.abi_encode_params())?;
        self.place(lending.adapter_registry, code).await
    }

    /// Vaults cannot be created at chosen addresses, so they are placed and registered.
    async fn place_vaults_v2(&self) -> Result<(), DevnetError> {
        let lending = self.contracts.lending;
        let arguments = (lending.owner, self.dollar()).abi_encode_params();
        let market = self.devnet.loan_market()?;
        for &vault in lending.vaults_v2 {
            self.place(vault, own_contracts::VAULT_V2.creation_code(&arguments)?).await?;
            let factory = lending.vault_v2_factory;
            self.devnet.register_vault_v2(factory, lending.owner, vault).await?;
            self.devnet.prepare_vault_v2(vault, &self.new_vault()).await?;
            self.devnet.add_market_adapter(vault, &market).await?;
        }
        Ok(())
    }

    async fn place_metamorpho(&self) -> Result<(), DevnetError> {
        let Lending { morpho, metamorpho, metamorpho_factory, owner, .. } = self.contracts.lending;
        let Some((vault, factory)) = metamorpho.zip(metamorpho_factory) else { return Ok(()) };
        let symbol = self.devnet.network.stablecoin.symbol;
        let arguments = (
            owner,
            morpho,
            U256::from(TIMELOCK_S),
            self.dollar(),
            format!("Local {symbol} MetaMorpho"),
            format!("local{symbol}1"),
        );
        let arguments = arguments.abi_encode_params();
        self.place(vault, own_contracts::META_MORPHO.creation_code(&arguments)?).await?;
        let markets = [self.devnet.loan_market()?];
        self.devnet.prepare_metamorpho(vault, &self.new_vault(), &markets).await?;
        let salt = vault.into_word();
        self.send(factory, &IMetaMorphoFactory::registerCall { vault, salt }).await
    }

    fn new_vault(&self) -> NewVault {
        let Lending { owner, curator, .. } = self.contracts.lending;
        NewVault { owner, curator, factory: None }
    }

    pub(super) async fn fill_lending(&self) -> Result<(), DevnetError> {
        let morpho = self.contracts.lending.morpho;
        let (params, maker) = (self.devnet.loan_market()?.params(), self.maker);
        for vault in self.contracts.lending.vaults() {
            self.approve(self.dollar(), vault).await?;
            // Both kinds of vaults have this function.
            let deposit =
                IVaultV2::depositCall { assets: U256::from(VAULT_DEPOSIT), receiver: maker };
            self.send(vault, &deposit).await?;
        }
        self.approve(self.contracts.weth, morpho).await?;
        let secure = IMorpho::supplyCollateralCall {
            params: params.clone(),
            assets: U256::from(COLLATERAL),
            onBehalf: maker,
            data: Bytes::new(),
        };
        self.send(morpho, &secure).await?;
        let borrow = IMorpho::borrowCall {
            params,
            assets: U256::from(BORROWED_DOLLARS),
            shares: U256::ZERO,
            onBehalf: maker,
            receiver: maker,
        };
        self.send(morpho, &borrow).await
    }
}
