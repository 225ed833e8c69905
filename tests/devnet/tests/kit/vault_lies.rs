//! Vaults, adapters and events that lie, each as its setting specifies.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolEvent;
use bursar_core::networks::ChainId;
use bursar_devnet::full::{NewVault, VaultLie};
use serde_json::json;

use crate::full::{DOLLAR, IErc20, Log, Trader, traders};
use crate::lending::{IMorpho, IOfficial, IVault, STRANGER};

const OTHER: Address = Address::repeat_byte(0x99);

#[tokio::test]
async fn a_vault_lies_about_what_its_switch_says() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let official = trader.lending().vault_v2_factory;
    let new = NewVault { factory: Some(official), ..trader.trusted_vault() };
    let vault = trader.devnet.deploy_lying_vault(&new).await.unwrap();
    assert!(trader.read_contract(official, IOfficial::isVaultV2Call { vault }).await);
    let market = trader.devnet.loan_market().unwrap();
    trader.devnet.add_market_adapter(vault, &market).await.unwrap();
    trader.approve(trader.dollar(), vault).await;
    trader.must(&trader.deposit(vault, 100 * DOLLAR)).await;
    let told = async |lie| {
        trader.devnet.set_vault_lie(vault, lie).await.unwrap();
        let shares = U256::from(50) * U256::from(10u128.pow(18));
        (
            trader.read_contract(vault, IVault::assetCall {}).await,
            trader.read_contract(vault, IVault::decimalsCall {}).await,
            trader.read_contract(vault, IVault::previewRedeemCall { shares }).await
                / U256::from(DOLLAR - 1),
            trader.read_contract(vault, IVault::balanceOfCall { owner: STRANGER }).await,
            trader.read_contract(vault, IVault::adaptersLengthCall {}).await,
        )
    };
    let (coin, zero, one) = (trader.dollar(), U256::ZERO, U256::from(1));
    let worth = U256::from(50);
    assert_eq!(told(VaultLie::None).await, (coin, 18, worth, zero, one));
    assert_eq!(told(VaultLie::Asset(OTHER)).await, (OTHER, 18, worth, zero, one));
    assert_eq!(told(VaultLie::Decimals(6)).await, (coin, 6, worth, zero, one));
    let double = U256::from(100);
    assert_eq!(told(VaultLie::Preview(200)).await, (coin, 18, double, zero, one));
    let seven = U256::from(7);
    assert_eq!(told(VaultLie::Balance(seven)).await, (coin, 18, worth, seven, one));
    assert_eq!(told(VaultLie::Adapters).await, (coin, 18, worth, zero, zero));

    // The preview lies, but the deposit and the redemption use the true value.
    trader.devnet.set_vault_lie(vault, VaultLie::Preview(200)).await.unwrap();
    assert!(trader.worth(vault).await > U256::from(199 * DOLLAR));
    let gain = trader.gain(trader.dollar(), &trader.redeem_all(vault).await).await;
    assert!(gain > U256::from(99 * DOLLAR) && gain < U256::from(101 * DOLLAR), "{gain}");
}

#[tokio::test]
async fn an_entry_fee_is_hidden_from_previews_and_bounded_by_a_mint() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let vault = trader.devnet.deploy_lying_vault(&trader.trusted_vault()).await.unwrap();
    trader.approve(trader.dollar(), vault).await;
    let deposit = trader.deposit(vault, 100 * DOLLAR);
    for (lie, rehearsed) in [(VaultLie::EntryFee(5), 95), (VaultLie::EntryFeeWhenSent(5), 100)] {
        trader.devnet.set_vault_lie(vault, lie).await.unwrap();
        let assets = U256::from(100 * DOLLAR);
        let promised = trader.read_contract(vault, IVault::previewDepositCall { assets }).await;
        let rehearsal = trader.devnet.simulate(&deposit).await.unwrap();
        let percent = U256::from_be_slice(&rehearsal) * U256::from(100) / promised;
        assert_eq!(percent, U256::from(rehearsed), "{lie:?}");
        let before = trader.shares(vault).await;
        trader.must(&deposit).await;
        let received = trader.shares(vault).await - before;
        assert_eq!(received * U256::from(100) / promised, U256::from(95), "{lie:?}");

        // A mint under an exact allowance fails when it is sent, whatever the simulation reports.
        let shares = trader.read_contract(vault, IVault::previewDepositCall { assets }).await;
        let exact = IErc20::approveCall { spender: vault, value: assets };
        trader.must(&trader.call(trader.dollar(), &exact)).await;
        let mint = trader.call(vault, &IVault::mintCall { shares, receiver: trader.address });
        assert!(trader.devnet.send_as(&mint).await.is_err(), "{lie:?}");
        trader.approve(trader.dollar(), vault).await;
    }
}

