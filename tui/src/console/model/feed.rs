//! The entries of a journal of any length. The feed keeps one contiguous range of entries; the console requests other
//! pages when the operator views them.

use std::collections::VecDeque;

use bursar_control::answers::ActivityRow;

/// Maximum number of kept entries. The console requests a dropped entry again when the operator views it.
const FEED_ENTRIES_MAX: usize = 2_000;
/// Number of the newest entries that a filter searches.
pub(crate) const SEARCHED_ENTRIES: u64 = 1_900;
/// Number of entries of one page.
pub(crate) const PAGE_ROWS: usize = 200;

/// A page to request: at most `limit` entries before the entry `before`, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) before: u64,
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Feed {
    /// A contiguous range of the journal, newest first.
    rows: VecDeque<ActivityRow>,
    /// The number of the journal's newest entry. Numbers start at 1.
    head: u64,
}

impl Feed {
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Returns the kept entries, newest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &ActivityRow> {
        self.rows.iter()
    }

    /// Returns an entry, or `None` if it is not kept.
    pub(crate) fn get(&self, seq: u64) -> Option<&ActivityRow> {
        self.rows.binary_search_by(|row| seq.cmp(&row.seq)).ok().and_then(|at| self.rows.get(at))
    }

    /// Returns the newest of the kept entries.
    pub(crate) fn newest_kept(&self) -> Option<&ActivityRow> {
        self.rows.front()
    }

    fn kept_range(&self) -> Option<(u64, u64)> {
        Some((self.rows.back()?.seq, self.rows.front()?.seq))
    }

    /// Adds a requested page. `around` is the viewed entry, or `None` for the newest.
    pub(crate) fn add_page(&mut self, page: Vec<ActivityRow>, around: Option<u64>) {
        let (Some(newest), Some(oldest)) = (page.first(), page.last()) else { return };
        let (newest, oldest) = (newest.seq, oldest.seq);
        self.head = self.head.max(newest);
        match self.kept_range() {
            Some((low, high))
                if oldest <= high.saturating_add(1) && newest.saturating_add(1) >= low =>
            {
                let (newer, older): (Vec<_>, Vec<_>) = page
                    .into_iter()
                    .filter(|row| row.seq > high || row.seq < low)
                    .partition(|row| row.seq > high);
                newer.into_iter().rev().for_each(|row| self.rows.push_front(row));
                self.rows.extend(older);
            }
            // The page does not adjoin the kept range, so it replaces that range.
            _elsewhere => self.rows = page.into(),
        }
        self.trim(around.unwrap_or(self.head));
    }

    /// Adds a new entry if it follows the kept range; otherwise only the head moves. `around` is the viewed entry, or
    /// `None` for the newest.
    pub(crate) fn append(&mut self, row: ActivityRow, around: Option<u64>) {
        if row.seq <= self.head {
            return;
        }
        let follows = self.rows.front().is_none_or(|newest| newest.seq == self.head);
        self.head = row.seq;
        if follows {
            self.rows.push_front(row);
            self.trim(around.unwrap_or(self.head));
        }
    }

    /// Drops the entries that are farthest from `around`.
    fn trim(&mut self, around: u64) {
        while self.rows.len() > FEED_ENTRIES_MAX {
            let Some((low, high)) = self.kept_range() else { return };
            if high.abs_diff(around) > around.abs_diff(low) {
                self.rows.pop_front();
            } else {
                self.rows.pop_back();
            }
        }
    }

