//! The facilitator as the authorizer of receivers: it signs claims and refunds only for the receivers of the
//! caller's API key. Without that check anyone could refund money that a receiver has not claimed yet, since the
//! config of a channel is public.

use alloy_primitives::{Address, U256};
use bursar_facilitator::service::load_keys;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::Payer;
use bursar_x402::channel::payload::ClaimRow;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::facilitator::channel::{Channel, DEPOSIT, PRICE, full_code, reason};
use crate::facilitator::stage::{BASE, ROBINHOOD, SHOP, Stage};

/// A facilitator with an authorizer, and the keys of two merchants.
struct Merchants {
    stage: Stage,
    shop: Address,
    second_shop: Address,
}

impl Merchants {
    async fn set_up() -> Option<Self> {
        let (shop, stall) = (Payer::random().address(), Payer::random().address());
        let key = |name: &str, receiver: Address| {
            let digest = hex::encode(Sha256::digest(format!("key of {name}")));
            format!("{{ name = \"{name}\", sha256 = \"{digest}\", receivers = [\"{receiver}\"] }}")
        };
        let general = format!("api_keys = [{}, {}]", key("shop", shop), key("stall", stall));
        let chain = bursar_devnet::full::full_chain_or_skip(BASE).await?;
        let stage = Stage::on(chain, 1, &general, "authorizer = \"authorizer.key\"").await;
        Some(Self { stage, shop, second_shop: stall })
    }

    /// Posts a body with the key of a merchant.
    async fn post(&self, name: &str, path: &str, body: &Value) -> Value {
        let request = self.stage.facilitator.request("POST", path).json(body);
        let request = request.header("x-api-key", format!("key of {name}"));
        let answer = request.send().await.expect("answered");
        assert!([200, 402].contains(&answer.status().as_u16()), "{answer:?}");
        answer.json().await.expect("JSON")
    }

    async fn settle(&self, name: &str, body: &Value) -> Value {
        self.post(name, "/settle", body).await
    }

    /// Opens a channel with a deposit, for this receiver and authorizer.
    async fn channel(&self, receiver: Address, authorizer: Address) -> Channel {
        let payer = self.stage.payer().await;
        let channel = Channel::with_config(self.stage.network(), payer, receiver, |config| {
            config.receiver_authorizer = authorizer;
        });
        let deposited = self.settle("shop", &channel.deposit(DEPOSIT, PRICE)).await;
        assert_eq!(deposited["success"], true, "{deposited}");
        channel
    }

    async fn own_channel(&self, receiver: Address) -> Channel {
        self.channel(receiver, self.stage.home.authorizer()).await
    }
}

/// Removes the signatures of the receiver's authorizer from a request.
fn without_authorizer_signatures(mut body: Value) -> Value {
    let payload = body["paymentPayload"]["payload"].as_object_mut().expect("a payload");
    payload.remove("claimAuthorizerSignature");
    payload.remove("refundAuthorizerSignature");
    body
}