#[tokio::test]
async fn a_pinned_vault_can_begin_to_lie() {
    for trader in traders().await {
        let vault = trader.lending().vaults_v2[0];
        trader.approve(trader.dollar(), vault).await;
        trader.must(&trader.deposit(vault, 100 * DOLLAR)).await;
        let (shares, curator) = (trader.shares(vault).await, trader.lending().curator);
        trader.devnet.corrupt_vault_v2(vault).await.unwrap();
        assert_eq!(trader.shares(vault).await, shares);
        assert_eq!(trader.read_contract(vault, IVault::curatorCall {}).await, curator);
        trader.devnet.set_vault_lie(vault, VaultLie::Balance(U256::ZERO)).await.unwrap();
        assert_eq!(trader.shares(vault).await, U256::ZERO);
    }
}

#[tokio::test]
async fn a_hostile_adapter_takes_the_money_of_an_official_vault() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let vault = trader.devnet.create_vault_v2(&trader.trusted_vault()).await.unwrap();
    let adapter = trader.devnet.add_unofficial_adapter(vault).await.unwrap();
    let lending = trader.lending();
    assert!(
        trader.read_contract(lending.vault_v2_factory, IOfficial::isVaultV2Call { vault }).await
    );
    let registry = trader.read_contract(vault, IVault::adapterRegistryCall {}).await;
    assert_eq!(registry, lending.adapter_registry);
    assert!(!trader.read_contract(registry, IOfficial::isInRegistryCall { adapter }).await);
    let known = IOfficial::isMorphoMarketV1AdapterV2Call { adapter };
    assert!(!trader.read_contract(lending.market_adapter_factory, known).await);
    // The registry would refuse this adapter if the vault asked it.
    let add = IVault::addAdapterCall { adapter: OTHER };
    trader.assert_refused_with::<IVault::NotInAdapterRegistry>(&trader.call(vault, &add)).await;

    trader.devnet.set_liquidity_adapter(vault, adapter, Default::default()).await.unwrap();
    trader.approve(trader.dollar(), vault).await;
    trader.must(&trader.deposit(vault, 100 * DOLLAR)).await;
    trader.devnet.steal_from_adapter(adapter, OTHER, 90 * DOLLAR).await.unwrap();
    assert_eq!(trader.balance(trader.dollar(), OTHER).await, U256::from(90 * DOLLAR));
    // The adapter still reports the money.
    assert!(trader.worth(vault).await >= U256::from(100 * DOLLAR - 1));
    trader.assert_refused_with::<IVault::BoxIsIlliquid>(&trader.redeem_all(vault).await).await;
    trader.must(&trader.withdraw(vault, U256::from(DOLLAR))).await;
    trader.devnet.set_adapter_refuses(adapter, true).await.unwrap();
    trader
        .assert_refused_with::<IVault::BoxIsIlliquid>(&trader.withdraw(vault, U256::from(DOLLAR)))
        .await;
}

#[tokio::test]
async fn a_leveraged_box_multiplies_a_loss_of_a_pinned_vault() {
    let Some(trader) = Trader::on(ChainId(4663)).await else { return };
    let vault = trader.lending().vaults_v2[1];
    let odd = trader.devnet.add_unofficial_adapter(vault).await.unwrap();
    assert_eq!(trader.read_contract(vault, IVault::adaptersLengthCall {}).await, U256::from(2));
    trader.devnet.set_liquidity_adapter(vault, Address::ZERO, Default::default()).await.unwrap();
    trader.approve(trader.dollar(), vault).await;
    trader.must(&trader.deposit(vault, 500_000 * DOLLAR)).await;
    trader.devnet.allocate(vault, odd, 500_000 * DOLLAR).await.unwrap();
    let worth = trader.worth(vault).await;
    // Half of the vault's assets are in the box, whose loss of 5 % counts nine times.
    trader.devnet.set_adapter_worth(odd, 95, 9).await.unwrap();
    let (left, expected) = (trader.worth(vault).await, worth * U256::from(775) / U256::from(1_000));
    assert!(left.abs_diff(expected) < U256::from(100 * DOLLAR), "{left} {expected}");
}

