//! Deposits in each kind of venue earn the market's interest and can be withdrawn in full.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::ChainId;
use bursar_devnet::full::{LoanMarket, NewVault, VaultFees};
use serde_json::json;

use crate::full::{DOLLAR, Trader, traders};
use crate::lending::{IIrm, IMetaMorpho, IMorpho, IOfficial, IVault, STRANGER, params};

const DEPOSIT: u128 = 100_000 * DOLLAR;

fn dollars(count: u128) -> U256 {
    U256::from(count * DOLLAR)
}

/// Lends out half of a market at 12 % a year.
async fn lend_out(trader: &Trader, market: &LoanMarket) {
    trader.devnet.borrow(market, DEPOSIT / 2).await.unwrap();
    trader.devnet.set_borrow_rate(market, 12).await.unwrap();
}

/// Deposits, waits a month, and withdraws in two steps.
async fn round_trip(trader: &Trader, vault: Address, market: &LoanMarket) {
    let before = trader.own_balance(trader.dollar()).await;
    trader.must(&trader.deposit(vault, DEPOSIT)).await;
    assert_eq!(before - trader.own_balance(trader.dollar()).await, U256::from(DEPOSIT));
    // The value is rounded in favour of the vault.
    let worth = trader.worth(vault).await;
    assert!(worth + U256::from(2) >= U256::from(DEPOSIT) && worth <= U256::from(DEPOSIT));
    lend_out(trader, market).await;

    trader.devnet.pass_month().await.unwrap();
    // A month of 12 % on half the deposit: 493 dollars, and the interest on them.
    let earned = trader.worth(vault).await - U256::from(DEPOSIT);
    assert!(earned > dollars(490) && earned < dollars(500), "{earned}");

    let part = trader.withdraw(vault, dollars(20_000));
    assert_eq!(trader.gain(trader.dollar(), &part).await, dollars(20_000));
    trader.devnet.repay_all(market).await.unwrap();
    trader.must(&trader.redeem_all(vault).await).await;
    assert_eq!(trader.shares(vault).await, U256::ZERO);
    let gain = trader.own_balance(trader.dollar()).await - before;
    assert!(gain + U256::from(2) >= earned && gain < earned + dollars(1), "{gain} {earned}");
}

#[tokio::test]
async fn a_vault_v2_returns_deposits_with_a_month_of_interest() {
    for trader in traders().await {
        let (vault, market, _adapter) = trader.vault_v2().await;
        round_trip(&trader, vault, &market).await;
    }
}

#[tokio::test]
async fn a_metamorpho_returns_deposits_with_a_month_of_interest() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (vault, [market, _other]) = trader.metamorpho().await;
    round_trip(&trader, vault, &market).await;
}

#[tokio::test]
async fn a_vault_v2_over_a_metamorpho_returns_deposits_with_a_month_of_interest() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (inner, [market, _other]) = trader.metamorpho().await;
    let vault = trader.devnet.create_vault_v2(&trader.trusted_vault()).await.unwrap();
    let adapter = trader.devnet.add_vault_adapter(vault, inner).await.unwrap();
    trader.approve(trader.dollar(), vault).await;
    let known = IOfficial::isMorphoVaultV1AdapterCall { adapter };
    assert!(trader.read_contract(trader.lending().vault_adapter_factory, known).await);
    round_trip(&trader, vault, &market).await;
}

#[tokio::test]
async fn the_ready_vaults_return_deposits_with_interest() {
    for trader in traders().await {
        for vault in trader.lending().vaults() {
            trader.approve(trader.dollar(), vault).await;
            trader.must(&trader.deposit(vault, DEPOSIT)).await;
            trader.devnet.pass_month().await.unwrap();
            // About a tenth is borrowed, and the yearly rate is about a tenth too.
            let earned = trader.worth(vault).await - U256::from(DEPOSIT);
            assert!(earned > dollars(50) && earned < dollars(100), "{earned}");
            trader.must(&trader.redeem_all(vault).await).await;
            assert_eq!(trader.shares(vault).await, U256::ZERO);
        }
    }
}

