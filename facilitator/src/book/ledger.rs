//! The only writer of payments. Pending changes share a commit, and waiters are notified only after it is on disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_desks::store::StoreFault;
use bursar_submit::SubmissionId;
use tokio::sync::{mpsc, oneshot, watch};

use crate::book::aside::Aside;
use crate::book::batch::Batch;
use crate::book::gas::{GasBook, GasOwed};
use crate::book::record::{AskedBy, Record, State};
use crate::book::store::{Change, Open, Outcome, Payments, Spent};
use crate::payment::{Payment, PaymentKey};

/// Maximum number of commands per commit.
const TOGETHER_MAX: usize = 256;
/// Capacity of the command queue.
const WAITING_MAX: usize = 8192;

/// The progress of a payment, for tasks that wait for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Not ended.
    Open,
    /// Ended, and on disk in this state.
    Ended(State),
}

/// A payment found in the ledger.
#[derive(Debug, Clone)]
pub enum Known {
    /// Not ended, with a receiver of its progress.
    Open(Arc<Record>, watch::Receiver<Progress>),
    /// Ended, as stored.
    Ended(Box<Record>),
}

impl Known {
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
pub struct Taken {
    pub known: Known,
    /// Whether this call accepted it.
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
    done: oneshot::Sender<Result<Vec<Outcome>, StoreFault>>,
}

/// All payments of a facilitator. Clones share them.
#[derive(Debug, Clone)]
pub struct Ledger {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Payments>,
    // Held for a single lookup.
    open: Mutex<OpenPayments>,
}

/// Payments that have not ended, and claims on room for new ones.
#[derive(Default)]
struct OpenPayments {
    by_key: HashMap<PaymentKey, Entry>,
    by_payer: HashMap<Address, BTreeSet<PaymentKey>>,
    /// Payments that are about to be accepted, by payer.
    claimed: HashMap<Address, BTreeMap<PaymentKey, Claimed>>,
    gas: GasBook,
}

/// What already counts against a new payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Open and claimed payments of the same payer.
    pub count: usize,
    /// Their sum in the token of the new payment, in its smallest unit.
    pub amount: U256,
    pub gas: GasOwed,
}

#[derive(Clone, Copy)]
struct Claimed {
    token: Address,
    amount: U256,
    /// Number of requests that hold a claim for this payment.
    askers: usize,
}

/// Room for a payment between its check and its acceptance. Concurrent requests count it too. Dropping it releases the
/// room, and the gas too unless the payment was accepted.
#[derive(Debug)]
pub struct Claim {
    shared: Arc<Shared>,
    payer: Address,
    key: PaymentKey,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        let Some(claimed) = open.claimed.get_mut(&self.payer) else { return };
        if let Some(one) = claimed.get_mut(&self.key) {
            one.askers = one.askers.saturating_sub(1);
        }
        claimed.retain(|_key, one| one.askers > 0);
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
    /// Count of a payer's open and claimed payments except `but`, and their sum in a token.
    fn owed(&self, but: &PaymentKey, payer: Address, token: Address) -> (usize, U256) {
        let mut all = BTreeMap::new();
        for key in self.by_payer.get(&payer).into_iter().flatten() {
            if let Some(entry) = self.by_key.get(key) {
                let terms = &entry.record.payment.terms;
                all.insert(*key, (terms.token, terms.amount));
            }
        }
        for (key, claimed) in self.claimed.get(&payer).into_iter().flatten() {
            all.insert(*key, (claimed.token, claimed.amount));
        }
        all.remove(but);
        let of_token = all.values().filter(|(of, _amount)| *of == token);
        let sum = of_token.fold(U256::ZERO, |sum, (_token, amount)| sum.saturating_add(*amount));
        (all.len(), sum)
    }

    fn insert(&mut self, record: &Record) {
        let key = record.payment.key();
        self.gas.hold(key, record.payment.chain, record.gas_of, record.aside());
        if let State::Sent { batch } = record.state {
            self.gas.batched(key, Some(batch));
        }
        self.by_payer.entry(record.payment.terms.payer).or_default().insert(key);
        self.by_key.insert(key, Entry::of(record));
    }

