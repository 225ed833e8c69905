//! The queue itself: which request is shown next.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_core::ids::RequestId;
use bursar_domain::Request;
use bursar_x402::signature::Signature65;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::prompter::{Prompter, SigningOutcome, TryOutcome};
use super::status::{DeviceStatus, Waiter};
use super::switches::SwitchRests;
use super::turns::{Entry, Job, PlanTurn, Retries, Turns, WaitingPlan};
use crate::core::View;
use crate::core::handle::Handle;
use crate::device::Turn;
use crate::journal::{SigningOrder, Slip, Terms};
use crate::ports::{Ports, SignFault, Signer};
use crate::vault::Vault;

/// Maximum number of entries that wait for the queue's task. The outboxes never have as many open attempts.
const JOBS_MAX: usize = 256;
/// How long the queue rests after a device was not ready, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// The longest rest, in milliseconds. The rest doubles with each failed prompt, because the journal records each one.
const REST_MAX_MS: u64 = 16_000;

/// How long the queue waits for the signing order of the plan whose turn it is, in milliseconds. In this time the plan
/// measures its step and opens it.
const ORDER_MS: u64 = 30_000;

/// Signs with the vault or, for addresses on devices, through the device queue.
#[derive(Debug)]
pub(crate) struct WalletSigner {
    /// The vault, or the double that a test puts in its place.
    keys: Arc<dyn Signer>,
    core: Handle,
    queue: mpsc::Sender<Entry>,
}

/// The task that owns the queue.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    prompter: Prompter,
    inbox: mpsc::Receiver<Entry>,
    jobs: VecDeque<Job>,
    plans: VecDeque<WaitingPlan>,
    /// The request whose plan has its turn: its job comes first.
    plan_with_turn: Option<RequestId>,
    /// The addresses on which the last turn of a plan ended without an order. Their payments go before their next plan.
    payments_first: BTreeSet<Address>,
    /// Operators who wait for the end of the next try.
    retries: Vec<oneshot::Sender<()>>,
}

/// The handles through which the engine uses the queue.
pub(crate) struct QueueHandles {
    pub(crate) signer: WalletSigner,
    pub(crate) turns: Turns,
    pub(crate) retries: Retries,
    pub(crate) status: watch::Receiver<Arc<DeviceStatus>>,
}

/// Creates the queue of a wallet's devices, and the handles to it.
pub(crate) fn new(
    ports: &Ports,
    turn: &Turn,
    core: &Handle,
    vault: &Arc<Vault>,
    stopping: &CancellationToken,
) -> (QueueHandles, DeviceQueue) {
    let (queue, inbox) = mpsc::channel(JOBS_MAX);
    let (status, shown) = watch::channel(Arc::default());
    let (turns, retries) = (Turns::new(queue.clone()), Retries::new(queue.clone()));
    let keys = ports.signer.clone().unwrap_or_else(|| Arc::clone(vault) as _);
    let signer = WalletSigner { keys, core: core.clone(), queue };
    let prompter = Prompter {
        ports: ports.clone(),
        turn: turn.clone(),
        core: core.clone(),
        vault: Arc::clone(vault),
        stopping: stopping.clone(),
        status,
        abandoned_device: Mutex::default(),
        switch_rests: SwitchRests::default(),
    };
    let queue = DeviceQueue {
        prompter,
        inbox,
        jobs: VecDeque::new(),
        plans: VecDeque::new(),
        plan_with_turn: None,
        payments_first: BTreeSet::new(),
        retries: Vec::new(),
    };
    (QueueHandles { signer, turns, retries, status: shown }, queue)
}

impl WalletSigner {
    fn is_on_device(&self, slip: &Slip) -> bool {
        self.core.view().state.is_on_device(slip.signer())
    }
}

impl Signer for WalletSigner {
    fn asks_a_person(&self, slip: &Slip) -> bool {
        self.is_on_device(slip) || self.keys.asks_a_person(slip)
    }

