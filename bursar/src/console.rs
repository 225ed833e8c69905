//! `bursar` without a command: the console. Attaches to the engine of the data folder, or runs one in this process.
//! Closing the console never stops an engine that it did not start.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text::{Zone, countdown};
use bursar_engine::edition::Edition;
use bursar_engine::engine::{self, Engine, Mode};
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, InstanceLock, claim, running};
use bursar_tui::console::{self, ColorUse, Connector, QueueAtExit, Setup};
use bursar_tui::link::Link;
use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use crate::cli::{Color, GlobalOptions, Screen};
use crate::devices::devices;
use crate::signals::{Signal, Signals};

/// The file in the data folder that keeps the lines entered in consoles.
const HISTORY_FILE: &str = "console_history";

/// Returns whether the console can run: there is a terminal for input and output, and neither --json nor --no-input.
pub(crate) fn is_possible(global: &GlobalOptions) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !global.json
        && !global.no_input
        && !dumb
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
}

pub(crate) async fn run(global: &GlobalOptions, screen: &Screen) -> u8 {
    match attach_or_become(global, screen).await {
        Ok(exit) => exit,
        Err(fault) => crate::failure::report_failure("console", global, fault),
    }
}

async fn attach_or_become(global: &GlobalOptions, screen: &Screen) -> Result<u8, Fault> {
    let folder = DataFolder::resolve(global.data.clone())?;
    crate::panics::name_folder(folder.path());
    let log = crate::process::console_log(folder.path());
    crate::process::allow_open_files();
    let exit = with_folder(global, screen, folder).await;
    if let Some(log) = log {
        print_line(&log);
    }
    exit
}

async fn with_folder(
    global: &GlobalOptions,
    screen: &Screen,
    folder: DataFolder,
) -> Result<u8, Fault> {
    let setup = Setup {
        owner: false,
        observe: screen.observe,
        colors: color_use(global),
        ascii: screen.ascii || !locale_is_utf8(),
        folder_option: folder_option(global),
        history: Some(folder.path().join(HISTORY_FILE)),
        // Without a known time zone the console shows UTC and labels it.
        zone: TimeZone::try_system().map_or_else(|_unknown| Zone::default(), Zone::of),
    };
    match claim(&folder, ENGINE_WAIT)? {
        Instance::Running(file) => {
            let first = Link::connect(&file, Program::Console).await?;
            let mut signals = SignalRelay::spawn(Signals::listen_on_a_terminal()?);
            let connector = AttachedEngine { folder, first: Some(first) };
            let ended = console::run(connector, setup, signals.next()).await;
            signals.terminal_restored();
            print_line(&exit_line(&ended?));
            Ok(0)
        }
        Instance::Free(_lock) if screen.observe => Err(Fault::new(Code::EngineDown)),
        Instance::Free(lock) => run_own_engine(global, folder, lock, setup).await,
    }
}

/// Runs an engine that stops when its console ends.
async fn run_own_engine(
    global: &GlobalOptions,
    folder: DataFolder,
    lock: InstanceLock,
    setup: Setup,
) -> Result<u8, Fault> {
    let mut signals = SignalRelay::spawn(Signals::listen_on_a_terminal()?);
    let password = crate::engine_command::password(global.password()).await?;
    let mut settings = engine::Options::new(folder, lock, Edition::full(), Mode::Full);
    settings.devices = devices()?;
    let engine = Engine::open(settings).await?;
    let ended = run_console(&engine, password, setup, &mut signals).await;
    signals.terminal_restored();
    if ended.as_ref().is_ok_and(|ended| ended.keeps_engine) {
        print_line(
            "The engine keeps running in this terminal: ^C stops it, and `bursar` in another one attaches a console.",
        );
        signals.next().await;
    }
    // A signal during the orderly stop may end the process early: committed entries survive a kill.
    tokio::select! {
        _stopped = engine.stop() => {}
        () = signals.next() => {}
    }
    let ended = ended?;
    let waiting = ended.waiting.unwrap_or(0);
    print_line(&match waiting {
        0 => "The engine has stopped: agents are refused until it runs again.".to_owned(),
        waiting => format!(
            "The engine has stopped: agents are refused until it runs again. Waiting requests: {waiting}; \
             they can still expire."
        ),
    });
    Ok(0)
}

