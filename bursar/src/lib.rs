//! The programs of the wallet, one for each edition. A program runs one command, the commands on standard input, a
//! console, or the engine in the foreground.
//!
//! It connects engine and client, and makes no decisions itself.

mod boot_service;
mod cli;
mod companion;
mod completion;
mod console;
mod devices;
mod document;
mod embedded_engine;
mod engine_command;
mod examples;
mod failure;
mod help;
mod mandate;
mod panics;
mod process;
mod receipt;
mod run;
mod schema;
mod service_account;
mod service_manager;
mod signals;
mod usage;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use bursar_control::grammar::{MandateOrder, Order, ReceiptCheck, ReceiptOrder};
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::control::ControlChannel;
use bursar_engine::edition::Edition;
use bursar_purchase::PayArgs;
use bursar_tui::secret_source::SecretSource;

use cli::{Cli, Command, EngineArgs, GlobalOptions, Screen, ServiceCommand};
use console::Kind;
use failure::report_failure;

/// How long a blocked thread, such as one that reads a prompt, may delay the exit, in milliseconds.
const LINGER_MS: u64 = 100;

/// Runs the program of an edition with the arguments of the process.
///
/// `control` is the control channel of its engine. A sealed program has none.
pub fn run_program(edition: EditionName, control: Option<ControlChannel>) -> ExitCode {
    let sealed = Edition::of(edition).sealed;
    if !sealed {
        completion::answer_shell(edition);
    }
    process::restrict_access();
    panics::install();
    bursar_serve::signals::outlive_file_size_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut read = Cli::read(edition, arguments.iter().cloned());
    if let Ok(cli) = &mut read {
        cli.global.control = control;
    }
    if let Ok(Cli { global, command: None | Some(Command::Order(_)), .. }) = &read
        && !sealed
        && !Edition::of(edition).commands.lacks("install-service")
        && let Err(fault) = service_account::continue_as_service(global, &arguments)
    {
        return ExitCode::from(report_failure(edition.program(), global, fault));
    }
    ExitCode::from(match read {
        Ok(Cli { global, screen, .. }) if sealed => match console::window_fault(&global) {
            None => {
                in_runtime("console", &global, console::run(&global, &screen, Kind::FullScreen))
            }
            Some(fault) => report_failure("console", &global, fault),
        },
        Ok(Cli { global, screen, command: None }) if screen.headless => {
            dispatch(&global, Command::Engine(EngineArgs::default()))
        }
        Ok(Cli { global, screen, command: Some(command) }) => {
            if screen != Screen::default() {
                usage::reject_console_options(&global)
            } else {
                dispatch(&global, command)
            }
        }
        Ok(Cli { global, screen, command: None }) => match Kind::choose(&global, &screen) {
            Ok(Some(kind)) => in_runtime("console", &global, console::run(&global, &screen, kind)),
            Ok(None) if !io::stdin().is_terminal() => run_piped_session(&global),
            Ok(None) => usage::report_no_command(&global),
            Err(_options_of_commands) => usage::reject_plain(&global),
        },
        Err(error) => usage::parse_error(edition, error, &arguments),
    })
}

/// Runs a piped session: one command per line, in order, until the first failure.
///
/// Skips empty lines and lines that start with `#`. Returns the exit code of the last command that ran.
fn run_piped_session(global: &GlobalOptions) -> u8 {
    if global.options().password == SecretSource::Stdin {
        let message = "Standard input holds the commands: give the password with --password-file.";
        return report_failure("session", global, Fault::because(Code::BadInput, message));
    }
    let mut exit = None;
    for line in io::stdin().lines() {
        let ended = match line {
            Ok(line) if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
            Ok(line) => match global.commands().parse_line(&line) {
                Ok(order) => dispatch(global, Command::Order(Box::new(order))),
                Err(error) => {
                    report_failure("session", global, Fault::because(Code::BadInput, error.0))
                }
            },
            Err(error) => {
                let fault = Fault::because(Code::BadInput, "Standard input cannot be read.");
                report_failure("session", global, fault.with_detail(error))
            }
        };
        if ended != 0 {
            return ended;
        }
        exit = Some(ended);
    }
    exit.unwrap_or_else(|| usage::report_no_command(global))
}

/// Makes the purchase of `bursar pay`.
async fn run_pay(global: &GlobalOptions, args: &PayArgs) -> u8 {
    if global.data.is_some() {
        let message = "`bursar pay` does not use --data: to send a body, use -d or --body.";
        return report_failure("pay", global, Fault::because(Code::BadInput, message));
    }
    let field = Edition::of(global.edition).wire.field;
    bursar_purchase::run(args, &global.options(), field).await
}

fn dispatch(global: &GlobalOptions, command: Command) -> u8 {
    if global.dry_run && !command.has_dry_run() {
        let message = "This command has no dry run: run it without --dry-run.";
        return report_failure(
            global.edition.program(),
            global,
            Fault::because(Code::BadInput, message),
        );
    }
    match command {
        Command::Engine(engine) => {
            process::log_to_stderr("info");
            process::allow_open_files();
            bursar_heap::use_one_arena();
            in_runtime("engine", global, engine_command::run(global, &engine))
        }
        Command::InstallService(install) => boot_service::install(global, &install),
        Command::UninstallService(scope) => boot_service::uninstall(global, scope),
        Command::Service(ServiceCommand::Status(scope)) => boot_service::status(global, scope),
        Command::Demo(demo) => companion::demo(global, &demo.arguments),
        Command::Pay(pay) => {
            process::log_to_stderr(if global.verbose { "warn" } else { "off" });
            in_runtime("pay", global, run_pay(global, &pay))
        }
        Command::Completions { shell } => completion::print_script(global, shell),
        Command::Man { dir } => help::manual(global, &dir),
        Command::Schema { words } => schema::run(global, &words),
        Command::Version => usage::version(global),
        Command::Help { words } => help::run(global, &words),
        Command::Order(order) => {
            if let Order::Mandate(MandateOrder::Verify { file }) = &*order {
                return mandate::verify(global, file);
            }
            if let Order::Receipt(ReceiptOrder {
                check: Some(ReceiptCheck::Verify { file, head }),
                ..
            }) = &*order
            {
                return receipt::verify(global, file, head.as_deref());
            }
            // The answer contains the errors, so the log would repeat them.
            process::log_to_stderr(if global.verbose { "warn" } else { "off" });
            in_runtime(order.name(), global, run::one_shot(global, *order))
        }
    }
}

fn in_runtime(command: &str, global: &GlobalOptions, work: impl Future<Output = u8>) -> u8 {
    panics::name_command(command, global.json.is_some());
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(work);
            runtime.shutdown_timeout(Duration::from_millis(LINGER_MS));
            exit
        }
        Err(error) => {
            report_failure(command, global, Fault::new(Code::InternalError).with_detail(error))
        }
    }
}
