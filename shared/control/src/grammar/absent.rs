//! Commands and options that a program does not have, although the grammar has them.
//!
//! Each is the words of a command, or of a command and an option: `venues`, `policy create --trading`. The word `*` is
//! any command.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

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

/// Returns the first of `absent` that a path of words contains.
pub(super) fn first_along<'a>(
    path: impl IntoIterator<Item = impl AsRef<str>>,
    absent: &[&'a str],
) -> Option<&'a str> {
    let mut whole = String::new();
    path.into_iter().find_map(|word| {
        whole.push_str(word.as_ref());
        let found = absent.iter().copied().find(|known| *known == whole);
        whole.push(' ');
        found
    })
}

/// Returns the names of the commands along the words of a line, such as `policy`, `create`.
///
/// It skips options and their values.
pub(super) fn path_of(root: &Command, words: &[OsString]) -> Vec<String> {
    let (mut node, mut path) = (root, Vec::new());
    let mut words = words.iter().map(|word| word.to_string_lossy());
    if !root.is_no_binary_name_set() {
        let _program = words.next();
    }
    while let Some(word) = words.next() {
        if let Some(option) = word.strip_prefix("--") {
            let arg = node.get_arguments().find(|arg| arg.get_long() == Some(option));
            let takes_next =
                |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
            if arg.is_some_and(takes_next) {
                let _value = words.next();
            }
        } else if !word.starts_with('-') {
            let Some(sub) = node.find_subcommand(&*word) else { break };
            path.push(sub.get_name().to_owned());
            node = sub;
        }
    }
    path
}

fn is_named(word: &str, name: &str) -> bool {
    word == "*" || word == name
}
