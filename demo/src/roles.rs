//! The roles in which the program starts itself again, such as the engine, the sellers and the agent.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use crate::buyer;
use crate::metered::MeteredShop;
use crate::stage::print_line;
use alloy_primitives::{Address, address};
use anyhow::bail;
use bursar_chain::failpoints::NoFailpoints;
use bursar_control::json_version::JsonVersion;
use bursar_core::edition::EditionName;
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_demo::model::Model;
use bursar_devnet::Devnet;
use bursar_devnet::merchant::{Merchant, MerchantConfig};
use bursar_engine::control::ControlChannel;
use bursar_engine::edition::{AgentWire, Edition};
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, claim};
use bursar_facilitator::config::Config;
use bursar_facilitator::service::{Running, load_keys};
use bursar_purchase::PayArgs;
use bursar_tui::oneshot;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The network of the demonstration.
pub(crate) const CHAIN: ChainId = ChainId(8453);
/// Prices of the merchant, in smallest units of a six-decimal stablecoin.
pub(crate) const SMALL_PRICE: u128 = 12_000;
pub(crate) const LARGE_PRICE: u128 = 1_500_000;
/// The payee of `pay`: no known key controls this address.
const UNOWNED_ADDRESS: Address = address!("0x000000000000000000000000000000000000dEaD");

/// Runs the engine of `bursar engine` on a folder of the demonstration.
pub(crate) async fn engine(folder: &Path, chain: Option<&str>) -> anyhow::Result<()> {
    let folder = DataFolder::open(folder)?;
    let Instance::Free(lock) = claim(&folder, EditionName::Full, ENGINE_WAIT)? else {
        bail!("another engine uses the data folder")
    };
    std::fs::write(folder.file("settings.toml"), local_settings(chain)?)?;
    let mut options = Options::new(folder, lock, Edition::full(), Mode::Full);
    options.listen = Some("127.0.0.1:0".to_owned());
    let engine = Engine::open(options).await?;
    engine.serve_control(ControlChannel::SOCKET).await?;
    let address = engine.start_server().await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(&format!("http://{address}"))?;
    stop_requested(term).await;
    engine.stop().await;
    Ok(())
}

/// Returns settings with which the engine queries only the local chain.
///
/// The other networks get no endpoint, because their default endpoints are public.
fn local_settings(chain: Option<&str>) -> anyhow::Result<String> {
    let mut settings = String::new();
    for network in NETWORKS {
        let url = chain.filter(|_url| network.chain == CHAIN);
        let list: Vec<String> = url.iter().map(|url| format!("{url:?}")).collect();
        let rpc = list.join(", ");
        writeln!(settings, "[networks.{}]\nrpc = [{rpc}]\nexplorer = \"none\"", network.chain)?;
    }
    Ok(settings)
}

/// Runs the facilitator of `bursar-facilitator` with settings of the demonstration.
pub(crate) async fn facilitator(settings: &Path) -> anyhow::Result<()> {
    let config = Config::load(Some(settings), &|_variable| None)?;
    let keys = load_keys(&config)?;
    let running = Running::start(config, keys, Arc::new(NoFailpoints)).await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(&format!("http://{}", running.address))?;
    stop_requested(term).await;
    running.stop().await;
    Ok(())
}

/// Runs the model, which accepts requests with the API key in the file `key`.
pub(crate) async fn model(key: &Path) -> anyhow::Result<()> {
    let model = Model::serve(std::fs::read_to_string(key)?.trim()).await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(model.url())?;
    stop_requested(term).await;
    Ok(())
}

/// Runs the proxy of `bursar-proxy` with settings of the demonstration.
pub(crate) async fn proxy(settings: &Path) -> anyhow::Result<()> {
    let config = bursar_proxy::config::Config::load(Some(settings), &|_variable| None)?;
    let running = bursar_proxy::service::Running::start(config, Arc::new(NoFailpoints)).await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(&format!("http://{}", running.address))?;
    stop_requested(term).await;
    running.stop().await;
    Ok(())
}

