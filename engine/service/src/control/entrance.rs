//! Places of programs at the control socket. Those that have not proven the token yet have a few of their own, of which
//! the oldest is evicted: silent connections never keep the operator out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::limits::{CONTROL_SESSIONS, CONTROL_UNPROVEN};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// All places of one socket.
#[derive(Debug, Clone)]
pub(super) struct Places {
    proven: Arc<Semaphore>,
    // A mutex, not a message: the newcomer's place must be free before it is served.
    unproven: Arc<Mutex<Unproven>>,
}

#[derive(Debug, Default)]
struct Unproven {
    next: u64,
    /// Oldest first.
    waiting: VecDeque<(u64, CancellationToken)>,
}

/// A program that has not proven the token yet. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct Entrance {
    places: Places,
    number: u64,
    evicted: CancellationToken,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { proven: Arc::new(Semaphore::new(CONTROL_SESSIONS)), unproven: Arc::default() }
    }

    /// A place for a program that has just connected; evicts the oldest that has proven nothing where there is none.
    pub(super) fn enter(&self) -> Entrance {
        let evicted = CancellationToken::new();
        let mut unproven = self.unproven.lock().unwrap_or_else(PoisonError::into_inner);
        if unproven.waiting.len() >= CONTROL_UNPROVEN
            && let Some((_number, oldest)) = unproven.waiting.pop_front()
        {
            oldest.cancel();
        }
        unproven.next = unproven.next.saturating_add(1);
        let number = unproven.next;
        unproven.waiting.push_back((number, evicted.clone()));
        Entrance { places: self.clone(), number, evicted }
    }
}

impl Entrance {
    /// Ends once the place is another program's.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// A place of a program that has proven the token; `None` if all are taken.
    pub(super) fn pass(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places.proven).try_acquire_owned().ok()
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        let mut unproven = self.places.unproven.lock().unwrap_or_else(PoisonError::into_inner);
        unproven.waiting.retain(|(number, _evicted)| *number != self.number);
    }
}
