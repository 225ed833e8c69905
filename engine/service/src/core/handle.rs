//! The core on its own thread, and the handle by which everybody reaches it.

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
    Locked(Answer<()>),
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
    /// Starts the core's thread.
    pub fn start(core: Core, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (queue, inbox) = channel();
        let places = Arc::new(Semaphore::new(CORE_QUEUE));
        let reader = core.journal().reader();
        let (publish, view) = watch::channel(Arc::new(core.view()));
        let thread_clock = Arc::clone(&clock);
        std::thread::Builder::new()
            .name("core".to_owned())
            .spawn(move || run(core, &inbox, &publish, &*thread_clock))?;
        Ok(Self { queue, places, view, reader, clock })
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

    pub async fn locked(&self) -> Result<(), Fault> {
        self.ask(Message::Locked).await
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

/// The thread: wait for one message, take whatever else is there, step, publish, answer.
fn run(
    mut core: Core,
    inbox: &Receiver<Message>,
    publish: &watch::Sender<Arc<View>>,
    clock: &dyn Clock,
) {
    let delay = Duration::from_millis(RECORD_DELAY_MS);
    let mut most = CORE_BATCH;
    loop {
        let first = if core.has_waiting() {
            match inbox.recv_timeout(delay) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    core.flush(&clock.now());
                    show(&core, publish);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        } else {
            match inbox.recv() {
                Ok(message) => message,
                Err(_every_handle_is_gone) => break,
            }
        };
        let mut batch = Batch::default();
        let mut other = batch.take(first);
        while other.is_none() && batch.has_room(most) {
            match inbox.try_recv() {
                Ok(message) => other = batch.take(message),
                Err(_empty) => break,
            }
        }
        let began = clock.mono_ms();
        batch.step(&mut core, publish, clock);
        let slow = clock.mono_ms().saturating_sub(began) >= CORE_STEP_SLOW_MS;
        most = if slow { CORE_BATCH } else { CORE_BATCH_QUICK };
        match other {
            Some(Message::Stop(answer)) => {
                core.flush(&clock.now());
                show(&core, publish);
                // The journal is closed before anybody is told so.
                drop(core);
                let _gone = answer.send(Ok(()));
                return;
            }
            Some(message) => control(message, &mut core, publish, clock),
            None => {}
        }
    }
    core.flush(&clock.now());
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
        Message::Locked(answer) => {
            core.locked(&clock.now());
            show(core, publish);
            let _gone = answer.send(Ok(()));
        }
    }
}