    fn sign(&self, slip: Slip, terms: Terms) -> BoxFuture<'_, Result<Signature65, SignFault>> {
        if !self.is_on_device(&slip) {
            return self.keys.sign(slip, terms);
        }
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let job = Job { order: SigningOrder { slip, terms }, answer };
            // The engine is stopping or has no queue. A later order may be signed.
            self.queue
                .send(Entry::Job(Box::new(job)))
                .await
                .map_err(|_stopped| SignFault::Stale)?;
            answered.await.unwrap_or(Err(SignFault::Stale))
        })
    }
}

impl DeviceQueue {
    /// Serves the queue until the engine stops.
    pub(crate) async fn run(mut self) {
        let mut views = self.prompter.core.watch();
        let mut rest_ms = RETRY_MS;
        loop {
            while let Ok(entry) = self.inbox.try_recv() {
                self.push(entry);
            }
            let view = Arc::clone(&views.borrow_and_update());
            self.drop_stale_jobs();
            self.drop_stale_plans(&view);
            self.publish(&view);
            // Closes an abandoned device once it has answered, so that the next look-up can open it.
            self.prompter.check_abandoned();
            let (mut progress, mut waits, mut failed) = (false, false, false);
            let mut absent = BTreeSet::new();
            for next in self.entries_to_try(&view) {
                waits = true;
                let address = self.address_of(&next);
                // Do not look twice in one round for a device that was absent.
                if address.is_none_or(|address| absent.contains(&address)) {
                    continue;
                }
                let tried = match next {
                    NextEntry::Job(index) => self.try_job(&view, index).await,
                    NextEntry::Plan(index) => self.try_plan(&view, index).await,
                    NextEntry::Payment(request) => self.try_payment(&view, &request).await,
                };
                if self.prompter.stopping.is_cancelled() {
                    return;
                }
                match tried {
                    TryOutcome::Answered => {
                        progress = true;
                        break;
                    }
                    TryOutcome::Failed => {
                        failed = true;
                        absent.extend(address);
                    }
                    TryOutcome::NotReady => absent.extend(address),
                    // Other requests of the address may not need the same setting, so they are tried too.
                    TryOutcome::SwitchOff => {}
                }
            }
            rest_ms = if failed { rest_ms.saturating_mul(2).min(REST_MAX_MS) } else { RETRY_MS };
            self.retries.clear();
            if progress {
                continue;
            }
            if !waits {
                self.prompter.switch_rests.forget_old(self.prompter.ports.clock.mono_ms());
            }
            let leaves_prompt = self.prompter.check_abandoned();
            // After a try, view changes do not wake the queue: they are frequent, and each try opens the devices.
            let wake = self.prompter.ports.clock.mono_ms().saturating_add(rest_ms);
            // cancel-safe: every branch only waits, and `recv` keeps the messages that it has not returned.
            tokio::select! {
                biased;
                () = self.prompter.stopping.cancelled() => return,
                Some(entry) = self.inbox.recv() => self.push(entry),
                changed = views.changed(), if !waits => if changed.is_err() { return },
                () = self.prompter.ports.clock.sleep_until(wake), if waits || leaves_prompt => {}
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Job(job) => self.jobs.push_back(*job),
            Entry::Plan(plan) => self.plans.push_back(plan),
            Entry::Retry(tried) => {
                self.prompter.switch_rests.clear();
                self.retries.push(tried);
            }
        }
    }

    /// Returns the entries to try next, in order: for each address the oldest transaction, then the oldest plan, then
    /// the oldest payment, then the oldest mandate. The job of the plan whose turn it is comes first.
    ///
    /// After a turn without an order, the payments of the address go before its plans. Otherwise plans whose nodes do
    /// not answer would take turn after turn.
    fn entries_to_try(&self, view: &View) -> Vec<NextEntry> {
        let jobs = self.jobs.iter().enumerate();
        let (mandates, mut jobs): (Vec<_>, Vec<_>) =
            jobs.partition(|(_index, job)| job.order.slip.subject().is_statement());
        let mut served = BTreeSet::new();
        let mandates = mandates
            .into_iter()
            .filter(|(_index, job)| served.insert(job.order.slip.signer()))
            .map(|(index, _job)| NextEntry::Job(index));
        let mut served = BTreeSet::new();
        let is_first = |job: &Job| {
            self.plan_with_turn.is_some_and(|id| self.prompter.belongs_to(&job.order, id))
        };
        jobs.sort_by_key(|(_index, job)| !is_first(job));
        let mut next: Vec<NextEntry> = jobs
            .into_iter()
            .filter(|(_index, job)| served.insert(job.order.slip.signer()))
            .map(|(index, _job)| NextEntry::Job(index))
            .collect();
        if !self.prompter.vault.is_unlocked()
            || view.untrusted_reason.is_some()
            || view.state.frozen.is_some()
        {
            next.extend(mandates);
            return next;
        }
        let mut served = BTreeSet::new();
        let plans = self.plans.iter().enumerate();
        let plans = plans.filter(|(_index, plan)| served.insert(plan.address));
        let (late, early): (Vec<_>, Vec<_>) =
            plans.partition(|(_index, plan)| self.payments_first.contains(&plan.address));
        let by_index = |(index, _plan): (usize, &WaitingPlan)| NextEntry::Plan(index);
        let mut served = BTreeSet::new();
        let payments =
            waiting_payments(view).into_iter().filter(|request| served.insert(request.from));
        next.extend(early.into_iter().map(by_index));
        next.extend(payments.map(NextEntry::Payment));
        next.extend(late.into_iter().map(by_index));
        next.extend(mandates);
        next
    }

    /// Returns the address whose key signs; `None` if the job has ended.
    fn address_of(&self, next: &NextEntry) -> Option<Address> {
        match next {
            NextEntry::Job(index) => self.jobs.get(*index).map(|job| job.order.slip.signer()),
            NextEntry::Plan(index) => self.plans.get(*index).map(|plan| plan.address),
            NextEntry::Payment(request) => Some(request.from),
        }
    }

    /// Tries the job at position `index`.
    async fn try_job(&mut self, view: &View, index: usize) -> TryOutcome {
        let Some(job) = self.jobs.get(index) else { return TryOutcome::NotReady };
        let signed = match self.prompter.try_transaction(view, &job.order).await {
            SigningOutcome::Signed(signature) => Ok(signature),
            SigningOutcome::Refused => Err(SignFault::Refused("refused on the device".to_owned())),
            SigningOutcome::NotAnswered(tried) => return tried,
        };
        if let Some(Job { answer, order }) = self.jobs.remove(index) {
            self.plan_with_turn.take_if(|first| self.prompter.belongs_to(&order, *first));
            let _gone = answer.send(signed);
        }
        TryOutcome::Answered
    }

    /// Tries a payment. Afterwards the plans of its address go first again, even if the device did not show the
    /// payment.
    async fn try_payment(&mut self, view: &View, request: &Request) -> TryOutcome {
        self.payments_first.remove(&request.from);
        self.prompter.try_payment(view, request).await
    }

    /// Gives the plan at this position its turn if the device is ready, and waits for the plan's signing order.
    async fn try_plan(&mut self, view: &View, index: usize) -> TryOutcome {
        let Some(plan) = self.plans.get(index) else { return TryOutcome::NotReady };
        match self.prompter.try_plan(view, plan.address).await {
            TryOutcome::Answered => {}
            not_now @ (TryOutcome::NotReady | TryOutcome::SwitchOff | TryOutcome::Failed) => {
                return not_now;
            }
        }
        let Some(plan) = self.plans.remove(index) else { return TryOutcome::NotReady };
        let (turn, is_kept) = PlanTurn::new();
        if plan.grant.send(turn).is_ok() {
            if self.await_order(plan.request, is_kept).await {
                self.payments_first.remove(&plan.address);
            } else {
                self.payments_first.insert(plan.address);
            }
        }
        TryOutcome::Answered
    }

    /// Waits until the job of a plan arrives, at most [`ORDER_MS`], or until the plan needs no job. Returns whether the
    /// job arrived.
    async fn await_order(&mut self, plan: RequestId, mut is_kept: oneshot::Receiver<()>) -> bool {
        let clock = Arc::clone(&self.prompter.ports.clock);
        let wake = clock.mono_ms().saturating_add(ORDER_MS);
        let mut views = self.prompter.core.watch();
        let mut waits_for_plan = true;
        while !self.jobs.iter().any(|job| self.prompter.belongs_to(&job.order, plan)) {
            let state = &Arc::clone(&views.borrow_and_update()).state;
            let request = state.executing.get(&plan);
            // The request was stopped or rejected meanwhile.
            if !request.is_some_and(|request| state.awaits_device_signature(request)) {
                return false;
            }
            // cancel-safe: every branch only waits, and `recv` keeps the messages that it has not returned.
            tokio::select! {
                biased;
                () = self.prompter.stopping.cancelled() => return false,
                Some(entry) = self.inbox.recv() => self.push(entry),
                kept = &mut is_kept, if waits_for_plan => {
                    if kept.is_err() {
                        return false;
                    }
                    waits_for_plan = false;
                }
                changed = views.changed() => if changed.is_err() { return false },
                () = clock.sleep_until(wake) => return false,
            }
        }
        self.plan_with_turn = Some(plan);
        true
    }

    /// Publishes the transactions and plans in the queue, and forgets the states of addresses for which nothing waits.
    fn publish(&self, view: &View) {
        let transactions: Vec<_> = self
            .jobs
            .iter()
            .map(|job| (job.order.slip.subject(), job.order.slip.signer()))
            .collect();
        let plans: Vec<_> = self.plans.iter().map(|plan| (plan.request, plan.address)).collect();
        self.prompter.publish(|status| {
            let waits = |address: Address, waiter: Waiter| match waiter {
                Waiter::Transaction => transactions.iter().any(|(_any, from)| *from == address),
                Waiter::Plan => view.state.plans_at_device().any(|plan| plan.from == address),
                Waiter::Payment => {
                    view.state.waiting.values().any(|request| request.from == address)
                }
            };
            let kinds = [Waiter::Transaction, Waiter::Plan, Waiter::Payment];
            let any = |address: Address| kinds.iter().any(|waiter| waits(address, *waiter));
            status.not_ready.retain(|address, _why| any(*address));
            status.switch_off.retain(|(address, waiter), _why| waits(*address, *waiter));
            status.transactions.clone_from(&transactions);
            status.plans.clone_from(&plans);
        });
    }

    /// Drops the plans that have nothing to sign now.
    fn drop_stale_plans(&mut self, view: &View) {
        let may_sign = self.prompter.vault.is_unlocked()
            && view.untrusted_reason.is_none()
            && view.state.frozen.is_none();
        self.plans.retain(|plan| {
            let request = view.state.executing.get(&plan.request);
            may_sign
                && !plan.grant.is_closed()
                && request.is_some_and(|request| view.state.awaits_device_signature(request))
        });
    }

    /// Answers the jobs whose right to sign is void or whose signature is no longer needed. Drops the jobs whose caller
    /// no longer waits.
    fn drop_stale_jobs(&mut self) {
        let (valid, stale) = std::mem::take(&mut self.jobs)
            .into_iter()
            .filter(|job| !job.answer.is_closed())
            .partition(|job| self.prompter.is_wanted(&job.order));
        self.jobs = valid;
        let stale: VecDeque<Job> = stale;
        for job in stale {
            let _gone = job.answer.send(Err(SignFault::Stale));
        }
    }
}

/// An entry that the queue may try next.
enum NextEntry {
    /// The position of the job.
    Job(usize),
    /// The position of the plan.
    Plan(usize),
    Payment(Arc<Request>),
}

/// Returns the payments that wait for a device and whose agents may work, the oldest first.
pub(crate) fn waiting_payments(view: &View) -> Vec<Arc<Request>> {
    let may_work = |request: &Request| {
        let agent = view.state.agents.get(&request.agent);
        agent.is_some_and(|agent| !agent.suspended)
    };
    let all = view.state.waiting.values().filter(|request| may_work(request));
    let mut all: Vec<_> = all.cloned().collect();
    all.sort_by_key(|request| request.seq);
    all
}
