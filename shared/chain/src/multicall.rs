//! Batches reads of one block into one request through Multicall3. Reads one by one if that contract is missing or
//! reverts. A malformed answer is an error, never a zero.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::MULTICALL3;

use crate::abi::erc20::IErc20;
use crate::abi::multicall3::IMulticall3;
use crate::ports::{BlockTag, Chain, ChainFault, ReadCall};

/// Number of reads in one request that every node accepts.
///
/// Nodes limit a call to about 50 million gas; a balance costs about 30,000.
pub const READS_MAX: usize = 64;

/// Maximum number of reads in one request.
///
/// A request above [`READS_MAX`] is only for reads that must be of the same block. Some nodes may refuse it, because it
/// exceeds their gas limit.
pub const ONE_BLOCK_READS_MAX: usize = 4 * READS_MAX;

/// Maximum average length of the answers to one request, in bytes; an answer is a number or the reason of a revert. The
/// bound limits how much decoding copies, because several ABI offsets may point at the same bytes.
const ANSWER_BYTES_MAX: usize = 1024;

const WORD_BYTES: usize = 32;

/// A single read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The native balance of an account; the answer is one number.
    Native(Address),
    Call {
        to: Address,
        data: Bytes,
    },
}

/// Returns the read of the block's timestamp, in Unix seconds.
pub fn block_time() -> Read {
    let data = IMulticall3::getCurrentBlockTimestampCall {}.abi_encode().into();
    Read::Call { to: MULTICALL3, data }
}

/// Returns the call that reads the native balance of an account in a simulation.
pub fn native_balance(owner: Address) -> ReadCall {
    let data = IMulticall3::getEthBalanceCall { addr: owner }.abi_encode().into();
    ReadCall { to: MULTICALL3, data }
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadFault {
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The contract reverted the call. `data` is the reason, which may be empty.
    #[error("the contract reverted the call")]
    Reverted { data: Bytes },
    #[error("the contract's answer is invalid: {0}")]
    Malformed(&'static str),
}

/// The balances of one account, all of one block if the network has Multicall3.
///
/// Each amount can fail separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdings {
    pub native: Result<U256, ReadFault>,
    /// One result for each requested token, in the order of the request.
    pub tokens: Vec<Result<U256, ReadFault>>,
}

/// Returns the balances of `owner` in the native coin and in each token.
///
/// Amounts are in smallest units.
///
/// # Errors
/// The whole request failed, or there are more than [`ONE_BLOCK_READS_MAX`] - 1 tokens.
pub async fn holdings(
    chain: &dyn Chain,
    owner: Address,
    tokens: &[Address],
) -> Result<Holdings, ReadFault> {
    let data = Bytes::from(IErc20::balanceOfCall { owner }.abi_encode());
    let balances = tokens.iter().map(|to| Read::Call { to: *to, data: data.clone() });
    let reads: Vec<Read> = std::iter::once(Read::Native(owner)).chain(balances).collect();
    let mut answers = call_many(chain, &reads, BlockTag::Latest).await?.into_iter();
    let mut next = || answers.next().unwrap_or(Err(ReadFault::Malformed("an answer is missing")));
    let native = next().and_then(|answer| number(&answer));
    let tokens = tokens.iter().map(|_token| next().and_then(|answer| number(&answer))).collect();
    Ok(Holdings { native, tokens })
}

/// Performs the reads and returns one result for each, in their order.
///
/// If a contract reverts one read, only that read fails.
///
/// # Errors
/// The whole request failed, or there are more than [`ONE_BLOCK_READS_MAX`] reads.
pub async fn call_many(
    chain: &dyn Chain,
    reads: &[Read],
    block: BlockTag,
) -> Result<Vec<Result<Bytes, ReadFault>>, ReadFault> {
    if reads.len() > ONE_BLOCK_READS_MAX {
        return Err(ReadFault::Malformed("there are more reads than one request takes"));
    }
    match chain.call(MULTICALL3, encode_reads(reads), block).await {
        // There is no contract at this address, or it does not support the call.
        Ok(answer) if answer.is_empty() => one_by_one(chain, reads, block).await,
        Err(ChainFault::Reverted { .. }) => one_by_one(chain, reads, block).await,
        Ok(answer) => decode_results(&answer, reads.len()),
        Err(fault) => Err(fault.into()),
    }
}

fn encode_reads(reads: &[Read]) -> Bytes {
    let calls = reads.iter().map(|read| {
        let (target, data) = match read {
            Read::Native(addr) => {
                let call = IMulticall3::getEthBalanceCall { addr: *addr };
                (MULTICALL3, call.abi_encode().into())
            }
            Read::Call { to, data } => (*to, data.clone()),
        };
        IMulticall3::Call3 { target, allowFailure: true, callData: data }
    });
    IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode().into()
}

fn decode_results(answer: &[u8], count: usize) -> Result<Vec<Result<Bytes, ReadFault>>, ReadFault> {
    // The ABI encoding takes two words for the list, and four words in addition to the data of each read.
    let longest =
        (2 * WORD_BYTES).saturating_add(count.saturating_mul(4 * WORD_BYTES + ANSWER_BYTES_MAX));
    if answer.len() > longest {
        return Err(ReadFault::Malformed("it is too long"));
    }
    // The decoder allocates as many entries as the answer claims, so check the claim first.
    let words = answer.first_chunk::<{ 2 * WORD_BYTES }>();
    let (offset, entries) = words.map(|words| words.split_at(WORD_BYTES)).unwrap_or_default();
    let is = |word: &[u8], value: usize| U256::try_from_be_slice(word) == Some(U256::from(value));
    if words.is_none() || !is(offset, WORD_BYTES) || !is(entries, count) {
        return Err(ReadFault::Malformed("it has the wrong number of entries"));
    }
    let entries = IMulticall3::aggregate3Call::abi_decode_returns_validate(answer)
        .map_err(|_quotes_it| ReadFault::Malformed("it has an unexpected form"))?;
    let result = |entry: IMulticall3::CallResult| {
        let data = entry.returnData;
        if entry.success { Ok(data) } else { Err(ReadFault::Reverted { data }) }
    };
    Ok(entries.into_iter().map(result).collect())
}

/// Performs the reads without the contract. The answers may come from neighbouring blocks.
async fn one_by_one(
    chain: &dyn Chain,
    reads: &[Read],
    block: BlockTag,
) -> Result<Vec<Result<Bytes, ReadFault>>, ReadFault> {
    let mut answers = Vec::with_capacity(reads.len());
    for read in reads {
        let answer = match read {
            Read::Native(address) => {
                let wei = chain.balance(*address, block).await;
                wei.map(|wei| Bytes::copy_from_slice(&wei.to_be_bytes::<WORD_BYTES>()))
            }
            Read::Call { to, data } => chain.call(*to, data.clone(), block).await,
        };
        answers.push(match answer {
            Ok(answer) => Ok(answer),
            Err(ChainFault::Reverted { data }) => Err(ReadFault::Reverted { data }),
            // The next read would only run into the same timeout.
            Err(fault) => return Err(fault.into()),
        });
    }
    Ok(answers)
}

/// Decodes one word. A call to an account without code returns no data, which is not a zero.
fn number(answer: &[u8]) -> Result<U256, ReadFault> {
    match answer.len() {
        WORD_BYTES => {
            U256::try_from_be_slice(answer).ok_or(ReadFault::Malformed("it is not a number"))
        }
        0 => Err(ReadFault::Malformed("it is empty: there may be no contract at this address")),
        _other => Err(ReadFault::Malformed("it is not a single number")),
    }
}

#[cfg(test)]
mod tests;
