//! The shapes of the outside world that the engine knows: [`Clock`], [`Chain`] and [`Explorer`]. Traits
//! and plain values only; nothing here reads a clock or opens a connection.

use std::fmt::Debug;
use std::pin::Pin;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::{LocalDay, Moment, Utc};
pub use bursar_outbound::EndpointLabel;
use bursar_submit::Call;
use bursar_submit::fees::FeeFacts;

/// A future behind a pointer, so that the ports can be used as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a question to the chain comes to.
pub type ChainReply<'a, T> = BoxFuture<'a, Result<T, ChainFault>>;

/// The only source of time.
pub trait Clock: Send + Sync + Debug {
    /// Now, with the date in the machine's zone. `chain_hint` is empty: a clock knows no chain, whoever
    /// composes the two fills it in.
    fn now(&self) -> Moment;

    /// The UTC part of now alone. It is much cheaper: it needs no time zone.
    fn utc(&self) -> Utc {
        self.now().utc
    }

    /// The monotonic part of now alone, for what only measures how long: it needs no date.
    fn mono_ms(&self) -> u64 {
        self.now().mono_ms
    }

    /// The first local midnight at or after `earliest` of a date after `day`.
    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc;

    /// Ends once [`Moment::mono_ms`] has reached `mono_ms`, at once if it has already. Waits are measured
    /// by the monotonic part, so setting the wall clock neither cuts one short nor prolongs it.
    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()>;
}

/// One EVM chain, whichever nodes speak for it. Every method may be repeated without harm. What only senders
/// of transactions ask has a default: a chain that nobody sends to does not answer it.
pub trait Chain: Send + Sync + Debug {
    /// Asks which chain is served, now, whatever was checked before. The answer is always the configured
    /// chain: another one is [`ChainFault::WrongChain`].
    fn chain_id(&self) -> ChainReply<'_, ChainId>;

    /// The same of the endpoints that transactions are sent to; `None` where they are those that are read.
    fn submit_chain_id(&self) -> ChainReply<'_, Option<ChainId>> {
        Box::pin(async { Ok(None) })
    }

    /// The result of a read-only call. A revert is [`ChainFault::Reverted`] with its data.
    fn call(&self, to: Address, data: Bytes, block: BlockTag) -> ChainReply<'_, Bytes>;

    /// The native coin of an account, in its smallest unit.
    fn balance(&self, address: Address, block: BlockTag) -> ChainReply<'_, U256>;

    /// The code of a contract; empty where there is none.
    fn code_at(&self, address: Address, block: BlockTag) -> ChainReply<'_, Bytes>;

    /// The receipt of a mined transaction; `None` while a node knows of none, which is no proof that the
    /// transaction will not land.
    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>>;

    /// The same of many, in their order.
    fn receipts<'a>(&'a self, hashes: &'a [B256]) -> ChainReply<'a, Vec<Option<Receipt>>> {
        Box::pin(async move {
            let mut receipts = Vec::with_capacity(hashes.len());
            for hash in hashes {
                receipts.push(self.receipt(*hash).await?);
            }
            Ok(receipts)
        })
    }

    /// When the newest block was made, by its own account.
    fn block_time(&self) -> ChainReply<'_, Utc>;

    /// The events in a range of blocks that fit, in the order of the chain. Of what does not fit, or was taken
    /// back, nothing is passed on.
    fn logs(&self, _wanted: LogFilter) -> ChainReply<'_, Vec<FoundLog>> {
        unasked()
    }

    /// What a node says about the price of gas.
    fn fee_facts(&self) -> ChainReply<'_, FeeFacts> {
        unasked()
    }

    /// The number of the newest block.
    fn block_number(&self) -> ChainReply<'_, u64> {
        unasked()
    }

    /// How many transactions an account has sent, as of a block: the nonce of its next.
    fn transaction_count(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, u64> {
        unasked()
    }

    /// How much gas a call by this account would use. A revert is [`ChainFault::Reverted`].
    fn estimate_gas(&self, _from: Address, _call: Call) -> ChainReply<'_, u64> {
        unasked()
    }

    /// What these calls of one account would come to, one after the other, in the next block
    /// (`eth_simulateV1`). Many nodes do not know the method.
    fn simulate(&self, _from: Address, _calls: Vec<Call>) -> ChainReply<'_, Vec<CallEnd>> {
        unasked()
    }

    /// The result of one call of an account; `code` stands at the account meanwhile, where it is given. A
    /// revert is [`ChainFault::Reverted`] with its data.
    fn call_as(&self, _from: Address, _call: Call, _code: Option<Bytes>) -> ChainReply<'_, Bytes> {
        unasked()
    }

    /// Answers about the newest block, as many as questions and in their order, each with a fault of its own:
    /// in one exchange where the nodes take several questions at once.
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

    /// Whether a request to any node failed without an answer since `mono_ms` (monotonic clock). That node may still
    /// receive what it was sent, whatever the other nodes answered.
    fn was_silent_since(&self, _mono_ms: u64) -> bool {
        false
    }

    /// Whether a node has heard of a transaction, mined or not.
    fn has_heard_of(&self, _hash: B256) -> ChainReply<'_, bool> {
        unasked()
    }

    /// Whether any node knows of a transaction, mined or not. `false` only where every node says so.
    fn is_known_anywhere(&self, hash: B256) -> ChainReply<'_, bool> {
        self.has_heard_of(hash)
    }

    /// What a transaction called; `None` where no node knows it.
    fn transaction(&self, _hash: B256) -> ChainReply<'_, Option<Transaction>> {
        unasked()
    }

    /// Broadcasts a signed transaction and gives its hash. **An error is no proof that it was not sent**:
    /// a node may take the bytes and lose the answer, and the next one then refuses them as known.
    fn send_raw(&self, raw: Bytes) -> ChainReply<'_, B256>;

    /// The same to every node, for what one of them took and nobody mined. As slow as the slowest.
    fn send_raw_everywhere(&self, raw: Bytes) -> ChainReply<'_, B256> {
        self.send_raw(raw)
    }
}

