//! `bursar-facilitator check`: whether what is configured is there and works, before anybody depends on it.

use std::sync::Arc;

use alloy_primitives::Address;
use alloy_sol_types::SolCall;
use bursar_chain::clock::SystemClock;
use bursar_chain::ports::{BlockTag, Chain, Clock};
use bursar_core::networks::MULTICALL3;
use bursar_serve::findings::{Findings, Mark};

use crate::config::{Config, NetworkConfig};
use crate::exact::erc20::IErc20;
use crate::exact::prism;
use crate::service::{StartFault, chain_of, load_keys};

/// Looks at everything that is configured.
///
/// # Errors
/// [`StartFault`]: it would not start.
pub async fn check(config: &Config) -> Result<Findings, StartFault> {
    let clock = SystemClock::new().map_err(|fault| StartFault::Clock(fault.to_string()))?;
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let mut check = Check::default();
    let keys = load_keys(config)?;
    if keys.is_empty() {
        return Err(StartFault::NoNetwork);
    }
    for network in config.networks.values() {
        let title = network.network.title;
        let Some(ring) = keys.get(&network.chain()) else {
            check.found.add(Mark::Good, title, "not configured: answered with unsupported_network");
            continue;
        };
        let signers: Vec<Address> = ring.addresses().collect();
        check.network(network, &clock, &signers).await?;
    }
    Ok(check.found)
}

#[derive(Default)]
struct Check {
    found: Findings,
}

impl Check {
    async fn network(
        &mut self,
        network: &NetworkConfig,
        clock: &Arc<dyn Clock>,
        signers: &[Address],
    ) -> Result<(), StartFault> {
        let title = network.network.title;
        // Each alone: one that works would hide one that does not.
        let mut alive = false;
        for endpoint in &network.rpc {
            let alone = NetworkConfig { rpc: vec![endpoint.clone()], ..network.clone() };
            let chain = chain_of(&alone, clock)?;
            match chain.chain_id().await {
                Ok(_ours) => {
                    alive = true;
                    self.found.add(Mark::Good, title, format!("{} answers", endpoint.label()));
                }
                Err(fault) => self.found.add(Mark::Bad, title, fault.to_string()),
            }
        }
        if !alive {
            return Ok(());
        }
        let chain = chain_of(network, clock)?;
        self.contracts(network, &chain).await;
        self.domain(network, &chain).await;
        for signer in signers {
            self.signer(network, &chain, *signer).await;
        }
        Ok(())
    }

    async fn contracts(&mut self, network: &NetworkConfig, chain: &dyn Chain) {
        let title = network.network.title;
        let wanted = [
            (
                network.network.stablecoin.address,
                "the dollar token",
                Mark::Bad,
                "no payment can be settled",
            ),
            (MULTICALL3, "Multicall3", Mark::Bad, "several payments cannot share a transaction"),
            (network.permit2, "Permit2", Mark::Mind, "permit2 payments are refused"),
            (
                network.exact_permit2_proxy,
                "the exact Permit2 proxy",
                Mark::Mind,
                "permit2 payments are refused",
            ),
            (network.prism, "Prism", Mark::Mind, "prism payments are refused"),
        ];
        for (address, name, mark, else_what) in wanted {
            match chain.code_at(address, BlockTag::Latest).await {
                Ok(code) if code.is_empty() => {
                    self.found.add(mark, title, format!("{name} is not at {address}: {else_what}"));
                }
                Ok(_code) => self.found.add(Mark::Good, title, format!("{name} is at {address}")),
                Err(fault) => self.found.add(Mark::Bad, title, fault.to_string()),
            }
        }
    }

    async fn domain(&mut self, network: &NetworkConfig, chain: &dyn Chain) {
        let (title, coin) = (network.network.title, &network.network.stablecoin);
        let data = IErc20::DOMAIN_SEPARATORCall {}.abi_encode();
        match chain.call(coin.address, data.into(), BlockTag::Latest).await {
            Ok(word) if word.as_ref() == coin.domain_separator.as_slice() => {
                self.found.add(
                    Mark::Good,
                    title,
                    format!(
                        "{} signs as {} {}",
                        coin.symbol, coin.domain_name, coin.domain_version
                    ),
                );
            }
            Ok(_other) => {
                let text = format!(
                    "{} has another EIP-712 domain than it should: signatures of its payers are refused",
                    coin.symbol
                );
                self.found.add(Mark::Bad, title, text);
            }
            Err(fault) => self.found.add(Mark::Bad, title, fault.to_string()),
        }
    }

    async fn signer(&mut self, network: &NetworkConfig, chain: &dyn Chain, signer: Address) {
        let title = network.network.title;
        let coin = network.network.native;
        match chain.balance(signer, BlockTag::Latest).await {
            Ok(wei) => {
                let enough = wei >= network.min_signer_balance;
                let mark = if enough { Mark::Good } else { Mark::Bad };
                let amount = alloy_primitives::utils::format_ether(wei);
                let less = if enough { "" } else { ", less than min_signer_balance: fund it" };
                self.found.add(mark, title, format!("{signer} has {amount} {coin}{less}"));
            }
            Err(fault) => self.found.add(Mark::Bad, title, fault.to_string()),
        }
        // Where there is no such contract, that was said already.
        let asked = prism::knows(network.prism, signer);
        if let Ok(answer) = chain.call(asked.to, asked.data, BlockTag::Latest).await
            && !answer.is_empty()
            && answer.iter().all(|byte| *byte == 0)
        {
            let text = format!(
                "Prism does not know {signer} as a facilitator: prism payments are refused"
            );
            self.found.add(Mark::Mind, title, text);
        }
    }
}
