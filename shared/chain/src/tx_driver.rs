//! Drives one outbox of a host. The driver requests quotes and signatures, broadcasts, and queries the chain. It
//! owns no durable state: it passes every result to the host, which persists the consequences before the next
//! action. After a crash the host lists the pending actions at the next start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::networks::Gas;
use bursar_submit::{
    Action, ChainState, Input, Outbox, OutboxKey, Rules, SendAnswer, Submission, SubmissionId,
};
use bursar_x402::signature::Signature65;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain_tasks::{self, LookupRequest};
use crate::final_count::{FinalCount, FinalCounts};
use crate::follower::Follower;
use crate::ports::{BoxFuture, Chain, Clock};

/// Longest idle time of the driver, in milliseconds.
///
/// The driver then checks the outbox even without a trigger.
pub const IDLE_MS_MAX: u64 = 2_000;

/// Minimum time between two quotes, in milliseconds, while a submission needs its first offer or a withdrawn call
/// needs its replacement.
const QUEUED_QUOTE_INTERVAL_MS: u64 = 250;
/// Minimum time between two quotes in all other cases, in milliseconds.
const QUOTE_INTERVAL_MS: u64 = 1_500;

/// Pause, in milliseconds, between two lookups of transactions with enough confirmations, while no node reports which
/// transactions are final.
const DEEP_LOOKUP_PAUSE_MS: u64 = 30_000;

/// The owner of an outbox: it persists the outbox and obtains signatures for it.
pub trait Host: Send + Sync + 'static {
    /// The right to sign once. Only a host issues it, and only for a persisted attempt.
    type SigningRight: Send + 'static;

    /// Returns the current outbox.
    fn outbox(&self) -> Arc<Outbox>;

    /// Completes once the current outbox differs from `known`. Cancel-safe.
    fn changed_since<'a>(&'a self, known: &'a Arc<Outbox>) -> BoxFuture<'a, ()>;

    /// Persists the consequences of a notice and returns the actions to perform. Returns no actions if persisting
    /// failed.
    fn handle(&self, notice: Notice) -> BoxFuture<'_, Vec<PendingAction<Self::SigningRight>>>;

    /// Obtains the signature that `signing_right` permits. May take as long as a person needs to answer.
    fn sign(&self, signing_right: Self::SigningRight) -> BoxFuture<'static, SignOutcome>;

    /// Reports that a broadcast is about to start. After this report the driver checks once more that the outbox
    /// permits the broadcast. So if a caller has cancelled a call and sees no broadcast in progress, none will start.
    fn sending(&self, _id: SubmissionId, _hash: B256) {}

    /// Reports that a broadcast has ended. `clear` means that no node can still receive the bytes: every contacted
    /// node accepted or rejected them.
    fn sent(&self, _id: SubmissionId, _hash: B256, _clear: bool) {}

    /// Reports whether the nodes refuse to show which transactions are final ([`FinalCount::Unknown`] at the last
    /// lookup).
    fn finality_unknown(&self, _is_unknown: bool) {}

    /// Passes a failpoint and returns whether to continue. Tests may end the process here.
    fn hit(&self, _point: &'static str) -> bool {
        true
    }
}

/// A message from the driver to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Input(Input),
    /// Requests the pending actions of every open submission.
    Resume,
}

/// An action to perform, and the right to sign if it needs one.
#[derive(Debug)]
pub struct PendingAction<L> {
    pub action: Action,
    /// Present with [`Action::Sign`] if signing is permitted now.
    pub signing_right: Option<L>,
}

/// The outcome of a signature request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignOutcome {
    Signed(Signature65),
    /// The signer refuses permanently.
    Declined,
    /// The signer is not available; the same request may be repeated.
    NotNow,
}

