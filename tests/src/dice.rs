//! A seeded pseudo-random number generator.

/// SplitMix64: every seed, even a small one, gives a separate stream.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.next_u64() % sides.max(1)
    }

    /// Returns an index into a list of `count` items.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.roll(count as u64)).expect("a small number")
    }

    /// Returns true with probability `hits / of`.
    pub fn chance(&mut self, hits: u64, of: u64) -> bool {
        self.roll(of) < hits
    }

    /// Returns a number from `least` to `most`, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = u64::try_from(most - least).expect("in order") + 1;
        least + i64::try_from(self.roll(span)).expect("a small number")
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