    fn insert_ended(&mut self, record: &Record, batch: SubmissionId) {
        let key = record.payment.key();
        self.gas.hold(key, record.payment.chain, record.gas_of, record.aside());
        self.gas.batched(key, Some(batch));
        self.gas.ended(&key, matches!(record.state, State::Settled { .. }));
    }

    fn judged(&mut self, key: &PaymentKey, state: &State, attempts: u8) {
        if !state.is_open() {
            let settled = matches!(state, State::Settled { .. });
            if let Some(entry) = self.remove(key, settled) {
                entry.progress.send_replace(Progress::Ended(state.clone()));
            }
            return;
        }
        if *state == State::Queued {
            self.gas.batched(*key, None);
        }
        if let Some(entry) = self.by_key.get_mut(key) {
            let record = Arc::make_mut(&mut entry.record);
            record.state = state.clone();
            record.attempts = attempts;
        }
    }

    fn remove(&mut self, key: &PaymentKey, settled: bool) -> Option<Entry> {
        let entry = self.by_key.remove(key)?;
        self.gas.ended(key, settled);
        let payer = entry.record.payment.terms.payer;
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

    fn find_open(&self, key: &PaymentKey) -> Option<Known> {
        let open = self.open();
        let entry = open.by_key.get(key)?;
        Some(Known::Open(Arc::clone(&entry.record), entry.progress.subscribe()))
    }
}

impl Ledger {
    /// Reads the open payments from the store and starts the writer.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn load(store: Arc<dyn Payments>, now: Utc) -> Result<(Self, Open), StoreFault> {
        let all = store.open().await?;
        let mut open = OpenPayments::default();
        for one in store.spent_on(day_of(now)).await? {
            open.gas.paid(&one);
        }
        all.records.iter().for_each(|record| open.insert(record));
        // Payments that ended in a transaction that is not closed yet still hold their gas.
        for batch in all.batches.iter().filter(|batch| batch.found.is_none()) {
            let ended = store.of_batch(batch.clone()).await?;
            for record in ended.iter().filter(|record| !record.state.is_open()) {
                open.insert_ended(record, batch.id);
            }
        }
        let shared = Arc::new(Shared { store, open: Mutex::new(open) });
        let (commands, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(write(Arc::clone(&shared), waiting));
        Ok((Self { commands, shared }, all))
    }

    /// Looks up a payment, open or ended.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn find(&self, key: PaymentKey) -> Result<Option<Known>, StoreFault> {
        if let Some(open) = self.shared.find_open(&key) {
            return Ok(Some(open));
        }
        Ok(self.shared.store.get(key).await?.map(|record| Known::Ended(Box::new(record))))
    }

    /// Accepts a payment once: of two concurrent calls the second finds the record of the first.
    ///
    /// # Errors
    /// A failure of the store; the payment was not accepted.
    pub async fn accept(&self, record: Record) -> Result<Taken, StoreFault> {
        let key = record.payment.key();
        let answers = self.commit(vec![Change::Accepted(Box::new(record))]).await?;
        match answers.into_iter().next().ok_or_else(lost)? {
            Outcome::Kept | Outcome::KeptAs(_) => {
                let known = self.shared.find_open(&key);
                let known = match known {
                    Some(known) => known,
                    // It has already ended.
                    None => self.find(key).await?.ok_or_else(lost)?,
                };
                Ok(Taken { known, new: true })
            }
            Outcome::InTheWay(stands) => {
                let known = match self.shared.find_open(&key) {
                    Some(open) => open,
                    // It was open when the store found it, and has ended since.
                    None if stands.state.is_open() => self.find(key).await?.ok_or_else(lost)?,
                    None => Known::Ended(stands),
                };
                Ok(Taken { known, new: false })
            }
        }
    }

