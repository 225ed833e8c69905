//! What replaces each key in the plain console, as the manual of keys lists it.

use super::table::KEYS;
use super::{Context, KeyAction};

/// Returns what replaces an action in a context.
///
/// A text that does not begin with "Not needed" names commands between backticks.
fn replacement(context: Context, action: KeyAction) -> &'static str {
    of_decision(context, action).unwrap_or_else(|| of_other(context, action))
}

/// Returns what replaces an action that opens or decides a request, or answers a question.
fn of_decision(context: Context, action: KeyAction) -> Option<&'static str> {
    use KeyAction::{ApproveMarked, DenyMarked, Mark, MarkAll, No, Open, OpenToDeny, Yes};
    Some(match (context, action) {
        (Context::Panes, Open) => {
            "`approve <id>` prints the card of a request; `receipt <id>`, `agent show <agent>`, `policy show <name>`"
        }
        (_, Open) => "`approve <id>`",
        (_, OpenToDeny) => "`deny <id>`",
        (_, Mark | MarkAll) => "Not needed, because commands name their requests",
        (_, ApproveMarked) | (Context::ApproveMarked, Yes) => {
            "`approve <id> <id>`: each with its card and question"
        }
        (_, DenyMarked) | (Context::DenyMarked, Yes) => "`deny --all`, `deny --agent <name>`",
        (Context::Card, Yes) => "`approve <id>`, then the word yes or the amount",
        (Context::Card | Context::CardToDeny, No) => "`deny <id>`, then the word yes",
        (_, Yes) => "Type yes",
        (_, No) => "Not needed, because any other line means no",
        (_, _other) => return None,
    })
}

/// Returns what replaces any other action.
fn of_other(context: Context, action: KeyAction) -> &'static str {
    use KeyAction as K;
    match action {
        K::Open | K::OpenToDeny | K::Mark | K::MarkAll | K::ApproveMarked | K::DenyMarked => "",
        K::Yes | K::No => "",
        K::Filter | K::ShowAll => {
            "Not needed, because `history --agent <name>` and the other options of commands choose the rows"
        }
        K::Next | K::Previous | K::Zoom => {
            "Not needed, because there are no panes: each is a command"
        }
        K::Pane(1) => "`requests`",
        K::Pane(2) => "`balances`, `positions`",
        K::Pane(3) => "`agent list`",
        K::Pane(4) => "`policy list`",
        K::Pane(5) => "`activity`, `activity --before <seq>`",
        K::Pane(_payments) => "`history`, `address sends`",
        K::Up | K::Down | K::PageUp | K::PageDown | K::First | K::Last => {
            "Not needed, because the terminal keeps all lines"
        }
        K::Sort => "Not needed, because the time left is announced",
        K::Refresh | K::Retry => {
            "`requests --retry` asks a Ledger again; every command reads the present state"
        }
        K::Qr => "`address show <label> --qr`",
        K::Keep => "Not needed, because an engine can run in another terminal",
        K::Unlock => "`wallet open`",
        K::Step => "`next`",
        K::Copy => "Not needed, because the lines can be copied as they are",
        K::Command => "Not needed, because every line is a command",
        K::Freeze => "`freeze`",
        K::Redraw => "Not needed, because nothing is drawn",
        K::Suspend => "Not needed, because the terminal itself suspends",
        K::Help => "`help`, `help <command>`",
        K::Quit => "`quit`, or Ctrl-D",
        K::Close if context == Context::Field => "An empty line, or Ctrl-D at a password",
        K::Close | K::LeaveAll => "Not needed, because nothing is opened",
        K::Enter => "The Enter key",
        K::Check => "`seed words <seed>` shows the words again, to compare them",
        K::Older | K::Newer | K::Complete => {
            "Not needed, because a line is typed as a whole; `help` lists the words"
        }
    }
}

/// Returns the rows of the table: context, names of the keys, and the replacement.
fn rows() -> Vec<(Context, String, &'static str)> {
    let row = |row: &super::Binding| {
        let keys = row.keys.iter().map(|key| format!("`{}`", key.name));
        let keys = keys.collect::<Vec<_>>().join(", ");
        (row.context, keys, replacement(row.context, row.action))
    };
    KEYS.iter().map(row).collect()
}

/// Returns the section of the manual.
pub(super) fn section() -> String {
    let mut text = "\n## Without the full screen\n\n`bursar --plain` has no keys. What replaces each of them:\n\n\
                    | in | full-screen key | plain command |\n|---|---|---|\n"
        .to_owned();
    for context in Context::ALL {
        let mut of_context: Vec<(String, &str)> = Vec::new();
        for (_context, keys, plain) in rows().into_iter().filter(|row| row.0 == context) {
            match of_context.iter_mut().find(|(_keys, known)| *known == plain) {
                Some((all, _known)) => *all += &format!(", {keys}"),
                None => of_context.push((keys, plain)),
            }
        }
        for (keys, plain) in of_context {
            text += &format!("| {} | {keys} | {plain} |\n", context.title());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bursar_control::grammar::Order;

    use super::*;

    /// The manual itself is compared, so a key that is missing there fails this test.
    #[test]
    fn every_key_has_a_plain_command_or_a_reason() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/keys.md");
        let manual = std::fs::read_to_string(file).unwrap();
        let (_keys, table) = manual.split_once("\n## Without the full screen\n").unwrap();
        let mut found = 0;
        for row in KEYS {
            let plain = replacement(row.context, row.action);
            assert!(!plain.is_empty(), "{:?} {:?}", row.context, row.action);
            let context = format!("| {} |", row.context.title());
            let lines = table.lines().filter(|line| line.starts_with(&context));
            let is_listed = |line: &&str| {
                let Some((keys, end)) = line.trim_end_matches(" |").rsplit_once(" | ") else {
                    return false;
                };
                let all = row.keys.iter().map(|key| format!("`{}`", key.name));
                end == plain && all.into_iter().all(|key| keys.contains(&key))
            };
            assert_eq!(lines.filter(is_listed).count(), 1, "{:?} {:?}", row.context, row.action);
            found += 1;
        }
        assert_eq!(found, KEYS.len());
        assert_eq!(table.matches("full-screen key").count(), 1);
    }

    #[test]
    fn plain_commands_of_the_table_exist() {
        let filled = |command: &str| {
            let words = [("<id>", "0123abcd"), ("<agent>", "reader"), ("<name>", "reader")];
            let words = words.into_iter().chain([
                ("<seq>", "7"),
                ("<seed>", "S001"),
                ("<label>", "research"),
            ]);
            words.fold(command.to_owned(), |line, (from, to)| line.replace(from, to))
        };
        let own = ["help", "help <command>", "next", "quit", "approve <id> <id>"];
        let mut met = 0;
        for (_context, _keys, plain) in rows() {
            for command in plain.split('`').skip(1).step_by(2).filter(|one| !own.contains(one)) {
                let parsed = Order::parse_line(&filled(command));
                assert!(parsed.is_ok(), "{command}: {parsed:?}");
                met += 1;
            }
        }
        assert!(met > 20, "{met}");
    }
}
