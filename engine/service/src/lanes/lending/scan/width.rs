//! How many blocks the scan requests at once, and how long it pauses after failures. Pure.

use bursar_core::limits::{SCAN_PAUSE_MAX_MS, SCAN_PAUSE_MS, SCAN_QUERY_BLOCKS_MAX};

/// The number of successful searches after which the width that failed last is tried again. A node that always
/// refuses that width then refuses less than one search in this many.
const SUCCESSES_BEFORE_RETRY: u32 = 16;

/// The number of blocks of a search. The limit differs between nodes, and few nodes publish it.
#[derive(Debug)]
pub(super) struct Width {
    blocks: u64,
    /// The width that failed last.
    failed_width: Option<u64>,
    successes: u32,
}

impl Default for Width {
    fn default() -> Self {
        Self { blocks: SCAN_QUERY_BLOCKS_MAX, failed_width: None, successes: 0 }
    }
}

impl Width {
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Halves the width after a failed search. Returns whether the search was wider than one block.
    pub(super) fn narrow(&mut self, searched: u64) -> bool {
        let tried = self.blocks.min(searched).max(1);
        self.failed_width = Some(tried);
        self.blocks = (tried / 2).max(1);
        self.successes = 0;
        tried > 1
    }

    /// Doubles the width after a successful search of full width. The width that failed last is tried again only
    /// after [`SUCCESSES_BEFORE_RETRY`] such searches.
    pub(super) fn widen(&mut self, searched: u64) {
        if searched < self.blocks {
            return;
        }
        self.successes = self.successes.saturating_add(1);
        let double = self.blocks.saturating_mul(2).min(SCAN_QUERY_BLOCKS_MAX);
        let is_below = self.failed_width.is_none_or(|failed| double < failed);
        if is_below || self.successes >= SUCCESSES_BEFORE_RETRY {
            if !is_below {
                self.failed_width = None;
            }
            self.blocks = double;
            self.successes = 0;
        }
    }
}

/// The pause after consecutive failures.
#[derive(Debug)]
pub(super) struct Pause {
    next_ms: u64,
}

impl Default for Pause {
    fn default() -> Self {
        Self { next_ms: SCAN_PAUSE_MS }
    }
}

impl Pause {
    /// Returns the pause after one more failure, in milliseconds. Each pause is twice as long as the one before, up to
    /// a bound.
    pub(super) fn lengthen(&mut self) -> u64 {
        let pause_ms = self.next_ms;
        self.next_ms = pause_ms.saturating_mul(2).min(SCAN_PAUSE_MAX_MS);
        pause_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_halves_down_to_one_block_and_returns_to_its_start() {
        let mut width = Width::default();
        let mut halvings = 0;
        while width.narrow(u64::MAX) {
            halvings += 1;
        }
        assert_eq!((halvings, width.blocks()), (19, 1));
        let mut searches = 0;
        while width.blocks() < SCAN_QUERY_BLOCKS_MAX {
            width.widen(width.blocks());
            searches += 1;
        }
        assert_eq!(searches, 16 + 19, "slowly past the failed width, then at once");
        width.widen(SCAN_QUERY_BLOCKS_MAX);
        assert_eq!(width.blocks(), SCAN_QUERY_BLOCKS_MAX);
    }

    #[test]
    fn a_refused_width_is_seldom_tried_again() {
        let mut width = Width::default();
        let (mut refused, mut answered) = (0, 0);
        while answered < 1_000 {
            if width.blocks() > 10_000 {
                refused += 1;
                width.narrow(width.blocks());
            } else {
                answered += 1;
                width.widen(width.blocks());
            }
        }
        assert!(width.blocks() > 5_000 && refused <= 7 + 1_000 / 16, "{refused} {width:?}");
    }

    #[test]
    fn a_short_range_shows_nothing_about_the_width() {
        let mut width = Width::default();
        width.narrow(SCAN_QUERY_BLOCKS_MAX);
        for _ in 0..100 {
            width.widen(10);
        }
        assert_eq!(width.blocks(), SCAN_QUERY_BLOCKS_MAX / 2);
        width.narrow(10);
        assert_eq!(width.blocks(), 5, "ten blocks were already too many");
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut pause = Pause::default();
        let pauses: Vec<u64> = (0..8).map(|_| pause.lengthen() / 1_000).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
