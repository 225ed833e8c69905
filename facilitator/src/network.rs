//! One network that is served: its nodes, its contracts, and what is known of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, Clock};
use bursar_chain::simulate::Simulator;
use bursar_core::networks::{MULTICALL3, Network};

use crate::config::NetworkConfig;
use crate::exact::{self, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::payment::MethodId;

/// How long it is believed that there is code at a payer, or none. Whoever gets code meanwhile is seen by the
/// simulation, which runs each time.
const CODE_TTL_MS: u64 = 60_000;

/// How long a token's domain is believed.
const DOMAIN_TTL_MS: u64 = 15 * 60_000;

/// What serving a network takes.
#[derive(Debug)]
pub struct Served {
    pub config: NetworkConfig,
    pub place: Place,
    pub chain: Arc<dyn Chain>,
    pub node: Node,
    pub clock: Arc<dyn Clock>,
    /// Accounts that pay gas; the first is the one that simulations speak for.
    pub signers: Vec<Address>,
    /// Whether there is code at an account.
    pub codes: Memory<Address, bool>,
    /// EIP-712 domains of tokens, by their own word.
    pub domains: Memory<Address, B256>,
    /// For what only a signer of ours may do.
    pub simulator: Simulator,
    multicall: AtomicBool,
}

impl Served {
    /// Begins to serve; asks nobody yet.
    pub fn new(
        config: NetworkConfig,
        chain: Arc<dyn Chain>,
        clock: Arc<dyn Clock>,
        signers: Vec<Address>,
    ) -> Self {
        let place = Place {
            chain: config.chain(),
            multicall3: MULTICALL3,
            permit2: config.permit2,
            exact_permit2_proxy: config.exact_permit2_proxy,
            prism: config.prism,
        };
        Self {
            place,
            node: Node::new(Arc::clone(&chain), Arc::clone(&clock)),
            chain,
            clock,
            signers,
            codes: Memory::new(CODE_TTL_MS),
            domains: Memory::new(DOMAIN_TTL_MS),
            simulator: Simulator::default(),
            multicall: AtomicBool::new(false),
            config,
        }
    }

    /// The only signer that may send payments of a method: the first, for which they are simulated. `None`: every
    /// signer may.
    pub fn only_sender(&self, method: MethodId) -> Option<Address> {
        if exact::method(method).takes_any_caller() { None } else { self.signers.first().copied() }
    }

    pub fn row(&self) -> &'static Network {
        self.config.network
    }

    /// Whether the network has Multicall3. That it has is remembered, for it does not go.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn has_multicall(&self) -> Result<bool, ChainFault> {
        if self.multicall.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let code = self.chain.code_at(self.place.multicall3, BlockTag::Latest).await?;
        self.multicall.store(!code.is_empty(), Ordering::Relaxed);
        Ok(!code.is_empty())
    }

    /// Whether it is known that it has.
    pub fn is_multicall_known(&self) -> bool {
        self.multicall.load(Ordering::Relaxed)
    }

    /// Whether a token is known to run no code but its own: the network's, and those of the settings.
    pub fn knows_token(&self, token: Address) -> bool {
        token == self.row().stablecoin.address || self.config.tokens.contains(&token)
    }

    /// Unix seconds, now.
    pub fn now_seconds(&self) -> u64 {
        u64::try_from(self.clock.utc().seconds()).unwrap_or(0)
    }
}
