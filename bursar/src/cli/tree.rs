//! The tree of commands of each program.

use bursar_control::grammar::DENY_USAGE;
use bursar_control::grammar::absent;
use bursar_core::edition::EditionName;
use bursar_core::text::for_program;
use bursar_engine::edition::Edition;

/// Returns the tree of an edition's commands, from that of all commands.
pub(super) fn for_edition(whole: clap::Command, edition: EditionName) -> clap::Command {
    let program = edition.program();
    let whole = whole.name(program).bin_name(program);
    let known = absent::hide(whole, Edition::of(edition).commands.absent);
    let known = with_folder_help(known, edition);
    with_program(known, program)
}

/// Describes where the data folder of a portable edition is.
pub(super) fn with_folder_help(command: clap::Command, edition: EditionName) -> clap::Command {
    if Edition::of(edition).folder.reads_environment() {
        return command;
    }
    let help = "The data folder [default: next to this program]";
    command.mut_arg("data", |data| data.help(help))
}

/// Replaces the name of the full edition's program in the help.
fn with_program(command: clap::Command, program: &str) -> clap::Command {
    if program == EditionName::default().program() {
        return command;
    }
    let named = |text: Option<&clap::builder::StyledStr>| {
        text.map(|text| for_program(&text.to_string(), program).into_owned())
    };
    let (before, after) = (named(command.get_before_help()), named(command.get_after_help()));
    let (about, long) = (named(command.get_about()), named(command.get_long_about()));
    let mut command = command.mut_subcommands(|sub| with_program(sub, program));
    if command.get_name() == "deny" {
        // clap fills in the program's name only where it generates the usage.
        command = command.override_usage(for_program(DENY_USAGE, program).into_owned());
    }
    if let Some(text) = before {
        command = command.before_help(text);
    }
    if let Some(text) = after {
        command = command.after_help(text);
    }
    if let Some(text) = about {
        command = command.about(text);
    }
    if let Some(text) = long {
        command = command.long_about(text);
    }
    command
}
