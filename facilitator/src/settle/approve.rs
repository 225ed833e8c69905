//! Approvals that payers signed: each is broadcast until Permit2 has the allowance that a job needs. Only then may the
//! job be sent. The job is on disk before, so a restart broadcasts the same bytes again.

use std::sync::Arc;

use alloy_primitives::U256;
use alloy_sol_types::SolCall;
use bursar_chain::chain_tasks;
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_submit::SendAnswer;

use crate::book::record::{Record, State};
use crate::reads;
use crate::reason::{Reason, Rejection};
use crate::schemes;
use crate::settle::settler::Settler;
use crate::transfer::approval::Approval;
use crate::transfer::erc20::IErc20;
use crate::verify::VerifyError;

/// Maximum number of broadcasts that nodes may refuse before the approval is given up.
const REFUSALS_MAX: u8 = 3;

/// How often an approval without a block is broadcast again, in milliseconds.
const AGAIN_MS: u64 = 2_000;

/// How an approval stands.
enum Progress {
    /// Permit2 has the allowance.
    Given,
    /// A transaction of the payer has used the approval's nonce, and the allowance is missing.
    Spent,
    /// It is in no block yet.
    Waiting,
}

impl Settler {
    /// Queues a payment for a transaction, after its approval if it brings one.
    pub fn enqueue(self: &Arc<Self>, record: Arc<Record>) {
        if record.job.work().approval().is_some() {
            self.tasks.spawn(approve_and_queue(Arc::clone(self), record));
        } else {
            self.queue(record);
        }
    }
}

/// Queues a job once Permit2 has the allowance that it needs. Ends the job if its approval can no longer be mined.
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
    let Some(approval) = Approval::of(network, record.job.work()) else {
        // The settings of the network have changed since the job was accepted.
        return fail(settler, &record, Reason::ApprovalParse.into()).await;
    };
    let (mut refusals, mut sent_ms) = (0_u8, None::<u64>);
    loop {
        if !settler.ledger.is_queued(&record) {
            // Withdrawn, because its answer was due.
            return;
        }
        if let Err(reason) = record.job.work().check_time(network.now_seconds()) {
            return fail(settler, &record, reason.into()).await;
        }
        match progress(settler, &record, &approval).await {
            Ok(Progress::Given) => match schemes::check_again(network, &record.job).await {
                Ok(()) => return settler.queue(record),
                Err(VerifyError::Rejected(rejection)) => {
                    return fail(settler, &record, rejection).await;
                }
                Err(fault) => tracing::debug!(%fault, "an approved job could not be checked"),
            },
            Ok(Progress::Spent) => {
                return fail(settler, &record, Reason::ApprovalFailed.into()).await;
            }
            Ok(Progress::Waiting) => {
                let now_ms = network.clock.mono_ms();
                if sent_ms.is_none_or(|sent| now_ms.saturating_sub(sent) >= AGAIN_MS) {
                    sent_ms = Some(now_ms);
                    if !broadcast(settler, &approval).await {
                        refusals = refusals.saturating_add(1);
                    }
                    if refusals >= REFUSALS_MAX {
                        return fail(settler, &record, Reason::ApprovalBroadcast.into()).await;
                    }
                }
            }
            Err(fault) => tracing::debug!(%fault, "an approval could not be looked up"),
        }
        settler.pause(network.config.poll_ms).await;
    }
}

/// Reads how an approval stands.
async fn progress(
    settler: &Settler,
    record: &Record,
    approval: &Approval,
) -> Result<Progress, ChainFault> {
    let chain = &settler.network.chain;
    let (owner, moves) = (record.job.work().account(), record.job.work().moves());
    // The nonce first: if it is used, the allowance that is read afterwards includes the approval.
    let nonce = chain.transaction_count(owner, BlockTag::Latest).await?;
    let spender = settler.network.contracts.permit2;
    let question = IErc20::allowanceCall { owner, spender }.abi_encode();
    let answer = chain.call(moves.token, question.into(), BlockTag::Latest).await;
    let allowance = match answer {
        Ok(word) => reads::number(&word).unwrap_or(U256::ZERO),
        Err(ChainFault::Reverted { .. }) => U256::ZERO,
        Err(fault) => return Err(fault),
    };
    Ok(if allowance >= moves.amount {
        Progress::Given
    } else if nonce > approval.nonce {
        Progress::Spent
    } else {
        Progress::Waiting
    })
}

/// Broadcasts an approval as the payer signed it. Returns whether a node may have it.
async fn broadcast(settler: &Settler, approval: &Approval) -> bool {
    settler.failpoints.pass("settle.before approval");
    let answer = chain_tasks::send(&*settler.network.chain, &approval.raw, true).await;
    settler.failpoints.pass("settle.after approval");
    match answer {
        // A used nonce shows when the approval is looked up next.
        SendAnswer::Accepted
        | SendAnswer::AlreadyKnown
        | SendAnswer::NonceTooLow
        | SendAnswer::Unclear => true,
        SendAnswer::Underpriced | SendAnswer::Unfunded | SendAnswer::Refused => false,
    }
}

/// Ends a job whose approval was not mined. It was never sent.
async fn fail(settler: &Arc<Settler>, record: &Record, rejection: Rejection) {
    let at = settler.network.clock.utc();
    let state = State::Failed { reason: rejection.reason, message: rejection.message, at };
    let attempts = record.attempts;
    while let Err(fault) =
        settler.ledger.transition(&record.job, State::Queued, state.clone(), attempts).await
    {
        tracing::error!(%fault, "could not store that an approval failed");
        settler.pause(AGAIN_MS).await;
    }
}
