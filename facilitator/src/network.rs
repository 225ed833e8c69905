//! One served network: its nodes, its contracts and what is cached about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, Clock};
use bursar_chain::simulate::Simulator;
use bursar_core::networks::{MULTICALL3, Network};

use crate::config::NetworkConfig;
use crate::exact::contracts::Contracts;
use crate::exact::registry;
use crate::node::NodeBatcher;
use crate::payment::MethodId;
use crate::ttl_map::TtlMap;

/// How long the lookup of a payer's code is cached. Settling a payment that the payer's key signed reads the code
/// again, and notices code that the account got meanwhile.
const CODE_TTL_MS: u64 = 60_000;

/// How long a token's domain is cached.
const DOMAIN_TTL_MS: u64 = 15 * 60_000;

/// Everything that serving a network needs.
#[derive(Debug)]
pub struct NetworkContext {
    pub config: NetworkConfig,
    pub contracts: Contracts,
    pub chain: Arc<dyn Chain>,
    pub node: NodeBatcher,
    pub clock: Arc<dyn Clock>,
    /// Accounts that pay gas. The first is the sender of simulations, except of those batched through Multicall3.
    pub signers: Vec<Address>,
    /// Whether an account has code.
    pub codes: TtlMap<Address, bool>,
    /// EIP-712 domain separators that tokens returned.
    pub domains: TtlMap<Address, B256>,
    /// Simulates transfers that cannot be batched: only our signers may make them, or Multicall3 is missing.
    pub simulator: Simulator,
    multicall: AtomicBool,
}

impl NetworkContext {
    /// Creates the network without asking any node.
    pub fn new(
        config: NetworkConfig,
        chain: Arc<dyn Chain>,
        clock: Arc<dyn Clock>,
        signers: Vec<Address>,
    ) -> Self {
        let contracts = Contracts {
            chain: config.chain(),
            multicall3: MULTICALL3,
            permit2: config.permit2,
            exact_permit2_proxy: config.exact_permit2_proxy,
            prism: config.prism,
        };
        Self {
            contracts,
            node: NodeBatcher::new(Arc::clone(&chain), Arc::clone(&clock)),
            chain,
            clock,
            signers,
            codes: TtlMap::new(CODE_TTL_MS),
            domains: TtlMap::new(DOMAIN_TTL_MS),
            simulator: Simulator::default(),
            multicall: AtomicBool::new(false),
            config,
        }
    }

    /// The only signer that may send payments of a method; `None` if every signer may. It is the first signer, which
    /// simulations use as their sender.
    pub fn only_sender(&self, method: MethodId) -> Option<Address> {
        if registry::method(method).allows_any_sender() {
            None
        } else {
            self.signers.first().copied()
        }
    }

    /// The network's row in the table of networks.
    pub fn spec(&self) -> &'static Network {
        self.config.network
    }

    /// Whether the network has Multicall3. A positive answer is cached, because the contract cannot disappear.
    ///
    /// # Errors
    /// No node answers.
    pub async fn has_multicall(&self) -> Result<bool, ChainFault> {
        if self.multicall.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let code = self.chain.code_at(self.contracts.multicall3, BlockTag::Latest).await?;
        self.multicall.store(!code.is_empty(), Ordering::Relaxed);
        Ok(!code.is_empty())
    }

    /// Whether an earlier lookup found Multicall3. Asks no node.
    pub fn is_multicall_known(&self) -> bool {
        self.multicall.load(Ordering::Relaxed)
    }

    /// Whether a token is trusted to run no code but its own: the network's dollar token, and the tokens of the
    /// settings.
    pub fn trusts_token(&self, token: Address) -> bool {
        token == self.spec().stablecoin.address || self.config.tokens.contains(&token)
    }

    /// The current time in Unix seconds.
    pub fn now_seconds(&self) -> u64 {
        u64::try_from(self.clock.utc().seconds()).unwrap_or(0)
    }
}
