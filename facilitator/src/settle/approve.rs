//! Approvals that payers signed. Each is broadcast until Permit2 has the allowance that a job needs, and only then is
//! the job sent. The job is on disk before the first broadcast, so after a restart the same bytes are broadcast again.

use std::sync::Arc;

use alloy_primitives::U256;
use alloy_sol_types::SolCall;
use bursar_chain::chain_tasks;
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_submit::SendAnswer;

use crate::book::record::Record;
use crate::contract_call::ContractCall;
use crate::node::Priority;
use crate::reads::{self, CallOutcome, Reads, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::schemes;
use crate::settle::settler::Settler;
use crate::settle::watch;
use crate::transfer::approval::{AllowanceRule, Approval};
use crate::transfer::erc20::IErc20;
use crate::verify::VerifyError;

/// How long a job waits for its approval, in milliseconds. Its caller waits less.
const APPROVAL_WAIT_MS_MAX: u64 = 60_000;

/// How often an approval that is in no block is broadcast again, in milliseconds.
const REBROADCAST_INTERVAL_MS: u64 = 2_000;

/// How long a broadcast may take, in milliseconds. Nodes that do not answer in time receive the approval again.
const BROADCAST_TIMEOUT_MS: u64 = 1_000;

/// Number of refused broadcasts in a row after which an approval is given up.
const REFUSALS_MAX: u8 = 3;

/// Number of consecutive reads that must find an approval's nonce used without the allowance. A single read may come
/// from a node that does not know the newest block.
const NONCE_USED_READS_MIN: u8 = 3;

/// The state of an approval on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalState {
    /// Permit2 has the allowance.
    AllowanceReady,
    /// A transaction of the payer has used the approval's nonce, and the allowance is missing.
    NonceUsed,
    /// The approval is in no block yet.
    NotMined,
}

impl Settler {
    /// Queues a payment.
    ///
    /// If the payment includes an approval, queues it only after the approval.
    pub fn enqueue(self: &Arc<Self>, record: Arc<Record>) {
        let sponsoring = record.job.work().sponsoring();
        if sponsoring.is_some_and(|sponsoring| sponsoring.approval().is_some()) {
            self.tasks.spawn(approve_and_queue(Arc::clone(self), record));
        } else {
            self.queue(record);
        }
    }
}

/// Queues a job once Permit2 has the allowance that it needs. Ends the job if that does not happen in time.
async fn approve_and_queue(settler: Arc<Settler>, record: Arc<Record>) {
    let stopping = settler.stopping.clone();
    // cancel-safe: the job is on disk as queued, and the next start begins again.
    tokio::select! {
        () = stopping.cancelled() => {}
        () = approve(&settler, record) => {}
    }
}

async fn approve(settler: &Arc<Settler>, record: Arc<Record>) {
    let network = &settler.network;
    let Some(approval) = Approval::of(&network.contracts, record.job.work()) else {
        let why = "The settings of the network have changed since the approval was accepted: send the request again.";
        let rejection = Rejection::with_message(Reason::ApprovalFailed, why);
        return watch::end_refused(settler, &record, rejection).await;
    };
    let until_ms = network.clock.mono_ms().saturating_add(APPROVAL_WAIT_MS_MAX);
    let (mut seen, mut sent_ms) = (None::<u64>, None::<u64>);
    let (mut refusals, mut spent) = (0_u8, 0_u8);
    // A withdrawn job is no longer queued.
    while settler.ledger.is_queued(&record) {
        if let Err(reason) = record.job.work().check_time(network.now_seconds()) {
            return watch::end_refused(settler, &record, reason.into()).await;
        }
        // A reorganisation may have removed the block of a job whose success was returned. Such a job is given up only
        // when it expires.
        if network.clock.mono_ms() >= until_ms && record.success_returned_at.is_none() {
            return watch::end_refused(settler, &record, Reason::Withdrawn.into()).await;
        }
        let head = network.head.block(&*network.chain, &*network.clock).await.ok();
        // Without a new block the state is the same. But if the nonce was used, the state is read again, because
        // another node may answer.
        let state = if head.is_some() && head == seen && spent == 0 {
            Ok(ApprovalState::NotMined)
        } else {
            read_state(settler, &record, &approval).await
        };
        match state {
            Ok(found) => {
                seen = head;
                spent = if found == ApprovalState::NonceUsed { spent.saturating_add(1) } else { 0 };
                if found == ApprovalState::AllowanceReady || spent >= NONCE_USED_READS_MIN {
                    if try_to_queue(settler, &record, found).await {
                        return;
                    }
                    // The check used a node that does not know the newest block yet, so it did not find the allowance.
                    seen = None;
                }
            }
            Err(fault) => tracing::debug!(%fault, "an approval could not be read"),
        }
        let now_ms = network.clock.mono_ms();
        if sent_ms.is_none_or(|sent| now_ms.saturating_sub(sent) >= REBROADCAST_INTERVAL_MS) {
            let is_refused = broadcast(settler, &approval, sent_ms.is_some()).await;
            sent_ms = Some(now_ms);
            refusals = if is_refused { refusals.saturating_add(1) } else { 0 };
            if refusals >= REFUSALS_MAX {
                let rejection = Reason::ApprovalBroadcast.into();
                return watch::end_refused(settler, &record, rejection).await;
            }
        }
        settler.pause(network.config.poll_ms).await;
    }
}