    /// Puts queued payments into a transaction, each identified by its digest. Returns `false`, and stores nothing, if
    /// one of them is no longer queued.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn batched(&self, batch: Batch, digests: Vec<B256>) -> Result<bool, StoreFault> {
        let answers = self.commit(vec![Change::Batched { batch, digests }]).await?;
        Ok(answers.iter().all(Outcome::is_kept))
    }

    /// Stores a payment that another sender's transaction settled, and that this transaction is watched. Returns the
    /// record that is in its way, if there is one; nothing is stored then.
    ///
    /// # Errors
    /// A failure of the store; nothing was stored.
    pub async fn found(&self, record: Record, batch: Batch) -> Result<Option<Record>, StoreFault> {
        let change = Change::Found { record: Box::new(record), batch };
        match self.commit(vec![change]).await?.into_iter().next().ok_or_else(lost)? {
            Outcome::InTheWay(stands) => Ok(Some(*stands)),
            Outcome::Kept | Outcome::KeptAs(_) => Ok(None),
        }
    }

    /// Moves a payment to another state if it is still in the state `from`. Returns whether it was.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn moved(
        &self,
        payment: &Payment,
        from: State,
        state: State,
        attempts: u8,
    ) -> Result<bool, StoreFault> {
        let (key, digest) = (payment.key(), payment.digest);
        let moved = Change::Moved { key, digest, from, state, attempts };
        let answers = self.commit(vec![moved]).await?;
        Ok(answers.iter().all(Outcome::is_kept))
    }

    /// Stores that another sender's transaction is watched.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn watched(&self, batch: Batch) -> Result<(), StoreFault> {
        self.commit(vec![Change::Watched(batch)]).await.map(|_none| ())
    }

    /// Stores that the success of a payment was written to the connection of a request.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn answered(&self, key: PaymentKey, by: AskedBy, at: Utc) -> Result<(), StoreFault> {
        self.commit(vec![Change::Answered { key, by, at }]).await.map(|_none| ())
    }

    /// Stores the outcome of payments, each with its number of attempts.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn judged(&self, judged: Vec<(PaymentKey, State, u8)>) -> Result<(), StoreFault> {
        let change = |(key, state, attempts)| Change::Judged { key, state, attempts };
        self.commit(judged.into_iter().map(change).collect()).await.map(|_none| ())
    }

    /// Queues a settled payment again. Returns `false` if it is no longer settled.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn reopened(&self, record: Record) -> Result<bool, StoreFault> {
        let answers = self.commit(vec![Change::Reopened(Box::new(record))]).await?;
        Ok(answers.iter().all(Outcome::is_kept))
    }

    /// Whether exactly this payment, by its digest, is queued.
    pub fn is_queued(&self, record: &Record) -> bool {
        let open = self.shared.open();
        open.by_key.get(&record.payment.key()).is_some_and(|entry| entry.record.waits_as(record))
    }

    /// Closes a transaction that needs no further work, and stores what it cost each caller.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn closed(&self, batch: &Batch, spent: Vec<Spent>) -> Result<(), StoreFault> {
        self.commit(vec![Change::Closed { batch: batch.id, spent }]).await.map(|_none| ())
    }

    /// The records of a batch's payments, including ended ones.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn of_batch(&self, batch: &Batch) -> Result<Vec<Record>, StoreFault> {
        self.shared.store.of_batch(batch.clone()).await
    }

    /// Number of payments that have not ended.
    pub fn open_count(&self) -> usize {
        self.shared.open().by_key.len()
    }

    /// Claims room for a payment and its gas, if `fits` accepts it next to what already counts against it.
    ///
    /// # Errors
    /// The error of `fits`; nothing is claimed.
    pub fn claim<E>(
        &self,
        payment: &Payment,
        (caller, aside): (B256, Aside),
        now: Utc,
        fits: impl FnOnce(&Owed) -> Result<(), E>,
    ) -> Result<Claim, E> {
        let (key, terms) = (payment.key(), &payment.terms);
        let mut open = self.shared.open();
        let (count, amount) = open.owed(&key, terms.payer, terms.token);
        let gas_owed = open.gas.owed_but(&key, payment.chain, caller, day_of(now));
        fits(&Owed { count, amount, gas: gas_owed })?;
        open.gas.hold(key, payment.chain, caller, aside);
        let claimed = open.claimed.entry(terms.payer).or_default().entry(key);
        let claimed =
            claimed.or_insert(Claimed { token: terms.token, amount: terms.amount, askers: 0 });
        claimed.askers = claimed.askers.saturating_add(1);
        Ok(Claim { shared: Arc::clone(&self.shared), payer: terms.payer, key })
    }

    /// What counts against the gas of a caller's next payment, and of all callers together.
    pub fn gas_owed(&self, chain: ChainId, caller: B256, now: Utc) -> GasOwed {
        self.shared.open().gas.owed(chain, caller, day_of(now))
    }

    /// Number of open payments, and the acceptance time of the oldest one that is queued.
    pub fn waiting(&self) -> (usize, Option<Utc>) {
        let open = self.shared.open();
        let queued = open.by_key.values().filter(|entry| entry.record.state == State::Queued);
        (open.by_key.len(), queued.map(|entry| entry.record.accepted_at).min())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, StoreFault> {
        let (done, answer) = oneshot::channel();
        self.commands.send(Command { changes, done }).await.map_err(|_gone| lost())?;
        answer.await.map_err(|_gone| lost())?
    }
}

