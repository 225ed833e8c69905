//! The chains and explorers that the settings name endpoints for.

use std::sync::Arc;

use bursar_chain::explorer_http::{ExplorerHttp, ExplorerLimits};
use bursar_chain::ports::{Chain, Clock, Explorer};
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

/// The explorer of one network; none unless one is set. Opens no connection.
pub(crate) fn explorer(
    config: &Config,
    chain: ChainId,
) -> Result<Option<Arc<dyn Explorer>>, Fault> {
    let Some(url) = config.explorer.get(&chain) else { return Ok(None) };
    let explorer = ExplorerHttp::new(url.as_str(), ExplorerLimits::default());
    let explorer = explorer.map_err(|error| {
        Fault::because(Code::BadInput, format!("networks.{chain}.explorer: {error}."))
    })?;
    Ok(Some(Arc::new(explorer)))
}
