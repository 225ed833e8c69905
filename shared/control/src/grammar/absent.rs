//! Commands and options that a program does not have, although the grammar has them.
//!
//! Each is the words of a command, or of a command and an option: `venues`, `policy create --trading`. The word `*` is
//! any command.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Hides commands and options in help and completions.
#[must_use]
pub fn hide(root: Command, absent: &[&str]) -> Command {
    absent.iter().fold(root, |root, path| hide_one(root, path))
}

fn hide_one(command: Command, path: &str) -> Command {
    let (word, rest) = path.split_once(' ').unwrap_or((path, ""));
    if let Some(option) = word.strip_prefix("--") {
        return command.mut_args(
            |arg| {
                if arg.get_long() == Some(option) { arg.hide(true) } else { arg }
            },
        );
    }
    // In place, so that the commands keep their order.
    command.mut_subcommands(|sub| match (is_named(word, sub.get_name()), rest) {
        (false, _) => sub,
        (true, "") => sub.hide(true),
        (true, rest) => hide_one(sub, rest),
    })
}

/// Returns the first of `absent` that the arguments use.
///
/// `command` is the grammar that parsed them.
pub(super) fn used<'a>(
    command: &Command,
    matches: &ArgMatches,
    absent: &[&'a str],
) -> Option<&'a str> {
    absent.iter().copied().find(|path| uses(command, matches, path))
}

fn uses(command: &Command, matches: &ArgMatches, path: &str) -> bool {
    let (word, rest) = path.split_once(' ').unwrap_or((path, ""));
    if let Some(option) = word.strip_prefix("--") {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(option));
        return arg.is_some_and(|arg| {
            matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        });
    }
    let Some((name, inner)) = matches.subcommand().filter(|(name, _inner)| is_named(word, name))
    else {
        return false;
    };
    rest.is_empty() || command.find_subcommand(name).is_some_and(|sub| uses(sub, inner, rest))
}

fn is_named(word: &str, name: &str) -> bool {
    word == "*" || word == name
}
