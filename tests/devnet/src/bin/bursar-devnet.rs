//! The program behind `cargo xtask devnet`: prepares the local chains, or compiles their contracts again. The
//! last line of stdout is the path of the result. `run` starts a full chain instead, prints its URL, and ends it when
//! standard input ends.

use std::io::{Read, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bursar_core::networks::ChainId;
use bursar_devnet::{Devnet, compile, full, install};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Prints the error here, because returning it from `main` would bury the useful line under a backtrace.
            eprintln!("bursar-devnet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let path = match words.as_slice() {
        ["install"] => install::anvil_binary()?,
        ["full"] => {
            write!(std::io::stdout(), "{}", full::measure().await?)?;
            install::find_anvil()?
        }
        ["recompile"] => compile::recompile()?,
        ["run", chain] => {
            let chain = ChainId(chain.parse().context("the chain must be a number, like 8453")?);
            return serve(chain).await;
        }
        _ => bail!("usage: bursar-devnet install | full | recompile | run <chain id>"),
    };
    writeln!(std::io::stdout(), "{}", path.display())?;
    Ok(())
}

/// Runs a full chain that makes a block each second, as long as standard input is open.
async fn serve(chain: ChainId) -> anyhow::Result<()> {
    let devnet = Devnet::start_full_at(&install::anvil_binary()?, chain).await?;
    devnet.request("evm_setIntervalMining", serde_json::json!([1])).await?;
    writeln!(std::io::stdout(), "READY {}", devnet.url())?;
    let read = || std::io::stdin().lock().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(read).await??;
    Ok(())
}