/// One network's explorer, which knows of tokens that are in no table of ours. What it says is a stranger's
/// word, and what its tokens say of themselves a stranger's stranger's: for showing, never for deciding.
pub trait Explorer: Send + Sync + Debug {
    /// The ERC-20 tokens of an account, at most [`TOKENS_MAX`](crate::explorer_http::TOKENS_MAX). An
    /// account that the explorer has never seen has none.
    fn tokens(&self, owner: Address) -> BoxFuture<'_, Result<Vec<TokenHeld>, ExplorerFault>>;
}

/// What an explorer says that an account holds of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHeld {
    pub address: Address,
    /// What the token calls itself: of bounded length, otherwise as it came.
    pub symbol: String,
    /// `None` where it says nothing usable; its amount can then only be told in smallest units.
    pub decimals: Option<u8>,
    pub amount: U256,
}

/// Why an explorer gave no usable answer. Without a word of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplorerFault {
    #[error("{endpoint} did not answer: {reason}")]
    Unreachable { endpoint: EndpointLabel, reason: String },
    #[error("{endpoint} answered with HTTP status {status}")]
    Status { endpoint: EndpointLabel, status: u16 },
    #[error("{endpoint} gave an invalid answer: {reason}")]
    Malformed { endpoint: EndpointLabel, reason: &'static str },
}

/// The state of the chain that a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockTag {
    /// The newest block and what the node would put into the next.
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

/// Something to find out about the newest block, perhaps together with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The code of an account.
    Code(Address),
    /// What a call would return, with at most so much gas.
    Call { from: Address, to: Address, data: Bytes, gas: u64 },
}

/// What a call would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    pub ok: bool,
    /// What it returns, or the reason of its revert.
    pub data: Bytes,
    /// `None` where the means do not tell.
    pub gas_used: Option<u64>,
    /// The events, as far as the means tell them.
    pub logs: Vec<Log>,
}

