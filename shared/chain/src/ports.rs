//! The ports to the outside world: [`Clock`], [`Chain`], [`Explorer`], [`Registry`] and [`Prices`]. Only traits and plain values;
//! nothing here reads a clock or opens a connection.

mod mined;
mod registry;
mod simulation;

use std::fmt::Debug;
use std::pin::Pin;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::time::{LocalDay, Moment, Utc};
pub use bursar_outbound::EndpointLabel;
use bursar_outbound::PublicFault;
use bursar_submit::Call;
use bursar_submit::fees::FeeFacts;

pub use mined::{FoundLog, Log, LogFilter, PaidFee, Receipt, SentNonce, Transaction, TxStatus};
pub use registry::{Registry, RegistryFault, RegistryReply};
pub use simulation::{
    NextBlock, ReadCall, SimulatedBlock, SimulatedCall, SimulationRequest, Transfer,
};

/// A boxed future, which makes the ports usable as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The future result of a chain query.
pub type ChainReply<'a, T> = BoxFuture<'a, Result<T, ChainFault>>;

/// The time of the machine: wall clock, date and monotonic time.
pub trait Clock: Send + Sync + Debug {
    /// Returns the current moment, with the date in the machine's zone. `chain_hint` is `None`: a clock knows no chain,
    /// so a caller that knows the chain's time sets it.
    fn now(&self) -> Moment;

    /// Returns only the UTC time. The system clock reads no time zone for it, so it is much cheaper than `now`.
    fn utc(&self) -> Utc {
        self.now().utc
    }

    /// Returns only the monotonic time, in milliseconds, for measuring durations. Needs no date.
    fn mono_ms(&self) -> u64 {
        self.now().mono_ms
    }

    /// Returns the first local midnight at or after `earliest` whose date is after `day`.
    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc;

    /// Completes once [`Moment::mono_ms`] has reached `mono_ms`, or at once if it already has. Waits use
    /// monotonic time, so setting the wall clock neither shortens nor prolongs them.
    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()>;
}

/// One EVM chain, as its nodes report it.
///
/// Repeating a method is harmless. A method that an implementation leaves out fails with [`Chain::missing`], unless its
/// default answers with other methods.
pub trait Chain: Send + Sync + Debug {
    /// Returns the fault of a method that this implementation leaves out.
    ///
    /// The default is an error of the program: it panics where debug assertions are on, so that a test's chain that
    /// lacks a method does not look like a node that is down.
    fn missing(&self, method: &'static str) -> ChainFault {
        debug_assert!(false, "{} lacks Chain::{method}", std::any::type_name::<Self>());
        ChainFault::Unavailable { tried: Vec::new() }
    }

