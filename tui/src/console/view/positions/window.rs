//! Selects the visible rows of a list whose rows have different heights.

use std::ops::Range;

/// Returns the rows that fit into `room`, with the selected row near the middle. Only rows near the selected row are
/// measured.
pub(super) fn window(
    count: usize,
    selected: usize,
    room: u16,
    height: impl Fn(usize) -> u16,
) -> Range<usize> {
    let selected = selected.min(count.saturating_sub(1));
    let mut first = selected;
    let mut above = 0u16;
    let half = room.saturating_sub(height(selected)) / 2;
    while let Some(before) = first.checked_sub(1) {
        above = above.saturating_add(height(before));
        if above > half {
            break;
        }
        first = before;
    }
    let mut used = 0u16;
    let mut end = first;
    while end < count && used.saturating_add(height(end)) <= room {
        used = used.saturating_add(height(end));
        end = end.saturating_add(1);
    }
    while let Some(before) = first.checked_sub(1).filter(|_index| end == count) {
        used = used.saturating_add(height(before));
        if used > room {
            break;
        }
        first = before;
    }
    // A row that is higher than the room is cut.
    first..end.max(selected.saturating_add(1)).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_contains_the_selected_row_and_fills_the_room() {
        let two = |_index| 2;
        assert_eq!(window(1_000, 0, 7, two), 0..3);
        assert_eq!(window(1_000, 500, 7, two), 499..502);
        assert_eq!(window(1_000, 999, 7, two), 997..1_000);
        assert_eq!(window(1, 0, 7, two), 0..1);
        assert_eq!(window(0, 0, 7, two), 0..0);
        assert_eq!(window(3, 1, 1, two), 1..2, "cut, but there");
        assert_eq!(window(3, 9, 9, two), 0..3);
        for room in 0..20 {
            for selected in 0..9 {
                let uneven = |index: usize| [2u16, 4, 1][index % 3];
                let shown = window(9, selected, room, uneven);
                let used: u16 = shown.clone().map(uneven).sum();
                assert!(shown.contains(&selected), "{selected} in {room}: {shown:?}");
                assert!(used <= room || shown.len() == 1, "{selected} in {room}: {shown:?}");
            }
        }
    }
}
