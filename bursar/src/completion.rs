//! Completion in shells: commands and options from the grammar, names from the running engine.
//!
//! A shell calls the program with `COMPLETE` set for each word that it completes. It waits for the answer, so the engine
//! has [`PATIENCE`]; without an answer in that time nothing is offered, and nothing is printed.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use bursar_control::answers::{Answer, NamesAnswer};
use bursar_control::grammar::Order;
use bursar_control::grammar::names::{NameKind, unquoted};
use bursar_control::wire::{Asking, ToClient, ToEngine};
use bursar_core::client::Program;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::edition::Edition;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::running_at;
use bursar_tui::completion::with_names;
use bursar_tui::link::{Link, Received};
use clap::Command;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::{GlobalOptions, Shell};

/// The variable that names the shell that asks for completions.
const VARIABLE: &str = "COMPLETE";
/// How long the engine may take to list its names.
const PATIENCE: Duration = Duration::from_millis(100);

/// Answers a shell that asks for completions, and ends the process. Returns if none asks.
pub(crate) fn answer_shell(edition: EditionName) {
    // A completion that fails prints nothing: its text would be on the command line.
    // clap removes the variable before it completes.
    let shell = std::env::var(VARIABLE).unwrap_or_default();
    CompleteEnv::with_factory(move || command(edition, &shell))
        .var(VARIABLE)
        .completer(edition.program())
        .complete();
}

/// Prints the script that a shell evaluates, and returns the exit code.
pub(crate) fn print_script(global: &GlobalOptions, shell: Shell) -> u8 {
    let program = global.edition.program();
    let mut script = Vec::new();
    match Shells::builtins().completer(shell.name()) {
        Some(known) => {
            // Writing to memory cannot fail.
            let _infallible =
                known.write_registration(VARIABLE, program, program, program, &mut script);
        }
        // Nushell takes a list of commands and options instead, without names.
        None => {
            let generator = clap_complete_nushell::Nushell;
            let mut tree = crate::cli::command(global.edition);
            clap_complete::generate(generator, &mut tree, program, &mut script);
        }
    }
    let text = String::from_utf8_lossy(&script);
    let data = serde_json::json!({ "shell": shell.name(), "script": text });
    crate::failure::print_result("completions", global, &data, &script)
}

/// Returns the grammar, with names for the arguments that take them.
fn command(edition: EditionName, shell: &str) -> Command {
    let shell = shell.to_owned();
    let candidates = move |kind, typed: &OsStr| candidates(edition, kind, typed, &shell);
    with_names(crate::cli::command(edition), &candidates)
}

/// Returns the names that begin like the typed word, as the shell expects them.
fn candidates(
    edition: EditionName,
    kind: NameKind,
    typed: &OsStr,
    shell: &str,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let names = match kind {
        NameKind::Network | NameKind::Setting => NamesAnswer::default(),
        _of_the_engine => names(edition).unwrap_or_default(),
    };
    matching(&names.of(kind), &typed, shell).into_iter().map(CompletionCandidate::new).collect()
}

fn matching(names: &[String], typed: &str, shell: &str) -> Vec<String> {
    let wanted = unquoted(typed);
    let mut fitting: Vec<&String> = names.iter().filter(|name| name.starts_with(&wanted)).collect();
    fitting.sort();
    fitting.dedup();
    fitting.into_iter().filter_map(|name| quoted(name, typed, shell)).collect()
}

/// Quotes a name for a shell that inserts candidates as they are; `None` if an open quotation mark makes that
/// impossible.
///
/// Names come from other people, and may contain any printable ASCII.
fn quoted(name: &str, typed: &str, shell: &str) -> Option<String> {
    let plain = |one: char| one.is_ascii_alphanumeric() || "-_./@%+=,".contains(one);
    match shell {
        // Readline removes an open quotation mark and what follows it before it compares.
        "bash" if typed.starts_with(['"', '\'']) => {
            let special = ['"', '\'', '\\', '$', '`', '!'];
            Some(name.to_owned()).filter(|name| !name.contains(special))
        }
        "bash" => {
            let escaped = name.chars().flat_map(|one| {
                let backslash = (!plain(one)).then_some('\\');
                backslash.into_iter().chain([one])
            });
            Some(escaped.collect())
        }
        "powershell" if !name.chars().all(plain) => Some(format!("'{}'", name.replace('\'', "''"))),
        _quotes_by_itself => Some(name.to_owned()),
    }
}

/// Asks the running engine for its names; `None` if there is none, or if it does not answer in time.
fn names(edition: EditionName) -> Option<NamesAnswer> {
    let rule = Edition::of(edition).folder;
    let path = DataFolder::locate(rule, data_option()).ok()?;
    let file = running_at(&path).ok()??;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let asked = async {
            let mut link = Link::connect(&file, Program::Command).await?;
            ask(&mut link).await
        };
        tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?
    })
}

async fn ask(link: &mut Link) -> Result<Option<NamesAnswer>, Fault> {
    let order = Box::new(Order::Names);
    link.send(&ToEngine::Run { id: 1, order, asking: Asking::Silent }).await?;
    loop {
        if let Received::Message(ToClient::Done { reply, .. }) = link.receive().await? {
            return Ok(match reply.result {
                Ok(Answer::Names(names)) => Some(names),
                Ok(_) | Err(_) => None,
            });
        }
    }
}

/// Returns the value of `--data` on the line that is completed.
fn data_option() -> Option<PathBuf> {
    let mut words = std::env::args_os().skip_while(|word| word != "--");
    while let Some(word) = words.next() {
        if word == "--data" {
            return words.next().map(PathBuf::from);
        }
        if let Some(value) = word.to_str().and_then(|word| word.strip_prefix("--data=")) {
            return Some(PathBuf::from(value));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_offered_as_each_shell_needs_them() {
        let names = ["my bot", "my$(date)", "mine", "it's", "other"].map(str::to_owned);
        assert_eq!(matching(&names, "mi", "bash"), ["mine"]);
        assert_eq!(matching(&names, "my", "bash"), ["my\\ bot", "my\\$\\(date\\)"]);
        assert_eq!(matching(&names, "my\\ b", "bash"), ["my\\ bot"]);
        assert_eq!(matching(&names, "'my", "bash"), ["my bot"], "no expansion inside quotes");
        assert_eq!(matching(&names, "my", "zsh"), ["my bot", "my$(date)"]);
        assert_eq!(matching(&names, "it", "powershell"), ["'it''s'"]);
        assert_eq!(matching(&names, "o", "fish"), ["other"]);
        assert!(matching(&names, "nothing", "bash").is_empty());
    }

    #[test]
    fn networks_and_settings_need_no_engine() {
        let complete = |line: &str| {
            let words: Vec<_> = line.split(' ').map(std::ffi::OsString::from).collect();
            let index = words.len() - 1;
            let found = clap_complete::engine::complete(
                &mut command(EditionName::Full, "bash"),
                words,
                index,
                None,
            )
            .unwrap();
            found
                .iter()
                .map(|one| one.get_value().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        assert!(complete("bursar balances --network ba").contains(&"base".to_owned()));
        assert_eq!(complete("bursar config get lock."), ["lock.idle"]);
        assert!(complete("bursar policy cr").contains(&"create".to_owned()));
        assert!(complete("bursar policy create p --da").contains(&"--day".to_owned()));
    }
}
