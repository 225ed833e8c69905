//! The entry point of requests: checks a payment, stores it and waits for its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_chain::failpoints::Failpoints;
use bursar_chain::ports::ChainFault;
use bursar_core::networks::ChainId;
use bursar_outbox::store::StoreFault;
use bursar_x402::settlement::SettlementRequest;
use tokio::sync::watch;

use crate::book::batch::Batch;
use crate::book::ledger::{Accepted, Claim, Ledger, Lookup, Progress, Usage};
use crate::book::record::{ATTEMPTS_MAX, Record, RequestOrigin, State};
use crate::book::redb_store::fresh_id;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::{Payment, PaymentKey};
use crate::reason::{Reason, Rejection};
use crate::settle::price::{Need, Price};
use crate::settle::settler::Settler;
use crate::settle::success_rights::{Share, SuccessRight, SuccessRights};
use crate::settle::withdraw::DueAnswer;
use crate::settle::{budget, settlement_search};
use crate::transaction;
use crate::verify::{self, ParsedPayment, Verified, VerifyError};

/// Maximum number of payments in flight; one more would wait too long.
pub const OPEN_MAX: usize = 20_000;
/// Maximum number of payments in flight per payer.
const OPEN_PER_PAYER_MAX: usize = 256;

/// Pause before a payment may be retried after its last permitted transaction failed, in milliseconds.
const COOLDOWN_MS: i64 = 10 * 60_000;

/// How long an answer waits past its deadline for nodes to report whether they have the transaction, in milliseconds.
const DUE_MS: u64 = 1_500;

/// Maximum time until an answer, in milliseconds. Includes the time to withdraw the payment.
const ANSWER_MS: u64 = 10_000;
const WAIT_MAX_MS: u64 = ANSWER_MS - DUE_MS;

/// The outcome of a request to settle.
#[derive(Debug)]
pub enum SettleOutcome {
    /// The payment is settled.
    Settled {
        hash: B256,
        payer: Address,
        /// Whether another request receives this success too, or received it before.
        repeated: bool,
        /// Held until the response is written or its connection fails.
        right: Option<SuccessRight>,
    },
    /// The transaction is in flight: a node has it.
    Pending {
        hash: B256,
        payer: Address,
    },
    Rejected(Rejection),
}

impl From<Rejection> for SettleOutcome {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// Why a request to settle has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] bursar_x402::error::X402Error),
    /// Nodes or the disk failed. Either the payment was not accepted, or its state is unknown.
    #[error("{0}")]
    Unavailable(String),
    /// The limit of payments in flight, of all payers or of this one, is reached.
    #[error("too many payments are in flight")]
    Busy,
}