    /// Queries the chain id, even if an earlier check is still valid. Skips endpoints that were recently found to
    /// serve another chain. On success this is the configured chain.
    ///
    /// # Errors
    /// [`ChainFault::WrongChain`] if the endpoints serve another chain.
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        missing(self, "chain_id")
    }

    /// Queries the chain id of the endpoints for sending. `None` if reading and sending share endpoints.
    fn submit_chain_id(&self) -> ChainReply<'_, Option<ChainId>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the result of a read-only call. A revert is [`ChainFault::Reverted`] with its data.
    fn call(&self, _to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        missing(self, "call")
    }

    /// Returns an account's native balance, in its smallest unit.
    fn balance(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        missing(self, "balance")
    }

    /// Returns a contract's code; empty if there is no contract.
    fn code_at(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        missing(self, "code_at")
    }

    /// Returns the receipt of a mined transaction. `None` if the node has no receipt, which does not prove that the
    /// transaction will never be mined.
    fn receipt(&self, _hash: B256) -> ChainReply<'_, Option<Receipt>> {
        missing(self, "receipt")
    }

    /// Returns the receipts of many transactions, in the order of `hashes`.
    fn receipts<'a>(&'a self, hashes: &'a [B256]) -> ChainReply<'a, Vec<Option<Receipt>>> {
        Box::pin(async move {
            let mut receipts = Vec::with_capacity(hashes.len());
            for hash in hashes {
                receipts.push(self.receipt(*hash).await?);
            }
            Ok(receipts)
        })
    }

    /// Returns the receipts of a transaction by all nodes that have one; they may differ. Waits for the slowest node.
    fn receipts_from_all_nodes(&self, hash: B256) -> ChainReply<'_, Vec<Receipt>> {
        Box::pin(async move { Ok(self.receipt(hash).await?.into_iter().collect()) })
    }

    /// Returns the timestamp of the newest block, as stated in the block.
    fn block_time(&self) -> ChainReply<'_, Utc> {
        missing(self, "block_time")
    }

    /// Returns the events that match the filter, in chain order. Drops events of removed or pending blocks.
    fn logs(&self, _wanted: LogFilter) -> ChainReply<'_, Vec<FoundLog>> {
        missing(self, "logs")
    }

    /// Returns a node's data about the newest block and about the price of gas, in wei.
    fn fee_facts(&self) -> ChainReply<'_, FeeFacts> {
        missing(self, "fee_facts")
    }

    /// Returns the number of the newest block.
    fn block_number(&self) -> ChainReply<'_, u64> {
        missing(self, "block_number")
    }

    /// Returns the number of the newest block that a reorganisation is unlikely to remove. Fails with
    /// [`ChainFault::Rejected`] if the nodes do not know the tag `safe`.
    fn safe_block_number(&self) -> ChainReply<'_, u64> {
        missing(self, "safe_block_number")
    }

    /// Returns the hash of a block; `None` if the node does not have it.
    fn block_hash(&self, _number: u64) -> ChainReply<'_, Option<B256>> {
        missing(self, "block_hash")
    }

    /// Returns an account's number of transactions as of the block with this hash (EIP-1898). Some nodes refuse this.
    fn transaction_count_in(&self, _address: Address, _block: B256) -> ChainReply<'_, u64> {
        missing(self, "transaction_count_in")
    }

    /// Returns the next nonce of an account: the number of its transactions as of a block.
    fn transaction_count(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, u64> {
        missing(self, "transaction_count")
    }

    /// Returns the gas that a call from this account would use. A revert is [`ChainFault::Reverted`].
    fn estimate_gas(&self, _from: Address, _call: Call) -> ChainReply<'_, u64> {
        missing(self, "estimate_gas")
    }

    /// Simulates the calls of one account in one block after the newest block (`eth_simulateV1`). Many nodes do not
    /// support the method.
    fn simulate(&self, _request: SimulationRequest) -> ChainReply<'_, SimulatedBlock> {
        missing(self, "simulate")
    }

    /// Returns the result of one call from `from`. If `code` is given, it replaces the code of `from` during
    /// the call. A revert is [`ChainFault::Reverted`] with its data.
    fn call_as(&self, _from: Address, _call: Call, _code: Option<Bytes>) -> ChainReply<'_, Bytes> {
        missing(self, "call_as")
    }

    /// Returns the results of queries about the newest block, one for each query, in the order of the queries. An
    /// implementation may batch the queries.
    fn answers(&self, questions: Vec<Question>) -> ChainReply<'_, Vec<Result<Bytes, ChainFault>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(questions.len());
            for question in questions {
                answers.push(match question {
                    Question::Code(address) => self.code_at(address, BlockTag::Latest).await,
                    Question::Call { from, to, data, gas } => {
                        let call = Call { to, value: U256::ZERO, data, gas_limit: gas };
                        self.call_as(from, call, None).await
                    }
                });
            }
            Ok(answers)
        })
    }

    /// Returns a node's message if it refuses a batch of this many requests, and `None` if it accepts one. Without
    /// batches every method still works, but sends more requests and takes longer.
    fn batch_refusal(&self, _count: usize) -> ChainReply<'_, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns whether a request to any node has failed since `mono_ms` (monotonic clock). A node that did not answer
    /// a broadcast may still receive it later, even if another node has answered.
    fn has_failed_since(&self, _mono_ms: u64) -> bool {
        false
    }

    /// Returns since when no node has given a usable answer (monotonic clock); `None` if one did last.
    fn silent_since_ms(&self) -> Option<u64> {
        None
    }

    /// Returns whether a node knows a transaction, mined or pending.
    fn is_known(&self, _hash: B256) -> ChainReply<'_, bool> {
        missing(self, "is_known")
    }

    /// Returns whether any node knows a transaction, mined or pending. `false` only if every node denies it.
    fn is_known_anywhere(&self, hash: B256) -> ChainReply<'_, bool> {
        self.is_known(hash)
    }

    /// Returns a transaction, or `None` if the node does not know it.
    fn transaction(&self, _hash: B256) -> ChainReply<'_, Option<Transaction>> {
        missing(self, "transaction")
    }

    /// Returns the senders of all transactions of a block, in its order.
    fn senders_in(&self, _block: u64) -> ChainReply<'_, Vec<SentNonce>> {
        missing(self, "senders_in")
    }

    /// Broadcasts a signed transaction and returns its hash. **An error does not prove that the transaction was not
    /// sent**: if the answer of the first node is lost, the next node may reject the bytes as known.
    fn send_raw(&self, _raw: Bytes) -> ChainReply<'_, B256> {
        missing(self, "send_raw")
    }

    /// Broadcasts a signed transaction again, to every usable node: the node that received it first may not have
    /// propagated it. The call takes as long as the slowest node.
    fn send_raw_everywhere(&self, raw: Bytes) -> ChainReply<'_, B256> {
        self.send_raw(raw)
    }
}

/// A network's block explorer, which knows tokens that are not in our table.
///
/// Its answers are untrusted, and the tokens' own data even more so. Show them, but base no decision on them.
pub trait Explorer: Send + Sync + Debug {
    /// Returns the ERC-20 tokens of an account, at most [`TOKENS_MAX`](crate::explorer_http::TOKENS_MAX). For an
    /// account that it has never seen, an explorer returns no tokens, or fails with status 500.
    fn tokens(&self, owner: Address) -> BoxFuture<'_, Result<Vec<TokenBalance>, ExplorerFault>>;
}

