//! Completion of the command line: commands and options from the grammar, names from the engine's answers.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, LazyLock};

use bursar_control::answers::NamesAnswer;
use bursar_control::grammar::names::{NameKind, unquoted};
use bursar_control::grammar::{CommandSet, Order};
use bursar_core::fault::Fault;
use clap::Command;
use clap_complete::engine::{self, CompletionCandidate};

use super::model::server::Server;
use crate::completion::with_names;
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

/// Completes the last word by what is under the cursor: a command, an option, the value of an option or an argument.
pub(crate) fn complete(line: &str, server: &Server, commands: &CommandSet) -> CompletedLine {
    let (before, word) = line.split_at(last_word(line));
    let mut words: Vec<OsString> =
        shlex::split(before).unwrap_or_default().into_iter().map(OsString::from).collect();
    words.push(word.into());
    let names = Arc::new(names(server));
    let candidates = move |kind, typed: &OsStr| matching(&names, kind, typed);
    let (mut tree, index) = (with_names(commands.tree(), &candidates), words.len() - 1);
    let found = engine::complete(&mut tree, words, index, None).unwrap_or_default();
    let shown = found.iter().filter(|one| !one.is_hide_set());
    let texts = shown.filter_map(|one| one.get_value().to_str()).map(str::to_owned);
    let mut choices: Vec<String> =
        texts.filter(|text| !["help", "--help", "-h"].contains(&text.as_str())).collect();
    choices.sort();
    choices.dedup();
    let prefix = common_prefix(&choices).filter(|prefix| prefix.len() >= word.len());
    let mut completed = prefix.unwrap_or_else(|| word.to_owned());
    if choices.len() == 1 {
        completed.push(' ');
    }
    CompletedLine { line: format!("{before}{completed}"), choices }
}

/// Returns the byte at which the last word begins. A space in quotes or after a backslash ends no word.
fn last_word(line: &str) -> usize {
    let (mut start, mut quote, mut is_escaped) = (0, None, false);
    for (at, one) in line.char_indices() {
        match (one, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', _) if quote != Some('\'') => is_escaped = true,
            (' ', None) => start = at.saturating_add(1),
            ('"' | '\'', None) => quote = Some(one),
            (_, Some(open)) if one == open => quote = None,
            _other => {}
        }
    }
    start
}

/// Returns the names that begin like the typed word. A name with a space is quoted as in a shell.
fn matching(names: &NamesAnswer, kind: NameKind, typed: &OsStr) -> Vec<CompletionCandidate> {
    let wanted = unquoted(&typed.to_string_lossy());
    let fitting = names.of(kind).into_iter().filter(|name| name.starts_with(&wanted));
    let quoted = fitting.filter_map(|name| Some(shlex::try_quote(&name).ok()?.into_owned()));
    quoted.map(CompletionCandidate::new).collect()
}

/// Returns the names in the engine's last answers.
fn names(server: &Server) -> NamesAnswer {
    let short = |id: &String| id.chars().take(8).collect::<String>();
    let positions = server.positions.iter().flat_map(|answer| &answer.positions);
    NamesAnswer {
        waiting: server.queue.iter().map(|row| short(&row.request.id)).collect(),
        requests: server.history.iter().flatten().map(|row| short(&row.id)).collect(),
        sends: server.sends.iter().flatten().map(|send| short(&send.id)).collect(),
        agents: server.agents.iter().flatten().map(|agent| agent.name.clone()).collect(),
        policies: server.policies.iter().flatten().map(|policy| policy.name.clone()).collect(),
        addresses: server.addresses.iter().flatten().map(|one| one.label.clone()).collect(),
        venues: positions.map(|position| position.venue.clone()).collect(),
        ..NamesAnswer::default()
    }
}

/// Commands of the grammar that run only in a shell, because they use files or print keys.
const SHELL_ONLY: [&str; 4] =
    ["history export", "wallet backup", "wallet restore", "address export"];

/// Returns a fault's message with its hint. A hint that is a console command starts with a colon; any other hint is
/// shown as a shell line.
pub(crate) fn with_hint(fault: &Fault) -> String {
    with_hint_after(fault, ":")
}

/// Returns a fault's message with its hint, with `prefix` before a command of the console.
pub(crate) fn with_hint_after(fault: &Fault, prefix: &str) -> String {
    let Some(command) = &fault.hint else { return fault.message.clone() };
    let word = command.split(' ').next().unwrap_or_default();
    let is_ours = COMMAND_TREE.find_subcommand(word).is_some()
        && !SHELL_ONLY.iter().any(|only| command.starts_with(only));
    let typed = if is_ours { format!("{prefix}{command}") } else { wording::in_shell(command) };
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
    use crate::oneshot::tests::fixtures;
    use bursar_control::answers::{AddressAnswer, AgentAnswer, PolicyAnswer};
    use bursar_core::codes::Code;

    fn of(line: &str) -> (String, usize) {
        let completed = complete(line, &Server::default(), &CommandSet::default());
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
    fn the_option_or_argument_under_the_cursor_decides() {
        let server = Server {
            agents: Some(vec![
                AgentAnswer { name: "my bot".to_owned(), ..fixtures::agent() },
                AgentAnswer { name: "reader".to_owned(), ..fixtures::agent() },
            ]),
            policies: Some(vec![PolicyAnswer { name: "careful".to_owned(), ..fixtures::policy() }]),
            addresses: Some(vec![AddressAnswer {
                label: "pay box".to_owned(),
                ..fixtures::address()
            }]),
            ..Server::default()
        };
        for (line, completed) in [
            ("agent commission read", "agent commission reader "),
            ("agent commission 'my bot' care", "agent commission 'my bot' careful "),
            (
                "agent commission my\\ bot careful pay",
                "agent commission my\\ bot careful 'pay box' ",
            ),
            ("agent show my", "agent show 'my bot' "),
            ("agent show 'my b", "agent show 'my bot' "),
            ("agent edit reader --policy care", "agent edit reader --policy careful "),
            (
                "agent edit reader --policy careful --address pa",
                "agent edit reader --policy careful --address 'pay box' ",
            ),
            ("history --agent read", "history --agent reader "),
            ("balances --network bas", "balances --network base"),
            ("config set lock.i", "config set lock.idle "),
            ("policy create care", "policy create care"),
        ] {
            assert_eq!(complete(line, &server, &CommandSet::default()).line, completed, "{line}");
        }
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
            Some("agent commission [OPTIONS] <AGENT> <POLICY> <LABEL>")
        );
        assert_eq!((usage("agent"), usage("nonsense"), usage("")), (None, None, None));
        assert_eq!(of("nonsense x"), ("nonsense x".to_owned(), 0));
    }
}
