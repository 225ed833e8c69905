//! Creates the engine's ports, its chains and explorers from the endpoints in the settings.

use std::sync::Arc;

use bursar_chain::clock::SystemClock;
use bursar_chain::explorer_http::{ExplorerConfigError, ExplorerHttp, ExplorerLimits};
use bursar_chain::icon_http::IconHttp;
use bursar_chain::ports::{Chain, ChainFault, Clock, EndpointLabel, Explorer, Prices};
use bursar_chain::price_http::{PriceConfigError, PriceHttp};
use bursar_chain::registry_http::RegistryHttp;
use bursar_chain::rpc::{ConfigError, RpcChain, RpcConfig};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::ChainId;
use url::Url;

use crate::config::Config;
use crate::ports::{Devices, NoFailpoints, Ports, SystemDisk, SystemRandom};
use crate::rules::Rules;

/// Returns the ports of this machine, with the endpoints of the settings. Opens no connection.
pub(crate) fn system_ports(
    config: &Config,
    devices: Option<Arc<dyn Devices>>,
) -> Result<Ports, Fault> {
    let clock: Arc<dyn Clock> = Arc::new(
        SystemClock::new().map_err(|error| Fault::because(Code::DataFolder, error.to_string()))?,
    );
    let each = config.rpc.keys().map(|id| Ok((*id, chain(config, *id, &clock)?)));
    let each = each.collect::<Result<Vec<_>, Fault>>()?;
    let explorers = config.explorer.keys().map(|id| Ok((*id, explorer(config, *id)?)));
    let explorers = explorers.collect::<Result<Vec<_>, Fault>>()?;
    Ok(Ports {
        clock,
        random: Arc::new(SystemRandom),
        disk: Arc::new(SystemDisk),
        failpoints: Arc::new(NoFailpoints),
        rules: Rules::default(),
        chains: each.into_iter().filter_map(|(id, chain)| Some((id, chain?))).collect(),
        explorers: explorers.into_iter().filter_map(|(id, one)| Some((id, one?))).collect(),
        prices: prices(config)?.into(),
        icons: Arc::new(IconHttp::new()),
        registry: Arc::new(RegistryHttp),
        devices,
        signer: None,
    })
}

/// Returns the chain of one network; `None` if it has no endpoint to read from. Opens no connection.
pub(crate) fn chain(
    config: &Config,
    chain: ChainId,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<dyn Chain>>, Fault> {
    let endpoints = match config.rpc.get(&chain) {
        Some(endpoints) if !endpoints.is_empty() => endpoints,
        _none => return Ok(None),
    };
    let made = |key: &str, endpoints: &[Url]| {
        let made =
            RpcChain::new(RpcConfig::new(chain, endpoints.iter().cloned()), Arc::clone(clock));
        made.map_err(|error| match error {
            ConfigError::Client(why) => Unusable::Machine(why),
            wrong => Unusable::Setting(format!("networks.{chain}.{key}: {wrong}.")),
        })
    };
    let submit = config.submit_rpc.get(&chain).map(|urls| made("submit_rpc", urls)).transpose();
    let both = made("rpc", endpoints).and_then(|rpc| Ok((rpc, submit?)));
    match both {
        Ok((rpc, None)) => Ok(Some(Arc::new(rpc))),
        Ok((rpc, Some(submit))) => Ok(Some(Arc::new(rpc.submitting_to(submit)))),
        // Payments need no network, so the wallet also opens on a machine without certificates.
        Err(Unusable::Machine(why)) => {
            tracing::warn!(network = %chain, why, "the network cannot be queried from this machine");
            let endpoint = endpoints.first().map(EndpointLabel::of);
            Ok(endpoint
                .map(|endpoint| Arc::new(UnreachableChain { endpoint, why }) as Arc<dyn Chain>))
        }
        Err(Unusable::Setting(why)) => Err(Fault::because(Code::BadInput, why)),
    }
}

/// Why a chain cannot be created: an invalid setting, or a machine that cannot make connections.
enum Unusable {
    Setting(String),
    Machine(String),
}

/// Returns the explorer of one network; `None` if none is set or this machine cannot query it. Opens no connection.
pub(crate) fn explorer(
    config: &Config,
    chain: ChainId,
) -> Result<Option<Arc<dyn Explorer>>, Fault> {
    let Some(url) = config.explorer.get(&chain) else { return Ok(None) };
    let explorer = ExplorerHttp::new(url.as_str(), ExplorerLimits::default());
    match explorer {
        Ok(explorer) => Ok(Some(Arc::new(explorer))),
        Err(ExplorerConfigError::Client(why)) => {
            tracing::warn!(network = %chain, why, "the explorer cannot be queried from this machine");
            Ok(None)
        }
        Err(error) => {
            Err(Fault::because(Code::BadInput, format!("networks.{chain}.explorer: {error}.")))
        }
    }
}

/// Returns the price API; `None` if none is set or this machine cannot query it. Opens no connection.
pub(crate) fn prices(config: &Config) -> Result<Option<Arc<dyn Prices>>, Fault> {
    let Some(url) = &config.prices else { return Ok(None) };
    match PriceHttp::new(url.as_str()) {
        Ok(prices) => Ok(Some(Arc::new(prices))),
        Err(PriceConfigError::Client(why)) => {
            tracing::warn!(why, "prices cannot be queried from this machine");
            Ok(None)
        }
        Err(PriceConfigError::Url(_fault)) => Err(Fault::because(
            Code::BadInput,
            "prices.url: it must be an https:// URL without a user name (http:// only on this machine).",
        )),
    }
}

/// A network whose nodes cannot be reached from this machine, and why. A restart of the engine or a change of the
/// endpoints tries again.
#[derive(Debug)]
struct UnreachableChain {
    endpoint: EndpointLabel,
    why: String,
}

impl Chain for UnreachableChain {
    fn missing(&self, _method: &'static str) -> ChainFault {
        let why = format!(
            "{}: install the certificates of this system (ca-certificates), then restart the engine",
            self.why
        );
        ChainFault::Unavailable { tried: vec![(self.endpoint.clone(), why)] }
    }
}
