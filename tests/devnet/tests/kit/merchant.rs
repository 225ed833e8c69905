//! The local chain, and a merchant that is paid on it.

use crate::payer::{Payer, now_s, pack, payload, unpack};
use alloy_primitives::{Address, U256, address};
use bursar_core::networks::{ChainId, NETWORKS, Network, by_chain};
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::merchant::{Merchant, MerchantConfig, MerchantError, Outcome};
use bursar_devnet::{Devnet, DevnetError};
use serde_json::{Value, json};

const SHOP: Address = address!("0x00000000000000000000000000000000005409e0");
const SMALL_PRICE: u64 = 10_000;

fn robinhood() -> &'static Network {
    by_chain(ChainId(4663)).unwrap()
}

/// A merchant on the first chain with two goods.
fn goods() -> MerchantConfig {
    let config = MerchantConfig::new(robinhood().chain, SHOP);
    config.sell("/small", SMALL_PRICE.into()).sell("/large", 2_000_000)
}

struct Answer {
    status: u16,
    offer: Option<Value>,
    receipt: Option<Value>,
    body: Value,
}

async fn get(url: &str, payment: Option<&str>) -> Answer {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.get(url);
    if let Some(header) = payment {
        request = request.header("PAYMENT-SIGNATURE", header);
    }
    let answer = request.send().await.unwrap();
    let header = |name: &str| Some(unpack(answer.headers().get(name)?.to_str().unwrap()));
    let (offer, receipt) = (header("PAYMENT-REQUIRED"), header("PAYMENT-RESPONSE"));
    Answer { status: answer.status().as_u16(), offer, receipt, body: answer.json().await.unwrap() }
}

async fn offer_of(url: &str) -> Value {
    get(url, None).await.offer.unwrap()["accepts"][0].clone()
}

#[tokio::test]
async fn every_network_gets_its_coin_at_its_own_address() {
    let Some(anvil) = chain_or_skip() else { return };
    for network in NETWORKS {
        let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
        let owner = Address::repeat_byte(7);
        assert_eq!(devnet.balance_of(owner).await.unwrap(), U256::ZERO);
        devnet.mint(owner, 5).await.unwrap();
        assert_eq!(devnet.balance_of(owner).await.unwrap(), U256::from(5));
        let chain = devnet.request("eth_chainId", json!([])).await.unwrap();
        assert_eq!(chain, format!("{:#x}", network.chain.0));
    }
}

#[tokio::test]
async fn a_signed_payment_moves_money_once() {
    let Some(anvil) = chain_or_skip() else { return };
    let devnet = Devnet::start_at(&anvil, robinhood().chain).await.unwrap();
    let merchant = Merchant::serve(goods().settle_on(devnet.clone())).await.unwrap();
    let payer = Payer::new(0x11);
    devnet.mint(payer.address(), 1_000_000).await.unwrap();

    let url = format!("{}/small", merchant.url());
    let terms = payer.terms(SHOP, SMALL_PRICE, 1);
    let header = payer.header(robinhood(), &offer_of(&url).await, &terms);
    assert!(!devnet.is_authorization_used(terms.from, terms.nonce).await.unwrap());
    let paid = get(&url, Some(&header)).await;

    assert_eq!(paid.status, 200, "{}", paid.body);
    assert_eq!(paid.body["settled"], true);
    let receipt = paid.receipt.unwrap();
    assert_eq!((&receipt["success"], &receipt["network"]), (&json!(true), &json!("eip155:4663")));
    assert_eq!(receipt["transaction"].as_str().unwrap().len(), 66);
    assert!(devnet.is_authorization_used(terms.from, terms.nonce).await.unwrap());
    assert_eq!(devnet.balance_of(terms.from).await.unwrap(), U256::from(1_000_000 - SMALL_PRICE));
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(SMALL_PRICE));

    // The same payment is refused again: by this merchant's record, and by the coin at a merchant without that record.
    let again = get(&url, Some(&header)).await;
    assert_eq!(again.status, 402);
    assert_reason(&again, "invalid_exact_evm_nonce_already_used");
    let other = Merchant::serve(goods().settle_on(devnet.clone())).await.unwrap();
    let there = get(&format!("{}/small", other.url()), Some(&header)).await;
    assert_eq!(there.status, 402);
    assert_reason(&there, "settlement failed");
    assert!(there.body["error"].as_str().unwrap().contains("authorization is used or canceled"));
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(SMALL_PRICE));

    let seen = merchant.payments();
    assert_eq!(seen.len(), 2);
    let Outcome::Settled { terms: booked, transaction } = &seen[0].outcome else { panic!() };
    assert_eq!((booked, transaction.to_string()), (&terms, text(&receipt["transaction"])));
    assert!(!seen[1].outcome.is_paid() && seen[1].path == "/small");
    merchant.stop().await;
}