async fn run_console(
    engine: &Engine,
    password: Option<secrecy::SecretString>,
    setup: Setup,
    signals: &mut SignalRelay,
) -> Result<QueueAtExit, Fault> {
    crate::engine_command::unlock_and_serve(engine, password).await?;
    if engine.autostart() {
        // The console is useful without a server: it shows that none is running and how to start it.
        let _port_taken = engine.start_server().await;
    }
    let setup = Setup { owner: true, ..setup };
    console::run(InProcess(engine), setup, signals.next()).await
}

/// How long a console may take to restore the terminal after a signal.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(3);

/// Receives signals in a separate task, because a console that is blocked on its terminal cannot receive them.
struct SignalRelay {
    signals: mpsc::UnboundedReceiver<Signal>,
    terminal_restored: Arc<AtomicBool>,
}

impl SignalRelay {
    fn spawn(mut signals: Signals) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let terminal_restored = Arc::new(AtomicBool::new(false));
        let is_restored = Arc::clone(&terminal_restored);
        tokio::spawn(async move {
            loop {
                let signal = signals.next().await;
                let _gone = sender.send(signal);
                tokio::time::sleep(RESTORE_TIMEOUT).await;
                if !is_restored.load(Ordering::SeqCst) {
                    // Answered requests are already on disk.
                    std::process::exit(i32::from(signal.exit_code()));
                }
            }
        });
        Self { signals: receiver, terminal_restored }
    }

    async fn next(&mut self) {
        let _which: Option<Signal> = self.signals.recv().await;
    }

    /// Records that the terminal is restored. From then on the process may take longer than [`RESTORE_TIMEOUT`].
    fn terminal_restored(&self) {
        self.terminal_restored.store(true, Ordering::SeqCst);
    }
}

/// Returns the option that selects the same data folder in another shell.
fn folder_option(global: &GlobalOptions) -> String {
    let set = std::env::var_os("BURSAR_DATA_DIR").filter(|dir| !dir.is_empty());
    let folder = global.data.clone().or_else(|| set.map(PathBuf::from));
    let Some(folder) = folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder)) else {
        return String::new();
    };
    let quoted = shlex::try_quote(&folder.to_string_lossy()).map(|text| text.into_owned());
    quoted.map_or_else(|_nul| String::new(), |folder| format!("--data {folder}"))
}

/// Returns the last line, which reports what continues after this console has closed.
fn exit_line(ended: &QueueAtExit) -> String {
    match (ended.waiting, ended.next_ms) {
        (None, _) => "Left the console. The engine could not be reached.".to_owned(),
        (Some(waiting @ 1..), Some(next)) => format!(
            "Left the console; the engine keeps running. Waiting requests: {waiting}; the next expires \
             in {}.",
            countdown(next.div_ceil(1000))
        ),
        (Some(_none), _) => {
            "Left the console; the engine keeps running, and no requests are waiting.".to_owned()
        }
    }
}

fn print_line(line: &str) {
    let _closed = writeln!(io::stdout(), "{line}");
}

fn color_use(global: &GlobalOptions) -> ColorUse {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match global.color {
        Color::Always => ColorUse::Always,
        Color::Never => ColorUse::Never,
        Color::Auto => ColorUse::Auto { no_color },
    }
}

/// Returns whether the locale uses UTF-8. The first variable that is set decides.
pub(crate) fn locale_is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

/// Connects the console to the folder's engine over its socket, and reconnects after the engine has restarted.
struct AttachedEngine {
    folder: DataFolder,
    first: Option<Link>,
}

impl Connector for AttachedEngine {
    async fn connect(&mut self) -> Result<Link, Fault> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let control = running(&self.folder)?.ok_or(Fault::new(Code::EngineDown))?;
        Link::connect(&control, Program::Console).await
    }
}

/// Connects the console to the engine in this process.
struct InProcess<'a>(&'a Engine);

impl Connector for InProcess<'_> {
    async fn connect(&mut self) -> Result<Link, Fault> {
        Ok(Link::over(self.0.connect()?))
    }
}
