//! Markets of Morpho Blue on a running full chain, and events in them: loans, interest, losses, and changes of
//! liquidity. The borrower is always the owner of the chain's liquidity.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use serde_json::json;

use super::addresses::{Contracts, LLTV, Lending};
use super::builder::MAKER;
use super::head::Head;
use super::lending_abi::{IIrm, IMorpho, IOracle, MarketParams};
use crate::call::{Call, Receipt};
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

sol! {
    interface IWeth {
        function deposit() external payable;
    }
}

/// The price of one ether, scaled as Morpho requires: 3000 * 10^(36 + 6 - 18).
pub(super) const ORACLE_PRICE: u128 = 3_000 * 1_000_000_000_000_000_000_000_000;
/// A price at which the collateral is worth less than a dollar.
const COLLAPSED_PRICE: u64 = 1_000_000_000_000;
const WAD: u128 = 1_000_000_000_000_000_000;
const YEAR_S: u128 = 365 * 24 * 60 * 60;
/// The kit's month.
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// An amount of native coin in smallest units that exceeds the cost of any transaction here.
const GAS_MONEY: u128 = WAD;

/// A market of Morpho Blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoanMarket {
    pub loan_token: Address,
    pub collateral_token: Address,
    pub oracle: Address,
    pub irm: Address,
    /// Maximum part of the collateral's value that may be borrowed, times 10^18.
    pub lltv: U256,
}

impl LoanMarket {
    /// Returns the market's id.
    pub fn id(&self) -> B256 {
        keccak256(self.encoded())
    }

    /// Returns the five words of the market's parameters: the liquidity data of a market adapter.
    pub fn encoded(&self) -> Bytes {
        self.params().abi_encode().into()
    }

    pub(super) fn params(&self) -> MarketParams {
        MarketParams {
            loanToken: self.loan_token,
            collateralToken: self.collateral_token,
            oracle: self.oracle,
            irm: self.irm,
            lltv: self.lltv,
        }
    }
}

impl Devnet {
    /// Returns the ready market of a full chain.
    ///
    /// # Errors
    /// The chain has no contracts.
    pub fn loan_market(&self) -> Result<LoanMarket, DevnetError> {
        let Contracts { weth, lending, .. } = self.contracts()?;
        Ok(LoanMarket {
            loan_token: self.network.stablecoin.address,
            collateral_token: weth,
            oracle: lending.oracle,
            irm: lending.irm,
            lltv: U256::from(LLTV),
        })
    }

    /// Creates a market like the ready one, with its own oracle. The interest model is enabled first, even an
    /// unofficial one; only [`Lending::irm`] is official.
    ///
    /// # Errors
    /// The deployment or a transaction failed.
    pub async fn create_market(&self, irm: Address) -> Result<LoanMarket, DevnetError> {
        let price = (U256::from(ORACLE_PRICE),).abi_encode_params();
        let oracle = self.deploy(own_contracts::ORACLE.creation_code(&price)?).await?;
        let market = LoanMarket { oracle, irm, ..self.loan_market()? };
        let morpho = self.lending()?.morpho;
        if !self.read(morpho, IMorpho::isIrmEnabledCall { irm }).await? {
            self.send_as_maker(morpho, &IMorpho::enableIrmCall { irm }).await?;
        }
        self.send_as_maker(morpho, &IMorpho::createMarketCall { params: market.params() }).await?;
        Ok(market)
    }

