//! The one table of keys. The bar, the help and the manual are generated from it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// The panes, while no overlay is open.
    Panes,
    /// A request's card.
    Card,
    /// A question that is answered with yes or no.
    YesNo,
    /// A field to type in.
    Field,
    /// Text to read.
    Reading,
    /// The words of a new seed.
    Words,
    /// The command line.
    Line,
}

impl Context {
    pub(crate) const ALL: [Context; 7] = [
        Context::Panes,
        Context::Card,
        Context::YesNo,
        Context::Field,
        Context::Reading,
        Context::Words,
        Context::Line,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Context::Panes => "Panes",
            Context::Card => "A request's card",
            Context::YesNo => "A question",
            Context::Field => "A field",
            Context::Reading => "Text",
            Context::Words => "A new seed's words",
            Context::Line => "Command line",
        }
    }
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Next,
    Previous,
    Pane(usize),
    Open,
    /// Opens a card too: no request is denied unseen.
    OpenToDeny,
    Zoom,
    Sort,
    Refresh,
    Unlock,
    /// Puts the command of the next first step on the command line.
    Step,
    Copy,
    Command,
    Help,
    Freeze,
    Redraw,
    Suspend,
    Quit,
    Close,
    Yes,
    No,
    Enter,
    Older,
    Newer,
    Complete,
    /// Asks for some words of the seed that was shown.
    Check,
}

impl Deed {
    /// Returns whether an observer may use it.
    pub(crate) fn is_harmless(self) -> bool {
        !matches!(
            self,
            Deed::Unlock | Deed::Step | Deed::Command | Deed::Freeze | Deed::Yes | Deed::No
        )
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) context: Context,
    pub(crate) keys: &'static [Key],
    pub(crate) deed: Deed,
    /// The label in the bar; empty if the bar does not show it.
    pub(crate) short: &'static str,
    pub(crate) about: &'static str,
}

/// A key with its printed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) code: KeyCode,
    pub(crate) control: bool,
    pub(crate) name: &'static str,
}

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
    ($context:ident $keys:expr, $deed:expr, $short:literal, $about:literal) => {
        Binding {
            context: Context::$context,
            keys: &$keys,
            deed: $deed,
            short: $short,
            about: $about,
        }
    };
}

