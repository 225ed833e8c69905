//! Added pools: every fee tier of v3, and v4 pools with hooks, each of which does what its conduct specifies.

use alloy_primitives::aliases::{I24, U24};
use alloy_primitives::{Address, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::full::{POOL_FEE, PoolV3, PoolV4, Side, TICK_SPACING};
use bursar_devnet::{HookConduct, HookRights, HookWhen, TokenMode};

use crate::full::{DOLLAR, ETHER, Trader};
use crate::routers::{IV4Quoter, PoolKey};

const DYNAMIC_FEE: u32 = 0x80_0000;
/// The amount of each side in each pool.
const POOL: u128 = 20 * ETHER;
const POOL_DOLLARS: u128 = 60_000 * DOLLAR;

async fn hooked_pool(trader: &Trader, conduct: HookConduct, fee: u32) -> PoolV4 {
    let rights = HookRights::ChangesOutput;
    let hooks = trader.devnet.deploy_hook(rights, conduct).await.unwrap();
    let sides = [Side::new(Address::ZERO, POOL), Side::new(trader.dollar(), POOL_DOLLARS)];
    let pool = PoolV4 { sides, fee, tick_spacing: TICK_SPACING, hooks };
    trader.devnet.add_v4_pool(trader.address, &pool).await.unwrap();
    pool
}

/// Returns the quote for a hundredth of an ether in dollars.
async fn quote(trader: &Trader, pool: &PoolV4) -> U256 {
    let params = IV4Quoter::QuoteExactSingleParams {
        poolKey: PoolKey {
            currency0: Address::ZERO,
            currency1: trader.dollar(),
            fee: U24::from(pool.fee),
            tickSpacing: I24::try_from(pool.tick_spacing).unwrap(),
            hooks: pool.hooks,
        },
        zeroForOne: true,
        exactAmount: ETHER / 100,
        hookData: Bytes::new(),
    };
    let question = IV4Quoter::quoteExactInputSingleCall { params };
    trader.devnet.read(trader.contracts.v4.quoter, question).await.unwrap().amountOut
}

/// Sells a hundredth of an ether and returns the dollars received.
async fn sell(trader: &Trader, pool: &PoolV4) -> U256 {
    let before = trader.own_balance(trader.dollar()).await;
    let sold = trader.devnet.swap_v4(trader.address, pool, Address::ZERO, ETHER / 100).await;
    sold.unwrap();
    trader.own_balance(trader.dollar()).await - before
}

#[tokio::test]
async fn hooks_take_their_share_only_under_the_condition_of_their_conduct() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let half = |when| HookConduct { when, share: 500_000, ..HookConduct::HONEST };
    let later = trader.devnet.request("eth_blockNumber", serde_json::json!([])).await.unwrap();
    let later: U256 = serde_json::from_value(later).unwrap();
    for (conduct, fee, quoter_pays_half, router_pays_half) in [
        (half(HookWhen::Never), POOL_FEE, false, false),
        (half(HookWhen::Always), POOL_FEE, true, true),
        (half(HookWhen::UnlessQuoted), POOL_FEE, false, true),
        // The kit's own calls have no gas price, but its transactions do.
        (half(HookWhen::WhenGasCosts), POOL_FEE, false, true),
        (half(HookWhen::FromBlock(later.to::<u64>() + 1_000)), POOL_FEE, false, false),
        (half(HookWhen::FromBlock(1)), POOL_FEE, true, true),
        (HookConduct::HONEST, DYNAMIC_FEE, false, false),
        (
            HookConduct { when: HookWhen::UnlessQuoted, other_fee: 500_000, ..HookConduct::HONEST },
            DYNAMIC_FEE,
            false,
            true,
        ),
    ] {
        let pool = hooked_pool(&trader, conduct, fee).await;
        let fair = U256::from(2_999 * DOLLAR / 100);
        let (quoted, received) = (quote(&trader, &pool).await, sell(&trader, &pool).await);
        let is_half = |amount: U256| amount < fair * U256::from(6) / U256::from(10);
        assert_eq!(is_half(quoted), quoter_pays_half, "{conduct:?} {quoted}");
        assert_eq!(is_half(received), router_pays_half, "{conduct:?} {received}");
    }
}

#[tokio::test]
async fn every_fee_tier_of_v3_can_be_added_and_traded() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let token = trader.devnet.deploy_token("Other", "1", TokenMode::Plain).await.unwrap();
    trader.devnet.mint_of(token, trader.address, 1_000_000 * DOLLAR).await.unwrap();
    let mut received = Vec::new();
    for fee in [100, 500, 3_000, 10_000] {
        let sides =
            [Side::new(token, 100_000 * DOLLAR), Side::new(trader.dollar(), 100_000 * DOLLAR)];
        trader.devnet.add_v3_pool(trader.address, &PoolV3 { sides, fee }).await.unwrap();
        let before = trader.own_balance(trader.dollar()).await;
        let pair = [token, trader.dollar()];
        trader.devnet.swap_v3(trader.address, pair, fee, 100 * DOLLAR).await.unwrap();
        received.push(trader.own_balance(trader.dollar()).await - before);
    }
    assert!(received.is_sorted_by(|one, next| one > next), "{received:?}");
    let none = PoolV3 { sides: [Side::new(token, 1), Side::new(trader.dollar(), 1)], fee: 700 };
    assert!(trader.devnet.add_v3_pool(trader.address, &none).await.is_err());
}
