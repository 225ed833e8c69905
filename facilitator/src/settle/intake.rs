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
use crate::book::ledger::{Acceptance, Ledger, Lookup, Progress, RoomClaim, Usage};
use crate::book::record::{ATTEMPTS_MAX, Record, RequestOrigin, State};
use crate::book::redb_store::fresh_id;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::Sponsoring;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;
use crate::scheme::{Proposal, Proposed, Scheme};
use crate::schemes;
use crate::settle::price::{Price, SignerNeed};
use crate::settle::settlement_search::FoundSettlement;
use crate::settle::settler::Settler;
use crate::settle::success_rights::{
    ForeignSettlements, SuccessRight, SuccessRights, SuccessShare,
};
use crate::settle::withdraw::DueAnswer;
use crate::settle::{budget, settlement_search};
use crate::transfer::terms_check::Purpose;
use crate::verify::{ValidAnswer, VerifiedJob, VerifyError};
use crate::work::{AnswerContent, Effect};

/// Maximum number of payments in flight; one more would wait too long.
pub const OPEN_PAYMENTS_MAX: usize = 20_000;
/// Maximum number of payments in flight per payer.
const OPEN_PER_PAYER_MAX: usize = 256;

/// Maximum number of payments in flight per payer and token that include an EIP-2612 permit. The token accepts only one
/// permit per nonce, and a second payment with a permit of the same nonce would fail at the signer's cost.
const PERMITS_PER_PAYER_MAX: usize = 1;
/// Maximum number of payments in flight that include a signed approval: per payer, and in total. For each of them,
/// nodes are queried until the approval is mined.
const APPROVALS_PER_PAYER_MAX: usize = 4;
const APPROVALS_MAX: usize = 256;

/// Pause before a payment may be retried after its last permitted transaction failed, in milliseconds.
const COOLDOWN_MS: i64 = 10 * 60_000;

/// How long an answer waits after its deadline until nodes report whether they have the transaction, in milliseconds.
const NODE_REPORT_WAIT_MS: u64 = 1_500;

/// Maximum time until an answer, in milliseconds. Includes the time to withdraw the payment.
const ANSWER_MS_MAX: u64 = 10_000;
const WAIT_MAX_MS: u64 = ANSWER_MS_MAX - NODE_REPORT_WAIT_MS;

/// The outcome of a request to settle.
#[derive(Debug)]
pub enum SettleOutcome {
    /// The job has succeeded.
    Settled {
        /// The transaction of the job; `None` if the job needed none.
        hash: Option<B256>,
        payer: Option<Address>,
        /// The further content of the answer. Boxed, because the other outcomes are small.
        content: Box<AnswerContent>,
        /// Whether another request receives this success too, or received it before.
        repeated: bool,
        /// Held until the response is written or its connection fails.
        right: Option<SuccessRight>,
    },
    /// The transaction is in flight: a node has it.
    Pending {
        hash: B256,
        payer: Option<Address>,
    },
    Rejected(Rejection),
}

impl From<Rejection> for SettleOutcome {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// Why there is no outcome for a settle request.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] bursar_x402::error::X402Error),
    /// Nodes or the disk failed. Either the payment was not accepted, or its state is unknown.
    #[error("{0}")]
    Unavailable(String),
    /// Too many payments are in flight, in total or for this payer.
    #[error("too many payments are in flight")]
    Busy,
}

impl From<StoreFault> for SettleError {
    fn from(fault: StoreFault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// The error for an outcome that is not known.
fn unavailable(why: &str) -> SettleError {
    SettleError::Unavailable(why.to_owned())
}

/// Verifies and settles payments on all networks of a facilitator.
#[derive(Debug)]
pub struct SettlementService {
    pub settlers: BTreeMap<ChainId, Arc<Settler>>,
    pub ledger: Ledger,
    /// Addresses that may be paid; if empty, any address may be paid.
    pub payees: BTreeSet<Address>,
    /// How long an answer waits for a block, in milliseconds.
    pub wait_ms: u64,
    pub success_rights: SuccessRights,
    /// The answer to requests for payments that this book did not settle.
    pub foreign_settlements: ForeignSettlements,
    /// The failpoints of tests.
    pub failpoints: Arc<dyn Failpoints>,
}

/// The right of a request to the pending answer of a payment.
enum PendingClaim {
    /// Only this request gets the pending answer.
    Owned(SuccessRight),
    /// The request gets the pending answer along with other requests, or the payment has ended.
    Shared,
    /// Another requester has the pending answer, or the right to it. Contains the record of the payment.
    OwnedByAnother(Box<Record>),
}

/// Why the outcome of a payment is not known after a reorganisation.
const REORGANISED_MESSAGE: &str = "a reorganisation removed the block of the payment";

/// A request to settle a payment, and whether it may receive the success and retry a failed payment.
struct RequestContext<'a> {
    proposal: &'a dyn Proposal,
    origin: RequestOrigin,
    /// Present if the payment was accepted because of this request.
    success_right: Option<SuccessRight>,
    /// Whether a payment that failed before may be settled again for this request.
    may_retry_failed: bool,
}

impl SettlementService {
    /// The scheme that a request names, and the settler of its network.
    fn choose(
        &self,
        request: &SettlementRequest,
    ) -> Result<(&'static dyn Scheme, &Arc<Settler>), Rejection> {
        let (scheme, chain) = schemes::scheme_and_network(request)?;
        let settler = self.settlers.get(&chain).ok_or(Reason::UnsupportedNetwork)?;
        Ok((scheme, settler))
    }

