//! The only writer of payments, except that `upkeep` deletes old ones. Pending changes share a commit, and waiters
//! are notified after the commit is on disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_outbox::store::StoreFault;
use bursar_rows::StoreError;
use bursar_submit::SubmissionId;
use tokio::sync::{mpsc, oneshot, watch};

use crate::book::batch::Batch;
use crate::book::gas::{GasBook, GasUsage};
use crate::book::record::{Record, RequestOrigin, State};
use crate::book::reservation::GasReservation;
use crate::book::store::{Change, ChangeResult, GasSpent, OpenWork, PaymentStore};
use crate::job::Job;
use crate::job_key::JobKey;
use crate::payment::Sponsoring;

/// Maximum number of commands per commit.
const COMMIT_COMMANDS_MAX: usize = 256;
/// Capacity of the command queue.
const QUEUE_MAX: usize = 8192;

/// The progress of a payment, for tasks that wait for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The payment has not ended.
    Open,
    /// The payment has ended in this state, which is on disk.
    Ended(State),
}

/// A payment in the ledger.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// The payment has not ended. Contains a receiver of its progress.
    Open(Arc<Record>, watch::Receiver<Progress>),
    /// The payment has ended. Contains the stored record.
    Ended(Box<Record>),
}

impl Lookup {
    /// The record at the time of the lookup.
    pub fn record(&self) -> &Record {
        match self {
            Self::Open(record, _progress) => record,
            Self::Ended(record) => record,
        }
    }
}

/// The result of accepting a payment.
#[derive(Debug, Clone)]
pub struct Acceptance {
    pub lookup: Lookup,
    /// Whether this call accepted the payment.
    pub new: bool,
}

struct Entry {
    record: Arc<Record>,
    progress: watch::Sender<Progress>,
}

impl Entry {
    fn of(record: &Record) -> Self {
        Self { record: Arc::new(record.clone()), progress: watch::Sender::new(Progress::Open) }
    }
}

struct Command {
    changes: Vec<Change>,
    done: oneshot::Sender<Result<Vec<ChangeResult>, StoreFault>>,
}

/// All payments of a facilitator, which clones share.
#[derive(Debug, Clone)]
pub struct Ledger {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn PaymentStore>,
    commits: AtomicU64,
    // The lock is held for a single lookup.
    open: Mutex<OpenPayments>,
}

/// Payments that have not ended, and the room that is claimed for new ones.
#[derive(Default)]
struct OpenPayments {
    by_key: HashMap<JobKey, Entry>,
    by_payer: HashMap<Address, BTreeSet<JobKey>>,
    /// Payments that are about to be accepted, by payer.
    claimed: HashMap<Address, BTreeMap<JobKey, OpenClaim>>,
    gas: GasBook,
}

/// The open and claimed payments and the gas that count against a new payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Open and claimed payments of the same payer.
    pub count: usize,
    /// The sum of these payments in the token of the new payment, in the token's smallest unit.
    pub amount: U256,
    /// How many of these payments include an EIP-2612 permit of that token.
    pub permits: usize,
    /// How many of these payments include a signed approval.
    pub approvals: usize,
    pub gas: GasUsage,
}

/// The amounts that one open or claimed payment adds to the [`Usage`] of its payer.
#[derive(Clone, Copy)]
struct PaymentAmounts {
    token: Address,
    amount: U256,
    has_permit: bool,
    has_approval: bool,
}

impl PaymentAmounts {
    fn of(job: &Job) -> Self {
        let (moves, sponsoring) = (job.work().moved_amount(), job.work().sponsoring());
        Self {
            token: moves.token,
            amount: moves.amount,
            has_permit: matches!(sponsoring, Some(Sponsoring::Permit(_))),
            has_approval: matches!(sponsoring, Some(Sponsoring::Approval(_))),
        }
    }
}

#[derive(Clone, Copy)]
struct OpenClaim {
    amounts: PaymentAmounts,
    /// Number of requests that hold a claim for this payment.
    holders: usize,
}

