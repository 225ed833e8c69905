//! Drives one outbox of a host: requests quotes and signatures, broadcasts, and queries the chain. It owns no
//! durable state: it passes every result to the host, which persists the consequences before the next action.
//! After a crash the host lists the pending actions at the next start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::networks::Gas;
use bursar_submit::{
    Action, Input, Outbox, OutboxKey, Rules, SendAnswer, Submission, SubmissionId,
};
use bursar_x402::signature::Signature65;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain_tasks::{self, Wanted};
use crate::follower::Follower;
use crate::ports::{BoxFuture, Chain, Clock};

/// Longest idle time, in milliseconds, before the driver checks an outbox without a trigger.
pub const IDLE_MS: u64 = 2_000;

/// Shortest time between two quotes, in milliseconds: while a submission waits for its first offer, and
/// otherwise.
const QUOTE_QUEUED_MS: u64 = 250;
const QUOTE_MS: u64 = 1_500;

/// The owner of an outbox: it persists the outbox and obtains signatures for it.
pub trait Host: Send + Sync + 'static {
    /// The right to one signature. Only a host issues it, and only for a persisted attempt.
    type Leave: Send + 'static;

    /// Returns the current outbox.
    fn outbox(&self) -> Arc<Outbox>;

    /// Completes when the current outbox is no longer `than`. Cancel-safe.
    fn another<'a>(&'a self, than: &'a Arc<Outbox>) -> BoxFuture<'a, ()>;

    /// Persists the consequences of a notice and returns the actions to perform: none if persisting failed.
    fn tell(&self, notice: Notice) -> BoxFuture<'_, Vec<Work<Self::Leave>>>;

    /// Obtains the signature that `leave` permits. May take as long as a person needs to answer.
    fn sign(&self, leave: Self::Leave) -> BoxFuture<'static, SignEnd>;

    /// Reports that a broadcast starts. Called before the last check of the outbox, so a caller that cancels a
    /// submission and then finds no broadcast in progress knows that none follows.
    fn sending(&self, _id: SubmissionId, _hash: B256) {}

    /// Reports that a broadcast has ended. `clear` means that every node that was sent the bytes accepted or
    /// rejected them. Otherwise a node may receive them later.
    fn sent(&self, _id: SubmissionId, _hash: B256, _clear: bool) {}

    /// Failpoint: returns whether to continue. Tests stop the process here.
    fn hit(&self, _point: &'static str) -> bool {
        true
    }
}

/// A notice to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Input(Input),
    /// Every open submission resumes.
    Resume,
}

/// One action to perform.
#[derive(Debug)]
pub struct Work<L> {
    pub action: Action,
    /// Present with [`Action::Sign`] if signing is permitted now.
    pub leave: Option<L>,
}

/// The outcome of a signature request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignEnd {
    Signed(Signature65),
    /// The signer refuses permanently.
    Declined,
    /// The signer is not available; the same request may be repeated.
    NotNow,
}

/// Everything that the driver of one outbox works with.
#[derive(Debug, Clone)]
pub struct Way {
    pub key: OutboxKey,
    pub gas: Gas,
    pub rules: Rules,
    pub clock: Arc<dyn Clock>,
    /// Runs the signature requests, which never block the driver.
    pub tasks: TaskTracker,
    pub stopping: CancellationToken,
    /// Shared by all outboxes of a network.
    pub follower: Arc<Follower>,
}

/// Drives an outbox until nothing is open in it. Calls `chain` again for each round, because endpoints change.
pub async fn serve<H: Host>(
    host: Arc<H>,
    way: Way,
    chain: impl Fn() -> Option<Arc<dyn Chain>> + Send + Sync,
) {
    let (follower, clock) = (Arc::clone(&way.follower), Arc::clone(&way.clock));
    let poll_ms = way.gas.poll_ms;
    // cancel-safe: looking leaves nothing half done, and ends with the serving.
    tokio::select! {
        () = serve_until_idle(host, way, &chain) => {}
        () = follower.run(&chain, &*clock, poll_ms) => {}
    }
}

