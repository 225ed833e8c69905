//! The rows of the table of keys, and look-ups in it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Binding, Context, Key, KeyAction};

const fn ch(ch: char, name: &'static str) -> Key {
    Key { code: KeyCode::Char(ch), control: false, name }
}

const fn ctrl(ch: char, name: &'static str) -> Key {
    Key { code: KeyCode::Char(ch), control: true, name }
}

const fn key(code: KeyCode, name: &'static str) -> Key {
    Key { code, control: false, name }
}

const UP: Key = key(KeyCode::Up, "up");
const DOWN: Key = key(KeyCode::Down, "down");
const PAGE_UP: Key = key(KeyCode::PageUp, "pgup");
const PAGE_DOWN: Key = key(KeyCode::PageDown, "pgdn");
const HOME: Key = key(KeyCode::Home, "home");
const END: Key = key(KeyCode::End, "end");
const ENTER: Key = key(KeyCode::Enter, "enter");
const ESC: Key = key(KeyCode::Esc, "esc");
const TAB: Key = key(KeyCode::Tab, "tab");
const BACK_TAB: Key = key(KeyCode::BackTab, "shift-tab");

macro_rules! bind {
    ($context:ident $keys:expr, $action:expr, $short:literal, $about:literal) => {
        Binding {
            context: Context::$context,
            keys: &$keys,
            action: $action,
            short: $short,
            about: $about,
        }
    };
}