/// Builds a claim of the price from each of these channels, without the authorizer's signature.
fn claim_body(channels: &[&Channel]) -> Value {
    let rows: Vec<(ClaimRow, Value)> =
        channels.iter().map(|channel| channel.row(PRICE, PRICE)).collect();
    let rows: Vec<Value> = rows.into_iter().map(|(_row, json)| json).collect();
    channels[0].body(json!({ "type": "claim", "claims": rows }))
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_refunds_are_signed_for_the_callers_own_receivers() {
    let Some(merchants) = Merchants::set_up().await else { return };
    let stage = &merchants.stage;
    // `/supported` names the authorizer in the kinds of the scheme, but not among the signers.
    let (_status, supported) = stage.facilitator.get("/supported").await;
    let kinds = supported["kinds"].as_array().expect("kinds");
    let kind = kinds.iter().find(|kind| kind["scheme"] == "batch-settlement").expect("listed");
    let authorizer = stage.home.authorizer();
    assert_eq!(kind["extra"], json!({ "receiverAuthorizer": authorizer }));
    let signers = supported["signers"]["eip155:*"].to_string().to_lowercase();
    assert!(!signers.contains(&authorizer.to_string().to_lowercase()), "{signers}");

    let own = merchants.own_channel(merchants.shop).await;
    let others = merchants.own_channel(merchants.second_shop).await;
    let foreign = merchants.channel(merchants.shop, Payer::random().address()).await;
    let refused = full_code("authorizer_not_configured");

    // The facilitator refuses refunds of another receiver's channels in every form, and requests
    // that name another authorizer.
    let refund = |channel: &Channel, claimed: u128| {
        without_authorizer_signatures(channel.refund(PRICE, 0, claimed))
    };
    for (body, code) in [
        (refund(&others, 0), &refused),
        (refund(&others, PRICE), &refused),
        (claim_body(&[&foreign]), &full_code("authorizer_address_mismatch")),
        (refund(&foreign, 0), &full_code("authorizer_address_mismatch")),
    ] {
        let answer = merchants.settle("shop", &body).await;
        assert_eq!(reason(&answer), code, "{answer}");
        let mut bare = body["paymentPayload"]["payload"].clone();
        bare["network"] = json!(stage.network().caip2());
        let path = format!("/batch/{}", bare["type"].as_str().expect("a type"));
        let answer = merchants.post("shop", &path, &bare).await;
        assert_eq!(reason(&answer), code, "{answer}");
    }
    // If a refund of the caller's own channel contains claims of another receiver's, neither is signed.
    let mut mixed = refund(&own, PRICE);
    mixed["paymentPayload"]["payload"]["claims"] = json!([others.row(PRICE, PRICE).1]);
    assert_eq!(reason(&merchants.settle("shop", &mixed).await), refused);

    // The facilitator signs the merchant's own claim, and its own refund with claims.
    let claimed = merchants.settle("shop", &claim_body(&[&own])).await;
    assert_eq!(claimed["success"], true, "{claimed}");
    let claimed = merchants.settle("stall", &claim_body(&[&others])).await;
    assert_eq!(claimed["success"], true, "{claimed}");
    let repeated = merchants.settle("stall", &claim_body(&[&others])).await;
    assert_eq!(reason(&repeated), "duplicate_settlement", "{repeated}");
    let before = stage.balance(own.payer.address()).await;
    let refunded = merchants
        .settle("shop", &without_authorizer_signatures(own.refund(DEPOSIT, 0, 2 * PRICE)))
        .await;
    assert_eq!(refunded["success"], true, "{refunded}");
    assert_eq!(refunded["amount"], (DEPOSIT - 2 * PRICE).to_string());
    let paid_back = stage.balance(own.payer.address()).await - before;
    assert_eq!(paid_back, U256::from(DEPOSIT - 2 * PRICE));
    let repeated = merchants
        .settle("shop", &without_authorizer_signatures(own.refund(DEPOSIT, 0, 2 * PRICE)))
        .await;
    assert_eq!(reason(&repeated), "duplicate_settlement", "{repeated}");

    // Requests that their own authorizer has signed are executed for any caller.
    let payer = stage.payer().await;
    let signed = Channel::new(stage.network(), payer, merchants.second_shop);
    let deposited = merchants.settle("shop", &signed.deposit(DEPOSIT, PRICE)).await;
    assert_eq!(deposited["success"], true, "{deposited}");
    let refunded = merchants.settle("shop", &signed.refund(PRICE, 0, 0)).await;
    assert_eq!(refunded["success"], true, "{refunded}");
}

/// Without API keys it signs claims of any caller, if each row adds something; it signs no refunds.
#[tokio::test(flavor = "multi_thread")]
async fn without_api_keys_claims_are_signed_for_any_caller_and_refunds_for_none() {
    let Some(stage) = Stage::with_authorizer(BASE).await else { return };
    let (_status, supported) = stage.facilitator.get("/supported").await;
    let kinds = supported["kinds"].as_array().expect("kinds");
    let kind = kinds.iter().find(|kind| kind["scheme"] == "batch-settlement").expect("listed");
    let authorizer = stage.home.authorizer();
    assert_eq!(kind["extra"], json!({ "receiverAuthorizer": authorizer }));
    let is_v1 = |kind: &&Value| kind["x402Version"] == 1 && kind["scheme"] == "exact";
    assert!(kinds.iter().any(|kind| is_v1(&kind)), "version 1 is served next to it");
    let mut channels = Vec::new();
    for _channel in 0..2 {
        let payer = stage.payer().await;
        let channel = Channel::with_config(stage.network(), payer, SHOP, |config| {
            config.receiver_authorizer = authorizer;
        });
        let deposited = stage.settle(&channel.deposit(DEPOSIT, 3 * PRICE)).await;
        assert_eq!(deposited["success"], true, "{deposited}");
        channels.push(channel);
    }
    let [one, other] = &channels[..] else { panic!("two channels") };
    let rows = |rows: &[(&Channel, u128, u128)]| {
        let rows: Vec<Value> =
            rows.iter().map(|(channel, ceiling, total)| channel.row(*ceiling, *total).1).collect();
        one.body(json!({ "type": "claim", "claims": rows }))
    };
    let claimed = stage.settle_without_key(&rows(&[(one, PRICE, PRICE)])).await;
    assert_eq!(claimed["success"], true, "{claimed}");
    let nothing = full_code("cumulative_below_claimed");
    let mut forged = rows(&[(one, 2 * PRICE, 2 * PRICE)]);
    forged["paymentPayload"]["payload"]["claims"][0]["signature"] =
        other.row(1, 1).1["signature"].clone();
    for (body, code) in [
        (rows(&[(one, PRICE, PRICE)]), "duplicate_settlement"),
        (rows(&[(one, 2 * PRICE, PRICE)]), &*nothing),
        (rows(&[(other, PRICE, PRICE), (one, 2 * PRICE, PRICE)]), &*nothing),
        (forged, &*full_code("voucher_signature")),
        (
            without_authorizer_signatures(one.refund(PRICE, 0, 0)),
            &*full_code("authorizer_not_configured"),
        ),
        (
            without_authorizer_signatures(one.refund(PRICE, 0, 2 * PRICE)),
            &*full_code("authorizer_not_configured"),
        ),
    ] {
        let answer = stage.settle_without_key(&body).await;
        assert_eq!(reason(&answer), code, "{answer}");
    }
    // A caller other than the merchant can claim too: a voucher pays what its payer signed.
    let both = rows(&[(one, 3 * PRICE, 3 * PRICE), (other, PRICE, PRICE)]);
    let claimed = stage.settle_without_key(&both).await;
    assert_eq!(claimed["success"], true, "{claimed}");
    stage.facilitator.stop().await;
}

/// The authorizer's key is not among the keys that pay gas, on any network.
#[tokio::test]
async fn an_authorizer_pays_gas_on_no_network() {
    let network = bursar_core::networks::by_chain(BASE).expect("a row");
    let digest = "11".repeat(32);
    let keys = format!(
        "api_keys = [{{ name = \"shop\", sha256 = \"{digest}\", receivers = [\"{SHOP}\"] }}]"
    );
    let more = "authorizer = \"authorizer.key\"";
    let home = FacilitatorHome::new(network, "http://127.0.0.1:1", 1, &keys, more);
    let mut config = home.config();
    assert!(load_keys(&config).is_ok());
    let rpc = config.networks[&BASE].rpc.clone();
    let other = config.networks.get_mut(&ROBINHOOD).expect("a row");
    (other.rpc, other.signers) = (rpc, vec![home.folder().join("authorizer.key")]);
    let refused = load_keys(&config).expect_err("one key for both").to_string();
    assert!(refused.contains("also pays gas"), "{refused}");
}
