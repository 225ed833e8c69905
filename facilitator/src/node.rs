//! Questions to a network's nodes: those that wait at the same time go in one exchange.

use std::sync::Arc;

use alloy_primitives::Bytes;
use bursar_chain::ports::{Chain, ChainFault, Question};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Exchanges under way at a time: while so many are, what comes waits and goes together. A few, so that a
/// node far away is not waited for one after the other.
const EXCHANGES: usize = 4;

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
    pub fn new(chain: Arc<dyn Chain>) -> Self {
        let (asked, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(serve(chain, waiting));
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

async fn serve(chain: Arc<dyn Chain>, mut waiting: mpsc::Receiver<Asked>) {
    let exchanges = Arc::new(Semaphore::new(EXCHANGES));
    let mut left_over: Option<Asked> = None;
    loop {
        let Ok(permit) = Arc::clone(&exchanges).acquire_owned().await else { return };
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
        let chain = Arc::clone(&chain);
        tokio::spawn(async move {
            exchange(&*chain, together).await;
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
