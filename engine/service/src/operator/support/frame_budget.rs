//! Keeps lists within a frame. Agents choose the length of their texts, and must not be able to make a list too large
//! to show.

use serde::Serialize;

/// Truncates `rows` to the first rows that fit into `room` bytes of JSON. Returns how many rows were removed.
pub(crate) fn truncate_to_fit<T: Serialize>(rows: &mut Vec<T>, room: usize) -> usize {
    let mut left = room;
    let fitting = rows.iter().take_while(|row| {
        let size = serde_json::to_vec(row).map_or(usize::MAX, |text| text.len());
        let fits = size <= left;
        // One byte for the comma.
        left = left.saturating_sub(size).saturating_sub(1);
        fits
    });
    let fitting = fitting.count();
    let out = rows.len().saturating_sub(fitting);
    rows.truncate(fitting);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_before_it_exceeds_its_room() {
        let rows: Vec<String> = (0..10).map(|n| "x".repeat(n)).collect();
        for room in 0..100 {
            let mut kept = rows.clone();
            let out = truncate_to_fit(&mut kept, room);
            assert_eq!(kept, rows[..rows.len() - out]);
            let list = serde_json::to_vec(&kept).unwrap().len();
            assert!(kept.is_empty() || list <= room + 2, "{room}: {list}");
        }
        let mut kept = rows.clone();
        assert_eq!(truncate_to_fit(&mut kept, 74), 0, "65 characters of JSON and nine commas");
        assert_eq!(truncate_to_fit(&mut kept, 73), 1);
    }
}
