//! The core's thread, and the handle through which other threads reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::limits::{
    CORE_BATCH_MAX, CORE_BATCH_QUICK_MAX, CORE_QUEUE_MAX, SIGNATURE_RECORD_DELAY_MS_MAX,
    SLOW_CORE_STEP_MS_MIN,
};
use bursar_core::lock_cause::LockCause;
use bursar_core::time::Moment;
use bursar_domain::{Action, Request};
use bursar_x402::signature::Signature65;
use tokio::sync::{Semaphore, oneshot, watch};
use zeroize::Zeroizing;

use super::trade_ends::{TradeEnds, is_executing};
use super::{ActionAnswer, Core, Outcome, View, fault};
use crate::journal::{Head, JournalError, Reader};

type Answer<T> = oneshot::Sender<Result<T, Fault>>;

enum Message {
    Do(Box<Action>, Option<Answer<Outcome>>),
    Find(RequestId, Answer<Option<Arc<Request>>>),
    Unlocked { keys: Vec<Zeroizing<[u8; 32]>>, note: Option<Head>, answer: Answer<Option<Head>> },
    Accept { key: Zeroizing<[u8; 32]>, answer: Answer<()> },
    Locked(LockCause, Option<u64>, Answer<()>),
    BeginCopy(Answer<Option<PathBuf>>),
    EndCopy(Option<PathBuf>, Answer<()>),
    Barrier(Answer<()>),
    Stop(Answer<()>),
}

/// Sends actions to the core and reads its published view.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    queue: Sender<Message>,
    /// Bounds the asks and reports of agents in the queue. Operator commands take no permit: a freeze must get
    /// through when agents fill the queue.
    permits: Arc<Semaphore>,
    view: watch::Receiver<Arc<View>>,
    trade_ends: TradeEnds,
    reader: Arc<dyn Reader>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Creates the handle and the loop of a core.
    ///
    /// The core decides nothing until the loop runs.
    pub fn new(core: Core, clock: Arc<dyn Clock>) -> (Self, CoreLoop) {
        let (queue, inbox) = channel();
        let permits = Arc::new(Semaphore::new(CORE_QUEUE_MAX));
        let reader = core.journal().reader();
        let (views, view) = watch::channel(Arc::new(core.view()));
        let trade_ends = TradeEnds::new();
        let publish = Publisher { views, trade_ends: trade_ends.clone() };
        let worker =
            Worker { core, publish, clock: Arc::clone(&clock), batch_limit: CORE_BATCH_MAX };
        (Self { queue, permits, view, trade_ends, reader, clock }, CoreLoop { worker, inbox })
    }

    /// Returns the latest published view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// Returns a receiver that wakes on each publication.
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Waits until a trade is no longer executing.
    ///
    /// It also returns once the core has stopped.
    pub async fn trade_ended(&self, id: RequestId) {
        let ended = self.trade_ends.wait_for(id);
        // A view that was published before the registration did not wake this caller, so check the current view.
        if is_executing(&self.view().state, id) {
            let _stopped = ended.await;
        }
    }

    /// Returns a reader of committed records.
    pub fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.reader)
    }

    /// Returns the current moment of the core's clock.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Decides and commits an action; every refusal is an error, and never [`ActionAnswer::Refused`].
    ///
    /// # Errors
    /// The refusal, or an error of [`Handle::decide`].
    pub async fn act(&self, action: Action) -> Result<Outcome, Fault> {
        let outcome = self.decide(action).await?;
        if let ActionAnswer::Refused(refusal) = &outcome.answer {
            return Err(fault(refusal));
        }
        Ok(outcome)
    }

    /// Decides and commits an action; if the rules judge and refuse it, the refusal is an answer and not an error.
    ///
    /// # Errors
    /// A refusal before a judgement, for example `WALLET_LOCKED`; `BUSY` for an agent's ask or report if the queue is
    /// full; `JOURNAL_FAILED` once a commit has failed; `ENGINE_DOWN` once the core has stopped.
    pub async fn decide(&self, action: Action) -> Result<Outcome, Fault> {
        let permit = match &action {
            Action::Ask(_) | Action::Recall(_) | Action::Report(_) => {
                let permit = Arc::clone(&self.permits).try_acquire_owned();
                Some(permit.map_err(|_full| Fault::new(Code::Busy))?)
            }
            _operators => None,
        };
        let outcome = self.ask(|answer| Message::Do(Box::new(action), Some(answer))).await;
        drop(permit);
        outcome
    }

    /// Queues the record of a signature and returns at once.
    ///
    /// A crash may lose the record, because the same terms then give the same signature again.
    pub fn record(&self, id: RequestId, signature: Signature65) {
        let action = Box::new(Action::Signed { id, signature });
        // If the core has stopped, a repeated ask signs again after the restart.
        let _stopped = self.queue.send(Message::Do(action, None));
    }

    /// Returns a request with its latest status and signature.
    ///
    /// # Errors
    /// `JOURNAL_DAMAGED` if its record cannot be read; `ENGINE_DOWN`.
    pub async fn request(&self, id: RequestId) -> Result<Option<Arc<Request>>, Fault> {
        self.ask(|answer| Message::Find(id, answer)).await
    }

    /// Reports to the core that the wallet was opened, with the sealing keys and the head that the wallet file noted.
    ///
    /// Returns the head that is now sealed, or `None` if journal and wallet do not match.
    ///
    /// # Errors
    /// `JOURNAL_FAILED`, `JOURNAL_DAMAGED` or `ENGINE_DOWN`.
    pub async fn report_unlock(
        &self,
        keys: Vec<Zeroizing<[u8; 32]>>,
        note: Option<Head>,
    ) -> Result<Option<Head>, Fault> {
        self.ask(|answer| Message::Unlocked { keys, note, answer }).await
    }

    /// Accepts the journal as it is.
    ///
    /// # Errors
    /// The refusal, `JOURNAL_FAILED`, `JOURNAL_DAMAGED` or `ENGINE_DOWN`.
    pub async fn accept(&self, key: Zeroizing<[u8; 32]>) -> Result<(), Fault> {
        self.ask(|answer| Message::Accept { key, answer }).await
    }

    /// Reports to the core that the keys were wiped.
    ///
    /// `noted` is the entry that the wallet file recorded just before.
    ///
    /// # Errors
    /// `ENGINE_DOWN` once the core has stopped.
    pub async fn report_lock(&self, cause: LockCause, noted: Option<u64>) -> Result<(), Fault> {
        self.ask(|answer| Message::Locked(cause, noted, answer)).await
    }

    /// Commits pending entries and stops changes to the history file until [`Handle::end_copy`].
    ///
    /// Returns the path of the history file, if there is one.
    ///
    /// # Errors
    /// `JOURNAL_FAILED`, `DATA_FOLDER` or `ENGINE_DOWN`.
    pub async fn begin_copy(&self) -> Result<Option<PathBuf>, Fault> {
        self.ask(Message::BeginCopy).await
    }

    /// Copies the journal's short file to `to`, if it is given, and allows changes to the history file again.
    ///
    /// # Errors
    /// `DATA_FOLDER` or `ENGINE_DOWN`.
    pub async fn end_copy(&self, to: Option<PathBuf>) -> Result<(), Fault> {
        self.ask(|answer| Message::EndCopy(to, answer)).await
    }

    /// Waits until the core has processed everything queued so far; never returns if the core is stuck.
    ///
    /// # Errors
    /// `ENGINE_DOWN` once the core has stopped.
    pub async fn wait_for_queue(&self) -> Result<(), Fault> {
        self.ask(Message::Barrier).await
    }

    /// Commits pending entries, closes the journal and ends the thread.
    ///
    /// # Errors
    /// `ENGINE_DOWN` if it has already stopped.
    pub async fn stop(&self) -> Result<(), Fault> {
        self.ask(Message::Stop).await
    }

    async fn ask<T>(&self, message: impl FnOnce(Answer<T>) -> Message) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(message(answer)).map_err(|_stopped| Fault::new(Code::EngineDown))?;
        answered.await.unwrap_or_else(|_stopped| Err(Fault::new(Code::EngineDown)))
    }
}

