//! `bursar` without a command: the console. Attaches to the engine of the data folder, or runs one in this process.
//! Closing the console never stops an engine that it did not start.

use std::io::{self, BufReader, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text::{Zone, countdown, for_program};
use bursar_engine::edition::Edition;
use bursar_engine::engine::{self, Engine, Mode};
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, InstanceLock, claim, running};
use bursar_tui::console::{self, ColorUse, Connector, QueueAtExit, Setup};
use bursar_tui::link::Link;
use bursar_tui::oneshot::{self, ControllingTerminal};
use bursar_tui::plain::{self, Ended};
use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use crate::cli::{Color, GlobalOptions, Screen, locale_is_utf8};
use crate::devices::devices;
use crate::failure::{in_another_folder, report_failure};
use crate::signals::{Signal, Signals};

/// The file in the data folder that keeps the lines entered in consoles.
const HISTORY_FILE: &str = "console_history";
/// The folder in the data folder of a sealed program for the files that its commands write and read.
const EXPORTS_FOLDER: &str = "exports";

/// How the console reads and prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    FullScreen,
    /// Line by line, with the reason if the operator did not choose it.
    Plain(Option<String>),
}

/// The arguments have options that only commands can follow: a console asks, and prints text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionsOfCommands;

impl Kind {
    /// Returns the kind of console that can run here; `None` if no person is at a terminal.
    pub(crate) fn choose(
        global: &GlobalOptions,
        screen: &Screen,
    ) -> Result<Option<Self>, OptionsOfCommands> {
        // A console asks before it changes something, and a password on standard input would be a command there.
        let is_refused = global.dry_run || (screen.plain && global.password_stdin);
        if is_refused && (screen.plain || io::stdin().is_terminal()) {
            return Err(OptionsOfCommands);
        }
        if global.json.is_some() || global.no_input {
            return if screen.plain { Err(OptionsOfCommands) } else { Ok(None) };
        }
        if screen.plain {
            return Ok(Some(Kind::Plain(None)));
        }
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        if Edition::of(global.edition).starts_plain && !screen.gui {
            return Ok(Some(Kind::Plain(None)));
        }
        Ok(Some(match no_full_screen(std::env::var("TERM").ok().as_deref()) {
            Some(reason) => Kind::Plain(Some(reason)),
            None => Kind::FullScreen,
        }))
    }
}

/// Returns why the window of a sealed program cannot be drawn here.
pub(crate) fn window_fault(global: &GlobalOptions) -> Option<Fault> {
    let program = global.edition.program();
    let term = std::env::var("TERM").ok();
    let why = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        no_full_screen(term.as_deref())?
    } else {
        "standard input and standard output are not both a terminal".to_owned()
    };
    let message = format!("The window needs a terminal, and {why}: start {program} in a terminal.");
    Some(Fault::because(Code::ConfirmationNeeded, message))
}

/// Returns why a terminal of this type has no full screen.
fn no_full_screen(term: Option<&str>) -> Option<String> {
    match term {
        None | Some("") => Some("TERM is not set".to_owned()),
        Some("dumb") => Some("TERM is dumb".to_owned()),
        Some(_type) => None,
    }
}

pub(crate) async fn run(global: &GlobalOptions, screen: &Screen, kind: Kind) -> u8 {
    match in_folder(global, screen, kind).await {
        Ok(exit) => exit,
        Err(fault) => report_failure("console", global, fault),
    }
}

async fn in_folder(global: &GlobalOptions, screen: &Screen, kind: Kind) -> Result<u8, Fault> {
    let folder = global.open_folder()?;
    crate::panics::name_folder(global, folder.path());
    let log = crate::process::console_log(folder.path());
    crate::process::allow_open_files();
    let exit = loop {
        let ended = attach_or_become(global, screen, kind.clone(), folder.clone()).await;
        match ended {
            Ok(Ended { queue: QueueAtExit { run_closed: Some(order), .. }, .. }) => {
                // The window names the folder, wherever the program is by now.
                let data = Some(folder.path().to_owned());
                let global = GlobalOptions { data, ..global.clone() };
                crate::run::one_shot(&global, order).await;
                if !wait_for_enter().await {
                    break Ok(0);
                }
            }
            ended => break ended.map(|ended| ended.exit),
        }
    };
    if let Some(log) = log {
        print_line(&log);
    }
    exit
}

/// Waits until the operator has read what a command printed. Returns whether the window is to open again.
async fn wait_for_enter() -> bool {
    print_line("Press Enter to open the window again, or ^C to leave.");
    let read = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new()));
    tokio::select! {
        read = read => matches!(read, Ok(Ok(1..))),
        () = oneshot::ctrl_c() => false,
    }
}

async fn attach_or_become(
    global: &GlobalOptions,
    screen: &Screen,
    kind: Kind,
    folder: DataFolder,
) -> Result<Ended, Fault> {
    let sealed = Edition::of(global.edition).sealed;
    let setup = Setup {
        owner: false,
        observe: screen.observe,
        colors: color_use(global),
        ascii: screen.ascii || !locale_is_utf8(),
        folder_option: folder_option(global),
        history: Some(folder.path().join(HISTORY_FILE)),
        // Without a known time zone the console shows UTC and labels it.
        zone: TimeZone::try_system().map_or_else(|_unknown| Zone::default(), Zone::of),
        commands: global.commands(),
        password_advice: Edition::of(global.edition).password_advice,
        exports: sealed.then(|| folder.file(EXPORTS_FOLDER)),
    };
    match claim(&folder, global.edition, ENGINE_WAIT)? {
        Instance::Running(_other) if sealed => Err(Fault::new(Code::EngineRunning)),
        Instance::Running(file) => {
            let first = Link::connect(&file, Program::Console).await?;
            let mut signals = SignalRelay::spawn(Signals::listen_on_a_terminal()?);
            let connector = AttachedEngine { folder, first: Some(first) };
            let is_plain = kind != Kind::FullScreen;
            let ended = show(connector, setup, kind, signals.next()).await;
            signals.terminal_restored();
            let ended = ended?;
            print_end(&exit_line(&ended.queue), is_plain);
            Ok(ended)
        }
        Instance::Free(_lock) if screen.observe => Err(Fault::new(Code::EngineDown)),
        Instance::Free(lock) => run_own_engine(global, folder, lock, setup, kind).await,
    }
}

