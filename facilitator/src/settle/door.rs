//! The entry point of requests: checks a payment, stores it and waits for its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_chain::failpoints::Failpoints;
use bursar_chain::ports::ChainFault;
use bursar_core::networks::ChainId;
use bursar_desks::store::StoreFault;
use bursar_x402::settlement::SettlementRequest;
use tokio::sync::watch;

use crate::book::batch::Batch;
use crate::book::ledger::{Accepted, Claim, Ledger, Lookup, Progress, Usage};
use crate::book::record::{ATTEMPTS_MAX, AskedBy, Record, State};
use crate::book::redb_store::fresh_id;
use crate::network::Served;
use crate::node::Hurry;
use crate::payment::{Payment, PaymentKey};
use crate::reason::{Reason, Refused};
use crate::settle::price::{Need, Price};
use crate::settle::settler::Settler;
use crate::settle::success_rights::{Share, SuccessRight, SuccessRights};
use crate::settle::withdraw::DueAnswer;
use crate::settle::{budget, settlement_search};
use crate::transaction;
use crate::verify::{self, Fault, Good, Read};

/// Maximum number of payments in flight; one more would wait too long.
pub const OPEN_MAX: usize = 20_000;
/// Maximum number of payments in flight per payer.
const OPEN_OF_PAYER_MAX: usize = 256;

/// How long, in milliseconds, a payment is not retried after its last permitted transaction failed.
const REST_MS: i64 = 10 * 60_000;

/// How long a due answer waits for nodes to report whether one of them has the transaction, in milliseconds.
const DUE_MS: u64 = 1_500;

/// Maximum time of an answer, in milliseconds, whether the payment is withdrawn or not.
const ANSWER_MS: u64 = 10_000;
const WAIT_MAX_MS: u64 = ANSWER_MS - DUE_MS;

/// The outcome of a request to settle.
#[derive(Debug)]
pub enum End {
    /// The payment is settled.
    Settled {
        hash: B256,
        payer: Address,
        /// Another request receives the success too, or received it before.
        repeated: bool,
        /// Held until the response was written or its connection failed.
        right: Option<SuccessRight>,
    },
    /// The transaction is in flight: a node has it.
    Pending {
        hash: B256,
        payer: Address,
    },
    Refused(Refused),
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// Why a request to settle has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] bursar_x402::error::X402Error),
    /// NodeKnowledge or the disk failed. Nothing was accepted, or it is not known whether it was.
    #[error("{0}")]
    Unavailable(String),
    /// The limit of payments in flight is reached.
    #[error("too many payments are in flight")]
    Busy,
}

impl From<StoreFault> for Trouble {
    fn from(fault: StoreFault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// Verifies and settles on all networks of a facilitator.
#[derive(Debug)]
pub struct Door {
    pub settlers: BTreeMap<ChainId, Arc<Settler>>,
    pub ledger: Ledger,
    /// Addresses that may be paid; empty: any address.
    pub payees: BTreeSet<Address>,
    /// How long an answer waits for a block, in milliseconds.
    pub wait_ms: u64,
    pub success_rights: SuccessRights,
    /// The failpoints of tests.
    pub failpoints: Arc<dyn Failpoints>,
}

/// A request for a payment, and what it may receive.
struct Asked<'a> {
    read: &'a Read,
    by: AskedBy,
    /// Present if this request had the payment accepted.
    right: Option<SuccessRight>,
    /// Whether a payment that failed before may be settled again for this request.
    may_try_again: bool,
}

impl Door {
    /// The settler of the network that a request names.
    fn settler(&self, request: &SettlementRequest) -> Result<&Arc<Settler>, Refused> {
        let chain = verify::chain_of(request)?;
        self.settlers.get(&chain).ok_or_else(|| Reason::UnsupportedNetwork.into())
    }

    fn admit(&self, served: &Served, read: &Read) -> Result<(), Refused> {
        if !self.payees.is_empty() && !self.payees.contains(&read.terms.payee) {
            return Err(Refused::from(Reason::PayeeNotServed).of(read.terms.payer));
        }
        verify::admit(served, read)
    }