/// The UTC day on which gas is counted, in days since 1970.
pub fn day_of(now: Utc) -> i64 {
    now.seconds().div_euclid(86_400)
}

fn lost() -> StoreFault {
    StoreFault::Failed("the ledger has ended".to_owned())
}

async fn write(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Command>) {
    while let Some(first) = waiting.recv().await {
        let mut together = vec![first];
        while together.len() < TOGETHER_MAX
            && let Ok(next) = waiting.try_recv()
        {
            together.push(next);
        }
        let all: Vec<Change> =
            together.iter().flat_map(|command| command.changes.iter().cloned()).collect();
        match shared.store.commit(all).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for command in together {
                    let conditional = |change: &&Change| change.is_conditional();
                    let count = command.changes.iter().filter(conditional).count();
                    let own: Vec<_> = answers.by_ref().take(count).collect();
                    shared.apply(&command.changes, &own);
                    // The caller may have gone; it finds the result later.
                    let _gone = command.done.send(Ok(own));
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "payments could not be stored");
                for command in together {
                    let _gone = command.done.send(Err(fault.clone()));
                }
            }
        }
    }
}

impl Shared {
    /// Applies changes to memory after their commit.
    fn apply(&self, changes: &[Change], outcomes: &[Outcome]) {
        let mut open = self.open();
        let mut outcomes = outcomes.iter();
        for change in changes {
            match change {
                Change::Accepted(record) | Change::Reopened(record) => {
                    let kept = match outcomes.next() {
                        Some(Outcome::Kept) => record,
                        Some(Outcome::KeptAs(kept)) => kept,
                        Some(Outcome::InTheWay(_)) | None => continue,
                    };
                    if kept.state.is_open() {
                        open.insert(kept);
                    }
                }
                // It is settled already, so it is not open.
                Change::Found { .. } => {
                    let _outcome = outcomes.next();
                }
                Change::Answered { key, by, at } => {
                    if let Some(entry) = open.by_key.get_mut(key) {
                        let record = Arc::make_mut(&mut entry.record);
                        (record.asked, record.answered) = (*by, Some(*at));
                    }
                }
                Change::Batched { batch, .. } => {
                    if !outcomes.next().is_some_and(Outcome::is_kept) {
                        continue;
                    }
                    for key in &batch.payments {
                        open.gas.batched(*key, Some(batch.id));
                        if let Some(entry) = open.by_key.get_mut(key) {
                            let sent = State::Sent { batch: batch.id };
                            Arc::make_mut(&mut entry.record).state = sent;
                        }
                    }
                }
                Change::Moved { key, state, attempts, .. } => {
                    if outcomes.next().is_some_and(Outcome::is_kept) {
                        open.judged(key, state, *attempts);
                    }
                }
                Change::Judged { key, state, attempts } => open.judged(key, state, *attempts),
                Change::Closed { batch, spent } => open.gas.closed(*batch, spent),
                Change::Watched(_) => {}
            }
        }
    }
}
