//! The product's engine with cheap key derivation, for tests. Never part of a release.
//!
//! Environment variables:
//!
//! - `BURSAR_TEST_CLOCK`: the file that moves the clock.
//! - `BURSAR_TEST_FAULT`: the faults to inject.
//! - `BURSAR_TEST_REACHED`: the file that records every fault point that is reached.
//! - `BURSAR_TEST_CARRY`: when the journal carries rows over to the history file.
//! - `BURSAR_TEST_PASSWORD`: the password that opens the wallet at start.
//! - `BURSAR_TEST_ROBINHOOD_RPC`: the endpoint of Robinhood Chain; without it, the engine does not know the chain.
//! - `BURSAR_TEST_LEDGER`: the addresses of simulated Ledgers, with commas between several.
//! - `BURSAR_TEST_ETH_PRICE`: the price of ETH in whole dollars; `BURSAR_TEST_PRICE_API`: the URL
//!   of an API that returns it.
//! - `BURSAR_TEST_PATIENCE`: the longest wait for a node's answer in milliseconds, and the pause after a failed one.
//! - `BURSAR_LOG`: the log filter; without it, the engine does not log.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bursar_chain::explorer_http::{ExplorerHttp, ExplorerLimits};
use bursar_chain::icon_http::IconHttp;
use bursar_chain::ports::{BoxFuture, Chain, Clock, Explorer, PriceFault, Prices};
use bursar_chain::price_http::PriceHttp;
use bursar_chain::registry_http::RegistryHttp;
use bursar_chain::rpc::{RpcChain, RpcConfig, RpcLimits};
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_device::emulator::Emulators;
use bursar_engine::control::ControlChannel;
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::journal::Checkpoints;
use bursar_engine::ports::{Failpoints, NoFailpoints, Ports, SystemDisk, SystemRandom};
use bursar_engine::rules::Rules;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, claim};
use bursar_ledger::port::Devices;
use bursar_tests::doubles::{FaultPlan, SkewedClock};
use bursar_tests::engine::with_cheap_kdf;
use secrecy::SecretString;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    if let Ok(filter) = EnvFilter::try_from_env("BURSAR_LOG") {
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        lines.log_internal_errors(false).init();
    }
    match run().await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(fault) => {
            let hint = fault.hint.as_deref().map(|hint| format!(" Try `bursar {hint}`."));
            eprintln!("{}: {fault}{}", fault.code, hint.unwrap_or_default());
            std::process::ExitCode::from(fault.code.exit())
        }
    }
}

async fn run() -> Result<(), Fault> {
    let path = PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
    let folder = DataFolder::open(&path)?;
    let name = match std::env::var("BURSAR_TEST_EDITION") {
        Ok(text) => serde_json::from_value(text.into()).expect("the name of an edition"),
        Err(_missing) => EditionName::Full,
    };
    let lock = match claim(&folder, name, ENGINE_WAIT)? {
        Instance::Free(lock) => lock,
        Instance::Running(_) => return Err(bursar_core::codes::Code::EngineRunning.into()),
    };
    let clock: Arc<dyn Clock> = match std::env::var_os("BURSAR_TEST_CLOCK") {
        Some(file) => Arc::new(SkewedClock::new(file.into())),
        None => panic!("BURSAR_TEST_CLOCK names the file that moves the clock"),
    };
    let mut edition = with_cheap_kdf(name);
    // Tests drive each edition from outside.
    edition.sealed = false;
    edition.checkpoints = checkpoints();
    let mut options = Options::new(folder, lock, edition, Mode::Full);
    options.ports = Some(Ports {
        chains: chains(&clock).into_iter().collect(),
        explorers: explorers().into_iter().collect(),
        prices: prices().into(),
        icons: Arc::new(IconHttp::new()),
        registry: Arc::new(RegistryHttp),
        clock,
        random: Arc::new(SystemRandom),
        disk: Arc::new(SystemDisk),
        failpoints: faults(),
        devices: devices(),
        signer: None,
        rules: Rules::default(),
    });
    let engine = Engine::open(options).await?;
    if let Ok(password) = std::env::var("BURSAR_TEST_PASSWORD") {
        engine.unlock(SecretString::from(password)).await?;
    }
    engine.serve_control(ControlChannel::SOCKET).await?;
    let address = engine.start_server().await?;
    // The handler is installed before READY is printed, because a test may send the signal right after READY.
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("signals can be caught");
    println!("READY http://{address}");
    std::io::stdout().flush().expect("flushed");
    term.recv().await;
    engine.stop().await;
    Ok(())
}

