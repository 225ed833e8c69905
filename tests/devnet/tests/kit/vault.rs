//! The vault and the market of a full chain: deposits earn interest and can be withdrawn.

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_devnet::full::{LLTV, Lending};
use serde_json::json;

use crate::full::{DOLLAR, Trader, traders};

sol! {
    #[derive(Debug)]
    struct MarketParams {
        address loanToken; address collateralToken; address oracle; address irm; uint256 lltv;
    }

    interface IVault {
        function asset() external view returns (address);
        function decimals() external view returns (uint8);
        function totalAssets() external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function maxWithdraw(address owner) external view returns (uint256);
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function withdraw(uint256 assets, address receiver, address owner) external
            returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address owner) external
            returns (uint256 assets);
    }

    interface IMorpho {
        function accrueInterest(MarketParams params) external;
        function market(bytes32 id) external view returns (
            uint128 totalSupplyAssets, uint128 totalSupplyShares, uint128 totalBorrowAssets,
            uint128 totalBorrowShares, uint128 lastUpdate, uint128 fee
        );
        function idToMarketParams(bytes32 id) external view returns (
            address loanToken, address collateralToken, address oracle, address irm, uint256 lltv
        );
    }
}

const MONTH: u64 = 30 * 24 * 60 * 60;

fn market(trader: &Trader) -> MarketParams {
    let Lending { oracle, irm, .. } = trader.contracts.lending;
    MarketParams {
        loanToken: trader.dollar(),
        collateralToken: trader.contracts.weth,
        oracle,
        irm,
        lltv: U256::from(LLTV),
    }
}

fn id(trader: &Trader) -> B256 {
    keccak256(market(trader).abi_encode())
}

async fn ask<C: SolCall>(trader: &Trader, question: C) -> C::Return {
    trader.devnet.read(trader.contracts.lending.vault, question).await.unwrap()
}

/// Sets the time of the next block.
async fn next_block_at(trader: &Trader, time: u64) {
    trader.devnet.request("evm_setNextBlockTimestamp", json!([time])).await.unwrap();
}

async fn head_time(trader: &Trader) -> u64 {
    let head = trader.devnet.request("eth_getBlockByNumber", json!(["latest", false])).await;
    serde_json::from_value::<U256>(head.unwrap()["timestamp"].clone()).unwrap().to()
}

/// Returns the vault's total assets as of the newest block.
async fn assets_at_head(trader: &Trader) -> U256 {
    let data = alloy_primitives::Bytes::from(IVault::totalAssetsCall {}.abi_encode());
    let call = json!({ "to": trader.contracts.lending.vault, "data": data });
    let reported = trader.devnet.request("eth_call", json!([call, "latest"])).await.unwrap();
    serde_json::from_value::<B256>(reported).unwrap().into()
}

#[tokio::test]
async fn a_deposit_earns_what_the_market_pays_and_comes_back_whole() {
    for trader in traders().await {
        let (me, vault) = (trader.me, trader.contracts.lending.vault);
        let deposit = U256::from(100_000 * DOLLAR);
        trader.approve(trader.dollar(), vault).await;
        let before = trader.mine(trader.dollar()).await;
        let enter = IVault::depositCall { assets: deposit, receiver: me };
        trader.must(&trader.call(vault, &enter)).await;
        assert_eq!(trader.mine(trader.dollar()).await, before - deposit);
        let shares = ask(&trader, IVault::balanceOfCall { owner: me }).await;
        let worth = ask(&trader, IVault::previewRedeemCall { shares }).await;
        // Rounded in favour of the vault, with next to no interest yet.
        assert!(
            worth + U256::from(2) >= deposit && worth < deposit + U256::from(DOLLAR),
            "{worth}"
        );

        next_block_at(&trader, head_time(&trader).await + MONTH).await;
        trader.devnet.request("evm_mine", json!([])).await.unwrap();
        // A little less than a tenth is borrowed, at as much per year, and an eleventh of that is ours: 68
        // dollars.
        let earned = ask(&trader, IVault::previewRedeemCall { shares }).await - deposit;
        let dollars = |count: u128| U256::from(count * DOLLAR);
        assert!(earned > dollars(60) && earned < dollars(80), "{earned}");

        let part = IVault::withdrawCall { assets: dollars(40_000), receiver: me, owner: me };
        let gain = trader.gain(trader.dollar(), &trader.call(vault, &part)).await;
        assert_eq!(gain, dollars(40_000));
        let shares = ask(&trader, IVault::balanceOfCall { owner: me }).await;
        let rest = IVault::redeemCall { shares, receiver: me, owner: me };
        trader.must(&trader.call(vault, &rest)).await;
        assert_eq!(ask(&trader, IVault::balanceOfCall { owner: me }).await, U256::ZERO);
        let left = trader.mine(trader.dollar()).await - before;
        // A second or two of interest accrues during the withdrawal.
        assert!(left + U256::from(2) >= earned && left < earned + dollars(1), "{left} of {earned}");
    }
}

