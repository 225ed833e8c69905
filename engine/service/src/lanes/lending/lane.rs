//! What the reads of the lending lane share.

use std::sync::Arc;

use bursar_chain::ports::Chain;
use bursar_core::codes::Code;
use bursar_core::networks::Network;
use bursar_domain::Refusal;

use crate::lanes::batch::unavailable;
use crate::ports::Ports;

/// The lending lane.
#[derive(Debug)]
pub struct Lending {
    ports: Ports,
}

impl Lending {
    /// Creates the lane. Opens no connection.
    pub fn new(ports: &Ports) -> Self {
        Self { ports: ports.clone() }
    }

    /// Returns the network's node and the newest block, to which all reads of one answer refer.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn at_newest_block(
        &self,
        network: &Network,
    ) -> Result<(Arc<dyn Chain>, u64), Refusal> {
        let chain = self.ports.chains.get(&network.chain);
        let chain = chain.ok_or_else(|| Refusal::new(Code::ChainUnavailable))?;
        let block = chain.block_number().await.map_err(|_fault| unavailable())?;
        Ok((chain, block))
    }
}
