//! What this facilitator supports. The responses are composed once, because only the status in `/health` changes
//! while the process runs.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, MULTICALL3};
use serde_json::{Map, Value, json};

use crate::api::responses::Body;
use crate::config::Config;
use crate::exact::SCHEME;
use crate::exact::registry::METHODS;

/// The responses of `/supported`, `/health` and `/contracts`.
#[derive(Debug)]
pub struct Catalogue {
    supported: Body,
    summary: Body,
    health: Body,
    contracts: Body,
}

impl Catalogue {
    /// Composes the responses from the settings and the signers of each configured network.
    pub fn of(config: &Config, signers: &BTreeMap<ChainId, Vec<Address>>) -> Self {
        let served: Vec<_> = config
            .networks
            .values()
            .filter(|network| signers.contains_key(&network.chain()))
            .collect();
        let kind = |version: u64, network: String| json!({ "x402Version": version, "scheme": SCHEME, "network": network });
        let mut kinds = Vec::new();
        for network in &served {
            kinds.push(kind(2, network.network.caip2()));
            let first = network.network.v1_names.first();
            kinds.extend(first.map(|name| kind(1, (*name).to_owned())));
        }
        let by_chain: Map<String, Value> = signers
            .iter()
            .map(|(chain, signers)| (format!("eip155:{chain}"), json!(signers)))
            .collect();
        let mut all_signers: Vec<&Address> = signers.values().flatten().collect();
        all_signers.sort();
        all_signers.dedup();
        let mut signers_of = by_chain.clone();
        signers_of.insert("eip155:*".to_owned(), json!(all_signers));
        let methods: Map<String, Value> =
            METHODS.iter().map(|method| (method.id().text().to_owned(), json!(true))).collect();
        let mut capabilities = methods.clone();
        capabilities.insert("smartWallet".to_owned(), json!(true));
        let health: Map<String, Value> = config
            .networks
            .values()
            .map(|network| {
                let configured = signers.contains_key(&network.chain());
                (network.network.caip2(), json!({ "configured": configured }))
            })
            .collect();
        let mut contracts = Map::new();
        for network in &served {
            let addresses = json!({
                "prism": network.prism, "permit2": network.permit2,
                "exactPermit2Proxy": network.exact_permit2_proxy, "multicall3": MULTICALL3,
            });
            // Older clients look up a network by its CAIP-2 id or by its v1 name.
            contracts.insert(network.network.caip2(), addresses.clone());
            if let Some(name) = network.network.v1_names.first() {
                contracts.insert((*name).to_owned(), addresses);
            }
        }
        Self {
            supported: json!({
                "kinds": kinds, "extensions": [], "signers": signers_of,
                "x402Version": 2, "schemes": [SCHEME], "capabilities": capabilities,
            }),
            // Exactly the table of the specification.
            summary: json!({
                "x402Version": 2, "kinds": [SCHEME],
                "extensions": { "eip3009": true, "permit2": true, "smartWallet": true },
                "signers": by_chain,
            }),
            health: json!({
                "status": "healthy", "version": env!("CARGO_PKG_VERSION"), "networks": health,
            }),
            contracts: Value::Object(contracts),
        }
    }

    pub(super) fn supported(&self) -> Body {
        self.supported.clone()
    }

    pub(super) fn summary(&self) -> Body {
        self.summary.clone()
    }

    pub(super) fn health(&self, degraded: bool) -> Body {
        let mut health = self.health.clone();
        if degraded {
            health["status"] = Body::from("degraded");
        }
        health
    }

    pub(super) fn contracts(&self) -> Body {
        self.contracts.clone()
    }
}
