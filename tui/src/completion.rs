//! Completion of names: joins the arguments of the grammar to a source of names.

use std::ffi::OsStr;

use bursar_control::grammar::names::{NameKind, name_kind};
use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

/// Lets `candidates` complete every argument that names an existing object.
///
/// `command` is the root of the grammar. `candidates` gets the kind of object and the typed word.
pub fn with_names<F>(command: Command, candidates: &F) -> Command
where
    F: Fn(NameKind, &OsStr) -> Vec<CompletionCandidate> + Clone + Send + Sync + 'static,
{
    with_names_below(command, &[], candidates)
}

fn with_names_below<F>(command: Command, above: &[String], candidates: &F) -> Command
where
    F: Fn(NameKind, &OsStr) -> Vec<CompletionCandidate> + Clone + Send + Sync + 'static,
{
    let path: Vec<&str> = above.iter().map(String::as_str).collect();
    let command = command.mut_args(|argument| {
        let Some(kind) = name_kind(&path, argument.get_id().as_str()) else { return argument };
        let candidates = candidates.clone();
        argument.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(kind, typed)))
    });
    command.mut_subcommands(|below| {
        let path: Vec<String> =
            above.iter().cloned().chain([below.get_name().to_owned()]).collect();
        with_names_below(below, &path, candidates)
    })
}
