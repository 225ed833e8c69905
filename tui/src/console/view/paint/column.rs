//! The columns of a table.

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub(in crate::console::view) struct Column<'h> {
    pub(super) name: &'h str,
    /// Width in cells.
    pub(super) width: u16,
    /// Whether the column is open: open columns share the room that remains after the widths of all columns.
    pub(super) shares_room: bool,
    pub(super) is_right_aligned: bool,
    /// The rank. The column with the highest rank is dropped first, and a column of rank 0 is never dropped. A column
    /// of rank 0 that is not open is at least as wide as its content.
    pub(super) rank: u8,
}

pub(in crate::console::view) const fn left(name: &str, width: u16) -> Column<'_> {
    Column { name, width, shares_room: false, is_right_aligned: false, rank: 0 }
}

pub(in crate::console::view) const fn right(name: &str, width: u16) -> Column<'_> {
    Column { name, width, shares_room: false, is_right_aligned: true, rank: 0 }
}

impl Column<'_> {
    /// Sets the rank. The column with the highest rank is dropped first.
    pub(in crate::console::view) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    pub(in crate::console::view) const fn open(self) -> Self {
        Self { shares_room: true, ..self }
    }
}