/// The outbox that a driver serves, and the driver's dependencies.
#[derive(Debug, Clone)]
pub struct DriverContext {
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

/// Drives an outbox until no submission is open or the host stops.
///
/// It calls `chain` again for each round, because endpoints change.
pub async fn serve<H: Host>(
    host: Arc<H>,
    context: DriverContext,
    chain: impl Fn() -> Option<Arc<dyn Chain>> + Send + Sync,
) {
    let (follower, clock) = (Arc::clone(&context.follower), Arc::clone(&context.clock));
    let poll_ms = context.gas.poll_ms;
    // cancel-safe: the follower only polls, so dropping it loses nothing.
    tokio::select! {
        biased;
        () = serve_until_idle(host, context, &chain) => {}
        () = follower.run(&chain, &*clock, poll_ms) => {}
    }
}

async fn serve_until_idle<H: Host>(
    host: Arc<H>,
    context: DriverContext,
    chain: impl Fn() -> Option<Arc<dyn Chain>> + Send,
) {
    let mut waiter = context.follower.waiter();
    let (signed, mut answers) = mpsc::unbounded_channel();
    let mut chain_tasks = ChainTasks {
        host,
        context,
        due_actions: VecDeque::new(),
        signing: BTreeSet::new(),
        retry_at_ms: BTreeMap::new(),
        signature_results: signed,
        quote_result: None,
        broadcast_hashes: BTreeSet::new(),
        counts: FinalCounts::default(),
        is_finality_unknown: false,
        last_deep_lookup_ms: 0,
        head: 0,
    };
    let mut resumed = false;
    loop {
        let outbox = chain_tasks.host.outbox();
        if outbox.open.is_empty() || chain_tasks.context.stopping.is_cancelled() {
            return;
        }
        if let Some(chain) = chain() {
            // Resume everything at the start. Resume again while an unsigned attempt has no signature request in
            // flight, because the signer may be available again. In all other cases a tick is enough.
            if !resumed || chain_tasks.needs_signature(&outbox) {
                chain_tasks.handle(Notice::Resume).await;
                if resumed {
                    // The tick below triggers every other action that is due.
                    chain_tasks.keep_only_signatures();
                }
            }
            if resumed {
                chain_tasks.handle(Notice::Input(Input::Tick)).await;
            }
            resumed = true;
            chain_tasks.perform_due(&*chain).await;
        }
        let outbox = chain_tasks.host.outbox();
        let wake = chain_tasks.context.clock.mono_ms().saturating_add(IDLE_MS_MAX);
        // cancel-safe: `recv` leaves an unreceived signature in its channel, and the other branches only wait.
        tokio::select! {
            biased;
            () = chain_tasks.context.stopping.cancelled() => return,
            answer = answers.recv() => {
                if let Some((id, attempt, end)) = answer {
                    chain_tasks.handle_signature(id, attempt, end).await;
                }
            }
            // The follower outlives this loop; even if it ended, the timer below would wake the loop.
            true = waiter.next_block() => {}
            () = chain_tasks.host.changed_since(&outbox) => {}
            () = chain_tasks.context.clock.sleep_until(wake) => {}
        }
    }
}

/// Whether the last quote can be used again.
enum LastQuote {
    /// Recent enough to use again.
    Fresh(Input),
    /// Not usable, and too recent to request another quote.
    TooSoon,
    /// Old enough to request another quote.
    Stale,
}

/// The driver's working state; a restart rebuilds all of it.
struct ChainTasks<H: Host> {
    host: Arc<H>,
    context: DriverContext,
    due_actions: VecDeque<PendingAction<H::SigningRight>>,
    /// Attempts with a signature request in flight.
    signing: BTreeSet<(SubmissionId, usize)>,
    /// Attempts that a signer has just answered, and the time of the next request for each (monotonic milliseconds).
    retry_at_ms: BTreeMap<(SubmissionId, usize), u64>,
    signature_results: mpsc::UnboundedSender<(SubmissionId, usize, SignOutcome)>,
    /// The time at which the last quote request ended (monotonic milliseconds), and its result.
    quote_result: Option<(u64, Option<Input>)>,
    /// Hashes broadcast since the driver started.
    broadcast_hashes: BTreeSet<B256>,
    counts: FinalCounts,
    /// Whether the last lookup returned [`FinalCount::Unknown`].
    is_finality_unknown: bool,
    /// When transactions with enough confirmations were last looked up (monotonic milliseconds).
    last_deep_lookup_ms: u64,
    /// The newest block of the last lookup.
    head: u64,
}

impl<H: Host> ChainTasks<H> {
    fn needs_signature(&self, outbox: &Outbox) -> bool {
        outbox.open.iter().any(|(id, one)| {
            one.unsigned_attempt().is_some_and(|(at, _tried)| {
                !self.signing.contains(&(*id, at)) && !self.is_before_retry(&(*id, at))
            })
        })
    }

