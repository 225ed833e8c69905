//! The core on its own thread, and the handle by which everybody reaches it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::limits::{
    CORE_BATCH, CORE_BATCH_QUICK, CORE_QUEUE, CORE_STEP_SLOW_MS, RECORD_DELAY_MS,
};
use bursar_core::time::Moment;
use bursar_domain::event::LockCause;
use bursar_domain::{Action, Request};
use bursar_x402::signature::Signature65;
use tokio::sync::{Semaphore, oneshot, watch};
use zeroize::Zeroizing;

use super::{Core, Outcome, View};
use crate::journal::{Head, Reader};

type Answer<T> = oneshot::Sender<Result<T, Fault>>;

enum Message {
    Do(Box<Action>, Option<Answer<Outcome>>),
    Look(RequestId, Answer<Option<Arc<Request>>>),
    Unlocked { keys: Vec<Zeroizing<[u8; 32]>>, note: Option<Head>, answer: Answer<Option<Head>> },
    Accept { key: Zeroizing<[u8; 32]>, answer: Answer<()> },
    Locked(LockCause, Option<u64>, Answer<()>),
    BeginCopy(Answer<Option<PathBuf>>),
    EndCopy(Option<PathBuf>, Answer<()>),
    Stop(Answer<()>),
}

/// Sends commands to the core and reads what it published. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    queue: Sender<Message>,
    /// Places for agents' asks and reports. An operator's commands are few and are never turned away: least of all a
    /// freeze, when agents fill the queue.
    places: Arc<Semaphore>,
    view: watch::Receiver<Arc<View>>,
    reader: Arc<dyn Reader>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// A core and the way to it. Nothing is decided before somebody gives it its turns.
    pub fn new(core: Core, clock: Arc<dyn Clock>) -> (Self, Turns) {
        let (queue, inbox) = channel();
        let places = Arc::new(Semaphore::new(CORE_QUEUE));
        let reader = core.journal().reader();
        let (publish, view) = watch::channel(Arc::new(core.view()));
        let seat = Seat { core, publish, clock: Arc::clone(&clock), most: CORE_BATCH };
        (Self { queue, places, view, reader, clock }, Turns { seat, inbox })
    }

    /// The latest published view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// Wakes on each publication.
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    pub fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.reader)
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Has an action decided and committed.
    ///
    /// # Errors
    /// The refusal; `BUSY` if the queue is full; `JOURNAL_FAILED` once a commit has failed.
    pub async fn act(&self, action: Action) -> Result<Outcome, Fault> {
        let place = match &action {
            Action::Ask(_) | Action::Report(_) => Some(
                Arc::clone(&self.places)
                    .try_acquire_owned()
                    .map_err(|_full| Fault::new(Code::Busy))?,
            ),
            _operators => None,
        };
        let outcome = self.ask(|answer| Message::Do(Box::new(action), Some(answer))).await;
        drop(place);
        outcome
    }

    /// Has a signature recorded. Nobody waits for it: after a crash the same terms give the same one.
    pub fn record(&self, id: RequestId, signature: Signature65) {
        let action = Box::new(Action::Signed { id, signature });
        // Stopped: then it is signed again.
        let _stopped = self.queue.send(Message::Do(action, None));
    }

    /// A request as it stands, signature included.
    pub async fn look(&self, id: RequestId) -> Result<Option<Arc<Request>>, Fault> {
        self.ask(|answer| Message::Look(id, answer)).await
    }

    /// Tells the core that the wallet was opened, with the keys of seals and the wallet file's note.
    /// Answers the head that is sealed now; `None` if journal and wallet do not fit together.
    pub async fn unlocked(
        &self,
        keys: Vec<Zeroizing<[u8; 32]>>,
        note: Option<Head>,
    ) -> Result<Option<Head>, Fault> {
        self.ask(|answer| Message::Unlocked { keys, note, answer }).await
    }

    /// Accepts a journal that did not fit the wallet.
    pub async fn accept(&self, key: Zeroizing<[u8; 32]>) -> Result<(), Fault> {
        self.ask(|answer| Message::Accept { key, answer }).await
    }

    /// The keys are gone; `noted` is the entry that the wallet file was told of before.
    pub async fn locked(&self, cause: LockCause, noted: Option<u64>) -> Result<(), Fault> {
        self.ask(|answer| Message::Locked(cause, noted, answer)).await
    }

    /// Keeps the journal's history as it is, so that it may be copied. Answers its path, if there is one.
    pub async fn begin_copy(&self) -> Result<Option<PathBuf>, Fault> {
        self.ask(Message::BeginCopy).await
    }

    /// Copies the rest of the journal to `to`, if it is given, and lets the history change again.
    pub async fn end_copy(&self, to: Option<PathBuf>) -> Result<(), Fault> {
        self.ask(|answer| Message::EndCopy(to, answer)).await
    }

    /// Writes what waits and ends the thread.
    pub async fn stop(&self) -> Result<(), Fault> {
        self.ask(Message::Stop).await
    }

    async fn ask<T>(&self, message: impl FnOnce(Answer<T>) -> Message) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(message(answer)).map_err(|_stopped| Fault::new(Code::EngineDown))?;
        answered.await.unwrap_or_else(|_stopped| Err(Fault::new(Code::EngineDown)))
    }
}

/// The core and its inbox, between two turns.
#[derive(Debug)]
pub struct Turns {
    seat: Seat,
    inbox: Receiver<Message>,
}

impl Turns {
    /// Gives the core a thread of its own.
    pub fn start(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("core".to_owned()).spawn(move || self.run()).map(drop)
    }

