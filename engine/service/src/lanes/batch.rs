//! Reads of one block, in as few calls as possible.

use alloy_primitives::{Address, Bytes, U256};
use bursar_chain::multicall::{READS_MAX, Read, ReadFault, call_many};
use bursar_chain::ports::{BlockTag, Chain};
use bursar_core::codes::Code;
use bursar_domain::Refusal;
use bursar_morpho::views;

/// Reads of one request.
#[derive(Default)]
pub(super) struct Batch(Vec<Read>);

impl Batch {
    /// Adds a call and returns its index.
    pub(super) fn add(&mut self, to: Address, data: Bytes) -> usize {
        self.push(Read::Call { to, data })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, read: Read) -> usize {
        self.0.push(read);
        self.0.len().saturating_sub(1)
    }

    /// Makes the reads at the newest block, in one call.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`: no node answers, or there are more reads than
    /// [`bursar_chain::multicall::ONE_BLOCK_READS_MAX`].
    pub(super) async fn run(&self, chain: &dyn Chain) -> Result<Answers, Refusal> {
        if self.0.is_empty() {
            return Ok(Answers(Vec::new()));
        }
        let answers = call_many(chain, &self.0, BlockTag::Latest).await;
        answers.map(Answers).map_err(|_fault| chain_unavailable())
    }

    /// Makes the reads at a given block. Their number is not limited, because several calls can read the same block.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn run_at(&self, chain: &dyn Chain, block: u64) -> Result<Answers, Refusal> {
        let block = BlockTag::Number(block);
        let calls = self.0.chunks(READS_MAX).map(|reads| call_many(chain, reads, block));
        let mut all = Vec::with_capacity(self.0.len());
        for answers in futures::future::join_all(calls).await {
            all.extend(answers.map_err(|_fault| chain_unavailable())?);
        }
        Ok(Answers(all))
    }
}

pub(super) fn chain_unavailable() -> Refusal {
    Refusal::new(Code::ChainUnavailable)
}

/// The answers, at the indexes of their reads.
pub(super) struct Answers(pub(super) Vec<Result<Bytes, ReadFault>>);

impl Answers {
    pub(super) fn get(&self, at: usize) -> Option<&Result<Bytes, ReadFault>> {
        self.0.get(at)
    }

    pub(super) fn bytes(&self, at: usize) -> Result<&Bytes, Refusal> {
        self.get(at).and_then(|answer| answer.as_ref().ok()).ok_or_else(chain_unavailable)
    }

    pub(super) fn number(&self, at: usize) -> Result<U256, Refusal> {
        let word = self.bytes(at)?;
        if word.len() == 32 { Ok(U256::from_be_slice(word)) } else { Err(chain_unavailable()) }
    }

    /// Returns an answer as a boolean; `None` if the answer is not a valid boolean.
    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        views::decode_flag(self.bytes(at).ok()?)
    }

    /// Returns an answer as an address; `None` if the answer is not a valid address.
    pub(super) fn address(&self, at: usize) -> Option<Address> {
        views::decode_address(self.bytes(at).ok()?)
    }

    /// Returns a time in Unix seconds.
    pub(super) fn time(&self, at: usize) -> Result<u64, Refusal> {
        u64::try_from(self.number(at)?).map_err(|_absurd| chain_unavailable())
    }
}
