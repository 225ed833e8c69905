//! Shops and customers of third parties: resource servers and clients of the protocol's own packages, unmodified, use
//! our facilitator by its URL.

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_tests::payer::{PERMIT2, Payer, random_word};
use serde_json::{Value, json};

use crate::facilitator::market::{
    FETCH_V1, FETCH_V2, Market, PRICE_IN_DOLLARS, PayerAccount, explicit_price,
};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

/// The shop's error for a payment that was used before.
const ALREADY_USED_CODE: &str = "duplicate_settlement";

/// The items of a version 2 shop, on any network.
fn version_2_routes(stage: &Stage) -> Value {
    let network = stage.network().caip2();
    json!({
        "/eip3009": { "network": network, "price": explicit_price(stage) },
        "/permit2": {
            "network": network, "price": explicit_price(stage),
            "extra": { "assetTransferMethod": "permit2" },
        },
    })
}

async fn stage(chain: ChainId) -> Option<Stage> {
    Stage::set_up(chain, 1, "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_version_2_shops_and_customers_settle_through_us_on_base() {
    let Some(stage) = stage(BASE).await else { return };
    let mut routes = version_2_routes(&stage);
    routes["/dollars"] = json!({ "network": stage.network().caip2(), "price": PRICE_IN_DOLLARS });
    let mut market = Market::open(stage, json!({ "v2": routes })).await;
    let payer = market.stage.payer().await;
    for (path, again) in [
        ("/dollars", ALREADY_USED_CODE),
        ("/eip3009", ALREADY_USED_CODE),
        ("/permit2", ALREADY_USED_CODE),
    ] {
        market.assert_buys(FETCH_V2, path, PayerAccount::of(&payer), again).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_version_2_shops_and_customers_settle_through_us_on_robinhood() {
    let Some(stage) = stage(ROBINHOOD).await else { return };
    let routes = version_2_routes(&stage);
    let mut market = Market::open(stage, json!({ "v2": routes })).await;
    let payer = market.stage.payer().await;
    for (path, again) in [("/eip3009", ALREADY_USED_CODE), ("/permit2", ALREADY_USED_CODE)] {
        market.assert_buys(FETCH_V2, path, PayerAccount::of(&payer), again).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_version_1_shops_and_customers_of_either_generation_settle_through_us() {
    let Some(stage) = stage(BASE).await else { return };
    let routes = json!({ "/dollars": { "network": "base", "price": PRICE_IN_DOLLARS } });
    let mut market = Market::open(stage, json!({ "v1": routes })).await;
    let payer = market.stage.payer().await;
    for client in [FETCH_V1, FETCH_V2] {
        market.assert_buys(client, "/dollars", PayerAccount::of(&payer), ALREADY_USED_CODE).await;
    }
    market.close().await;
}

/// Creates a funded contract wallet that this key owns. If `is_present`, deploys it now; else its first payment does.
async fn wallet(stage: &Stage, owner: &Payer, is_there: bool) -> PayerAccount {
    let chain = &stage.chain;
    let (address, wallet) = if is_there {
        let address = chain.deploy_wallet(owner.address()).await.expect("deployed");
        (address, json!({ "address": address }))
    } else {
        let salt = U256::from_be_bytes(random_word().0);
        let planned = chain.counterfactual(owner.address(), salt).await.expect("planned");
        let known = json!({
            "address": planned.wallet, "factory": planned.factory, "calldata": planned.calldata,
        });
        (planned.wallet, known)
    };
    chain.mint(address, INITIAL_BALANCE).await.expect("minted");
    chain.approve_as(address, stage.coin(), PERMIT2).await.expect("approved");
    // No contract can be deployed at an address with a nonce (EIP-684): keep the approval, reset the nonce.
    chain.request("anvil_setNonce", json!([address, "0x0"])).await.expect("set");
    PayerAccount { address, key: owner.key(), wallet }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smart_wallets_pay_official_shops_through_us() {
    let Some(stage) = stage(BASE).await else { return };
    let v1 = json!({ "/v1": { "network": "base", "price": PRICE_IN_DOLLARS } });
    let v2 = version_2_routes(&stage);
    let mut market = Market::open(stage, json!({ "v1": v1, "v2": v2 })).await;
    for is_there in [true, false] {
        for (client, path, again) in [
            (FETCH_V2, "/eip3009", ALREADY_USED_CODE),
            (FETCH_V2, "/permit2", ALREADY_USED_CODE),
            (FETCH_V1, "/v1", ALREADY_USED_CODE),
        ] {
            let owner = Payer::random();
            let account = wallet(&market.stage, &owner, is_there).await;
            market.assert_buys(client, path, account, again).await;
        }
    }
    market.close().await;
}
