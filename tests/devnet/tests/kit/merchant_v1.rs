//! The merchant in version 1 of x402: the offer in the body, and different headers.

use crate::payer::{Payer, pack, unpack};
use alloy_primitives::{Address, U256};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_devnet::Devnet;
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Version};
use serde_json::{Value, json};

const SHOP: Address = Address::repeat_byte(0x66);
const PRICE: u64 = 10_000;

fn base() -> &'static Network {
    by_chain(ChainId(8453)).unwrap()
}

fn goods() -> MerchantConfig {
    let config = MerchantConfig::new(base().chain, SHOP);
    config.sell_in(Version::V1, "/old", PRICE.into()).sell("/new", PRICE.into())
}

struct Answer {
    status: u16,
    receipt: Option<Value>,
    /// The names of the x402 headers in the answer.
    headers: Vec<String>,
    body: Value,
}

async fn get(url: &str, payment: Option<(&str, &str)>) -> Answer {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.get(url);
    if let Some((name, value)) = payment {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    let names = answer.headers().keys().map(|name| name.as_str().to_owned());
    let headers = names.filter(|name| name.contains("payment")).collect();
    let receipt = answer.headers().get("X-PAYMENT-RESPONSE");
    let receipt = receipt.map(|header| unpack(header.to_str().unwrap()));
    let status = answer.status().as_u16();
    Answer { status, receipt, headers, body: answer.json().await.unwrap() }
}

#[tokio::test]
async fn version_1_asks_in_the_body_and_settles() {
    let Some(anvil) = chain_or_skip() else { return };
    let devnet = Devnet::start_at(&anvil, base().chain).await.unwrap();
    let merchant = Merchant::serve(goods().settle_on(devnet.clone())).await.unwrap();
    let url = format!("{}/old", merchant.url());
    let asked = get(&url, None).await;
    let coin = base().stablecoin.address.to_checksum(None);
    let offer = json!({
        "scheme": "exact", "network": "base", "maxAmountRequired": PRICE.to_string(),
        "resource": url, "description": "The demo merchant's /old", "mimeType": "application/json",
        "payTo": SHOP.to_checksum(None), "maxTimeoutSeconds": 60, "asset": coin,
        "extra": { "name": "USD Coin", "version": "2" },
    });
    let challenge = json!({ "x402Version": 1, "error": "Payment required", "accepts": [offer] });
    assert_eq!((asked.status, &asked.body), (402, &challenge));
    assert_eq!(asked.headers, [""; 0], "a client must not take it for version 2");

    let payer = Payer::new(0x21);
    devnet.mint(payer.address(), 1_000_000).await.unwrap();
    let header = payer.header_v1(base(), &json!("base"), &payer.terms(SHOP, PRICE, 1));
    // A payment in the header of the other version does not count.
    assert_eq!(get(&url, Some(("PAYMENT-SIGNATURE", &header))).await.body, challenge);

    let paid = get(&url, Some(("X-PAYMENT", &header))).await;
    assert_eq!((paid.status, &paid.body["settled"]), (200, &json!(true)), "{}", paid.body);
    assert_eq!(paid.headers, ["x-payment-response"]);
    let receipt = paid.receipt.unwrap();
    assert_eq!((&receipt["success"], &receipt["network"]), (&json!(true), &json!("base")));
    assert_eq!(receipt["transaction"], paid.body["transaction"]);
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(PRICE));

    let again = get(&url, Some(("X-PAYMENT", &header))).await;
    assert_refused(&again, "invalid_exact_evm_nonce_already_used");
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(PRICE));
}

#[tokio::test]
async fn every_defect_of_a_payment_is_named() {
    let merchant = Merchant::serve(goods()).await.unwrap();
    let url = format!("{}/old", merchant.url());
    let payer = Payer::new(0x22);
    let good = payer.terms(SHOP, PRICE, 1);
    let header = payer.header_v1(base(), &json!("base"), &good);
    let changed = |path: &str, value: Value| {
        let mut payment = unpack(&header);
        *payment.pointer_mut(path).unwrap() = value;
        pack(&payment)
    };
    let cases = [
        ("invalid_payload", "not base64!".to_owned()),
        ("invalid_payload", changed("/payload/authorization/validBefore", json!(1))),
        ("invalid_x402_version", changed("/x402Version", json!(2))),
        ("unsupported_scheme", changed("/scheme", json!("upto"))),
        ("invalid_network", changed("/network", json!("base-sepolia"))),
        ("invalid_network", changed("/network", json!("eip155:8453"))),
        (
            "invalid_exact_evm_payload_authorization_value",
            payer.header_v1(base(), &json!("base"), &payer.terms(SHOP, PRICE - 1, 1)),
        ),
        (
            "invalid_exact_evm_recipient_mismatch",
            changed("/payload/authorization/to", json!(Address::repeat_byte(1))),
        ),
        ("invalid_exact_evm_signature", changed("/payload/signature", json!("0x"))),
    ];
    for (code, header) in &cases {
        assert_refused(&get(&url, Some(("X-PAYMENT", header))).await, code);
    }
    assert_eq!(get(&url, Some(("X-PAYMENT", &header))).await.status, 200);
    // A payment of one version does not buy the same resource in the other.
    let new = format!("{}/new", merchant.url());
    let other = payer.header_v1(base(), &json!("base"), &payer.terms(SHOP, PRICE, 2));
    assert_eq!(get(&new, Some(("X-PAYMENT", &other))).await.status, 402);
    assert_eq!(get(&new, Some(("PAYMENT-SIGNATURE", &other))).await.status, 402);
}

/// Asserts the reason in the renewed offer and in the receipt.
fn assert_refused(answer: &Answer, code: &str) {
    assert_eq!(answer.status, 402, "{code}");
    assert_eq!(answer.body["accepts"].as_array().unwrap().len(), 1);
    let receipt = answer.receipt.as_ref().unwrap();
    assert_eq!((&receipt["success"], &receipt["network"]), (&json!(false), &json!("base")));
    for reason in [&answer.body["error"], &receipt["errorReason"]] {
        assert!(reason.as_str().unwrap().starts_with(code), "{reason} is not {code}");
    }
}
