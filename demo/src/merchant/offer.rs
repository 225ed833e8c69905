//! What the merchant asks for, as x402 version 2 writes it.

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::Shop;

impl Shop {
    /// The one way to pay for something of that price (`PaymentRequirements`).
    pub(super) fn requirement(&self, price: U256) -> Value {
        let coin = &self.network.stablecoin;
        json!({
            "scheme": "exact",
            "network": self.network.caip2(),
            "amount": price.to_string(),
            "asset": coin.address.to_checksum(None),
            "payTo": self.pay_to.to_checksum(None),
            "maxTimeoutSeconds": self.max_timeout_s,
            "extra": { "name": coin.domain_name, "version": coin.domain_version },
        })
    }

    /// The whole challenge (`PaymentRequired`).
    pub(super) fn challenge(&self, path: &str, price: U256, error: &str) -> Value {
        json!({
            "x402Version": 2,
            "error": error,
            "resource": {
                "url": format!("{}{path}", self.url),
                "description": format!("The demo merchant's {path}"),
                "mimeType": "application/json",
            },
            "accepts": [self.requirement(price)],
            "extensions": {},
        })
    }
}