    /// Rejects early if not even the cheapest payment of this method is affordable. It must fit a signer's balance, the
    /// gas price and the day's budgets. No node is asked about the payment then.
    fn afford_any(
        &self,
        settler: &Settler,
        read: &Read,
        by: AskedBy,
        price: &Price,
    ) -> Result<(), Refused> {
        let of = |reason: Reason| Refused::from(reason).of(read.terms.payer);
        if !price.affordable {
            return Err(of(Reason::GasTooHigh));
        }
        let served = &settler.served;
        let now = served.clock.utc();
        let owed = self.ledger.gas_usage(served.place.chain, by.caller, now);
        let reservation = price.with_data(transaction::least_gas(read.method), 1);
        let need = Need { reservation, sender: served.only_sender(read.method.id()) };
        if !price.can_pay(need, owed.open) {
            return Err(of(Reason::OutOfGas));
        }
        if budget::is_within_budgets(&served.config, price, reservation, &owed) {
            Ok(())
        } else {
            Err(of(Reason::GasBudget))
        }
    }

    /// Whether a payment is valid and would be settled for this caller. Changes nothing. Returns the payer.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn verify(&self, request: &SettlementRequest, by: AskedBy) -> Result<Address, Fault> {
        let settler = self.settler(request)?;
        let clock = &settler.served.clock;
        let deadline = clock.mono_ms().saturating_add(ANSWER_MS);
        // cancel-safe: it changes nothing.
        tokio::select! {
            verified = self.verify_at(settler, request, by) => verified,
            () = clock.sleep_until(deadline) => Err(Fault::Chain(slow())),
        }
    }

    async fn verify_at(
        &self,
        settler: &Arc<Settler>,
        request: &SettlementRequest,
        by: AskedBy,
    ) -> Result<Address, Fault> {
        let served = &settler.served;
        let read = verify::read(served, request)?;
        let payer = read.terms.payer;
        let known = self.ledger.find(read.key(served.place.chain)).await;
        let known = known.map_err(|fault| Fault::Store(fault.to_string()))?;
        if let Some(known) = known {
            let record = known.record();
            if !matches!(record.state, State::Failed { .. }) {
                let shares = verify::is_same(&read, &record.payment)
                    && self.success_rights.would_share(record, by);
                if !shares {
                    return Err(duplicate(&read, record).into());
                }
                if record.state.is_open() {
                    still_good(served, &read).await?;
                }
                return Ok(payer);
            }
        }
        self.admit(served, &read)?;
        let price = settler.price().await?;
        self.afford_any(settler, &read, by, &price)?;
        let good = verify::check(served, &read, Hurry::Now).await?;
        let need = settler.need_of(&good.payment, good.gas);
        let owed = self.ledger.gas_usage(served.place.chain, by.caller, served.clock.utc());
        budget::afford(&served.config, &price, &good.payment, need, &owed)?;
        Ok(payer)
    }