    fn is_before_retry(&self, attempt: &(SubmissionId, usize)) -> bool {
        self.retry_at_ms.get(attempt).is_some_and(|until| self.context.clock.mono_ms() < *until)
    }

    fn keep_only_signatures(&mut self) {
        self.due_actions.retain(|work| matches!(work.action, Action::Sign { .. }));
    }

    /// Sends a notice to the host and queues the resulting actions.
    async fn handle(&mut self, notice: Notice) {
        self.due_actions.extend(self.host.handle(notice).await);
    }

    async fn perform_due(&mut self, chain: &dyn Chain) {
        while let Some(work) = self.due_actions.pop_front() {
            if self.context.stopping.is_cancelled() {
                return;
            }
            match work.action {
                Action::Sign { id, attempt, .. } => {
                    if let Some(signing_right) = work.signing_right {
                        self.sign(id, attempt, signing_right);
                    }
                    continue;
                }
                Action::Lookup { id, hashes } => {
                    self.look_up(chain, (id, hashes)).await;
                    continue;
                }
                Action::Quote => match self.last_quote() {
                    LastQuote::Fresh(input) => {
                        self.handle(Notice::Input(input)).await;
                        continue;
                    }
                    LastQuote::TooSoon => continue,
                    LastQuote::Stale => {}
                },
                Action::Send { .. } => {}
            }
            if let Action::Send { id, raw } = &work.action {
                self.host.sending(*id, raw.hash);
                // The submission may have been cancelled or may have expired while it was queued here.
                let (outbox, at) = (self.host.outbox(), self.context.clock.utc());
                if !outbox.open.get(id).is_some_and(|one| one.may_send(raw.hash, at)) {
                    self.host.sent(*id, raw.hash, true);
                    continue;
                }
            }
            let sends = matches!(work.action, Action::Send { .. });
            if sends && !self.host.hit("outbox.send") {
                return;
            }
            let DriverContext { key, gas, .. } = &self.context;
            let rebroadcast = match &work.action {
                Action::Send { raw, .. } => !self.broadcast_hashes.insert(raw.hash),
                _reads => false,
            };
            let started_ms = self.context.clock.mono_ms();
            let done = chain_tasks::run(chain, key, gas, &work.action, rebroadcast).await;
            if matches!(work.action, Action::Quote) {
                self.quote_result = Some((self.context.clock.mono_ms(), done.clone()));
            }
            if sends && !self.host.hit("outbox.sent") {
                return;
            }
            let silent =
                matches!(&done, Some(Input::Answered { answer: SendAnswer::Unclear, .. }) | None);
            if let Action::Send { id, raw } = &work.action {
                let clear = !silent && !chain.has_failed_since(started_ms);
                self.host.sent(*id, raw.hash, clear);
            }
            if let Some(input) = done {
                self.handle(Notice::Input(input)).await;
            }
            if silent {
                // No node gave a usable answer. Drop all actions but signature requests, so that the queue does not
                // grow and signers' answers are handled first. The next round requests the dropped actions again.
                self.keep_only_signatures();
                return;
            }
        }
    }

    /// Decides whether the driver reuses the last quote, waits, or requests another quote. Each quote takes several
    /// requests, and a submission may wait for many blocks. A first offer and the replacement of a withdrawn call
    /// reuse a quote younger than [`QUEUED_QUOTE_INTERVAL_MS`]. The transaction counts of that quote can only be too
    /// low, which is harmless: the outbox knows the nonces that it has used.
    fn last_quote(&mut self) -> LastQuote {
        // A withdrawn call can still be mined until another transaction uses its nonce, so its replacement is
        // urgent.
        let waits = |one: &Submission| one.nonce.is_none() || (one.cancel && !one.is_given_up());
        let queued = self.host.outbox().open.values().any(waits);
        let now = self.context.clock.mono_ms();
        let age = |last: u64| now.saturating_sub(last);
        match &self.quote_result {
            Some((last, Some(quote))) if queued && age(*last) < QUEUED_QUOTE_INTERVAL_MS => {
                LastQuote::Fresh(quote.clone())
            }
            Some((last, _quote)) => {
                let pause = if queued { QUEUED_QUOTE_INTERVAL_MS } else { QUOTE_INTERVAL_MS };
                if age(*last) < pause { LastQuote::TooSoon } else { LastQuote::Stale }
            }
            None => LastQuote::Stale,
        }
    }

