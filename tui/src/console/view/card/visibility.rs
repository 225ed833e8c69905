//! The visible rows of a card, and the unseen ones.

use crate::console::model::overlay::RowKey;

/// The rows of a card that are on the screen.
#[derive(Debug)]
pub(crate) struct VisibleRows {
    pub(crate) rows: Vec<RowKey>,
    /// The last scroll position.
    pub(crate) last: usize,
    /// The columns at which the rows are wrapped.
    pub(crate) width: usize,
}

/// Where the rows are that an approval needs and that were not visible yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnseenRows {
    pub(crate) above: bool,
    /// The name of the row to scroll to: the first unseen row if it is above, otherwise the last unseen row.
    pub(crate) target_row: String,
}

impl UnseenRows {
    /// Describes the key that scrolls to the row.
    pub(super) fn scroll_hint(&self) -> String {
        let key = if self.above { "k" } else { "j" };
        format!("scroll ({key}) to `{}`", self.target_row)
    }
}