/// The core and its inbox, between two batches.
#[derive(Debug)]
pub struct CoreLoop {
    worker: Worker,
    inbox: Receiver<Message>,
}

impl CoreLoop {
    /// Runs the core on its own thread.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn start(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("core".to_owned()).spawn(move || self.run()).map(drop)
    }

    /// The thread's loop: waits for a message, takes all other queued messages, steps, publishes, answers.
    fn run(mut self) {
        let delay = Duration::from_millis(SIGNATURE_RECORD_DELAY_MS_MAX);
        loop {
            let first = if self.worker.core.has_pending() {
                match self.inbox.recv_timeout(delay) {
                    Ok(message) => message,
                    Err(RecvTimeoutError::Timeout) => {
                        self.worker.flush();
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
            match self.worker.process_batch(first, &self.inbox) {
                Some(worker) => self.worker = worker,
                None => return,
            }
        }
        self.worker.flush();
    }

    /// Processes the queued messages.
    ///
    /// Returns the loop and whether there were any messages, or `None` once the core has stopped.
    pub fn process_queued(mut self) -> Option<(Self, bool)> {
        let Ok(first) = self.inbox.try_recv() else { return Some((self, false)) };
        self.worker = self.worker.process_batch(first, &self.inbox)?;
        Some((self, true))
    }

    /// Commits pending entries, as the thread does when the queue stays empty.
    pub fn flush(&mut self) {
        if self.worker.core.has_pending() {
            self.worker.flush();
        }
    }

    /// Returns the core, for simulations.
    pub fn core(&self) -> &Core {
        &self.worker.core
    }
}

/// The core with the clock and the channel that it publishes to.
#[derive(Debug)]
struct Worker {
    core: Core,
    publish: Publisher,
    clock: Arc<dyn Clock>,
    /// The limit of decisions in one batch.
    batch_limit: usize,
}

impl Worker {
    fn flush(&mut self) {
        self.core.flush(&self.clock.now());
        self.publish.publish_view(&self.core);
    }

    /// Processes `first` and other queued messages. Returns `None` after a stop, with the journal closed.
    fn process_batch(mut self, first: Message, inbox: &Receiver<Message>) -> Option<Self> {
        let mut batch = Batch::default();
        let mut other = batch.add(first);
        while other.is_none() && batch.has_room(self.batch_limit) {
            match inbox.try_recv() {
                Ok(message) => other = batch.add(message),
                Err(_empty) => break,
            }
        }
        let began = self.clock.mono_ms();
        batch.step(&mut self.core, &self.publish, &*self.clock);
        let slow = self.clock.mono_ms().saturating_sub(began) >= SLOW_CORE_STEP_MS_MIN;
        self.batch_limit = if slow { CORE_BATCH_MAX } else { CORE_BATCH_QUICK_MAX };
        match other {
            Some(Message::Stop(answer)) => {
                self.flush();
                let Self { core, publish: _until_the_answer_is_sent, .. } = self;
                // Close the journal before the caller of the stop gets its answer.
                drop(core);
                let _gone = answer.send(Ok(()));
                None
            }
            Some(message) => {
                process_control(message, &mut self.core, &self.publish, &*self.clock);
                Some(self)
            }
            None => Some(self),
        }
    }
}

/// Publishes what the core has committed.
#[derive(Debug)]
struct Publisher {
    views: watch::Sender<Arc<View>>,
    trade_ends: TradeEnds,
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.trade_ends.stop();
    }
}

impl Publisher {
    /// Publishes the core's view. After a failed commit the state may be ahead of the disk, so the last view remains,
    /// with the reason of the failure.
    fn publish_view(&self, core: &Core) {
        let mut view = core.view();
        if view.failure.is_some() {
            let last = Arc::clone(&self.views.borrow());
            view = View { failure: view.failure, ..(*last).clone() };
        }
        let view = Arc::new(view);
        self.views.send_replace(Arc::clone(&view));
        self.trade_ends.wake(&view.state);
    }
}

/// The actions of one step.
#[derive(Default)]
struct Batch {
    actions: Vec<Action>,
    answers: Vec<Option<Answer<Outcome>>>,
    /// Number of actions, not counting signature records, for which no caller waits.
    decisions: usize,
}

impl Batch {
    fn has_room(&self, limit: usize) -> bool {
        self.decisions < limit && self.actions.len() < CORE_QUEUE_MAX
    }

    /// Adds an action. Returns any other message, which ends the batch.
    fn add(&mut self, message: Message) -> Option<Message> {
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

    fn step(self, core: &mut Core, publish: &Publisher, clock: &dyn Clock) {
        if self.actions.is_empty() {
            return;
        }
        let outcomes = core.step(&clock.now(), self.actions);
        publish.publish_view(core);
        for (answer, outcome) in self.answers.into_iter().zip(outcomes) {
            // The caller may have gone away. The decision remains.
            let _gone = answer.map(|answer| answer.send(outcome));
        }
    }
}

/// Processes a message other than an action or a stop.
fn process_control(message: Message, core: &mut Core, publish: &Publisher, clock: &dyn Clock) {
    let damaged = |error: JournalError| Fault::because(Code::JournalDamaged, error.to_string());
    match message {
        // `Batch::add` handles the first of these messages, and `Worker::process_batch` the second.
        Message::Do(..) | Message::Stop(_) => {}
        Message::Find(id, answer) => {
            let _gone = answer.send(core.find(id).map_err(damaged));
        }
        Message::Unlocked { keys, note, answer } => {
            let result = core.verify_after_unlock(&clock.now(), keys, note);
            publish.publish_view(core);
            let _gone = answer.send(result);
        }
        Message::Accept { key, answer } => {
            let result = core.accept(&clock.now(), key);
            publish.publish_view(core);
            let _gone = answer.send(result);
        }
        Message::BeginCopy(answer) => {
            let result = core.begin_copy(&clock.now());
            publish.publish_view(core);
            let _gone = answer.send(result);
        }
        Message::EndCopy(to, answer) => {
            let _gone = answer.send(core.end_copy(to.as_deref()));
        }
        Message::Barrier(answer) => {
            let _gone = answer.send(Ok(()));
        }
        Message::Locked(cause, noted, answer) => {
            core.end_sealing(&clock.now(), cause, noted);
            publish.publish_view(core);
            let _gone = answer.send(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests;
