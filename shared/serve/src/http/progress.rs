//! The progress of one connection and its next deadline. It is shared by the connection's task, hyper's view of the
//! socket, and the bodies of request and response. The slots share it too, because they may evict the connection.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::task::AtomicWaker;

use super::bounds::Bounds;
use super::deliver::DeliverySender;
use super::refusal::Refusal;

/// How long, in milliseconds, a body may still arrive after the server begins to stop.
const STOP_BODY_MS: u64 = 500;
/// How long a stopping server discards arriving bytes after the last response of a connection.
const STOP_LINGER_MS: u64 = 500;
/// A route that has claimed its response may take this many times as long as other routes.
const CLAIMED_HANDLER_FACTOR: u64 = 2;

/// The shared state of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) waker: AtomicWaker,
    signal: AtomicU8,
    proven: AtomicBool,
    /// A mutex instead of messages, because nearly all holders run in the connection's task. The only exception is a
    /// route that reads its body in another task. The mutex is never held across an await.
    progress: Mutex<Progress>,
}

/// The server's instruction to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Open,
    /// End after the request in progress.
    Stop,
    /// End at once: the slot or the memory was given to another connection.
    Evicted,
}

impl ConnectionState {
    pub(super) fn new(now: u64) -> Self {
        Self {
            waker: AtomicWaker::new(),
            signal: AtomicU8::new(0),
            proven: AtomicBool::new(false),
            progress: Mutex::new(Progress::new(now)),
        }
    }

    /// Sends a signal and wakes the connection's task. A weaker signal never replaces a stronger one.
    pub(super) fn send(&self, signal: Signal) {
        let code = match signal {
            Signal::Open => 0,
            Signal::Stop => 1,
            Signal::Evicted => 2,
        };
        self.signal.fetch_max(code, Ordering::AcqRel);
        self.waker.wake();
    }

    pub(super) fn signal(&self) -> Signal {
        match self.signal.load(Ordering::Acquire) {
            0 => Signal::Open,
            1 => Signal::Stop,
            _evicted => Signal::Evicted,
        }
    }

    /// Records that a request of this connection has proven its caller.
    pub(super) fn prove(&self) {
        self.proven.store(true, Ordering::Release);
    }

    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the reading side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Between two requests.
    Idle,
    /// Part of a head has arrived.
    Head,
    /// hyper has received the head, and the body is incomplete.
    Body,
    /// The complete request has arrived.
    Received,
    /// The last response was sent; further bytes are discarded.
    Linger,
}

/// The state of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseState {
    /// There is no response yet.
    Open,
    /// hyper has received the response's head.
    Started,
    /// hyper has received the whole response.
    Ended,
}

/// The action at a connection's deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadlineAction {
    /// Close the connection without a response.
    Close,
    /// Refuse the request in progress.
    Refuse(Refusal),
}

#[derive(Debug)]
pub(super) struct Progress {
    pub(super) phase: Phase,
    /// Start of the phase. All times are milliseconds of the server's clock.
    pub(super) phase_start_ms: u64,
    /// Time of the request's first byte.
    pub(super) request_start_ms: u64,
    /// Bytes of the request that have arrived so far.
    pub(super) received_bytes: usize,
    /// Whether the head announced a body.
    pub(super) has_body: bool,
    /// Length announced by the head.
    pub(super) announced_bytes: u64,
    /// Time of the route's first read of the body.
    pub(super) body_wanted_ms: Option<u64>,
    /// Bytes of the request that had arrived when the route first read the body.
    bytes_at_body_wanted: usize,
    pub(super) response: ResponseState,
    /// Only the route may respond to this request.
    is_claimed: bool,
    pub(super) delivery: Option<DeliverySender>,
    /// Time at which the peer stopped reading; `None` while it reads.
    pub(super) stalled_since_ms: Option<u64>,
    refusal: Option<Refusal>,
    refused_ms: Option<u64>,
    stopping_since_ms: Option<u64>,
}

impl Progress {
    pub(super) fn new(now: u64) -> Self {
        Self {
            phase: Phase::Idle,
            phase_start_ms: now,
            request_start_ms: now,
            received_bytes: 0,
            has_body: false,
            announced_bytes: 0,
            body_wanted_ms: None,
            bytes_at_body_wanted: 0,
            response: ResponseState::Open,
            is_claimed: false,
            delivery: None,
            stalled_since_ms: None,
            refusal: None,
            refused_ms: None,
            stopping_since_ms: None,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, now: u64) {
        (self.phase, self.phase_start_ms) = (phase, now);
        match phase {
            Phase::Idle => {
                (self.received_bytes, self.announced_bytes, self.body_wanted_ms) = (0, 0, None);
                (self.response, self.is_claimed) = (ResponseState::Open, false);
            }
            Phase::Head => self.request_start_ms = now,
            Phase::Body | Phase::Received | Phase::Linger => {}
        }
    }

    /// Returns whether unread bytes of the request remain, which would be parsed as the next request.
    pub(super) fn is_unread(&self) -> bool {
        self.has_body && (self.body_wanted_ms.is_none() || self.phase == Phase::Body)
    }

    /// Returns whether a stopping server may close at once.
    pub(super) fn has_no_request(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Head)
    }

