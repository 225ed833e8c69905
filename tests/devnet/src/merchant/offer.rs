//! The merchant's offer in either version of x402.

use serde_json::{Value, json};

use super::shop::{PricedResource, Shop};
use super::version::Version;

impl Shop {
    /// Returns the only way to pay for the resource at `path` (`PaymentRequirements`).
    pub(super) fn requirement(&self, path: &str, item: PricedResource) -> Value {
        let coin = &self.network.stablecoin;
        let mut offer = json!({
            "scheme": "exact",
            "network": item.version.name_of(self.network),
            "asset": coin.address.to_checksum(None),
            "payTo": self.pay_to.to_checksum(None),
            "maxTimeoutSeconds": self.max_timeout_s,
            "extra": { "name": coin.domain_name, "version": coin.domain_version },
        });
        let price = json!(item.price.to_string());
        match item.version {
            Version::V1 => {
                offer["maxAmountRequired"] = price;
                offer["resource"] = json!(self.resource(path));
                offer["description"] = json!(description(path));
                offer["mimeType"] = json!(CONTENT_TYPE);
            }
            Version::V2 => offer["amount"] = price,
        }
        offer
    }

    /// Returns the whole challenge (`PaymentRequired`).
    pub(super) fn challenge(&self, path: &str, item: PricedResource, error: &str) -> Value {
        let mut challenge = json!({
            "x402Version": item.version.number(),
            "error": error,
            "accepts": [self.requirement(path, item)],
        });
        match item.version {
            Version::V1 => {}
            Version::V2 => {
                let url = self.resource(path);
                challenge["resource"] = json!({ "url": url, "description": description(path), "mimeType": CONTENT_TYPE });
                challenge["extensions"] = json!({});
            }
        }
        challenge
    }

    fn resource(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

const CONTENT_TYPE: &str = "application/json";

fn description(path: &str) -> String {
    format!("The demo merchant's {path}")
}