/// What became of a mined transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub tx_hash: B256,
    pub block_number: u64,
    pub block_hash: B256,
    pub status: TxStatus,
    /// The events, in the order in which they were emitted.
    pub logs: Vec<Log>,
    /// What the sender paid, in wei: gas and, where the network takes it apart, the fee for the data. `None`
    /// where the node does not say.
    pub fee: Option<U256>,
}

/// A transaction, as far as its meaning goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub hash: B256,
    /// Whose transaction it is.
    pub from: Address,
    /// The contract that it called; `None` where it created one.
    pub to: Option<Address>,
    pub input: Bytes,
}

/// Whether a mined transaction did what it was sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxStatus {
    Succeeded,
    /// It was mined and paid for, and changed nothing else.
    Reverted,
}

/// One event of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub address: Address,
    /// At most four.
    pub topics: Vec<B256>,
    pub data: Bytes,
}

/// Which events are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    /// Both blocks are part of the range.
    pub from_block: u64,
    pub to_block: u64,
    /// Of these contracts; of any, if there are none.
    pub addresses: Vec<Address>,
    /// The first topic: which events, by the hash of their signature. Any, if there are none.
    pub events: Vec<B256>,
    /// What the event's indexed arguments are, from the first on; any beyond these.
    pub indexed: Vec<B256>,
}

impl LogFilter {
    /// Whether an event is one of those that are wanted.
    pub fn fits(&self, found: &FoundLog) -> bool {
        let mut topics = found.log.topics.iter();
        let first = topics.next();
        (self.from_block..=self.to_block).contains(&found.block_number)
            && (self.addresses.is_empty() || self.addresses.contains(&found.log.address))
            && (self.events.is_empty() || first.is_some_and(|topic| self.events.contains(topic)))
            && self.indexed.iter().all(|wanted| topics.next() == Some(wanted))
    }
}

/// One event with its place on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLog {
    pub log: Log,
    pub tx_hash: B256,
    pub block_number: u64,
    pub block_hash: B256,
    /// Its place among all events of its block.
    pub index: u64,
}

/// Why the chain gave no usable answer. Texts that a node wrote are bounded and free of control
/// characters, but they are a stranger's words: private detail, never public text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// Nobody could be asked, or the endpoints failed in different ways. Worth another try later.
    #[error("no endpoint of the chain answered: {}", list(.tried))]
    Unavailable {
        /// Each endpoint and what happened to it, in the order in which they are configured.
        tried: Vec<(EndpointLabel, String)>,
    },
    /// Every endpoint serves another chain; this is the first. Nothing else was asked of it.
    #[error("{endpoint} serves chain {answered}, not {expected}")]
    WrongChain { endpoint: EndpointLabel, expected: ChainId, answered: ChainId },
    /// The contract refused the call. All nodes would say so, hence only one was asked.
    #[error("the contract reverted the call")]
    Reverted {
        /// What the contract gave as reason, ABI-encoded; may be empty.
        data: Bytes,
    },
    /// A node understood the question and refused it. For a broadcast this is the answer of the first
    /// node that judged the transaction; for a read, all endpoints were tried before.
    #[error("the node refused: {message} (code {code})")]
    Rejected { code: i64, message: String },
    /// Every endpoint answered with something that is no answer; this is the first.
    #[error("{endpoint} gave an invalid answer: {reason}")]
    Malformed { endpoint: EndpointLabel, reason: String },
}

fn unasked<'a, T: Send + 'a>() -> ChainReply<'a, T> {
    Box::pin(async { Err(ChainFault::Unavailable { tried: Vec::new() }) })
}

fn list(tried: &[(EndpointLabel, String)]) -> String {
    let each: Vec<String> =
        tried.iter().map(|(endpoint, reason)| format!("{endpoint}: {reason}")).collect();
    each.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_can_be_trait_objects() {
        fn _uses(_clock: &dyn Clock, _chain: &dyn Chain, _explorer: &dyn Explorer) {}
    }
}
