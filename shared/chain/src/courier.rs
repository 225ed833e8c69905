//! Serves one desk of a host: asks prices, has signed, broadcasts, looks. It owns nothing: every answer goes
//! to the host, which keeps what follows from it before the next thing is done. Dies the process, the host
//! names at the next start what is still to be done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::networks::Gas;
use bursar_submit::{Action, Desk, DeskKey, Input, Rules, SendAnswer, Submission, SubmissionId};
use bursar_x402::signature::Signature65;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::errands::{self, Wanted};
use crate::follower::Follower;
use crate::ports::{BoxFuture, Chain, Clock};

/// How long nothing happens before a desk looks by itself.
pub const IDLE_MS: u64 = 2_000;

/// Between two questions for a price: while something waits for its first offer, and else.
const QUOTE_QUEUED_MS: u64 = 250;
const QUOTE_MS: u64 = 1_500;

/// Who keeps a desk, and has things signed for it.
pub trait Host: Send + Sync + 'static {
    /// The right to one signature: only a host has it, and only for what it has kept.
    type Leave: Send + 'static;

    /// The desk as it stands.
    fn desk(&self) -> Arc<Desk>;

    /// Ends when the desk is not this one any more. Cancel-safe.
    fn another<'a>(&'a self, than: &'a Arc<Desk>) -> BoxFuture<'a, ()>;

    /// Keeps what follows from this, and answers what is to be done. Nothing, if it could not be kept.
    fn tell(&self, told: Told) -> BoxFuture<'_, Vec<Work<Self::Leave>>>;

    /// Has signed what was allowed. May take as long as a person takes.
    fn sign(&self, leave: Self::Leave) -> BoxFuture<'static, SignEnd>;

    /// A broadcast starts. Called before the last check of the desk, so a caller that cancels a submission and then
    /// finds no broadcast in progress knows that none follows.
    fn sending(&self, _id: SubmissionId, _hash: B256) {}

    /// The broadcast has ended. `clear`: every node that was sent the bytes accepted or rejected them. Otherwise a
    /// node may receive them later.
    fn sent(&self, _id: SubmissionId, _hash: B256, _clear: bool) {}

    /// Whether to go on at a named point: where tests kill.
    fn reach(&self, _point: &'static str) -> bool {
        true
    }
}

/// What a host is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Happened(Input),
    /// Everything that is open is to be gone on with.
    Resume,
}

/// One thing to do.
#[derive(Debug)]
pub struct Work<L> {
    pub action: Action,
    /// Beside [`Action::Sign`], where it may be signed now.
    pub leave: Option<L>,
}

/// What asking a signer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignEnd {
    Signed(Signature65),
    /// It will not be signed.
    Declined,
    /// Not now: the same may be asked again.
    NotNow,
}

/// Where a desk's errands lead.
#[derive(Debug, Clone)]
pub struct Way {
    pub key: DeskKey,
    pub gas: Gas,
    pub rules: Rules,
    pub clock: Arc<dyn Clock>,
    /// Signers are asked beside everything else.
    pub tasks: TaskTracker,
    pub stopping: CancellationToken,
    /// One for all desks of a network.
    pub follower: Arc<Follower>,
}

/// Serves a desk until nothing is open at it. `chain` is asked anew each time: endpoints change.
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
    let mut errands = Errands {
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
        let desk = errands.host.desk();
        if desk.open.is_empty() || errands.way.stopping.is_cancelled() {
            return;
        }
        if let Some(chain) = chain() {
            // Everything at the beginning, and whenever something waits for a signer that nobody asks: it
            // may be there again. Otherwise what a block brings.
            if !begun || errands.lacks_a_signer(&desk) {
                errands.tell(Told::Resume).await;
                if begun {
                    // All else goes its way already.
                    errands.keep_signing();
                }
            }
            if begun {
                errands.tell(Told::Happened(Input::Tick)).await;
            }
            begun = true;
            errands.work_off(&*chain).await;
        }
        let desk = errands.host.desk();
        let wake = errands.way.clock.mono_ms().saturating_add(IDLE_MS);
        // cancel-safe: a signer's answer is taken whole or stays in its channel, the rest only waits.
        tokio::select! {
            () = errands.way.stopping.cancelled() => return,
            answer = answers.recv() => {
                if let Some((id, attempt, end)) = answer {
                    errands.signer_said(id, attempt, end).await;
                }
            }
            // It cannot end before us; if it did, the clock wakes.
            true = waiter.next_block() => {}
            () = errands.host.another(&desk) => {}
            () = errands.way.clock.sleep_until(wake) => {}
        }
    }
}

/// What is known of prices.
enum Recent {
    Fresh(Input),
    AskedLately,
    Stale,
}

/// What serving one desk holds; all of it is made anew after a restart.
struct Errands<H: Host> {
    host: Arc<H>,
    way: Way,
    due: VecDeque<Work<H::Leave>>,
    /// Attempts that a signer is asked for.
    asked: BTreeSet<(SubmissionId, usize)>,
    /// Attempts that a signer would not sign yet, and until when it is left alone with them.
    resting: BTreeMap<(SubmissionId, usize), u64>,
    signed: mpsc::UnboundedSender<(SubmissionId, usize, SignEnd)>,
    /// When a price was asked for last, and what it was.
    quoted: Option<(u64, Option<Input>)>,
    /// What was broadcast since the serving began.
    sent: BTreeSet<B256>,
}

