//! Batches questions to a network's nodes: pending questions share one exchange.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::Bytes;
use bursar_chain::ports::{Chain, ChainFault, Clock, Question};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Permits for exchanges in flight. An exchange with a distant node takes one, so that many run in parallel.
const EXCHANGES: u32 = 32;
/// Permits that an exchange with a near node takes. Only four run at a time, and questions that arrive meanwhile are
/// batched, which costs both sides less.
const SHARE_NEAR: u32 = 8;
/// An exchange that takes at least this many milliseconds makes a node distant.
const FAR_MS: u64 = 5;

/// How long a patient question waits for others, in milliseconds. A settlement waits for a block anyway.
const PATIENCE_MS: u64 = 10;

/// Maximum number of questions per exchange: public nodes accept so many.
const TOGETHER_MAX: usize = 50;

/// Capacity of the queue: more than the admitted callers can fill.
const WAITING_MAX: usize = 4096;

type Answers = Result<Vec<Result<Bytes, ChainFault>>, ChainFault>;

/// Whether a question may wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurry {
    /// It is sent at once.
    Now,
    /// It may wait a moment, so that several questions share an exchange.
    Patient,
}

struct Asked {
    questions: Vec<Question>,
    hurry: Hurry,
    answer: oneshot::Sender<Answers>,
}

/// Asks the nodes of one network. Clones share the queue.
#[derive(Debug, Clone)]
pub struct Node {
    asked: mpsc::Sender<Asked>,
}

impl Node {
    /// Starts the task that asks; it ends with the last clone.
    pub fn new(chain: Arc<dyn Chain>, clock: Arc<dyn Clock>) -> Self {
        let (asked, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(serve(chain, clock, waiting));
        Self { asked }
    }

    /// Returns one answer per question, in order.
    ///
    /// # Errors
    /// No node answers.
    pub async fn ask(&self, questions: Vec<Question>, hurry: Hurry) -> Answers {
        let gone = || ChainFault::Unavailable { tried: Vec::new() };
        let (answer, answered) = oneshot::channel();
        let asked = Asked { questions, hurry, answer };
        self.asked.send(asked).await.map_err(|_stopped| gone())?;
        answered.await.map_err(|_stopped| gone())?
    }
}

async fn serve(chain: Arc<dyn Chain>, clock: Arc<dyn Clock>, mut asked: mpsc::Receiver<Asked>) {
    let exchanges = Arc::new(Semaphore::new(usize::try_from(EXCHANGES).unwrap_or(1)));
    let far = Arc::new(AtomicBool::new(false));
    let mut gathered = Gathered::default();
    while gathered.fill(&mut asked, &*clock).await {
        let share = if far.load(Ordering::Relaxed) { 1 } else { SHARE_NEAR };
        let Ok(permit) = Arc::clone(&exchanges).acquire_many_owned(share).await else { return };
        // Questions that arrived while waiting for the permit join this exchange.
        gathered.add(&mut asked);
        let together = gathered.take();
        let (chain, clock, far) = (Arc::clone(&chain), Arc::clone(&clock), Arc::clone(&far));
        tokio::spawn(async move {
            let begun = clock.mono_ms();
            exchange(&*chain, together).await;
            far.store(clock.mono_ms().saturating_sub(begun) >= FAR_MS, Ordering::Relaxed);
            drop(permit);
        });
    }
}

/// Questions for the next exchanges.
#[derive(Default)]
struct Gathered {
    waiting: VecDeque<Asked>,
}

impl Gathered {
    /// Waits until an exchange is due. Returns `false` when all senders are gone.
    async fn fill(&mut self, asked: &mut mpsc::Receiver<Asked>, clock: &dyn Clock) -> bool {
        if self.waiting.is_empty() {
            match asked.recv().await {
                Some(first) => self.waiting.push_back(first),
                None => return false,
            }
        }
        let end = clock.mono_ms().saturating_add(PATIENCE_MS);
        loop {
            self.add(asked);
            if self.is_due() {
                return true;
            }
            // cancel-safe: a question stays in its channel, the rest only waits.
            tokio::select! {
                next = asked.recv() => match next {
                    Some(next) => self.waiting.push_back(next),
                    None => return true,
                },
                () = clock.sleep_until(end) => return true,
            }
        }
    }

    fn add(&mut self, asked: &mut mpsc::Receiver<Asked>) {
        while let Ok(next) = asked.try_recv() {
            self.waiting.push_back(next);
        }
    }

    /// Whether a question is urgent, or there are enough for an exchange.
    fn is_due(&self) -> bool {
        let count: usize = self.waiting.iter().map(|asked| asked.questions.len()).sum();
        count >= TOGETHER_MAX || self.waiting.iter().any(|asked| asked.hurry == Hurry::Now)
    }

    /// Takes the questions of one exchange: at least one caller's, and else at most [`TOGETHER_MAX`].
    fn take(&mut self) -> Vec<Asked> {
        let mut count: usize = 0;
        let mut together = Vec::new();
        while let Some(next) = self.waiting.front() {
            count = count.saturating_add(next.questions.len());
            if count > TOGETHER_MAX && !together.is_empty() {
                break;
            }
            together.extend(self.waiting.pop_front());
        }
        together
    }
}

async fn exchange(chain: &dyn Chain, mut together: Vec<Asked>) {
    let mut all = Vec::new();
    let mut counts = Vec::with_capacity(together.len());
    for asked in &mut together {
        counts.push(asked.questions.len());
        all.append(&mut asked.questions);
    }
    match chain.answers(all).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (asked, count) in together.into_iter().zip(counts) {
                // The caller may have gone.
                let _gone = asked.answer.send(Ok(answers.by_ref().take(count).collect()));
            }
        }
        Err(fault) => {
            for asked in together {
                let _gone = asked.answer.send(Err(fault.clone()));
            }
        }
    }
}