#[tokio::test]
async fn a_payment_without_cover_can_be_tried_again() {
    let Some(anvil) = chain_or_skip() else { return };
    let devnet = Devnet::start_at(&anvil, robinhood().chain).await.unwrap();
    let merchant = Merchant::serve(goods().settle_on(devnet.clone())).await.unwrap();
    let payer = Payer::new(0x12);
    let url = format!("{}/small", merchant.url());
    let header =
        payer.header(robinhood(), &offer_of(&url).await, &payer.terms(SHOP, SMALL_PRICE, 1));

    let poor = get(&url, Some(&header)).await;
    assert!(text(&poor.body["error"]).contains("transfer amount exceeds balance"));
    assert_eq!(poor.receipt.unwrap()["success"], false);
    devnet.mint(payer.address(), SMALL_PRICE.into()).await.unwrap();
    assert_eq!(get(&url, Some(&header)).await.status, 200);
}

#[tokio::test]
async fn twenty_payers_at_once_are_all_served() {
    let Some(anvil) = chain_or_skip() else { return };
    let devnet = Devnet::start_at(&anvil, robinhood().chain).await.unwrap();
    let merchant = Merchant::serve(goods().settle_on(devnet.clone())).await.unwrap();
    let url = format!("{}/small", merchant.url());
    let offer = offer_of(&url).await;
    let mut sales = tokio::task::JoinSet::new();
    for seed in 1..=20 {
        let (devnet, url, offer) = (devnet.clone(), url.clone(), offer.clone());
        sales.spawn(async move {
            let payer = Payer::new(seed);
            devnet.mint(payer.address(), SMALL_PRICE.into()).await.unwrap();
            let header = payer.header(robinhood(), &offer, &payer.terms(SHOP, SMALL_PRICE, seed));
            get(&url, Some(&header)).await.status
        });
    }
    assert_eq!(sales.join_all().await, [200; 20]);
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(20 * SMALL_PRICE));
}

#[tokio::test]
async fn without_a_chain_the_merchant_verifies_and_reports_only_the_signature() {
    let merchant = Merchant::serve(goods()).await.unwrap();
    let payer = Payer::new(0x13);
    let url = format!("{}/small", merchant.url());

    let asked = get(&url, None).await;
    assert_eq!((asked.status, &asked.body), (402, &json!({})));
    let challenge = asked.offer.unwrap();
    assert_eq!(challenge["x402Version"], 2);
    assert_eq!(challenge["resource"]["url"], url);
    let coin = &robinhood().stablecoin;
    assert_eq!(
        challenge["accepts"],
        json!([{
            "scheme": "exact", "network": "eip155:4663", "amount": SMALL_PRICE.to_string(),
            "asset": coin.address.to_checksum(None), "payTo": SHOP.to_checksum(None),
            "maxTimeoutSeconds": 60, "extra": { "name": "Global Dollar", "version": "1" },
        }])
    );

    let terms = payer.terms(SHOP, SMALL_PRICE, 1);
    let header = payer.header(robinhood(), &challenge["accepts"][0], &terms);
    let paid = get(&url, Some(&header)).await;
    assert_eq!((paid.status, &paid.body["settled"]), (200, &json!(false)));
    assert!(text(&paid.body["note"]).contains("no money moved"));
    let receipt = paid.receipt.unwrap();
    assert_eq!(
        (&receipt["transaction"], &receipt["extra"]["settled"]),
        (&json!(""), &json!(false))
    );
    assert_eq!(merchant.payments()[0].outcome, Outcome::VerifiedOnly { terms });
    assert_eq!(get(&url, Some(&header)).await.status, 402, "a replay");
    assert_eq!(get(merchant.url(), None).await.status, 404);
}

