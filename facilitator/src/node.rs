//! Batches questions to a network's nodes: pending questions share one exchange.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::Bytes;
use bursar_chain::ports::{Chain, ChainFault, Clock, Question};
use bursar_chain::rpc::BATCH_MAX;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Permits for exchanges in flight. An exchange with a distant node takes one permit, so that many run in parallel.
const EXCHANGE_PERMITS: u32 = 32;
/// Permits that an exchange with a near node takes. Only four such exchanges run at a time. Questions that arrive
/// meanwhile are batched, which costs us and the node less.
const NEAR_EXCHANGE_PERMITS: u32 = 8;
/// A node is distant once an exchange takes at least this many milliseconds.
const DISTANT_NODE_MS_MIN: u64 = 5;

/// How long a batched question waits for others, in milliseconds. It may wait, because a settlement waits for a block
/// anyway.
const BATCH_WAIT_MS: u64 = 10;

/// Capacity of the queue. The admitted callers cannot fill it.
const QUEUE_MAX: usize = 4096;

type Answers = Result<Vec<Result<Bytes, ChainFault>>, ChainFault>;

/// Whether a question may wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The question is sent at once.
    Now,
    /// The question may wait a moment, so that several questions share an exchange.
    Batched,
}

struct PendingQuestions {
    questions: Vec<Question>,
    priority: Priority,
    answer: oneshot::Sender<Answers>,
}

/// Asks the nodes of one network.
///
/// Clones share the queue of questions.
#[derive(Debug, Clone)]
pub struct NodeBatcher {
    questions: mpsc::Sender<PendingQuestions>,
}

impl NodeBatcher {
    /// Starts the task that sends the questions.
    ///
    /// It ends when the last clone is dropped.
    pub fn new(chain: Arc<dyn Chain>, clock: Arc<dyn Clock>) -> Self {
        let (questions, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run(chain, clock, queue));
        Self { questions }
    }

    /// Returns one answer per question, in order.
    ///
    /// # Errors
    /// No node answers.
    pub async fn ask(&self, questions: Vec<Question>, priority: Priority) -> Answers {
        let stopped = || ChainFault::Unavailable { tried: Vec::new() };
        let (answer, answered) = oneshot::channel();
        let pending = PendingQuestions { questions, priority, answer };
        self.questions.send(pending).await.map_err(|_stopped| stopped())?;
        answered.await.map_err(|_stopped| stopped())?
    }
}

async fn run(
    chain: Arc<dyn Chain>,
    clock: Arc<dyn Clock>,
    mut incoming: mpsc::Receiver<PendingQuestions>,
) {
    let exchanges = Arc::new(Semaphore::new(usize::try_from(EXCHANGE_PERMITS).unwrap_or(1)));
    let is_distant = Arc::new(AtomicBool::new(false));
    let mut queue = QuestionQueue::default();
    while queue.fill(&mut incoming, &*clock).await {
        let permits = if is_distant.load(Ordering::Relaxed) { 1 } else { NEAR_EXCHANGE_PERMITS };
        let Ok(permit) = Arc::clone(&exchanges).acquire_many_owned(permits).await else { return };
        // Questions that arrived while waiting for the permit join this exchange.
        queue.add(&mut incoming);
        let batch = queue.take();
        let (chain, clock) = (Arc::clone(&chain), Arc::clone(&clock));
        let is_distant = Arc::clone(&is_distant);
        tokio::spawn(async move {
            let started_ms = clock.mono_ms();
            exchange(&*chain, batch).await;
            let took_ms = clock.mono_ms().saturating_sub(started_ms);
            is_distant.store(took_ms >= DISTANT_NODE_MS_MIN, Ordering::Relaxed);
            drop(permit);
        });
    }
}

/// Questions for the next exchanges.
#[derive(Default)]
struct QuestionQueue {
    waiting: VecDeque<PendingQuestions>,
}

impl QuestionQueue {
    /// Waits until an exchange is due. Returns `false` when all senders are gone.
    async fn fill(
        &mut self,
        incoming: &mut mpsc::Receiver<PendingQuestions>,
        clock: &dyn Clock,
    ) -> bool {
        if self.waiting.is_empty() {
            match incoming.recv().await {
                Some(first) => self.waiting.push_back(first),
                None => return false,
            }
        }
        let end = clock.mono_ms().saturating_add(BATCH_WAIT_MS);
        loop {
            self.add(incoming);
            if self.is_due() {
                return true;
            }
            // cancel-safe: a question stays in its channel, and the other branch only waits.
            tokio::select! {
                next = incoming.recv() => match next {
                    Some(next) => self.waiting.push_back(next),
                    None => return true,
                },
                () = clock.sleep_until(end) => return true,
            }
        }
    }

    /// Moves the questions that have arrived into the queue.
    fn add(&mut self, incoming: &mut mpsc::Receiver<PendingQuestions>) {
        while let Ok(next) = incoming.try_recv() {
            self.waiting.push_back(next);
        }
    }

    /// Whether a question is urgent, or there are enough for an exchange.
    fn is_due(&self) -> bool {
        let count: usize = self.waiting.iter().map(|pending| pending.questions.len()).sum();
        count >= BATCH_MAX || self.waiting.iter().any(|pending| pending.priority == Priority::Now)
    }

    /// Takes the questions of one exchange: at most [`BATCH_MAX`], or more if a single caller asks more.
    fn take(&mut self) -> Vec<PendingQuestions> {
        let mut count: usize = 0;
        let mut batch = Vec::new();
        while let Some(next) = self.waiting.front() {
            count = count.saturating_add(next.questions.len());
            if count > BATCH_MAX && !batch.is_empty() {
                break;
            }
            batch.extend(self.waiting.pop_front());
        }
        batch
    }
}

async fn exchange(chain: &dyn Chain, mut batch: Vec<PendingQuestions>) {
    let mut all = Vec::new();
    let mut counts = Vec::with_capacity(batch.len());
    for pending in &mut batch {
        counts.push(pending.questions.len());
        all.append(&mut pending.questions);
    }
    match chain.answers(all).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (pending, count) in batch.into_iter().zip(counts) {
                // The caller may have gone.
                let _gone = pending.answer.send(Ok(answers.by_ref().take(count).collect()));
            }
        }
        Err(fault) => {
            for pending in batch {
                let _gone = pending.answer.send(Err(fault.clone()));
            }
        }
    }
}