    fn admit(&self, network: &NetworkContext, proposal: &dyn Proposal) -> Result<(), Rejection> {
        self.check_payees(&proposal.payees(), proposal.payer())?;
        proposal.admit(network)
    }

    /// Rejects payees that are not in the settings.
    fn check_payees(&self, payees: &[Address], payer: Option<Address>) -> Result<(), Rejection> {
        if self.payees.is_empty() || payees.iter().all(|payee| self.payees.contains(payee)) {
            return Ok(());
        }
        Err(Rejection::from(Reason::PayeeNotServed).for_payer(payer))
    }

    /// Rejects a job if even the cheapest job of its kind is not affordable. Runs before nodes are queried
    /// about the payment. Checks the gas price, the signers' balances and the day's budgets.
    fn check_cheapest_affordable(
        &self,
        settler: &Settler,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        price: &Price,
    ) -> Result<(), Rejection> {
        let reject = |reason: Reason| Rejection::from(reason).for_payer(proposal.payer());
        if !price.is_within_gas_price_max {
            return Err(reject(Reason::GasTooHigh));
        }
        let network = &settler.network;
        let now = network.clock.utc();
        let usage = self.ledger.gas_usage(network.contracts.chain, origin.caller, now);
        let reservation = price.with_data(proposal.gas_min(), 1);
        let need = SignerNeed { reservation, senders: settler.free_senders(proposal.sender()) };
        if need.senders.as_ref().is_some_and(Vec::is_empty) {
            const PAUSED_MESSAGE: &str = "Another program uses the keys of this facilitator's signers, so they take no payments \
                                  now and the payment was not made: try again in ten minutes or elsewhere.";
            return Err(Rejection::with_message(Reason::OutOfGas, PAUSED_MESSAGE)
                .for_payer(proposal.payer()));
        }
        if !price.can_pay(&need, usage.network_reserved) {
            return Err(reject(Reason::OutOfGas));
        }
        if budget::is_within_budgets(&network.config, price, reservation, &usage) {
            Ok(())
        } else {
            Err(reject(Reason::GasBudget))
        }
    }

    /// Checks that a payment is valid and that this caller may have it settled. Changes nothing.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub async fn verify(
        &self,
        request: &SettlementRequest,
        requester: &Requester,
    ) -> Result<ValidAnswer, VerifyError> {
        let (scheme, settler) = self.choose(request)?;
        let clock = &settler.network.clock;
        let deadline = clock.mono_ms().saturating_add(ANSWER_MS_MAX);
        // cancel-safe: the verification changes nothing.
        tokio::select! {
            verified = self.verify_with_scheme(scheme, settler, request, requester) => verified,
            () = clock.sleep_until(deadline) => Err(VerifyError::Chain(timeout_fault())),
        }
    }

    async fn verify_with_scheme(
        &self,
        scheme: &dyn Scheme,
        settler: &Arc<Settler>,
        request: &SettlementRequest,
        requester: &Requester,
    ) -> Result<ValidAnswer, VerifyError> {
        let network = &settler.network;
        match scheme.propose(network, request, Purpose::Verify, requester).await? {
            Proposed::Job(proposal) => self.verify_job(settler, &*proposal, requester.origin).await,
            Proposed::Statement(statement) => {
                self.check_payees(&statement.payees(), statement.payer())?;
                statement.check(network).await
            }
        }
    }

    async fn verify_job(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
    ) -> Result<ValidAnswer, VerifyError> {
        let known = self.ledger.find(proposal.key()).await;
        let known = known.map_err(|fault| VerifyError::Store(fault.to_string()))?;
        let is_known_uncertain = known.is_some_and(|known| is_uncertain(known.record()));
        match self.verify_new(settler, proposal, origin).await {
            // An earlier transaction of this payment may have used the nonce, so a rejection would not be final.
            Err(VerifyError::Rejected(rejection))
                if is_known_uncertain && rejection.reason != Reason::Duplicate =>
            {
                Err(VerifyError::Chain(timeout_fault()))
            }
            verified => verified,
        }
    }

