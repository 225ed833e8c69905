//! The table of all keys except those that edit text. The bar, the help and `docs/keys.md` come from this table.

#[cfg(test)]
mod equivalents;
pub(crate) mod table;

use crossterm::event::KeyCode;

/// Where a key has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// The panes, while no overlay is open.
    Panes,
    /// A request's card.
    Card,
    /// A request's card that was opened to deny it. No key approves there.
    CardToDeny,
    /// The card of marked requests, to approve them.
    ApproveMarked,
    /// The card of marked requests, to deny them.
    DenyMarked,
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
    /// The filter of a list.
    Filter,
}

impl Context {
    pub(crate) const ALL: [Context; 11] = [
        Context::Panes,
        Context::Card,
        Context::CardToDeny,
        Context::ApproveMarked,
        Context::DenyMarked,
        Context::YesNo,
        Context::Field,
        Context::Reading,
        Context::Words,
        Context::Line,
        Context::Filter,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Context::Panes => "Panes",
            Context::Card => "A request's card",
            Context::CardToDeny => "The card that denies a request",
            Context::ApproveMarked => "The card that approves the marked requests",
            Context::DenyMarked => "The card that denies the marked requests",
            Context::YesNo => "A question",
            Context::Field => "A field",
            Context::Reading => "Text",
            Context::Words => "A new seed's words",
            Context::Line => "Command line",
            Context::Filter => "A list's filter",
        }
    }
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
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
    /// Opens the request's card to deny it, because no key denies a request that is not shown.
    OpenToDeny,
    /// Marks the selected request, or removes its mark.
    Mark,
    /// Marks every shown request, or removes their marks.
    MarkAll,
    ApproveMarked,
    DenyMarked,
    /// Types the filter of a list.
    Filter,
    /// Shows every row again; without a filter, removes all marks.
    ShowAll,
    Zoom,
    Sort,
    Refresh,
    /// Shows the selected address as a QR code.
    Qr,
    /// Makes the wallet prompt a Ledger again that refused a request because a switch in the Ledger's settings was off.
    Retry,
    Unlock,
    /// Puts the command of the next setup step into the command line.
    Step,
    Copy,
    Command,
    Help,
    Freeze,
    Redraw,
    Suspend,
    Quit,
    Close,
    /// Closes the card, and leaves all waiting requests in the queue.
    LeaveAll,
    Yes,
    No,
    /// Leaves the console that is the engine, and keeps the engine running.
    Keep,
    Enter,
    Older,
    Newer,
    Complete,
    /// Asks for some words of the seed that was shown.
    Check,
}

impl KeyAction {
    /// Returns whether an observer may use this action.
    pub(crate) fn allowed_for_observer(self) -> bool {
        !matches!(
            self,
            KeyAction::Unlock
                | KeyAction::Retry
                | KeyAction::Step
                | KeyAction::Command
                | KeyAction::Freeze
                | KeyAction::Yes
                | KeyAction::No
                | KeyAction::Mark
                | KeyAction::MarkAll
                | KeyAction::ApproveMarked
                | KeyAction::DenyMarked
        )
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) context: Context,
    pub(crate) keys: &'static [Key],
    pub(crate) action: KeyAction,
    /// The label in the bar; empty if the bar does not show the key.
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
