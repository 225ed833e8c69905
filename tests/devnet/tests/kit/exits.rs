//! Obstacles to money that leaves or enters a vault: liquidity, caps, gates, and penalties.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::ChainId;
use bursar_devnet::full::GateSide;

use crate::full::{DOLLAR, Trader, traders};
use crate::lending::{IMetaMorpho, IVault};

const DEPOSIT: u128 = 100_000 * DOLLAR;
const WAD: u128 = 1_000_000_000_000_000_000;

#[tokio::test]
async fn a_vault_v2_pays_its_idle_balance_and_what_its_market_has() {
    for trader in traders().await {
        let (vault, market, adapter) = trader.vault_v2().await;
        trader.must(&trader.deposit(vault, DEPOSIT)).await;
        // By design, a Vault V2 reports every limit as zero.
        let owner = trader.address;
        for limit in [
            trader.read_contract(vault, IVault::maxDepositCall { owner }).await,
            trader.read_contract(vault, IVault::maxMintCall { owner }).await,
            trader.read_contract(vault, IVault::maxWithdrawCall { owner }).await,
            trader.read_contract(vault, IVault::maxRedeemCall { owner }).await,
        ] {
            assert_eq!(limit, U256::ZERO);
        }
        trader.devnet.deallocate(vault, adapter, market.encoded(), 10 * DOLLAR).await.unwrap();
        trader.devnet.drain_market(&market, 30 * DOLLAR).await.unwrap();
        trader.assert_illiquid(&trader.redeem_all(vault).await).await;
        trader.assert_illiquid(&trader.withdraw(vault, U256::from(40 * DOLLAR + 1))).await;
        trader.must(&trader.withdraw(vault, U256::from(40 * DOLLAR))).await;
        trader.assert_illiquid(&trader.withdraw(vault, U256::from(DOLLAR))).await;
        trader.devnet.repay(&market, DEPOSIT / 2).await.unwrap();
        trader.must(&trader.withdraw(vault, U256::from(DEPOSIT / 2))).await;

        // Without a liquidity adapter only the idle balance is paid.
        trader.devnet.set_liquidity_adapter(vault, Address::ZERO, Bytes::new()).await.unwrap();
        trader.must(&trader.deposit(vault, 5 * DOLLAR)).await;
        let too_much = trader.withdraw(vault, U256::from(5 * DOLLAR + 1));
        trader.assert_refused_with::<IVault::TransferReverted>(&too_much).await;
        trader.must(&trader.withdraw(vault, U256::from(5 * DOLLAR))).await;
    }
}

#[tokio::test]
async fn a_metamorpho_reports_what_it_can_pay() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (vault, [one, other]) = trader.metamorpho().await;
    // Half of the deposit goes to each market.
    trader.devnet.set_market_cap(vault, &one, U256::from(DEPOSIT / 2)).await.unwrap();
    trader.must(&trader.deposit(vault, DEPOSIT)).await;
    let most = || IVault::maxWithdrawCall { owner: trader.address };
    let all = trader.read_contract(vault, most()).await;
    assert!(all <= U256::from(DEPOSIT) && all + U256::from(2) >= U256::from(DEPOSIT), "{all}");
    trader.devnet.drain_market(&one, 0).await.unwrap();
    trader.devnet.drain_market(&other, 30 * DOLLAR).await.unwrap();
    assert_eq!(trader.read_contract(vault, most()).await, U256::from(30 * DOLLAR));
    trader
        .assert_refused_with::<IMetaMorpho::NotEnoughLiquidity>(&trader.redeem_all(vault).await)
        .await;
    let too_much = trader.withdraw(vault, U256::from(30 * DOLLAR + 1));
    trader.assert_refused_with::<IMetaMorpho::NotEnoughLiquidity>(&too_much).await;
    trader.must(&trader.withdraw(vault, U256::from(30 * DOLLAR))).await;
    assert_eq!(trader.read_contract(vault, most()).await, U256::ZERO);
}