    async fn verify_new(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
    ) -> Result<ValidAnswer, VerifyError> {
        let network = &settler.network;
        let valid = |extra| ValidAnswer { payer: proposal.payer(), extra };
        if self.verify_known(network, proposal, origin).await? {
            return Ok(valid(None));
        }
        self.admit(network, proposal)?;
        let price = settler.price().await?;
        self.check_cheapest_affordable(settler, proposal, origin, &price)?;
        let verified = match proposal.check(network, Priority::Now).await {
            Ok(verified) => verified,
            // A copy may have been accepted and settled since the look-up.
            Err(VerifyError::Rejected(rejection)) if is_nonce_used(&rejection) => {
                if self.verify_known(network, proposal, origin).await? {
                    return Ok(valid(None));
                }
                // Nothing is recorded: only `/settle` follows the other sender's transaction.
                return match self.find_settlement(settler, proposal, &rejection).await? {
                    Some((job, found)) if self.is_foreign(&job, found.is_ours) => {
                        Err(duplicate_rejection_with_hash(proposal, Some(found.hash)).into())
                    }
                    Some(_ours) => Ok(valid(None)),
                    None => Err(rejection.into()),
                };
            }
            Err(fault) => return Err(fault),
        };
        let need = settler.need_of(&verified.job, verified.gas);
        let usage =
            self.ledger.gas_usage(network.contracts.chain, origin.caller, network.clock.utc());
        budget::check_affordable(&network.config, &price, &verified.job, &need, &usage)?;
        Ok(valid(verified.extra))
    }