    /// Performs `first` and all lookups that directly follow it in the queue.
    async fn look_up(&mut self, chain: &dyn Chain, first: LookupRequest) {
        let mut lookups = vec![first];
        let is_lookup = |work: &mut PendingAction<H::SigningRight>| {
            matches!(work.action, Action::Lookup { .. })
        };
        while let Some(work) = self.due_actions.pop_front_if(is_lookup) {
            if let Action::Lookup { id, hashes } = work.action
                && !lookups.iter().any(|(known, _hashes)| *known == id)
            {
                lookups.push((id, hashes));
            }
        }
        let now = self.context.clock.mono_ms();
        if !self.is_finality_unknown
            || now.saturating_sub(self.last_deep_lookup_ms) >= DEEP_LOOKUP_PAUSE_MS
        {
            self.last_deep_lookup_ms = now;
        } else {
            // Skip transactions with enough confirmations: a lookup without a transaction count cannot end their
            // submissions.
            let outbox = self.host.outbox();
            lookups.retain(|(id, _hashes)| !self.has_enough_confirmations(&outbox, id));
            if lookups.is_empty() {
                return;
            }
        }
        let (signer, rules) = (self.context.key.signer, self.context.rules);
        match chain_tasks::look_up(chain, signer, &rules, &lookups, &mut self.counts).await {
            Ok((results, count)) => {
                self.note_finality(count == FinalCount::Unknown);
                if let Some(Input::LookedUp { head, .. }) = results.first() {
                    self.head = *head;
                }
                for input in results {
                    self.handle(Notice::Input(input)).await;
                }
            }
            Err(fault) => {
                tracing::debug!(chain = %self.context.key.chain, %fault, "a lookup of transactions on the chain failed")
            }
        }
    }

    /// Returns whether a submission has enough confirmations, so that only its signer's transaction count is missing.
    fn has_enough_confirmations(&self, outbox: &Outbox, id: &SubmissionId) -> bool {
        let included = match outbox.open.get(id).map(|one| &one.chain_state) {
            Some(ChainState::Included(included)) => included,
            _none => return false,
        };
        included.block.saturating_add(self.context.rules.confirmations) <= self.head
    }

    fn note_finality(&mut self, is_unknown: bool) {
        let OutboxKey { chain, signer } = self.context.key;
        // Report every result, not only changes: the host outlives this task and still has the report of an earlier
        // task.
        self.host.finality_unknown(is_unknown);
        let changed = std::mem::replace(&mut self.is_finality_unknown, is_unknown) != is_unknown;
        if changed && is_unknown {
            tracing::warn!(
                %chain, %signer,
                "no node reports which transactions are final: none has the state of past blocks. Transactions are \
                 sent and mined, but their records stay open; add a node that keeps the state of 128 blocks"
            );
        } else if changed {
            tracing::info!(%chain, %signer, "a node reports again which transactions are final");
        }
    }

    /// Requests a signature in the background. A signer may ask a person and take minutes.
    fn sign(&mut self, id: SubmissionId, attempt: usize, signing_right: H::SigningRight) {
        if self.is_before_retry(&(id, attempt)) || !self.signing.insert((id, attempt)) {
            return;
        }
        let end = self.host.sign(signing_right);
        let signed = self.signature_results.clone();
        self.context.tasks.spawn(async move {
            // The driver may have stopped; the next start asks again.
            let _gone = signed.send((id, attempt, end.await));
        });
    }

    async fn handle_signature(&mut self, id: SubmissionId, attempt: usize, end: SignOutcome) {
        self.signing.remove(&(id, attempt));
        // Rest after every answer, even one without effect, such as a wrong signature.
        let now = self.context.clock.mono_ms();
        self.retry_at_ms.retain(|_attempt, until| now < *until);
        self.retry_at_ms.insert((id, attempt), now.saturating_add(IDLE_MS_MAX));
        let input = match end {
            SignOutcome::Signed(signature) => Input::Signature { id, attempt, signature },
            SignOutcome::Declined => Input::Declined { id, attempt },
            SignOutcome::NotNow => return,
        };
        if self.host.hit("outbox.signed") {
            self.handle(Notice::Input(input)).await;
        }
    }
}
