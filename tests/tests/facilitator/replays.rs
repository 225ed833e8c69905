//! One payment, shown to a shop many times. Official shops remember no payment: they deliver whenever their
//! facilitator says that it was settled.

use bursar_tests::sdk::Script;
use futures::future::join_all;
use serde_json::json;

use crate::market::{DOLLARS, FETCH_V1, FETCH_V2, Market, Purse, atoms};
use crate::stage::{BASE, SHOP, Stage};

/// How often the payment is shown.
const TIMES: usize = 5;

/// A shop that asks us beside one with the official facilitator: both must deliver once.
async fn market(stage: Stage) -> Market {
    let network = stage.network().caip2();
    let price = atoms(&stage);
    let routes = json!({
        "v1": { "/v1": { "network": "base", "price": DOLLARS } },
        "v2": {
            "/v2": { "network": network, "price": price },
            "/upfront": {
                "network": network, "price": price, "extra": { "paymentFlow": "upfront" },
            },
        },
    });
    Market::open(stage, routes).await
}

/// How often the goods came for payments shown at the same time.
async fn delivered_at_once(market: &Market, url: &str, header: &(String, String)) -> usize {
    let shown = (0..TIMES).map(|_time| market.show(url, &header.0, &header.1));
    join_all(shown).await.iter().filter(|answer| answer.status() == 200).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_shown_many_times_at_once_buys_once_from_the_official_facilitator() {
    let Some(stage) = Stage::set(BASE, 1, "").await else { return };
    let mut market = market(stage).await;
    let peer = Script::start("peer.mjs", &[market.stage.chain.url(), &SHOP.to_string()]).await;
    let payer = Purse::of(&market.stage.payer().await);
    for (client, path) in [(FETCH_V2, "/evm-v2"), (FETCH_V1, "/x402")] {
        let before = market.balances(payer.address).await;
        let url = format!("{}{path}", peer.ready);
        let header = market.hold(client, &url, &payer).await;
        assert_eq!(delivered_at_once(&market, &url, &header).await, 1, "{path}");
        market.assert_paid(payer.address, before, path).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the facilitator says of a payment that it was settled to whoever shows it again"]
async fn a_payment_shown_many_times_at_once_buys_once_from_us() {
    let Some(stage) = Stage::set(BASE, 1, "").await else { return };
    let mut market = market(stage).await;
    let payer = Purse::of(&market.stage.payer().await);
    for (client, path) in [(FETCH_V2, "/v2"), (FETCH_V1, "/v1"), (FETCH_V2, "/upfront")] {
        let before = market.balances(payer.address).await;
        let url = market.url(path);
        let header = market.hold(client, &url, &payer).await;
        let delivered = delivered_at_once(&market, &url, &header).await;
        market.assert_paid(payer.address, before, path).await;
        assert_eq!(delivered, 1, "{path}");
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the facilitator says of a payment that it was settled to whoever shows it again"]
async fn a_payment_shown_again_buys_nothing_from_a_shop_that_settles_first() {
    let Some(stage) = Stage::set(BASE, 1, "").await else { return };
    let mut market = market(stage).await;
    let payer = Purse::of(&market.stage.payer().await);
    let before = market.balances(payer.address).await;
    let url = market.url("/upfront");
    let header = market.hold(FETCH_V2, &url, &payer).await;
    let mut statuses = Vec::new();
    for _time in 0..TIMES {
        statuses.push(market.show(&url, &header.0, &header.1).await.status().as_u16());
    }
    market.assert_paid(payer.address, before, "/upfront").await;
    assert_eq!(statuses, [200, 402, 402, 402, 402]);
    market.close().await;
}