#[tokio::test]
async fn a_market_returns_a_supply_by_shares_and_leaves_nothing() {
    for trader in traders().await {
        let morpho = trader.lending().morpho;
        let market = trader.devnet.create_market(trader.lending().irm).await.unwrap();
        trader.approve(trader.dollar(), morpho).await;
        let before = trader.own_balance(trader.dollar()).await;
        let supply = IMorpho::supplyCall {
            params: params(&market),
            assets: U256::from(DEPOSIT),
            shares: U256::ZERO,
            onBehalf: trader.address,
            data: Bytes::new(),
        };
        trader.must(&trader.call(morpho, &supply)).await;
        lend_out(&trader, &market).await;
        trader.devnet.pass_month().await.unwrap();
        let withdraw = |assets, shares| IMorpho::withdrawCall {
            params: params(&market),
            assets,
            shares,
            onBehalf: trader.address,
            receiver: trader.address,
        };
        let question = || IMorpho::positionCall { id: market.id(), user: trader.address };
        let shares = trader.read_contract(morpho, question()).await.supplyShares;
        let all = trader.call(morpho, &withdraw(U256::ZERO, shares));
        trader.assert_illiquid(&all).await;
        trader.devnet.repay_all(&market).await.unwrap();
        trader.must(&all).await;
        assert_eq!(trader.read_contract(morpho, question()).await.supplyShares, U256::ZERO);
        let gain = trader.own_balance(trader.dollar()).await - before;
        assert!(gain > dollars(490) && gain < dollars(500), "{gain}");
        let both = trader.call(morpho, &withdraw(U256::from(1), U256::from(1)));
        let reason = trader.refusal(&both).await;
        assert!(String::from_utf8_lossy(&reason).contains("inconsistent input"));
    }
}

#[tokio::test]
async fn previews_are_what_happens_in_the_same_block() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (v2, market, _adapter) = trader.vault_v2().await;
    let (v1, [other, _]) = trader.metamorpho().await;
    let fees = VaultFees { performance: 10, management: 1, recipient: STRANGER };
    trader.devnet.set_vault_fees(v2, fees).await.unwrap();
    trader.devnet.set_metamorpho_fee(v1, 10, STRANGER).await.unwrap();
    for (vault, market) in [(v2, market), (v1, other)] {
        trader.must(&trader.deposit(vault, DEPOSIT)).await;
        lend_out(&trader, &market).await;
        trader.devnet.pass_month().await.unwrap();
        // Reads refer to the pending block. With this interval, all of them have the newest block's time.
        trader.devnet.request("anvil_setBlockTimestampInterval", json!([0])).await.unwrap();
        let assets = dollars(1_000);
        let shares = trader.read_contract(vault, IVault::previewDepositCall { assets }).await;
        let happens = trader.devnet.simulate(&trader.deposit(vault, 1_000 * DOLLAR)).await;
        assert_eq!(U256::from_be_slice(&happens.unwrap()), shares);
        let assets = trader.read_contract(vault, IVault::previewRedeemCall { shares }).await;
        let redeem = IVault::redeemCall { shares, receiver: trader.address, owner: trader.address };
        let happens = trader.devnet.simulate(&trader.call(vault, &redeem)).await;
        assert_eq!(U256::from_be_slice(&happens.unwrap()), assets);
        trader.devnet.request("anvil_removeBlockTimestampInterval", json!([])).await.unwrap();

        // The fee shares are due but not minted yet.
        let minted = trader.read_contract(vault, IVault::totalSupplyCall {}).await;
        let all = trader.read_contract(vault, IVault::totalAssetsCall {}).await;
        let mine = trader.shares(vault).await;
        let naive = mine * (all + U256::from(1)) / (minted + U256::from(10u128.pow(12)));
        assert!(trader.worth(vault).await + dollars(10) < naive, "{naive}");
        // The next deposit mints the fee shares.
        assert_eq!(
            trader.read_contract(vault, IVault::balanceOfCall { owner: STRANGER }).await,
            U256::ZERO
        );
        trader.must(&trader.deposit(vault, DOLLAR)).await;
        assert!(
            trader.read_contract(vault, IVault::balanceOfCall { owner: STRANGER }).await
                > U256::ZERO
        );
    }
}

#[tokio::test]
async fn a_vault_counts_interest_before_the_market_books_it() {
    for trader in traders().await {
        let market = trader.devnet.loan_market().unwrap();
        for vault in trader.lending().vaults() {
            let snapshot = trader.devnet.request("evm_snapshot", json!([])).await.unwrap();
            trader.devnet.pass_month().await.unwrap();
            let then = head_time(&trader).await;
            let expected = assets_at_head(&trader, vault).await;
            trader.devnet.request("evm_revert", json!([snapshot])).await.unwrap();

            let start = assets_at_head(&trader, vault).await;
            trader.devnet.request("evm_setNextBlockTimestamp", json!([then])).await.unwrap();
            let accrue = IMorpho::accrueInterestCall { params: params(&market) };
            trader.must(&trader.call(trader.lending().morpho, &accrue)).await;
            let question = IMorpho::marketCall { id: market.id() };
            let booked = trader.read_contract(trader.lending().morpho, question).await;
            assert_eq!(u64::try_from(booked.lastUpdate).unwrap(), then);
            assert_eq!(assets_at_head(&trader, vault).await, expected);
            assert!(expected > start);
        }
    }
}