/// Room for a payment between its check and its acceptance, which counts against concurrent requests.
///
/// Dropping the claim releases the room, and also the gas if the payment was not accepted.
#[derive(Debug)]
pub struct RoomClaim {
    shared: Arc<Shared>,
    payer: Address,
    key: JobKey,
}

impl Drop for RoomClaim {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        let Some(claimed) = open.claimed.get_mut(&self.payer) else { return };
        if let Some(one) = claimed.get_mut(&self.key) {
            one.holders = one.holders.saturating_sub(1);
        }
        claimed.retain(|_key, one| one.holders > 0);
        let is_claimed = claimed.contains_key(&self.key);
        if claimed.is_empty() {
            open.claimed.remove(&self.payer);
        }
        if !is_claimed && !open.by_key.contains_key(&self.key) {
            open.gas.release(&self.key);
        }
    }
}

impl OpenPayments {
    /// Returns the usage by a payer's open and claimed payments other than `except`, in this token and without gas.
    fn usage_of_payer(&self, except: &JobKey, payer: Address, token: Address) -> Usage {
        let amounts_of = |key: &JobKey| Some(PaymentAmounts::of(&self.by_key.get(key)?.record.job));
        let open = self.by_payer.get(&payer).into_iter().flatten();
        let open = open.filter_map(|key| Some((*key, amounts_of(key)?)));
        let claimed = self.claimed.get(&payer).into_iter().flatten();
        let claimed = claimed.map(|(key, claim)| (*key, claim.amounts));
        let mut all: BTreeMap<JobKey, PaymentAmounts> = open.chain(claimed).collect();
        all.remove(except);
        let of_token = || all.values().filter(|one| one.token == token);
        Usage {
            count: all.len(),
            amount: of_token().fold(U256::ZERO, |sum, one| sum.saturating_add(one.amount)),
            permits: of_token().filter(|one| one.has_permit).count(),
            approvals: all.values().filter(|one| one.has_approval).count(),
            gas: GasUsage::default(),
        }
    }

    fn insert(&mut self, record: &Record) {
        let key = record.key();
        self.gas.reserve(key, record.job.work().chain(), record.gas_caller, record.reservation());
        if let State::Sent { batch } = record.state {
            self.gas.assign(key, Some(batch));
        }
        self.by_payer.entry(record.job.work().account()).or_default().insert(key);
        self.by_key.insert(key, Entry::of(record));
    }

    fn insert_ended(&mut self, record: &Record, batch: SubmissionId) {
        let key = record.key();
        self.gas.reserve(key, record.job.work().chain(), record.gas_caller, record.reservation());
        self.gas.assign(key, Some(batch));
        self.gas.end(&key, record.state.is_success());
    }

    fn apply_state(&mut self, key: &JobKey, state: &State, attempts: u8) {
        if !state.is_open() {
            if let Some(entry) = self.remove(key, state.is_success()) {
                entry.progress.send_replace(Progress::Ended(state.clone()));
            }
            return;
        }
        if *state == State::Queued {
            self.gas.assign(*key, None);
        }
        if let Some(entry) = self.by_key.get_mut(key) {
            let record = Arc::make_mut(&mut entry.record);
            record.state = state.clone();
            record.attempts = attempts;
        }
    }

    fn remove(&mut self, key: &JobKey, settled: bool) -> Option<Entry> {
        let entry = self.by_key.remove(key)?;
        self.gas.end(key, settled);
        let payer = entry.record.job.work().account();
        if let Some(keys) = self.by_payer.get_mut(&payer) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_payer.remove(&payer);
            }
        }
        Some(entry)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("open", &self.open().by_key.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, OpenPayments> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_open(&self, key: &JobKey) -> Option<Lookup> {
        let open = self.open();
        let entry = open.by_key.get(key)?;
        Some(Lookup::Open(Arc::clone(&entry.record), entry.progress.subscribe()))
    }
}

