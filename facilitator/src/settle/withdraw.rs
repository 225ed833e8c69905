//! Decides payments that are in no block when their answer is due. If a node has the transaction, the answer is
//! pending; otherwise the payment is withdrawn.
//!
//! The transaction of a withdrawn payment was never signed, or it is not broadcast again and a no-op uses its nonce.

use std::ops::ControlFlow;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_chain::ports::ChainFault;
use bursar_outbox::service::{Broadcasts, ServiceOutbox, SubmitFault};
use bursar_outbox::store::StoreFault;
use bursar_rows::StoreError;
use bursar_submit::{Kind, Outcome, Refusal, Submission, SubmissionId, Trouble};

use crate::book::ledger::Lookup;
use crate::book::record::{Record, State};
use crate::book::reservation::GasReservation;
use crate::job_key::JobKey;
use crate::reason::Reason;
use crate::settle::price::SignerNeed;
use crate::settle::settler::Settler;
use crate::settle::submission_lock::{NodeAnswers, NodeKnowledge};

/// Maximum number of attempts to decide a payment whose state changes during each attempt.
const DECISION_TRIES_MAX: usize = 4;

/// How long nodes have to report whether they have a transaction, in milliseconds.
const NODE_REPORT_TIMEOUT_MS: u64 = 1_000;
/// How long the nodes' answer is cached, in milliseconds.
const ANSWER_CACHE_MS: u64 = 500;

/// The state of a payment whose answer is due.
#[derive(Debug)]
pub(super) enum DueAnswer {
    /// A node has this transaction.
    Known(B256),
    /// The payment will not happen.
    Withdrawn(Reason),
    /// The outcome is unknown: the transaction may still be mined, even if the payment was withdrawn.
    Uncertain,
    /// The payment has ended in the meantime.
    Ended,
}

impl Settler {
    /// Asks whether a node has the transaction of a payment, and withdraws the payment if no node has it.
    ///
    /// # Errors
    /// A failure of the store. The state of the payment is then unknown.
    pub(super) async fn decide_due_answer(&self, key: JobKey) -> Result<DueAnswer, StoreFault> {
        for _again in 0..DECISION_TRIES_MAX {
            let Some(Lookup::Open(record, _progress)) = self.ledger.find(key).await? else {
                return Ok(DueAnswer::Ended);
            };
            match record.state.clone() {
                State::Queued => {
                    let reason = self.queued_reason(&record);
                    if self.withdraw(&record, State::Queued, reason).await? {
                        return Ok(DueAnswer::Withdrawn(reason));
                    }
                }
                State::Sent { batch } => {
                    if let Some(due) = self.withdraw_sent(&record, batch).await? {
                        return Ok(due);
                    }
                }
                State::Settled { .. }
                | State::SettledElsewhere { .. }
                | State::Failed { .. }
                | State::Closed { .. } => {
                    return Ok(DueAnswer::Ended);
                }
            }
        }
        // The payment changed during every attempt, so it is making progress.
        Ok(DueAnswer::Uncertain)
    }

    /// Decides a payment that is part of a transaction. Returns `None` if its state changed during the check.
    async fn withdraw_sent(
        &self,
        record: &Record,
        batch: SubmissionId,
    ) -> Result<Option<DueAnswer>, StoreFault> {
        let Some(lock) = self.submission_locks.get(batch) else { return Ok(None) };
        let mut answers = lock.answers.lock().await;
        let Some(slot) = self.signer_slots.get(&lock.signer) else {
            // The payment cannot be withdrawn, because its signer was removed from the settings.
            return Ok(Some(DueAnswer::Uncertain));
        };
        let outbox = &slot.outbox;
        let submission = outbox.outbox().open.get(&batch).cloned();
        let mut uncertain = false;
        if answers.cannot_be_mined {
            // The decision about another payment of this transaction has shown that it cannot be mined.
        } else if let Some(submission) = &submission {
            match self.cancel_open(outbox, batch, submission, &mut answers).await? {
                ControlFlow::Continue(is_uncertain) => uncertain = is_uncertain,
                ControlFlow::Break(answer) => return Ok(answer),
            }
        } else {
            match outbox.outcome(batch).await? {
                // The transaction was not submitted and will not be, or it was given up before it was signed.
                None | Some(Outcome::Dropped) => {}
                // Nodes report that another transaction used the nonce. If the report is wrong, the payment may still
                // be made.
                Some(Outcome::NonceTaken) => return Ok(Some(DueAnswer::Uncertain)),
                Some(
                    Outcome::Succeeded { .. }
                    | Outcome::Reverted { .. }
                    | Outcome::Cancelled { .. },
                ) => {
                    // The task that follows the transaction reads its effects.
                    self.pause(50).await;
                    return Ok(None);
                }
            }
        }
        let reason = match submission.and_then(|submission| submission.trouble) {
            // This rejection is not final, because a node may have the transaction.
            _any if uncertain => Reason::UnexpectedSettle,
            Some(trouble) => reason_of(trouble),
            None => Reason::Withdrawn,
        };
        if !self.withdraw(record, State::Sent { batch }, reason).await? {
            return Ok(None);
        }
        self.failpoints.pass("settle.after withdraw");
        Ok(Some(if uncertain { DueAnswer::Uncertain } else { DueAnswer::Withdrawn(reason) }))
    }

