//! Follows one transaction to its end. Its outbox sends it, and the events of the mined transaction show which
//! payments moved money. The other payments are queued again or ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{B256, U256};
use bursar_chain::ports::{ChainFault, Receipt};
use bursar_core::time::Utc;
use bursar_outbox::service::{ServiceOutbox, SubmitFault};
use bursar_outbox::store::StoreFault;
use bursar_submit::{ChainState, Included, Outbox, Outcome, Refusal, Submission, Trouble};

use crate::book::batch::Batch;
use crate::book::ledger::day_of;
use crate::book::record::{ATTEMPTS_MAX, Record, State};
use crate::book::redb_store::fresh_id;
use crate::book::reservation::GasReservation;
use crate::book::store::GasSpent;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::reason::{Reason, Rejection};
use crate::schemes;
use crate::settle::foreign_nonce::{self, OwnTransaction};
use crate::settle::price::SignerNeed;
use crate::settle::settlement_search::{self, FoundSettlement};
use crate::settle::settler::Settler;
use crate::settle::submission_lock::SubmissionLock;
use crate::transaction;
use crate::transfer::approval::AllowanceRule;
use crate::verify::VerifyError;

/// Delay before a failed request to a node or the disk is repeated, in milliseconds.
const RETRY_PAUSE_MS: u64 = 1_000;

/// Interval for checking an idle outbox, or a payment that only the chain can decide, in milliseconds.
const IDLE_CHECK_INTERVAL_MS: u64 = 5_000;

/// How long a transaction that nodes reject is retried before it is given up, in milliseconds.
const REJECTED_RETRY_MS_MAX: u64 = 20_000;

/// Maximum number of requests for the receipt of a mined transaction, one per [`RETRY_PAUSE_MS`].
const RECEIPT_TRIES_MAX: usize = 60;

/// Maximum number of retries after a node denies a settlement. The next denial counts as a reorganisation.
const DENIALS_MAX: u8 = 3;

/// Broadcasts end this many seconds before the first expiry among the payments, because a block takes time.
const BROADCAST_MARGIN_SECONDS: u64 = 2;

/// Age in milliseconds at which an undecided payment is resolved even if it has not expired.
const UNDECIDED_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// Age in milliseconds after which a job that never expires is not retried.
const UNEXPIRING_RETRY_MS_MAX: i64 = 10 * 60 * 1_000;

impl Settler {
    /// Watches a settlement that was found on the chain.
    pub(super) fn watch_settlement(self: &Arc<Self>, batch: Batch) {
        self.tasks.spawn(follow_transaction(Arc::clone(self), batch));
    }

    /// Upper bound in wei of the cost of a transaction whose receipt cannot be read. `None` before the first price
    /// lookup, or on overflow.
    fn max_cost(&self, reservation: GasReservation) -> Option<U256> {
        self.prices.last()?.cost(reservation)
    }
}

/// Follows a transaction to its end, including one that an earlier process sent.
pub(super) async fn follow_transaction(settler: Arc<Settler>, batch: Batch) {
    let reservation = batch.reservation();
    follow_with_reservation(settler, batch, reservation).await;
}

/// Follows a transaction. Its gas and data already count as in flight with this `reservation`.
pub(super) async fn follow_with_reservation(
    settler: Arc<Settler>,
    batch: Batch,
    reservation: GasReservation,
) {
    let stopping = settler.stopping.clone();
    let is_held = batch.found_transaction.is_none();
    let mut guard =
        InFlightGuard { settler: Arc::clone(&settler), batch: &batch, reservation, is_held };
    // cancel-safe: the progress is on disk, and the next start resumes from there.
    tokio::select! {
        () = stopping.cancelled() => {}
        () = follow_to_end(&settler, &batch, &mut guard) => {}
    }
    settler.submission_locks.remove(batch.id);
}

/// Counts a transaction as in flight for its signer until it is released or dropped.
struct InFlightGuard<'a> {
    settler: Arc<Settler>,
    batch: &'a Batch,
    reservation: GasReservation,
    is_held: bool,
}

impl InFlightGuard<'_> {
    fn release(&mut self) {
        if std::mem::take(&mut self.is_held) {
            self.settler.release(self.batch.signer, self.reservation);
        }
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy)]
struct TransactionEnd {
    outcome: Outcome,
    /// Whether the transaction was given up because gas cost too much.
    too_expensive: bool,
}

impl From<Outcome> for TransactionEnd {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, too_expensive: false }
    }
}