    /// Deploys an interest model that no table names.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_irm(&self) -> Result<Address, DevnetError> {
        self.deploy(own_contracts::IRM.creation_code(&[])?).await
    }

    /// Sets the yearly rate that a market's borrowers pay, in percent. Interest so far is booked first.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn set_borrow_rate(
        &self,
        market: &LoanMarket,
        percent: u64,
    ) -> Result<(), DevnetError> {
        self.accrue(market).await?;
        let rate = U256::from(u128::from(percent).saturating_mul(WAD / 100) / YEAR_S);
        self.send_as_maker(market.irm, &IIrm::setCall { market: market.id(), rate }).await
    }

    /// Books the interest of a market.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn accrue(&self, market: &LoanMarket) -> Result<(), DevnetError> {
        let accrue = IMorpho::accrueInterestCall { params: market.params() };
        self.send_as_maker(self.lending()?.morpho, &accrue).await
    }

    /// Supplies new dollars to a market on behalf of any account: a lender, or a donation to a vault of
    /// MetaMorpho.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn supply_market(
        &self,
        market: &LoanMarket,
        assets: u128,
        on_behalf: Address,
    ) -> Result<(), DevnetError> {
        self.fund_maker_for(market, assets).await?;
        let supply = IMorpho::supplyCall {
            params: market.params(),
            assets: U256::from(assets),
            shares: U256::ZERO,
            onBehalf: on_behalf,
            data: Bytes::new(),
        };
        self.send_as_maker(self.lending()?.morpho, &supply).await
    }

    /// Borrows from a market, against twice the required collateral.
    ///
    /// # Errors
    /// The market has too little liquidity, or a transaction failed.
    pub async fn borrow(&self, market: &LoanMarket, assets: u128) -> Result<(), DevnetError> {
        let Contracts { weth, lending, .. } = self.contracts()?;
        // An ether covers a thousand dollars, with six decimals.
        let collateral = U256::from(assets).saturating_mul(U256::from(WAD / 1_000_000_000));
        let coins = collateral.saturating_add(U256::from(GAS_MONEY));
        self.request("anvil_setBalance", json!([MAKER, coins])).await?;
        self.send_as(&Call::new(MAKER, weth, &IWeth::depositCall {}).with_value(collateral))
            .await?;
        self.allow(MAKER, weth, lending.morpho).await?;
        let secure = IMorpho::supplyCollateralCall {
            params: market.params(),
            assets: collateral,
            onBehalf: MAKER,
            data: Bytes::new(),
        };
        self.send_as_maker(lending.morpho, &secure).await?;
        let borrow = IMorpho::borrowCall {
            params: market.params(),
            assets: U256::from(assets),
            shares: U256::ZERO,
            onBehalf: MAKER,
            receiver: MAKER,
        };
        self.send_as_maker(lending.morpho, &borrow).await
    }

    /// Repays part of a market's loans, which returns liquidity.
    ///
    /// # Errors
    /// More is repaid than was borrowed, or a transaction failed.
    pub async fn repay(&self, market: &LoanMarket, assets: u128) -> Result<(), DevnetError> {
        self.fund_maker_for(market, assets).await?;
        let repay = IMorpho::repayCall {
            params: market.params(),
            assets: U256::from(assets),
            shares: U256::ZERO,
            onBehalf: MAKER,
            data: Bytes::new(),
        };
        self.send_as_maker(self.lending()?.morpho, &repay).await
    }

    /// Repays all loans of a market with their interest, so that everything can be withdrawn.
    ///
    /// # Errors
    /// Nothing is borrowed, or a transaction failed.
    pub async fn repay_all(&self, market: &LoanMarket) -> Result<(), DevnetError> {
        let morpho = self.lending()?.morpho;
        self.accrue(market).await?;
        let owed = self.read(morpho, IMorpho::marketCall { id: market.id() }).await?;
        // Twice the debt covers the interest until the repayment.
        self.fund_maker_for(market, owed.totalBorrowAssets.saturating_mul(2)).await?;
        let position = IMorpho::positionCall { id: market.id(), user: MAKER };
        let repay = IMorpho::repayCall {
            params: market.params(),
            assets: U256::ZERO,
            shares: U256::from(self.read(morpho, position).await?.borrowShares),
            onBehalf: MAKER,
            data: Bytes::new(),
        };
        self.send_as_maker(morpho, &repay).await
    }

    /// Borrows all but `left` of a market's liquidity, so that withdrawals are wholly or partly impossible.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn drain_market(&self, market: &LoanMarket, left: u128) -> Result<(), DevnetError> {
        self.accrue(market).await?;
        let free = self.market_liquidity(market).await?.saturating_sub(left);
        if free == 0 {
            return Ok(());
        }
        self.borrow(market, free).await
    }

    /// Returns the amount that can be withdrawn from a market, without interest that is not booked yet.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn market_liquidity(&self, market: &LoanMarket) -> Result<u128, DevnetError> {
        let state = IMorpho::marketCall { id: market.id() };
        let state = self.read(self.lending()?.morpho, state).await?;
        Ok(state.totalSupplyAssets.saturating_sub(state.totalBorrowAssets))
    }

    /// Makes a market lose all its loans.
    ///
    /// The collateral loses its value and is seized, and the lenders bear the bad debt.
    /// Afterwards the price is restored.
    ///
    /// # Errors
    /// Nothing is borrowed, or a transaction failed.
    pub async fn lose_loans(&self, market: &LoanMarket) -> Result<(), DevnetError> {
        let morpho = self.lending()?.morpho;
        let position = IMorpho::positionCall { id: market.id(), user: MAKER };
        let position = self.read(morpho, position).await?;
        let price = self.read(market.oracle, IOracle::priceCall {}).await?;
        self.fund_maker_for(market, 1_000_000_000).await?;
        let worthless = IOracle::setCall { price: U256::from(COLLAPSED_PRICE) };
        self.send_as_maker(market.oracle, &worthless).await?;
        let liquidate = IMorpho::liquidateCall {
            params: market.params(),
            borrower: MAKER,
            seizedAssets: U256::from(position.collateral),
            repaidShares: U256::ZERO,
            data: Bytes::new(),
        };
        self.send_as_maker(morpho, &liquidate).await?;
        self.send_as_maker(market.oracle, &IOracle::setCall { price }).await
    }

    /// Advances the chain's time, and mines a block at its end.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn advance_time(&self, time: Duration) -> Result<(), DevnetError> {
        let head: Head = self.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        let then = head.timestamp.to::<u64>().saturating_add(time.as_secs());
        self.request("evm_setNextBlockTimestamp", json!([then])).await?;
        self.request("evm_mine", json!([])).await?;
        Ok(())
    }

    /// Lets 30 days pass.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn pass_month(&self) -> Result<(), DevnetError> {
        self.advance_time(MONTH).await
    }

    pub(super) fn lending(&self) -> Result<Lending, DevnetError> {
        Ok(self.contracts()?.lending)
    }

    /// Sends a call from the owner of the chain's liquidity.
    pub(super) async fn send_as_maker(
        &self,
        to: Address,
        call: &impl SolCall,
    ) -> Result<(), DevnetError> {
        self.send_with_free_gas(&Call::new(MAKER, to, call)).await.map(|_receipt| ())
    }

    /// Sends a call from any account. The account needs no native coin: its balance is restored afterwards.
    pub(super) async fn send_with_free_gas(&self, call: &Call) -> Result<Receipt, DevnetError> {
        let coin = self.request("eth_getBalance", json!([call.from, "pending"])).await?;
        self.request("anvil_setBalance", json!([call.from, U256::from(GAS_MONEY)])).await?;
        let sent = self.send_as(call).await;
        self.request("anvil_setBalance", json!([call.from, coin])).await?;
        sent
    }

    async fn fund_maker_for(&self, market: &LoanMarket, assets: u128) -> Result<(), DevnetError> {
        self.mint_of(market.loan_token, MAKER, assets).await?;
        self.approve_as(MAKER, market.loan_token, self.lending()?.morpho).await
    }
}
