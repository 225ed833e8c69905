//! Looks for a payment on the chain, whoever carried it out: whoever sees an authorization may bring it first, and
//! the money moves all the same.

use alloy_primitives::B256;
use bursar_chain::ports::{ChainFault, LogFilter};
use bursar_desks::store::StoreFault;

use crate::exact;
use crate::payment::{Payment, Terms};
use crate::settle::dispatch::Settler;

/// How many blocks before a payment was taken on somebody may have been quicker: what was found good then was
/// not used in any of them, but nodes differ.
const BLOCKS_BEFORE: u64 = 50;
/// The same of one that was used before it came.
const BLOCKS_RECENT: u64 = 600;

/// Blocks of one question: what public nodes take.
const BLOCKS_TOGETHER: u64 = 1_000;

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// The transaction in which the money moved, and its block. Of a method whose events do not name the nonce this
/// is to be asked only once it is known that the nonce was used.
///
/// # Errors
/// Nobody answered.
pub(super) async fn find(
    settler: &Settler,
    payment: &Payment,
    since: u64,
) -> Result<Option<(B256, u64)>, Unknown> {
    let served = &settler.served;
    let method = exact::method(payment.method);
    let trace = method.trace(&served.place, &payment.terms);
    let head = served.chain.block_number().await?;
    let begin = since.saturating_sub(BLOCKS_BEFORE);
    // From the newest on: it has probably just happened.
    let mut to_block = head;
    loop {
        let from_block = begin.max(to_block.saturating_sub(BLOCKS_TOGETHER - 1));
        let wanted = LogFilter {
            from_block,
            to_block,
            addresses: vec![trace.contract],
            events: vec![trace.event],
            indexed: trace.indexed.clone(),
        };
        for found in served.chain.logs(wanted).await? {
            let Some(receipt) = served.chain.receipt(found.tx_hash).await? else { continue };
            let proven = method.is_proven(&served.place, &payment.terms, &receipt.logs);
            if proven && (trace.names_nonce || !is_taken(settler, found.tx_hash, payment).await?) {
                return Ok(Some((found.tx_hash, receipt.block_number)));
            }
        }
        if from_block <= begin {
            return Ok(None);
        }
        to_block = from_block.saturating_sub(1);
    }
}

/// Whether the movement of that transaction is another payment's.
async fn is_taken(settler: &Settler, hash: B256, payment: &Payment) -> Result<bool, StoreFault> {
    let movement = |terms: &Terms| (terms.token, terms.payer, terms.payee, terms.amount);
    let others = settler.ledger.settled_by(hash).await?;
    Ok(others.iter().any(|other| {
        other.payment.key() != payment.key()
            && movement(&other.payment.terms) == movement(&payment.terms)
    }))
}

/// The same of a payment that was never taken on: what was used may have been used just now.
///
/// # Errors
/// Nobody answered.
pub(super) async fn find_recent(
    settler: &Settler,
    payment: &Payment,
) -> Result<Option<(B256, u64)>, Unknown> {
    let head = settler.served.chain.block_number().await?;
    find(settler, payment, head.saturating_sub(BLOCKS_RECENT)).await
}
