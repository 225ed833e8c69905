//! Transactions that another program sent with the key of one of our signers. Such a program uses our nonces. As a
//! result, payments are withdrawn, and two stores can both report one payment as a success.
//!
//! A signer takes no new payments for a while after the last nonce that a foreign transaction used.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_submit::OutboxKey;

use crate::settle::settler::Settler;
use crate::work::SenderRule;

/// How many blocks are searched for a foreign transaction. Most nodes keep the state of this many.
const SEARCHED_BLOCKS_MAX: u64 = 128;

/// One of our transactions. A foreign transaction was noticed near it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnTransaction {
    pub(super) signer: Address,
    pub(super) nonce: u64,
    pub(super) hash: B256,
}

impl Settler {
    /// Whether a signer takes no new payments. Either another program uses its key, or its transactions stay open
    /// because no node reports which ones are final.
    pub(crate) fn is_paused(&self, signer: Address) -> bool {
        self.paused_signers.is_paused(signer, self.network.clock.mono_ms())
            || self.signer_slots.get(&signer).is_some_and(|slot| slot.outbox.is_stuck())
    }

    /// The signers that may take a job with this rule now; `None` if every active signer may.
    pub(crate) fn free_senders(&self, rule: SenderRule) -> Option<Vec<Address>> {
        let network = &self.network;
        let bound = network.bound_senders(rule);
        if !network.all_signers().any(|signer| self.is_paused(signer)) {
            return bound;
        }
        let mut free = bound.unwrap_or_else(|| network.signers.clone());
        free.retain(|signer| !self.is_paused(*signer));
        Some(free)
    }

    /// Whether at least one active signer may take payments now.
    pub(crate) fn has_free_signer(&self) -> bool {
        self.network.signers.iter().any(|signer| !self.is_paused(*signer))
    }
}

/// Reports nonces that we did not use between one of our transactions and our previous one. Nonces before our first
/// transaction are older than the store, so they are not reported.
pub(super) async fn report_nonce_gap(settler: Arc<Settler>, own: OwnTransaction) {
    let key = OutboxKey { chain: settler.network.contracts.chain, signer: own.signer };
    let before = match settler.outboxes.nonce_before(key, own.nonce).await {
        Ok(Some(before)) => before,
        Ok(None) => return,
        Err(fault) => {
            tracing::warn!(%fault, "could not read the nonces of a signer");
            return;
        }
    };
    let last_foreign = own.nonce.saturating_sub(1);
    if before < last_foreign {
        let foreign = find(&settler, own.signer, last_foreign).await;
        report(&settler, own, last_foreign, foreign);
    }
}

/// Reports the foreign transaction that used the nonce of one of our transactions, if a node shows it. If no node shows
/// one, our own transaction may have used the nonce: one node counts it already, and another still lacks the receipt.
pub(super) async fn report_if_shown(settler: Arc<Settler>, own: OwnTransaction) {
    if let Some(foreign) = find(&settler, own.signer, own.nonce).await {
        report_unless_ours(&settler, own, Some(foreign)).await;
    }
}

/// Reports that a foreign transaction permanently used the nonce of one of our transactions, even if no node shows it.
pub(super) async fn report_displaced(settler: Arc<Settler>, own: OwnTransaction) {
    let foreign = find(&settler, own.signer, own.nonce).await;
    report_unless_ours(&settler, own, foreign).await;
}

async fn report_unless_ours(settler: &Settler, own: OwnTransaction, foreign: Option<B256>) {
    let is_ours = match foreign {
        // If the store cannot be read, the transaction may be ours, so it is not reported.
        Some(hash) => settler.has_signed(own.signer, hash).await.unwrap_or(true),
        None => false,
    };
    if !is_ours {
        report(settler, own, own.nonce, foreign);
    }
}

fn report(settler: &Settler, own: OwnTransaction, nonce: u64, foreign: Option<B256>) {
    let OwnTransaction { signer, hash, .. } = own;
    if !settler.paused_signers.record(signer, nonce, settler.network.clock.mono_ms()) {
        return;
    }
    let network = settler.network.table_row();
    settler.metrics.count_foreign_nonce(network, signer);
    let foreign = foreign.map_or_else(|| "unknown".to_owned(), |hash| hash.to_string());
    tracing::error!(
        network = %network.caip2(), %signer, nonce, ours = %hash, %foreign,
        "another program uses this signer's key: the signer takes no new payments for ten minutes; stop the other \
         program, or give each its own key"
    );
}

/// The transaction that used a nonce of an account; `None` if no recent block shows it.
async fn find(settler: &Settler, signer: Address, nonce: u64) -> Option<B256> {
    match find_in_blocks(settler, signer, nonce).await {
        Ok(found) => found,
        Err(fault) => {
            tracing::debug!(%fault, "could not look for a foreign transaction");
            None
        }
    }
}

async fn find_in_blocks(
    settler: &Settler,
    signer: Address,
    nonce: u64,
) -> Result<Option<B256>, ChainFault> {
    let chain = &settler.network.chain;
    let is_used = async |block| {
        let count = chain.transaction_count(signer, BlockTag::Number(block)).await?;
        Ok::<_, ChainFault>(count > nonce)
    };
    let mut used = chain.block_number().await?;
    if !is_used(used).await? {
        return Ok(None);
    }
    let mut unused = used.saturating_sub(SEARCHED_BLOCKS_MAX);
    if is_used(unused).await? {
        return Ok(None);
    }
    // At block `unused` the nonce was unused, and at block `used` it is used.
    while used.saturating_sub(unused) > 1 {
        let middle = unused.midpoint(used);
        if is_used(middle).await? {
            used = middle;
        } else {
            unused = middle;
        }
    }
    let senders = chain.senders_in(used).await?;
    let found = senders.iter().find(|sent| sent.from == signer && sent.nonce == nonce);
    Ok(found.map(|sent| sent.hash))
}