    /// Returns the next missing page within `reach` entries of `around`.
    pub(crate) fn missing_page(&self, around: Option<u64>, reach: u64) -> Option<Page> {
        let around = around.unwrap_or(self.head).clamp(1, self.head.max(1));
        let (top, bottom) =
            (self.head.min(around.saturating_add(reach)), around.saturating_sub(reach).max(1));
        let rows = u64::try_from(PAGE_ROWS).unwrap_or(u64::MAX);
        let whole = |newest: u64| Page { before: newest.saturating_add(1), limit: PAGE_ROWS };
        let (low, high) = self.kept_range()?;
        if bottom > high || top < low {
            return Some(whole(self.head.min(around.saturating_add(rows / 2))));
        }
        if bottom < low {
            return Some(Page { before: low, limit: PAGE_ROWS });
        }
        if top > high {
            let newest = self.head.min(high.saturating_add(rows));
            let limit = usize::try_from(newest.saturating_sub(high)).unwrap_or(PAGE_ROWS);
            return Some(Page { limit, ..whole(newest) });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::feed as rows;

    /// Returns the rows of a page, as an engine does.
    fn page_rows(page: Page) -> Vec<ActivityRow> {
        let newest = page.before - 1;
        rows(newest, newest.min(u64::try_from(page.limit).unwrap()))
    }

    fn kept_numbers(feed: &Feed) -> Vec<u64> {
        feed.rows().map(|row| row.seq).collect()
    }

    fn is_contiguous(feed: &Feed) -> bool {
        kept_numbers(feed).windows(2).all(|pair| pair[0] == pair[1] + 1)
    }

    /// Any entry of a journal of a million entries is loaded after a few pages.
    #[test]
    fn any_entry_of_a_million_loads_in_few_pages_and_little_is_kept() {
        let mut feed = Feed::default();
        feed.add_page(rows(1_000_000, 200), None);
        let seqs = [1_000_000, 999_700, 500_000, 499_950, 500_100, 1, 2, 600, 1_000_000, 7];
        for seq in seqs {
            let mut pages = 0;
            while let Some(page) = feed.missing_page(Some(seq), 60) {
                assert!(page.limit <= PAGE_ROWS && page.limit > 0);
                feed.add_page(page_rows(page), Some(seq));
                pages += 1;
                assert!(pages <= 3, "{seq}: {page:?}");
            }
            for seq in seq.saturating_sub(60).max(1)..=(seq + 60).min(1_000_000) {
                assert_eq!(feed.get(seq).map(|row| row.seq), Some(seq));
            }
            assert!(is_contiguous(&feed) && kept_numbers(&feed).len() <= FEED_ENTRIES_MAX);
            assert_eq!(feed.head(), 1_000_000);
        }
    }

    #[test]
    fn scrolling_through_the_whole_feed_keeps_one_contiguous_stretch() {
        let mut feed = Feed::default();
        feed.add_page(rows(30_000, 200), None);
        let mut met = 0;
        for seq in (1..=30_000u64).rev().step_by(12).chain((1..=30_000).step_by(12)) {
            while let Some(page) = feed.missing_page(Some(seq), 60) {
                feed.add_page(page_rows(page), Some(seq));
                met += 1;
            }
            assert!(
                feed.get(seq).is_some()
                    && is_contiguous(&feed)
                    && kept_numbers(&feed).len() <= FEED_ENTRIES_MAX
            );
        }
        assert!((250..400).contains(&met), "each page about once each way: {met}");
    }

    #[test]
    fn new_entries_do_not_move_a_feed_that_is_scrolled_back() {
        let mut feed = Feed::default();
        feed.add_page(rows(5_000, 200), None);
        while let Some(page) = feed.missing_page(Some(100), 20) {
            feed.add_page(page_rows(page), Some(100));
        }
        let before = kept_numbers(&feed);
        for row in rows(5_300, 300).into_iter().rev() {
            feed.append(row, Some(100));
        }
        assert_eq!((kept_numbers(&feed), feed.head()), (before, 5_300));
        // Back at the top, the newest entries are requested.
        assert_eq!(feed.missing_page(None, 20), Some(Page { before: 5_301, limit: PAGE_ROWS }));
        feed.add_page(rows(5_300, 200), None);
        feed.append(rows(5_301, 1).remove(0), None);
        feed.append(rows(5_301, 1).remove(0), None);
        assert!(
            is_contiguous(&feed)
                && kept_numbers(&feed)[0] == 5_301
                && feed.missing_page(None, 20).is_none()
        );
    }

    #[test]
    fn empty_feed_requests_no_page() {
        let mut feed = Feed::default();
        assert_eq!(feed.missing_page(None, 20), None);
        feed.append(rows(1, 1).remove(0), None);
        assert_eq!((feed.missing_page(None, 20), feed.head()), (None, 1));
    }
}