#[tokio::test]
async fn caps_stop_deposits_of_either_kind() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (v2, market, adapter) = trader.vault_v2().await;
    let ids = trader.devnet.market_cap_ids(adapter, &market).await.unwrap();
    let endorsed = ids[2];
    let deposit = trader.deposit(v2, 100 * DOLLAR);
    trader.devnet.set_vault_cap(v2, endorsed, 0, WAD).await.unwrap();
    trader.assert_refused_with::<IVault::ZeroAbsoluteCap>(&deposit).await;
    trader.devnet.set_vault_cap(v2, endorsed, 99 * DOLLAR, WAD).await.unwrap();
    trader.assert_refused_with::<IVault::AbsoluteCapExceeded>(&deposit).await;
    trader.devnet.set_vault_cap(v2, endorsed, u128::MAX, WAD / 2).await.unwrap();
    trader.assert_refused_with::<IVault::RelativeCapExceeded>(&deposit).await;
    trader.devnet.set_vault_cap(v2, endorsed, 100 * DOLLAR, WAD).await.unwrap();
    trader.must(&deposit).await;

    let (v1, [one, other]) = trader.metamorpho().await;
    for market in [one, other] {
        trader.devnet.set_market_cap(v1, &market, U256::from(50 * DOLLAR)).await.unwrap();
    }
    let most = trader.read_contract(v1, IVault::maxDepositCall { owner: trader.address }).await;
    assert_eq!(most, U256::from(100 * DOLLAR));
    let deposit = trader.deposit(v1, 100 * DOLLAR + 1);
    trader.assert_refused_with::<IMetaMorpho::AllCapsReached>(&deposit).await;
    trader.must(&trader.deposit(v1, 100 * DOLLAR)).await;
}

#[tokio::test]
async fn each_gate_closes_its_side() {
    let Some(trader) = Trader::on(ChainId(4663)).await else { return };
    let vault = trader.lending().vaults_v2[0];
    trader.approve(trader.dollar(), vault).await;
    trader.must(&trader.deposit(vault, 100 * DOLLAR)).await;
    let account = trader.address;
    let (enter, exit) = (trader.deposit(vault, DOLLAR), trader.withdraw(vault, U256::from(DOLLAR)));
    for side in GateSide::ALL {
        let gate = trader.devnet.add_gate(vault, side).await.unwrap();
        trader.must(&enter).await;
        trader.must(&exit).await;
        trader.devnet.set_gate_open(gate, false).await.unwrap();
        let open = match side {
            GateSide::ReceiveShares => {
                trader.assert_refused_with::<IVault::CannotReceiveShares>(&enter).await;
                trader.must(&exit).await;
                trader.read_contract(vault, IVault::canReceiveSharesCall { account }).await
            }
            GateSide::SendAssets => {
                trader.assert_refused_with::<IVault::CannotSendAssets>(&enter).await;
                trader.must(&exit).await;
                trader.read_contract(vault, IVault::canSendAssetsCall { account }).await
            }
            GateSide::SendShares => {
                trader.must(&enter).await;
                trader.assert_refused_with::<IVault::CannotSendShares>(&exit).await;
                trader.read_contract(vault, IVault::canSendSharesCall { account }).await
            }
            GateSide::ReceiveAssets => {
                trader.must(&enter).await;
                trader.assert_refused_with::<IVault::CannotReceiveAssets>(&exit).await;
                trader.read_contract(vault, IVault::canReceiveAssetsCall { account }).await
            }
        };
        assert!(!open, "{side:?}");
        trader.devnet.set_gate(vault, side, Address::ZERO).await.unwrap();
    }
}

#[tokio::test]
async fn a_forced_deallocation_costs_its_penalty() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (vault, market, adapter) = trader.vault_v2().await;
    trader.must(&trader.deposit(vault, DEPOSIT)).await;
    // The money is in another market, which the liquidity adapter does not know.
    let empty = trader.devnet.create_market(trader.lending().irm).await.unwrap();
    trader.devnet.allow_market(vault, adapter, &empty).await.unwrap();
    trader.devnet.set_liquidity_adapter(vault, adapter, empty.encoded()).await.unwrap();
    let exit = trader.withdraw(vault, U256::from(DEPOSIT / 2));
    assert!(trader.devnet.simulate(&exit).await.is_err());

    assert!(trader.devnet.set_exit_penalty(vault, adapter, 201).await.is_err());
    trader.devnet.set_exit_penalty(vault, adapter, 200).await.unwrap();
    let penalty = trader.read_contract(vault, IVault::forceDeallocatePenaltyCall { adapter }).await;
    assert_eq!(penalty, U256::from(WAD / 50));
    let before = trader.shares(vault).await;
    let force = IVault::forceDeallocateCall {
        adapter,
        data: market.encoded(),
        assets: U256::from(DEPOSIT / 2),
        onBehalf: trader.address,
    };
    trader.must(&trader.call(vault, &force)).await;
    let paid = before - trader.shares(vault).await;
    // Two percent of half the assets are a hundredth of all.
    let hundredth = before / U256::from(100);
    assert!(paid.abs_diff(hundredth) < hundredth / U256::from(1_000), "{paid} {hundredth}");
    trader.must(&exit).await;
}