/// The width and height of an icon in pixels.
pub const ICON_SIDE: u32 = 32;

/// A small picture: rows of red, green, blue and alpha, one byte each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pixels(Vec<u8>);

impl Pixels {
    /// The number of bytes: four for each pixel.
    pub const BYTES: usize = 4 * (ICON_SIDE as usize).pow(2);

    /// Returns a picture of these bytes; `None` if their number is another.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == Self::BYTES).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Why there is no icon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IconFault {
    #[error(transparent)]
    Unread(#[from] PublicFault),
    #[error("it is not a PNG of at most 512 by 512 pixels")]
    NotAnIcon,
}

/// Icons of tokens, from the URLs that explorers supply.
pub trait Icons: Send + Sync + Debug {
    /// Reads and decodes the picture at a URL.
    fn fetch<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Pixels, IconFault>>;
}

/// Market prices from outside the chain.
pub trait Prices: Send + Sync + Debug {
    /// Returns the price of one ETH in dollars, rounded up to a millionth.
    fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>>;
}

/// Why a price API gave no usable price, without any text from the API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceFault {
    #[error("{endpoint} did not answer: {reason}")]
    Unreachable { endpoint: EndpointLabel, reason: String },
    #[error("{endpoint} answered with HTTP status {status}")]
    Status { endpoint: EndpointLabel, status: u16 },
    #[error("{endpoint} gave no valid price")]
    Malformed { endpoint: EndpointLabel },
}

/// A token balance, as reported by an explorer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBalance {
    pub address: Address,
    /// The token's own symbol: bounded in length, otherwise unchanged and untrusted.
    pub symbol: String,
    /// `None` if the value is unusable; the amount can then only be shown in smallest units.
    pub decimals: Option<u8>,
    pub amount: U256,
    /// The URL of the token's icon, as the explorer supplies it: bounded in length, otherwise unchanged and untrusted.
    pub icon: Option<String>,
}

/// Why an explorer gave no usable answer, without any text from the explorer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplorerFault {
    #[error("{endpoint} did not answer: {reason}")]
    Unreachable { endpoint: EndpointLabel, reason: String },
    #[error("{endpoint} answered with HTTP status {status}")]
    Status { endpoint: EndpointLabel, status: u16 },
    #[error("{endpoint} gave an invalid answer: {reason}")]
    Malformed { endpoint: EndpointLabel, reason: &'static str },
}

/// The block that a query refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockTag {
    /// The newest block plus the node's pending transactions.
    Pending,
    /// The newest block.
    Latest,
    /// The newest block that a reorganisation is unlikely to remove.
    Safe,
    /// The newest block that cannot be removed.
    Finalized,
    /// The block of this height.
    Number(u64),
}

/// A query about the newest block that can be batched with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The code of an account.
    Code(Address),
    /// The result of a call with at most `gas` gas.
    Call { from: Address, to: Address, data: Bytes, gas: u64 },
}

/// Why the chain gave no usable answer.
///
/// Text from nodes is bounded and without control characters, but untrusted: show it only in private details.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// No endpoint answered, or the endpoints failed in different ways. A later retry may succeed. Optional methods
    /// that are not implemented also return this fault.
    #[error("no endpoint of the chain gave a usable answer: {}", format_tried(.tried))]
    Unavailable {
        /// Each endpoint with its failure, in the configured order.
        tried: Vec<(EndpointLabel, String)>,
    },
    /// Every endpoint serves another chain, and none received the request. `endpoint` is the first.
    #[error("{endpoint} serves chain {answered}, not {expected}")]
    WrongChain { endpoint: EndpointLabel, expected: ChainId, answered: ChainId },
    /// The contract reverted the call. Every node would return the same, so no further node was asked.
    #[error("the contract reverted the call")]
    Reverted {
        /// The ABI-encoded reason of the contract; may be empty.
        data: Bytes,
    },
    /// A node understood the request and refused it. A broadcast returns the first rejection of the transaction, and
    /// a query of [`Chain::answers`] the refusal of one endpoint. For other requests, every asked endpoint refused,
    /// and this is the first refusal. Code 0 marks an answer that this program cannot use.
    #[error("the node refused the request: {message} (code {code})")]
    Rejected { code: i64, message: String },
    /// Every endpoint that was asked gave an invalid answer. `endpoint` is the first.
    #[error("{endpoint} gave an invalid answer: {reason}")]
    Malformed { endpoint: EndpointLabel, reason: String },
}

fn missing<'a, T, C>(chain: &C, method: &'static str) -> ChainReply<'a, T>
where
    T: Send + 'a,
    C: Chain + ?Sized,
{
    let fault = chain.missing(method);
    Box::pin(async move { Err(fault) })
}

fn format_tried(tried: &[(EndpointLabel, String)]) -> String {
    let failures: Vec<String> =
        tried.iter().map(|(endpoint, reason)| format!("{endpoint}: {reason}")).collect();
    failures.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_can_be_trait_objects() {
        fn _uses(_clock: &dyn Clock, _chain: &dyn Chain, _explorer: &dyn Explorer) {}
    }
}
