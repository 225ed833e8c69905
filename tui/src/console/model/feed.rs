//! The entries of a journal of any length. The feed keeps one contiguous range of entries; the console requests other
//! pages when the operator views them.

use std::collections::VecDeque;

use bursar_control::activity_rows::shown_positions;
use bursar_control::answers::ActivityRow;

/// Maximum number of kept entries. The console requests a dropped entry again when the operator views it.
const FEED_ENTRIES_MAX: usize = 2_000;
/// Number of the newest entries that a filter searches.
pub(crate) const SEARCHED_ENTRIES: usize = 1_900;
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
    /// The numbers of the kept entries that the pane shows, newest first.
    shown: Vec<u64>,
    /// The number of the journal's newest entry. Numbers start at 1.
    head: u64,
}

impl Feed {
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Returns the kept entries, newest first.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = &ActivityRow> {
        self.rows.iter()
    }

    /// Returns an entry, or `None` if it is not kept.
    pub(crate) fn get(&self, seq: u64) -> Option<&ActivityRow> {
        self.rows.binary_search_by(|row| seq.cmp(&row.seq)).ok().and_then(|at| self.rows.get(at))
    }

    /// Returns the numbers of the kept entries that the pane shows, newest first: one entry of each request.
    ///
    /// It knows only kept entries, so the oldest state of a request may show while its newer entries are not kept.
    pub(crate) fn shown(&self) -> &[u64] {
        &self.shown
    }

    /// Returns the entry in a row of the pane.
    pub(crate) fn row(&self, index: usize) -> Option<&ActivityRow> {
        self.shown.get(index).and_then(|seq| self.get(*seq))
    }

    /// Returns whether the kept entries begin with the newest of the journal.
    pub(crate) fn has_newest(&self) -> bool {
        self.rows.front().is_none_or(|newest| newest.seq == self.head)
    }

    /// Returns whether the kept entries end with the first of the journal.
    pub(crate) fn has_oldest(&self) -> bool {
        self.rows.back().is_none_or(|oldest| oldest.seq <= 1)
    }

    fn choose_shown(&mut self) {
        let rows: &[ActivityRow] = self.rows.make_contiguous();
        let positions = shown_positions(rows);
        let numbers = positions.iter().filter_map(|position| rows.get(*position));
        self.shown = numbers.map(|row| row.seq).collect();
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
        self.choose_shown();
    }

    /// Adds new entries, oldest first, that follow the kept range; otherwise only the head moves. `around` is the
    /// viewed entry, or `None` for the newest.
    pub(crate) fn append(&mut self, rows: Vec<ActivityRow>, around: Option<u64>) {
        for row in rows {
            if row.seq <= self.head {
                continue;
            }
            let follows = self.has_newest();
            self.head = row.seq;
            if follows {
                self.rows.push_front(row);
            }
        }
        self.trim(around.unwrap_or(self.head));
        self.choose_shown();
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

    /// Returns the next page to load, so that `reach` rows are shown on both sides of the entry `around`.
    pub(crate) fn missing_page(&self, around: Option<u64>, reach: usize) -> Option<Page> {
        let around = around.unwrap_or(self.head).clamp(1, self.head.max(1));
        let rows = u64::try_from(PAGE_ROWS).unwrap_or(u64::MAX);
        let whole = |newest: u64| Page { before: newest.saturating_add(1), limit: PAGE_ROWS };
        let (low, high) = self.kept_range()?;
        let distance = u64::try_from(reach).unwrap_or(u64::MAX);
        if around > high.saturating_add(distance) || around.saturating_add(distance) < low {
            return Some(whole(self.head.min(around.saturating_add(rows / 2))));
        }
        let above = self.shown.partition_point(|seq| *seq > around);
        let below = self.shown.len().saturating_sub(above);
        // Without space for both sides, only entries that are nearer than `reach` are loaded.
        let has_space = self.rows.len().saturating_add(PAGE_ROWS) <= FEED_ENTRIES_MAX;
        let is_near = |edge: u64| has_space || around.abs_diff(edge) <= distance;
        if below <= reach && low > 1 && is_near(low) {
            return Some(Page { before: low, limit: PAGE_ROWS });
        }
        if above < reach && high < self.head && is_near(high) {
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

    /// Requests of 50 entries each have one row, so that a screen needs more entries than rows.
    #[test]
    fn pages_are_loaded_until_rows_fill_the_screen_or_no_more_fit() {
        let one_of_50 = |rows: Vec<ActivityRow>| -> Vec<ActivityRow> {
            let request = |row: &ActivityRow| Some((row.seq / 50).to_string());
            rows.into_iter().map(|row| ActivityRow { request: request(&row), ..row }).collect()
        };
        for (reach, loaded) in [(10, 11 * 50), (60, FEED_ENTRIES_MAX)] {
            for around in [None, Some(15_000), Some(1)] {
                let mut feed = Feed::default();
                feed.add_page(one_of_50(rows(30_000, 200)), None);
                let mut pages = 0;
                while let Some(page) = feed.missing_page(around, reach) {
                    feed.add_page(one_of_50(page_rows(page)), around);
                    pages += 1;
                    assert!(pages < 20, "{reach} {around:?}: {page:?}");
                }
                let kept = kept_numbers(&feed).len();
                assert!(kept > loaded - 300, "{reach} {around:?}: {kept} in {pages} pages");
            }
        }
    }

    #[test]
    fn new_entries_do_not_move_a_feed_that_is_scrolled_back() {
        let mut feed = Feed::default();
        feed.add_page(rows(5_000, 200), None);
        while let Some(page) = feed.missing_page(Some(100), 20) {
            feed.add_page(page_rows(page), Some(100));
        }
        let before = kept_numbers(&feed);
        feed.append(rows(5_300, 300).into_iter().rev().collect(), Some(100));
        assert_eq!((kept_numbers(&feed), feed.head()), (before, 5_300));
        // Back at the top, the newest entries are requested.
        assert_eq!(feed.missing_page(None, 20), Some(Page { before: 5_301, limit: PAGE_ROWS }));
        feed.add_page(rows(5_300, 200), None);
        feed.append(rows(5_301, 1), None);
        feed.append(rows(5_301, 1), None);
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
        feed.append(rows(1, 1), None);
        assert_eq!((feed.missing_page(None, 20), feed.head()), (None, 1));
    }
}
