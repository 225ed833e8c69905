//! The transaction count of an account as of a final block, even if the nodes keep no state of past blocks.
//!
//! Such nodes return the count only as of their newest block. [`FinalCounts`] notes this count with the block's hash,
//! and uses it once the block is final and still in the chain. Checking that needs no state.

use std::collections::VecDeque;

use alloy_primitives::{Address, B256};

use crate::ports::{BlockTag, Chain, ChainFault};

/// Target number of noted counts for the blocks that are not final yet. Fewer than twice this many are noted for
/// them.
const NOTED_COUNTS_TARGET: u64 = 256;
/// Maximum number of noted counts that are kept: those of blocks that are not final yet, and of some earlier blocks.
const NOTED_COUNTS_MAX: usize = 512;

/// Transaction counts of one account, noted before the nodes drop the state of the counts' blocks.
#[derive(Debug, Default)]
pub struct FinalCounts {
    /// In ascending order of block numbers.
    noted: VecDeque<NotedCount>,
}

/// An account's transaction count as of one block.
#[derive(Debug, Clone, Copy)]
struct NotedCount {
    block: u64,
    hash: B256,
    count: u64,
}

/// The transaction count of an account as of a final block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalCount {
    Known(u64),
    /// Not known yet: no noted block is final, or a node did not answer.
    Awaited,
    /// Every node refused to return the count as of a past block, and as of the hash of its newest block.
    Unknown,
}

impl FinalCounts {
    /// Returns the count as of the final block `last_final`.
    ///
    /// If the nodes have only the state of the newest block, `head`, the count may be as of an earlier block.
    ///
    /// # Errors
    /// No node answered.
    pub async fn at(
        &mut self,
        chain: &dyn Chain,
        signer: Address,
        head: u64,
        last_final: u64,
    ) -> Result<FinalCount, ChainFault> {
        let fault = match chain.transaction_count(signer, BlockTag::Number(last_final)).await {
            Ok(count) => {
                self.noted.clear();
                return Ok(FinalCount::Known(count));
            }
            Err(fault) => fault,
        };
        // The step grows with the depth of finality, so that fewer than twice `NOTED_COUNTS_TARGET` counts cover that
        // depth.
        let step = (head.saturating_sub(last_final) / NOTED_COUNTS_TARGET).max(1);
        let noted = self.note(chain, signer, head, step).await;
        while let Some(at) = self.noted.iter().rposition(|noted| noted.block <= last_final) {
            let Some(NotedCount { block, hash, count }) = self.noted.get(at).copied() else {
                break;
            };
            match chain.block_hash(block).await {
                Ok(Some(found)) if found == hash => {
                    self.noted.drain(..at);
                    return Ok(FinalCount::Known(count));
                }
                // A reorganisation removed the noted block.
                Ok(Some(_another)) => drop(self.noted.remove(at)),
                Ok(None) | Err(_) => break,
            }
        }
        match (noted, fault) {
            (Err(ChainFault::Rejected { .. }), ChainFault::Rejected { .. }) => {
                Ok(FinalCount::Unknown)
            }
            // If the nodes refuse both queries, they cannot answer at all. In every other case a later lookup asks
            // again.
            (Ok(()), _) | (Err(_), ChainFault::Rejected { .. }) => Ok(FinalCount::Awaited),
            (Err(_), fault) => Err(fault),
        }
    }

    /// Notes the count as of the newest block, if none of the last `step` blocks is noted.
    async fn note(
        &mut self,
        chain: &dyn Chain,
        signer: Address,
        head: u64,
        step: u64,
    ) -> Result<(), ChainFault> {
        let is_near = |noted: &NotedCount| noted.block.saturating_add(step) > head;
        if self.noted.back().is_some_and(is_near) {
            return Ok(());
        }
        let counted = match newest_count(chain, signer, head).await {
            Ok((hash, count)) => Ok((head, hash, count)),
            // A newer block may have arrived.
            Err(_refused) => {
                let head = chain.block_number().await?;
                newest_count(chain, signer, head).await.map(|(hash, count)| (head, hash, count))
            }
        };
        let (block, hash, count) = counted?;
        if self.noted.len() >= NOTED_COUNTS_MAX {
            self.noted.pop_front();
        }
        self.noted.push_back(NotedCount { block, hash, count });
        Ok(())
    }
}

/// Returns the hash of a block and an account's transaction count as of the block with this hash.
///
/// # Errors
/// No node has the block, or no node returned the count as of the block's hash.
async fn newest_count(
    chain: &dyn Chain,
    signer: Address,
    block: u64,
) -> Result<(B256, u64), ChainFault> {
    let hash = chain.block_hash(block).await?.ok_or_else(none)?;
    Ok((hash, chain.transaction_count_in(signer, hash).await?))
}

fn none() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

/// Which blocks' state a network's nodes keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastState {
    /// The nodes keep the state of all blocks that finality needs.
    Kept,
    /// The nodes keep only the state of the newest block. Contains a node's message about an older block.
    NewestOnly(String),
    /// The nodes refuse even the hash of the newest block, so no transaction becomes final. Contains a node's message
    /// about an older block.
    Refused(String),
}