    /// Cancels an open submission. `Continue` contains whether its payments may still be made. `Break` contains the due
    /// answer if a node has the transaction, or `None` if the submission is already in a block or has ended.
    async fn cancel_open(
        &self,
        outbox: &Arc<ServiceOutbox>,
        batch: SubmissionId,
        submission: &Submission,
        answers: &mut NodeAnswers,
    ) -> Result<ControlFlow<Option<DueAnswer>, bool>, StoreFault> {
        let now = self.network.clock.mono_ms();
        let nodes = match answers.last {
            Some((nodes, at)) if now.saturating_sub(at) < ANSWER_CACHE_MS => nodes,
            _long_ago => {
                let nodes = self.ask_nodes(submission).await;
                answers.last = Some((nodes, now));
                nodes
            }
        };
        let known = |hash| Ok(ControlFlow::Break(Some(DueAnswer::Known(hash))));
        let mut uncertain = match nodes {
            NodeKnowledge::HasTransaction(hash) => return known(hash),
            NodeKnowledge::LacksTransaction => false,
            NodeKnowledge::Unknown => submission.is_signed(),
        };
        self.failpoints.pass("settle.before withdraw");
        if !self.cancel_submission(outbox, batch).await? {
            return Ok(ControlFlow::Break(None));
        }
        // After the cancel no new broadcast starts, but one may be in progress.
        let until = now.saturating_add(NODE_REPORT_TIMEOUT_MS);
        // cancel-safe: both branches only wait.
        tokio::select! {
            () = outbox.broadcasts_ended(batch) => {}
            () = self.network.clock.sleep_until(until) => {}
        }
        // A node may still receive the bytes of a broadcast that was not answered.
        uncertain |= outbox.broadcasts(batch) != Broadcasts::default();
        let outbox_now = outbox.outbox();
        let submission = outbox_now.open.get(&batch);
        if let Some(signed) = submission.filter(|submission| submission.is_signed()) {
            match self.ask_nodes(signed).await {
                NodeKnowledge::HasTransaction(hash) => return known(hash),
                NodeKnowledge::LacksTransaction => answers.cannot_be_mined = !uncertain,
                NodeKnowledge::Unknown => uncertain = true,
            }
        }
        Ok(ControlFlow::Continue(uncertain))
    }

    /// Asks whether a node has the transaction of a submission, for at most [`NODE_REPORT_TIMEOUT_MS`].
    async fn ask_nodes(&self, submission: &Submission) -> NodeKnowledge {
        let clock = &self.network.clock;
        let until = clock.mono_ms().saturating_add(NODE_REPORT_TIMEOUT_MS);
        // cancel-safe: a question changes nothing.
        tokio::select! {
            known = self.known_hash(submission) => match known {
                Ok(Some(hash)) => NodeKnowledge::HasTransaction(hash),
                Ok(None) => NodeKnowledge::LacksTransaction,
                Err(fault) => {
                    tracing::warn!(%fault, "could not ask the nodes whether they have a transaction");
                    NodeKnowledge::Unknown
                }
            },
            () = clock.sleep_until(until) => NodeKnowledge::Unknown,
        }
    }

    /// The newest transaction of a submission that carries out its call and that a node has.
    async fn known_hash(&self, submission: &Submission) -> Result<Option<B256>, ChainFault> {
        let newest_first = submission.attempts.iter().rev();
        let calls = newest_first.filter(|attempt| attempt.kind == Kind::Call);
        let mut unanswered = None;
        for hash in calls.filter_map(|attempt| Some(attempt.raw.as_ref()?.hash)) {
            match self.network.chain.is_known_anywhere(hash).await {
                Ok(true) => return Ok(Some(hash)),
                Ok(false) => {}
                Err(fault) => unanswered = Some(fault),
            }
        }
        unanswered.map_or(Ok(None), Err)
    }

    /// Cancels a submission. Returns `false` if it is already in a block or has ended.
    async fn cancel_submission(
        &self,
        outbox: &Arc<ServiceOutbox>,
        batch: SubmissionId,
    ) -> Result<bool, StoreFault> {
        match outbox.cancel(batch).await {
            Ok(()) => Ok(true),
            Err(SubmitFault::Refused(Refusal::TooLate | Refusal::Unknown)) => {
                // The task that follows the submission reads its outcome.
                self.pause(50).await;
                Ok(false)
            }
            Err(SubmitFault::Refused(fault)) => Err(StoreError::Bug(fault.to_string()).into()),
            Err(SubmitFault::Store(fault)) => Err(fault),
        }
    }

    /// Ends a payment as failed. Returns `false` if its state is no longer `from`.
    async fn withdraw(
        &self,
        record: &Record,
        from: State,
        reason: Reason,
    ) -> Result<bool, StoreFault> {
        let at = self.network.clock.utc();
        let state = State::Failed { reason, message: reason.sentence().to_owned(), at };
        self.ledger.transition(&record.job, from, state, record.attempts).await
    }

    /// The reason for withdrawing a payment that is still queued.
    pub(super) fn queued_reason(&self, record: &Record) -> Reason {
        let Some(price) = self.prices.last() else { return Reason::Withdrawn };
        let senders = self.free_senders(record.job.work().sender());
        let need = SignerNeed { reservation: record.reservation(), senders };
        if !price.is_within_gas_price_max {
            Reason::GasTooHigh
        } else if !price.can_pay(&need, GasReservation::default()) {
            Reason::OutOfGas
        } else {
            Reason::Withdrawn
        }
    }
}

fn reason_of(trouble: Trouble) -> Reason {
    match trouble {
        Trouble::Unfunded => Reason::OutOfGas,
        Trouble::TooExpensive => Reason::GasTooHigh,
        Trouble::Underpriced | Trouble::Refused | Trouble::NonceJump => Reason::Withdrawn,
    }
}
