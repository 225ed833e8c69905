//! Tables: named columns in the available room. If room is short, the least important columns are dropped first.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::Paint;
use super::column::Column;
use crate::console::theme::Role;

type Cells = Vec<(String, Role)>;

impl Paint<'_> {
    /// Draws a table with a head, such that the selected row is visible. `row` returns the cells of a row.
    pub(in crate::console::view) fn table(
        &mut self,
        area: Rect,
        columns: &[Column<'_>],
        (count, selected): (usize, Option<usize>),
        row: impl FnMut(usize) -> Cells,
    ) {
        let room = usize::from(area.height.saturating_sub(1));
        let first = selected.unwrap_or(0).saturating_sub(room / 2).min(count.saturating_sub(room));
        let rows: Vec<Cells> = (first..count).take(room).map(row).collect();
        let widest = |index: usize| {
            let cells = rows.iter().filter_map(|row| row.get(index));
            let widths = cells.map(|(text, _role)| self.escape(text).width());
            u16::try_from(widths.max().unwrap_or(0)).unwrap_or(u16::MAX)
        };
        let widest: Vec<u16> = (0..columns.len()).map(widest).collect();
        let widths = widths(area.width, columns, &widest);
        let head = columns.iter().map(|column| (column.name, Role::Quiet));
        self.cells(area, 0, columns, &widths, head);
        for (line, cells) in (1u16..).zip(&rows) {
            let old = self.is_outdated;
            let cells = cells.iter().map(|(text, role)| {
                // Outdated data has no colour.
                (text.as_str(), if old { Role::Quiet } else { *role })
            });
            self.cells(area, line, columns, &widths, cells);
            if selected == Some(first.saturating_add(usize::from(line)).saturating_sub(1)) {
                self.highlight(area, line);
            }
        }
    }

    fn cells<'t>(
        &mut self,
        area: Rect,
        line: u16,
        columns: &[Column<'_>],
        widths: &[Option<u16>],
        cells: impl Iterator<Item = (&'t str, Role)>,
    ) {
        let mut at = 0u16;
        for ((column, width), (text, role)) in columns.iter().zip(widths).zip(cells) {
            let Some(width) = width else { continue };
            let room = area.width.saturating_sub(at);
            let x = area.x.saturating_add(at);
            let cell = Rect { x, width: (*width).min(room), ..area };
            if column.is_right_aligned {
                self.right_text(cell, line, text, role);
            } else {
                self.text(cell, 0, line, text, role);
            }
            at = at.saturating_add(*width).saturating_add(1);
        }
    }
}

/// Returns the width of each column, or `None` for a dropped column.
fn widths(room: u16, columns: &[Column<'_>], widest: &[u16]) -> Vec<Option<u16>> {
    let wanted = |(column, widest): (&Column<'_>, &u16)| match (column.rank, column.shares_room) {
        (0, false) => column.width.max(*widest),
        _may_be_cut => column.width,
    };
    let mut widths: Vec<Option<u16>> = columns.iter().zip(widest).map(wanted).map(Some).collect();
    let used = |widths: &[Option<u16>]| {
        let kept = widths.iter().flatten();
        kept.fold(0u16, |sum, width| sum.saturating_add(*width).saturating_add(1)).saturating_sub(1)
    };
    while used(&widths) > room {
        let kept = columns.iter().enumerate().filter(|(index, column)| {
            column.rank > 0 && widths.get(*index).is_some_and(Option::is_some)
        });
        let Some((index, _least)) = kept.max_by_key(|(_index, column)| column.rank) else { break };
        if let Some(width) = widths.get_mut(index) {
            *width = None;
        }
    }
    let spare = room.saturating_sub(used(&widths));
    let open = columns.iter().zip(&mut widths).filter(|(column, _width)| column.shares_room);
    let mut open: Vec<&mut u16> = open.filter_map(|(_column, width)| width.as_mut()).collect();
    let share = spare.checked_div(u16::try_from(open.len()).unwrap_or(1)).unwrap_or(0);
    open.iter_mut().for_each(|width| **width = width.saturating_add(share));
    widths
}

#[cfg(test)]
mod tests {
    use super::super::column::{left, right};
    use super::*;

    const COLUMNS: [Column<'static>; 4] = [
        left("TIME", 5).rank(2),
        left("WHAT", 10).open().rank(1),
        right("AMOUNT", 6),
        left("STATE", 5),
    ];

    #[test]
    fn open_columns_share_the_rest() {
        let columns = [left("A", 10), left("B", 8).open().rank(1), right("C", 5)];
        assert_eq!(widths(40, &columns, &[0, 0, 0]), [Some(10), Some(23), Some(5)]);
    }

    #[test]
    fn important_columns_stay_whole_and_the_least_important_are_dropped() {
        let widest = [9, 50, 12, 8];
        let of = |room| widths(room, &COLUMNS, &widest);
        assert_eq!(of(60), [Some(5), Some(32), Some(12), Some(8)]);
        assert_eq!(of(38), [Some(5), Some(10), Some(12), Some(8)]);
        assert_eq!(of(37), [None, Some(15), Some(12), Some(8)]);
        assert_eq!(of(31), [None, None, Some(12), Some(8)]);
        assert_eq!(of(3), [None, None, Some(12), Some(8)], "the last ones stay and are cut");
    }
}
