//! The program behind `cargo xtask devnet`: prepares the local chains, or compiles their contracts again. The
//! last line of stdout is the path of the result.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use bursar_devnet::{compile, full, install};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not returned from `main`, which would bury the useful line under a backtrace.
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
        _ => bail!("usage: bursar-devnet install | full | recompile"),
    };
    writeln!(std::io::stdout(), "{}", path.display())?;
    Ok(())
}