/// Finds out which blocks' state the nodes keep, down to the depth that `confirmations` blocks of finality need.
///
/// # Errors
/// No node answered a query.
pub async fn past_state(
    chain: &dyn Chain,
    signer: Address,
    confirmations: u64,
) -> Result<PastState, ChainFault> {
    let head = chain.block_number().await?;
    let last_final = head.saturating_sub(confirmations.saturating_sub(1));
    let said = match chain.transaction_count(signer, BlockTag::Number(last_final)).await {
        Ok(_count) => return Ok(PastState::Kept),
        Err(ChainFault::Rejected { message, .. }) => message,
        Err(fault) => return Err(fault),
    };
    // Try three times: if a block arrives between the two queries, the refusal proves nothing.
    for _again in 0..3 {
        let head = chain.block_number().await?;
        match newest_count(chain, signer, head).await {
            Ok(_counted) => return Ok(PastState::NewestOnly(said)),
            Err(ChainFault::Rejected { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(PastState::Refused(said))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ports::ChainReply;

    const SIGNER: Address = Address::repeat_byte(1);

    /// A node that answers only for its newest block. The first pushed block has height 0.
    #[derive(Debug, Default)]
    struct PrunedNode {
        /// Hash and count of each block, from height 0.
        blocks: Mutex<Vec<(B256, u64)>>,
        refuses_hashes: bool,
    }

    impl PrunedNode {
        fn push(&self, hash: u8, count: u64) {
            self.blocks.lock().unwrap().push((B256::repeat_byte(hash), count));
        }

        fn head(&self) -> u64 {
            self.blocks.lock().unwrap().len() as u64 - 1
        }
    }

    fn refused<T: Send + 'static>() -> ChainReply<'static, T> {
        let message = "missing trie node".to_owned();
        Box::pin(async { Err(ChainFault::Rejected { code: -32000, message }) })
    }

    impl Chain for PrunedNode {
        fn block_number(&self) -> ChainReply<'_, u64> {
            Box::pin(async { Ok(self.head()) })
        }

        fn block_hash(&self, number: u64) -> ChainReply<'_, Option<B256>> {
            let blocks = self.blocks.lock().unwrap();
            let hash = blocks.get(number as usize).map(|(hash, _count)| *hash);
            Box::pin(async move { Ok(hash) })
        }

        fn transaction_count(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, u64> {
            refused()
        }

        fn transaction_count_in(&self, _address: Address, block: B256) -> ChainReply<'_, u64> {
            let (newest, count) = *self.blocks.lock().unwrap().last().unwrap();
            if self.refuses_hashes || newest != block {
                return refused();
            }
            Box::pin(async move { Ok(count) })
        }
    }

    #[tokio::test]
    async fn a_count_is_known_when_its_block_is_final() {
        let (chain, mut counts) = (PrunedNode::default(), FinalCounts::default());
        chain.push(0, 5);
        chain.push(1, 6);
        assert_eq!(counts.at(&chain, SIGNER, 1, 0).await.unwrap(), FinalCount::Awaited);
        chain.push(2, 7);
        assert_eq!(counts.at(&chain, SIGNER, 2, 1).await.unwrap(), FinalCount::Known(6));
        // If blocks were not looked up in between, the count is of an older block.
        chain.push(3, 8);
        chain.push(4, 9);
        assert_eq!(counts.at(&chain, SIGNER, 4, 3).await.unwrap(), FinalCount::Known(7));
        assert_eq!(
            past_state(&chain, SIGNER, 2).await.map(|state| state == PastState::Kept),
            Ok(false)
        );
    }

    #[tokio::test]
    async fn a_block_that_a_reorganization_removed_does_not_count() {
        let (chain, mut counts) = (PrunedNode::default(), FinalCounts::default());
        chain.push(0, 5);
        assert_eq!(counts.at(&chain, SIGNER, 0, 0).await.unwrap(), FinalCount::Known(5));
        chain.push(1, 6);
        assert_eq!(counts.at(&chain, SIGNER, 1, 0).await.unwrap(), FinalCount::Known(5));
        *chain.blocks.lock().unwrap().last_mut().unwrap() = (B256::repeat_byte(9), 5);
        chain.push(2, 5);
        assert_eq!(counts.at(&chain, SIGNER, 2, 1).await.unwrap(), FinalCount::Known(5), "not 6");
    }

    #[tokio::test]
    async fn nodes_that_answer_for_no_hash_leave_the_count_unknown() {
        let chain = PrunedNode { refuses_hashes: true, ..PrunedNode::default() };
        let mut counts = FinalCounts::default();
        for block in 0..4 {
            chain.push(block, 1);
            let found = counts.at(&chain, SIGNER, u64::from(block), 0).await.unwrap();
            assert_eq!(found, FinalCount::Unknown);
        }
        let state = past_state(&chain, SIGNER, 2).await;
        assert!(
            matches!(&state, Ok(PastState::Refused(said)) if said.contains("trie")),
            "{state:?}"
        );
    }
}