pub(crate) const KEYS: &[Binding] = &[
    bind!(Panes [ENTER, ch('a', "a")], Deed::Open, "open",
        "Open the selected row; a request opens its card, to approve or deny it"),
    bind!(Panes[ch('d', "d")], Deed::OpenToDeny, "", "Open the request's card, to deny it with n"),
    bind!(Panes [TAB, ch('l', "l"), key(KeyCode::Right, "right")], Deed::Next, "pane", "Next pane"),
    bind!(Panes [BACK_TAB, ch('h', "h"), key(KeyCode::Left, "left")], Deed::Previous, "", "Previous pane"),
    bind!(Panes[ch('1', "1")], Deed::Pane(1), "", "Approvals"),
    bind!(Panes[ch('2', "2")], Deed::Pane(2), "", "Balances"),
    bind!(Panes[ch('3', "3")], Deed::Pane(3), "", "Agents"),
    bind!(Panes[ch('4', "4")], Deed::Pane(4), "", "Policies"),
    bind!(Panes[ch('5', "5")], Deed::Pane(5), "", "Activity"),
    bind!(Panes[ch('6', "6")], Deed::Pane(6), "", "Sent payments"),
    bind!(Panes [UP, ch('k', "k")], Deed::Up, "", "One row up"),
    bind!(Panes [DOWN, ch('j', "j")], Deed::Down, "", "One row down"),
    bind!(Panes[PAGE_UP], Deed::PageUp, "", "One page up"),
    bind!(
        Panes[PAGE_DOWN],
        Deed::PageDown,
        "",
        "One page down; in Activity this loads older entries"
    ),
    bind!(Panes [HOME, ch('g', "g")], Deed::First, "", "First row"),
    bind!(Panes [END, ch('G', "G")], Deed::Last, "", "Last row"),
    bind!(Panes [ch('+', "+"), ch('_', "_")], Deed::Zoom, "", "Show only this pane, or all again"),
    bind!(Panes[ch('s', "s")], Deed::Sort, "", "Sort requests by the time left"),
    bind!(Panes[ch('r', "r")], Deed::Refresh, "", "Reload everything, including balances"),
    bind!(Panes[ch('u', "u")], Deed::Unlock, "", "Open the wallet"),
    bind!(Panes[ch('n', "n")], Deed::Step, "", "Write the command of the next first step"),
    bind!(
        Panes[ch('y', "y")],
        Deed::Copy,
        "",
        "Copy the selected id or address to the terminal's clipboard"
    ),
    bind!(
        Panes[ch(':', ":")],
        Deed::Command,
        "command",
        "Open a command line with the same commands as `bursar …`"
    ),
    bind!(
        Panes[ctrl('x', "^X")],
        Deed::Freeze,
        "",
        "Press twice within two seconds to freeze every agent"
    ),
    bind!(Panes[ctrl('l', "^L")], Deed::Redraw, "", "Redraw the screen"),
    bind!(Panes[ctrl('z', "^Z")], Deed::Suspend, "", "Suspend to the shell; `fg` returns"),
    bind!(Panes[ch('?', "?")], Deed::Help, "help", "This help"),
    bind!(Panes [ch('q', "q"), ctrl('c', "^C")], Deed::Quit, "leave", "Leave the console"),
    bind!(Card[ch('y', "y")], Deed::Yes, "approve", "Approve the request; Enter never does"),
    bind!(Card[ch('n', "n")], Deed::No, "deny", "Deny it"),
    bind!(
        Card[ch('u', "u")],
        Deed::Unlock,
        "open the wallet",
        "Open the wallet if it is locked, then return here"
    ),
    bind!(Card [DOWN, ch('j', "j")], Deed::Down, "scroll", "One row down, if the card does not fit"),
    bind!(Card [UP, ch('k', "k")], Deed::Up, "", "One row up"),
    bind!(Card [PAGE_DOWN, ch(' ', "space")], Deed::PageDown, "", "One page down"),
    bind!(Card[PAGE_UP], Deed::PageUp, "", "One page up"),
    bind!(Card [HOME, ch('g', "g")], Deed::First, "", "Its first row"),
    bind!(Card [END, ch('G', "G")], Deed::Last, "", "Its last row"),
    bind!(Card [ESC, ch('q', "q"), ctrl('c', "^C")], Deed::Close, "not now", "Close the card; the request stays waiting"),
    bind!(YesNo[ch('y', "y")], Deed::Yes, "yes", "Yes"),
    bind!(YesNo [ch('n', "n"), ESC, ctrl('c', "^C")], Deed::No, "no", "No"),
    bind!(Field[ENTER], Deed::Enter, "go on", "Submit the input"),
    bind!(Field [ESC, ctrl('c', "^C")], Deed::Close, "cancel", "Cancel the command"),
    bind!(Reading [UP, ch('k', "k")], Deed::Up, "", "One line up"),
    bind!(Reading [DOWN, ch('j', "j")], Deed::Down, "scroll", "One line down"),
    bind!(Reading[PAGE_UP], Deed::PageUp, "", "One page up"),
    bind!(Reading [PAGE_DOWN, ch(' ', "space")], Deed::PageDown, "", "One page down"),
    bind!(Reading [HOME, ch('g', "g")], Deed::First, "", "The first line"),
    bind!(Reading [END, ch('G', "G")], Deed::Last, "", "The last line"),
    bind!(Reading [ESC, ch('q', "q"), ENTER, ctrl('c', "^C")], Deed::Close, "close", "Close the text"),
    bind!(Reading[ch('y', "y")], Deed::Copy, "copy", "Copy the text to the terminal's clipboard"),
    bind!(Words [DOWN, ch('j', "j")], Deed::Down, "scroll", "One line down"),
    bind!(Words [UP, ch('k', "k")], Deed::Up, "", "One line up"),
    bind!(Words [PAGE_DOWN, ch(' ', "space")], Deed::PageDown, "", "One page down"),
    bind!(Words[PAGE_UP], Deed::PageUp, "", "One page up"),
    bind!(Words[ENTER], Deed::Check, "noted: check", "Check three of the words"),
    bind!(Words [ESC, ctrl('c', "^C")], Deed::Close, "leave unchecked", "Leave without checking the words"),
    bind!(Line[ENTER], Deed::Enter, "run", "Run the command"),
    bind!(Line[TAB], Deed::Complete, "complete", "Complete the word"),
    bind!(Line[UP], Deed::Older, "", "The previous command"),
    bind!(Line[DOWN], Deed::Newer, "", "The next command"),
    bind!(Line [ESC, ctrl('c', "^C")], Deed::Close, "cancel", "Close the command line"),
];

/// Returns the effect of a pressed key in this context.
pub(crate) fn deed(context: Context, pressed: &KeyEvent) -> Option<Deed> {
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    if pressed.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER) {
        return None;
    }
    let fits = |key: &Key| key.code == pressed.code && key.control == control;
    KEYS.iter().find(|row| row.context == context && row.keys.iter().any(fits)).map(|row| row.deed)
}

/// Returns the bar of a context: each offered key with its label.
pub(crate) fn bar(
    context: Context,
    offered: impl Fn(Deed) -> bool,
) -> Vec<(&'static str, &'static str)> {
    let rows = KEYS.iter().filter(|row| row.context == context && !row.short.is_empty());
    let rows = rows.filter(|row| offered(row.deed));
    rows.filter_map(|row| Some((row.keys.first()?.name, row.short))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for context in [Context::Card, Context::YesNo] {
            assert_ne!(deed(context, &press(KeyCode::Enter)), Some(Deed::Yes));
            assert!(deed(context, &press(KeyCode::Esc)).is_some());
        }
        assert_eq!(deed(Context::Card, &press(KeyCode::Char('y'))), Some(Deed::Yes));
        let with_control = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::CONTROL);
        assert_eq!(deed(Context::Card, &with_control), None);
        let with_alt = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::ALT);
        assert_eq!(deed(Context::Card, &with_alt), None);
    }
}
