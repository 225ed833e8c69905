//! A buyer with a separate key that pays in the scheme `upto`, which the wallet does not support.
//!
//! It is made for the demonstration, where the shop is known, so it trusts the shop's offer.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, U256};
use alloy_sol_types::eip712_domain;
use anyhow::{Context, bail};
use bursar_core::networks::ChainId;
use bursar_devnet::full::Contracts;
use bursar_facilitator::keys::SigningKey;
use bursar_x402::header;
use bursar_x402::upto::{PermitWitnessTransferFrom, TokenPermissions, Witness};
use reqwest::Response;
use serde_json::{Value, json};

/// Buys the resource at the URL. Returns the text, the maximum that was authorized, and the receipt.
pub(crate) async fn buy(url: &str, key: &Path, chain: ChainId) -> anyhow::Result<Value> {
    let key = SigningKey::load(key, None)?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let challenge = read_header(&client.get(url).send().await?, "payment-required")?;
    let offer = &challenge["accepts"][0];
    let payload = authorize(offer, &key, chain)?;
    let payment = json!({ "x402Version": 2, "accepted": offer, "payload": payload });
    let payment = header::encode(&payment.to_string());
    let bought = client.get(url).header("payment-signature", payment).send().await?;
    if !bought.status().is_success() {
        bail!("the shop refused the payment: {}", bought.text().await?);
    }
    let receipt = read_header(&bought, "payment-response")?;
    let goods: Value = bought.json().await?;
    Ok(json!({ "text": goods["text"], "authorized": offer["amount"], "receipt": receipt }))
}

/// Signs a permit of the offered amount. Only the facilitator of the offer can settle it, and only to the payee.
fn authorize(offer: &Value, key: &SigningKey, chain: ChainId) -> anyhow::Result<Value> {
    let Contracts { permit2, upto_permit2_proxy: spender, .. } =
        Contracts::of(chain).context("the network is unknown")?;
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce)?;
    let seconds = offer["maxTimeoutSeconds"].as_u64().context("the offer has no timeout")?;
    let permit = PermitWitnessTransferFrom {
        permitted: TokenPermissions {
            token: address(&offer["asset"])?,
            amount: offer["amount"].as_str().context("the offer has no amount")?.parse()?,
        },
        spender,
        nonce: U256::from_be_bytes(nonce),
        deadline: U256::from(now_s().saturating_add(seconds)),
        witness: Witness {
            to: address(&offer["payTo"])?,
            facilitator: address(&offer["extra"]["facilitatorAddress"])?,
            validAfter: U256::ZERO,
        },
    };
    let domain = eip712_domain! {
        name: "Permit2", chain_id: chain.0, verifying_contract: permit2,
    };
    let signature = key.sign(permit.digest(domain.separator()))?;
    Ok(json!({
        "signature": signature.to_hex(),
        "permit2Authorization": {
            "from": key.address(),
            "permitted": {
                "token": permit.permitted.token, "amount": permit.permitted.amount.to_string(),
            },
            "spender": permit.spender, "nonce": permit.nonce.to_string(),
            "deadline": permit.deadline.to_string(),
            "witness": {
                "to": permit.witness.to, "facilitator": permit.witness.facilitator,
                "validAfter": permit.witness.validAfter.to_string(),
            },
        },
    }))
}

fn address(text: &Value) -> anyhow::Result<Address> {
    Ok(text.as_str().context("the offer lacks an address")?.parse()?)
}

fn read_header(response: &Response, name: &str) -> anyhow::Result<Value> {
    let value = response.headers().get(name).context("the shop sent no such header")?;
    Ok(serde_json::from_str(&header::decode(value.to_str()?)?.to_compact())?)
}

#[expect(clippy::disallowed_methods, reason = "the buyer stands for a stranger's machine")]
fn now_s() -> u64 {
    // With a clock before 1970 the time is zero, so the authorization has expired and the facilitator refuses it.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
