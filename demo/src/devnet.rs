//! A local chain for tests and for the demonstration: anvil with a stablecoin and Multicall3 at the
//! addresses that they have on the real network, so that the product's tables are used unchanged. Needs no
//! other network.

mod blocks;
mod deploy;
mod hostile;
mod kit;
mod missing;
mod multicall;
mod own;
mod prism;
mod process;
mod rpc;
mod stable;
mod surroundings;
mod tokens;
mod wallets;
mod wheels;

pub mod compile;
pub mod full;
pub mod install;

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::{self, ChainId, Network};
use serde_json::{Value, json};
use tokio::sync::Mutex;

pub use deploy::{Call, Receipt};
pub use hostile::WalletMode;
use process::{Anvil, Origin};
use rpc::Rpc;
pub use stable::Authorization;
use stable::IStable;
pub use tokens::TokenMode;
pub use wallets::Counterfactual;
use wallets::FactoryOnce;

/// What can go wrong with a local chain.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    #[error(transparent)]
    Missing(#[from] install::MissingChain),
    #[error("chain {0} is not in the table of networks")]
    UnknownChain(ChainId),
    #[error("anvil did not start: {0}")]
    Start(String),
    #[error("{method} failed: {detail}")]
    Rpc { method: String, detail: String },
    /// The contract refused; the text ends in its reason.
    #[error("{message}")]
    Reverted { message: String, data: Bytes },
    #[error("no receipt for {0} in time")]
    NoReceipt(B256),
    #[error("transaction {0} succeeded without moving the money")]
    NoTransfer(B256),
    #[error("the contract is not what it should be: {0}")]
    Contract(String),
}

/// A running local chain. Clones share it; the process dies with the last of them.
#[derive(Debug, Clone)]
pub struct Devnet {
    network: &'static Network,
    rpc: Rpc,
    /// Anvil's first account, which it signs for itself and which has coin for gas.
    payer: Address,
    /// Held over a send: anvil reads the nonce and queues the transaction in two steps, so two sends at
    /// once meet in "nonce too low". A queue of one, which waits for answers and so is tokio's.
    sending: Arc<Mutex<()>>,
    factory: FactoryOnce,
    node: Option<Arc<Anvil>>,
}

impl Devnet {
    /// Starts the anvil that [`install::find_anvil`] finds, with the network's contracts in place.
    pub async fn start(chain: ChainId) -> Result<Self, DevnetError> {
        Self::start_at(&install::find_anvil()?, chain).await
    }

    /// Starts the given anvil, with the network's contracts in place.
    pub async fn start_at(anvil: &Path, chain: ChainId) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let devnet = Self::spawn(anvil, network, &Origin::Empty).await?;
        devnet.place_stablecoin().await?;
        devnet.place_tokens(None).await?;
        devnet.place_multicall().await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    /// Uses a local chain that another process started; it outlives this value.
    pub async fn attach(url: &str, chain: ChainId) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let devnet = Self::connect(url, network, None).await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    async fn spawn(
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
        Ok(Self { network, rpc, payer, sending: Arc::default(), factory: Arc::default(), node })
    }

    /// Where the chain answers JSON-RPC.
    pub fn url(&self) -> &str {
        self.rpc.url()
    }

    /// The network that this chain stands for.
    pub fn network(&self) -> &'static Network {
        self.network
    }

    /// Kills the chain at once, for tests of an outage. Does nothing to a chain of another process.
    pub fn kill(&self) {
        if let Some(node) = &self.node {
            node.kill();
        }
    }

    /// Any JSON-RPC method, such as `anvil_setBalance` or `evm_increaseTime`.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, DevnetError> {
        self.rpc.call(method, params).await
    }

    /// Makes `amount` smallest units of the stablecoin for `to`.
    pub async fn mint(&self, to: Address, amount: u128) -> Result<B256, DevnetError> {
        let call = IStable::mintCall { to, value: U256::from(amount) };
        let mint = self.ours(self.network.stablecoin.address, call.abi_encode());
        Ok(self.send(&mint).await?.hash)
    }

    /// What `owner` has of the stablecoin, in smallest units.
    pub async fn balance_of(&self, owner: Address) -> Result<U256, DevnetError> {
        self.read(self.network.stablecoin.address, IStable::balanceOfCall { owner }).await
    }

    /// Whether the authorization with that nonce was used or cancelled.
    pub async fn authorization_used(
        &self,
        from: Address,
        nonce: B256,
    ) -> Result<bool, DevnetError> {
        self.read(
            self.network.stablecoin.address,
            IStable::authorizationStateCall { authorizer: from, nonce },
        )
        .await
    }

    /// Carries an authorization out and returns the transaction once the money has moved.
    pub async fn settle(
        &self,
        terms: &Authorization,
        signature: &[u8],
    ) -> Result<B256, DevnetError> {
        let coin = self.network.stablecoin.address;
        let receipt = self.send(&self.ours(coin, terms.calldata(signature))).await?;
        if receipt.moved(coin, terms.from, terms.to, terms.value) {
            Ok(receipt.hash)
        } else {
            Err(DevnetError::NoTransfer(receipt.hash))
        }
    }

    /// Puts the coin of the network's row at the row's address.
    async fn place_stablecoin(&self) -> Result<(), DevnetError> {
        let coin = &self.network.stablecoin;
        self.deploy_at(coin.address, stable::creation_code(coin)?).await
    }

    /// Puts a stand-in at the address of each further token of the row but one that comes from elsewhere: it
    /// counts balances, and that is all that anybody asks of it.
    async fn place_tokens(&self, but: Option<Address>) -> Result<(), DevnetError> {
        let code = stable::creation_code(&self.network.stablecoin)?;
        for token in self.network.tokens.iter().filter(|token| Some(token.address) != but) {
            self.deploy_at(token.address, code.clone()).await?;
        }
        Ok(())
    }

    /// Puts Multicall3 where real networks have it. A chain that is attached to may lack it, as a real one
    /// may.
    async fn place_multicall(&self) -> Result<(), DevnetError> {
        let code = multicall::runtime_code()?;
        self.request("anvil_setCode", json!([networks::MULTICALL3, code])).await?;
        Ok(())
    }

    /// The coin must be one for which signatures of the real network are valid.
    async fn check_stablecoin(&self) -> Result<(), DevnetError> {
        let expected = self.network.stablecoin.domain_separator;
        let found =
            self.read(self.network.stablecoin.address, IStable::DOMAIN_SEPARATORCall {}).await?;
        if found == expected {
            return Ok(());
        }
        Err(DevnetError::Contract(format!("DOMAIN_SEPARATOR is {found} and not {expected}")))
    }
}
