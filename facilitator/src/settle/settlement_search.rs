//! Searches the chain for the settlement of a payment, no matter who sent it. Any process that sees an authorization
//! can submit it first, and the money moves in any case.

use alloy_primitives::B256;
use bursar_chain::ports::{ChainFault, LogFilter};
use bursar_core::time::Utc;

use crate::book::record::State;
use crate::job::Job;
use crate::mined_transaction::MinedTransaction;
use crate::settle::settler::Settler;
use crate::work::Effect;

/// Number of blocks before the acceptance that the search includes. The nonce was unused at acceptance, but the node
/// that reported this may have been at an earlier block than other nodes.
const BLOCKS_BEFORE_ACCEPTANCE: u64 = 50;
/// Number of recent blocks to search for the settlement of a payment that was never accepted.
const RECENT_BLOCKS: u64 = 600;

/// Maximum number of blocks per log query; public nodes accept this many.
const BLOCKS_PER_QUERY_MAX: u64 = 1_000;

/// A transaction that carried out a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundSettlement {
    pub(super) hash: B256,
    pub(super) block: u64,
    pub(super) effect: Effect,
    /// Whether an outbox of this store signed the transaction.
    pub(super) is_ours: bool,
}

impl FoundSettlement {
    /// The state of a job that this transaction carried out.
    pub(super) fn state(self, at: Utc) -> State {
        let Self { hash, block, effect, is_ours } = self;
        if is_ours {
            State::Settled { hash, block, at, effect }
        } else {
            State::SettledElsewhere { hash, block, at, effect }
        }
    }
}

/// The block in which a transaction carried out a job. `None` if the transaction did not carry out the job, or if the
/// node does not know the transaction.
///
/// # Errors
/// No node answers.
pub(super) async fn block_of_proof(
    settler: &Settler,
    job: &Job,
    hash: B256,
) -> Result<Option<u64>, ChainFault> {
    Ok(match check_transaction(settler, job, hash).await? {
        ProofStatus::Proven(found) => Some(found.block),
        ProofStatus::Unknown | ProofStatus::Other => None,
    })
}

/// Whether a transaction carried out a payment.
enum ProofStatus {
    /// The node does not have the receipt of the transaction, or lacks the transaction itself.
    Unknown,
    /// The transaction did not carry out the payment.
    Other,
    /// The transaction carried out the payment.
    Proven(FoundSettlement),
}

async fn check_transaction(
    settler: &Settler,
    job: &Job,
    hash: B256,
) -> Result<ProofStatus, ChainFault> {
    let network = &settler.network;
    let Some(receipt) = network.chain.receipt(hash).await? else { return Ok(ProofStatus::Unknown) };
    let Some(sent) = network.chain.transaction(hash).await? else {
        return Ok(ProofStatus::Unknown);
    };
    let sent_by_us = settler.is_signer(sent.from);
    let mined =
        MinedTransaction { sent_by_us, to: sent.to, input: &sent.input, logs: &receipt.logs };
    let Some(effect) = job.work().effect(&network.contracts, &mined) else {
        return Ok(ProofStatus::Other);
    };
    let is_ours = sent_by_us && settler.has_signed(sent.from, hash).await?;
    Ok(ProofStatus::Proven(FoundSettlement { hash, block: receipt.block_number, effect, is_ours }))
}

/// The transaction in which the money moved. Searches from shortly before `since` to the newest
/// block.
///
/// # Errors
/// No node answers.
pub(super) async fn find(
    settler: &Settler,
    job: &Job,
    since: u64,
) -> Result<Option<FoundSettlement>, ChainFault> {
    let network = &settler.network;
    let event = job.work().settlement_event(&network.contracts);
    let head = network.chain.block_number().await?;
    let begin = since.saturating_sub(BLOCKS_BEFORE_ACCEPTANCE);
    // Searches backwards from the newest block, because the transaction is probably recent.
    let mut to_block = head;
    loop {
        let from_block = begin.max(to_block.saturating_sub(BLOCKS_PER_QUERY_MAX - 1));
        let filter = LogFilter {
            from_block,
            to_block,
            addresses: vec![event.contract],
            events: vec![event.event],
            indexed: event.indexed.iter().map(|value| vec![*value]).collect(),
        };
        // The newest event comes first: of several payouts to a receiver, the newest has paid out everything.
        for found in network.chain.logs(filter).await?.into_iter().rev() {
            match check_transaction(settler, job, found.tx_hash).await? {
                ProofStatus::Proven(found) => return Ok(Some(found)),
                ProofStatus::Other => {}
                // The node returned the event, so it must have the receipt. The lack of a receipt is a gap in its data,
                // not an answer.
                ProofStatus::Unknown => return Err(ChainFault::Unavailable { tried: Vec::new() }),
            }
        }
        if from_block <= begin {
            return Ok(None);
        }
        to_block = from_block.saturating_sub(1);
    }
}

/// Searches recent blocks for the settlement of a payment that was never accepted.
///
/// # Errors
/// No node answers.
pub(super) async fn find_recent(
    settler: &Settler,
    job: &Job,
) -> Result<Option<FoundSettlement>, ChainFault> {
    let head = settler.network.chain.block_number().await?;
    find(settler, job, head.saturating_sub(RECENT_BLOCKS)).await
}
