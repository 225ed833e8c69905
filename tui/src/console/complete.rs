//! Completion of the command line: commands and options from the grammar, names from the engine's answers.

use std::sync::LazyLock;

use bursar_control::grammar::Order;
use bursar_core::fault::Fault;
use clap::Command;

use super::model::server::Server;
use crate::wording;

/// The grammar. It is built only once, because each keystroke in the command line reads it.
static COMMAND_TREE: LazyLock<Command> = LazyLock::new(Order::tree);

/// A line whose last word is completed as far as it is unambiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedLine {
    pub(crate) line: String,
    /// The candidates for the last word.
    pub(crate) choices: Vec<String>,
}

pub(crate) fn complete(line: &str, server: &Server) -> CompletedLine {
    let (before, word) = match line.rfind(' ') {
        Some(space) => line.split_at(space.saturating_add(1)),
        None => ("", line),
    };
    let mut node = &*COMMAND_TREE;
    for done in before.split_whitespace() {
        node = node.find_subcommand(done).unwrap_or(node);
    }
    let mut choices: Vec<String> = if word.starts_with('-') {
        let options = node.get_arguments().filter_map(|argument| argument.get_long());
        options.map(|long| format!("--{long}")).collect()
    } else if node.has_subcommands() {
        let below = node.get_subcommands().filter(|below| !below.is_hide_set());
        below.map(|below| below.get_name().to_owned()).collect()
    } else {
        names(node.get_name(), before, server)
    };
    choices.retain(|choice| choice.starts_with(word) && choice != "help");
    choices.sort();
    choices.dedup();
    let mut completed = common_prefix(&choices).unwrap_or_else(|| word.to_owned());
    if choices.len() == 1 {
        completed.push(' ');
    }
    CompletedLine { line: format!("{before}{completed}"), choices }
}

/// Commands of the grammar that run only in a shell, because they use files or print keys.
const SHELL_ONLY: [&str; 4] =
    ["history export", "wallet backup", "wallet restore", "address export"];

/// Returns a fault's message with its hint. A hint that is a console command starts with a colon; any other hint is
/// shown as a shell line.
pub(crate) fn with_hint(fault: &Fault) -> String {
    let Some(command) = &fault.hint else { return fault.message.clone() };
    let word = command.split(' ').next().unwrap_or_default();
    let is_ours = COMMAND_TREE.find_subcommand(word).is_some()
        && !SHELL_ONLY.iter().any(|only| command.starts_with(only));
    let typed = if is_ours { format!(":{command}") } else { wording::in_shell(command) };
    format!("{} Try `{typed}`.", fault.message)
}

/// Returns the usage of the command on the line, or `None` until the command is complete.
pub(crate) fn usage(line: &str) -> Option<String> {
    let mut node = &*COMMAND_TREE;
    let mut path = String::new();
    for word in line.split_whitespace() {
        let Some(below) = node.find_subcommand(word) else { break };
        path = format!("{path}{} ", below.get_name());
        node = below;
    }
    if path.is_empty() || node.has_subcommands() {
        return None;
    }
    let usage = node.clone().render_usage().to_string();
    let (_name, rest) = usage.split_once(node.get_name())?;
    Some(format!("{path}{}", rest.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Returns the names that may follow on the line. A name with a space is quoted as in a shell.
fn names(command: &str, before: &str, server: &Server) -> Vec<String> {
    let requests = || server.queue.iter().map(|row| row.request.id.chars().take(8).collect());
    let agents = server.agents.iter().flatten();
    let policies = || server.policies.iter().flatten().map(|row| row.name.clone());
    let labels = || server.addresses.iter().flatten().map(|row| row.label.clone());
    let agents = agents.map(|row| row.name.clone());
    // The index of the word, as in `agent commission <agent> <policy> <label>`.
    let word_index = before.split_whitespace().count();
    let names: Vec<String> = match (command, word_index) {
        ("approve" | "deny", _) => requests().collect(),
        ("commission", 3) => policies().collect(),
        ("commission", 4) => labels().collect(),
        _policy if before.starts_with("policy ") => policies().collect(),
        _address if before.starts_with("address ") => labels().collect(),
        _agent if before.starts_with("agent ") => agents.collect(),
        _none => Vec::new(),
    };
    names.into_iter().filter_map(|name| Some(shlex::try_quote(&name).ok()?.into_owned())).collect()
}

/// Returns the longest common prefix.
fn common_prefix(choices: &[String]) -> Option<String> {
    let (first, others) = choices.split_first()?;
    let mut end = first.chars().count();
    for other in others {
        let same = first.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        end = end.min(same);
    }
    Some(first.chars().take(end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::codes::Code;

    fn of(line: &str) -> (String, usize) {
        let completed = complete(line, &Server::default());
        (completed.line, completed.choices.len())
    }

    #[test]
    fn hints_are_shown_as_they_are_typed_in_the_console_or_a_shell() {
        for (hint, shown) in [
            ("wallet open", "Try `:wallet open`."),
            ("agent resume <agent>", "Try `:agent resume <agent>`."),
            ("engine", "Try `bursar engine`."),
            ("history export <file>", "Try `bursar history export <file>`."),
            ("wallet restore <file>", "Try `bursar wallet restore <file>`."),
        ] {
            let fault = Fault::because(Code::BadInput, "No.").with_hint(hint);
            assert_eq!(with_hint(&fault), format!("No. {shown}"));
        }
        assert_eq!(with_hint(&Fault::because(Code::BadInput, "No.")), "No.");
    }

    #[test]
    fn commands_and_options_come_from_the_grammar() {
        assert_eq!(of("fre"), ("freeze ".to_owned(), 1));
        assert_eq!(of("agent comm"), ("agent commission ".to_owned(), 1));
        let (line, several) = of("agent re");
        assert_eq!(line, "agent re");
        assert!(several >= 3, "register, resume, renew");
        assert_eq!(of("policy create p --da"), ("policy create p --day ".to_owned(), 1));
        assert_eq!(
            usage("agent commission reader").as_deref(),
            Some("agent commission <AGENT> <POLICY> <LABEL>")
        );
        assert_eq!((usage("agent"), usage("nonsense"), usage("")), (None, None, None));
        assert_eq!(of("nonsense x"), ("nonsense x".to_owned(), 0));
    }
}
