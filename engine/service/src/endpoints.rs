//! The chains that the settings name endpoints for.

use std::sync::Arc;

use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::ChainId;

use crate::config::Config;

/// The chain of one network; none without an endpoint. Opens no connection.
pub(crate) fn chain(
    config: &Config,
    chain: ChainId,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<dyn Chain>>, Fault> {
    let endpoints = match config.rpc.get(&chain) {
        Some(endpoints) if !endpoints.is_empty() => endpoints,
        _none => return Ok(None),
    };
    let rpc = RpcChain::new(RpcConfig::new(chain, endpoints.clone()), Arc::clone(clock));
    let rpc = rpc.map_err(|error| {
        Fault::because(Code::BadInput, format!("networks.{chain}.rpc: {error}."))
    })?;
    Ok(Some(Arc::new(rpc)))
}
