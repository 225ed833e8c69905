//! The schemes and networks that this facilitator supports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, MULTICALL3};
use bursar_x402::required::Version;
use bursar_x402::sponsoring;
use serde_json::{Map, Value, json};

use crate::api::responses::Body;
use crate::config::{Config, NetworkConfig};
use crate::exact::METHODS;
use crate::network::NetworkContext;
use crate::schemes::{SCHEMES, is_offered};

/// The networks that the responses of `/supported`, `/health` and `/contracts` describe.
#[derive(Debug)]
pub struct Catalogue {
    served: BTreeMap<ChainId, Arc<NetworkContext>>,
    health: Body,
    contracts: Body,
}

impl Catalogue {
    /// Describes the served networks.
    ///
    /// Reports the other networks of the settings as not configured.
    pub fn of(config: &Config, served: BTreeMap<ChainId, Arc<NetworkContext>>) -> Self {
        let health: Map<String, Value> = config
            .networks
            .values()
            .map(|network| {
                let configured = served.contains_key(&network.chain());
                (network.network.caip2(), json!({ "configured": configured }))
            })
            .collect();
        let mut contracts = Map::new();
        for network in served.values() {
            let used = &network.contracts;
            let addresses = json!({
                "prism": used.prism, "permit2": used.permit2,
                "exactPermit2Proxy": used.exact_permit2_proxy,
                "uptoPermit2Proxy": used.upto_permit2_proxy, "batchSettlement": used.escrow,
                "erc3009Collector": used.erc3009_collector,
                "permit2Collector": used.permit2_collector, "multicall3": MULTICALL3,
            });
            // Older clients look up a network by its CAIP-2 id or by its v1 name.
            contracts.insert(network.table_row().caip2(), addresses.clone());
            if let Some(name) = network.table_row().v1_names.first() {
                contracts.insert((*name).to_owned(), addresses);
            }
        }
        Self {
            served,
            health: json!({
                "status": "healthy", "version": env!("CARGO_PKG_VERSION"), "networks": health,
            }),
            contracts: Value::Object(contracts),
        }
    }

    /// The response of `/supported`, as official clients read it.
    pub(super) fn supported(&self) -> Body {
        let mut signers = self.signers();
        let all: BTreeSet<Address> =
            self.served.values().flat_map(|network| network.signers.iter().copied()).collect();
        signers.insert("eip155:*".to_owned(), json!(all));
        let mut capabilities: Map<String, Value> =
            METHODS.iter().map(|method| (method.id().text().to_owned(), json!(true))).collect();
        capabilities.insert("smartWallet".to_owned(), json!(true));
        json!({
            "kinds": self.kinds(), "extensions": self.extensions(), "signers": signers, "x402Version": 2,
            "schemes": self.schemes(), "capabilities": capabilities,
        })
    }

    /// The response of `/supported` in the short form, with exactly the members that the specification lists.
    pub(super) fn summary(&self) -> Body {
        json!({
            "x402Version": 2, "kinds": self.schemes(),
            "extensions": { "eip3009": true, "permit2": true, "smartWallet": true },
            "signers": self.signers(),
        })
    }

    /// Each offered scheme on each network, in each version.
    fn kinds(&self) -> Vec<Value> {
        let mut kinds = Vec::new();
        for network in self.served.values() {
            for scheme in SCHEMES.iter().filter(|scheme| is_offered(**scheme, network)) {
                for version in scheme.versions() {
                    let (number, name) = match version {
                        Version::V2 => (2, Some(network.table_row().caip2())),
                        Version::V1 => {
                            (1, network.table_row().v1_names.first().map(|name| (*name).to_owned()))
                        }
                    };
                    let Some(name) = name else { continue };
                    let mut kind = json!({
                        "x402Version": number, "scheme": scheme.name(), "network": name,
                    });
                    if let Some(extra) = scheme.extra(network) {
                        kind["extra"] = extra;
                    }
                    kinds.push(kind);
                }
            }
        }
        kinds
    }

    /// The schemes that are offered on at least one network.
    fn schemes(&self) -> Vec<&'static str> {
        let is_offered =
            |scheme: &&&_| self.served.values().any(|network| is_offered(**scheme, network));
        SCHEMES.iter().filter(is_offered).map(|scheme| scheme.name()).collect()
    }

    /// The extensions that are enabled on at least one network.
    fn extensions(&self) -> Vec<&'static str> {
        let is_on = |is_on: fn(&NetworkConfig) -> bool| {
            self.served.values().any(|network| is_on(&network.config))
        };
        let permit =
            is_on(|config| config.eip2612_gas_sponsoring).then_some(sponsoring::EIP2612_KEY);
        let approval = is_on(|config| config.erc20_approval_gas_sponsoring)
            .then_some(sponsoring::ERC20_APPROVAL_KEY);
        permit.into_iter().chain(approval).collect()
    }

    /// The active signers of each network.
    fn signers(&self) -> Map<String, Value> {
        let by_chain = self.served.iter();
        by_chain
            .map(|(chain, network)| (format!("eip155:{chain}"), json!(network.signers)))
            .collect()
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

    /// The contracts of payment channels, by network.
    pub(super) fn channel_contracts(&self) -> Body {
        let each = self.served.values().map(|network| {
            let used = &network.contracts;
            let addresses = json!({
                "batchSettlement": used.escrow, "erc3009Collector": used.erc3009_collector,
                "permit2Collector": used.permit2_collector, "permit2": used.permit2,
            });
            (network.table_row().caip2(), addresses)
        });
        Value::Object(each.collect())
    }
}
