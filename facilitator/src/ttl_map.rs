//! A bounded cache whose entries expire. It holds facts about payers, tokens and channels.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Maximum number of entries. If the map is full, it is cleared. Other requests then need another lookup, and payers
/// that wasted gas may pay again.
const ENTRIES_MAX: usize = 16_384;

/// A map whose entries expire after a fixed time.
#[derive(Debug)]
pub struct TtlMap<K, V> {
    ttl_ms: u64,
    // The lock is held for a single lookup.
    entries: Mutex<HashMap<K, (u64, V)>>,
}

impl<K: Eq + Hash, V: Clone> TtlMap<K, V> {
    /// Creates an empty map whose entries expire after `ttl_ms`.
    pub fn new(ttl_ms: u64) -> Self {
        Self { ttl_ms, entries: Mutex::default() }
    }

    /// Returns the value of a key unless it has expired.
    pub fn get(&self, key: &K, now_ms: u64) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, value) = entries.get(key)?;
        (now_ms.saturating_sub(*at) < self.ttl_ms).then(|| value.clone())
    }

    /// Stores a value, which expires `ttl_ms` after `now_ms`.
    pub fn insert(&self, key: K, value: V, now_ms: u64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            entries.clear();
        }
        entries.insert(key, (now_ms, value));
    }

    /// Removes the value of a key.
    pub fn remove(&self, key: &K) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_values_expire_and_their_number_is_bounded() {
        let map = TtlMap::new(100);
        map.insert(1, "a", 50);
        assert_eq!(map.get(&1, 149), Some("a"));
        assert_eq!(map.get(&1, 150), None);
        for key in 0..ENTRIES_MAX + 10 {
            map.insert(key, "b", 200);
        }
        assert!(map.entries.lock().unwrap().len() <= ENTRIES_MAX);
        map.remove(&ENTRIES_MAX);
        assert_eq!(map.get(&ENTRIES_MAX, 200), None);
    }
}
