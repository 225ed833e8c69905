//! Questions to a network's nodes: those that wait at the same time go in one exchange.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::Bytes;
use bursar_chain::ports::{Chain, ChainFault, Clock, Question};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Exchanges under way at a time with a node far away: it is not waited for one after the other.
const EXCHANGES: u32 = 32;
/// What an exchange with a near node takes of those: there, what comes while a few are under way waits and
/// goes together, which costs both sides less.
const SHARE_NEAR: u32 = 8;
/// From how many milliseconds on a node is far away.
const FAR_MS: u64 = 5;

/// Questions of one exchange: what public nodes take.
const TOGETHER_MAX: usize = 50;

/// Questions that wait; more than the callers that are let in can put.
const WAITING_MAX: usize = 4096;

type Answers = Result<Vec<Result<Bytes, ChainFault>>, ChainFault>;

struct Asked {
    questions: Vec<Question>,
    answer: oneshot::Sender<Answers>,
}

/// Asks the nodes of one network.
#[derive(Debug, Clone)]
pub struct Node {
    asked: mpsc::Sender<Asked>,
}

impl Node {
    /// Starts asking; ends with the last clone.
    pub fn new(chain: Arc<dyn Chain>, clock: Arc<dyn Clock>) -> Self {
        let (asked, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(serve(chain, clock, waiting));
        Self { asked }
    }

    /// As many answers as questions, in their order.
    ///
    /// # Errors
    /// Nobody answered.
    pub async fn ask(&self, questions: Vec<Question>) -> Answers {
        let gone = || ChainFault::Unavailable { tried: Vec::new() };
        let (answer, answered) = oneshot::channel();
        let asked = Asked { questions, answer };
        self.asked.send(asked).await.map_err(|_stopped| gone())?;
        answered.await.map_err(|_stopped| gone())?
    }
}

async fn serve(chain: Arc<dyn Chain>, clock: Arc<dyn Clock>, mut waiting: mpsc::Receiver<Asked>) {
    let exchanges = Arc::new(Semaphore::new(usize::try_from(EXCHANGES).unwrap_or(1)));
    let far = Arc::new(AtomicBool::new(false));
    let mut left_over: Option<Asked> = None;
    loop {
        let share = if far.load(Ordering::Relaxed) { 1 } else { SHARE_NEAR };
        let Ok(permit) = Arc::clone(&exchanges).acquire_many_owned(share).await else { return };
        let first = match left_over.take() {
            Some(first) => first,
            None => match waiting.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let mut count = first.questions.len();
        let mut together = vec![first];
        while let Ok(next) = waiting.try_recv() {
            count = count.saturating_add(next.questions.len());
            if count > TOGETHER_MAX {
                left_over = Some(next);
                break;
            }
            together.push(next);
        }
        let (chain, clock, far) = (Arc::clone(&chain), Arc::clone(&clock), Arc::clone(&far));
        tokio::spawn(async move {
            let begun = clock.mono_ms();
            exchange(&*chain, together).await;
            far.store(clock.mono_ms().saturating_sub(begun) >= FAR_MS, Ordering::Relaxed);
            drop(permit);
        });
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
                // Who does not wait any more needs no answer.
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