async fn follow_to_end(settler: &Arc<Settler>, batch: &Batch, guard: &mut InFlightGuard<'_>) {
    let spent = match (batch.found_transaction, settler.signer_slots.get(&batch.signer)) {
        (Some(_hash), _any_signer) => {
            watch_until_final(settler, batch).await;
            Vec::new()
        }
        (None, Some(slot)) => send_and_finish(settler, batch, &slot.outbox, guard).await,
        (None, None) => {
            tracing::error!(
                signer = %batch.signer, chain = %batch.chain,
                "the signer of a transaction in flight was removed from the settings: its payments are decided by \
                 the chain and by their expiry"
            );
            guard.release();
            settler.add_former_signer(batch.signer);
            wait_for_chain_or_expiry(settler, batch).await;
            Vec::new()
        }
    };
    settler.failpoints.pass("settle.before close");
    persist(settler, || settler.ledger.close(batch, spent.clone())).await;
    settler.failpoints.pass("settle.after close");
}

/// Sends our own transaction and settles or ends its payments. Returns the gas spent for each caller.
async fn send_and_finish(
    settler: &Arc<Settler>,
    batch: &Batch,
    outbox: &Arc<ServiceOutbox>,
    guard: &mut InFlightGuard<'_>,
) -> Vec<GasSpent> {
    let lock = settler.submission_locks.register(batch.id, batch.signer);
    let end = match submit(settler, batch, outbox, &lock).await {
        Some(outcome) => outcome.into(),
        None => wait_for_end(settler, batch, outbox, guard).await,
    };
    guard.release();
    finish(settler, batch, end).await
}

