//! `bursar-demo`: a wallet, an agent, a model sold by the request, a facilitator and a local chain in a temporary
//! folder.
//!
//! The agent asks a small question, which is paid at once, and a large one, which is paid after you press Enter.
//! Nothing else needs input; `--yes` replaces the key. At the end a buyer without a wallet pays a shop by the meter,
//! in the scheme `upto`.
//!
//! The program starts itself again as engine, facilitator, model, proxy, agent, shop and buyer, so these are separate
//! processes that call each other over sockets. If no local chain can be installed, a merchant that only checks
//! signatures replaces the sellers.

mod buyer;
mod director;
mod market;
mod metered;
mod roles;
mod sandbox;
mod stage;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows the whole loop on this machine: an agent calls a model, pays within your policy, and gets its answer.
#[derive(Debug, Parser)]
#[command(name = "bursar-demo", version)]
struct Cli {
    /// Approve the larger payment without waiting for a key.
    #[arg(long, short)]
    yes: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The roles of this program. The director starts all of them except `pay` and `sandbox`.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true)]
    Engine {
        folder: std::path::PathBuf,
        /// The local chain, if there is one.
        #[arg(long)]
        chain: Option<String>,
    },
    #[command(hide = true)]
    Facilitator { settings: std::path::PathBuf },
    #[command(hide = true)]
    Model { key: std::path::PathBuf },
    #[command(hide = true)]
    Proxy { settings: std::path::PathBuf },
    #[command(hide = true)]
    Merchant {
        pay_to: alloy_primitives::Address,
        /// The local chain on which it settles the payments.
        #[arg(long)]
        chain: Option<String>,
    },
    #[command(hide = true)]
    Shop { facilitator: String, pay_to: alloy_primitives::Address },
    #[command(hide = true)]
    Buyer { url: String, key: std::path::PathBuf },
    #[command(hide = true)]
    Agent {
        url: String,
        /// JSON to post.
        #[arg(long)]
        body: Option<String>,
    },
    /// Makes two payments to a merchant on this machine, as the agent of the environment; no money moves.
    ///
    /// Set the agent's four variables with `eval "$(bursar agent instructions <agent>)"`. The merchant only checks
    /// the signatures and settles nothing; the payments count against the agent's limits until they expire.
    Pay,
    /// Runs a local chain and a facilitator for a server and a client of your own, until Ctrl-C.
    ///
    /// The chain has the contracts of all schemes of x402. The first lines set the variables that the programs of
    /// `examples/merchant` read. Nothing on the chain has any value, and nothing is left at the end.
    Sandbox,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return print_failure(&anyhow::Error::from(error)),
    };
    let done = runtime.block_on(async {
        let done = match cli.role {
            None => director::direct(cli.yes).await,
            Some(Role::Engine { folder, chain }) => roles::engine(&folder, chain.as_deref()).await,
            Some(Role::Facilitator { settings }) => roles::facilitator(&settings).await,
            Some(Role::Model { key }) => roles::model(&key).await,
            Some(Role::Proxy { settings }) => roles::proxy(&settings).await,
            Some(Role::Merchant { pay_to, chain }) => roles::merchant(pay_to, chain).await,
            Some(Role::Shop { facilitator, pay_to }) => roles::shop(&facilitator, pay_to).await,
            Some(Role::Buyer { url, key }) => roles::buyer(&url, &key).await,
            Some(Role::Pay) => roles::pay().await,
            Some(Role::Sandbox) => sandbox::run().await,
            Some(Role::Agent { url, body }) => {
                return Ok(ExitCode::from(roles::agent(url, body).await));
            }
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    done.unwrap_or_else(|error| print_failure(&error))
}

fn print_failure(error: &anyhow::Error) -> ExitCode {
    let _closed = writeln!(std::io::stderr(), "bursar-demo: {error:#}");
    ExitCode::FAILURE
}