async fn serve_until_idle<H: Host>(
    host: Arc<H>,
    way: Way,
    chain: impl Fn() -> Option<Arc<dyn Chain>> + Send,
) {
    let mut waiter = way.follower.waiter();
    let (signed, mut answers) = mpsc::unbounded_channel();
    let mut chain_tasks = ChainTasks {
        host,
        way,
        due: VecDeque::new(),
        asked: BTreeSet::new(),
        resting: BTreeMap::new(),
        signed,
        quoted: None,
        sent: BTreeSet::new(),
    };
    let mut begun = false;
    loop {
        let outbox = chain_tasks.host.outbox();
        if outbox.open.is_empty() || chain_tasks.way.stopping.is_cancelled() {
            return;
        }
        if let Some(chain) = chain() {
            // Resume everything at the start, and again while an attempt has no signature request in flight:
            // the signer may be available again. Otherwise handle only what a new block brings.
            if !begun || chain_tasks.lacks_a_signer(&outbox) {
                chain_tasks.tell(Notice::Resume).await;
                if begun {
                    // Every other action is already in flight.
                    chain_tasks.keep_signing();
                }
            }
            if begun {
                chain_tasks.tell(Notice::Input(Input::Tick)).await;
            }
            begun = true;
            chain_tasks.work_off(&*chain).await;
        }
        let outbox = chain_tasks.host.outbox();
        let wake = chain_tasks.way.clock.mono_ms().saturating_add(IDLE_MS);
        // cancel-safe: a signer's answer is taken whole or stays in its channel, the rest only waits.
        tokio::select! {
            () = chain_tasks.way.stopping.cancelled() => return,
            answer = answers.recv() => {
                if let Some((id, attempt, end)) = answer {
                    chain_tasks.signer_said(id, attempt, end).await;
                }
            }
            // The follower outlives this loop; even if it ended, the timer below would wake the loop.
            true = waiter.next_block() => {}
            () = chain_tasks.host.another(&outbox) => {}
            () = chain_tasks.way.clock.sleep_until(wake) => {}
        }
    }
}

/// The state of the last quote.
enum Recent {
    Fresh(Input),
    AskedLately,
    Stale,
}

/// The driver's working state; a restart rebuilds all of it.
struct ChainTasks<H: Host> {
    host: Arc<H>,
    way: Way,
    due: VecDeque<Work<H::Leave>>,
    /// Attempts with a signature request in flight.
    asked: BTreeSet<(SubmissionId, usize)>,
    /// Attempts that a signer has just answered, and until when not to ask again (monotonic milliseconds).
    resting: BTreeMap<(SubmissionId, usize), u64>,
    signed: mpsc::UnboundedSender<(SubmissionId, usize, SignEnd)>,
    /// When the last quote request ended (monotonic milliseconds), and its result.
    quoted: Option<(u64, Option<Input>)>,
    /// Hashes broadcast since the driver started.
    sent: BTreeSet<B256>,
}

impl<H: Host> ChainTasks<H> {
    fn lacks_a_signer(&self, outbox: &Outbox) -> bool {
        outbox.open.iter().any(|(id, one)| {
            one.unsigned_attempt().is_some_and(|(at, _tried)| {
                !self.asked.contains(&(*id, at)) && !self.rests(&(*id, at))
            })
        })
    }

    fn rests(&self, attempt: &(SubmissionId, usize)) -> bool {
        self.resting.get(attempt).is_some_and(|until| self.way.clock.mono_ms() < *until)
    }

    fn keep_signing(&mut self) {
        self.due.retain(|work| matches!(work.action, Action::Sign { .. }));
    }

    /// Sends a notice to the host and queues the resulting actions.
    async fn tell(&mut self, notice: Notice) {
        self.due.extend(self.host.tell(notice).await);
    }