    /// The thread: wait for one message, take whatever else is there, step, publish, answer.
    fn run(mut self) {
        let delay = Duration::from_millis(RECORD_DELAY_MS);
        loop {
            let first = if self.seat.core.has_waiting() {
                match self.inbox.recv_timeout(delay) {
                    Ok(message) => message,
                    Err(RecvTimeoutError::Timeout) => {
                        self.seat.rest();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            } else {
                match self.inbox.recv() {
                    Ok(message) => message,
                    Err(_every_handle_is_gone) => break,
                }
            };
            match self.seat.turn(first, &self.inbox) {
                Some(seat) => self.seat = seat,
                None => return,
            }
        }
        self.seat.rest();
    }

    /// Works on what has come, if anything has. `None` once the core was told to stop.
    pub fn turn(mut self) -> Option<(Self, bool)> {
        let Ok(first) = self.inbox.try_recv() else { return Some((self, false)) };
        self.seat = self.seat.turn(first, &self.inbox)?;
        Some((self, true))
    }

    /// What the thread does when nothing has come for a while.
    pub fn rest(&mut self) {
        if self.seat.core.has_waiting() {
            self.seat.rest();
        }
    }

    pub fn core(&self) -> &Core {
        &self.seat.core
    }
}

/// Where the core works.
#[derive(Debug)]
struct Seat {
    core: Core,
    publish: watch::Sender<Arc<View>>,
    clock: Arc<dyn Clock>,
    /// Decisions in one batch.
    most: usize,
}

impl Seat {
    fn rest(&mut self) {
        self.core.flush(&self.clock.now());
        show(&self.core, &self.publish);
    }

    /// `first` and what else is there. `None` if it was told to stop: then the journal is closed.
    fn turn(mut self, first: Message, inbox: &Receiver<Message>) -> Option<Self> {
        let mut batch = Batch::default();
        let mut other = batch.take(first);
        while other.is_none() && batch.has_room(self.most) {
            match inbox.try_recv() {
                Ok(message) => other = batch.take(message),
                Err(_empty) => break,
            }
        }
        let began = self.clock.mono_ms();
        batch.step(&mut self.core, &self.publish, &*self.clock);
        let slow = self.clock.mono_ms().saturating_sub(began) >= CORE_STEP_SLOW_MS;
        self.most = if slow { CORE_BATCH } else { CORE_BATCH_QUICK };
        match other {
            Some(Message::Stop(answer)) => {
                self.rest();
                let Self { core, publish: _until_all_is_told, .. } = self;
                // The journal is closed before anybody is told so.
                drop(core);
                let _gone = answer.send(Ok(()));
                None
            }
            Some(message) => {
                control(message, &mut self.core, &self.publish, &*self.clock);
                Some(self)
            }
            None => Some(self),
        }
    }
}

/// Publishes the core's view. After a failed commit its state holds what the disk may not: the last view
/// stays, and says that nothing is decided any more.
fn show(core: &Core, publish: &watch::Sender<Arc<View>>) {
    let mut view = core.view();
    if view.failed.is_some() {
        let last = Arc::clone(&publish.borrow());
        view = View { failed: view.failed, ..(*last).clone() };
    }
    publish.send_replace(Arc::new(view));
}

/// Actions that are decided together.
#[derive(Default)]
struct Batch {
    actions: Vec<Action>,
    answers: Vec<Option<Answer<Outcome>>>,
    /// Actions other than the records of signatures, for which nobody waits.
    decisions: usize,
}

impl Batch {
    fn has_room(&self, most: usize) -> bool {
        self.decisions < most && self.actions.len() < CORE_QUEUE
    }

    /// Takes an action in; hands back what is none and so ends the batch.
    fn take(&mut self, message: Message) -> Option<Message> {
        match message {
            Message::Do(action, answer) => {
                let record = matches!(*action, Action::Signed { .. });
                self.decisions = self.decisions.saturating_add(usize::from(!record));
                self.actions.push(*action);
                self.answers.push(answer);
                None
            }
            other => Some(other),
        }
    }

    fn step(self, core: &mut Core, publish: &watch::Sender<Arc<View>>, clock: &dyn Clock) {
        if self.actions.is_empty() {
            return;
        }
        let outcomes = core.step(&clock.now(), self.actions);
        show(core, publish);
        for (answer, outcome) in self.answers.into_iter().zip(outcomes) {
            // The caller may have gone; what was decided stands.
            let _gone = answer.map(|answer| answer.send(outcome));
        }
    }
}

/// Everything that is no action.
fn control(
    message: Message,
    core: &mut Core,
    publish: &watch::Sender<Arc<View>>,
    clock: &dyn Clock,
) {
    let damaged = |error: crate::journal::JournalError| {
        Fault::because(Code::JournalDamaged, error.to_string())
    };
    match message {
        // Taken by the loop.
        Message::Do(..) | Message::Stop(_) => {}
        Message::Look(id, answer) => {
            let _gone = answer.send(core.find(id).map_err(damaged));
        }
        Message::Unlocked { keys, note, answer } => {
            let result = core.unlocked(&clock.now(), keys, note);
            show(core, publish);
            let _gone = answer.send(result);
        }
        Message::Accept { key, answer } => {
            let result = core.accept(&clock.now(), key);
            show(core, publish);
            let _gone = answer.send(result);
        }
        Message::BeginCopy(answer) => {
            let result = core.begin_copy(&clock.now());
            show(core, publish);
            let _gone = answer.send(result);
        }
        Message::EndCopy(to, answer) => {
            let _gone = answer.send(core.end_copy(to.as_deref()));
        }
        Message::Locked(cause, noted, answer) => {
            core.locked(&clock.now(), cause, noted);
            show(core, publish);
            let _gone = answer.send(Ok(()));
        }
    }
}