/// One transaction takes the money from an adapter and pays it out, or has no effect.
#[tokio::test]
async fn a_forced_deallocation_and_its_withdrawal_are_one_transaction() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (vault, market, adapter) = trader.vault_v2().await;
    trader.must(&trader.deposit(vault, DEPOSIT)).await;
    let other = trader.devnet.create_market(trader.lending().irm).await.unwrap();
    let empty = trader.devnet.add_market_adapter(vault, &other).await.unwrap();
    trader.devnet.set_exit_penalty(vault, adapter, 200).await.unwrap();
    let half = U256::from(DEPOSIT / 2);
    let force = |adapter, assets| {
        let (data, on_behalf) = (market.encoded(), trader.address);
        IVault::forceDeallocateCall { adapter, data, assets, onBehalf: on_behalf }.abi_encode()
    };
    let pay =
        IVault::withdrawCall { assets: half, receiver: trader.address, owner: trader.address };
    let all = |calls: Vec<Vec<u8>>| {
        let data = calls.into_iter().map(Bytes::from).collect();
        trader.call(vault, &IVault::multicallCall { data })
    };
    // If one part fails, the others are undone, and the whole call reports its error.
    let missing = all(vec![force(adapter, half - U256::ONE), pay.abi_encode()]);
    let alone = trader.refusal(&trader.call(vault, &pay)).await;
    assert_eq!((trader.refusal(&missing).await, alone.len()), (alone, 36));
    let stranger = all(vec![force(empty, half), pay.abi_encode()]);
    assert!(trader.devnet.simulate(&stranger).await.is_err());

    let cost =
        trader.read_contract(vault, IVault::previewWithdrawCall { assets: half / U256::from(50) });
    let (cost, price) = (
        cost.await,
        trader.read_contract(vault, IVault::previewWithdrawCall { assets: half }).await,
    );
    let (shares, coins) = (trader.shares(vault).await, trader.own_balance(trader.dollar()).await);
    let total = trader.read_contract(vault, IVault::totalAssetsCall {}).await;
    trader.must(&all(vec![force(adapter, half), pay.abi_encode()])).await;
    assert_eq!(trader.own_balance(trader.dollar()).await - coins, half);
    let given = shares - trader.shares(vault).await;
    assert!(given.abs_diff(cost + price) <= cost / U256::from(1_000_000), "{given} {cost} {price}");
    // The total falls by the paid amount and by the penalty, which flows back as interest of at most 200 % a year.
    let left = total - trader.read_contract(vault, IVault::totalAssetsCall {}).await;
    let expected = half + half / U256::from(50);
    assert!(left <= expected && expected - left < U256::from(DOLLAR), "{left} {expected}");
}

#[tokio::test]
async fn a_deposit_without_allowance_or_money_fails_as_documented() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let vault = trader.lending().vaults_v2[0];
    trader
        .assert_refused_with::<IVault::TransferFromReverted>(&trader.deposit(vault, DOLLAR))
        .await;
    trader.approve(trader.dollar(), vault).await;
    let too_much = trader.deposit(vault, 10_000_000 * DOLLAR);
    trader.assert_refused_with::<IVault::TransferFromReverted>(&too_much).await;
    trader.must(&trader.deposit(vault, DOLLAR)).await;
    let greedy = trader.withdraw(vault, U256::from(2 * DOLLAR));
    let refusal = trader.refusal(&greedy).await;
    // Panic(0x11): the call redeems more shares than there are.
    assert_eq!(refusal.get(..4), Some(&[0x4e, 0x48, 0x7b, 0x71][..]));
    assert_eq!(refusal.last(), Some(&0x11));
}

#[tokio::test]
async fn a_paused_stablecoin_neither_enters_nor_leaves() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (v2, _market, _adapter) = trader.vault_v2().await;
    let (v1, _markets) = trader.metamorpho().await;
    for vault in [v2, v1] {
        trader.must(&trader.deposit(vault, 100 * DOLLAR)).await;
        trader.devnet.set_paused(true).await.unwrap();
        trader
            .assert_refused_with::<IVault::TransferFromReverted>(&trader.deposit(vault, DOLLAR))
            .await;
        assert!(trader.devnet.simulate(&trader.redeem_all(vault).await).await.is_err());
        trader.devnet.set_paused(false).await.unwrap();
        trader.must(&trader.redeem_all(vault).await).await;
    }
}