impl Ledger {
    /// Reads the open payments from the store and starts the writer.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn load(
        store: Arc<dyn PaymentStore>,
        now: Utc,
    ) -> Result<(Self, OpenWork), StoreFault> {
        let all = store.open().await?;
        let mut open = OpenPayments::default();
        for one in store.gas_spent_on(day_of(now)).await? {
            open.gas.add_spent(&one);
        }
        all.records.iter().for_each(|record| open.insert(record));
        // The gas of an ended payment stays reserved until its transaction is closed.
        for batch in all.batches.iter().filter(|batch| batch.found_transaction.is_none()) {
            let ended = store.records_of_batch(batch.clone()).await?;
            for record in ended.iter().filter(|record| !record.state.is_open()) {
                open.insert_ended(record, batch.id);
            }
        }
        let shared = Arc::new(Shared { store, commits: AtomicU64::new(0), open: Mutex::new(open) });
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run_writer(Arc::clone(&shared), queue));
        Ok((Self { commands, shared }, all))
    }

    /// Number of successful commits since the start.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Looks up a payment, open or ended.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn find(&self, key: JobKey) -> Result<Option<Lookup>, StoreFault> {
        if let Some(open) = self.shared.find_open(&key) {
            return Ok(Some(open));
        }
        Ok(self.shared.store.get(key).await?.map(|record| Lookup::Ended(Box::new(record))))
    }

    /// Accepts a payment once: of two concurrent calls the second finds the record of the first.
    ///
    /// # Errors
    /// A failure of the store; whether the payment was accepted is unknown.
    pub async fn accept(&self, record: Record) -> Result<Acceptance, StoreFault> {
        let key = record.key();
        match self.commit_one(Change::Accepted(Box::new(record))).await? {
            ChangeResult::Stored | ChangeResult::Merged(_) => {
                // The payment may have ended since it was accepted.
                let lookup = self.find(key).await?.ok_or_else(ledger_stopped_fault)?;
                Ok(Acceptance { lookup, new: true })
            }
            ChangeResult::Conflict(existing) => {
                let lookup = match self.shared.find_open(&key) {
                    Some(open) => open,
                    None if !existing.state.is_open() => Lookup::Ended(existing),
                    // The payment was open when the store found it, and has ended since.
                    None => self.find(key).await?.ok_or_else(ledger_stopped_fault)?,
                };
                Ok(Acceptance { lookup, new: false })
            }
        }
    }

    /// Puts queued payments, each identified by its digest, into a transaction; if one is no longer queued, returns
    /// `false` and stores nothing.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn assign(&self, batch: Batch, digests: Vec<B256>) -> Result<bool, StoreFault> {
        Ok(self.commit_one(Change::Batched { batch, digests }).await?.is_stored())
    }

    /// Stores a payment that another sender's transaction settled, and watches that transaction; if another record
    /// conflicts, returns that record and stores nothing.
    ///
    /// # Errors
    /// A failure of the store; whether anything was stored is unknown.
    pub async fn record_found(
        &self,
        record: Record,
        batch: Batch,
    ) -> Result<Option<Record>, StoreFault> {
        match self.commit_one(Change::FoundOnChain { record: Box::new(record), batch }).await? {
            ChangeResult::Conflict(existing) => Ok(Some(*existing)),
            ChangeResult::Stored | ChangeResult::Merged(_) => Ok(None),
        }
    }

    /// Moves a payment to another state if it is still in the state `from`, and returns whether it was moved.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn transition(
        &self,
        job: &Job,
        from: State,
        state: State,
        attempts: u8,
    ) -> Result<bool, StoreFault> {
        let (key, digest) = (job.work().key(), job.work().digest());
        let moved = Change::StateChanged { key, digest, from, state, attempts };
        Ok(self.commit_one(moved).await?.is_stored())
    }

    /// Stores that a transaction found on the chain is watched.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn watch(&self, batch: Batch) -> Result<(), StoreFault> {
        self.commit(vec![Change::Watched(batch)]).await.map(|_none| ())
    }

    /// Stores that `settlement_pending` is returned to a request; only its requester may later receive the success.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn record_pending_returned(
        &self,
        key: JobKey,
        origin: RequestOrigin,
    ) -> Result<(), StoreFault> {
        self.commit(vec![Change::PendingReturned { key, origin }]).await.map(|_none| ())
    }

    /// Stores that the success of a payment was written to the connection of a request.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn mark_answered(
        &self,
        key: JobKey,
        origin: RequestOrigin,
        at: Utc,
    ) -> Result<(), StoreFault> {
        self.commit(vec![Change::SuccessReturned { key, origin, at }]).await.map(|_none| ())
    }

    /// Stores the outcome of payments, each with its number of attempts.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn set_outcomes(&self, outcomes: Vec<(JobKey, State, u8)>) -> Result<(), StoreFault> {
        let change = |(key, state, attempts)| Change::OutcomeSet { key, state, attempts };
        self.commit(outcomes.into_iter().map(change).collect()).await.map(|_none| ())
    }

    /// Queues a settled payment again, or returns `false` if it is no longer settled.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn reopen(&self, record: Record) -> Result<bool, StoreFault> {
        Ok(self.commit_one(Change::Reopened(Box::new(record))).await?.is_stored())
    }

    /// Whether exactly this payment, by its digest, is queued.
    pub fn is_queued(&self, record: &Record) -> bool {
        let open = self.shared.open();
        open.by_key.get(&record.key()).is_some_and(|entry| entry.record.is_queued_as(record))
    }

    /// Closes a transaction that needs no further work, and stores its cost for each caller.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn close(&self, batch: &Batch, spent: Vec<GasSpent>) -> Result<(), StoreFault> {
        self.commit(vec![Change::Closed { batch: batch.id, spent }]).await.map(|_none| ())
    }

    /// The records of a batch's payments, including ended ones.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn records_of_batch(&self, batch: &Batch) -> Result<Vec<Record>, StoreFault> {
        self.shared.store.records_of_batch(batch.clone()).await
    }

    /// Number of payments that have not ended.
    pub fn open_count(&self) -> usize {
        self.shared.open().by_key.len()
    }

    /// Number of open payments that include a signed approval, counted by a visit of every open payment.
    pub fn approval_count(&self) -> usize {
        let open = self.shared.open();
        let has_approval = |entry: &&Entry| PaymentAmounts::of(&entry.record.job).has_approval;
        open.by_key.values().filter(has_approval).count()
    }

    /// Claims room for a payment and its gas, if `fits` accepts the usage that already counts.
    ///
    /// # Errors
    /// The error of `fits`; nothing is claimed.
    pub fn claim<E>(
        &self,
        job: &Job,
        (caller, reservation): (B256, GasReservation),
        now: Utc,
        fits: impl FnOnce(&Usage) -> Result<(), E>,
    ) -> Result<RoomClaim, E> {
        let work = job.work();
        let (key, payer, moves) = (work.key(), work.account(), work.moved_amount());
        let mut open = self.shared.open();
        let usage = open.usage_of_payer(&key, payer, moves.token);
        let gas = open.gas.usage_except(&key, work.chain(), caller, day_of(now));
        fits(&Usage { gas, ..usage })?;
        open.gas.reserve(key, work.chain(), caller, reservation);
        let claimed = open.claimed.entry(payer).or_default().entry(key);
        let claimed = claimed.or_insert(OpenClaim { amounts: PaymentAmounts::of(job), holders: 0 });
        claimed.holders = claimed.holders.saturating_add(1);
        Ok(RoomClaim { shared: Arc::clone(&self.shared), payer, key })
    }

    /// The gas that counts against a caller's next payment, for the caller and for all callers.
    pub fn gas_usage(&self, chain: ChainId, caller: B256, now: Utc) -> GasUsage {
        self.shared.open().gas.usage(chain, caller, day_of(now))
    }

    /// Number of open payments, and the acceptance time of the oldest one that is queued.
    pub fn backlog(&self) -> (usize, Option<Utc>) {
        let open = self.shared.open();
        let queued = open.by_key.values().filter(|entry| entry.record.state == State::Queued);
        (open.by_key.len(), queued.map(|entry| entry.record.accepted_at).min())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<ChangeResult>, StoreFault> {
        let (done, answer) = oneshot::channel();
        let sent = self.commands.send(Command { changes, done }).await;
        sent.map_err(|_gone| ledger_stopped_fault())?;
        answer.await.map_err(|_gone| ledger_stopped_fault())?
    }

    /// Commits one change that has a result: see [`Change::is_conditional`].
    async fn commit_one(&self, change: Change) -> Result<ChangeResult, StoreFault> {
        let results = self.commit(vec![change]).await?;
        results.into_iter().next().ok_or_else(ledger_stopped_fault)
    }
}