impl From<StoreFault> for SettleError {
    fn from(fault: StoreFault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// Verifies and settles payments on all networks of a facilitator.
#[derive(Debug)]
pub struct SettlementService {
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

/// A request to settle a payment, and the success and retry that it is entitled to.
struct RequestContext<'a> {
    parsed: &'a ParsedPayment,
    origin: RequestOrigin,
    /// Present if the payment was accepted because of this request.
    right: Option<SuccessRight>,
    /// Whether a payment that failed before may be settled again for this request.
    may_try_again: bool,
}

impl SettlementService {
    /// The settler of the network that a request names.
    fn settler(&self, request: &SettlementRequest) -> Result<&Arc<Settler>, Rejection> {
        let chain = verify::chain_of(request)?;
        self.settlers.get(&chain).ok_or_else(|| Reason::UnsupportedNetwork.into())
    }

    fn admit(&self, network: &NetworkContext, parsed: &ParsedPayment) -> Result<(), Rejection> {
        if !self.payees.is_empty() && !self.payees.contains(&parsed.terms.payee) {
            return Err(Rejection::from(Reason::PayeeNotServed).for_payer(parsed.terms.payer));
        }
        verify::admit(network, parsed)
    }

    /// Rejects a payment if even the cheapest payment of its method is not affordable. Runs before nodes are queried
    /// about the payment. Checks the gas price, the signers' balances and the day's budgets.
    fn check_cheapest_affordable(
        &self,
        settler: &Settler,
        parsed: &ParsedPayment,
        origin: RequestOrigin,
        price: &Price,
    ) -> Result<(), Rejection> {
        let reject = |reason: Reason| Rejection::from(reason).for_payer(parsed.terms.payer);
        if !price.affordable {
            return Err(reject(Reason::GasTooHigh));
        }
        let network = &settler.network;
        let now = network.clock.utc();
        let usage = self.ledger.gas_usage(network.contracts.chain, origin.caller, now);
        let reservation = price.with_data(transaction::least_gas(parsed.method), 1);
        let need = Need { reservation, sender: network.only_sender(parsed.method.id()) };
        if !price.can_pay(need, usage.open) {
            return Err(reject(Reason::OutOfGas));
        }
        if budget::is_within_budgets(&network.config, price, reservation, &usage) {
            Ok(())
        } else {
            Err(reject(Reason::GasBudget))
        }
    }

    /// Checks that a payment is valid and that this caller may have it settled. Changes nothing. Returns the payer.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub async fn verify(
        &self,
        request: &SettlementRequest,
        origin: RequestOrigin,
    ) -> Result<Address, VerifyError> {
        let settler = self.settler(request)?;
        let clock = &settler.network.clock;
        let deadline = clock.mono_ms().saturating_add(ANSWER_MS);
        // cancel-safe: it changes nothing.
        tokio::select! {
            verified = self.verify_at(settler, request, origin) => verified,
            () = clock.sleep_until(deadline) => Err(VerifyError::Chain(timed_out())),
        }
    }

    async fn verify_at(
        &self,
        settler: &Arc<Settler>,
        request: &SettlementRequest,
        origin: RequestOrigin,
    ) -> Result<Address, VerifyError> {
        let network = &settler.network;
        let parsed = verify::parse(network, request)?;
        let payer = parsed.terms.payer;
        if self.verify_known(network, &parsed, origin).await? {
            return Ok(payer);
        }
        self.admit(network, &parsed)?;
        let price = settler.price().await?;
        self.check_cheapest_affordable(settler, &parsed, origin, &price)?;
        let verified = match verify::check(network, &parsed, Priority::Now).await {
            Ok(verified) => verified,
            // A copy may have been accepted and settled since the look-up.
            Err(VerifyError::Rejected(rejection)) if is_used(&rejection) => {
                let is_known = self.verify_known(network, &parsed, origin).await?;
                return if is_known { Ok(payer) } else { Err(rejection.into()) };
            }
            Err(fault) => return Err(fault),
        };
        let need = settler.need_of(&verified.payment, verified.gas);
        let usage =
            self.ledger.gas_usage(network.contracts.chain, origin.caller, network.clock.utc());
        budget::check_affordable(&network.config, &price, &verified.payment, need, &usage)?;
        Ok(payer)
    }

    /// Returns whether a payment is in the book and its success may be returned for this request. `false` if it is not
    /// in the book, or failed and may be tried again.
    ///
    /// # Errors
    /// It is a duplicate, or can no longer be settled.
    async fn verify_known(
        &self,
        network: &NetworkContext,
        parsed: &ParsedPayment,
        origin: RequestOrigin,
    ) -> Result<bool, VerifyError> {
        let known = self.ledger.find(parsed.key(network.contracts.chain)).await;
        let known = known.map_err(|fault| VerifyError::Store(fault.to_string()))?;
        let Some(known) = known else { return Ok(false) };
        let record = known.record();
        if matches!(record.state, State::Failed { .. }) {
            return Ok(false);
        }
        let shares = verify::is_same_payment(parsed, &record.payment)
            && self.success_rights.would_share(record, origin);
        if !shares {
            return Err(duplicate(parsed, record).into());
        }
        if record.state.is_open() {
            check_still_valid(network, parsed).await?;
        }
        Ok(true)
    }

    /// Settles a payment once.
    ///
    /// # Errors
    /// [`SettleError`].
    pub async fn settle(
        &self,
        request: &SettlementRequest,
        origin: RequestOrigin,
    ) -> Result<SettleOutcome, SettleError> {
        let settler = match self.settler(request) {
            Ok(settler) => settler,
            Err(rejection) => return Ok(SettleOutcome::Rejected(rejection)),
        };
        let clock = &settler.network.clock;
        let deadline = clock.mono_ms().saturating_add(self.wait_ms.min(WAIT_MAX_MS));
        // Parse without admission checks: a payment that they would reject now, such as an expired one, may be
        // settled already.
        let outcome = match verify::parse(&settler.network, request) {
            Ok(parsed) => self.settle_until(settler, &parsed, origin, deadline).await,
            Err(fault) => Err(fault.into()),
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(EarlyExit::Verify(VerifyError::Rejected(rejection))) => {
                Ok(SettleOutcome::Rejected(rejection))
            }
            Err(EarlyExit::Verify(VerifyError::Malformed(fault))) => Err(fault.into()),
            Err(EarlyExit::Verify(VerifyError::Chain(fault))) => {
                Err(SettleError::Unavailable(fault.to_string()))
            }
            Err(EarlyExit::Verify(VerifyError::Store(fault))) => {
                Err(SettleError::Unavailable(fault))
            }
            Err(EarlyExit::Settle(error)) => Err(error),
        }
    }

    async fn settle_until(
        &self,
        settler: &Arc<Settler>,
        parsed: &ParsedPayment,
        origin: RequestOrigin,
        deadline: u64,
    ) -> Result<SettleOutcome, EarlyExit> {
        let key = parsed.key(settler.network.contracts.chain);
        let repeat = || RequestContext { parsed, origin, right: None, may_try_again: true };
        let (mut attempts, mut uncertain) = (0, false);
        if let Some(known) = self.ledger.find(key).await.map_err(SettleError::from)? {
            if let Some(outcome) = self.known_outcome(settler, repeat(), &known, deadline).await? {
                return Ok(outcome);
            }
            attempts = known.record().attempts;
            uncertain = is_uncertain(known.record());
        }
        let outcome = self.settle_new(settler, parsed, origin, attempts, deadline).await;
        let is_refusal = matches!(
            outcome,
            Ok(SettleOutcome::Rejected(_))
                | Err(EarlyExit::Verify(VerifyError::Rejected(_))
                    | EarlyExit::Settle(SettleError::Busy))
        );
        if !is_refusal {
            return outcome;
        }
        // The payment may have been accepted for a concurrent request in the meantime.
        if let Some(known) = self.ledger.find(key).await.map_err(SettleError::from)? {
            if let Some(other) = self.known_outcome(settler, repeat(), &known, deadline).await? {
                return Ok(other);
            }
            uncertain |= is_uncertain(known.record());
        }
        if uncertain {
            // A node may still have an earlier transaction of this payment, so a refusal would not be final.
            let why = "the outcome of an earlier transaction of this payment is not known yet";
            return Err(SettleError::Unavailable(why.to_owned()).into());
        }
        outcome
    }

    /// Settles a payment that is new or has failed before.
    async fn settle_new(
        &self,
        settler: &Arc<Settler>,
        parsed: &ParsedPayment,
        origin: RequestOrigin,
        attempts: u8,
        deadline: u64,
    ) -> Result<SettleOutcome, EarlyExit> {
        let network = &settler.network;
        self.admit(network, parsed).map_err(VerifyError::from)?;
        // cancel-safe: a completed lookup stays cached for the next request, and an incomplete one is dropped.
        let price = tokio::select! {
            price = settler.price() => price.map_err(VerifyError::Chain)?,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timed_out()).into()),
        };
        self.check_cheapest_affordable(settler, parsed, origin, &price)
            .map_err(VerifyError::from)?;
        // cancel-safe: nothing is accepted before it is verified.
        let verified = tokio::select! {
            verified = self.check_in_nonce_order(settler, parsed, deadline) => verified,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timed_out()).into()),
        };
        let Verified { payment, balance, gas } = match verified {
            Ok(verified) => verified,
            Err(EarlyExit::Verify(VerifyError::Rejected(rejection))) => {
                let key = parsed.key(network.contracts.chain);
                let known = self.ledger.find(key).await.map_err(SettleError::from)?;
                let failed = |known: Lookup| matches!(known.record().state, State::Failed { .. });
                if known.is_none_or(failed) {
                    return self
                        .settled_by_another(settler, parsed, origin, (rejection, deadline))
                        .await;
                }
                // A concurrent request with the same nonce was faster. `settle_until` looks at its payment.
                return Ok(SettleOutcome::Rejected(rejection));
            }
            Err(stop) => return Err(stop),
        };
        let payer = payment.terms.payer;
        if settler.wasteful_payers.get(&payer, network.clock.mono_ms()).is_some() {
            let why = "The payer's last payment cost gas and moved no money: wait a minute.";
            return Ok(Rejection::with_message(Reason::TransactionFailed, why)
                .for_payer(payer)
                .into());
        }
        let need = settler.need_of(&payment, gas);
        let claim = self.claim_room(settler, &payment, balance, (origin.caller, need), &price)?;
        let record = Record {
            payment,
            accepted_at: network.clock.utc(),
            since_block: price.block,
            attempts,
            state: State::Queued,
            gas: need.reservation.gas,
            gas_of: origin.caller,
            asked: origin,
            answered: None,
        };
        let (accepted, right) = self.accept_and_enqueue(settler, record, claim).await?;
        let context = RequestContext { parsed, origin, right, may_try_again: false };
        let outcome = self.known_outcome(settler, context, &accepted.lookup, deadline).await?;
        let requeued =
            || SettleError::Unavailable("the payment was queued again by another task".to_owned());
        Ok(outcome.ok_or_else(requeued)?)
    }

    /// Claims room for a payment. Caps the payer's open payments by count and balance, and the gas of all open
    /// payments by the signers' coin and the budgets. Payments that are valid alone may exceed these limits together.
    fn claim_room(
        &self,
        settler: &Settler,
        payment: &Payment,
        balance: U256,
        (caller, need): (B256, Need),
        price: &Price,
    ) -> Result<Claim, EarlyExit> {
        if self.ledger.open_count() >= OPEN_MAX {
            return Err(SettleError::Busy.into());
        }
        let terms = &payment.terms;
        let now = settler.network.clock.utc();
        // Payments that ended during the check have reduced the signers' balances.
        let newest = settler.prices.last();
        let price = newest.as_deref().unwrap_or(price);
        self.ledger.claim(payment, (caller, need.reservation), now, |usage: &Usage| {
            if usage.count >= OPEN_PER_PAYER_MAX {
                return Err(EarlyExit::from(SettleError::Busy));
            }
            if usage.amount.saturating_add(terms.amount) > balance {
                let rejection = Rejection::from(Reason::InsufficientBalance).for_payer(terms.payer);
                return Err(VerifyError::Rejected(rejection).into());
            }
            budget::check_affordable(&settler.network.config, price, payment, need, &usage.gas)
                .map_err(|rejection| VerifyError::Rejected(rejection).into())
        })
    }

    /// Stores a payment and queues it, even if the caller hangs up meanwhile. Returns the right to its success if the
    /// payment was new.
    async fn accept_and_enqueue(
        &self,
        settler: &Arc<Settler>,
        record: Record,
        claim: Claim,
    ) -> Result<(Accepted, Option<SuccessRight>), EarlyExit> {
        let (ledger, settler) = (self.ledger.clone(), Arc::clone(settler));
        let (success_rights, origin, key) =
            (self.success_rights.clone(), record.asked, record.payment.key());
        let tasks = settler.tasks.clone();
        let accepting = tasks.spawn(async move {
            settler.failpoints.pass("settle.before accept");
            let accepted = ledger.accept(record).await?;
            // From here on the ledger counts the payment as open.
            drop(claim);
            settler.failpoints.pass("settle.after accept");
            let right = if accepted.new { success_rights.take(key, origin) } else { None };
            if accepted.new
                && let Lookup::Open(record, _progress) = &accepted.lookup
            {
                settler.enqueue(Arc::clone(record));
            }
            Ok::<_, StoreFault>((accepted, right))
        });
        let accepted = accepting
            .await
            .map_err(|_ended| SettleError::Unavailable("the facilitator is stopping".to_owned()))?;
        Ok(accepted.map_err(SettleError::from)?)
    }

    /// What a request receives for a known payment: the outcome, or a pending answer at the deadline. `None` if the
    /// payment has failed and may be tried again.
    async fn known_outcome(
        &self,
        settler: &Arc<Settler>,
        context: RequestContext<'_>,
        known: &Lookup,
        deadline: u64,
    ) -> Result<Option<SettleOutcome>, EarlyExit> {
        let record = known.record();
        let (key, payer) = (record.payment.key(), record.payment.terms.payer);
        // Only a request with the very same payment receives its outcome.
        if !verify::is_same_payment(context.parsed, &record.payment) {
            let failed = matches!(record.state, State::Failed { .. });
            return Ok((!failed).then(|| duplicate(context.parsed, record).into()));
        }
        if record.state.is_open() && record.answered.is_some() {
            // A reorganisation undid the settlement after its success was returned. The payment is settled again, and
            // never withdrawn.
            return Ok(Some(duplicate(context.parsed, record).into()));
        }
        let Lookup::Open(_record, progress) = known else {
            return Ok(self.final_outcome(settler, context, record).await?);
        };
        if wait(settler, progress.clone(), deadline).await == WaitEnd::TimedOut {
            let due_by = deadline.saturating_add(DUE_MS);
            let deciding = Arc::clone(settler);
            // A separate task, so that a withdrawal completes even if its caller hangs up.
            let deciding =
                settler.tasks.spawn(async move { deciding.decide_due_answer(key).await });
            // cancel-safe: the task continues.
            let due = tokio::select! {
                due = deciding => match due {
                    Ok(due) => due.map_err(SettleError::from)?,
                    Err(_ended) => DueAnswer::Uncertain,
                },
                () = settler.network.clock.sleep_until(due_by) => DueAnswer::Uncertain,
            };
            match due {
                DueAnswer::Known(hash) => return Ok(Some(SettleOutcome::Pending { hash, payer })),
                DueAnswer::Withdrawn(reason) => {
                    return Ok(Some(Rejection::from(reason).for_payer(payer).into()));
                }
                DueAnswer::Uncertain => {
                    let why = "no node reports whether it has the payment's transaction";
                    return Err(SettleError::Unavailable(why.to_owned()).into());
                }
                DueAnswer::Ended => {}
            }
        }
        match self.ledger.find(key).await.map_err(SettleError::from)? {
            Some(Lookup::Ended(record)) => {
                let context = RequestContext { may_try_again: false, ..context };
                Ok(self.final_outcome(settler, context, &record).await?)
            }
            Some(Lookup::Open(..)) | None => {
                let why = "a reorganisation removed the block of the payment";
                Err(SettleError::Unavailable(why.to_owned()).into())
            }
        }
    }

    /// The outcome of a payment for a request. `None` if the payment is open, or has failed and may be tried again.
    ///
    /// # Errors
    /// A failure of the store, or an outcome that is not known.
    async fn final_outcome(
        &self,
        settler: &Settler,
        context: RequestContext<'_>,
        record: &Record,
    ) -> Result<Option<SettleOutcome>, SettleError> {
        let payer = record.payment.terms.payer;
        Ok(match &record.state {
            State::Settled { hash, .. } => {
                let settled = |repeated, right| SettleOutcome::Settled {
                    hash: *hash,
                    payer,
                    repeated,
                    right,
                };
                let share = match context.right {
                    Some(right) => Share::Own(right),
                    None => self.success_rights.share(record, context.origin),
                };
                // Read the record again: the answer to the previous holder of the right may have been written since.
                let another_has_it = self.was_returned_to_another(record, context.origin).await?;
                Some(match share {
                    Share::Own(right) if !another_has_it => settled(false, Some(right)),
                    Share::WithHolder(right) if !another_has_it => settled(true, Some(right)),
                    Share::Again => settled(true, None),
                    Share::Own(_) | Share::WithHolder(_) | Share::None => {
                        duplicate(context.parsed, record).into()
                    }
                })
            }
            // A failed payment may be tried again, but not right after it has cost several transactions.
            State::Failed { reason, message, at } => {
                let now = settler.network.clock.utc();
                let is_cooling_down =
                    record.attempts >= ATTEMPTS_MAX && now.since_ms(*at) < COOLDOWN_MS;
                let is_final = !context.may_try_again || is_cooling_down;
                // A node may still have the transaction, so the answer must not look like a refusal.
                if is_final && *reason == Reason::UnexpectedSettle {
                    let why = "no node reports whether it has the payment's transaction";
                    return Err(SettleError::Unavailable(why.to_owned()));
                }
                let rejection = Rejection::with_message(*reason, message.clone()).for_payer(payer);
                is_final.then(|| rejection.into())
            }
            State::Queued | State::Sent { .. } => None,
        })
    }

    /// Whether the success of a payment was returned to another request than this one.
    async fn was_returned_to_another(
        &self,
        record: &Record,
        origin: RequestOrigin,
    ) -> Result<bool, StoreFault> {
        let known = self.ledger.find(record.payment.key()).await?;
        Ok(known.is_some_and(|known| {
            let record = known.record();
            record.answered.is_some() && !origin.repeats(&record.asked)
        }))
    }

    /// Checks a payment. If its nonce is rejected while the preceding payment is in flight, waits for that payment
    /// to end and checks again.
    async fn check_in_nonce_order(
        &self,
        settler: &Settler,
        parsed: &ParsedPayment,
        deadline: u64,
    ) -> Result<Verified, EarlyExit> {
        loop {
            let fault = match verify::check(&settler.network, parsed, Priority::Batched).await {
                Ok(verified) => return Ok(verified),
                Err(fault) => fault,
            };
            let VerifyError::Rejected(rejection) = &fault else { return Err(fault.into()) };
            if rejection.reason != Reason::PrismNonce {
                return Err(fault.into());
            }
            let Some(preceding) = preceding_key(settler, parsed) else { return Err(fault.into()) };
            let known = self.ledger.find(preceding).await.map_err(SettleError::from)?;
            let Some(Lookup::Open(_record, progress)) = known else { return Err(fault.into()) };
            if wait(settler, progress, deadline).await == WaitEnd::TimedOut {
                return Err(fault.into());
            }
        }
    }

    /// Records a payment as settled if its nonce is used and another sender's transaction settled it. Otherwise
    /// returns the refusal.
    async fn settled_by_another(
        &self,
        settler: &Arc<Settler>,
        parsed: &ParsedPayment,
        origin: RequestOrigin,
        (rejection, deadline): (Rejection, u64),
    ) -> Result<SettleOutcome, EarlyExit> {
        let used = [Reason::NonceUsed, Reason::Permit2Nonce];
        if !used.contains(&rejection.reason) {
            return Ok(SettleOutcome::Rejected(rejection));
        }
        let network = &settler.network;
        let find = async {
            let payment = verify::signed_payment(network, parsed).await?;
            // A caller without a valid signature must not learn the outcome, and a contract's signature cannot be
            // checked here.
            if !verify::is_signed_by_key(&payment) {
                return Ok(None);
            }
            let found = settlement_search::find_recent(settler, &payment)
                .await
                .map_err(VerifyError::Chain)?;
            Ok::<_, VerifyError>(found.map(|found| (payment, found)))
        };
        // cancel-safe: the search only reads.
        let found = tokio::select! {
            found = find => found?,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timed_out()).into()),
        };
        let Some((payment, (hash, block))) = found else {
            return Ok(SettleOutcome::Rejected(rejection));
        };
        let at = network.clock.utc();
        let key = payment.key();
        let batch = Batch::foreign(fresh_id().map_err(SettleError::from)?, &payment, hash);
        let record = Record {
            payment,
            accepted_at: at,
            since_block: block,
            attempts: 0,
            state: State::Settled { hash, block, at },
            gas: 0,
            gas_of: origin.caller,
            asked: origin,
            answered: None,
        };
        let kept = self.ledger.record_foreign(record.clone(), batch.clone()).await;
        let existing = kept.map_err(SettleError::from)?;
        if existing.is_none() {
            settler.watch_settlement(batch);
        }
        let right = if existing.is_none() { self.success_rights.take(key, origin) } else { None };
        let context = RequestContext { parsed, origin, right, may_try_again: false };
        let outcome =
            self.final_outcome(settler, context, existing.as_ref().unwrap_or(&record)).await?;
        // `None`: the payment is in flight for another request. `settle_until` waits for its outcome.
        Ok(outcome.unwrap_or(SettleOutcome::Rejected(rejection)))
    }
}