    /// Settles a payment once.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn settle(&self, request: &SettlementRequest, by: AskedBy) -> Result<End, Trouble> {
        let settler = match self.settler(request) {
            Ok(settler) => settler,
            Err(refused) => return Ok(End::Refused(refused)),
        };
        let clock = &settler.served.clock;
        let deadline = clock.mono_ms().saturating_add(self.wait_ms.min(WAIT_MAX_MS));
        // Only read here, not admitted: a payment that has expired since, or is no longer accepted, may have been
        // settled.
        let end = match verify::read(&settler.served, request) {
            Ok(read) => self.settle_until(settler, &read, by, deadline).await,
            Err(fault) => Err(fault.into()),
        };
        match end {
            Ok(end) => Ok(end),
            Err(Stop::Fault(Fault::Refused(refused))) => Ok(End::Refused(refused)),
            Err(Stop::Fault(Fault::Malformed(fault))) => Err(fault.into()),
            Err(Stop::Fault(Fault::Chain(fault))) => Err(Trouble::Unavailable(fault.to_string())),
            Err(Stop::Fault(Fault::Store(fault))) => Err(Trouble::Unavailable(fault)),
            Err(Stop::Trouble(trouble)) => Err(trouble),
        }
    }

    async fn settle_until(
        &self,
        settler: &Arc<Settler>,
        read: &Read,
        by: AskedBy,
        deadline: u64,
    ) -> Result<End, Stop> {
        let key = read.key(settler.served.place.chain);
        let repeat = || Asked { read, by, right: None, may_try_again: true };
        let (mut attempts, mut uncertain) = (0, false);
        if let Some(known) = self.ledger.find(key).await.map_err(Trouble::from)? {
            if let Some(end) = self.known_end(settler, repeat(), &known, deadline).await? {
                return Ok(end);
            }
            attempts = known.record().attempts;
            uncertain = is_uncertain(known.record());
        }
        let end = self.settle_new(settler, read, by, attempts, deadline).await;
        let is_refusal = matches!(
            end,
            Ok(End::Refused(_))
                | Err(Stop::Fault(Fault::Refused(_)) | Stop::Trouble(Trouble::Busy))
        );
        if !is_refusal {
            return end;
        }
        // A concurrent request may have had it accepted in the meantime.
        if let Some(known) = self.ledger.find(key).await.map_err(Trouble::from)? {
            if let Some(other) = self.known_end(settler, repeat(), &known, deadline).await? {
                return Ok(other);
            }
            uncertain |= is_uncertain(known.record());
        }
        if uncertain {
            // A node may have a transaction that was sent for it before, so a refusal would not be final.
            let why = "the outcome of an earlier transaction of a payment is not known yet";
            return Err(Trouble::Unavailable(why.to_owned()).into());
        }
        end
    }

    /// Settles a payment that is new or has failed before.
    async fn settle_new(
        &self,
        settler: &Arc<Settler>,
        read: &Read,
        by: AskedBy,
        attempts: u8,
        deadline: u64,
    ) -> Result<End, Stop> {
        let served = &settler.served;
        self.admit(served, read).map_err(Fault::from)?;
        // cancel-safe: a price that nobody waits for is kept for the next request, or dropped.
        let price = tokio::select! {
            price = settler.price() => price.map_err(Fault::Chain)?,
            () = served.clock.sleep_until(deadline) => return Err(Fault::Chain(slow()).into()),
        };
        self.afford_any(settler, read, by, &price).map_err(Fault::from)?;
        // cancel-safe: nothing is taken on before it was found good.
        let good = tokio::select! {
            good = self.good(settler, read, deadline) => good,
            () = served.clock.sleep_until(deadline) => return Err(Fault::Chain(slow()).into()),
        };
        let Good { payment, balance, gas } = match good {
            Ok(good) => good,
            Err(Stop::Fault(Fault::Refused(refused))) => {
                let key = read.key(served.place.chain);
                let known = self.ledger.find(key).await.map_err(Trouble::from)?;
                let failed = |known: Lookup| matches!(known.record().state, State::Failed { .. });
                if known.is_none_or(failed) {
                    return self.settled_by_another(settler, read, by, (refused, deadline)).await;
                }
                // A concurrent request was faster, and the settlement of its payment used the nonce.
                return Ok(End::Refused(refused));
            }
            Err(stop) => return Err(stop),
        };
        let payer = payment.terms.payer;
        if settler.wasteful.get(&payer, served.clock.mono_ms()).is_some() {
            let why = "The payer's last payment cost gas and moved no money: wait a minute.";
            return Ok(Refused::because(Reason::TransactionFailed, why).of(payer).into());
        }
        let need = settler.need_of(&payment, gas);
        let claim = self.claim_room(settler, &payment, balance, (by.caller, need), &price)?;
        let record = Record {
            payment,
            accepted_at: served.clock.utc(),
            since_block: price.block,
            attempts,
            state: State::Queued,
            gas: need.reservation.gas,
            gas_of: by.caller,
            asked: by,
            answered: None,
        };
        let (taken, right) = self.take_on(settler, record, claim).await?;
        let asked = Asked { read, by, right, may_try_again: false };
        let end = self.known_end(settler, asked, &taken.known, deadline).await?;
        let lost = || Trouble::Unavailable("a payment waits again".to_owned());
        Ok(end.ok_or_else(lost)?)
    }

    /// Caps a payer's open payments by count and by balance, and the gas of all by the signers' coin. Payments that are
    /// valid one by one may not be valid together.
    fn claim_room(
        &self,
        settler: &Settler,
        payment: &Payment,
        balance: U256,
        (caller, need): (B256, Need),
        price: &Price,
    ) -> Result<Claim, Stop> {
        if self.ledger.open_count() >= OPEN_MAX {
            return Err(Trouble::Busy.into());
        }
        let terms = &payment.terms;
        let now = settler.served.clock.utc();
        // Payments that ended while this one was checked have cost coin since.
        let newest = settler.prices.last();
        let price = newest.as_deref().unwrap_or(price);
        self.ledger.claim(payment, (caller, need.reservation), now, |owed: &Usage| {
            if owed.count >= OPEN_OF_PAYER_MAX {
                return Err(Stop::from(Trouble::Busy));
            }
            if owed.amount.saturating_add(terms.amount) > balance {
                let refused = Refused::from(Reason::InsufficientBalance).of(terms.payer);
                return Err(Fault::Refused(refused).into());
            }
            budget::afford(&settler.served.config, price, payment, need, &owed.gas)
                .map_err(|refused| Fault::Refused(refused).into())
        })
    }

    /// Stores a payment and queues it, even if the caller hangs up meanwhile. Returns the right to its success if the
    /// payment was new.
    async fn take_on(
        &self,
        settler: &Arc<Settler>,
        record: Record,
        claim: Claim,
    ) -> Result<(Accepted, Option<SuccessRight>), Stop> {
        let (ledger, settler) = (self.ledger.clone(), Arc::clone(settler));
        let (success_rights, by, key) =
            (self.success_rights.clone(), record.asked, record.payment.key());
        let tasks = settler.tasks.clone();
        let taking = tasks.spawn(async move {
            settler.failpoints.pass("settle.before accept");
            let taken = ledger.accept(record).await?;
            // From here on the ledger counts it as open.
            drop(claim);
            settler.failpoints.pass("settle.after accept");
            let right = if taken.new { success_rights.take(key, by) } else { None };
            if taken.new
                && let Lookup::Open(record, _progress) = &taken.known
            {
                settler.enqueue(Arc::clone(record));
            }
            Ok::<_, StoreFault>((taken, right))
        });
        let taken =
            taking.await.map_err(|_ended| Trouble::Unavailable("it is ending".to_owned()))?;
        Ok(taken.map_err(Trouble::from)?)
    }

    /// What a request receives for a known payment: its outcome, or a pending answer at the deadline. `None` if the
    /// payment has failed and may be tried again.
    async fn known_end(
        &self,
        settler: &Arc<Settler>,
        asked: Asked<'_>,
        known: &Lookup,
        deadline: u64,
    ) -> Result<Option<End>, Stop> {
        let record = known.record();
        let (key, payer) = (record.payment.key(), record.payment.terms.payer);
        // Only a request with the very same payment receives its outcome.
        if !verify::is_same(asked.read, &record.payment) {
            let failed = matches!(record.state, State::Failed { .. });
            return Ok((!failed).then(|| duplicate(asked.read, record).into()));
        }
        if record.state.is_open() && record.answered.is_some() {
            // A reorganisation undid it after its success was returned. It is settled again, and never withdrawn.
            return Ok(Some(duplicate(asked.read, record).into()));
        }
        let Lookup::Open(_record, progress) = known else {
            return Ok(self.ended(settler, asked, record).await?);
        };
        if wait(settler, progress.clone(), deadline).await == Waited::TimeUp {
            let due_by = deadline.saturating_add(DUE_MS);
            let deciding = Arc::clone(settler);
            // A separate task, so that a withdrawal completes even if its caller hangs up.
            let deciding =
                settler.tasks.spawn(async move { deciding.decide_due_answer(key).await });
            // cancel-safe: the task goes on.
            let due = tokio::select! {
                due = deciding => match due {
                    Ok(due) => due.map_err(Trouble::from)?,
                    Err(_ended) => DueAnswer::Uncertain,
                },
                () = settler.served.clock.sleep_until(due_by) => DueAnswer::Uncertain,
            };
            match due {
                DueAnswer::Known(hash) => return Ok(Some(End::Pending { hash, payer })),
                DueAnswer::Withdrawn(reason) => {
                    return Ok(Some(Refused::from(reason).of(payer).into()));
                }
                DueAnswer::Uncertain => {
                    let why = "no node says whether it has the transaction of a payment";
                    return Err(Trouble::Unavailable(why.to_owned()).into());
                }
                DueAnswer::Ended => {}
            }
        }
        match self.ledger.find(key).await.map_err(Trouble::from)? {
            Some(Lookup::Ended(record)) => {
                let asked = Asked { may_try_again: false, ..asked };
                Ok(self.ended(settler, asked, &record).await?)
            }
            Some(Lookup::Open(..)) | None => {
                let why = "the block of a payment was taken back";
                Err(Trouble::Unavailable(why.to_owned()).into())
            }
        }
    }

    /// The outcome of a payment for a request. `None` if the payment is open, or has failed and may be tried again.
    ///
    /// # Errors
    /// A failure of the store, or an outcome that is not known.
    async fn ended(
        &self,
        settler: &Settler,
        asked: Asked<'_>,
        record: &Record,
    ) -> Result<Option<End>, Trouble> {
        let payer = record.payment.terms.payer;
        Ok(match &record.state {
            State::Settled { hash, .. } => {
                let settled =
                    |repeated, right| End::Settled { hash: *hash, payer, repeated, right };
                let share = match asked.right {
                    Some(right) => Share::Own(right),
                    None => self.success_rights.share(record, asked.by),
                };
                // The request that held the right before may have had its answer written after the record was read.
                let another_has_it = self.went_to_another(record, asked.by).await?;
                Some(match share {
                    Share::Own(right) if !another_has_it => settled(false, Some(right)),
                    Share::WithHolder(right) if !another_has_it => settled(true, Some(right)),
                    Share::Again => settled(true, None),
                    Share::Own(_) | Share::WithHolder(_) | Share::None => {
                        duplicate(asked.read, record).into()
                    }
                })
            }
            // Whether a node has it is not known yet, so the caller must not take this for a refusal.
            State::Failed { reason: Reason::UnexpectedSettle, .. } if !asked.may_try_again => {
                let why = "no node says whether it has the transaction of a payment";
                return Err(Trouble::Unavailable(why.to_owned()));
            }
            // A failed payment may be tried again, but not right after it has cost several transactions.
            State::Failed { reason, message, at } => {
                let now = settler.served.clock.utc();
                let rests = record.attempts >= ATTEMPTS_MAX && now.since_ms(*at) < REST_MS;
                let told = Refused::because(*reason, message.clone()).of(payer);
                (!asked.may_try_again || rests).then(|| told.into())
            }
            State::Queued | State::Sent { .. } => None,
        })
    }

    /// Whether the success of a payment was returned to another request than this one.
    async fn went_to_another(&self, record: &Record, by: AskedBy) -> Result<bool, StoreFault> {
        let known = self.ledger.find(record.payment.key()).await?;
        Ok(known.is_some_and(|known| {
            let record = known.record();
            record.answered.is_some() && !by.repeats(&record.asked)
        }))
    }

    /// Checks a payment. If its nonce is not the next one yet, waits for the payment before it while that is in flight.
    async fn good(&self, settler: &Settler, read: &Read, deadline: u64) -> Result<Good, Stop> {
        loop {
            let fault = match verify::check(&settler.served, read, Hurry::Patient).await {
                Ok(good) => return Ok(good),
                Err(fault) => fault,
            };
            let Fault::Refused(refused) = &fault else { return Err(fault.into()) };
            if refused.reason != Reason::PrismNonce {
                return Err(fault.into());
            }
            let Some(before) = before(settler, read) else { return Err(fault.into()) };
            let known = self.ledger.find(before).await.map_err(Trouble::from)?;
            let Some(Lookup::Open(_record, progress)) = known else { return Err(fault.into()) };
            if wait(settler, progress, deadline).await == Waited::TimeUp {
                return Err(fault.into());
            }
        }
    }

    /// Settles a payment whose nonce was already used, if its own transaction moved the money. Otherwise returns the
    /// refusal.
    async fn settled_by_another(
        &self,
        settler: &Arc<Settler>,
        read: &Read,
        by: AskedBy,
        (refused, deadline): (Refused, u64),
    ) -> Result<End, Stop> {
        let used = [Reason::NonceUsed, Reason::Permit2Nonce];
        if !used.contains(&refused.reason) {
            return Ok(End::Refused(refused));
        }
        let served = &settler.served;
        let find = async {
            let payment = verify::signed_payment(served, read).await?;
            // A contract's signature cannot be checked here, and a caller without a valid signature must not learn the
            // outcome.
            if !verify::is_signed_by_key(&payment) {
                return Ok(None);
            }
            let found =
                settlement_search::find_recent(settler, &payment).await.map_err(Fault::Chain)?;
            Ok::<_, Fault>(found.map(|found| (payment, found)))
        };
        // cancel-safe: it reads.
        let found = tokio::select! {
            found = find => found?,
            () = served.clock.sleep_until(deadline) => return Err(Fault::Chain(slow()).into()),
        };
        let Some((payment, (hash, block))) = found else { return Ok(End::Refused(refused)) };
        let at = served.clock.utc();
        let key = payment.key();
        let batch = Batch::foreign(fresh_id().map_err(Trouble::from)?, &payment, hash);
        let record = Record {
            payment,
            accepted_at: at,
            since_block: block,
            attempts: 0,
            state: State::Settled { hash, block, at },
            gas: 0,
            gas_of: by.caller,
            asked: by,
            answered: None,
        };
        let kept = self.ledger.record_foreign(record.clone(), batch.clone()).await;
        let stands = kept.map_err(Trouble::from)?;
        if stands.is_none() {
            settler.watch_settlement(batch);
        }
        let right = if stands.is_none() { self.success_rights.take(key, by) } else { None };
        let asked = Asked { read, by, right, may_try_again: false };
        let end = self.ended(settler, asked, stands.as_ref().unwrap_or(&record)).await?;
        // `None`: it is in flight for another request. `settle_until` waits for its outcome.
        Ok(end.unwrap_or(End::Refused(refused)))
    }
}