#[tokio::test]
async fn every_defect_of_a_payment_is_named() {
    let merchant = Merchant::serve(goods()).await.unwrap();
    let url = format!("{}/small", merchant.url());
    let offer = offer_of(&url).await;
    let dear = offer_of(&format!("{}/large", merchant.url())).await;
    let payer = Payer::new(0x14);
    let good = payer.terms(SHOP, SMALL_PRICE, 1);
    let signed = |terms: &_| payer.header(robinhood(), &offer, terms);
    let changed = |path: &str, value: Value| {
        let mut payload = payload(&offer, &good, &payer.sign(robinhood(), &good));
        *payload.pointer_mut(path).unwrap() = value;
        pack(&payload)
    };
    let base = by_chain(ChainId(8453)).unwrap();
    let cases = [
        ("invalid_payload", "not base64!".to_owned()),
        ("invalid_payload", pack(&json!([1]))),
        ("invalid_payload", changed("/payload/authorization/value", json!(SMALL_PRICE))),
        ("invalid_payload", changed("/payload/authorization/value", json!("0x2710"))),
        ("invalid_x402_version", changed("/x402Version", json!(1))),
        ("unsupported_scheme", changed("/accepted/scheme", json!("upto"))),
        ("invalid_network", changed("/accepted/network", json!("eip155:8453"))),
        ("invalid_payment_requirements", changed("/accepted/extra/version", json!("2"))),
        ("invalid_payment_requirements", payer.header(robinhood(), &dear, &good)),
        (
            "invalid_exact_evm_recipient_mismatch",
            signed(&payer.terms(Address::repeat_byte(9), SMALL_PRICE, 1)),
        ),
        (
            "invalid_exact_evm_payload_authorization_value",
            signed(&payer.terms(SHOP, SMALL_PRICE - 1, 1)),
        ),
        (
            "invalid_exact_evm_payload_authorization_value",
            signed(&payer.terms(SHOP, SMALL_PRICE + 1, 1)),
        ),
        (
            "invalid_exact_evm_payload_authorization_valid_before",
            signed(&bursar_devnet::Authorization {
                valid_before: U256::from(now_s() + 3),
                ..good.clone()
            }),
        ),
        (
            "invalid_exact_evm_payload_authorization_valid_after",
            signed(&bursar_devnet::Authorization {
                valid_after: U256::from(now_s() + 30),
                ..good.clone()
            }),
        ),
        ("invalid_exact_evm_signature", Payer::new(0x15).header(robinhood(), &offer, &good)),
        ("invalid_exact_evm_signature", payer.header(base, &offer, &good)),
        ("invalid_exact_evm_signature", changed("/payload/signature", json!("0x"))),
    ];
    for (code, header) in &cases {
        let answer = get(&url, Some(header)).await;
        assert_eq!(answer.status, 402, "{code}");
        assert_reason(&answer, code);
    }
    assert_eq!(merchant.payments().len(), cases.len());
    // None of the refused payments used up the authorization.
    assert_eq!(get(&url, Some(&signed(&good))).await.status, 200);
}

#[tokio::test]
async fn an_attached_chain_outlives_its_handle() {
    let Some(anvil) = chain_or_skip() else { return };
    let devnet = Devnet::start_at(&anvil, ChainId(8453)).await.unwrap();
    let guest = Devnet::attach(devnet.url(), ChainId(8453)).await.unwrap();
    guest.mint(SHOP, 3).await.unwrap();
    guest.kill();
    drop(guest);
    assert_eq!(devnet.balance_of(SHOP).await.unwrap(), U256::from(3));
    let wrong = Devnet::attach(devnet.url(), ChainId(4663)).await;
    assert!(wrong.is_err(), "that chain has no Global Dollar");
    let mixed = Merchant::serve(goods().settle_on(devnet.clone())).await;
    assert!(matches!(mixed, Err(MerchantError::OtherChain { .. })));
    devnet.kill();
    assert!(matches!(devnet.balance_of(SHOP).await, Err(DevnetError::Rpc { .. })));
}

#[tokio::test]
async fn a_binary_that_is_not_anvil_fails_with_its_output() {
    let error = Devnet::start_at("/bin/false".as_ref(), ChainId(8453)).await.unwrap_err();
    assert!(error.to_string().starts_with("anvil did not start"), "{error}");
    let error = Devnet::start_at("/bin/ls".as_ref(), ChainId(8453)).await.unwrap_err();
    assert!(error.to_string().contains("--host"), "{error}");
    let unknown = Devnet::start_at("/bin/ls".as_ref(), ChainId(5)).await;
    assert!(matches!(unknown, Err(DevnetError::UnknownChain(ChainId(5)))));
}

/// Asserts the reason in the body, in the renewed offer and in the receipt.
fn assert_reason(answer: &Answer, code: &str) {
    let offer = answer.offer.as_ref().unwrap();
    let receipt = answer.receipt.as_ref().unwrap();
    for reason in [&answer.body["error"], &offer["error"], &receipt["errorReason"]] {
        assert!(text(reason).starts_with(code), "{reason} is not {code}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
