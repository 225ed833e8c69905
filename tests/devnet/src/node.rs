//! A running local chain.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::networks::{self, ChainId, Network};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use crate::error::DevnetError;
use crate::install;
use crate::process::{Anvil, Origin};
use crate::rpc::Rpc;

/// A running local chain. Clones share it; the process ends with the last of them.
#[derive(Debug, Clone)]
pub struct Devnet {
    pub(crate) network: &'static Network,
    pub(crate) rpc: Rpc,
    /// Anvil's first account, which anvil signs for and which has native coin for gas.
    pub(crate) payer: Address,
    /// The lock is held while sending. Anvil reads the nonce and queues the transaction in two steps, so concurrent
    /// sends fail with "nonce too low". It is a tokio mutex, because it is held across an await.
    pub(crate) send_lock: Arc<Mutex<()>>,
    /// Whether the factory of smart wallets is deployed.
    pub(crate) factory: Arc<OnceCell<()>>,
    pub(crate) node: Option<Arc<Anvil>>,
}

impl Devnet {
    /// Starts the anvil that [`install::find_anvil`] finds and deploys the network's contracts.
    ///
    /// # Errors
    /// No anvil is installed, the chain is unknown, or starting it failed.
    pub async fn start(chain: ChainId) -> Result<Self, DevnetError> {
        Self::start_at(&install::find_anvil()?, chain).await
    }

    /// Starts the given anvil and deploys the network's contracts.
    ///
    /// # Errors
    /// The chain is unknown, or starting it failed.
    pub async fn start_at(anvil: &Path, chain: ChainId) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let devnet = Self::spawn(anvil, network, &Origin::Empty).await?;
        devnet.place_stablecoin().await?;
        devnet.place_tokens(None).await?;
        devnet.place_multicall().await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    /// Attaches to a local chain that another process started. The chain outlives this value.
    ///
    /// # Errors
    /// The chain is unknown, does not answer, or has another stablecoin.
    pub async fn attach(url: &str, chain: ChainId) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let devnet = Self::connect(url, network, None).await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    pub(crate) async fn spawn(
        anvil: &Path,
        network: &'static Network,
        origin: &Origin,
    ) -> Result<Self, DevnetError> {
        let (node, url) = Anvil::spawn(anvil, network.chain, origin).await?;
        Self::connect(&url, network, Some(Arc::new(node))).await
    }

    async fn connect(
        url: &str,
        network: &'static Network,
        node: Option<Arc<Anvil>>,
    ) -> Result<Self, DevnetError> {
        let rpc = Rpc::new(url)?;
        let accounts: Vec<Address> = rpc.call("eth_accounts", json!([])).await?;
        let payer = accounts.first().copied().ok_or_else(|| DevnetError::Rpc {
            method: "eth_accounts".to_owned(),
            detail: "the node signs for nobody: is it anvil?".to_owned(),
        })?;
        Ok(Self { network, rpc, payer, send_lock: Arc::default(), factory: Arc::default(), node })
    }

    /// Returns the URL of the chain's JSON-RPC.
    pub fn url(&self) -> &str {
        self.rpc.url()
    }

    /// Returns the network that this chain stands for.
    pub fn network(&self) -> &'static Network {
        self.network
    }

    /// Kills the chain at once, for tests of outages. Does nothing to a chain of another process.
    pub fn kill(&self) {
        if let Some(node) = &self.node {
            node.kill();
        }
    }

    /// Calls any JSON-RPC method, such as `anvil_setBalance` or `evm_increaseTime`.
    ///
    /// # Errors
    /// The chain does not answer, or answers with an error.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, DevnetError> {
        self.rpc.call(method, params).await
    }
}
