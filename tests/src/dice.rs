//! Numbers that come again with the same seed.

/// SplitMix64: every seed, also a small one, gives a stream of its own.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.word() % sides.max(1)
    }

    /// Any of these many.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.roll(count as u64)).expect("a small number")
    }

    /// True `hits` times of `of`.
    pub fn chance(&mut self, hits: u64, of: u64) -> bool {
        self.roll(of) < hits
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = u64::try_from(most - least).expect("in order") + 1;
        least + i64::try_from(self.roll(span)).expect("a small number")
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
