//! Sees one transaction through: has its desk send it, reads from what was mined which payments moved money,
//! and gives what did not back to the queue, or up.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_chain::ports::ChainFault;
use bursar_desks::service::{ServiceDesk, SubmitFault};
use bursar_desks::store::StoreFault;
use bursar_submit::{Desk, Included, Outcome, Place, Refusal, Trouble};

use crate::book::{ATTEMPTS_MAX, Batch, Record, State};
use crate::exact;
use crate::payment::PaymentKey;
use crate::reason::Reason;
use crate::settle::dispatch::Settler;
use crate::settle::trace::{self, Unknown};
use crate::transaction;
use crate::verify;

/// How long is waited before a node or the disk is asked again.
const PAUSE_MS: u64 = 1_000;

/// How often a desk is looked at on which nothing happens.
const LOOK_MS: u64 = 5_000;

/// How long every node may refuse a transaction before it is given up.
const REFUSED_MS: u64 = 20_000;

/// How often the receipt of what counts as mined is asked for, before it counts as gone.
const RECEIPT_TRIES: usize = 60;

/// Sees a transaction through to its end, also one of the process before this.
pub(super) async fn see_through(settler: Arc<Settler>, batch: Batch) {
    let stopping = settler.stopping.clone();
    let mut slot = Slot { settler: Arc::clone(&settler), batch: &batch, held: true };
    // cancel-safe: all that counts is on disk, and the next start goes on.
    tokio::select! {
        () = stopping.cancelled() => {}
        () = watch(&settler, &batch, &mut slot) => {}
    }
}

/// One of the transactions that a signer has unmined.
struct Slot<'a> {
    settler: Arc<Settler>,
    batch: &'a Batch,
    held: bool,
}

impl Slot<'_> {
    fn free(&mut self) {
        if std::mem::take(&mut self.held) {
            self.settler.freed(self.batch.signer);
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.free();
    }
}

async fn watch(settler: &Settler, batch: &Batch, slot: &mut Slot<'_>) {
    let Some(teller) = settler.tellers.get(&batch.signer) else {
        // The signer was taken out of the settings while it had something under way: it comes back, or an
        // operator looks. Nobody else can know how it ends.
        tracing::error!(signer = %batch.signer, "a transaction of a signer that is not set waits");
        return;
    };
    let desk = &teller.desk;
    let mut records = persist(settler, || settler.ledger.of_batch(batch)).await;
    let outcome = match submit(settler, batch, desk, &records).await {
        Some(outcome) => Some(outcome),
        None => follow(settler, batch, desk, &mut records, slot).await,
    };
    slot.free();
    finish(settler, batch, &mut records, outcome).await;
    settler.points.reach("settle.before close");
    persist(settler, || settler.ledger.closed(batch)).await;
    settler.points.reach("settle.after close");
}

/// Hands the transaction to its desk; how it ended, if it has already.
async fn submit(
    settler: &Settler,
    batch: &Batch,
    desk: &Arc<ServiceDesk>,
    records: &[Record],
) -> Option<Outcome> {
    let payments: Vec<_> = records.iter().map(|record| &record.payment).collect();
    let call = transaction::call(&settler.served.place, &payments, batch.gas_limit);
    loop {
        match desk.submit(batch.id, call.clone(), settler.served.config.max_gas_price, None).await {
            Ok(()) => {
                settler.points.reach("settle.after submit");
                return None;
            }
            Err(SubmitFault::Store(StoreFault::Over(outcome))) => return Some(outcome),
            Err(SubmitFault::Refused(Refusal::OtherCall)) => {
                // It was opened by a version that makes other bytes of the same payments: it goes on as it
                // is, for what it does is on its desk.
                return None;
            }
            Err(fault) => {
                tracing::warn!(%fault, "a transaction waits for its desk");
                pause(settler).await;
            }
        }
    }
}