/// Whether a payment in flight can still be carried out. A used nonce counts as valid: its own transaction probably
/// used it.
async fn still_good(served: &Served, read: &Read) -> Result<(), Fault> {
    let used = [Reason::NonceUsed, Reason::Permit2Nonce, Reason::PrismNonce];
    match verify::check(served, read, Hurry::Now).await {
        Err(Fault::Refused(refused)) if used.contains(&refused.reason) => Ok(()),
        other => other.map(|_good| ()),
    }
}

/// Whether it is unknown if a node has the transaction of a payment.
fn is_uncertain(record: &Record) -> bool {
    matches!(record.state, State::Failed { reason: Reason::UnexpectedSettle, .. })
}

/// The refusal of a copy. A caller with the very same payment receives the hash of its transaction.
fn duplicate(read: &Read, record: &Record) -> Refused {
    let refused = Refused::from(Reason::Duplicate).of(record.payment.terms.payer);
    match &record.state {
        State::Settled { hash, .. } if verify::is_same(read, &record.payment) => {
            refused.settled_in(*hash)
        }
        State::Settled { .. } | State::Queued | State::Sent { .. } | State::Failed { .. } => {
            refused
        }
    }
}

/// The fault for nodes that do not answer in time.
fn slow() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

/// The key of the payment with the preceding nonce. Only for methods whose nonces count up, per payer and token.
fn before(settler: &Settler, read: &Read) -> Option<PaymentKey> {
    let nonce = U256::from_be_bytes(read.terms.nonce.0).checked_sub(U256::from(1))?;
    let mut terms = read.terms.clone();
    terms.nonce = B256::new(nonce.to_be_bytes());
    Some(PaymentKey::of(settler.served.place.chain, read.method.id(), &terms))
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Ended,
    TimeUp,
}

/// Waits until a payment has ended, at most until the deadline. Cancel-safe.
async fn wait(settler: &Settler, mut progress: watch::Receiver<Progress>, deadline: u64) -> Waited {
    let over = |progress: &Progress| matches!(progress, Progress::Ended(_));
    // cancel-safe: all only wait.
    tokio::select! {
        // The sender is dropped with the entry of a payment that has ended.
        _found = progress.wait_for(over) => Waited::Ended,
        () = settler.served.clock.sleep_until(deadline) => Waited::TimeUp,
        // Unfinished work resumes at the next start.
        () = settler.stopping.cancelled() => Waited::TimeUp,
    }
}

/// Why a settlement stops early.
#[derive(Debug)]
enum Stop {
    Fault(Fault),
    Trouble(Trouble),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}
