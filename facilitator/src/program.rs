//! The program: arguments, settings, logs, and signals.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::check::{self, Mark};
use crate::config::{Config, LogFormat};
use crate::keys::SigningKey;
use crate::service::{self, Running};
use anyhow::Context;
use bursar_chain::points::Points;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

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
    /// Serve; the same without a command
    Run,
    /// Look at nodes, contracts, domains and signers, and say what is missing
    Check,
    /// Print the manual of the settings, as Markdown
    Settings,
    /// Keys that pay gas
    #[command(subcommand)]
    Key(Key),
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Make a key and write it, encrypted, into a new file
    New {
        /// The file; there must be none of that name
        file: PathBuf,
        /// A file that holds the password
        #[arg(long)]
        password_file: PathBuf,
    },
}

/// Runs the program; `points` is where tests end it.
pub fn main(points: Arc<dyn Points>) -> ExitCode {
    // What is kept holds what callers sent, and is nobody else's.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    match run(points) {
        Ok(code) => code,
        Err(fault) => {
            let mut out = std::io::stderr();
            let _unwritable = writeln!(out, "bursar-facilitator: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(points: Arc<dyn Points>) -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let load = || {
        Config::load(arguments.config.as_deref(), &|name| std::env::var(name).ok())
            .map_err(anyhow::Error::from)
    };
    match arguments.command.unwrap_or(Command::Run) {
        Command::Run => {
            let config = load()?;
            log(config.log_format);
            runtime()?.block_on(serve(config, points))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check => {
            let findings = runtime()?.block_on(check::check(&load()?))?;
            let mut out = std::io::stdout();
            for finding in &findings {
                let mark = match finding.mark {
                    Mark::Good => "ok  ",
                    Mark::Mind => "mind",
                    Mark::Bad => "BAD ",
                };
                writeln!(out, "{mark}  {}: {}", finding.about, finding.text)?;
            }
            let bad = findings.iter().any(|finding| finding.mark == Mark::Bad);
            Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Settings => {
            write!(std::io::stdout(), "{}", crate::config::reference())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Key(Key::New { file, password_file }) => {
            let key = SigningKey::create_keystore_by_file(&file, &password_file)?;
            writeln!(std::io::stdout(), "{}", key.address())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the process cannot have threads")
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(false).init(),
        LogFormat::Json => lines.json().init(),
    }
}

async fn serve(config: Config, points: Arc<dyn Points>) -> anyhow::Result<()> {
    let keys = service::load_keys(&config)?;
    let running = Running::start(config, keys, points).await?;
    {
        let mut out = std::io::stdout();
        writeln!(out, "READY http://{}", running.address)?;
        out.flush()?;
    }
    if let Some(address) = running.metrics_address {
        tracing::info!(%address, "metrics");
    }
    service::asked_to_stop().await;
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}
