//! The scheme `upto` with shops and customers of third parties: unmodified official packages of npm and PyPI settle
//! the used amounts through our facilitator.

use std::sync::Arc;

use alloy_primitives::{Address, address};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bursar_core::networks::ChainId;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::offers::decode_header;
use bursar_tests::payer::Payer;
use bursar_tests::sdk::Framework;
use bursar_tests::upto_contract;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::facilitator::market::{
    CONTENT, FETCH_V2, HTTPX_CLIENT, Market, PRICE, PayerAccount, REQUESTS_CLIENT, explicit_price,
};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

/// An account that is not a signer of ours.
const STRANGER: Address = address!("0x1111111111111111111111111111111111111111");

/// The usage that a shop's handler reports, and the amount that is then settled.
const USED_AMOUNTS: [(&str, u64); 4] = [
    ("/upto", PRICE),
    ("/upto?used=4321", 4_321),
    ("/upto?used=12.5%25", 1_500),
    ("/upto?used=0", 0),
];

/// The items: one in the usual form of shops, and one whose route names an account itself.
fn routes(stage: &Stage) -> Value {
    let network = stage.network().caip2();
    let route = |extra: Value| {
        json!({
            "scheme": "upto", "network": network, "price": explicit_price(stage), "extra": extra,
        })
    };
    json!({ "v2": {
        "/upto": route(json!({})),
        "/named": route(json!({ "facilitatorAddress": STRANGER })),
    } })
}

/// Asserts that a customer buys, and that the shop settles this amount and accepts the payment only once.
async fn assert_settles(market: &mut Market, client: &str, path: &str, amount: u64, case: &str) {
    let case = format!("{case} at {path}");
    let account = PayerAccount::of(&market.stage.payer().await);
    let payer = account.address;
    let before = market.balances(payer).await;
    let url = market.url(path);
    let answer = market.order(client, &url, &account).await;
    assert_eq!(answer["status"], 200, "{case}: {answer}");
    assert_eq!(answer["body"]["content"], CONTENT, "{case}");
    let receipt = &answer["receipt"];
    assert_eq!(receipt["amount"], amount.to_string(), "{case}: {receipt}");
    assert_eq!(receipt["network"], market.stage.network().caip2(), "{case}: {receipt}");
    if amount == 0 {
        assert_eq!((&receipt["success"], &receipt["transaction"]), (&json!(true), &json!("")));
    } else {
        market.assert_receipt(receipt, payer).await;
    }
    market.assert_moved(payer, before, amount, &case).await;
    let refusal = market.refusal(&url, &answer).await;
    assert_eq!(refusal["error"], "duplicate_settlement", "{case}: {refusal}");
    market.assert_moved(payer, before, amount, &case).await;
}

/// Asserts that a shop which settles above the authorized amount is not paid and does not deliver, and that the
/// payment stays valid.
async fn assert_above_the_cap_is_refused(market: &mut Market, client: &str, case: &str) {
    let account = PayerAccount::of(&market.stage.payer().await);
    let payer = account.address;
    let (before, served) = (market.balances(payer).await, market.paid_handler_runs().await);
    let url = market.url(&format!("/upto?used={}", PRICE + 1));
    let answer = market.order(client, &url, &account).await;
    assert_eq!((&answer["status"], &answer["body"]), (&json!(402), &json!({})), "{case}: {answer}");
    let receipt = &answer["receipt"];
    assert_eq!((&receipt["success"], &receipt["transaction"]), (&json!(false), &json!("")));
    let exceeds = "invalid_upto_evm_payload_settlement_exceeds_amount";
    assert_eq!(receipt["errorReason"], exceeds, "{case}: {receipt}");
    assert_eq!(market.paid_handler_runs().await, served + 1, "{case}: the handler ran");
    market.assert_moved(payer, before, 0, case).await;
    let shown = market.resend_payment(&market.url("/upto?used=7"), &answer).await;
    assert_eq!(shown.status(), 200, "{case}");
    market.assert_moved(payer, before, 7, case).await;
}

/// Asserts that the shop refuses a payment at its verification: no handler runs and nothing moves.
async fn assert_not_served(
    market: &mut Market,
    client: &str,
    payer: &Payer,
    expected: (u16, &str),
    case: &str,
) {
    let account = PayerAccount::of(payer);
    let (before, served) =
        (market.balances(account.address).await, market.paid_handler_runs().await);
    let answer = market.order(client, &market.url("/upto"), &account).await;
    let challenge =
        decode_header(answer["challenge"].as_str().unwrap_or_else(|| panic!("{answer}")));
    let outcome = (&answer["status"], &challenge["error"]);
    assert_eq!(outcome, (&json!(expected.0), &json!(expected.1)), "{case}: {answer}");
    assert_eq!(market.paid_handler_runs().await, served, "{case}: no handler ran");
    market.assert_moved(account.address, before, 0, case).await;
}

