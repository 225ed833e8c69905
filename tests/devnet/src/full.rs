//! A full chain: beside the stablecoin what trading, lending and settling need, at the addresses of the real
//! network. Building one takes npm and a second, so it is recorded once and loaded after. For tests and for
//! `cargo xtask devnet`; the demonstration needs a light chain only.

mod addresses;
mod builder;
mod lending;
mod packages;
mod settling;
mod state;
mod times;
mod v3;
mod v4;

use std::path::Path;

use alloy_primitives::U64;
use bursar_core::networks::{self, ChainId};
use serde::Deserialize;
use serde_json::json;

use crate::error::DevnetError;
use crate::install;
use crate::node::Devnet;
use crate::process::Origin;
pub use addresses::{
    CHAINS, Contracts, LLTV, Lending, POOL_FEE, Routers, TICK_SPACING, UniswapV3, UniswapV4,
};
pub use times::{Times, measure};

#[derive(Deserialize)]
struct Head {
    timestamp: U64,
}

impl Devnet {
    /// Starts a full chain with the anvil that [`install::find_anvil`] finds; [`Contracts::of`] says what is
    /// where. Builds its state first if nobody has.
    pub async fn start_full(chain: ChainId) -> Result<Self, DevnetError> {
        Self::start_full_at(&install::find_anvil()?, chain).await
    }

    /// Starts a full chain with the given anvil.
    pub async fn start_full_at(anvil: &Path, chain: ChainId) -> Result<Self, DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let recorded = state::ready(anvil, network).await?;
        let devnet = Self::spawn(anvil, network, &Origin::Loaded(recorded)).await?;
        devnet.catch_up().await?;
        devnet.check_stablecoin().await?;
        Ok(devnet)
    }

    /// The newest block of a loaded chain is as old as the recording, and whether the next one follows it or
    /// the machine's clock is for the version of anvil to say. From the block that is mined here both are
    /// the same: what is signed now is valid, and the chain's time is nobody's reason for doubt.
    async fn catch_up(&self) -> Result<(), DevnetError> {
        let head: Head = self.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        let next = head.timestamp.to::<u64>().saturating_add(1).max(state::now_s());
        self.request("evm_setNextBlockTimestamp", json!([next])).await?;
        self.request("evm_mine", json!([])).await?;
        Ok(())
    }

    /// A constructor that ran where something stands would leave the old storage behind it.
    async fn check_empty(&self, contracts: &Contracts) -> Result<(), DevnetError> {
        for address in contracts.addresses() {
            if self.has_code(address).await? {
                return Err(DevnetError::Contract(format!("{address} is taken")));
            }
        }
        Ok(())
    }

    /// Ends the chain in good order, so that it writes its state.
    async fn finish(&self) -> Result<(), DevnetError> {
        match &self.node {
            Some(node) => node.finish().await,
            None => Ok(()),
        }
    }
}

/// For tests: a full chain of their own. Skipped and failed as [`install::chain_or_skip`] says.
#[expect(clippy::panic, reason = "called by tests only, to fail them with the line that helps")]
pub async fn full_chain_or_skip(chain: ChainId) -> Option<Devnet> {
    let anvil = install::chain_or_skip()?;
    match Devnet::start_full_at(&anvil, chain).await {
        Ok(devnet) => Some(devnet),
        Err(DevnetError::Missing(missing)) => install::fail(&missing),
        Err(error) => panic!("{error}"),
    }
}