async fn head_time(trader: &Trader) -> u64 {
    let head = trader.devnet.request("eth_getBlockByNumber", json!(["latest", false])).await;
    serde_json::from_value::<U256>(head.unwrap()["timestamp"].clone()).unwrap().to()
}

async fn assets_at_head(trader: &Trader, vault: Address) -> U256 {
    let data = Bytes::from(IVault::totalAssetsCall {}.abi_encode());
    let call = json!({ "to": vault, "data": data });
    let reported = trader.devnet.request("eth_call", json!([call, "latest"])).await.unwrap();
    serde_json::from_value::<B256>(reported).unwrap().into()
}

#[tokio::test]
async fn the_interest_model_charges_the_rate_that_was_set() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let market = trader.devnet.create_market(trader.lending().irm).await.unwrap();
    let state = IIrm::Market {
        totalSupplyAssets: 1_000,
        totalSupplyShares: 0,
        totalBorrowAssets: 500,
        totalBorrowShares: 0,
        lastUpdate: 0,
        fee: 0,
    };
    let view = || IIrm::borrowRateViewCall { params: params(&market), market: state.clone() };
    let utilized = trader.read_contract(market.irm, view()).await;
    assert_eq!(utilized, U256::from(500_000_000_000_000_000_u64 / (365 * 24 * 3600)));
    trader.devnet.set_borrow_rate(&market, 20).await.unwrap();
    let set = U256::from(200_000_000_000_000_000_u64 / (365 * 24 * 3600));
    assert_eq!(trader.read_contract(market.irm, view()).await, set);
    let charged = IIrm::borrowRateCall { params: params(&market), market: state.clone() };
    assert_eq!(trader.read_contract(market.irm, charged).await, set);
}

#[tokio::test]
async fn a_loss_lowers_the_price_of_a_vault_v2_and_hides_in_a_metamorpho() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (v2, market, _adapter) = trader.vault_v2().await;
    trader.must(&trader.deposit(v2, DEPOSIT)).await;
    trader.devnet.borrow(&market, DEPOSIT / 4).await.unwrap();
    trader.devnet.lose_loans(&market).await.unwrap();
    let left = trader.worth(v2).await;
    assert!(left > dollars(74_999) && left < dollars(75_001), "{left}");

    let (v1, [market, _other]) = trader.metamorpho().await;
    trader.must(&trader.deposit(v1, DEPOSIT)).await;
    trader.devnet.borrow(&market, DEPOSIT / 4).await.unwrap();
    trader.devnet.lose_loans(&market).await.unwrap();
    // Version 1.1 does not lower its share price, so the last depositors to leave bear the loss.
    let left = trader.worth(v1).await;
    assert!(left >= dollars(99_999), "{left}");
    trader
        .assert_refused_with::<IMetaMorpho::NotEnoughLiquidity>(&trader.redeem_all(v1).await)
        .await;
    trader.must(&trader.deposit(v1, DOLLAR)).await;
    let lost = trader.read_contract(v1, IMetaMorpho::lostAssetsCall {}).await;
    assert!(lost > dollars(24_999) && lost < dollars(25_001), "{lost}");
}

#[tokio::test]
async fn a_donation_raises_the_price_as_fast_as_the_vault_lets_it() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (v2, _market, _adapter) = trader.vault_v2().await;
    trader.must(&trader.deposit(v2, DOLLAR)).await;
    trader.devnet.donate(v2, 1_000 * DOLLAR).await.unwrap();
    assert!(trader.worth(v2).await <= U256::from(DOLLAR + 1));
    trader.devnet.set_max_rate(v2, u64::MAX).await.unwrap();
    assert!(trader.worth(v2).await > dollars(1_000));

    let (v1, [market, _other]) = trader.metamorpho().await;
    trader.must(&trader.deposit(v1, DOLLAR)).await;
    trader.devnet.donate(v1, 1_000 * DOLLAR).await.unwrap();
    assert!(trader.worth(v1).await <= U256::from(DOLLAR));
    trader.devnet.supply_market(&market, 1_000 * DOLLAR, v1).await.unwrap();
    assert!(trader.worth(v1).await > dollars(1_000));
}

#[tokio::test]
async fn a_metamorpho_can_be_had_where_the_network_has_no_factory() {
    let Some(trader) = Trader::on(ChainId(4663)).await else { return };
    let market = trader.devnet.loan_market().unwrap();
    assert!(trader.devnet.create_metamorpho(&trader.trusted_vault(), &[market]).await.is_err());
    let factory = trader.devnet.deploy_metamorpho_factory().await.unwrap();
    let new = NewVault { factory: Some(factory), ..trader.trusted_vault() };
    let vault = trader.devnet.create_metamorpho(&new, &[market]).await.unwrap();
    assert!(trader.read_contract(factory, IOfficial::isMetaMorphoCall { vault }).await);
}
