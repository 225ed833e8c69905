//! Looks for a payment that somebody else carried out: whoever sees an authorization may bring it first, and the
//! money moves all the same.

use alloy_primitives::B256;
use bursar_chain::ports::{ChainFault, LogFilter};

use crate::exact;
use crate::network::Served;
use crate::payment::Payment;

/// How many blocks before our own transaction somebody may have been quicker.
const BLOCKS_BEFORE: u64 = 600;

/// Blocks of one question: what public nodes take.
const BLOCKS_TOGETHER: u64 = 1_000;

/// How many such questions are put for one payment.
const QUESTIONS_MAX: u64 = 10;

/// The transaction in which the money moved, and its block.
///
/// # Errors
/// Nobody answered.
pub(super) async fn find(
    served: &Served,
    payment: &Payment,
    since: u64,
) -> Result<Option<(B256, u64)>, ChainFault> {
    let method = exact::method(payment.method);
    let Some((contract, event, indexed)) = method.trace(&payment.terms) else { return Ok(None) };
    let head = served.chain.block_number().await?;
    let begin = since.saturating_sub(BLOCKS_BEFORE);
    // From the newest on: it has just happened.
    let mut to_block = head;
    for _question in 0..QUESTIONS_MAX {
        let from_block = begin.max(to_block.saturating_sub(BLOCKS_TOGETHER));
        let wanted = LogFilter {
            from_block,
            to_block,
            addresses: vec![contract],
            events: vec![event],
            indexed: indexed.clone(),
        };
        for found in served.chain.logs(wanted).await? {
            let Some(receipt) = served.chain.receipt(found.tx_hash).await? else { continue };
            if method.is_proven(&served.place, &payment.terms, &receipt.logs) {
                return Ok(Some((found.tx_hash, receipt.block_number)));
            }
        }
        if from_block <= begin {
            break;
        }
        to_block = from_block.saturating_sub(1);
    }
    Ok(None)
}

/// The same of a payment that was never taken on: what was used may have been used just now.
///
/// # Errors
/// Nobody answered.
pub(super) async fn find_recent(
    served: &Served,
    payment: &Payment,
) -> Result<Option<(B256, u64)>, ChainFault> {
    let head = served.chain.block_number().await?;
    find(served, payment, head).await
}