    async fn work_off(&mut self, chain: &dyn Chain) {
        while let Some(work) = self.due.pop_front() {
            if self.way.stopping.is_cancelled() {
                return;
            }
            match work.action {
                Action::Sign { id, attempt, .. } => {
                    if let Some(leave) = work.leave {
                        self.sign(id, attempt, leave);
                    }
                    continue;
                }
                Action::Lookup { id, hashes } => {
                    self.look(chain, (id, hashes)).await;
                    continue;
                }
                Action::Quote => match self.recent_quote() {
                    Recent::Fresh(input) => {
                        self.tell(Notice::Input(input)).await;
                        continue;
                    }
                    Recent::AskedLately => continue,
                    Recent::Stale => {}
                },
                Action::Send { .. } => {}
            }
            if let Action::Send { id, raw } = &work.action {
                self.host.sending(*id, raw.hash);
                // The submission may have been cancelled or may have expired while it was queued here.
                let (outbox, at) = (self.host.outbox(), self.way.clock.utc());
                if !outbox.open.get(id).is_some_and(|one| one.may_send(raw.hash, at)) {
                    self.host.sent(*id, raw.hash, true);
                    continue;
                }
            }
            let sends = matches!(work.action, Action::Send { .. });
            if sends && !self.host.hit("outbox.send") {
                return;
            }
            let Way { key, gas, .. } = &self.way;
            let again = match &work.action {
                Action::Send { raw, .. } => !self.sent.insert(raw.hash),
                _reads => false,
            };
            let begun_ms = self.way.clock.mono_ms();
            let done = chain_tasks::run(chain, key, gas, &work.action, again).await;
            if matches!(work.action, Action::Quote) {
                self.quoted = Some((self.way.clock.mono_ms(), done.clone()));
            }
            if sends && !self.host.hit("outbox.sent") {
                return;
            }
            let silent =
                matches!(&done, Some(Input::Answered { answer: SendAnswer::Unclear, .. }) | None);
            if let Action::Send { id, raw } = &work.action {
                let clear = !silent && !chain.was_silent_since(begun_ms);
                self.host.sent(*id, raw.hash, clear);
            }
            if let Some(input) = done {
                self.tell(Notice::Input(input)).await;
            }
            if silent {
                // No node answers: handle signers' answers before the next attempt. The next round repeats the
                // queries, so dropping them here keeps the queue from growing.
                self.keep_signing();
                return;
            }
        }
    }

    /// Limits how often quotes are fetched: one takes several requests, and a submission waits for many blocks.
    /// A first offer reuses a quote that is only moments old. Its transaction counts can only be too low, and
    /// the outbox knows its own nonces.
    fn recent_quote(&mut self) -> Recent {
        // Until another transaction uses the nonce of a withdrawn call, that call can still be mined.
        let waits = |one: &Submission| one.nonce.is_none() || (one.cancel && !one.is_given_up());
        let queued = self.host.outbox().open.values().any(waits);
        let now = self.way.clock.mono_ms();
        let age = |last: u64| now.saturating_sub(last);
        match &self.quoted {
            Some((last, Some(quote))) if queued && age(*last) < QUOTE_QUEUED_MS => {
                Recent::Fresh(quote.clone())
            }
            Some((last, _quote)) => {
                let pause = if queued { QUOTE_QUEUED_MS } else { QUOTE_MS };
                if age(*last) < pause { Recent::AskedLately } else { Recent::Stale }
            }
            None => Recent::Stale,
        }
    }

    /// Queries this submission together with all lookups that directly follow it in the queue.
    async fn look(&mut self, chain: &dyn Chain, first: Wanted) {
        let mut wanted = vec![first];
        let looks = |work: &mut Work<H::Leave>| matches!(work.action, Action::Lookup { .. });
        while let Some(work) = self.due.pop_front_if(looks) {
            if let Action::Lookup { id, hashes } = work.action
                && !wanted.iter().any(|(known, _hashes)| *known == id)
            {
                wanted.push((id, hashes));
            }
        }
        let (signer, rules) = (self.way.key.signer, self.way.rules);
        match chain_tasks::look(chain, signer, &rules, &wanted).await {
            Ok(seen) => {
                for input in seen {
                    self.tell(Notice::Input(input)).await;
                }
            }
            Err(fault) => tracing::debug!(chain = %self.way.key.chain, %fault, "nothing was seen"),
        }
    }

    /// Requests a signature in the background: a signer may ask a person and take minutes.
    fn sign(&mut self, id: SubmissionId, attempt: usize, leave: H::Leave) {
        if self.rests(&(id, attempt)) || !self.asked.insert((id, attempt)) {
            return;
        }
        let end = self.host.sign(leave);
        let signed = self.signed.clone();
        self.way.tasks.spawn(async move {
            // The driver may have stopped; the next start asks again.
            let _gone = signed.send((id, attempt, end.await));
        });
    }

    async fn signer_said(&mut self, id: SubmissionId, attempt: usize, end: SignEnd) {
        self.asked.remove(&(id, attempt));
        // Also after an answer without effect, such as a wrong signature.
        let now = self.way.clock.mono_ms();
        self.resting.retain(|_attempt, until| now < *until);
        self.resting.insert((id, attempt), now.saturating_add(IDLE_MS));
        let input = match end {
            SignEnd::Signed(signature) => Input::Signature { id, attempt, signature },
            SignEnd::Declined => Input::Declined { id, attempt },
            SignEnd::NotNow => return,
        };
        if self.host.hit("outbox.signed") {
            self.tell(Notice::Input(input)).await;
        }
    }
}
