//! The rows of a text that the operator has seen.

/// The rows that have been visible without a gap, from the first one on.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SeenRows {
    count: usize,
    /// The width at which the rows were wrapped. At another width they are other rows.
    width: usize,
}

impl SeenRows {
    /// Records that `shown` rows from `scroll` on are visible, wrapped at `width` columns.
    pub(crate) fn record(&mut self, scroll: usize, shown: usize, width: usize) {
        if self.width != width {
            *self = Self { count: 0, width };
        }
        if scroll <= self.count {
            self.count = self.count.max(scroll.saturating_add(shown));
        }
    }

    /// Returns whether the first `rows` rows, wrapped at `width` columns, have all been visible.
    pub(crate) fn contain(self, rows: usize, width: usize) -> bool {
        self.width == width && self.count >= rows
    }
}
