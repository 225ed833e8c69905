//! Help, completions, and arguments that name no command.

use std::ffi::OsString;
use std::io::{self, Write};

use bursar_control::json_version::JsonVersion;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::text::for_program;
use bursar_tui::oneshot::{self, Options};
use clap::error::ErrorKind;

use crate::cli::GlobalOptions;

const FIRST_STEPS: &str = "\
bursar: a self-custodial wallet that pays for AI agents, within limits you set.

In a terminal, `bursar` without a command opens the console. Here, `bursar --plain` runs it line by line.
First steps:
  bursar wallet create <name>           an encrypted wallet in your data folder
  bursar engine                         the engine that agents call; leave it running
and in another terminal:
  bursar wallet open                    lets the engine sign
  bursar seed create                    a seed phrase, shown once
  bursar address create <label> 0       an address that agents pay from
  bursar policy create <name> --day 5   what an agent may spend
  bursar agent register <name>          an agent and its credentials
  bursar agent commission <agent> <policy> <label>

Then:  bursar status, bursar requests, bursar approve <id>.   All commands:  bursar --help
";

/// Rejects console options that are used with a command.
pub(crate) fn reject_console_options(global: &GlobalOptions) -> u8 {
    let message =
        "The options of a console, such as --plain, are for it only: use them without a command.";
    crate::failure::report_failure(
        global.edition.program(),
        global,
        Fault::because(Code::BadInput, message),
    )
}

/// Rejects a console together with options that only commands can follow.
pub(crate) fn reject_plain(global: &GlobalOptions) -> u8 {
    let message = "The console asks and prints text: use --dry-run only with a command, and --plain without --json, \
                   --no-input and --password-stdin.";
    crate::failure::report_failure("console", global, Fault::because(Code::BadInput, message))
}

/// Handles `bursar` without a command where the console cannot run.
pub(crate) fn report_no_command(global: &GlobalOptions) -> u8 {
    if global.json.is_some() {
        let fault = Fault::because(Code::BadInput, "No command was given: see `bursar --help`.");
        return print_envelope(global.edition, fault);
    }
    // A closed standard error cannot be reported anywhere.
    let _closed =
        io::stderr().write_all(for_program(FIRST_STEPS, global.edition.program()).as_bytes());
    Code::BadInput.exit()
}

/// Prints help and version to standard output. Any other error is a usage error with clap's message.
pub(crate) fn parse_error(
    edition: EditionName,
    mut error: clap::Error,
    arguments: &[OsString],
) -> u8 {
    bursar_control::grammar::shorten(&mut error);
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked && wants_json(arguments) {
        return print_envelope(edition, Fault::because(Code::BadInput, plain_message(&error)));
    }
    let _closed = error.print();
    if asked { 0 } else { Code::BadInput.exit() }
}

/// Returns whether arguments that could not be parsed seem to request JSON.
fn wants_json(arguments: &[OsString]) -> bool {
    let own = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    own.filter_map(|argument| argument.to_str()).any(|argument| {
        let short = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        argument == "--json"
            || argument.starts_with("--json=")
            || short.is_some_and(|flags| flags.contains('j'))
    })
}

/// Returns clap's message without colours and without the label `error:`, which the envelope makes redundant.
fn plain_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

fn print_envelope(edition: EditionName, fault: Fault) -> u8 {
    let program = edition.program();
    let options = Options { json: Some(JsonVersion::default()), program, ..Options::default() };
    oneshot::fail(None, fault, &options, &mut io::stdout(), &mut io::stderr())
}

/// Prints the version, and what this program was built with.
pub(crate) fn version(global: &GlobalOptions) -> u8 {
    let features: Vec<&str> =
        [(cfg!(feature = "ledger"), "ledger"), (cfg!(feature = "emulator"), "emulator")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect();
    let commit = option_env!("BURSAR_COMMIT");
    let outbound = bursar_engine::config::Config::default_counterparties();
    let listed = outbound.join("\n");
    let hash = bursar_core::digest::sha256(listed.as_bytes()).map(hex::encode).unwrap_or_default();
    let data = serde_json::json!({
        "version": bursar_tui::VERSION,
        "commit": commit,
        "commit_unknown_reason": commit.is_none().then_some("the build did not set BURSAR_COMMIT"),
        "program": global.edition.program(),
        "features": features,
        "protocols": { "control": bursar_control::wire::PROTOCOL, "x402": [1, 2], "json": [1, 2] },
        "outbound": outbound,
        "outbound_sha256": hash,
    });
    let program = global.edition.program();
    let text = format!(
        "{program:<9} {}\ncommit    {}\nfeatures  {}\nprotocols control {}, x402 1 and 2, json 1 and 2\noutbound  {} servers, sha256 {hash}\n",
        bursar_tui::VERSION,
        commit.unwrap_or("not recorded"),
        if features.is_empty() { "none".to_owned() } else { features.join(", ") },
        bursar_control::wire::PROTOCOL,
        outbound.len(),
    );
    crate::failure::print_result("version", global, &data, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn json_option_is_detected_in_invalid_arguments() {
        let wants = |line: &str| {
            let line = std::iter::once("bursar").chain(line.split_whitespace());
            wants_json(&line.map(OsString::from).collect::<Vec<_>>())
        };
        for line in ["--json nonsense", "agnet list --json", "-j x", "-qj x", "x -yj"] {
            assert!(wants(line), "{line}");
        }
        for line in ["nonsense", "deny 01 -- --json", "--jsonx", "--project", "-q x", "json"] {
            assert!(!wants(line), "{line}");
        }
    }

    #[test]
    fn first_steps_are_valid_commands() {
        let steps: Vec<&str> =
            FIRST_STEPS.lines().filter(|line| line.starts_with("  bursar ")).collect();
        assert_eq!(steps.len(), 8);
        for step in steps {
            let (command, _about) = step.trim().split_once("  ").unwrap_or((step.trim(), ""));
            let filled = command.replace("<agent>", "ABC123").replace(['<', '>'], "");
            let read = Cli::read(EditionName::Full, filled.split_whitespace().map(OsString::from));
            assert!(read.is_ok_and(|cli| cli.command.is_some()), "{filled}");
        }
    }
}
