//! A full chain: in addition to the stablecoin, the contracts for trading, lending and settling, at the
//! addresses of the real network. Building one needs npm and takes a second, so it is recorded once and loaded
//! afterwards. For tests and `cargo xtask devnet`; the demonstration needs only a light chain.

mod addresses;
mod builder;
mod head;
mod lending;
mod lending_abi;
mod liquidity;
mod loans;
mod packages;
mod settling;
mod state;
mod swaps;
mod times;
mod v3;
mod v4;
mod vault_lies;
mod vault_settings;
mod venues;

use std::path::Path;

use bursar_core::networks::{self, ChainId};
use serde_json::json;

use self::head::Head;
use crate::error::DevnetError;
use crate::install;
use crate::node::Devnet;
use crate::process::Origin;
pub use addresses::{
    CHAINS, Contracts, LLTV, Lending, POOL_FEE, Routers, TICK_SPACING, UniswapV3, UniswapV4,
};
pub use liquidity::{PoolV3, PoolV4, Side};
pub use loans::LoanMarket;
pub use times::{StepTimes, measure};
pub use vault_lies::VaultLie;
pub use vault_settings::{GateSide, VaultFees};
pub use venues::NewVault;

impl Devnet {
    /// Starts a full chain with the anvil that [`install::find_anvil`] finds; [`Contracts::of`] lists its
    /// addresses. Builds the chain's state first if it is not recorded yet.
    ///
    /// # Errors
    /// No anvil is installed, the chain is unknown, or building or starting it failed.
    pub async fn start_full(chain: ChainId) -> Result<Self, DevnetError> {
        Self::start_full_at(&install::find_anvil()?, chain).await
    }

    /// Starts a full chain with the given anvil.
    ///
    /// # Errors
    /// The chain is unknown, or building or starting it failed.
    pub async fn start_full_at(anvil: &Path, chain: ChainId) -> Result<Self, DevnetError> {
        Self::start_full_from(anvil, chain, 0).await
    }

    /// Starts a full chain whose first block has this number, so that its events lie where the product's tables
    /// begin to search: see [`first_lending_block`].
    ///
    /// # Errors
    /// The chain is unknown, or building or starting it failed.
    pub async fn start_full_from(
        anvil: &Path,
        chain: ChainId,
        from_block: u64,
    ) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let recorded = state::recorded_state(anvil, state::Chain { network, from_block }).await?;
        let devnet = Self::spawn(anvil, network, &Origin::Loaded(recorded)).await?;
        devnet.catch_up().await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    /// Brings a loaded chain's clock up to date. Its newest block is as old as the recording, and anvil
    /// versions differ in the time of the next block. The block mined here sets the chain to the machine's
    /// clock: authorizations signed now are valid, and the chain's time gives no reason for doubt.
    async fn catch_up(&self) -> Result<(), DevnetError> {
        let head: Head = self.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        let next = head.timestamp.to::<u64>().saturating_add(1).max(state::now_s());
        self.request("evm_setNextBlockTimestamp", json!([next])).await?;
        self.request("evm_mine", json!([])).await?;
        Ok(())
    }

    /// Fails if a contract's address is taken: its constructor would inherit the storage of the earlier
    /// contract.
    async fn check_empty(&self, contracts: &Contracts) -> Result<(), DevnetError> {
        for address in contracts.addresses() {
            if self.has_code(address).await? {
                return Err(DevnetError::Contract(format!("{address} is taken")));
            }
        }
        Ok(())
    }

    /// Ends the chain gracefully, so that anvil writes its state.
    async fn finish(&self) -> Result<(), DevnetError> {
        match &self.node {
            Some(node) => node.finish().await,
            None => Ok(()),
        }
    }
}

/// Returns the first block at which all of a network's lending contracts exist; 0 without lending.
pub fn first_lending_block(chain: ChainId) -> u64 {
    let lending = networks::by_chain(chain).and_then(|network| network.lending);
    let factories = lending.map(|lending| lending.vault_factories).unwrap_or_default();
    factories.iter().map(|factory| factory.first_block).max().unwrap_or(0)
}

/// Starts a full chain for one test, whose first block is [`first_lending_block`]. Skips or fails the test as
/// [`install::chain_or_skip`] does.
pub async fn lending_chain_or_skip(chain: ChainId) -> Option<Devnet> {
    chain_from_or_skip(chain, first_lending_block(chain)).await
}

/// Starts a full chain for one test. Skips or fails the test as [`install::chain_or_skip`] does.
pub async fn full_chain_or_skip(chain: ChainId) -> Option<Devnet> {
    chain_from_or_skip(chain, 0).await
}

#[expect(clippy::panic, reason = "called by tests only, to fail them with the line that helps")]
async fn chain_from_or_skip(chain: ChainId, from_block: u64) -> Option<Devnet> {
    let anvil = install::chain_or_skip()?;
    match Devnet::start_full_from(&anvil, chain, from_block).await {
        Ok(devnet) => Some(devnet),
        Err(DevnetError::Missing(missing)) => install::fail_test(&missing),
        Err(error) => panic!("{error}"),
    }
}