fn devices() -> Option<Arc<dyn Devices>> {
    let text = std::env::var("BURSAR_TEST_LEDGER").ok()?;
    let addresses = text.split(',').map(|one| one.parse().expect("an address"));
    Some(Arc::new(Emulators::new(addresses.collect())))
}

fn checkpoints() -> Checkpoints {
    let Ok(text) = std::env::var("BURSAR_TEST_CARRY") else { return Checkpoints::PRODUCTION };
    let (how, after) = text.split_once(':').expect("how:bytes");
    Checkpoints { after_bytes: after.parse().expect("a number"), in_background: how == "beside" }
}

fn faults() -> Arc<dyn Failpoints> {
    let wanted = std::env::var("BURSAR_TEST_FAULT").ok();
    let reached = std::env::var_os("BURSAR_TEST_REACHED");
    if wanted.is_none() && reached.is_none() {
        return Arc::new(NoFailpoints);
    }
    let plan = match wanted {
        Some(text) => FaultPlan::parse(&text).expect("how:point:n, with commas between several"),
        None => FaultPlan::default(),
    };
    Arc::new(match reached {
        Some(file) => plan.recording(std::path::Path::new(&file)),
        None => plan,
    })
}

fn chains(clock: &Arc<dyn Clock>) -> BTreeMap<ChainId, Arc<dyn Chain>> {
    let (base, robinhood) = (ChainId(8453), ChainId(4663));
    let mut chains: BTreeMap<ChainId, Arc<dyn Chain>> = BTreeMap::new();
    if let Ok(url) = std::env::var("BURSAR_NETWORKS_8453_RPC") {
        let mut chain = chain_at(base, url, clock);
        if let Ok(url) = std::env::var("BURSAR_NETWORKS_8453_SUBMIT_RPC") {
            chain = chain.submitting_to(chain_at(base, url, clock));
        }
        chains.insert(base, Arc::new(chain));
    }
    if let Ok(url) = std::env::var("BURSAR_TEST_ROBINHOOD_RPC") {
        chains.insert(robinhood, Arc::new(chain_at(robinhood, url, clock)));
    }
    chains
}

fn chain_at(chain: ChainId, url: String, clock: &Arc<dyn Clock>) -> RpcChain {
    let mut config = RpcConfig::new(chain, [url]);
    if let Ok(text) = std::env::var("BURSAR_TEST_PATIENCE") {
        let ms = text.parse().expect("milliseconds");
        config.limits = RpcLimits {
            attempt_timeout_ms: ms,
            identity_retry_ms: ms,
            breaker_cool_down_ms: ms,
            ..config.limits
        };
    }
    RpcChain::new(config, Arc::clone(clock)).expect("an endpoint")
}

/// The price of ETH in whole dollars, from the environment.
#[derive(Debug)]
struct FixedPrice(Usd);

impl Prices for FixedPrice {
    fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
        Box::pin(async { Ok(self.0) })
    }
}

fn prices() -> Option<Arc<dyn Prices>> {
    if let Ok(url) = std::env::var("BURSAR_TEST_PRICE_API") {
        return Some(Arc::new(PriceHttp::new(&url).expect("a price API")));
    }
    let text = std::env::var("BURSAR_TEST_ETH_PRICE").ok()?;
    Some(Arc::new(FixedPrice(Usd::parse(&text).expect("dollars"))))
}

fn explorers() -> BTreeMap<ChainId, Arc<dyn Explorer>> {
    let Ok(url) = std::env::var("BURSAR_NETWORKS_8453_EXPLORER") else { return BTreeMap::new() };
    if url == "none" {
        return BTreeMap::new();
    }
    let explorer = ExplorerHttp::new(&url, ExplorerLimits::default()).expect("an explorer");
    BTreeMap::from([(ChainId(8453), Arc::new(explorer) as Arc<dyn Explorer>)])
}
