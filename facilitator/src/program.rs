//! The command line: arguments and commands.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::check;
use crate::config::Config;
use crate::contract_call::ContractCall;
use crate::keys::SigningKey;
use crate::network::upto_contracts;
use crate::service::{self, Running};
use bursar_chain::failpoints::Failpoints;
use bursar_outbound::{Client, PlainHttpHosts, Target};
use bursar_rows::StoreUnusable;
use bursar_serve::program::{self, BLOCKING_THREADS};
use bursar_serve::{exit, logs, signals};
use clap::{Parser, Subcommand};

/// Timeout of a status request in milliseconds, and maximum length of its answer.
const STATUS_TIMEOUT_MS: u64 = 5_000;
const STATUS_BYTES_MAX: usize = 1 << 20;

/// Verifies signed x402 payments and settles them on-chain, each once, paying gas.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// The settings, a TOML file; every key can also be set in the environment
    #[arg(long, global = true, env = "FACILITATOR_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Verify and settle payments; the default if no command is given
    Run,
    /// Check nodes, contracts, domains and signers, and report what is missing
    Check,
    /// Show the status of the running facilitator: balances, gas spent today, open payments
    Status,
    /// Print the manual of the settings, as Markdown
    Settings,
    /// Print the contracts of the setting upto_contracts, and the transactions that deploy them
    UptoContract,
    /// Manage the keys that pay gas
    #[command(subcommand)]
    Key(Key),
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Create a key and write it, encrypted, to a new file
    New {
        /// The file, which must not exist yet
        file: PathBuf,
        /// A file with the password
        #[arg(long)]
        password_file: PathBuf,
    },
}

/// Runs the program. Tests pass `failpoints`.
pub fn main(failpoints: Arc<dyn Failpoints>) -> ExitCode {
    program::main("bursar-facilitator", || run(failpoints), exit_of)
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
        Command::Status => {
            let report = program::runtime(BLOCKING_THREADS)?.block_on(status(&load()?))?;
            writeln!(std::io::stdout(), "{report:#}")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Settings => {
            write!(std::io::stdout(), "{}", crate::config::reference())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::UptoContract => {
            let config = load()?;
            // A contract that a foreign account can call must not be deployed.
            service::check_facilitators(&config, &service::load_keys(&config)?)?;
            let text = upto_deployments(&config)?;
            write!(std::io::stdout(), "{text}")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Key(Key::New { file, password_file }) => {
            let key = SigningKey::create_keystore_by_file(&file, &password_file)?;
            writeln!(std::io::stdout(), "{}", key.address())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The contracts of the settings, each with the transaction that deploys it.
fn upto_deployments(config: &Config) -> anyhow::Result<String> {
    let mut text = String::new();
    for network in config.networks.values() {
        for contract in upto_contracts(network) {
            let senders: Vec<_> = contract.senders.iter().map(ToString::to_string).collect();
            let ContractCall { to, data } = contract.deployment();
            text.push_str(&format!(
                "network: {}\ncontract: {}\naccounts: {}\n\
                 Deploy it with this transaction, which any account can send:\nto: {to}\nvalue: 0\ndata: {data}\n\n",
                network.network.caip2(),
                contract.address,
                senders.join(" "),
            ));
        }
    }
    anyhow::ensure!(
        !text.is_empty(),
        "no network has upto_contracts: set it to the addresses of the accounts, like [\"0x… 0x…\"]"
    );
    Ok(text)
}

/// Returns the report of the running facilitator, which its metrics listener serves.
async fn status(config: &Config) -> anyhow::Result<serde_json::Value> {
    let Some(address) = config.metrics_listen else {
        anyhow::bail!("metrics_listen is off: set it, because the status is read there");
    };
    let client = Client::new(STATUS_TIMEOUT_MS).map_err(anyhow::Error::msg)?;
    let target = Target::parse(&format!("http://{address}/status"), PlainHttpHosts::Any)
        .map_err(|fault| anyhow::anyhow!("cannot send a request to {address}: {fault:?}"))?;
    let reply = client.get(&target, STATUS_BYTES_MAX).await.map_err(|fault| {
        anyhow::anyhow!(
            "no facilitator answers at {address} ({fault}): start it, or choose its settings file"
        )
    })?;
    Ok(serde_json::from_slice(&reply.body)?)
}

async fn serve(config: Config, failpoints: Arc<dyn Failpoints>) -> anyhow::Result<()> {
    let stop = signals::stop_requested();
    let keys = service::load_keys(&config)?;
    let running = Running::start(config, keys, failpoints).await?;
    program::print_ready(running.address);
    if let Some(address) = running.metrics_address {
        tracing::info!(%address, "metrics");
    }
    // cancel-safe: both branches only wait.
    tokio::select! {
        () = stop => {}
        fault = running.wait_until_store_broken() => return Err(fault.into()),
    }
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}