pub(crate) const KEYS: &[Binding] = &[
    bind!(Panes [ENTER, ch('a', "a")], KeyAction::Open, "open",
        "Open the selected row; a request opens its card, to approve or deny it"),
    bind!(
        Panes[ch('d', "d")],
        KeyAction::OpenToDeny,
        "",
        "Open the request's card to deny it; no key approves there"
    ),
    bind!(
        Panes[ch(' ', "space")],
        KeyAction::Mark,
        "",
        "Mark the selected request, or remove its mark"
    ),
    bind!(
        Panes[ch('*', "*")],
        KeyAction::MarkAll,
        "",
        "Mark every request that is shown, or remove their marks"
    ),
    bind!(
        Panes[ch('A', "A")],
        KeyAction::ApproveMarked,
        "approve marked",
        "Open the card that approves the marked requests"
    ),
    bind!(
        Panes[ch('D', "D")],
        KeyAction::DenyMarked,
        "deny marked",
        "Open the card that denies the marked requests"
    ),
    bind!(
        Panes[ch('/', "/")],
        KeyAction::Filter,
        "",
        "Show only the rows that contain a text, or after `!` the others"
    ),
    bind!(
        Panes[ESC],
        KeyAction::ShowAll,
        "",
        "Show every row again; without a filter, remove all marks"
    ),
    bind!(Panes [TAB, ch('l', "l"), key(KeyCode::Right, "right")], KeyAction::Next, "pane", "Next pane"),
    bind!(Panes [BACK_TAB, ch('h', "h"), key(KeyCode::Left, "left")], KeyAction::Previous, "", "Previous pane"),
    bind!(Panes[ch('1', "1")], KeyAction::Pane(1), "", "Approvals"),
    bind!(Panes[ch('2', "2")], KeyAction::Pane(2), "", "Balances and positions"),
    bind!(Panes[ch('3', "3")], KeyAction::Pane(3), "", "Agents"),
    bind!(Panes[ch('4', "4")], KeyAction::Pane(4), "", "Policies"),
    bind!(Panes[ch('5', "5")], KeyAction::Pane(5), "", "Activity"),
    bind!(
        Panes[ch('6', "6")],
        KeyAction::Pane(6),
        "",
        "Payments: requests of all lanes, and sends"
    ),
    bind!(Panes [UP, ch('k', "k")], KeyAction::Up, "", "One row up"),
    bind!(Panes [DOWN, ch('j', "j")], KeyAction::Down, "", "One row down"),
    bind!(Panes[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(
        Panes[PAGE_DOWN],
        KeyAction::PageDown,
        "",
        "One page down; in Activity this loads older entries"
    ),
    bind!(Panes [HOME, ch('g', "g")], KeyAction::First, "", "First row"),
    bind!(Panes [END, ch('G', "G")], KeyAction::Last, "", "Last row"),
    bind!(Panes [ch('+', "+"), ch('_', "_")], KeyAction::Zoom, "", "Show only this pane, or all again"),
    bind!(Panes[ch('s', "s")], KeyAction::Sort, "", "Sort requests by the time left"),
    bind!(
        Panes[ch('r', "r")],
        KeyAction::Refresh,
        "",
        "Reload everything; ask a Ledger again that is left alone"
    ),
    bind!(
        Panes[ch('Q', "Q")],
        KeyAction::Qr,
        "",
        "Show the selected address of Balances as a QR code"
    ),
    bind!(Panes[ch('u', "u")], KeyAction::Unlock, "", "Open the wallet"),
    bind!(Panes[ch('n', "n")], KeyAction::Step, "", "Write the command of the next setup step"),
    bind!(
        Panes[ch('c', "c")],
        KeyAction::Copy,
        "",
        "Copy the selected payee, id, digest or transaction to the terminal's clipboard; again for the next of them"
    ),
    bind!(
        Panes[ch(':', ":")],
        KeyAction::Command,
        "command",
        "Open a command line with the same commands as `bursar …`"
    ),
    bind!(
        Panes[ctrl('x', "^X")],
        KeyAction::Freeze,
        "",
        "Press twice within two seconds to freeze every agent"
    ),
    bind!(Panes[ctrl('l', "^L")], KeyAction::Redraw, "", "Redraw the screen"),
    bind!(Panes[ctrl('z', "^Z")], KeyAction::Suspend, "", "Suspend to the shell; `fg` returns"),
    bind!(Panes[ch('?', "?")], KeyAction::Help, "help", "This help"),
    bind!(Panes [ch('q', "q"), ctrl('c', "^C")], KeyAction::Quit, "leave", "Leave the console"),
    bind!(Card[ch('y', "y")], KeyAction::Yes, "approve", "Approve the request; Enter never does"),
    bind!(Card[ch('n', "n")], KeyAction::No, "deny", "Deny it"),
    bind!(Card[ch('d', "d")], KeyAction::OpenToDeny, "", "Go to the card that denies the request"),
    bind!(
        Card[ch('c', "c")],
        KeyAction::Copy,
        "",
        "Copy the payee, id or digest; again for the next of them"
    ),
    bind!(
        Card[ch('u', "u")],
        KeyAction::Unlock,
        "open the wallet",
        "Open the wallet if it is locked, then return here"
    ),
    bind!(
        Card[ch('r', "r")],
        KeyAction::Retry,
        "ask the Ledger",
        "Ask a Ledger again that refused a request for a switch of its settings"
    ),
    bind!(Card [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One row down, if the card does not fit"),
    bind!(Card [UP, ch('k', "k")], KeyAction::Up, "", "One row up"),
    bind!(Card [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(Card[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(Card [HOME, ch('g', "g")], KeyAction::First, "", "Its first row"),
    bind!(Card [END, ch('G', "G")], KeyAction::Last, "", "Its last row"),
    bind!(Card [ESC, ch('q', "q"), ctrl('c', "^C")], KeyAction::Close, "not now", "Close the card; the request stays waiting"),
    bind!(
        Card[ch('l', "l")],
        KeyAction::LeaveAll,
        "later, all",
        "In a window whose cards open by themselves: leave this request and all others waiting"
    ),
    bind!(CardToDeny[ch('y', "y")], KeyAction::No, "deny", "Deny the request"),
    bind!(CardToDeny [ENTER, ch('a', "a")], KeyAction::Open, "", "Go to the card that approves the request"),
    bind!(
        CardToDeny[ch('c', "c")],
        KeyAction::Copy,
        "",
        "Copy the payee, id or digest; again for the next of them"
    ),
    bind!(CardToDeny [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One row down, if the card does not fit"),
    bind!(CardToDeny [UP, ch('k', "k")], KeyAction::Up, "", "One row up"),
    bind!(CardToDeny [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(CardToDeny[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(CardToDeny [HOME, ch('g', "g")], KeyAction::First, "", "Its first row"),
    bind!(CardToDeny [END, ch('G', "G")], KeyAction::Last, "", "Its last row"),
    bind!(CardToDeny [ESC, ch('n', "n"), ch('q', "q"), ctrl('c', "^C")], KeyAction::Close, "not now", "Close the card; the request stays waiting"),
    bind!(
        ApproveMarked[ch('y', "y")],
        KeyAction::Yes,
        "approve",
        "Approve the requests; Enter never does"
    ),
    bind!(ApproveMarked [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One row down, if the card does not fit"),
    bind!(ApproveMarked [UP, ch('k', "k")], KeyAction::Up, "", "One row up"),
    bind!(ApproveMarked [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(ApproveMarked[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(ApproveMarked [ESC, ch('n', "n"), ch('q', "q"), ctrl('c', "^C")], KeyAction::Close, "not now", "Close the card; the requests stay waiting"),
    bind!(DenyMarked[ch('y', "y")], KeyAction::Yes, "deny", "Deny the requests"),
    bind!(DenyMarked [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One row down, if the card does not fit"),
    bind!(DenyMarked [UP, ch('k', "k")], KeyAction::Up, "", "One row up"),
    bind!(DenyMarked [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(DenyMarked[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(DenyMarked [ESC, ch('n', "n"), ch('q', "q"), ctrl('c', "^C")], KeyAction::Close, "not now", "Close the card; the requests stay waiting"),
    bind!(YesNo[ch('y', "y")], KeyAction::Yes, "yes", "Yes"),
    bind!(
        YesNo[ch('k', "k")],
        KeyAction::Keep,
        "",
        "When you leave a console that is the engine: keep the engine running in this terminal"
    ),
    bind!(YesNo [ch('n', "n"), ESC, ctrl('c', "^C")], KeyAction::No, "no", "No"),
    bind!(Field[ENTER], KeyAction::Enter, "next", "Submit the input"),
    bind!(Field [ESC, ctrl('c', "^C")], KeyAction::Close, "cancel", "Cancel the command"),
    bind!(Reading [UP, ch('k', "k")], KeyAction::Up, "", "One line up"),
    bind!(Reading [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One line down"),
    bind!(
        Reading[ch('/', "/")],
        KeyAction::Filter,
        "",
        "In this help: show only the rows that contain a text"
    ),
    bind!(Reading[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(Reading [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(Reading [HOME, ch('g', "g")], KeyAction::First, "", "The first line"),
    bind!(Reading [END, ch('G', "G")], KeyAction::Last, "", "The last line"),
    bind!(Reading [ESC, ch('q', "q"), ENTER, ctrl('c', "^C")], KeyAction::Close, "close", "Close the text"),
    bind!(
        Reading[ch('c', "c")],
        KeyAction::Copy,
        "copy",
        "Copy the text to the terminal's clipboard"
    ),
    bind!(Words [DOWN, ch('j', "j")], KeyAction::Down, "scroll", "One line down"),
    bind!(Words [UP, ch('k', "k")], KeyAction::Up, "", "One line up"),
    bind!(Words [PAGE_DOWN, ch(' ', "space")], KeyAction::PageDown, "", "One page down"),
    bind!(Words[PAGE_UP], KeyAction::PageUp, "", "One page up"),
    bind!(Words[ENTER], KeyAction::Check, "noted: check", "Check three of the words"),
    bind!(Words [ESC, ctrl('c', "^C")], KeyAction::Close, "leave unchecked", "Leave without checking the words"),
    bind!(Line[ENTER], KeyAction::Enter, "run", "Run the command"),
    bind!(Line[TAB], KeyAction::Complete, "complete", "Complete the word"),
    bind!(Line[UP], KeyAction::Older, "", "The previous command"),
    bind!(Line[DOWN], KeyAction::Newer, "", "The next command"),
    bind!(Line [ESC, ctrl('c', "^C")], KeyAction::Close, "cancel", "Close the command line"),
    bind!(Filter[ENTER], KeyAction::Enter, "keep", "Keep the filter"),
    bind!(Filter[UP], KeyAction::Up, "", "One row up"),
    bind!(Filter[DOWN], KeyAction::Down, "", "One row down"),
    bind!(Filter [ESC, ctrl('c', "^C")], KeyAction::Close, "show all", "Remove the filter"),
];

/// A dialog, as the manual of keys lists it: what opens it, its title, and what `y` does there.
///
/// `tests/journeys/keys.sh` shows each of them in a real terminal.
#[cfg(test)]
const DIALOGS: [(&str, &str, &str); 9] = [
    (
        "`enter` or `a` on a request; `a` on the next card",
        "`Request 4191fec7`",
        "approves the request",
    ),
    ("`d` on a request, or on its card", "`Deny 4191fec7?`", "denies the request"),
    ("`A` with marked requests", "`Approve 2 requests?`", "approves the marked requests"),
    ("`D` with marked requests", "`Deny 2 requests?`", "denies the marked requests"),
    ("a command with a question, such as `policy edit`", "the command", "answers yes"),
    (
        "a command that asks for a text, such as `agent delete`",
        "the command",
        "is a letter of the text",
    ),
    ("`enter` on another row; a command with a long answer", "the command or the row", "nothing"),
    ("`?`", "`Help`", "nothing"),
    ("`q` in a console that is the engine", "`Leave?`", "stops the engine and leaves"),
];

/// Returns the effect of a pressed key in this context.
pub(crate) fn action(context: Context, pressed: &KeyEvent) -> Option<KeyAction> {
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    if pressed.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER) {
        return None;
    }
    let fits = |key: &Key| key.code == pressed.code && key.control == control;
    KEYS.iter()
        .find(|row| row.context == context && row.keys.iter().any(fits))
        .map(|row| row.action)
}

/// Returns the bar of a context: each offered key with its label.
pub(crate) fn bar(
    context: Context,
    offered: impl Fn(KeyAction) -> bool,
) -> Vec<(&'static str, &'static str)> {
    let rows = KEYS.iter().filter(|row| row.context == context && !row.short.is_empty());
    let rows = rows.filter(|row| offered(row.action));
    rows.filter_map(|row| Some((row.keys.first()?.name, row.short))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `BURSAR_BLESS=1` writes the file.
    #[test]
    fn the_manual_of_keys_lists_the_table() {
        let mut text = "# Keys of the console\n\nA key has the effect of the context that receives it. Generated from \
                        the table of keys.\n"
            .to_owned();
        for context in Context::ALL {
            text += &format!("\n## {}\n\n| key | effect |\n|---|---|\n", context.title());
            for row in KEYS.iter().filter(|row| row.context == context) {
                let keys = row.keys.iter().map(|key| format!("`{}`", key.name));
                text += &format!("| {} | {} |\n", keys.collect::<Vec<_>>().join(", "), row.about);
            }
        }
        // The journey of the dialogs reads the last section.
        text += &super::super::equivalents::section();
        text += "\n## Dialogs\n\n`y` confirms what the title asks, and nothing else.\n\n\
                 | opened by | title | what `y` does |\n|---|---|---|\n";
        for (opened_by, title, yes) in DIALOGS {
            text += &format!("| {opened_by} | {title} | {yes} |\n");
        }
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/keys.md");
        if std::env::var_os("BURSAR_BLESS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == text,
            "docs/keys.md is old: BURSAR_BLESS=1 cargo test -p bursar-tui keymap"
        );
    }

    #[test]
    fn no_key_is_bound_twice_in_a_context() {
        for context in Context::ALL {
            let mut seen: Vec<Key> = Vec::new();
            for row in KEYS.iter().filter(|row| row.context == context) {
                assert!(!row.about.is_empty() && !row.keys.is_empty());
                for key in row.keys {
                    assert!(!seen.contains(key), "{context:?}: {}", key.name);
                    seen.push(*key);
                }
            }
            assert!(!seen.is_empty(), "{context:?}");
        }
    }

    #[test]
    fn enter_approves_nowhere_and_every_overlay_can_be_left() {
        let press = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for context in [
            Context::Card,
            Context::CardToDeny,
            Context::ApproveMarked,
            Context::DenyMarked,
            Context::YesNo,
        ] {
            assert_ne!(action(context, &press(KeyCode::Enter)), Some(KeyAction::Yes));
            assert!(action(context, &press(KeyCode::Esc)).is_some());
        }
        assert_eq!(action(Context::Card, &press(KeyCode::Char('y'))), Some(KeyAction::Yes));
        let approves = |row: &&Binding| row.action == KeyAction::Yes;
        assert_eq!(
            KEYS.iter()
                .filter(approves)
                .find(|row| row.context == Context::CardToDeny)
                .map(|row| row.about),
            None
        );
        let with_control = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::CONTROL);
        assert_eq!(action(Context::Card, &with_control), None);
        let with_alt = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::ALT);
        assert_eq!(action(Context::Card, &with_alt), None);
    }
}