/// Asserts that the code asks for an approval of Permit2. The npm packages also use a separate status for it.
async fn assert_asks_for_approval(
    market: &mut Market,
    framework: Framework,
    client: &str,
    case: &str,
) {
    let unapproved = Payer::random();
    market.stage.chain.mint(unapproved.address(), INITIAL_BALANCE).await.expect("minted");
    let status = match framework {
        Framework::Express | Framework::Hono => 412,
        Framework::FastApi => 402,
    };
    let expected = (status, "permit2_allowance_required");
    assert_not_served(market, client, &unapproved, expected, case).await;
}

/// Tests a shop and customers in the same language.
async fn used_amounts_are_settled(chain: ChainId, framework: Framework, clients: &[&str]) {
    let Some(stage) = Stage::set_up(chain, 1, "").await else { return };
    let routes = routes(&stage);
    let mut market = Market::with_client(stage, framework, clients[0], routes.clone()).await;
    for client in clients {
        let case = format!("{client} at {framework:?}");
        for (path, amount) in USED_AMOUNTS {
            assert_settles(&mut market, client, path, amount, &case).await;
        }
        // The packages overwrite the route's account with the one that the facilitator announces.
        assert_settles(&mut market, client, "/named?used=5", 5, &case).await;
        assert_above_the_cap_is_refused(&mut market, client, &case).await;
        assert_asks_for_approval(&mut market, framework, client, &case).await;
    }
    let stale = StaleKinds::in_front_of(&market.stage).await;
    market.replace_shop(framework, &stale.url, routes).await;
    for client in clients {
        let case = format!("{client} at {framework:?} with an outdated account");
        let payer = market.stage.payer().await;
        let expected = (402, "facilitator_mismatch");
        assert_not_served(&mut market, client, &payer, expected, &case).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_settles_what_customers_with_fetch_used_on_base() {
    used_amounts_are_settled(BASE, Framework::Express, &[FETCH_V2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_settles_what_customers_with_fetch_used_on_robinhood() {
    used_amounts_are_settled(ROBINHOOD, Framework::Express, &[FETCH_V2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hono_settles_what_customers_with_fetch_used() {
    used_amounts_are_settled(BASE, Framework::Hono, &[FETCH_V2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_settles_what_customers_in_python_used_on_base() {
    used_amounts_are_settled(BASE, Framework::FastApi, &[HTTPX_CLIENT, REQUESTS_CLIENT]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_settles_what_customers_in_python_used_on_robinhood() {
    used_amounts_are_settled(ROBINHOOD, Framework::FastApi, &[HTTPX_CLIENT, REQUESTS_CLIENT]).await;
}

/// Tests a shop and customers in different languages. The customers name our contract as the facilitator.
async fn partial_amounts_are_settled(chain: ChainId, framework: Framework, clients: &[&str]) {
    let Some(chain) = full_chain_or_skip(chain).await else { return };
    let contract = upto_contract::deploy(&chain, &[0, 1]).await;
    let stage = Stage::on(chain, 2, "", &upto_contract::setting(&[&[0, 1]])).await;
    let (_status, supported) = stage.facilitator.get("/supported").await;
    let named = json!({ "facilitatorAddress": contract }).to_string();
    assert!(supported.to_string().contains(&named), "{supported}");
    let routes = routes(&stage);
    let mut market = Market::with_client(stage, framework, clients[0], routes).await;
    for client in clients {
        let case = format!("{client} at {framework:?}");
        assert_settles(&mut market, client, "/upto?used=4321", 4_321, &case).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_settles_what_customers_with_fetch_used() {
    for chain in [BASE, ROBINHOOD] {
        partial_amounts_are_settled(chain, Framework::FastApi, &[FETCH_V2]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_settles_what_customers_in_python_used() {
    for chain in [BASE, ROBINHOOD] {
        partial_amounts_are_settled(chain, Framework::Express, &[HTTPX_CLIENT, REQUESTS_CLIENT])
            .await;
    }
}

/// Our facilitator behind an outdated `/supported`, which names a stranger.
///
/// Shops read `/supported` only once, so their offers stay the same after the facilitator has changed its account.
#[derive(Debug)]
struct StaleKinds {
    url: String,
    server: JoinHandle<()>,
}

/// The state of the forwarder.
#[derive(Debug)]
struct ForwarderState {
    facilitator: String,
    our_account: String,
    client: reqwest::Client,
}

impl StaleKinds {
    async fn in_front_of(stage: &Stage) -> Self {
        let forwarding = ForwarderState {
            facilitator: stage.facilitator.url.clone(),
            our_account: json!(stage.home.signers[0]).to_string(),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
        };
        let router = Router::new().fallback(forward).with_state(Arc::new(forwarding));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        Self { url, server: tokio::spawn(serve) }
    }
}

impl Drop for StaleKinds {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn forward(
    State(to): State<Arc<ForwarderState>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];
    let asked = to.client.request(method, format!("{}{uri}", to.facilitator)).body(body);
    let answer = asked.header(JSON[0].0.clone(), JSON[0].1).send().await.expect("an answer");
    let status = StatusCode::from_u16(answer.status().as_u16()).expect("a status");
    let mut text = answer.text().await.expect("text");
    if uri.path() == "/supported" {
        assert!(text.contains(&to.our_account), "{text}");
        text = text.replace(&to.our_account, &json!(STRANGER).to_string());
    }
    (status, JSON, text).into_response()
}