    pub(super) fn stop(&mut self, now: u64) {
        self.stopping_since_ms.get_or_insert(now);
    }

    /// Records the time of the route's first read of the body, from which the body's rate is measured. Refuses a body
    /// whose announced length is too large.
    pub(super) fn want_body(&mut self, now: u64, bytes_max: u64) {
        if self.body_wanted_ms.is_none() {
            (self.body_wanted_ms, self.bytes_at_body_wanted) = (Some(now), self.received_bytes);
            if self.announced_bytes > bytes_max {
                self.refuse(Refusal::BodyTooLarge, now);
            }
        }
    }

    /// Refuses the request. Later refusals of the same request have no effect.
    pub(super) fn refuse(&mut self, refusal: Refusal, now: u64) {
        if self.refused_ms.is_none() {
            (self.refusal, self.refused_ms) = (Some(refusal), Some(now));
        }
    }

    /// Leaves the response to the route. Returns whether the route may still respond.
    pub(super) fn claim(&mut self) -> bool {
        self.is_claimed = self.refused_ms.is_none();
        self.is_claimed
    }

    /// Returns whether this request was or will be refused.
    pub(super) fn is_refused(&self) -> bool {
        self.refused_ms.is_some()
    }

    /// Takes a refusal that has no response yet. The caller must write the response.
    pub(super) fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Returns the next deadline, and the action that is due then.
    pub(super) fn next_deadline(&self, bounds: &Bounds) -> Option<(u64, DeadlineAction)> {
        let reading = match self.phase {
            Phase::Linger => {
                let linger = self.phase_start_ms.saturating_add(bounds.linger_ms_max);
                let stop =
                    self.stopping_since_ms.map(|at| at.max(self.phase_start_ms) + STOP_LINGER_MS);
                return Some((linger.min(stop.unwrap_or(linger)), DeadlineAction::Close));
            }
            // A refusal gets as much time as a stalled response.
            _refused if self.refused_ms.is_some() => {
                let at = self
                    .refused_ms
                    .unwrap_or(self.phase_start_ms)
                    .saturating_add(bounds.write_ms_max);
                Some((at, DeadlineAction::Close))
            }
            Phase::Idle => Some((
                self.phase_start_ms.saturating_add(bounds.idle_ms_max),
                DeadlineAction::Close,
            )),
            Phase::Head => {
                let at = self.phase_start_ms.saturating_add(bounds.head.ms_max);
                Some((at, DeadlineAction::Refuse(Refusal::Timeout)))
            }
            Phase::Body => self.body_deadline(bounds),
            Phase::Received => None,
        };
        let handler = match (bounds.handler_ms, self.response, self.phase) {
            (Some(ms), ResponseState::Open, Phase::Body | Phase::Received)
                if self.refused_ms.is_none() =>
            {
                // A refusal could contradict an effect that the route has already caused, so the connection ends
                // without a response.
                let (ms, due) = match self.is_claimed {
                    true => (ms.saturating_mul(CLAIMED_HANDLER_FACTOR), DeadlineAction::Close),
                    false => (ms, DeadlineAction::Refuse(Refusal::Busy)),
                };
                Some((self.request_start_ms.saturating_add(ms), due))
            }
            _none => None,
        };
        let stalled = self
            .stalled_since_ms
            .map(|at| (at.saturating_add(bounds.write_ms_max), DeadlineAction::Close));
        [reading, handler, stalled].into_iter().flatten().min_by_key(|(at, _due)| *at)
    }

    fn body_deadline(&self, bounds: &Bounds) -> Option<(u64, DeadlineAction)> {
        let pace = self.body_wanted_ms.map(|wanted| {
            let body = &bounds.body;
            let received = u64::try_from(
                self.received_bytes - self.bytes_at_body_wanted.min(self.received_bytes),
            );
            let received = received.unwrap_or(u64::MAX).saturating_mul(1_000);
            let earned = received.checked_div(body.bytes_per_s_min).unwrap_or(u64::MAX);
            let allowed = body.grace_ms.saturating_add(earned).min(body.ms_max);
            (wanted.saturating_add(allowed), DeadlineAction::Refuse(Refusal::Timeout))
        });
        let stop = self
            .stopping_since_ms
            .map(|at| (at.saturating_add(STOP_BODY_MS), DeadlineAction::Close));
        pace.into_iter().chain(stop).min_by_key(|(at, _due)| *at)
    }
}