#[tokio::test]
async fn the_vault_counts_interest_before_the_market_books_it() {
    for trader in traders().await {
        let snapshot = trader.devnet.request("evm_snapshot", json!([])).await.unwrap();
        let then = head_time(&trader).await + MONTH;
        next_block_at(&trader, then).await;
        trader.devnet.request("evm_mine", json!([])).await.unwrap();
        let expected = assets_at_head(&trader).await;
        trader.devnet.request("evm_revert", json!([snapshot])).await.unwrap();

        let start = assets_at_head(&trader).await;
        let morpho = trader.contracts.lending.morpho;
        let accrue = IMorpho::accrueInterestCall { params: market(&trader) };
        next_block_at(&trader, then).await;
        trader.must(&trader.call(morpho, &accrue)).await;
        let booked = trader.devnet.read(morpho, IMorpho::marketCall { id: id(&trader) }).await;
        assert_eq!(u64::try_from(booked.unwrap().lastUpdate).unwrap(), then);
        assert_eq!(assets_at_head(&trader).await, expected);
        assert!(expected > start);
    }
}

#[tokio::test]
async fn withdrawals_are_bounded_by_shares_and_liquidity() {
    for trader in traders().await {
        let Lending { vault, morpho, vault_tells_limits, .. } = trader.contracts.lending;
        let me = trader.me;
        trader.approve(trader.dollar(), vault).await;
        let enter = IVault::depositCall { assets: U256::from(50 * DOLLAR), receiver: me };
        trader.must(&trader.call(vault, &enter)).await;
        let greedy =
            IVault::withdrawCall { assets: U256::from(51 * DOLLAR), receiver: me, owner: me };
        assert!(trader.devnet.simulate(&trader.call(vault, &greedy)).await.is_err());
        let theft = IVault::withdrawCall {
            assets: U256::from(DOLLAR),
            receiver: me,
            owner: Address::repeat_byte(0x4d),
        };
        assert!(trader.devnet.simulate(&trader.call(vault, &theft)).await.is_err());

        // Borrowed money cannot be withdrawn, and one kind of vault reports that.
        let reported =
            trader.devnet.read(morpho, IMorpho::marketCall { id: id(&trader) }).await.unwrap();
        let free = U256::from(reported.totalSupplyAssets - reported.totalBorrowAssets);
        assert!(U256::from(reported.totalBorrowAssets) >= U256::from(100_000 * DOLLAR));
        let maker = Address::repeat_byte(0x4d);
        let most = ask(&trader, IVault::maxWithdrawCall { owner: maker }).await;
        assert_eq!(most, if vault_tells_limits { free } else { U256::ZERO });
        let shares = ask(&trader, IVault::balanceOfCall { owner: maker }).await;
        let all = IVault::redeemCall { shares, receiver: maker, owner: maker };
        let refusal = trader.refusal(&bursar_devnet::Call::new(maker, vault, &all)).await;
        assert!(String::from_utf8_lossy(&refusal).contains("insufficient liquidity"));
    }
}

#[tokio::test]
async fn the_vault_and_market_report_their_parameters() {
    for trader in traders().await {
        assert_eq!(ask(&trader, IVault::assetCall {}).await, trader.dollar());
        assert_eq!(ask(&trader, IVault::decimalsCall {}).await, 18);
        let morpho = trader.contracts.lending.morpho;
        let reported = IMorpho::idToMarketParamsCall { id: id(&trader) };
        let reported = trader.devnet.read(morpho, reported).await.unwrap();
        let reported = (
            reported.loanToken,
            reported.collateralToken,
            reported.oracle,
            reported.irm,
            reported.lltv,
        );
        assert_eq!(reported.abi_encode_params(), market(&trader).abi_encode());
    }
}

#[test]
fn the_calls_have_the_selectors_of_their_documents() {
    let calls = [
        (IVault::depositCall::SELECTOR, hex!("6e553f65")),
        (IVault::withdrawCall::SELECTOR, hex!("b460af94")),
        (IVault::redeemCall::SELECTOR, hex!("ba087652")),
        (IMorpho::accrueInterestCall::SELECTOR, hex!("151c1ade")),
        (IMorpho::marketCall::SELECTOR, hex!("5c60e39a")),
        (IMorpho::idToMarketParamsCall::SELECTOR, hex!("2c3c9157")),
    ];
    for (ours, documented) in calls {
        assert_eq!(ours, documented);
    }
}
