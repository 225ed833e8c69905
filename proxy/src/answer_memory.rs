//! Memory for whole answers, from the request to the last byte that is sent. It only counts bytes and allocates
//! nothing.
//!
//! A sale reserves [`FIRST_BYTES`] of the first half before its payment is verified. If an answer turns out to be
//! longer, it reserves [`ANSWER_BYTES_MAX`] of the second half while it is read, before it is settled. An answer waits
//! for the second half at most once and holds no other part of that half meanwhile, so answers cannot block each other.
//! Repeats of stored answers cost nothing. They share a further quarter, so they cannot take the memory of sales.

use std::sync::Arc;

use bursar_outbound::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum size of an answer that is not a stream.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The bytes that each sale reserves before its payment is verified.
///
/// Most answers are shorter than this.
pub const FIRST_BYTES: usize = 64 << 10;
/// Units of the longest answer. A unit is [`FIRST_BYTES`].
const LONG_UNITS: u32 = 128;
/// The smallest memory: one longest answer in each half.
pub const MEMORY_BYTES_MIN: usize = 2 * ANSWER_BYTES_MAX;

/// Memory for all whole answers.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory {
    /// Units of the first half, one for each sale.
    first: Arc<Semaphore>,
    /// Units of the second half, for longer answers.
    long: Arc<Semaphore>,
    /// Units for repeats of stored answers.
    repeats: Arc<Semaphore>,
    /// Notified when a long answer has left the memory.
    freed: Arc<Notify>,
}

/// The reserved memory of one answer.
///
/// Dropping it frees the memory.
#[derive(Debug)]
pub struct AnswerRoom {
    memory: AnswerMemory,
    first: Option<OwnedSemaphorePermit>,
    long: Option<OwnedSemaphorePermit>,
}

/// An answer together with its reserved memory. The answer is dropped first.
struct Held<T> {
    body: T,
    _room: AnswerRoom,
}

impl AnswerMemory {
    /// Creates the memory: `bytes`, at least [`MEMORY_BYTES_MIN`].
    pub fn of(bytes: usize) -> Self {
        let units = bytes.max(MEMORY_BYTES_MIN) / 2 / FIRST_BYTES;
        let of = |units: usize| Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)));
        let longest = usize::try_from(LONG_UNITS).unwrap_or(usize::MAX);
        Self {
            first: of(units),
            long: of(units),
            repeats: of((units / 2).max(longest)),
            freed: Arc::default(),
        }
    }

    fn room(&self, first: Option<OwnedSemaphorePermit>) -> AnswerRoom {
        AnswerRoom { memory: self.clone(), first, long: None }
    }

    /// Reserves memory for a new sale, or returns `None` if there is no room.
    pub fn try_reserve(&self) -> Option<AnswerRoom> {
        let first = Arc::clone(&self.first).try_acquire_owned().ok()?;
        Some(self.room(Some(first)))
    }

    /// Reserves memory for a sale that is already paid.
    ///
    /// Waits for room.
    pub async fn reserve(&self) -> AnswerRoom {
        self.room(Arc::clone(&self.first).acquire_owned().await.ok())
    }

    /// Reserves memory for a stored answer of unknown length.
    ///
    /// Waits for room.
    pub async fn reserve_longest(&self) -> AnswerRoom {
        let mut room = self.room(None);
        room.long = Arc::clone(&self.repeats).acquire_many_owned(LONG_UNITS).await.ok();
        room
    }

    /// Waits until a long answer has left the memory.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl AnswerRoom {
    /// Returns how long the answer may be.
    pub fn bytes(&self) -> usize {
        match (&self.first, &self.long) {
            (_any, Some(_long)) => ANSWER_BYTES_MAX,
            (Some(_first), None) => FIRST_BYTES,
            (None, None) => 0,
        }
    }

    /// Extends the reservation to the longest answer.
    ///
    /// Waits for room. Waiting answers are served in order of arrival.
    pub async fn extend(&mut self) {
        let long = Arc::clone(&self.memory.long);
        // The semaphore is never closed.
        self.long = long.acquire_many_owned(LONG_UNITS).await.ok();
    }

    /// Frees the memory that an answer of this length does not need.
    pub fn shrink(&mut self, bytes: usize) {
        let units = bytes.div_ceil(FIRST_BYTES);
        if units == 0 || (units == 1 && self.first.is_some()) {
            self.free_long();
        } else if let Some(long) = &mut self.long {
            self.first = None;
            let spare = long.num_permits().saturating_sub(units);
            drop(long.split(spare));
        }
        if units == 0 {
            self.first = None;
        }
    }

    /// Returns the answer, which keeps its memory reserved until its last clone is dropped.
    pub fn hold(mut self, body: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        self.shrink(body.as_ref().len());
        Bytes::from_owner(Held { body, _room: self })
    }

    fn free_long(&mut self) {
        if self.long.take().is_some() {
            self.memory.freed.notify_one();
        }
    }
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        self.free_long();
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const UNITS: usize = MEMORY_BYTES_MIN / 2 / FIRST_BYTES;

    #[test]
    fn the_longest_answer_is_a_whole_number_of_units() {
        assert_eq!(usize::try_from(LONG_UNITS).unwrap() * FIRST_BYTES, ANSWER_BYTES_MAX);
    }

    #[test]
    fn each_sale_reserves_before_it_pays_and_frees_with_the_last_clone() {
        let memory = AnswerMemory::of(0);
        let mut rooms: Vec<_> = (0..UNITS).map(|_n| memory.try_reserve().unwrap()).collect();
        assert!(memory.try_reserve().is_none());
        let answer = rooms.pop().unwrap().hold(vec![1; 10]);
        let clone = answer.clone();
        drop(answer);
        assert!(memory.try_reserve().is_none(), "a clone is left");
        drop(clone);
        assert!(memory.try_reserve().is_some());
        rooms[0].shrink(0);
        assert_eq!(rooms[0].bytes(), 0);
        assert!(memory.try_reserve().is_some());
    }

    #[test]
    fn a_long_answer_waits_for_another_one_and_keeps_only_its_length() {
        let memory = AnswerMemory::of(0);
        let (mut one, mut other) = (memory.try_reserve().unwrap(), memory.try_reserve().unwrap());
        one.extend().now_or_never().unwrap();
        assert_eq!((one.bytes(), other.bytes()), (ANSWER_BYTES_MAX, FIRST_BYTES));
        assert!(other.extend().now_or_never().is_none());
        let held = one.hold(vec![1; FIRST_BYTES + 1]);
        assert_eq!(memory.long.available_permits(), UNITS - 2);
        assert_eq!(memory.first.available_permits(), UNITS - 1, "its first unit is free again");
        assert!(other.extend().now_or_never().is_none());
        assert!(memory.freed().now_or_never().is_none());
        drop(held);
        assert!(memory.freed().now_or_never().is_some());
        other.extend().now_or_never().unwrap();
        // A short answer releases its part of the second half.
        let _held = other.hold(vec![1; FIRST_BYTES]);
        assert_eq!(memory.long.available_permits(), UNITS);
        let stored = memory.reserve_longest().now_or_never().unwrap();
        let _held = stored.hold(vec![1; 10]);
        assert_eq!(memory.repeats.available_permits(), UNITS - 1, "it has no first unit");
        assert_eq!(memory.long.available_permits(), UNITS, "nor one of a sale");
    }
}
