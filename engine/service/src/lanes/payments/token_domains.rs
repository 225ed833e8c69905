//! Whether the tokens on the chain have the EIP-712 domains of our table. Asked only where an offer contradicts
//! the table, and remembered: else an agent could have a node called for each of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Bytes, keccak256};
use bursar_chain::ports::{BlockTag, Clock};
use bursar_core::networks::{ChainId, NETWORKS, Network};
use tokio::sync::Mutex;

use crate::ports::Chains;

/// How long the answer of a token holds.
const ANSWER_LASTS_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a token is not asked again after no node answered.
const FAILURE_LASTS_MS: u64 = 30_000;

/// The answers of the reference stablecoins, one a network.
#[derive(Debug)]
pub struct TokenDomains {
    chains: Chains,
    clock: Arc<dyn Clock>,
    /// The lock is held while the token is asked: simultaneous requests share one call.
    known: BTreeMap<ChainId, Mutex<Option<Known>>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    confirms: bool,
    until_ms: u64,
}

impl TokenDomains {
    pub fn new(chains: Chains, clock: Arc<dyn Clock>) -> Self {
        let known = NETWORKS.iter().map(|network| (network.chain, Mutex::default())).collect();
        Self { chains, clock, known }
    }

    /// Whether the token returns the domain separator of our table (`DOMAIN_SEPARATOR()`, EIP-2612). False
    /// where no node answers.
    pub async fn confirms(&self, network: &Network) -> bool {
        let Some(known) = self.known.get(&network.chain) else { return false };
        let mut known = known.lock().await;
        let now_ms = self.clock.mono_ms();
        if let Some(known) = known.filter(|known| now_ms < known.until_ms) {
            return known.confirms;
        }
        let answer = self.ask(network).await;
        let lasts_ms = if answer.is_some() { ANSWER_LASTS_MS } else { FAILURE_LASTS_MS };
        let confirms = answer.unwrap_or(false);
        *known = Some(Known { confirms, until_ms: now_ms.saturating_add(lasts_ms) });
        confirms
    }

    /// `None` where no node answers.
    async fn ask(&self, network: &Network) -> Option<bool> {
        let chain = self.chains.get(&network.chain)?;
        let hash = keccak256("DOMAIN_SEPARATOR()");
        let selector = Bytes::copy_from_slice(hash.0.first_chunk::<4>().map_or(&[], |four| four));
        let coin = &network.stablecoin;
        match chain.call(coin.address, selector, BlockTag::Latest).await {
            Ok(answer) => Some(answer.as_ref() == coin.domain_separator.as_slice()),
            Err(failure) => {
                tracing::warn!(network = %network.chain, %failure, "token domain not confirmed");
                None
            }
        }
    }
}