/// The UTC day on which gas is counted, in days since 1970.
pub fn day_of(now: Utc) -> i64 {
    now.seconds().div_euclid(86_400)
}

fn ledger_stopped_fault() -> StoreFault {
    StoreError::Bug("the ledger has stopped".to_owned()).into()
}

async fn run_writer(shared: Arc<Shared>, mut queue: mpsc::Receiver<Command>) {
    while let Some(first) = queue.recv().await {
        let mut commands = vec![first];
        while commands.len() < COMMIT_COMMANDS_MAX
            && let Ok(next) = queue.try_recv()
        {
            commands.push(next);
        }
        let all: Vec<Change> =
            commands.iter().flat_map(|command| command.changes.iter().cloned()).collect();
        match shared.store.commit(all).await {
            Ok(answers) => {
                shared.commits.fetch_add(1, Ordering::Relaxed);
                let mut answers = answers.into_iter();
                for command in commands {
                    let count = command.changes.iter().filter(|one| one.is_conditional()).count();
                    let own: Vec<_> = answers.by_ref().take(count).collect();
                    shared.apply(&command.changes, &own);
                    // The caller may have left. It finds the result by its next lookup.
                    let _gone = command.done.send(Ok(own));
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "payments could not be stored");
                for command in commands {
                    let _gone = command.done.send(Err(fault.clone()));
                }
            }
        }
    }
}

