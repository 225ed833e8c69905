//! Memory for whole answers, from the request to the last byte that is sent. It only counts bytes and allocates
//! nothing.
//!
//! The configured memory is split into two equal pools. A sale reserves [`RESERVED_ANSWER_BYTES`] of the first pool
//! before its payment is verified. If its answer turns out to be longer, the sale reserves [`ANSWER_BYTES_MAX`] of the
//! second pool while it reads the answer, before it settles the payment. A sale waits for the second pool at most once
//! and holds no other part of it meanwhile, so sales cannot block each other.
//!
//! Repeats of stored answers are free. A third pool, a quarter of the configured memory on top, serves them, so that
//! they cannot take the memory of sales.

use std::sync::Arc;

use bursar_outbound::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum size of an answer that is not a stream.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The bytes that each sale reserves before its payment is verified.
///
/// Most answers are shorter than this.
pub const RESERVED_ANSWER_BYTES: usize = 64 << 10;
/// Units of the longest answer. A unit is [`RESERVED_ANSWER_BYTES`].
const LONG_ANSWER_UNITS: u32 = 128;
/// The smallest memory: one longest answer in each half.
pub const MEMORY_BYTES_MIN: usize = 2 * ANSWER_BYTES_MAX;

/// Memory for all whole answers.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory {
    /// Units of the first half, one for each sale.
    first_half: Arc<Semaphore>,
    /// Units of the second half, for longer answers.
    second_half: Arc<Semaphore>,
    /// Units for repeats of stored answers.
    repeat_units: Arc<Semaphore>,
    /// Notified when a long answer has left the memory.
    long_answer_freed: Arc<Notify>,
}

/// The reserved memory of one answer.
///
/// Dropping it frees the memory.
#[derive(Debug)]
pub struct AnswerReservation {
    memory: AnswerMemory,
    first: Option<OwnedSemaphorePermit>,
    long: Option<OwnedSemaphorePermit>,
}

/// An answer together with its reserved memory. The answer is dropped first.
struct AnswerWithReservation<T> {
    body: T,
    _room: AnswerReservation,
}

impl AnswerMemory {
    /// Creates the memory: `bytes`, at least [`MEMORY_BYTES_MIN`].
    pub fn with_bytes(bytes: usize) -> Self {
        let units = bytes.max(MEMORY_BYTES_MIN) / 2 / RESERVED_ANSWER_BYTES;
        let of = |units: usize| Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)));
        let longest = usize::try_from(LONG_ANSWER_UNITS).unwrap_or(usize::MAX);
        Self {
            first_half: of(units),
            second_half: of(units),
            repeat_units: of((units / 2).max(longest)),
            long_answer_freed: Arc::default(),
        }
    }

    fn room(&self, first: Option<OwnedSemaphorePermit>) -> AnswerReservation {
        AnswerReservation { memory: self.clone(), first, long: None }
    }

    /// Reserves memory for a new sale, or returns `None` if there is no room.
    pub fn try_reserve(&self) -> Option<AnswerReservation> {
        let first = Arc::clone(&self.first_half).try_acquire_owned().ok()?;
        Some(self.room(Some(first)))
    }

    /// Reserves memory for a sale that is already paid.
    ///
    /// Waits for room.
    pub async fn reserve(&self) -> AnswerReservation {
        self.room(Arc::clone(&self.first_half).acquire_owned().await.ok())
    }

    /// Reserves memory for a stored answer of unknown length.
    ///
    /// Waits for room.
    pub async fn reserve_longest(&self) -> AnswerReservation {
        let mut room = self.room(None);
        room.long = Arc::clone(&self.repeat_units).acquire_many_owned(LONG_ANSWER_UNITS).await.ok();
        room
    }

    /// Waits until a long answer has left the memory.
    pub async fn wait_for_freed_memory(&self) {
        self.long_answer_freed.notified().await;
    }
}

impl AnswerReservation {
    /// Returns how long the answer may be.
    pub fn bytes(&self) -> usize {
        match (&self.first, &self.long) {
            (_any, Some(_long)) => ANSWER_BYTES_MAX,
            (Some(_first), None) => RESERVED_ANSWER_BYTES,
            (None, None) => 0,
        }
    }

    /// Extends the reservation to the longest answer.
    ///
    /// Waits for room. Waiting answers are served in order of arrival.
    pub async fn extend(&mut self) {
        let long = Arc::clone(&self.memory.second_half);
        // The semaphore is never closed.
        self.long = long.acquire_many_owned(LONG_ANSWER_UNITS).await.ok();
    }

    /// Frees the memory that an answer of this length does not need.
    pub fn shrink(&mut self, bytes: usize) {
        let units = bytes.div_ceil(RESERVED_ANSWER_BYTES);
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
        Bytes::from_owner(AnswerWithReservation { body, _room: self })
    }

    fn free_long(&mut self) {
        if self.long.take().is_some() {
            self.memory.long_answer_freed.notify_one();
        }
    }
}

impl Drop for AnswerReservation {
    fn drop(&mut self) {
        self.free_long();
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for AnswerWithReservation<T> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const UNITS: usize = MEMORY_BYTES_MIN / 2 / RESERVED_ANSWER_BYTES;

    #[test]
    fn the_longest_answer_is_a_whole_number_of_units() {
        assert_eq!(
            usize::try_from(LONG_ANSWER_UNITS).unwrap() * RESERVED_ANSWER_BYTES,
            ANSWER_BYTES_MAX
        );
    }

    #[test]
    fn each_sale_reserves_before_it_pays_and_frees_with_the_last_clone() {
        let memory = AnswerMemory::with_bytes(0);
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
        let memory = AnswerMemory::with_bytes(0);
        let (mut one, mut other) = (memory.try_reserve().unwrap(), memory.try_reserve().unwrap());
        one.extend().now_or_never().unwrap();
        assert_eq!((one.bytes(), other.bytes()), (ANSWER_BYTES_MAX, RESERVED_ANSWER_BYTES));
        assert!(other.extend().now_or_never().is_none());
        let held = one.hold(vec![1; RESERVED_ANSWER_BYTES + 1]);
        assert_eq!(memory.second_half.available_permits(), UNITS - 2);
        assert_eq!(
            memory.first_half.available_permits(),
            UNITS - 1,
            "its first unit is free again"
        );
        assert!(other.extend().now_or_never().is_none());
        assert!(memory.wait_for_freed_memory().now_or_never().is_none());
        drop(held);
        assert!(memory.wait_for_freed_memory().now_or_never().is_some());
        other.extend().now_or_never().unwrap();
        // A short answer releases its part of the second half.
        let _held = other.hold(vec![1; RESERVED_ANSWER_BYTES]);
        assert_eq!(memory.second_half.available_permits(), UNITS);
        let stored = memory.reserve_longest().now_or_never().unwrap();
        let _held = stored.hold(vec![1; 10]);
        assert_eq!(memory.repeat_units.available_permits(), UNITS - 1, "it has no first unit");
        assert_eq!(memory.second_half.available_permits(), UNITS, "nor one of a sale");
    }
}