#[tokio::test]
async fn another_factory_and_a_stranger_make_vaults_that_look_trusted() {
    for trader in traders().await {
        let lending = trader.lending();
        let factory = trader.devnet.deploy_vault_v2_factory().await.unwrap();
        let spoof = NewVault { factory: Some(factory), ..trader.trusted_vault() };
        let spoof = trader.devnet.create_vault_v2(&spoof).await.unwrap();
        assert_eq!(trader.read_contract(spoof, IVault::curatorCall {}).await, lending.curator);
        let known = |vault| IOfficial::isVaultV2Call { vault };
        assert!(trader.read_contract(factory, known(spoof)).await);
        assert!(!trader.read_contract(lending.vault_v2_factory, known(spoof)).await);

        // A stranger's vault from the official factory names the trusted curator.
        let theirs = NewVault { owner: STRANGER, ..trader.trusted_vault() };
        let theirs = trader.devnet.create_vault_v2(&theirs).await.unwrap();
        assert!(trader.read_contract(lending.vault_v2_factory, known(theirs)).await);
        assert_eq!(trader.read_contract(theirs, IVault::curatorCall {}).await, lending.curator);
        assert_eq!(trader.read_contract(theirs, IVault::ownerCall {}).await, STRANGER);
    }
}

#[tokio::test]
async fn an_interest_model_need_not_be_the_official_one() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let irm = trader.devnet.deploy_irm().await.unwrap();
    let market = trader.devnet.create_market(irm).await.unwrap();
    let question = IMorpho::idToMarketParamsCall { id: market.id() };
    let found = trader.read_contract(trader.lending().morpho, question).await;
    assert_eq!(found.irm, irm);
    assert_ne!(irm, trader.lending().irm);
    // A MetaMorpho vault may lend through this market, but the official adapters of Vault V2 refuse it.
    let v1 = trader.devnet.create_metamorpho(&trader.trusted_vault(), &[market]).await.unwrap();
    trader.approve(trader.dollar(), v1).await;
    trader.must(&trader.deposit(v1, DOLLAR)).await;
    let v2 = trader.devnet.create_vault_v2(&trader.trusted_vault()).await.unwrap();
    trader.devnet.add_market_adapter(v2, &market).await.unwrap();
    trader.approve(trader.dollar(), v2).await;
    trader.assert_refused_with::<IVault::IrmMismatch>(&trader.deposit(v2, DOLLAR)).await;
}

#[tokio::test]
async fn a_forger_emits_events_in_any_name() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let forger = trader.devnet.deploy_forger().await.unwrap();
    let market = trader.devnet.loan_market().unwrap().id();
    trader.devnet.forge_deposit(forger, trader.address, 400 * DOLLAR).await.unwrap();
    trader.devnet.forge_supply(forger, market, trader.address, 500 * DOLLAR).await.unwrap();
    let filter = |topics| json!([{ "fromBlock": "0x0", "topics": topics }]);
    let mine = trader.address.into_word();
    let topics = json!([IVault::Deposit::SIGNATURE_HASH, null, mine]);
    let found = trader.devnet.request("eth_getLogs", filter(topics)).await.unwrap();
    let found: Vec<Log> = serde_json::from_value(found).unwrap();
    let [deposit] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(deposit.address, forger);
    assert_eq!(U256::from_be_slice(&deposit.data[..32]), U256::from(400 * DOLLAR));
    let topics = json!([IMorpho::Supply::SIGNATURE_HASH, market, null, mine]);
    let found = trader.devnet.request("eth_getLogs", filter(topics)).await.unwrap();
    let found: Vec<Log> = serde_json::from_value(found).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].address, forger);
}