impl Shared {
    /// Applies changes to memory after their commit.
    fn apply(&self, changes: &[Change], outcomes: &[ChangeResult]) {
        let mut open = self.open();
        let mut outcomes = outcomes.iter();
        for change in changes {
            match change {
                Change::Accepted(record) | Change::Reopened(record) => {
                    let kept = match outcomes.next() {
                        Some(ChangeResult::Stored) => record,
                        Some(ChangeResult::Merged(kept)) => kept,
                        Some(ChangeResult::Conflict(_)) | None => continue,
                    };
                    if kept.state.is_open() {
                        open.insert(kept);
                    }
                }
                // The payment is already settled, so memory has no entry for it.
                Change::FoundOnChain { .. } => {
                    let _outcome = outcomes.next();
                }
                Change::PendingReturned { key, origin } => {
                    if let Some(entry) = open.by_key.get_mut(key)
                        && entry.record.may_return_success_to(origin)
                    {
                        let record = Arc::make_mut(&mut entry.record);
                        (record.origin, record.pending_returned) = (*origin, true);
                    }
                }
                Change::SuccessReturned { key, origin, at } => {
                    if let Some(entry) = open.by_key.get_mut(key) {
                        let record = Arc::make_mut(&mut entry.record);
                        (record.origin, record.success_returned_at) = (*origin, Some(*at));
                    }
                }
                Change::Batched { batch, .. } => {
                    if !outcomes.next().is_some_and(ChangeResult::is_stored) {
                        continue;
                    }
                    for key in &batch.jobs {
                        open.gas.assign(*key, Some(batch.id));
                        if let Some(entry) = open.by_key.get_mut(key) {
                            let sent = State::Sent { batch: batch.id };
                            Arc::make_mut(&mut entry.record).state = sent;
                        }
                    }
                }
                Change::StateChanged { key, state, attempts, .. } => {
                    if outcomes.next().is_some_and(ChangeResult::is_stored) {
                        open.apply_state(key, state, *attempts);
                    }
                }
                Change::OutcomeSet { key, state, attempts } => {
                    open.apply_state(key, state, *attempts)
                }
                Change::Closed { batch, spent } => open.gas.close(*batch, spent),
                Change::Watched(_) => {}
            }
        }
    }
}