impl<H: Host> Errands<H> {
    fn lacks_a_signer(&self, desk: &Desk) -> bool {
        desk.open.iter().any(|(id, one)| {
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

    /// Tells the host, and takes on what follows.
    async fn tell(&mut self, told: Told) {
        self.due.extend(self.host.tell(told).await);
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
                Action::Look { id, hashes } => {
                    self.look(chain, (id, hashes)).await;
                    continue;
                }
                Action::Quote => match self.recent_quote() {
                    Recent::Fresh(input) => {
                        self.tell(Told::Happened(input)).await;
                        continue;
                    }
                    Recent::AskedLately => continue,
                    Recent::Stale => {}
                },
                Action::Send { .. } => {}
            }
            if let Action::Send { id, raw } = &work.action {
                self.host.sending(*id, raw.hash);
                // It may have been cancelled, or have expired, while it waited here.
                let (desk, at) = (self.host.desk(), self.way.clock.utc());
                if !desk.open.get(id).is_some_and(|one| one.may_send(raw.hash, at)) {
                    self.host.sent(*id, raw.hash, true);
                    continue;
                }
            }
            let sends = matches!(work.action, Action::Send { .. });
            if sends && !self.host.reach("desk.send") {
                return;
            }
            let Way { key, gas, .. } = &self.way;
            let again = match &work.action {
                Action::Send { raw, .. } => !self.sent.insert(raw.hash),
                _reads => false,
            };
            let begun_ms = self.way.clock.mono_ms();
            let done = errands::run(chain, key, gas, &work.action, again).await;
            if matches!(work.action, Action::Quote) {
                self.quoted = Some((self.way.clock.mono_ms(), done.clone()));
            }
            if sends && !self.host.reach("desk.sent") {
                return;
            }
            let silent =
                matches!(&done, Some(Input::Answered { answer: SendAnswer::Unclear, .. }) | None);
            if let Action::Send { id, raw } = &work.action {
                let clear = !silent && !chain.was_silent_since(begun_ms);
                self.host.sent(*id, raw.hash, clear);
            }
            if let Some(input) = done {
                self.tell(Told::Happened(input)).await;
            }
            if silent {
                // Nobody answers: what signers say meanwhile is heard before the next one is tried. What is
                // asked of nodes is asked again at the next look, and must not pile up until then.
                self.keep_signing();
                return;
            }
        }
    }

    /// Prices take several questions, and what waits for one waits for a while: not at every block. What
    /// waits for its first offer takes the price that another got a moment ago: the count of transactions
    /// that came with it can only be too low, and the desk knows its own.
    fn recent_quote(&mut self) -> Recent {
        // A withdrawn call leaves its nonce in danger until another transaction uses it.
        let waits = |one: &Submission| one.nonce.is_none() || (one.cancel && !one.is_given_up());
        let queued = self.host.desk().open.values().any(waits);
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

    /// Looks for this submission, and for all others that are to be looked for next.
    async fn look(&mut self, chain: &dyn Chain, first: Wanted) {
        let mut wanted = vec![first];
        let looks = |work: &mut Work<H::Leave>| matches!(work.action, Action::Look { .. });
        while let Some(work) = self.due.pop_front_if(looks) {
            if let Action::Look { id, hashes } = work.action
                && !wanted.iter().any(|(known, _hashes)| *known == id)
            {
                wanted.push((id, hashes));
            }
        }
        let (signer, rules) = (self.way.key.signer, self.way.rules);
        match errands::look(chain, signer, &rules, &wanted).await {
            Ok(seen) => {
                for input in seen {
                    self.tell(Told::Happened(input)).await;
                }
            }
            Err(fault) => tracing::debug!(chain = %self.way.key.chain, %fault, "nothing was seen"),
        }
    }

    /// Beside everything else: a signer may ask a person, and take minutes.
    fn sign(&mut self, id: SubmissionId, attempt: usize, leave: H::Leave) {
        if self.rests(&(id, attempt)) || !self.asked.insert((id, attempt)) {
            return;
        }
        let end = self.host.sign(leave);
        let signed = self.signed.clone();
        self.way.tasks.spawn(async move {
            // The desk may be served no more: the next start asks again.
            let _gone = signed.send((id, attempt, end.await));
        });
    }

    async fn signer_said(&mut self, id: SubmissionId, attempt: usize, end: SignEnd) {
        self.asked.remove(&(id, attempt));
        // Also after an answer that comes to nothing, such as a wrong signature.
        let now = self.way.clock.mono_ms();
        self.resting.retain(|_attempt, until| now < *until);
        self.resting.insert((id, attempt), now.saturating_add(IDLE_MS));
        let input = match end {
            SignEnd::Signed(signature) => Input::Signature { id, attempt, signature },
            SignEnd::Declined => Input::Declined { id, attempt },
            SignEnd::NotNow => return,
        };
        if self.host.reach("desk.signed") {
            self.tell(Told::Happened(input)).await;
        }
    }
}