    /// Returns whether a payment is in the book and its success may be returned for this request. `false` if it is not
    /// in the book, or failed and may be tried again.
    ///
    /// # Errors
    /// The payment is a duplicate, or can no longer be settled.
    async fn verify_known(
        &self,
        network: &NetworkContext,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
    ) -> Result<bool, VerifyError> {
        let known = self.ledger.find(proposal.key()).await;
        let known = known.map_err(|fault| VerifyError::Store(fault.to_string()))?;
        let Some(known) = known else { return Ok(false) };
        let record = known.record();
        if matches!(record.state, State::Failed { .. }) {
            let is_promised = proposal.is_same_job(&record.job)
                && self.is_pending_answer_of_another(record, origin);
            return if is_promised {
                Err(duplicate_rejection(proposal, record).into())
            } else {
                Ok(false)
            };
        }
        let shares = proposal.is_same_job(&record.job)
            && !self.is_settled_elsewhere(record)
            && self.success_rights.would_share(record, origin);
        if !shares {
            return Err(duplicate_rejection(proposal, record).into());
        }
        if record.state.is_open() {
            check_still_valid(network, proposal).await?;
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
        requester: &Requester,
    ) -> Result<SettleOutcome, SettleError> {
        let (scheme, settler) = match self.choose(request) {
            Ok(chosen) => chosen,
            Err(rejection) => return Ok(SettleOutcome::Rejected(rejection)),
        };
        let clock = &settler.network.clock;
        let deadline = clock.mono_ms().saturating_add(self.wait_ms.min(WAIT_MAX_MS));
        // Parses the request without admission checks. They would reject a payment that has expired since, although it
        // may be settled already.
        // cancel-safe: reading a request changes nothing.
        let proposed = tokio::select! {
            proposed = scheme.propose(&settler.network, request, Purpose::Settle, requester) => proposed,
            () = clock.sleep_until(deadline) => Err(VerifyError::Chain(timeout_fault())),
        };
        let outcome = match proposed {
            Ok(Proposed::Job(proposal)) => {
                self.settle_until(settler, &*proposal, requester.origin, deadline).await
            }
            Ok(Proposed::Statement(statement)) => {
                let rejection = Rejection::from(statement.settle_refusal());
                Ok(rejection.for_payer(statement.payer()).into())
            }
            Err(fault) => Err(fault.into()),
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(EarlyExit::Settle(error)) => Err(error),
            Err(EarlyExit::Verify(error)) => match error {
                VerifyError::Rejected(rejection) => Ok(SettleOutcome::Rejected(rejection)),
                VerifyError::Malformed(fault) => Err(fault.into()),
                VerifyError::Chain(fault) => Err(SettleError::Unavailable(fault.to_string())),
                VerifyError::Store(fault) => Err(SettleError::Unavailable(fault)),
            },
        }
    }

    async fn settle_until(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        deadline: u64,
    ) -> Result<SettleOutcome, EarlyExit> {
        let key = proposal.key();
        let repeat =
            || RequestContext { proposal, origin, success_right: None, may_retry_failed: true };
        let (mut attempts, mut uncertain) = (0, false);
        if let Some(known) = self.ledger.find(key).await? {
            if let Some(outcome) = self.known_outcome(settler, repeat(), &known, deadline).await? {
                return Ok(outcome);
            }
            attempts = known.record().attempts;
            uncertain = is_uncertain(known.record());
            if uncertain && proposal.is_same_job(&known.record().job) {
                let found = self
                    .find_uncertain(settler, proposal, origin, known.record(), deadline)
                    .await?;
                if let Some(outcome) = found {
                    return Ok(outcome);
                }
            }
        }
        let outcome = self.settle_new(settler, proposal, origin, attempts, deadline).await;
        let is_refusal = matches!(
            outcome,
            Ok(SettleOutcome::Rejected(_))
                | Err(EarlyExit::Verify(VerifyError::Rejected(_))
                    | EarlyExit::Settle(SettleError::Busy))
        );
        if !is_refusal {
            return outcome;
        }
        // A concurrent request may have led to the acceptance of the payment in the meantime.
        if let Some(known) = self.ledger.find(key).await? {
            if let Some(other) = self.known_outcome(settler, repeat(), &known, deadline).await? {
                return Ok(other);
            }
            uncertain |= is_uncertain(known.record());
        }
        if uncertain {
            // A node may still have an earlier transaction of this payment, so a refusal would not be final.
            let why = "the outcome of an earlier transaction of this payment is not known yet";
            return Err(unavailable(why).into());
        }
        outcome
    }

    /// Settles a payment that is new or has failed before.
    async fn settle_new(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        attempts: u8,
        deadline: u64,
    ) -> Result<SettleOutcome, EarlyExit> {
        let network = &settler.network;
        self.admit(network, proposal).map_err(VerifyError::from)?;
        if !proposal.needs_transaction() {
            // cancel-safe: nothing is accepted before it is verified.
            let verified = tokio::select! {
                verified = proposal.check(network, Priority::Batched) => verified?,
                () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timeout_fault()).into()),
            };
            return self.close(settler, proposal, (verified.job, origin), deadline).await;
        }
        // cancel-safe: a completed lookup stays cached for the next request, and an incomplete one is dropped.
        let price = tokio::select! {
            price = settler.price() => price.map_err(VerifyError::Chain)?,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timeout_fault()).into()),
        };
        self.check_cheapest_affordable(settler, proposal, origin, &price)
            .map_err(VerifyError::from)?;
        // cancel-safe: nothing is accepted before it is verified.
        let verified = tokio::select! {
            verified = self.check_in_nonce_order(settler, proposal, deadline) => verified,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timeout_fault()).into()),
        };
        let VerifiedJob { job, balance, gas, is_done, extra: _ } = match verified {
            Ok(verified) => verified,
            Err(EarlyExit::Verify(VerifyError::Rejected(rejection))) => {
                let known = self.ledger.find(proposal.key()).await?;
                let not_failed = |one: Lookup| !matches!(one.record().state, State::Failed { .. });
                if known.is_some_and(not_failed) {
                    // A concurrent request with the same nonce was faster. `settle_until` looks at its payment.
                    return Ok(SettleOutcome::Rejected(rejection));
                }
                let refused = (rejection, deadline);
                return self.record_settlement_by_another(settler, proposal, origin, refused).await;
            }
            Err(stop) => return Err(stop),
        };
        if is_done {
            return self.close(settler, proposal, (job, origin), deadline).await;
        }
        let (payer, account) = (proposal.payer(), job.work().account());
        if settler.wasteful_payers.get(&account, network.clock.mono_ms()).is_some() {
            let why = "The payer's last payment cost gas and moved no money: wait a minute before the next one.";
            let reason = job.work().failed_reason();
            return Ok(Rejection::with_message(reason, why).for_payer(payer).into());
        }
        let need = settler.need_of(&job, gas);
        let claim = self.claim_room(settler, &job, balance, (origin.caller, &need), &price)?;
        let record = Record {
            job,
            accepted_at: network.clock.utc(),
            since_block: price.block,
            attempts,
            state: State::Queued,
            gas: need.reservation.gas,
            gas_caller: origin.caller,
            origin,
            pending_returned: false,
            success_returned_at: None,
        };
        let (accepted, right) = self.accept_and_enqueue(settler, record, Some(claim)).await?;
        let context =
            RequestContext { proposal, origin, success_right: right, may_retry_failed: false };
        let outcome = self.known_outcome(settler, context, &accepted.lookup, deadline).await?;
        Ok(outcome.ok_or_else(|| unavailable("the payment was queued again by another task"))?)
    }

    /// Ends a job that needs no transaction as a success. Its authorization can no longer be used after that.
    async fn close(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        (job, origin): (Job, RequestOrigin),
        deadline: u64,
    ) -> Result<SettleOutcome, EarlyExit> {
        let at = settler.network.clock.utc();
        let record = Record {
            job,
            accepted_at: at,
            since_block: 0,
            attempts: 0,
            state: State::Closed { at },
            gas: 0,
            gas_caller: origin.caller,
            origin,
            pending_returned: false,
            success_returned_at: None,
        };
        let (accepted, success_right) = self.accept_and_enqueue(settler, record, None).await?;
        let context = RequestContext { proposal, origin, success_right, may_retry_failed: false };
        let outcome = self.known_outcome(settler, context, &accepted.lookup, deadline).await?;
        Ok(outcome.ok_or_else(|| unavailable("another settlement of this payment failed"))?)
    }

    /// Claims room for a payment. Caps the payer's open payments by count and balance, and the gas of all open
    /// payments by the signers' coin and the budgets. Payments that are valid alone may exceed these limits together.
    fn claim_room(
        &self,
        settler: &Settler,
        job: &Job,
        balance: U256,
        (caller, need): (B256, &SignerNeed),
        price: &Price,
    ) -> Result<RoomClaim, EarlyExit> {
        let is_approval = matches!(job.work().sponsoring(), Some(Sponsoring::Approval(_)));
        if self.ledger.open_count() >= OPEN_PAYMENTS_MAX
            || is_approval && self.ledger.approval_count() >= APPROVALS_MAX
        {
            return Err(SettleError::Busy.into());
        }
        let (payer, moves) = (job.work().payer(), job.work().moved_amount());
        let now = settler.network.clock.utc();
        // Payments that ended during the check have reduced the signers' balances.
        let newest = settler.prices.last();
        let price = newest.as_deref().unwrap_or(price);
        self.ledger.claim(job, (caller, need.reservation), now, |usage: &Usage| {
            let is_busy = usage.count >= OPEN_PER_PAYER_MAX
                || match job.work().sponsoring() {
                    None => false,
                    Some(Sponsoring::Permit(_)) => usage.permits >= PERMITS_PER_PAYER_MAX,
                    Some(Sponsoring::Approval(_)) => usage.approvals >= APPROVALS_PER_PAYER_MAX,
                };
            if is_busy {
                return Err(EarlyExit::from(SettleError::Busy));
            }
            if usage.amount.saturating_add(moves.amount) > balance {
                let rejection = Rejection::from(Reason::InsufficientBalance).for_payer(payer);
                return Err(VerifyError::Rejected(rejection).into());
            }
            budget::check_affordable(&settler.network.config, price, job, need, &usage.gas)
                .map_err(|rejection| VerifyError::Rejected(rejection).into())
        })
    }

    /// Stores a payment and queues it, even if the caller hangs up meanwhile. Returns the right to its success if the
    /// payment was new.
    async fn accept_and_enqueue(
        &self,
        settler: &Arc<Settler>,
        record: Record,
        claim: Option<RoomClaim>,
    ) -> Result<(Acceptance, Option<SuccessRight>), EarlyExit> {
        let (ledger, settler) = (self.ledger.clone(), Arc::clone(settler));
        let (success_rights, origin, key) =
            (self.success_rights.clone(), record.origin, record.key());
        let tasks = settler.tasks.clone();
        let accepting = tasks.spawn(async move {
            settler.failpoints.pass("settle.before accept");
            let accepted = ledger.accept(record).await?;
            // The ledger now counts the payment as open, so the claim is no longer needed.
            drop(claim);
            settler.failpoints.pass("settle.after accept");
            let right = if accepted.new { success_rights.try_take(key, origin) } else { None };
            if accepted.new
                && let Lookup::Open(record, _progress) = &accepted.lookup
            {
                settler.enqueue(Arc::clone(record));
            }
            Ok::<_, StoreFault>((accepted, right))
        });
        let accepted = accepting.await;
        Ok(accepted.map_err(|_ended| unavailable("the facilitator is stopping"))??)
    }

    /// Returns the outcome of a known payment for a request, or a pending answer at the deadline. `None` if the payment
    /// has failed and may be tried again.
    async fn known_outcome(
        &self,
        settler: &Arc<Settler>,
        mut context: RequestContext<'_>,
        known: &Lookup,
        deadline: u64,
    ) -> Result<Option<SettleOutcome>, EarlyExit> {
        let record = known.record();
        let origin = context.origin;
        let (key, payer) = (record.key(), record.job.work().payer());
        // Only a request with the identical job receives the outcome.
        if !context.proposal.is_same_job(&record.job) {
            // If the outcome of a failed job is unknown, its transaction may still be mined.
            let failed = matches!(record.state, State::Failed { .. }) && !is_uncertain(record);
            return Ok((!failed).then(|| duplicate_rejection(context.proposal, record).into()));
        }
        if record.state.is_open() && record.success_returned_at.is_some() {
            // A reorganisation undid the settlement after its success was returned. The payment is settled again, and
            // never withdrawn.
            return match origin.repeats(&record.origin) {
                true => Err(unavailable(REORGANISED_MESSAGE).into()),
                false => Ok(Some(duplicate_rejection(context.proposal, record).into())),
            };
        }
        if !record.state.is_success() && self.is_pending_answer_of_another(record, origin) {
            // The other requester may have delivered. If the payment failed, that requester will settle it again.
            return Ok(Some(duplicate_rejection(context.proposal, record).into()));
        }
        let Lookup::Open(_record, progress) = known else {
            return Ok(self.final_outcome(settler, context, record).await?);
        };
        // cancel-safe: both only wait.
        let waited = tokio::select! {
            waited = wait(settler, progress.clone(), deadline) => waited,
            // No signer can pay, so waiting until the deadline would not change the answer.
            () = settler.wait_until_unfunded(record) => WaitEnd::TimedOut,
        };
        if waited == WaitEnd::TimedOut {
            if context.success_right.is_none() {
                match self.claim_pending(key, origin).await? {
                    PendingClaim::Owned(right) => context.success_right = Some(right),
                    PendingClaim::Shared => {}
                    PendingClaim::OwnedByAnother(record) => {
                        return Ok(Some(duplicate_rejection(context.proposal, &record).into()));
                    }
                }
            }
            let due_by = deadline.saturating_add(NODE_REPORT_WAIT_MS);
            let decider = Arc::clone(settler);
            // A separate task completes a withdrawal even if the caller disconnects.
            let deciding = settler.tasks.spawn(async move { decider.decide_due_answer(key).await });
            // cancel-safe: the task continues.
            let due = tokio::select! {
                due = deciding => match due {
                    Ok(due) => due?,
                    Err(_ended) => DueAnswer::Uncertain,
                },
                () = settler.network.clock.sleep_until(due_by) => DueAnswer::Uncertain,
            };
            match due {
                DueAnswer::Known(hash) => {
                    // Our transaction may be in a block without effect, if another sender made the payment. On a
                    // pending answer, this merchant could deliver in addition to the one that got the success.
                    let other = self.find_foreign_settlement(settler, record, due_by).await;
                    if other.is_some() {
                        let rejection = duplicate_rejection_with_hash(context.proposal, other);
                        return Ok(Some(rejection.into()));
                    }
                    // The promise is stored before the answer is sent, because the requester may deliver on the answer.
                    if !self.success_rights.repeats_for_all() {
                        self.ledger.record_pending_returned(key, origin).await?;
                    }
                    return Ok(Some(SettleOutcome::Pending { hash, payer }));
                }
                DueAnswer::Withdrawn(reason) => {
                    return Ok(Some(Rejection::from(reason).for_payer(payer).into()));
                }
                DueAnswer::Uncertain => {
                    let why = "no node reports whether it has the payment's transaction";
                    return Err(unavailable(why).into());
                }
                DueAnswer::Ended => {}
            }
        }
        match self.ledger.find(key).await? {
            Some(Lookup::Ended(record)) => {
                let context = RequestContext { may_retry_failed: false, ..context };
                Ok(self.final_outcome(settler, context, &record).await?)
            }
            Some(Lookup::Open(..)) | None => Err(unavailable(REORGANISED_MESSAGE).into()),
        }
    }

    /// Claims the pending answer of a payment for a request whose deadline has passed. Only the first requester gets a
    /// pending answer, because it may deliver.
    async fn claim_pending(
        &self,
        key: JobKey,
        origin: RequestOrigin,
    ) -> Result<PendingClaim, EarlyExit> {
        let Some(known) = self.ledger.find(key).await? else { return Ok(PendingClaim::Shared) };
        let share = self.success_rights.share(known.record(), origin);
        // Read the record again: another requester may have got the pending answer before this request had the right.
        let Some(known) = self.ledger.find(key).await? else { return Ok(PendingClaim::Shared) };
        let record = known.record();
        Ok(match share {
            _any if record.state.ended_at().is_some() => PendingClaim::Shared,
            _any if !self.success_rights.may_return_to(record, origin) => {
                PendingClaim::OwnedByAnother(Box::new(record.clone()))
            }
            SuccessShare::Own(right) => PendingClaim::Owned(right),
            SuccessShare::WithHolder(_) | SuccessShare::Again => PendingClaim::Shared,
            // This request and the one that got the pending answer have the same caller and no idempotency key.
            SuccessShare::None if record.pending_returned => PendingClaim::Shared,
            SuccessShare::None => PendingClaim::OwnedByAnother(Box::new(record.clone())),
        })
    }

    /// Returns the transaction of another sender that has made a payment in flight. Returns `None` also if no node
    /// answers in time; the payment's own transaction then decides.
    async fn find_foreign_settlement(
        &self,
        settler: &Settler,
        record: &Record,
        deadline: u64,
    ) -> Option<B256> {
        if !self.is_foreign(&record.job, false) {
            return None;
        }
        let found = find_until(settler, record, deadline).await.ok().flatten();
        found.filter(|found| !found.is_ours).map(|found| found.hash)
    }

    /// Whether another requester received the pending answer of a payment, and no requester received its success.
    fn is_pending_answer_of_another(&self, record: &Record, origin: RequestOrigin) -> bool {
        record.success_returned_at.is_none() && !self.success_rights.may_return_to(record, origin)
    }

    /// Whether requests for a job receive no success, because this book did not settle it.
    fn is_foreign(&self, job: &Job, is_ours: bool) -> bool {
        !is_ours
            && job.work().is_purchase()
            && self.foreign_settlements == ForeignSettlements::Duplicate
    }

    fn is_settled_elsewhere(&self, record: &Record) -> bool {
        let is_ours = !matches!(record.state, State::SettledElsewhere { .. });
        self.is_foreign(&record.job, is_ours)
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
        let payer = record.job.work().payer();
        if self.is_settled_elsewhere(record) {
            return Ok(Some(duplicate_rejection(context.proposal, record).into()));
        }
        Ok(match &record.state {
            State::Settled { .. } | State::SettledElsewhere { .. } | State::Closed { .. } => {
                let effect = effect_of(&record.state);
                let settled = |repeated, right| SettleOutcome::Settled {
                    hash: settled_in(&record.state),
                    payer,
                    content: Box::new(record.job.work().content(&effect)),
                    repeated,
                    right,
                };
                let share = match context.success_right {
                    Some(right) => SuccessShare::Own(right),
                    None => self.success_rights.share(record, context.origin),
                };
                // Reads the record again: the previous holder of the right may have received the success since.
                let another_has_it = self.was_returned_to_another(record, context.origin).await?;
                Some(match share {
                    SuccessShare::Own(right) if !another_has_it => settled(false, Some(right)),
                    SuccessShare::WithHolder(right) if !another_has_it => {
                        settled(true, Some(right))
                    }
                    SuccessShare::Again => settled(true, None),
                    SuccessShare::Own(_) | SuccessShare::WithHolder(_) | SuccessShare::None => {
                        duplicate_rejection(context.proposal, record).into()
                    }
                })
            }
            // A failed payment may be tried again, but not right after it has cost several transactions.
            State::Failed { reason, message, at } => {
                let now = settler.network.clock.utc();
                let is_cooling_down =
                    record.attempts >= ATTEMPTS_MAX && now.since_ms(*at) < COOLDOWN_MS;
                let is_final = !context.may_retry_failed || is_cooling_down;
                // A node may still have the transaction, so the answer must not look like a refusal.
                if is_final && *reason == Reason::UnexpectedSettle {
                    let why = "no node reports what became of the payment's transaction";
                    return Err(unavailable(why));
                }
                let rejection = Rejection::with_message(*reason, message.clone()).for_payer(payer);
                is_final.then(|| rejection.into())
            }
            State::Queued | State::Sent { .. } => None,
        })
    }

    /// Whether the success of a payment was returned or promised to another request than this one.
    async fn was_returned_to_another(
        &self,
        record: &Record,
        origin: RequestOrigin,
    ) -> Result<bool, StoreFault> {
        let known = self.ledger.find(record.key()).await?;
        Ok(known.is_some_and(|known| !known.record().may_return_success_to(&origin)))
    }

    /// Checks a payment. If its nonce is rejected while the preceding payment is in flight, waits for that payment
    /// to end and checks again.
    async fn check_in_nonce_order(
        &self,
        settler: &Settler,
        proposal: &dyn Proposal,
        deadline: u64,
    ) -> Result<VerifiedJob, EarlyExit> {
        loop {
            let fault = match proposal.check(&settler.network, Priority::Batched).await {
                Ok(verified) => return Ok(verified),
                Err(fault) => fault,
            };
            let VerifyError::Rejected(rejection) = &fault else { return Err(fault.into()) };
            if rejection.reason != Reason::PrismNonce {
                return Err(fault.into());
            }
            let Some(preceding) = proposal.preceding_key() else { return Err(fault.into()) };
            let known = self.ledger.find(preceding).await?;
            let Some(Lookup::Open(_record, progress)) = known else { return Err(fault.into()) };
            if wait(settler, progress, deadline).await == WaitEnd::TimedOut {
                return Err(fault.into());
            }
        }
    }

    /// The transaction that settled a payment whose nonce is used. `None` if its nonce is not used, or if no recent
    /// transaction settled the payment.
    async fn find_settlement(
        &self,
        settler: &Settler,
        proposal: &dyn Proposal,
        rejection: &Rejection,
    ) -> Result<Option<(Job, FoundSettlement)>, VerifyError> {
        let used = [Reason::NonceUsed, Reason::Permit2Nonce];
        if !used.contains(&rejection.reason) {
            return Ok(None);
        }
        // A caller without a valid signature must not learn the outcome.
        let Some(job) = proposal.signed_by_key(&settler.network).await? else { return Ok(None) };
        let found =
            settlement_search::find_recent(settler, &job).await.map_err(VerifyError::Chain)?;
        Ok(found.map(|found| (job, found)))
    }

    /// Records a payment as settled if its nonce is used and a transaction on the chain settled it. Otherwise returns
    /// the rejection.
    async fn record_settlement_by_another(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        (rejection, deadline): (Rejection, u64),
    ) -> Result<SettleOutcome, EarlyExit> {
        let network = &settler.network;
        // cancel-safe: the search only reads.
        let found = tokio::select! {
            found = self.find_settlement(settler, proposal, &rejection) => found?,
            () = network.clock.sleep_until(deadline) => return Err(VerifyError::Chain(timeout_fault()).into()),
        };
        let Some(found) = found else { return Ok(SettleOutcome::Rejected(rejection)) };
        // `None`: the payment is in flight for another request. `settle_until` waits for its outcome.
        let outcome = self.record_found(settler, proposal, origin, found).await?;
        Ok(outcome.unwrap_or(SettleOutcome::Rejected(rejection)))
    }

    /// Looks again for the transaction that made a payment of unknown outcome.
    async fn find_uncertain(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        record: &Record,
        deadline: u64,
    ) -> Result<Option<SettleOutcome>, EarlyExit> {
        match find_until(settler, record, deadline).await.map_err(VerifyError::Chain)? {
            Some(found) => {
                self.record_found(settler, proposal, origin, (record.job.clone(), found)).await
            }
            None => Ok(None),
        }
    }

    /// Records the transaction that settled a payment, and returns the outcome for a request. `None` if the payment is
    /// in flight for another request.
    async fn record_found(
        &self,
        settler: &Arc<Settler>,
        proposal: &dyn Proposal,
        origin: RequestOrigin,
        (job, found): (Job, FoundSettlement),
    ) -> Result<Option<SettleOutcome>, EarlyExit> {
        let at = settler.network.clock.utc();
        let key = job.work().key();
        let batch = Batch::of_found_transaction(fresh_id()?, &job, found.hash);
        let record = Record {
            job,
            accepted_at: at,
            since_block: found.block,
            attempts: 0,
            state: found.state(at),
            gas: 0,
            gas_caller: origin.caller,
            origin,
            pending_returned: false,
            success_returned_at: None,
        };
        let existing = self.ledger.record_found(record.clone(), batch.clone()).await?;
        let mut success_right = None;
        if existing.is_none() {
            settler.watch_settlement(batch);
            success_right = self.success_rights.try_take(key, origin);
        }
        let context = RequestContext { proposal, origin, success_right, may_retry_failed: false };
        Ok(self.final_outcome(settler, context, existing.as_ref().unwrap_or(&record)).await?)
    }
}

