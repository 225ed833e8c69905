//! What is remembered of the chain for a while, within limits: code of payers, domains of tokens.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Entries that are kept. When there are more, all are forgotten: a stranger who fills it only makes others
/// ask once more.
const ENTRIES_MAX: usize = 16_384;

/// Remembers values by key, each for a while.
#[derive(Debug)]
pub struct Memory<K, V> {
    ttl_ms: u64,
    // Held for one look-up.
    known: Mutex<HashMap<K, (u64, V)>>,
}

impl<K: Eq + Hash, V: Clone> Memory<K, V> {
    pub fn new(ttl_ms: u64) -> Self {
        Self { ttl_ms, known: Mutex::default() }
    }

    pub fn get(&self, key: &K, now_ms: u64) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, value) = known.get(key)?;
        (now_ms.saturating_sub(*at) < self.ttl_ms).then(|| value.clone())
    }

    pub fn learn(&self, key: K, value: V, now_ms: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ENTRIES_MAX && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, (now_ms, value));
    }

    pub fn forget(&self, key: &K) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_for_a_while_and_there_are_never_too_many() {
        let memory = Memory::new(100);
        memory.learn(1, "a", 50);
        assert_eq!(memory.get(&1, 149), Some("a"));
        assert_eq!(memory.get(&1, 150), None);
        for key in 0..ENTRIES_MAX + 10 {
            memory.learn(key, "b", 200);
        }
        assert!(memory.known.lock().unwrap().len() <= ENTRIES_MAX);
        memory.forget(&ENTRIES_MAX);
        assert_eq!(memory.get(&ENTRIES_MAX, 200), None);
    }
}
