//! Morpho Blue on a full chain: the real contract, one market of WETH against the dollar token with a borrower,
//! and a vault that lends through the market.

use alloy_primitives::{Bytes, U256};
use alloy_sol_types::{SolValue, sol};

use super::addresses::{LLTV, Lending};
use super::builder::{Builder, DOLLAR, ETHER};
use crate::error::DevnetError;
use crate::own_contracts;

sol! {
    struct MarketParams {
        address loanToken; address collateralToken; address oracle; address irm; uint256 lltv;
    }

    interface IMorpho {
        function enableIrm(address irm) external;
        function enableLltv(uint256 lltv) external;
        function createMarket(MarketParams params) external;
        function supplyCollateral(
            MarketParams params, uint256 assets, address onBehalf, bytes data
        ) external;
        function borrow(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, address receiver
        ) external returns (uint256, uint256);
    }

    interface IVault {
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
    }
}

/// The price of one ether, scaled as Morpho requires: 3000 * 10^(36 + 6 - 18).
const ORACLE_PRICE: u128 = 3_000 * 1_000_000_000_000_000_000_000_000;

/// The deposit, the loan and its collateral. A tenth is borrowed, so interest accrues and nearly everything can
/// be withdrawn.
const DEPOSIT: u128 = 1_000_000 * DOLLAR;
const BORROWED: u128 = 100_000 * DOLLAR;
const COLLATERAL: u128 = 100 * ETHER;

impl Builder<'_> {
    /// Returns the parameters of the chain's only market.
    fn market(&self) -> MarketParams {
        let Lending { irm, oracle, .. } = self.contracts.lending;
        MarketParams {
            loanToken: self.dollar(),
            collateralToken: self.contracts.weth,
            oracle,
            irm,
            lltv: U256::from(LLTV),
        }
    }

    pub(super) async fn place_lending(&self) -> Result<(), DevnetError> {
        let Lending { morpho, irm, oracle, vault, vault_tells_limits } = self.contracts.lending;
        let code = self.packages.morpho(&(self.maker,).abi_encode_params());
        self.place(morpho, code).await?;
        self.place(irm, self.packages.irm()).await?;
        let price = (U256::from(ORACLE_PRICE),).abi_encode_params();
        self.place(oracle, own_contracts::ORACLE.creation_code(&price)?).await?;
        self.send(morpho, &IMorpho::enableIrmCall { irm }).await?;
        self.send(morpho, &IMorpho::enableLltvCall { lltv: U256::from(LLTV) }).await?;
        self.send(morpho, &IMorpho::createMarketCall { params: self.market() }).await?;
        let coin = self.devnet.network.stablecoin.symbol;
        let arguments = (
            format!("Local {coin} Vault"),
            format!("local{coin}"),
            morpho,
            self.market(),
            vault_tells_limits,
        );
        self.place(vault, own_contracts::VAULT.creation_code(&arguments.abi_encode_params())?).await
    }

    pub(super) async fn fill_lending(&self) -> Result<(), DevnetError> {
        let Lending { morpho, vault, .. } = self.contracts.lending;
        let (params, maker) = (self.market(), self.maker);
        self.approve(self.dollar(), vault).await?;
        self.approve(self.contracts.weth, morpho).await?;
        let deposit = IVault::depositCall { assets: U256::from(DEPOSIT), receiver: maker };
        self.send(vault, &deposit).await?;
        let secure = IMorpho::supplyCollateralCall {
            params: params.clone(),
            assets: U256::from(COLLATERAL),
            onBehalf: maker,
            data: Bytes::new(),
        };
        self.send(morpho, &secure).await?;
        let borrow = IMorpho::borrowCall {
            params,
            assets: U256::from(BORROWED),
            shares: U256::ZERO,
            onBehalf: maker,
            receiver: maker,
        };
        self.send(morpho, &borrow).await
    }
}