/// Checks that a payment in flight can still be settled. Ignores a used nonce, because the payment's own transaction
/// probably used it.
async fn check_still_valid(
    network: &NetworkContext,
    parsed: &ParsedPayment,
) -> Result<(), VerifyError> {
    match verify::check(network, parsed, Priority::Now).await {
        Err(VerifyError::Rejected(rejection)) if is_used(&rejection) => Ok(()),
        other => other.map(|_verified| ()),
    }
}

fn is_used(rejection: &Rejection) -> bool {
    [Reason::NonceUsed, Reason::Permit2Nonce, Reason::PrismNonce].contains(&rejection.reason)
}

/// Whether a node may still have the transaction of a failed payment.
fn is_uncertain(record: &Record) -> bool {
    matches!(record.state, State::Failed { reason: Reason::UnexpectedSettle, .. })
}

/// The refusal of a duplicate. If the payment is settled, a caller with the identical payment also receives the hash.
fn duplicate(parsed: &ParsedPayment, record: &Record) -> Rejection {
    let rejection = Rejection::from(Reason::Duplicate).for_payer(record.payment.terms.payer);
    match &record.state {
        State::Settled { hash, .. } if verify::is_same_payment(parsed, &record.payment) => {
            rejection.settled_in(*hash)
        }
        State::Settled { .. } | State::Queued | State::Sent { .. } | State::Failed { .. } => {
            rejection
        }
    }
}