/// Watches the desk until the transaction is over.
async fn follow(
    settler: &Settler,
    batch: &Batch,
    desk: &Arc<ServiceDesk>,
    records: &mut [Record],
    slot: &mut Slot<'_>,
) -> Option<Outcome> {
    let mut told: Option<B256> = None;
    let mut judged: Option<Included> = None;
    let mut refused_since: Option<u64> = None;
    let clock = &settler.served.clock;
    loop {
        let now = desk.desk();
        let Some(one) = now.open.get(&batch.id) else {
            return persist(settler, || desk.outcome(batch.id)).await;
        };
        if let Some((_at, _tried, raw)) = one.newest()
            && told != Some(raw.hash)
        {
            told = Some(raw.hash);
            settler.ledger.sent(&batch.payments, raw.hash);
        }
        if one.nonce.is_none() && one.trouble == Some(Trouble::TooExpensive) && !one.cancel {
            // Nothing was signed: it does not happen, and those who wait are told why.
            let _late_or_over = desk.cancel(batch.id).await;
        }
        // No node takes it, and more coin would not help: it would hold up every nonce above it.
        let is_refused = one.trouble == Some(Trouble::Refused) && one.place == Place::Waiting;
        refused_since = refused_since.filter(|_since| is_refused);
        if is_refused {
            let since = *refused_since.get_or_insert(clock.mono_ms());
            if clock.mono_ms().saturating_sub(since) >= REFUSED_MS && !one.cancel {
                tracing::warn!(chain = %batch.chain, "no node takes a transaction: it is given up");
                let _late_or_over = desk.cancel(batch.id).await;
            }
        }
        if let Some((included, hash)) = included(&now, batch)
            && judged != Some(included)
        {
            slot.free();
            match judge(settler, records, hash).await {
                Ok(_proven) => judged = Some(included),
                Err(fault) => {
                    tracing::debug!(%fault, "a receipt could not be read");
                    pause(settler).await;
                    continue;
                }
            }
        }
        let wake = clock.mono_ms().saturating_add(LOOK_MS);
        // cancel-safe: both only wait.
        tokio::select! {
            () = desk.another(&now) => {}
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// The block in which a batch is now, and by which hash.
fn included(desk: &Desk, batch: &Batch) -> Option<(Included, B256)> {
    let one = desk.open.get(&batch.id)?;
    let Place::Included(included) = one.place else { return None };
    let tried = one.attempts.get(included.attempt)?;
    included.ok.then_some((included, tried.raw.as_ref()?.hash))
}

/// Reads from a mined transaction whose money moved, and keeps that. What did not move says nothing yet: the
/// block is not final. Answers what moved.
async fn judge(
    settler: &Settler,
    records: &mut [Record],
    hash: B256,
) -> Result<BTreeSet<PaymentKey>, ChainFault> {
    let receipt = settler.served.chain.receipt(hash).await?;
    let Some(receipt) = receipt else {
        // The node that was asked now does not know the block yet.
        return Err(ChainFault::Unavailable { tried: Vec::new() });
    };
    let at = settler.served.clock.now().utc;
    let mut judged: Vec<(PaymentKey, State, u8)> = Vec::new();
    let mut proven = BTreeSet::new();
    for record in records.iter_mut() {
        let method = exact::method(record.payment.method);
        if !method.is_proven(&settler.served.place, &record.payment.terms, &receipt.logs) {
            continue;
        }
        proven.insert(record.payment.key());
        if record.payment.deployment.is_some() {
            settler.served.codes.forget(&record.payment.terms.payer);
        }
        let settled = State::Settled { hash, block: receipt.block_number, at };
        if !same_settlement(&record.state, &settled) {
            record.state = settled.clone();
            judged.push((record.payment.key(), settled, record.attempts));
        }
    }
    if !judged.is_empty() {
        settler.points.reach("settle.before verdict");
        persist(settler, || settler.ledger.judged(judged.clone())).await;
        settler.points.reach("settle.after verdict");
    }
    Ok(proven)
}

fn same_settlement(one: &State, other: &State) -> bool {
    match (one, other) {
        (
            State::Settled { hash, block, .. },
            State::Settled { hash: other, block: in_block, .. },
        ) => hash == other && block == in_block,
        _others => false,
    }
}

/// Ends what the transaction's end decides, and gives the rest back to the queue.
async fn finish(
    settler: &Settler,
    batch: &Batch,
    records: &mut [Record],
    outcome: Option<Outcome>,
) {
    let mined = match outcome {
        Some(Outcome::Succeeded { hash, .. } | Outcome::Reverted { hash, .. }) => Some(hash),
        _nothing_of_ours => None,
    };
    let proven = match mined {
        Some(hash) => finally(settler, records, hash).await,
        None => BTreeSet::new(),
    };
    let too_expensive = outcome == Some(Outcome::Dropped);
    // Each by itself: what cannot be found out about one holds up no other.
    let each = records.iter().map(|record| async {
        if !stands(settler, batch, record, &proven).await {
            rejudge(settler, record, too_expensive).await;
        }
    });
    futures::future::join_all(each).await;
}

/// What moved in a transaction that is final.
async fn finally(settler: &Settler, records: &mut [Record], hash: B256) -> BTreeSet<PaymentKey> {
    for _try in 0..RECEIPT_TRIES {
        match judge(settler, records, hash).await {
            Ok(proven) => return proven,
            Err(fault) => {
                tracing::debug!(%fault, "a receipt could not be read");
                pause(settler).await;
            }
        }
    }
    // It is gone, whatever was said of it: each payment is looked for by itself.
    BTreeSet::new()
}

/// Whether nothing is to be found out about a payment any more.
async fn stands(
    settler: &Settler,
    batch: &Batch,
    record: &Record,
    proven: &BTreeSet<PaymentKey>,
) -> bool {
    match &record.state {
        State::Sent { batch: other } => *other != batch.id,
        State::Failed { .. } | State::Queued => true,
        State::Settled { .. } if proven.contains(&record.payment.key()) => true,
        // By what was mined before and may have been taken back, or by another transaction.
        State::Settled { hash, .. } => {
            let method = exact::method(record.payment.method);
            loop {
                match settler.served.chain.receipt(*hash).await {
                    Ok(receipt) => {
                        let logs = receipt.map(|receipt| receipt.logs).unwrap_or_default();
                        let terms = &record.payment.terms;
                        return method.is_proven(&settler.served.place, terms, &logs);
                    }
                    Err(fault) => {
                        tracing::debug!(%fault, "a receipt could not be read");
                        pause(settler).await;
                    }
                }
            }
        }
    }
}

/// What becomes of a payment that its transaction did not carry out.
async fn rejudge(settler: &Settler, record: &Record, too_expensive: bool) {
    loop {
        match next_state(settler, record, too_expensive).await {
            Ok((state, attempts)) => {
                keep(settler, record, state, attempts).await;
                return;
            }
            Err(fault) => {
                tracing::debug!(%fault, "what became of a payment is not known yet");
                pause(settler).await;
            }
        }
    }
}

async fn next_state(
    settler: &Settler,
    record: &Record,
    too_expensive: bool,
) -> Result<(State, u8), Unknown> {
    let at = settler.served.clock.now().utc;
    let payment = &record.payment;
    let settled = |(hash, block)| (State::Settled { hash, block, at }, record.attempts);
    let failed = |reason: Reason, message: String| {
        (State::Failed { reason, message, at }, record.attempts.saturating_add(1))
    };
    let of = |reason: Reason| failed(reason, reason.sentence().to_owned());
    let method = exact::method(payment.method);
    let trace = method.trace(&settler.served.place, &payment.terms);
    if trace.names_nonce
        && let Some(found) = trace::find(settler, payment, record.since_block).await?
    {
        return Ok(settled(found));
    }
    if too_expensive {
        return Ok(of(Reason::GasTooHigh));
    }
    match verify::check_again(&settler.served, payment).await {
        // A contract that was not paid out of what it was given would only cost as much again.
        Ok(()) if record.attempts.saturating_add(1) < ATTEMPTS_MAX && !payment.contract_payer => {
            Ok((State::Queued, record.attempts.saturating_add(1)))
        }
        Ok(()) => {
            let clock = &settler.served.clock;
            settler.wasteful.learn(payment.terms.payer, (), clock.mono_ms());
            Ok(of(Reason::TransactionFailed))
        }
        Err(verify::Fault::Refused(refused)) => {
            if refused.reason == Reason::Permit2Nonce
                && let Some(found) = trace::find(settler, payment, record.since_block).await?
            {
                return Ok(settled(found));
            }
            Ok(failed(refused.reason, refused.message))
        }
        Err(verify::Fault::Chain(fault)) => Err(fault.into()),
        // It was read once.
        Err(verify::Fault::Malformed(fault)) => {
            Ok(failed(Reason::TransactionFailed, fault.to_string()))
        }
    }
}

async fn keep(settler: &Settler, record: &Record, state: State, attempts: u8) {
    let again = Record { state: state.clone(), attempts, ..record.clone() };
    if state == State::Queued && !record.state.is_open() {
        persist(settler, || settler.ledger.reopened(again.clone())).await;
    } else {
        let judged = (record.payment.key(), state.clone(), attempts);
        persist(settler, || settler.ledger.judged(vec![judged.clone()])).await;
    }
    if state == State::Queued {
        settler.enqueue(Arc::new(again));
    }
}

/// Until the disk takes it. A disk that fails takes nothing more until the next start.
async fn persist<T, F>(settler: &Settler, work: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreFault>>,
{
    loop {
        match work().await {
            Ok(done) => return done,
            Err(fault) => {
                tracing::error!(%fault, "what became of payments could not be kept");
                pause(settler).await;
            }
        }
    }
}

async fn pause(settler: &Settler) {
    let clock = &settler.served.clock;
    clock.sleep_until(clock.mono_ms().saturating_add(PAUSE_MS)).await;
}
