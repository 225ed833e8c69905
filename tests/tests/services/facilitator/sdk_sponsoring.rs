//! The gas-sponsoring extensions with shops and customers that use official, unmodified packages. The customers have
//! not approved Permit2. Customers that sign a permit have no coin either.

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_tests::payer::Payer;
use bursar_tests::sdk::Framework;
use serde_json::{Value, json};

use crate::facilitator::channel::ESCROW;
use crate::facilitator::market::{
    CONTENT, FETCH_V2, HTTPX_CLIENT, Market, PRICE, PayerAccount, REQUESTS_CLIENT, explicit_price,
};
use crate::facilitator::stage::{BASE, ROBINHOOD, Stage};

/// The deposit of a channel's first request.
const DEPOSIT: u64 = 4 * PRICE;

/// The schemes, as the paths of a shop.
const SCHEMES: [&str; 3] = ["exact", "upto", "batch-settlement"];
const EXTENSIONS: [&str; 2] = ["eip2612GasSponsoring", "erc20ApprovalGasSponsoring"];

/// An item for each scheme and extension, as `/<scheme>/<extension>`.
fn routes(stage: &Stage) -> Value {
    let network = stage.network();
    let mut routes = json!({
        "v2": {},
        "channels": {
            "key": Payer::random().key(), "network": network.caip2(),
            "asset": network.stablecoin.address,
        },
    });
    for scheme in SCHEMES {
        for extension in EXTENSIONS {
            let mut price = explicit_price(stage);
            price["extra"]["assetTransferMethod"] = json!("permit2");
            let mut route = json!({
                "scheme": scheme, "network": network.caip2(), "price": price,
                "extensions": { extension: {
                    "info": { "description": "no approval needed", "version": "1" },
                    "schema": {},
                } },
            });
            if scheme == "batch-settlement" {
                route["extra"] = json!({ "minDeposit": DEPOSIT.to_string() });
            }
            routes["v2"][format!("/{scheme}/{extension}")] = route;
        }
    }
    routes
}

async fn customers_pay_without_an_allowance(
    chain: ChainId,
    framework: Framework,
    client: &'static str,
) {
    let Some(stage) = Stage::with_authorizer(chain).await else { return };
    let routes = routes(&stage);
    let mut market = Market::with_client(stage, framework, client, routes).await;
    for scheme in SCHEMES {
        for extension in EXTENSIONS {
            let case = format!("{client}, {scheme}, {extension}");
            let payer = market.stage.bare_payer().await;
            let is_approval = extension == EXTENSIONS[1];
            if is_approval {
                // This customer pays the gas of its approval.
                let coin = U256::from(10).pow(U256::from(16));
                market.stage.set_coin(payer.address(), coin).await;
            }
            let account = PayerAccount::of(&payer);
            let before = market.stage.balance(payer.address()).await;
            let held = market.stage.balance(ESCROW).await;
            let url = market.url(&format!("/{scheme}/{extension}"));
            let answer = market.order(client, &url, &account).await;
            assert_eq!(answer["status"], 200, "{case}: {answer}");
            assert_eq!(answer["body"]["content"], CONTENT, "{case}");
            market.assert_receipt(&answer["receipt"], payer.address()).await;
            let amount = if scheme == "batch-settlement" { DEPOSIT } else { PRICE };
            let paid = before - market.stage.balance(payer.address()).await;
            assert_eq!(paid, U256::from(amount), "{case}");
            let deposited = market.stage.balance(ESCROW).await - held;
            let expected = if scheme == "batch-settlement" { DEPOSIT } else { 0 };
            assert_eq!(deposited, U256::from(expected), "{case}");
            let sent = if is_approval { "0x1" } else { "0x0" };
            assert_eq!(market.stage.transaction_count_of(payer.address()).await, sent, "{case}");
        }
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_sells_to_customers_with_fetch_that_approved_nothing() {
    customers_pay_without_an_allowance(BASE, Framework::Express, FETCH_V2).await;
    customers_pay_without_an_allowance(ROBINHOOD, Framework::Express, FETCH_V2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_sells_to_customers_in_python_that_approved_nothing() {
    customers_pay_without_an_allowance(BASE, Framework::FastApi, HTTPX_CLIENT).await;
    customers_pay_without_an_allowance(ROBINHOOD, Framework::FastApi, REQUESTS_CLIENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_sell_to_customers_in_another_language_that_approved_nothing() {
    customers_pay_without_an_allowance(BASE, Framework::Express, HTTPX_CLIENT).await;
    customers_pay_without_an_allowance(ROBINHOOD, Framework::FastApi, FETCH_V2).await;
}
