//! Builds a full chain from an empty one. Each market has its own file; this file has the helpers that they share.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use serde_json::{Value, json};

use super::addresses::Contracts;
use super::packages::Packages;
use crate::call::Call;
use crate::copied;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

sol! {
    interface IToken {
        function approve(address spender, uint256 value) external returns (bool);
    }

    interface IWeth {
        function deposit() external payable;
    }
}

/// The owner of the liquidity. Its key is unknown, and no test uses the address.
pub(super) const MAKER: Address = Address::repeat_byte(0x4d);

/// One ether and one dollar, in smallest units. Every network's dollar token has six decimals.
pub(super) const ETHER: u128 = 1_000_000_000_000_000_000;
pub(super) const DOLLAR: u128 = 1_000_000;
/// The initial price of one ether in every market of the chain.
pub(super) const ETHER_PRICE: u128 = 3_000 * DOLLAR;

/// The maker's initial funds: more than all markets together take.
const MAKER_ETHER: u128 = 10_000 * ETHER;
const MAKER_WETH: u128 = 2_000 * ETHER;
const MAKER_DOLLARS: u128 = 20_000_000 * DOLLAR;

/// A chain under construction.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) devnet: &'a Devnet,
    pub(super) contracts: Contracts,
    pub(super) packages: &'a Packages,
    pub(super) maker: Address,
}

impl<'a> Builder<'a> {
    pub(super) fn new(devnet: &'a Devnet, contracts: Contracts, packages: &'a Packages) -> Self {
        Self { devnet, contracts, packages, maker: MAKER }
    }

    /// Deploys and fills all contracts.
    pub(super) async fn build(&self) -> Result<(), DevnetError> {
        self.place_tokens().await?;
        self.place_settling().await?;
        self.fund_maker().await?;
        self.place_v3().await?;
        self.fill_v3().await?;
        self.place_v4().await?;
        self.fill_v4().await?;
        self.place_lending().await?;
        self.fill_lending().await
    }

    /// Returns the address of the chain's dollar token.
    pub(super) fn dollar(&self) -> Address {
        self.devnet.network.stablecoin.address
    }

    async fn place_tokens(&self) -> Result<(), DevnetError> {
        let Contracts { weth, permit2, .. } = self.contracts;
        self.devnet.place_stablecoin().await?;
        self.devnet.place_tokens(Some(weth)).await?;
        self.place(weth, own_contracts::WETH.creation_code(&[])?).await?;
        self.devnet.place_copied(permit2, &copied::PERMIT2).await?;
        self.devnet.place_multicall().await
    }

    async fn fund_maker(&self) -> Result<(), DevnetError> {
        let ether = U256::from(MAKER_ETHER);
        self.devnet.request("anvil_setBalance", json!([self.maker, ether])).await?;
        self.devnet.rpc.call::<Value>("anvil_impersonateAccount", json!([self.maker])).await?;
        self.devnet.mint(self.maker, MAKER_DOLLARS).await?;
        let wrap = Call::new(self.maker, self.contracts.weth, &IWeth::depositCall {});
        self.devnet.send(&wrap.with_value(U256::from(MAKER_WETH))).await?;
        Ok(())
    }

    pub(super) async fn place(&self, at: Address, creation: Bytes) -> Result<(), DevnetError> {
        self.devnet.deploy_at(at, creation).await
    }

    /// Sends a call from the maker.
    pub(super) async fn send(&self, to: Address, call: &impl SolCall) -> Result<(), DevnetError> {
        self.devnet.send(&Call::new(self.maker, to, call)).await?;
        Ok(())
    }

    /// Lets `spender` transfer all of the maker's balance of a token.
    pub(super) async fn approve(
        &self,
        token: Address,
        spender: Address,
    ) -> Result<(), DevnetError> {
        self.send(token, &IToken::approveCall { spender, value: U256::MAX }).await
    }
}