/// Checks a job whose approval is mined or can no longer be mined. Hands the job to the dispatcher or ends it. Returns
/// `false` if that cannot be decided yet.
async fn try_to_queue(settler: &Arc<Settler>, record: &Arc<Record>, found: ApprovalState) -> bool {
    let rule = AllowanceRule::Required;
    match schemes::check_again(&settler.network, &record.job, rule).await {
        Ok(()) => settler.queue(Arc::clone(record)),
        Err(VerifyError::Rejected(rejection)) if watch::is_missing_allowance(rejection.reason) => {
            if found != ApprovalState::NonceUsed {
                return false;
            }
            watch::end_refused(settler, record, Reason::ApprovalFailed.into()).await;
        }
        Err(VerifyError::Rejected(rejection)) => {
            watch::end_refused(settler, record, rejection).await;
        }
        Err(fault) => {
            tracing::debug!(%fault, "an approved job could not be checked");
            return false;
        }
    }
    true
}

/// Reads whether an approval is mined, and whether Permit2 has the allowance.
async fn read_state(
    settler: &Settler,
    record: &Record,
    approval: &Approval,
) -> Result<ApprovalState, ChainFault> {
    let chain = &settler.network.chain;
    let (owner, moves) = (record.job.work().account(), record.job.work().moved_amount());
    // Read the nonce first: if it is used, the allowance that is read afterwards includes the approval.
    let nonce = chain.transaction_count(owner, BlockTag::Latest).await?;
    let spender = settler.network.contracts.permit2;
    let question = IErc20::allowanceCall { owner, spender }.abi_encode();
    let call = ContractCall { to: moves.token, data: question.into() };
    let is_trusted = settler.network.trusts_token(moves.token);
    let wanted =
        Reads { calls: vec![call], gas: UNTRUSTED_CALL_GAS, is_trusted, ..Reads::default() };
    let answers = reads::read(&settler.network, wanted, Priority::Batched).await?;
    let outcome = answers.outcomes.and_then(|mut outcomes| outcomes.pop());
    let returned = outcome.and_then(CallOutcome::returned_data);
    let allowance = returned.as_ref().and_then(reads::number).unwrap_or(U256::ZERO);
    Ok(if allowance >= moves.amount {
        ApprovalState::AllowanceReady
    } else if nonce > approval.nonce {
        ApprovalState::NonceUsed
    } else {
        ApprovalState::NotMined
    })
}

/// Broadcasts an approval as the payer signed it, to one node the first time and to all nodes after that. Returns
/// whether a node refused the approval.
async fn broadcast(settler: &Settler, approval: &Approval, again: bool) -> bool {
    settler.failpoints.pass("settle.before approval");
    // cancel-safe: a broadcast without an answer is repeated.
    let answer = tokio::select! {
        answer = chain_tasks::send(&*settler.network.chain, &approval.raw, again) => answer,
        () = settler.pause(BROADCAST_TIMEOUT_MS) => SendAnswer::Unclear,
    };
    settler.failpoints.pass("settle.after approval");
    match answer {
        // These answers are not refusals. If the nonce is used, the next read shows it. An underpriced approval may be
        // mined later, or the pool may contain another transaction with its nonce.
        SendAnswer::Accepted
        | SendAnswer::AlreadyKnown
        | SendAnswer::NonceTooLow
        | SendAnswer::Underpriced
        | SendAnswer::Unclear => false,
        SendAnswer::Unfunded | SendAnswer::Refused => true,
    }
}