/// The fault for nodes that do not answer in time.
fn timed_out() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

/// The key of the payment with the preceding nonce. Meaningful only for methods that count nonces per payer and
/// token.
fn preceding_key(settler: &Settler, parsed: &ParsedPayment) -> Option<PaymentKey> {
    let nonce = U256::from_be_bytes(parsed.terms.nonce.0).checked_sub(U256::from(1))?;
    let mut terms = parsed.terms.clone();
    terms.nonce = B256::new(nonce.to_be_bytes());
    Some(PaymentKey::of(settler.network.contracts.chain, parsed.method.id(), &terms))
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    Ended,
    TimedOut,
}

/// Waits until a payment has ended, at most until the deadline or the stop of the facilitator. Cancel-safe.
async fn wait(
    settler: &Settler,
    mut progress: watch::Receiver<Progress>,
    deadline: u64,
) -> WaitEnd {
    let over = |progress: &Progress| matches!(progress, Progress::Ended(_));
    // cancel-safe: all branches only wait.
    tokio::select! {
        // An error also means that the payment has ended: its entry, which holds the sender, was dropped.
        _found = progress.wait_for(over) => WaitEnd::Ended,
        () = settler.network.clock.sleep_until(deadline) => WaitEnd::TimedOut,
        // Unfinished work resumes at the next start.
        () = settler.stopping.cancelled() => WaitEnd::TimedOut,
    }
}

/// Why a settlement stops early.
#[derive(Debug)]
enum EarlyExit {
    Verify(VerifyError),
    Settle(SettleError),
}

impl From<VerifyError> for EarlyExit {
    fn from(error: VerifyError) -> Self {
        Self::Verify(error)
    }
}

impl From<SettleError> for EarlyExit {
    fn from(error: SettleError) -> Self {
        Self::Settle(error)
    }
}
