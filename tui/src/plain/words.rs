//! The console's own texts, in ASCII.

use bursar_control::grammar::CommandSet;
use bursar_core::text;

use super::setup::Setup;
use crate::console::model::server::Server;
use crate::oneshot;

/// The words that only this console knows.
const OWN_WORDS: [(&str, &str); 3] = [
    ("help", "This list. `help approve` explains one command."),
    ("next", "The next step of the set-up."),
    ("quit", "Leave the console, as Ctrl-D does."),
];

/// Returns text for the output: no line is longer than the width, except for a word that is.
pub(super) fn fit(text: &str, setup: &Setup) -> String {
    // Our texts shorten with one character that not every terminal can show.
    let text = text.replace('\u{2026}', "...");
    let text = text::hints_for_program(&text, setup.commands.program);
    oneshot::fit(&text, Some(setup.columns()), setup.color)
}

/// Wraps a line that is printed after the console has ended.
pub fn wrapped(line: &str) -> String {
    fit(line, &Setup::default()).trim_end().to_owned()
}

/// Returns the first lines.
pub(super) fn greeting(setup: &Setup) -> String {
    let mut lines = Vec::new();
    if let Some(reason) = &setup.reason {
        lines.push(format!("No full screen is possible here: {}.", text::visible(reason)));
    }
    lines.push(format!("Bursar {}, line by line. Type a command, help or quit.", crate::VERSION));
    if setup.observe {
        lines.push("This console only observes: it decides and changes nothing.".to_owned());
    }
    lines.join("\n")
}

/// Describes the wallet and the server, one fact in a line.
pub(super) fn state(server: &Server, owner: bool) -> String {
    let Some(status) = &server.status else { return String::new() };
    let name = status.wallet.name.as_deref().unwrap_or_default();
    let mut lines = vec![match (status.wallet.exists, status.wallet.locked) {
        (false, _) => "There is no wallet yet. The first step: next".to_owned(),
        (true, true) => format!("The wallet {name} is locked. Open it with: wallet open"),
        (true, false) => format!("The wallet {name} is open."),
    }];
    lines.push(match status.server.running {
        true => "The server for agents runs.".to_owned(),
        false => "The server for agents does not run. Start it with: server start".to_owned(),
    });
    lines.extend(status.frozen.then(|| "Agents are frozen. Let them work with: thaw".to_owned()));
    lines.extend(server.silent().map(|silent| format!("{}.", silent.text())));
    lines.extend(owner.then(|| "The engine runs in this console.".to_owned()));
    let lines: Vec<String> = lines.iter().map(|line| text::visible(line)).collect();
    lines.join("\n")
}

/// Returns the list of commands.
pub(super) fn help(commands: &CommandSet) -> String {
    let tree = commands.tree();
    let commands = tree.get_subcommands().filter(|one| !one.is_hide_set());
    let commands = commands.map(|one| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        (one.get_name().to_owned(), about)
    });
    let own = OWN_WORDS.iter().map(|(word, about)| ((*word).to_owned(), (*about).to_owned()));
    let mut text = "Type a command and its words. A question takes the word yes.\n".to_owned();
    for (name, about) in own.chain(commands.filter(|(name, _about)| name != "watch")) {
        text.push_str(&format!("  {name:<12}{about}\n"));
    }
    text.push_str("Several requests: approve <id> <id>, deny --agent <name>, deny --all.");
    text
}

/// Formats the time that is left: `1:00`.
pub(super) fn time_left(left_ms: u64) -> String {
    let seconds = left_ms.div_ceil(1_000);
    let (minutes, rest) = (seconds / 60, seconds % 60);
    format!("{minutes}:{rest:02}")
}