/// Checks that a payment in flight can still be settled. Ignores a used nonce, because the payment's own transaction
/// probably used it.
async fn check_still_valid(
    network: &NetworkContext,
    proposal: &dyn Proposal,
) -> Result<(), VerifyError> {
    match proposal.check(network, Priority::Now).await {
        Err(VerifyError::Rejected(rejection)) if is_nonce_used(&rejection) => Ok(()),
        other => other.map(|_verified| ()),
    }
}

fn is_nonce_used(rejection: &Rejection) -> bool {
    [Reason::NonceUsed, Reason::Permit2Nonce, Reason::PrismNonce].contains(&rejection.reason)
}

/// Whether a node may still have the transaction of a failed payment.
fn is_uncertain(record: &Record) -> bool {
    matches!(record.state, State::Failed { reason: Reason::UnexpectedSettle, .. })
}

/// The transaction of a settled job.
fn settled_in(state: &State) -> Option<B256> {
    state.settlement().map(|(hash, _block)| hash)
}

/// The effect of a settled job.
fn effect_of(state: &State) -> Effect {
    match state {
        State::Settled { effect, .. } | State::SettledElsewhere { effect, .. } => *effect,
        State::Closed { .. } | State::Queued | State::Sent { .. } | State::Failed { .. } => {
            Effect::default()
        }
    }
}

