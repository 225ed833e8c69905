//! Bounds the connections of the control socket. Connections that have not proven the token have their own slots. If
//! all of these slots are taken, a new connection evicts the oldest unproven one, so that silent connections cannot
//! lock the operator out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::limits::{CONTROL_SESSIONS_MAX, CONTROL_UNPROVEN_SESSIONS_MAX};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The connection limits of one socket.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimits {
    proven: Arc<Semaphore>,
    // A mutex instead of an owning task: the eviction must happen before the new connection is served.
    unproven: Arc<Mutex<Unproven>>,
}

#[derive(Debug, Default)]
struct Unproven {
    next_number: u64,
    /// Oldest first.
    connections: VecDeque<(u64, CancellationToken)>,
}

/// A connection without a proof of the token. Dropping it frees its slot.
#[derive(Debug)]
pub(super) struct UnprovenConnection {
    limits: ConnectionLimits,
    number: u64,
    evicted: CancellationToken,
}

impl ConnectionLimits {
    pub(super) fn new() -> Self {
        Self { proven: Arc::new(Semaphore::new(CONTROL_SESSIONS_MAX)), unproven: Arc::default() }
    }

    /// Takes a slot for a new connection. If no slot is free, evicts the oldest connection without a proof.
    pub(super) fn admit(&self) -> UnprovenConnection {
        let evicted = CancellationToken::new();
        let mut unproven = self.unproven.lock().unwrap_or_else(PoisonError::into_inner);
        if unproven.connections.len() >= CONTROL_UNPROVEN_SESSIONS_MAX
            && let Some((_number, oldest)) = unproven.connections.pop_front()
        {
            oldest.cancel();
        }
        unproven.next_number = unproven.next_number.saturating_add(1);
        let number = unproven.next_number;
        unproven.connections.push_back((number, evicted.clone()));
        UnprovenConnection { limits: self.clone(), number, evicted }
    }
}

impl UnprovenConnection {
    /// Completes when another connection has taken the slot.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Takes a slot for a program that has proven the token; `None` if all are taken.
    pub(super) fn take_proven_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.limits.proven).try_acquire_owned().ok()
    }
}

impl Drop for UnprovenConnection {
    fn drop(&mut self) {
        let mut unproven = self.limits.unproven.lock().unwrap_or_else(PoisonError::into_inner);
        unproven.connections.retain(|(number, _evicted)| *number != self.number);
    }
}