/// Hands a transaction to its outbox. Returns `None` once the outbox has accepted it. If the transaction has ended or
/// cannot be sent, returns its outcome.
async fn submit(
    settler: &Settler,
    batch: &Batch,
    outbox: &Arc<ServiceOutbox>,
    lock: &SubmissionLock,
) -> Option<Outcome> {
    loop {
        // While a transaction is submitted, none of its payments can be withdrawn.
        let locked = lock.answers.lock().await;
        if outbox.outbox().open.contains_key(&batch.id) {
            return None;
        }
        if let Some(outcome) = persist(settler, || outbox.outcome(batch.id)).await {
            return Some(outcome);
        }
        let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
        let is_in_batch = |record: &Record| record.state == State::Sent { batch: batch.id };
        if records.len() != batch.jobs.len() || !records.iter().all(is_in_batch) {
            // A payment was withdrawn before submission. The remaining payments join another transaction.
            return Some(Outcome::Dropped);
        }
        let jobs: Vec<_> = records.iter().map(|record| &record.job).collect();
        let call = transaction::call(&settler.network.contracts, &jobs, batch.gas_limit);
        let ceiling = settler.network.config.max_gas_price;
        match outbox.submit(batch.id, call, ceiling, broadcast_deadline(&jobs)).await {
            Ok(()) => {
                settler.failpoints.pass("settle.after submit");
                return None;
            }
            Err(SubmitFault::Store(StoreFault::Ended(outcome))) => return Some(outcome),
            Err(SubmitFault::Refused(Refusal::Expired)) => return Some(Outcome::Dropped),
            // The outbox already has another call for this batch, for example from another version of this program, and
            // keeps it.
            Err(SubmitFault::Refused(Refusal::OtherCall)) => return None,
            Err(fault) => {
                tracing::warn!(%fault, "the outbox did not accept a transaction; retrying");
                drop(locked);
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
}

/// When broadcasts of a transaction with these jobs must end. `None` if none expires, or the time cannot be
/// represented.
fn broadcast_deadline(jobs: &[&Job]) -> Option<Utc> {
    let first = jobs.iter().filter_map(|job| job.work().expires()).min()?;
    let seconds = i64::try_from(first.saturating_sub(U256::from(BROADCAST_MARGIN_SECONDS))).ok()?;
    Some(Utc::from_seconds(seconds)).filter(|until| until.0 < i64::MAX)
}

/// Watches the outbox until the transaction has ended.
async fn wait_for_end(
    settler: &Arc<Settler>,
    batch: &Batch,
    outbox: &Arc<ServiceOutbox>,
    guard: &mut InFlightGuard<'_>,
) -> TransactionEnd {
    let mut handled: Option<Included> = None;
    let mut rejected_since: Option<u64> = None;
    let mut too_expensive = false;
    let mut nonce_watch = NonceWatch::default();
    let clock = &settler.network.clock;
    loop {
        let now = outbox.outbox();
        let Some(submission) = now.open.get(&batch.id) else {
            let outcome = persist(settler, || outbox.outcome(batch.id)).await;
            let outcome = outcome.unwrap_or(Outcome::Dropped);
            nonce_watch.finish(settler, outcome);
            return TransactionEnd { outcome, too_expensive };
        };
        nonce_watch.observe(settler, batch, submission);
        let is_too_expensive = submission.trouble == Some(Trouble::TooExpensive);
        if submission.nonce.is_none() && is_too_expensive && !submission.cancel {
            // Nothing was signed, so the payments will not be made. The callers receive this reason.
            too_expensive = outbox.cancel(batch.id).await.is_ok();
        }
        // A transaction that no node accepts blocks every higher nonce, and funding the signer does not help.
        let is_rejected = submission.trouble == Some(Trouble::Refused)
            && submission.chain_state == ChainState::Pending;
        rejected_since = rejected_since.filter(|_since| is_rejected);
        if is_rejected {
            let since = *rejected_since.get_or_insert(clock.mono_ms());
            let rejected_ms = clock.mono_ms().saturating_sub(since);
            if rejected_ms >= REJECTED_RETRY_MS_MAX && !submission.cancel {
                tracing::warn!(chain = %batch.chain, "giving up a transaction that no node accepts");
                let _late_or_over = outbox.cancel(batch.id).await;
            }
        }
        if let Some((included, hash)) = included(&now, batch)
            && handled != Some(included)
        {
            match store_proven(settler, batch, hash).await {
                Ok(effects) => {
                    if handled.is_some_and(|earlier| earlier.block_hash != included.block_hash) {
                        report_moved(settler, hash, effects.proven.len());
                    }
                    handled = Some(included);
                    // Release only after `store_proven`, which deducts the cost from the signer's cached balance.
                    guard.release();
                }
                Err(fault) => {
                    tracing::debug!(%fault, "a receipt could not be read");
                    settler.pause(RETRY_PAUSE_MS).await;
                    continue;
                }
            }
        }
        let wake = clock.mono_ms().saturating_add(IDLE_CHECK_INTERVAL_MS);
        // cancel-safe: both branches only wait.
        tokio::select! {
            () = outbox.changed_since(&now) => {}
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// Notices transactions that other programs sent with the key that signed ours: see [`foreign_nonce`].
#[derive(Debug, Default)]
struct NonceWatch {
    /// Our transaction, once it is signed.
    own: Option<OwnTransaction>,
    is_missed: bool,
}

impl NonceWatch {
    fn observe(&mut self, settler: &Arc<Settler>, batch: &Batch, submission: &Submission) {
        let newest = submission.newest().map(|(_index, _attempt, raw)| raw.hash);
        let (Some(nonce), Some(hash)) = (submission.nonce, newest) else { return };
        let own = OwnTransaction { signer: batch.signer, nonce, hash };
        if self.own.replace(own).is_none() {
            settler.tasks.spawn(foreign_nonce::report_nonce_gap(Arc::clone(settler), own));
        }
        let is_missed = matches!(submission.chain_state, ChainState::Missed { .. });
        if is_missed && !std::mem::replace(&mut self.is_missed, is_missed) {
            settler.tasks.spawn(foreign_nonce::report_if_shown(Arc::clone(settler), own));
        }
    }

    fn finish(&self, settler: &Arc<Settler>, outcome: Outcome) {
        if let (Some(own), Outcome::NonceTaken) = (self.own, outcome) {
            settler.tasks.spawn(foreign_nonce::report_displaced(Arc::clone(settler), own));
        }
    }
}

/// Reports settled payments whose block a reorganisation removed, and which another block contains again.
fn report_moved(settler: &Settler, hash: B256, payments: usize) {
    let network = settler.network.table_row();
    for _payment in 0..payments {
        settler.metrics.count_reorganised(network);
    }
    tracing::warn!(
        network = %network.caip2(), %hash, payments,
        "a reorganisation removed the block of settled payments: another block contains them again"
    );
}

/// Returns the block that now includes the transaction of a batch, and the hash of that transaction. `None` if the
/// transaction is in no block or has reverted.
fn included(outbox: &Outbox, batch: &Batch) -> Option<(Included, B256)> {
    let submission = outbox.open.get(&batch.id)?;
    let ChainState::Included(included) = submission.chain_state else { return None };
    let attempt = submission.attempts.get(included.attempt)?;
    included.ok.then_some((included, attempt.raw.as_ref()?.hash))
}

/// The effects of a mined transaction.
#[derive(Debug, Default)]
struct Effects {
    proven: BTreeSet<JobKey>,
    fee: Option<U256>,
}

/// Stores payments that moved money in our own mined transaction as settled. Leaves the other payments undecided,
/// because the block may not be final.
async fn store_proven(settler: &Settler, batch: &Batch, hash: B256) -> Result<Effects, ChainFault> {
    let receipt = receipt(settler, hash).await?;
    // The cached newest block is older than this transaction.
    settler.network.head.forget();
    Ok(store_effects(settler, batch, &receipt).await)
}

/// Stores payments that moved money according to this receipt of our own transaction as settled.
async fn store_effects(settler: &Settler, batch: &Batch, receipt: &Receipt) -> Effects {
    let hash = receipt.tx_hash;
    let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
    let jobs: Vec<_> = records.iter().map(|record| &record.job).collect();
    let call = transaction::call(&settler.network.contracts, &jobs, batch.gas_limit);
    let mined = MinedTransaction {
        sent_by_us: true,
        to: Some(call.to),
        input: &call.data,
        logs: &receipt.logs,
    };
    let at = settler.network.clock.utc();
    let mut outcomes: Vec<(JobKey, State, u8)> = Vec::new();
    let mut effects = Effects { fee: receipt.fee(), ..Effects::default() };
    for record in &records {
        let work = record.job.work();
        let Some(effect) = work.effect(&settler.network.contracts, &mined) else { continue };
        effects.proven.insert(work.key());
        if work.deployment().is_some() {
            settler.network.code_cache.remove(&work.account());
        }
        if matches!(record.state, State::Failed { .. }) {
            // No node reported the transaction when the answer was due, but a node had it.
            settler.metrics.count_charged_after_refusal(settler.network.table_row());
            tracing::error!(%hash, account = %work.account(), "a withdrawn payment was settled after all");
        }
        let settled = State::Settled { hash, block: receipt.block_number, at, effect };
        if !same_settlement(&record.state, &settled) {
            outcomes.push((work.key(), settled, record.attempts));
        }
    }
    if !outcomes.is_empty() {
        // Debits the cost before the reserved gas is released, so that spent coin never counts as available.
        settler.prices.debit(batch.signer, receipt.fee().unwrap_or_default());
        settler.failpoints.pass("settle.before verdict");
        persist(settler, || settler.ledger.set_outcomes(outcomes.clone())).await;
        settler.failpoints.pass("settle.after verdict");
    }
    effects
}

/// Reads the receipt of a mined transaction, so a missing receipt is an error.
async fn receipt(settler: &Settler, hash: B256) -> Result<Receipt, ChainFault> {
    let receipt = settler.network.chain.receipt(hash).await?;
    // A missing receipt means that the queried node does not know the block yet.
    receipt.ok_or(ChainFault::Unavailable { tried: Vec::new() })
}

fn same_settlement(one: &State, other: &State) -> bool {
    let State::Settled { hash, block, .. } = one else { return false };
    matches!(other, State::Settled { hash: same, block: at, .. } if same == hash && at == block)
}

/// Why a transaction did not carry out a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotCarriedOut {
    /// Gas cost too much, and nothing was sent.
    TooExpensive,
    /// The transaction was never in a block.
    NeverMined,
    /// The transaction was in a block, and the payment failed there.
    FailedInBlock,
}

/// Settles, fails or requeues the payments of a transaction that has ended. Returns the gas spent for each caller.
async fn finish(settler: &Arc<Settler>, batch: &Batch, end: TransactionEnd) -> Vec<GasSpent> {
    let mut cancelled = None;
    let (mut effects, failure) = match end.outcome {
        Outcome::Succeeded { hash, .. } | Outcome::Reverted { hash, .. } => {
            (final_effects(settler, batch, hash).await, NotCarriedOut::FailedInBlock)
        }
        Outcome::Cancelled { hash, .. } => {
            cancelled = Some(hash);
            (Effects::default(), NotCarriedOut::NeverMined)
        }
        Outcome::Dropped if end.too_expensive => (Effects::default(), NotCarriedOut::TooExpensive),
        Outcome::Dropped => (Effects::default(), NotCarriedOut::NeverMined),
        Outcome::NonceTaken => {
            wait_for_chain_or_expiry(settler, batch).await;
            return Vec::new();
        }
    };
    let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
    mark_withdrawn(settler, &records, failure).await;
    // Runs concurrently, so that one undecided payment does not delay the others.
    let each = records.iter().map(|record| async {
        if !is_resolved(settler, batch, record, &effects.proven).await {
            resolve(settler, record, failure).await;
        }
    });
    futures::future::join_all(each).await;
    // Read the fee last, because no caller waits for it.
    if let Some(hash) = cancelled {
        effects.fee = fee_of(settler, hash).await;
    }
    if effects.proven.is_empty() {
        settler.prices.debit(batch.signer, effects.fee.unwrap_or_default());
    }
    spent_by_caller(settler, &records, effects.fee)
}

/// Marks payments of unknown outcome as withdrawn. Their transaction has ended without moving their money.
async fn mark_withdrawn(settler: &Settler, records: &[Record], failure: NotCarriedOut) {
    for record in records {
        let State::Failed { reason: Reason::UnexpectedSettle, at, .. } = record.state else {
            continue;
        };
        if failure == NotCarriedOut::FailedInBlock && may_have_moved(settler, &record.job).await {
            continue;
        }
        let reason = Reason::Withdrawn;
        let state = State::Failed { reason, message: reason.sentence().to_owned(), at };
        persist(settler, || {
            let (from, attempts) = (record.state.clone(), record.attempts);
            settler.ledger.transition(&record.job, from, state.clone(), attempts)
        })
        .await;
    }
}

/// Whether a job of an included transaction may have been carried out although no node proves it. It may if its nonce
/// is used, or if no node reports whether the nonce is used.
async fn may_have_moved(settler: &Settler, job: &Job) -> bool {
    match schemes::check_on_chain(&settler.network, job, AllowanceRule::MayFollow).await {
        Ok(()) => false,
        Err(VerifyError::Rejected(rejection)) => suggests_foreign_settlement(rejection.reason),
        Err(VerifyError::Chain(_) | VerifyError::Store(_) | VerifyError::Malformed(_)) => true,
    }
}

/// Reads which payments a final transaction settled, and its fee.
async fn final_effects(settler: &Settler, batch: &Batch, hash: B256) -> Effects {
    for _try in 0..RECEIPT_TRIES_MAX {
        match store_proven(settler, batch, hash).await {
            Ok(effects) if effects.proven.len() < batch.jobs.len() => {
                return proven_by_any_node(settler, batch, hash, effects).await;
            }
            Ok(effects) => return effects,
            Err(fault) => {
                tracing::debug!(%fault, "a receipt could not be read");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
    // The receipt cannot be read. Each payment is looked up separately, and the upper bound of the fee counts.
    Effects { fee: settler.max_cost(batch.reservation()), ..Effects::default() }
}

/// Asks all nodes for the receipt of a transaction, because one node's receipt does not prove all payments. That node
/// may have returned a wrong status or no events.
async fn proven_by_any_node(
    settler: &Settler,
    batch: &Batch,
    hash: B256,
    mut effects: Effects,
) -> Effects {
    match settler.network.chain.receipts_from_all_nodes(hash).await {
        Ok(receipts) => {
            for receipt in receipts {
                effects.proven.extend(store_effects(settler, batch, &receipt).await.proven);
            }
        }
        Err(fault) => tracing::debug!(%fault, "the other nodes could not be asked for a receipt"),
    }
    effects
}

/// The fee of a transaction that moved nothing, in wei.
async fn fee_of(settler: &Settler, hash: B256) -> Option<U256> {
    for _try in 0..RECEIPT_TRIES_MAX {
        match receipt(settler, hash).await {
            Ok(receipt) => return receipt.fee(),
            Err(fault) => {
                tracing::debug!(%fault, "a receipt could not be read");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
    settler.max_cost(SignerNeed::MIN.reservation)
}

/// Splits the fee of a transaction equally among its payments, rounded up, and returns each caller's sum.
fn spent_by_caller(settler: &Settler, records: &[Record], fee: Option<U256>) -> Vec<GasSpent> {
    let Some(fee) = fee.filter(|fee| !fee.is_zero()) else { return Vec::new() };
    settler.metrics.count_gas_spent(settler.network.table_row(), fee);
    let count = U256::from(records.len().max(1));
    let each = fee.div_ceil(count);
    let mut callers: BTreeMap<B256, U256> = BTreeMap::new();
    for record in records {
        let sum = callers.entry(record.gas_caller).or_default();
        *sum = sum.saturating_add(each);
    }
    let chain = settler.network.contracts.chain;
    let day = day_of(settler.network.clock.utc());
    callers.into_iter().map(|(caller, wei)| GasSpent { chain, day, caller, wei }).collect()
}

/// Whether this batch need not decide a payment: the payment has ended, is queued, or belongs to another batch.
async fn is_resolved(
    settler: &Settler,
    batch: &Batch,
    record: &Record,
    proven: &BTreeSet<JobKey>,
) -> bool {
    match &record.state {
        State::Sent { batch: other } => *other != batch.id,
        State::Failed { .. } | State::Closed { .. } | State::Queued => true,
        // A separate task watches that transaction.
        State::SettledElsewhere { .. } => true,
        State::Settled { .. } if proven.contains(&record.key()) => true,
        // A reorganisation may have removed the block, or another transaction may have settled the payment.
        State::Settled { hash, .. } => is_still_settled(settler, &record.job, *hash).await,
    }
}

/// Whether the chain still contains the settlement of a payment by this transaction.
async fn is_still_settled(settler: &Settler, job: &Job, hash: B256) -> bool {
    let mut denials = 0_u8;
    loop {
        match settlement_search::block_of_proof(settler, job, hash).await {
            Ok(Some(_block)) => return true,
            // The node that denied the settlement may lag behind the others.
            Ok(None) if denials < DENIALS_MAX => {
                denials = denials.saturating_add(1);
                settler.pause(RETRY_PAUSE_MS).await;
            }
            Ok(None) => {
                settler.metrics.count_reorganised(settler.network.table_row());
                let (account, moves) = (job.work().account(), job.work().value());
                tracing::error!(
                    %hash, %account, token = %moves.token, amount = %moves.amount,
                    "a reorganisation undid a settled payment: it is settled again if it still can be"
                );
                return false;
            }
            Err(fault) => {
                tracing::debug!(%fault, "a receipt could not be read");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
}

/// Watches a settlement that was found on the chain until its block is final.
async fn watch_until_final(settler: &Arc<Settler>, batch: &Batch) {
    let confirmations = settler.network.config.confirmations.max(1);
    loop {
        let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
        let Some(record) = records.first() else { return };
        let Some((hash, block)) = record.state.settlement() else { return };
        let last = block.saturating_add(confirmations.saturating_sub(1));
        match settler.network.chain.block_number().await {
            Ok(head) if head >= last => {
                if !is_still_settled(settler, &record.job, hash).await {
                    resolve_undone(settler, batch).await;
                }
                return;
            }
            Ok(_head) => {}
            Err(fault) => tracing::debug!(%fault, "could not read the newest block"),
        }
        settler.pause(RETRY_PAUSE_MS).await;
    }
}

/// Resolves a payment whose settlement was undone. The payment is sent again only if a merchant may have delivered.
/// Otherwise the payment ends as not made, and only a new request makes it.
async fn resolve_undone(settler: &Arc<Settler>, batch: &Batch) {
    const REORGANISED_MESSAGE: &str = "Another sender's transaction made this payment, but a reorganisation removed it, so the \
                          payment is not made: send the request again.";
    let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
    let Some(record) = records.first() else { return };
    let is_elsewhere = matches!(record.state, State::SettledElsewhere { .. });
    if is_elsewhere && !record.pending_returned && record.success_returned_at.is_none() {
        let (reason, message) = (Reason::Withdrawn, REORGANISED_MESSAGE.to_owned());
        let state = State::Failed { reason, message, at: settler.network.clock.utc() };
        store_state(settler, record, state, record.attempts).await;
    } else {
        resolve(settler, record, NotCarriedOut::NeverMined).await;
    }
}

/// Waits until all payments of a transaction that we cannot control are decided, by the chain or by their expiry.
async fn wait_for_chain_or_expiry(settler: &Arc<Settler>, batch: &Batch) {
    let records = persist(settler, || settler.ledger.records_of_batch(batch)).await;
    let none_proven = BTreeSet::new();
    let each = records.iter().map(|record| async {
        if !is_resolved(settler, batch, record, &none_proven).await {
            while !end_if_decided(settler, record).await {
                settler.pause(IDLE_CHECK_INTERVAL_MS).await;
            }
        }
    });
    futures::future::join_all(each).await;
}

/// Ends a payment that the chain or its expiry has decided. At the age of [`UNDECIDED_MS_MAX`], resolves the payment in
/// any case. Returns whether the payment was ended or resolved.
async fn end_if_decided(settler: &Arc<Settler>, record: &Record) -> bool {
    match decided_state(settler, record).await {
        Ok(Some(state)) => {
            store_state(settler, record, state, record.attempts).await;
            true
        }
        Ok(None) => {
            let now = settler.network.clock.utc();
            let is_overdue = now.since_ms(record.accepted_at) >= UNDECIDED_MS_MAX;
            if is_overdue {
                resolve(settler, record, NotCarriedOut::NeverMined).await;
            }
            is_overdue
        }
        Err(fault) => {
            tracing::debug!(%fault, "the outcome of a payment is not known yet");
            false
        }
    }
}

/// The state of a payment that the chain or its expiry has decided. `None` if it is still open.
async fn decided_state(settler: &Settler, record: &Record) -> Result<Option<State>, ChainFault> {
    let at = settler.network.clock.utc();
    let job = &record.job;
    // Read the block time before the search: after an expired block, no later block can contain the payment.
    let chain_time = settler.network.chain.block_time().await?;
    // If an earlier job may have emitted the same event, search only once the job is known to be carried out.
    let event = job.work().settlement_event(&settler.network.contracts);
    let is_searchable = event.is_rare || job.work().expires().is_some();
    if is_searchable
        && let Some(found) = settlement_search::find(settler, job, record.since_block).await?
    {
        return Ok(Some(found.state(at)));
    }
    let failed =
        |reason: Reason| Some(State::Failed { reason, message: reason.sentence().to_owned(), at });
    let seconds = U256::from(u64::try_from(chain_time.seconds()).unwrap_or(0));
    let is_expired = job.work().expires().is_some_and(|expires| seconds >= expires);
    match schemes::check_on_chain(&settler.network, job, AllowanceRule::MayFollow).await {
        Err(VerifyError::Rejected(rejection)) if suggests_foreign_settlement(rejection.reason) => {
            // The nonce may have been used since the search above.
            match settlement_search::find(settler, job, record.since_block).await? {
                Some(found) => Ok(Some(found.state(at))),
                None if rejection.reason == Reason::VoucherBelowClaimed => {
                    Ok(Some(State::Closed { at }))
                }
                None if !job.work().is_purchase() => Ok(failed(rejection.reason)),
                // The payment's own transaction may have used the nonce, and the nodes may hide that transaction.
                None => Ok(Some(unknown_outcome(at))),
            }
        }
        Err(VerifyError::Chain(fault)) => Err(fault),
        _expired if is_expired => Ok(failed(Reason::Expired)),
        _still_open => Ok(None),
    }
}

/// Returns the state of a payment whose outcome is unknown: its nonce is used, and no node shows by which transaction.
/// Requests for the payment get status 503, and each of them searches for the transaction again.
fn unknown_outcome(at: Utc) -> State {
    let reason = Reason::UnexpectedSettle;
    State::Failed { reason, message: reason.sentence().to_owned(), at }
}

/// Whether a job that never expires has waited too long for a transaction.
fn is_stale(record: &Record, now: Utc) -> bool {
    record.job.work().expires().is_none()
        && now.since_ms(record.accepted_at) >= UNEXPIRING_RETRY_MS_MAX
}

/// Whether the reason indicates that another transaction has probably carried out the job.
fn suggests_foreign_settlement(reason: Reason) -> bool {
    let used = [
        Reason::NonceUsed,
        Reason::Permit2Nonce,
        Reason::VoucherBelowClaimed,
        Reason::NothingToSettle,
        Reason::RefundNonce,
    ];
    used.contains(&reason)
}

/// Whether the reason is a missing allowance for Permit2.
pub(super) fn is_missing_allowance(reason: Reason) -> bool {
    [Reason::Permit2Allowance, Reason::DepositAllowance].contains(&reason)
}

/// Whether a node ever reported that a transaction of a payment is in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inclusion {
    Never,
    Included,
}

impl Inclusion {
    /// Derives the value from the record.
    fn of(record: &Record) -> Self {
        match record.attempts > 0 || record.state.settlement().is_some() {
            true => Self::Included,
            false => Self::Never,
        }
    }
}

/// Returns the final state of a job that was rejected when it was checked again. Searches the chain for a transaction
/// that may have carried it out.
async fn refused_state(
    settler: &Settler,
    record: &Record,
    rejection: &Rejection,
    inclusion: Inclusion,
) -> Result<State, ChainFault> {
    let at = settler.network.clock.utc();
    let may_be_foreign = suggests_foreign_settlement(rejection.reason);
    if may_be_foreign
        && let Some(found) =
            settlement_search::find(settler, &record.job, record.since_block).await?
    {
        return Ok(found.state(at));
    }
    if rejection.reason == Reason::VoucherBelowClaimed {
        // Several transactions claimed the rows, so no single one carried out the batch.
        return Ok(State::Closed { at });
    }
    let is_purchase = record.job.work().is_purchase();
    if may_be_foreign && inclusion == Inclusion::Included && is_purchase {
        // Our own transaction probably used the nonce, but a node returned a receipt that does not prove the payment.
        return Ok(unknown_outcome(at));
    }
    Ok(State::Failed { reason: rejection.reason, message: rejection.message.clone(), at })
}

/// Ends a queued job that was refused before it was sent. Retries until nodes answer.
pub(super) async fn end_refused(settler: &Arc<Settler>, record: &Record, rejection: Rejection) {
    let state = loop {
        match refused_state(settler, record, &rejection, Inclusion::of(record)).await {
            Ok(state) => break state,
            Err(fault) => {
                tracing::debug!(%fault, "the outcome of a payment is not known yet");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    };
    store_state(settler, record, state, record.attempts).await;
}

/// Rejects further jobs of an account for a while, because one of its jobs cost gas without effect.
fn reject_account_for_a_while(settler: &Settler, job: &Job) {
    let now_ms = settler.network.clock.mono_ms();
    settler.wasteful_payers.insert(job.work().account(), (), now_ms);
}

/// Stores the next state of a payment that its transaction did not carry out. Retries until nodes answer.
async fn resolve(settler: &Arc<Settler>, record: &Record, failure: NotCarriedOut) {
    loop {
        match next_state(settler, record, failure).await {
            Ok((state, attempts)) => {
                store_state(settler, record, state, attempts).await;
                return;
            }
            Err(fault) => {
                tracing::debug!(%fault, "the outcome of a payment is not known yet");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
}

/// The next state of a payment that its transaction did not carry out, with its number of attempts.
async fn next_state(
    settler: &Settler,
    record: &Record,
    failure: NotCarriedOut,
) -> Result<(State, u8), ChainFault> {
    let at = settler.network.clock.utc();
    let job = &record.job;
    let attempts = match failure {
        NotCarriedOut::FailedInBlock => record.attempts.saturating_add(1),
        NotCarriedOut::TooExpensive | NotCarriedOut::NeverMined => record.attempts,
    };
    let settled = |found: FoundSettlement| (found.state(at), record.attempts);
    let failed =
        |reason: Reason, message: String| (State::Failed { reason, message, at }, attempts);
    let fail_with = |reason: Reason| failed(reason, reason.sentence().to_owned());
    let event = job.work().settlement_event(&settler.network.contracts);
    if event.is_rare
        && let Some(found) = settlement_search::find(settler, job, record.since_block).await?
    {
        return Ok(settled(found));
    }
    if failure == NotCarriedOut::TooExpensive {
        return Ok(fail_with(Reason::GasTooHigh));
    }
    let inclusion = match failure {
        NotCarriedOut::FailedInBlock => Inclusion::Included,
        NotCarriedOut::TooExpensive | NotCarriedOut::NeverMined => Inclusion::of(record),
    };
    match check_sent(settler, job, inclusion).await {
        Ok(()) if failure == NotCarriedOut::NeverMined && is_stale(record, at) => {
            Ok(fail_with(Reason::Withdrawn))
        }
        // A contract wallet's payment that failed in a block is not retried: a retry would cost as much gas again.
        Ok(()) if attempts < ATTEMPTS_MAX && (attempts == 0 || !job.work().runs_foreign_code()) => {
            Ok((State::Queued, attempts))
        }
        Ok(()) => {
            reject_account_for_a_while(settler, job);
            Ok(fail_with(job.work().failed_reason()))
        }
        Err(VerifyError::Rejected(rejection)) => {
            // The nonce may have been used since the search above.
            let state = refused_state(settler, record, &rejection, inclusion).await?;
            // Such failures waste gas: the payer may have sent several payments with one allowance, or a merchant
            // several claims of one channel. Or the payer received code meanwhile, which may use much gas.
            let is_wasteful = is_missing_allowance(rejection.reason)
                || rejection.reason == job.work().failed_reason()
                || matches!(state, State::Closed { .. });
            if failure == NotCarriedOut::FailedInBlock && is_wasteful {
                reject_account_for_a_while(settler, job);
            }
            let is_failed = matches!(state, State::Failed { .. });
            Ok((state, if is_failed { attempts } else { record.attempts }))
        }
        Err(VerifyError::Chain(fault)) => Err(fault),
        // This cannot occur: the request was parsed successfully before.
        Err(VerifyError::Malformed(fault)) => {
            Ok(failed(job.work().failed_reason(), fault.to_string()))
        }
        Err(VerifyError::Store(fault)) => Ok(failed(Reason::UnexpectedSettle, fault)),
    }
}

/// Checks a job again that its transaction did not carry out. If the transaction was in a block, checks the nonce
/// before the expiry, because an expired payment with a used nonce may have been made.
async fn check_sent(settler: &Settler, job: &Job, inclusion: Inclusion) -> Result<(), VerifyError> {
    let (network, rule) = (&settler.network, AllowanceRule::MayFollow);
    if inclusion == Inclusion::Never {
        return schemes::check_again(network, job, rule).await;
    }
    let checked = schemes::check_on_chain(network, job, rule).await;
    match &checked {
        Err(VerifyError::Rejected(rejection)) if suggests_foreign_settlement(rejection.reason) => {
            checked
        }
        Err(VerifyError::Chain(_)) => checked,
        _valid_or_refused => {
            job.work().check_time(network.now_seconds())?;
            checked
        }
    }
}

/// Stores the new state of a payment, and starts the work that the state needs.
async fn store_state(settler: &Arc<Settler>, record: &Record, state: State, attempts: u8) {
    let gas = if record.gas == 0 {
        settler.reservation_of(&[&record.job]).map_or(0, |reservation| reservation.gas)
    } else {
        record.gas
    };
    let updated = Record { state: state.clone(), attempts, gas, ..record.clone() };
    if state == State::Queued && !record.state.is_open() {
        if !persist(settler, || settler.ledger.reopen(updated.clone())).await {
            return;
        }
    } else if record.state.is_open() {
        // A payment that was withdrawn in the meantime remains withdrawn.
        let moved = persist(settler, || {
            settler.ledger.transition(&record.job, record.state.clone(), state.clone(), attempts)
        });
        if !moved.await {
            return;
        }
    } else {
        let outcome = (record.key(), state.clone(), attempts);
        persist(settler, || settler.ledger.set_outcomes(vec![outcome.clone()])).await;
    }
    match state {
        State::Queued => settler.enqueue(Arc::new(updated)),
        // A search found the transaction that settled the payment, and its block may not be final.
        State::Settled { hash, .. } | State::SettledElsewhere { hash, .. } => {
            watch_foreign(settler, record, hash).await;
        }
        State::Sent { .. } | State::Failed { .. } | State::Closed { .. } => {}
    }
}

/// Watches a settlement that was found on the chain until it is final, even after a restart.
async fn watch_foreign(settler: &Arc<Settler>, record: &Record, hash: B256) {
    let Ok(id) = fresh_id() else { return };
    let batch = Batch::of_found_transaction(id, &record.job, hash);
    persist(settler, || settler.ledger.watch(batch.clone())).await;
    settler.watch_settlement(batch);
}

/// Retries a store operation until it succeeds. A failed write ends the process, because the store then rejects every
/// write until a restart.
async fn persist<T, F>(settler: &Settler, work: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreFault>>,
{
    loop {
        match work().await {
            Ok(done) => return done,
            Err(fault) => {
                tracing::error!(%fault, "the store failed during a settlement; retrying");
                settler.pause(RETRY_PAUSE_MS).await;
            }
        }
    }
}