/// Runs an engine that stops when its console ends.
async fn run_own_engine(
    global: &GlobalOptions,
    folder: DataFolder,
    mut lock: InstanceLock,
    setup: Setup,
    kind: Kind,
) -> Result<Ended, Fault> {
    let edition = Edition::of(global.edition);
    let mut signals = SignalRelay::spawn(Signals::listen_on_a_terminal()?);
    if edition.sealed {
        lock.name_holder(&folder, edition.name)?;
    }
    let password = crate::engine_command::password(global.password()).await?;
    let mut settings = engine::Options::new(folder, lock, edition, Mode::Full);
    settings.devices = devices()?;
    let engine = Engine::open(settings).await.map_err(|fault| match fault.code {
        Code::JournalDamaged if global.control.is_none() => {
            let why = fault.message.split(". Nothing was changed").next().unwrap_or_default();
            in_another_folder(fault.code, why)
        }
        _other => fault,
    })?;
    let is_plain = kind != Kind::FullScreen;
    let ended = run_console(global, &engine, password, setup, kind, &mut signals).await;
    signals.terminal_restored();
    if ended.as_ref().is_ok_and(|ended| ended.queue.keeps_engine) {
        print_line(&for_program(
            "The engine keeps running in this terminal: ^C stops it, and `bursar` in another one attaches a console.",
            global.edition.program(),
        ));
        signals.next().await;
    }
    // A signal during the orderly stop may end the process early: committed entries survive a kill.
    tokio::select! {
        _stopped = engine.stop() => {}
        () = signals.next() => {}
    }
    let ended = ended?;
    // The number at the end of the console is not the number now.
    let known = ended.queue.waiting.filter(|_count| !ended.queue.keeps_engine);
    let waiting = known.unwrap_or(0);
    let line = match waiting {
        0 => "The engine has stopped: agents are refused until it runs again.".to_owned(),
        waiting => format!(
            "The engine has stopped: agents are refused until it runs again. Waiting requests: {waiting}; \
             they can still expire."
        ),
    };
    print_end(&line, is_plain);
    Ok(ended)
}

async fn run_console(
    global: &GlobalOptions,
    engine: &Engine,
    password: Option<secrecy::SecretString>,
    setup: Setup,
    kind: Kind,
    signals: &mut SignalRelay,
) -> Result<Ended, Fault> {
    crate::engine_command::unlock_and_serve(engine, password, global.control).await?;
    if engine.autostart() {
        // The console is useful without a server: it shows that none is running and how to start it.
        let _port_taken = engine.start_server().await;
    }
    let setup = Setup { owner: true, ..setup };
    show(InProcess(engine), setup, kind, signals.next()).await
}

/// Runs the console of this kind.
async fn show(
    connector: impl Connector,
    setup: Setup,
    kind: Kind,
    stop: impl Future<Output = ()>,
) -> Result<Ended, Fault> {
    let Kind::Plain(reason) = kind else {
        let queue = console::run(connector, setup, stop).await?;
        return Ok(Ended { exit: 0, queue });
    };
    let setup = plain::Setup {
        owner: setup.owner,
        observe: setup.observe,
        color: setup.colors == ColorUse::Always,
        width: oneshot::out_width(),
        shows_secrets: oneshot::out_is_terminal(),
        reason,
        folder_option: setup.folder_option,
        commands: setup.commands,
        password_advice: setup.password_advice,
    };
    let mut out = io::stdout();
    let streams = plain::Streams {
        input: Box::new(BufReader::new(io::stdin())),
        out: &mut out,
        terminal: Arc::new(ControllingTerminal::default()),
    };
    plain::run(connector, setup, streams, stop).await
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
    let may_be_set = global.folder_rule().reads_environment();
    let set = DataFolder::of_environment().filter(|_folder| may_be_set);
    let folder = global.data.clone().or(set);
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

fn print_end(line: &str, is_plain: bool) {
    if is_plain { print_line(&plain::wrapped(line)) } else { print_line(line) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::json_version::JsonVersion;

    #[test]
    fn plain_console_needs_no_terminal_and_refuses_options_of_commands() {
        let screen = Screen { plain: true, ..Screen::default() };
        let kind = |global: &GlobalOptions, screen: &Screen| Kind::choose(global, screen);
        let json = GlobalOptions { json: Some(JsonVersion::Two), ..GlobalOptions::default() };
        assert_eq!(kind(&GlobalOptions::default(), &screen), Ok(Some(Kind::Plain(None))));
        assert_eq!(kind(&json, &screen), Err(OptionsOfCommands));
        assert_eq!(kind(&json, &Screen::default()), Ok(None));
    }

    #[test]
    fn a_terminal_without_a_full_screen_gives_its_reason() {
        assert_eq!(no_full_screen(Some("dumb")).as_deref(), Some("TERM is dumb"));
        assert_eq!(no_full_screen(Some("")), no_full_screen(None));
        assert_eq!(no_full_screen(Some("xterm")), None);
    }
}
