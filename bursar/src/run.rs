//! Runs one command: attaches to the engine of the data folder, or runs its own engine for the duration of the
//! command.
//!
//! It never stops an engine that it did not start.

use std::io;

use bursar_control::grammar::Order;
use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::settings::ConsoleTime;
use bursar_core::text::Zone;
use bursar_engine::config::Config;
use bursar_engine::operator::doctor;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{COMMAND_WAIT, Instance, InstanceLock, claim};
use bursar_tui::link::Link;
use bursar_tui::oneshot::{self, LocalTime, Options, Streams};
use jiff::tz::TimeZone;

use crate::cli::GlobalOptions;
use crate::embedded_engine::{self, AnswerSources};

pub(crate) async fn one_shot(global: &GlobalOptions, order: Order) -> u8 {
    let command = order.name();
    if order == Order::Doctor {
        return run_doctor(global, order).await;
    }
    let is_bar = matches!(&order, Order::Status(form) if form.tmux) && global.json.is_none();
    match attach_or_become(global, order).await {
        Ok(exit) => exit,
        Err(fault) if is_bar => oneshot::finish_bar_without_engine(&fault, &mut io::stdout()),
        Err(fault) => crate::failure::report_failure(command, global, fault),
    }
}

/// Runs `doctor`, even if no engine can be reached or started. Creates neither the data folder nor the journal.
async fn run_doctor(global: &GlobalOptions, order: Order) -> u8 {
    let path = match DataFolder::locate(global.folder_rule(), global.data.clone()) {
        Ok(path) => path,
        Err(fault) => return crate::failure::report_failure(order.name(), global, fault),
    };
    let command = order.name();
    let closed = std::fs::symlink_metadata(&path)
        .is_ok_and(|found| std::os::unix::fs::MetadataExt::mode(&found) & 0o077 == 0);
    let fault = if closed && path.join("journal.redb").exists() {
        match attach_or_become(global, order).await {
            Ok(exit) => return exit,
            Err(fault) => Some(fault),
        }
    } else {
        None
    };
    let answer = doctor::without_engine(&path, fault.as_ref());
    let (mut out, mut err) = (io::stdout(), io::stderr());
    oneshot::finish_without_engine(command, answer, &global.options(), &mut out, &mut err)
}

/// Runs the command. Returns a fault only if no session began; a session reports its own faults.
async fn attach_or_become(global: &GlobalOptions, order: Order) -> Result<u8, Fault> {
    if global.dry_run && !DataFolder::locate(global.folder_rule(), global.data.clone())?.exists() {
        return Err(no_dry_run());
    }
    let folder = global.open_folder()?;
    crate::panics::name_folder(global, folder.path());
    let options = Options {
        data: Some(folder.path().to_owned()),
        local_time: local_time(&folder),
        ..global.options()
    };
    match claim(&folder, global.edition, COMMAND_WAIT)? {
        Instance::Running(file) => {
            let link = Link::connect(&file, Program::Command).await?;
            let options = Options { engine_running: true, ..options };
            Ok(session(link, order, &options).await)
        }
        // An engine of this command alone would change the folder when it starts.
        Instance::Free(_lock) if global.dry_run => Err(no_dry_run()),
        Instance::Free(_lock) if order.needs_running_engine() => Err(Fault::new(Code::EngineDown)),
        Instance::Free(lock) => become_engine(folder, lock, order, &options, global.edition).await,
    }
}

fn no_dry_run() -> Fault {
    Fault::because(Code::EngineDown, "A dry run needs a running engine.").with_hint("engine")
}

/// Returns the zone of a person who reads the result on a terminal, unless `console.time` asks for UTC.
fn local_time(folder: &DataFolder) -> Option<LocalTime> {
    if !oneshot::out_is_terminal() {
        return None;
    }
    let environment = |name: &str| std::env::var(name).ok();
    // A damaged file is reported by the engine.
    let config = Config::load(&folder.file("settings.toml"), &environment, None).ok()?;
    let zone =
        TimeZone::try_system().ok().filter(|_zone| config.console_time == ConsoleTime::Local)?;
    let year = jiff::Timestamp::now().to_zoned(zone.clone()).year().to_string();
    Some(LocalTime { zone: Zone::of(zone), year })
}

/// Runs the command with its own engine.
async fn become_engine(
    folder: DataFolder,
    lock: InstanceLock,
    order: Order,
    options: &Options,
    edition: EditionName,
) -> Result<u8, Fault> {
    let (near, far) = tokio::net::UnixStream::pair()
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    let serving = tokio::spawn(embedded_engine::serve(
        far,
        folder,
        lock,
        AnswerSources::of(options),
        edition,
    ));
    let exit = session(Link::over(near), order, options).await;
    // The task ends after the session closes its side of the stream and the engine has stopped.
    let _panicked = serving.await;
    Ok(exit)
}

async fn session(link: Link, order: Order, options: &Options) -> u8 {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    oneshot::run(link, order, options, Streams::of_process(&mut out, &mut err)).await
}