/// Runs a merchant with two priced resources; without a chain it only checks signatures.
pub(crate) async fn merchant(pay_to: Address, chain: Option<String>) -> anyhow::Result<()> {
    let mut config =
        MerchantConfig::new(CHAIN, pay_to).sell("/small", SMALL_PRICE).sell("/large", LARGE_PRICE);
    if let Some(url) = chain {
        config = config.settle_on(Devnet::attach(&url, CHAIN).await?);
    }
    let merchant = Merchant::serve(config).await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(merchant.url())?;
    stop_requested(term).await;
    merchant.stop().await;
    Ok(())
}

/// Runs a shop that sells a text by the character and settles through the facilitator.
pub(crate) async fn shop(facilitator: &str, pay_to: Address) -> anyhow::Result<()> {
    let shop = MeteredShop::serve(facilitator, CHAIN, pay_to).await?;
    let term = signal(SignalKind::terminate())?;
    print_ready(shop.url())?;
    stop_requested(term).await;
    Ok(())
}

/// Buys from the metered shop with the key in a file, and prints the purchase as JSON.
pub(crate) async fn buyer(url: &str, key: &Path) -> anyhow::Result<()> {
    print_line(&buyer::buy(url, key, CHAIN).await?.to_string())
}

/// Buys one resource as `bursar pay --json` does, with the credentials in the environment. Returns the exit code.
pub(crate) async fn agent(url: String, body: Option<String>) -> u8 {
    let args = PayArgs { url, body, ..PayArgs::default() };
    bursar_purchase::run(
        &args,
        &oneshot::Options { json: Some(JsonVersion::Two), ..Default::default() },
        AgentWire::FULL.field,
    )
    .await
}

/// Pays a merchant in this process from the user's own wallet. The merchant settles nothing.
pub(crate) async fn pay() -> anyhow::Result<()> {
    let config = MerchantConfig::new(CHAIN, UNOWNED_ADDRESS)
        .sell("/small", SMALL_PRICE)
        .sell("/large", LARGE_PRICE);
    let merchant = Merchant::serve(config).await?;
    for (path, price) in [("/small", "0.012"), ("/large", "1.50")] {
        print_line(&format!("A paywall asks for {price} USDC on Base:"))?;
        let args = PayArgs { url: format!("{}{path}", merchant.url()), ..PayArgs::default() };
        if bursar_purchase::run(&args, &oneshot::Options::default(), AgentWire::FULL.field).await
            != 0
        {
            bail!("this payment failed");
        }
        print_line("")?;
    }
    merchant.stop().await;
    print_line(
        "Both are paid as far as your wallet knows. No money moved: this merchant settles nothing.",
    )
}

/// Reports the URL of this process to the director.
fn print_ready(url: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "READY {url}")?;
    Ok(out.flush()?)
}

/// Waits for SIGTERM, or for the end of the director, which closes the pipe to our standard input.
async fn stop_requested(mut term: Signal) {
    let pipe_closed = async {
        if std::io::stdin().is_terminal() {
            std::future::pending::<()>().await;
        }
        let mut nothing = [0; 1];
        let mut stdin = tokio::io::stdin();
        // The director never writes, so the read ends when the pipe closes.
        let _closed = tokio::io::AsyncReadExt::read(&mut stdin, &mut nothing).await;
    };
    tokio::select! {
        _signal = term.recv() => {}
        () = pipe_closed => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_engine::config::Config;

    #[test]
    fn the_demonstration_queries_only_the_local_chain() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        for chain in [None, Some("http://127.0.0.1:8545/")] {
            std::fs::write(&file, local_settings(chain).unwrap()).unwrap();
            let config = Config::load(&file, &|_variable| None, None).unwrap();
            assert!(config.explorer.is_empty());
            for network in NETWORKS {
                let queried: Vec<&str> =
                    config.rpc[&network.chain].iter().map(|url| url.as_str()).collect();
                let expected = chain.filter(|_url| network.chain == CHAIN);
                assert_eq!(queried, expected.as_slice(), "{}", network.title);
            }
        }
    }
}
