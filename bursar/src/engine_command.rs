//! `bursar engine`: runs the engine in the foreground until a signal stops it.
//!
//! It writes one line to standard output for service managers and scripts: READY and the URL for agents. With
//! `--json` the line is an envelope.

use std::io::{self, Write};
use std::net::SocketAddr;

use bursar_control::json_version::JsonVersion;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::control::ControlChannel;
use bursar_engine::edition::Edition;
use bursar_engine::engine::{self, Engine, Mode};
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, InstanceLock, claim};
use bursar_tui::link::Secret;
use bursar_tui::oneshot;
use bursar_tui::secret_source::{SecretSource, Stdin};
use secrecy::SecretString;

use crate::cli::{EngineArgs, GlobalOptions};
use crate::devices::devices;
use crate::service_manager::ServiceManager;
use crate::signals::{Signal, Signals};

pub(crate) async fn run(global: &GlobalOptions, args: &EngineArgs) -> u8 {
    match run_until_signal(global, args).await {
        Ok(exit) => exit,
        Err(fault) => crate::failure::report_failure("engine", global, fault),
    }
}

async fn run_until_signal(global: &GlobalOptions, args: &EngineArgs) -> Result<u8, Fault> {
    // Installs the signal handlers before any work that a signal could interrupt halfway.
    let mut signals = Signals::listen()?;
    let folder = global.open_folder()?;
    crate::panics::name_folder(global, folder.path());
    let shown = folder.path().display().to_string();
    let lock = match claim(&folder, global.edition, ENGINE_WAIT)? {
        Instance::Free(lock) => lock,
        Instance::Running(file) => {
            let message = format!(
                "Another engine (process {}) is using the data folder {shown}: use that engine, or stop it first.",
                file.pid
            );
            return Err(Fault::because(Code::EngineRunning, message));
        }
    };
    let source = global.password();
    let start_unlock = start_unlock(&source);
    let password = password(source).await?;
    let engine = open(folder, lock, global.edition, args, start_unlock).await?;
    let manager = ServiceManager::of_this_process();
    // cancel-safe: stop() ends all work that the start has begun.
    let ended = tokio::select! {
        started = start(&engine, password, global.control, args) => match started {
            Ok(server) => {
                announce(server, global.json);
                if engine.wallet_exists() && !engine.vault().is_unlocked() {
                    print_err("The wallet is locked, so nothing is paid: open it with `bursar wallet open`.");
                }
                let reports = async {
                    manager.report_ready(&engine).await;
                    manager.report_changes(&engine).await;
                };
                // cancel-safe: the reports change nothing and never end.
                tokio::select! {
                    signal = signals.next() => Ok(signal),
                    () = reports => Ok(signals.next().await),
                }
            }
            Err(fault) => Err(fault),
        },
        signal = signals.next() => Ok(signal),
    };
    manager.report_stopping().await;
    // A signal during the orderly stop may end the process early: committed entries survive a kill.
    tokio::select! {
        _stopped = engine.stop() => {}
        _again = signals.next() => {}
    }
    ended.map(Signal::exit_code)
}

/// Describes how the wallet is opened at this start; `None` if a person opens it.
fn start_unlock(source: &SecretSource) -> Option<String> {
    Some(match source {
        SecretSource::Terminal => return None,
        SecretSource::Credential(path) => {
            let tier = path.with_file_name(bursar_boot::systemd::TIER_CREDENTIAL);
            let tier = bursar_files::read_text(&tier, 1 << 10).map(|text| text.trim().to_owned());
            tier.unwrap_or_else(|_none| "a credential of the service manager".to_owned())
        }
        SecretSource::File(_) => "a password file".to_owned(),
        SecretSource::Descriptor(_) | SecretSource::Stdin => "a given password".to_owned(),
    })
}

async fn open(
    folder: DataFolder,
    lock: InstanceLock,
    edition: EditionName,
    args: &EngineArgs,
    start_unlock: Option<String>,
) -> Result<Engine, Fault> {
    let mut options = engine::Options::new(folder, lock, Edition::of(edition), Mode::Full);
    options.devices = devices()?;
    options.listen = args.listen.clone();
    options.start_unlock = start_unlock;
    Engine::open(options).await
}

/// Records the start, unlocks the wallet, and then accepts control connections if the program has a control channel.
///
/// Without a password or a wallet nothing is unlocked.
pub(crate) async fn unlock_and_serve(
    engine: &Engine,
    password: Option<SecretString>,
    control: Option<ControlChannel>,
) -> Result<(), Fault> {
    engine.record_start().await?;
    if let Some(password) = password.filter(|_given| engine.wallet_exists()) {
        engine.unlock(password).await?;
    }
    match control {
        Some(channel) => engine.serve_control(channel).await,
        None => Ok(()),
    }
}

async fn start(
    engine: &Engine,
    password: Option<SecretString>,
    control: Option<ControlChannel>,
    args: &EngineArgs,
) -> Result<Option<SocketAddr>, Fault> {
    if password.is_some() && !engine.wallet_exists() {
        print_err("There is no wallet yet, so the given password is not used.");
    }
    unlock_and_serve(engine, password, control).await?;
    // `--listen` starts the server even if the autostart setting is off.
    let wanted = !args.no_server && (args.listen.is_some() || engine.autostart());
    if wanted { engine.start_server().await.map(Some) } else { Ok(None) }
}

/// Reads the password from an option or the environment. The engine never asks on a terminal.
pub(crate) async fn password(source: SecretSource) -> Result<Option<SecretString>, Fault> {
    let read = tokio::task::spawn_blocking(move || read_password(&source)).await;
    read.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?
}

/// Reads the password from an option or the environment; `None` if neither has one.
///
/// Blocks until the source delivers it.
///
/// # Errors
/// An error of [`SecretSource::read`], or `BAD_INPUT` if the password is not UTF-8.
pub(crate) fn read_password(source: &SecretSource) -> Result<Option<SecretString>, Fault> {
    let Some(Secret(bytes)) = source.read(&mut Stdin)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        Fault::because(Code::BadInput, "The given password is not UTF-8 text: give it as UTF-8.")
            .with_detail(error)
    })?;
    Ok(Some(SecretString::from(text)))
}

/// Writes the READY line to standard output. Ignores write errors, because the reader may have gone away.
fn announce(server: Option<SocketAddr>, json: Option<JsonVersion>) {
    let url = server.map(|address| format!("http://{address}"));
    let (mut out, mut err) = (io::stdout(), io::stderr());
    if let Some(version) = json {
        let data = serde_json::json!({ "url": url });
        let _reader_gone = oneshot::succeed(version, "engine", &data, &mut out, &mut err);
        return;
    }
    let line = url.map_or("READY\n".to_owned(), |url| format!("READY {url}\n"));
    let _reader_gone = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn print_err(message: &str) {
    let _closed = writeln!(io::stderr(), "bursar: {message}");
}