/// The refusal of a duplicate. If the job is settled, a caller with the identical job also receives the hash.
fn duplicate_rejection(proposal: &dyn Proposal, record: &Record) -> Rejection {
    let hash = settled_in(&record.state).filter(|_hash| proposal.is_same_job(&record.job));
    duplicate_rejection_with_hash(proposal, hash).for_payer(record.job.work().payer())
}

/// The refusal of a duplicate, with the transaction if the caller may know it.
fn duplicate_rejection_with_hash(proposal: &dyn Proposal, hash: Option<B256>) -> Rejection {
    const NO_HASH: &str =
        "This payment, or another with its nonce, is settled or being settled: do not pay again.";
    let message = proposal.duplicate_message().or(hash.is_none().then_some(NO_HASH));
    let rejection = match message {
        Some(message) => Rejection::with_message(Reason::Duplicate, message),
        None => Reason::Duplicate.into(),
    };
    let rejection = rejection.for_payer(proposal.payer());
    match hash {
        Some(hash) => rejection.with_settlement(hash),
        None => rejection,
    }
}

/// The fault for nodes that do not answer in time.
fn timeout_fault() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

/// Searches for the transaction that made a recorded payment, until the deadline at most. Cancel-safe.
async fn find_until(
    settler: &Settler,
    record: &Record,
    deadline: u64,
) -> Result<Option<FoundSettlement>, ChainFault> {
    // cancel-safe: the search only reads.
    tokio::select! {
        found = settlement_search::find(settler, &record.job, record.since_block) => found,
        () = settler.network.clock.sleep_until(deadline) => Err(timeout_fault()),
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    Ended,
    TimedOut,
}

/// Waits until a payment has ended, until the deadline, or until the facilitator stops. Cancel-safe.
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

/// Why a request to settle ends early.
#[derive(Debug, thiserror::Error)]
enum EarlyExit {
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Settle(#[from] SettleError),
}

impl From<StoreFault> for EarlyExit {
    fn from(fault: StoreFault) -> Self {
        Self::Settle(fault.into())
    }
}
