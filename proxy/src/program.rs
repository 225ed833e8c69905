//! The command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bursar_chain::failpoints::Failpoints;
use bursar_rows::StoreUnusable;
use bursar_serve::{exit, logs, program, signals};
use clap::{Parser, Subcommand};

use crate::check;
use crate::config::Config;
use crate::service::Running;

/// Sells an OpenAI-compatible API per request, for stablecoin (x402).
///
/// Settings come from the environment, which takes precedence, and from the file of --config. The main variables are
/// UPSTREAM_API_KEY, WALLET_ADDRESS, PRICE_PER_1K_TOKENS and FACILITATOR_URL; `bursar-proxy settings` lists the rest.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Settings file (TOML) with the table of models; all other keys can also be set in the environment
    #[arg(long, global = true, env = "PROXY_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve; the default without a command
    Run,
    /// Check prices, key files, store, nodes, facilitator, upstream and models, and report each result
    Check,
    /// Print the reference of the settings as Markdown
    Settings,
}

/// Maximum number of threads for blocking work, such as the store and long bodies. More threads would only use memory.
const BLOCKING_THREADS: usize = 32;

/// Runs the program. Tests pass `failpoints` that end the process.
pub fn main(failpoints: Arc<dyn Failpoints>) -> ExitCode {
    // This must precede the first thread. Bodies and answers of several megabytes then leave no unused memory in the
    // heap.
    bursar_heap::return_large_blocks();
    program::main("bursar-proxy", || run(failpoints), exit_of)
}

fn exit_of(fault: &anyhow::Error) -> ExitCode {
    let store = fault.chain().find_map(|cause| cause.downcast_ref::<StoreUnusable>());
    store.map_or(ExitCode::FAILURE, |store| exit::of_store(store.is_full()))
}

fn run(failpoints: Arc<dyn Failpoints>) -> anyhow::Result<ExitCode> {
    let arguments = program::arguments::<Arguments>();
    let load = || {
        Config::load(arguments.config.as_deref(), &|name| std::env::var(name).ok())
            .map_err(anyhow::Error::from)
    };
    match arguments.command.unwrap_or(Command::Run) {
        Command::Run => {
            let config = load()?;
            logs::start(config.log_format);
            program::runtime(BLOCKING_THREADS)?.block_on(serve(config, failpoints))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check => {
            let findings = program::runtime(BLOCKING_THREADS)?.block_on(check::check(&load()?))?;
            Ok(findings.print()?)
        }
        Command::Settings => {
            write!(std::io::stdout(), "{}", crate::config::reference())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn serve(config: Config, failpoints: Arc<dyn Failpoints>) -> anyhow::Result<()> {
    let stop = signals::stop_requested();
    let running = Running::start(config, failpoints).await?;
    program::print_ready(running.address);
    if let Some(address) = running.metrics_address {
        tracing::info!(%address, "metrics");
    }
    // cancel-safe: both branches only wait.
    let broken = tokio::select! {
        () = stop => None,
        fault = running.wait_until_store_broken() => Some(fault),
    };
    tracing::info!("stopping");
    // Answers in progress are still completed, even without a store. The log and the exit code show the reason for the
    // stop.
    running.stop().await;
    broken.map_or(Ok(()), |fault| Err(fault.into()))
}
