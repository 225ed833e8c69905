//! The real [`Chain`]: JSON-RPC over HTTP to several endpoints. Most methods ask them in their order until one
//! answers. The chain trusts no endpoint before checking its chain id, never follows a redirect, and never shows a
//! URL.

mod ask;
mod batch;
mod breaker;
mod config;
mod endpoint;
mod envelope;
mod event;
mod exchange;
mod health;
mod identity;
mod logs;
mod quantity;
mod receipt;
mod refusal;
mod setback;
mod simulation;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_submit::fees::FeeFacts;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ports::{
    BlockTag, Chain, ChainFault, ChainReply, Clock, FoundLog, LogFilter, Question, Receipt,
    SentNonce, SimulatedBlock, SimulationRequest, Transaction,
};
use bursar_outbound::Client;
use endpoint::Endpoint;
use envelope::{Call, MethodKind};
use quantity::{Unusable, bytes_of, decode_as, hash_of, quantity, u64_of, u256_of};

pub use bursar_outbound::PlainHttpHosts;
pub use config::{
    ATTEMPT_TIMEOUT_MS, BATCH_MAX, BREAKER_COOL_DOWN_MS, BREAKER_FAILURES, ConfigError,
    ENDPOINTS_MAX, IDENTITY_RETRY_MS, IDENTITY_VALID_MS, REPLY_BYTES_MAX, RpcConfig, RpcLimits,
    TOTAL_TIMEOUT_MS,
};

/// A chain as reported by its nodes.
#[derive(Debug)]
pub struct RpcChain {
    config: RpcConfig,
    endpoints: Vec<Endpoint>,
    client: Client,
    clock: Arc<dyn Clock>,
    next_id: AtomicU64,
    /// The chain whose endpoints receive transactions; `None` if `endpoints` receive them. The only query sent to
    /// these endpoints is for their chain id.
    submit: Option<Box<RpcChain>>,
}

impl RpcChain {
    /// Creates a chain from its settings, and opens no connection.
    ///
    /// The clock measures cool-downs and the age of identity checks.
    ///
    /// # Errors
    /// There are no endpoints, too many, or one of them is not valid.
    pub fn new(config: RpcConfig, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        if config.endpoints.is_empty() {
            return Err(ConfigError::NoEndpoint);
        }
        if config.endpoints.len() > ENDPOINTS_MAX {
            return Err(ConfigError::TooManyEndpoints);
        }
        let each = config.endpoints.iter().zip(1..);
        let endpoints = each
            .map(|(text, position)| Endpoint::new(position, text, config.limits, config.plain_http))
            .collect::<Result<_, _>>()?;
        let client = Client::new(config.limits.attempt_timeout_ms).map_err(ConfigError::Client)?;
        Ok(Self { config, endpoints, client, clock, next_id: AtomicU64::new(1), submit: None })
    }

    /// Sends transactions only to the endpoints of `submit`, which must serve the same chain.
    #[must_use]
    pub fn submitting_to(mut self, submit: RpcChain) -> Self {
        self.submit = Some(Box::new(submit));
        self
    }

    fn submit_chain(&self) -> &Self {
        self.submit.as_deref().unwrap_or(self)
    }

    fn mono_ms(&self) -> u64 {
        self.clock.mono_ms()
    }

    fn newest_block<'a, T: Send + 'a>(
        &'a self,
        read: impl Fn(&RawValue) -> Result<T, Unusable> + Send + Sync + 'a,
    ) -> ChainReply<'a, T> {
        let params = json!([block_tag_json(BlockTag::Latest), false]);
        self.ask(Call { method: "eth_getBlockByNumber", params, kind: MethodKind::Read }, read)
    }

    /// Requests a price in wei by a method without parameters.
    fn request_price(&self, method: &'static str) -> ChainReply<'_, u128> {
        let call = Call { method, params: json!([]), kind: MethodKind::Read };
        self.ask(call, |raw| parse_price(&decode_as::<String>(raw)?))
    }
}

impl Chain for RpcChain {
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        Box::pin(async move {
            self.run_in_order(&|endpoint| Box::pin(self.ask_identity(endpoint))).await
        })
    }

    fn submit_chain_id(&self) -> ChainReply<'_, Option<ChainId>> {
        Box::pin(async move {
            match &self.submit {
                Some(submit) => submit.chain_id().await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn call(&self, to: Address, data: Bytes, block: BlockTag) -> ChainReply<'_, Bytes> {
        let params = json!([{ "to": to, "data": data }, block_tag_json(block)]);
        self.ask(Call { method: "eth_call", params, kind: MethodKind::Execute }, bytes)
    }

    fn balance(&self, address: Address, block: BlockTag) -> ChainReply<'_, U256> {
        let params = json!([address, block_tag_json(block)]);
        let decode = |raw: &RawValue| u256_of(&decode_as::<String>(raw)?);
        self.ask(Call { method: "eth_getBalance", params, kind: MethodKind::Read }, decode)
    }

    fn code_at(&self, address: Address, block: BlockTag) -> ChainReply<'_, Bytes> {
        let params = json!([address, block_tag_json(block)]);
        self.ask(Call { method: "eth_getCode", params, kind: MethodKind::Read }, bytes)
    }

    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>> {
        let call = Call {
            method: "eth_getTransactionReceipt",
            params: json!([hash]),
            kind: MethodKind::Read,
        };
        self.ask(call, move |raw| receipt::receipt_of(raw, hash))
    }

    fn receipts_from_all_nodes(&self, hash: B256) -> ChainReply<'_, Vec<Receipt>> {
        let call = Call {
            method: "eth_getTransactionReceipt",
            params: json!([hash]),
            kind: MethodKind::Read,
        };
        let step = self.endpoint_request(call, move |raw| receipt::receipt_of(raw, hash));
        Box::pin(async move { Ok(self.run_at_all(&step).await?.into_iter().flatten().collect()) })
    }

    fn receipts<'a>(&'a self, hashes: &'a [B256]) -> ChainReply<'a, Vec<Option<Receipt>>> {
        let call = |hash: &B256| Call {
            method: "eth_getTransactionReceipt",
            params: json!([hash]),
            kind: MethodKind::Read,
        };
        Box::pin(async move {
            let mut receipts = Vec::with_capacity(hashes.len());
            for some in hashes.chunks(config::BATCH_MAX) {
                let asked = |at: usize, raw: &RawValue| match some.get(at) {
                    Some(hash) => receipt::receipt_of(raw, *hash),
                    None => Err(Unusable("it has the wrong number of answers")),
                };
                match some {
                    [only] => receipts.push(self.receipt(*only).await?),
                    several => {
                        match self.ask_all(several.iter().map(call).collect(), asked).await {
                            Ok(found) => receipts.extend(found),
                            // The answers may be too long for one exchange: request them one by one.
                            Err(_fault) => {
                                for hash in several {
                                    receipts.push(self.receipt(*hash).await?);
                                }
                            }
                        }
                    }
                }
            }
            Ok(receipts)
        })
    }

    fn block_time(&self) -> ChainReply<'_, Utc> {
        self.newest_block(timestamp)
    }

    fn logs(&self, wanted: LogFilter) -> ChainReply<'_, Vec<FoundLog>> {
        let params = logs::params(&wanted);
        let call = Call { method: "eth_getLogs", params, kind: MethodKind::Refusable };
        self.ask(call, move |raw| logs::decode_logs(raw, &wanted))
    }

    fn fee_facts(&self) -> ChainReply<'_, FeeFacts> {
        Box::pin(async move {
            // Nodes need not support the methods for the tip and the gas price. Without a tip the fee model uses the
            // network's minimum, and only legacy networks need the gas price.
            let (newest, tip, gas_price) = futures::future::join3(
                self.newest_block(decode_fee_facts),
                self.request_price("eth_maxPriorityFeePerGas"),
                self.request_price("eth_gasPrice"),
            )
            .await;
            Ok(FeeFacts { tip: tip.ok(), gas_price: gas_price.ok(), ..newest? })
        })
    }

    fn block_number(&self) -> ChainReply<'_, u64> {
        let decode = |raw: &RawValue| u64_of(&decode_as::<String>(raw)?);
        self.ask(
            Call { method: "eth_blockNumber", params: json!([]), kind: MethodKind::Read },
            decode,
        )
    }

    fn safe_block_number(&self) -> ChainReply<'_, u64> {
        let params = json!([block_tag_json(BlockTag::Safe), false]);
        let call = Call { method: "eth_getBlockByNumber", params, kind: MethodKind::Refusable };
        Box::pin(async move {
            // Some nodes return null for a tag that they do not know.
            let known = self.ask(call, block_number).await?;
            let message = "there is no safe block".to_owned();
            known.ok_or(ChainFault::Rejected { code: 0, message })
        })
    }

    fn transaction_count(&self, address: Address, block: BlockTag) -> ChainReply<'_, u64> {
        // A healthy node may lack the state of a past block.
        let kind = match block {
            BlockTag::Number(_) => MethodKind::Refusable,
            _newest => MethodKind::Read,
        };
        let params = json!([address, block_tag_json(block)]);
        let decode = |raw: &RawValue| u64_of(&decode_as::<String>(raw)?);
        self.ask(Call { method: "eth_getTransactionCount", params, kind }, decode)
    }

    fn block_hash(&self, number: u64) -> ChainReply<'_, Option<B256>> {
        let params = json!([block_tag_json(BlockTag::Number(number)), false]);
        self.ask(
            Call { method: "eth_getBlockByNumber", params, kind: MethodKind::Read },
            block_hash,
        )
    }

    fn transaction_count_in(&self, address: Address, block: B256) -> ChainReply<'_, u64> {
        let params = json!([address, { "blockHash": block, "requireCanonical": true }]);
        let decode = |raw: &RawValue| u64_of(&decode_as::<String>(raw)?);
        let method = "eth_getTransactionCount";
        self.ask(Call { method, params, kind: MethodKind::Refusable }, decode)
    }

    fn estimate_gas(&self, from: Address, call: bursar_submit::Call) -> ChainReply<'_, u64> {
        let params = json!([{
            "from": from, "to": call.to, "value": call.value, "data": call.data,
        }]);
        let decode = |raw: &RawValue| u64_of(&decode_as::<String>(raw)?);
        self.ask(Call { method: "eth_estimateGas", params, kind: MethodKind::Execute }, decode)
    }

    fn simulate(&self, request: SimulationRequest) -> ChainReply<'_, SimulatedBlock> {
        let (calls, reads) = (request.calls.len(), request.reads.len());
        let params = simulation::params(&request);
        let call = Call { method: "eth_simulateV1", params, kind: MethodKind::Read };
        self.ask(call, move |raw| simulation::simulated_block(raw, calls, reads))
    }

    fn call_as(
        &self,
        from: Address,
        call: bursar_submit::Call,
        code: Option<Bytes>,
    ) -> ChainReply<'_, Bytes> {
        let run = json!({ "from": from, "to": call.to, "value": call.value, "data": call.data });
        let params = match code {
            Some(code) => json!([run, "latest", { from.to_string(): { "code": code } }]),
            None => json!([run, "latest"]),
        };
        self.ask(Call { method: "eth_call", params, kind: MethodKind::Execute }, bytes)
    }

    fn answers(&self, questions: Vec<Question>) -> ChainReply<'_, Vec<Result<Bytes, ChainFault>>> {
        let call = |question: Question| match question {
            Question::Code(address) => {
                let params = json!([address, block_tag_json(BlockTag::Latest)]);
                Call { method: "eth_getCode", params, kind: MethodKind::Read }
            }
            Question::Call { from, to, data, gas } => {
                let run = json!({ "from": from, "to": to, "data": data, "gas": quantity(gas) });
                let params = json!([run, block_tag_json(BlockTag::Latest)]);
                Call { method: "eth_call", params, kind: MethodKind::Execute }
            }
        };
        Box::pin(self.ask_each(questions.into_iter().map(call).collect(), bytes))
    }

    fn batch_refusal(&self, count: usize) -> ChainReply<'_, Option<String>> {
        Box::pin(self.batch_refusal_of(count))
    }

    fn has_failed_since(&self, mono_ms: u64) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.has_failed_since(mono_ms))
            || self.submit.as_ref().is_some_and(|submit| submit.has_failed_since(mono_ms))
    }

    fn silent_since_ms(&self) -> Option<u64> {
        // The network was silent from the failure of its last node on.
        let since = self.endpoints.iter().map(Endpoint::failing_since_ms);
        since.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn is_known(&self, hash: B256) -> ChainReply<'_, bool> {
        self.ask(transaction_by_hash(hash), move |raw| transaction::is_known(raw, hash))
    }

    fn is_known_anywhere(&self, hash: B256) -> ChainReply<'_, bool> {
        self.ask_anywhere(transaction_by_hash(hash), move |raw| transaction::is_known(raw, hash))
    }

    fn transaction(&self, hash: B256) -> ChainReply<'_, Option<Transaction>> {
        self.ask(transaction_by_hash(hash), move |raw| transaction::transaction_of(raw, hash))
    }

    fn senders_in(&self, block: u64) -> ChainReply<'_, Vec<SentNonce>> {
        let params = json!([block_tag_json(BlockTag::Number(block)), true]);
        let call = Call { method: "eth_getBlockByNumber", params, kind: MethodKind::Read };
        self.ask(call, transaction::senders_in)
    }

    fn send_raw(&self, raw: Bytes) -> ChainReply<'_, B256> {
        let (call, decode) = broadcast(&raw);
        self.submit_chain().ask(call, decode)
    }

    fn send_raw_everywhere(&self, raw: Bytes) -> ChainReply<'_, B256> {
        let (call, decode) = broadcast(&raw);
        self.submit_chain().ask_everywhere(call, decode)
    }
}

fn transaction_by_hash(hash: B256) -> Call {
    Call { method: "eth_getTransactionByHash", params: json!([hash]), kind: MethodKind::Read }
}

fn broadcast(raw: &Bytes) -> (Call, impl Fn(&RawValue) -> Result<B256, Unusable> + use<>) {
    // A transaction's hash is the Keccak-256 hash of its signed bytes, whatever its type. A node that returns
    // another hash has not accepted this transaction.
    let expected = keccak256(raw);
    let params = json!([hex::encode_prefixed(raw)]);
    let call = Call { method: "eth_sendRawTransaction", params, kind: MethodKind::Broadcast };
    let decode = move |answer: &RawValue| {
        let hash = hash_of(&decode_as::<String>(answer)?)?;
        let same = hash == expected;
        same.then_some(hash).ok_or(Unusable("it has the hash of another transaction"))
    };
    (call, decode)
}

fn block_tag_json(block: BlockTag) -> Value {
    match block {
        BlockTag::Pending => json!("pending"),
        BlockTag::Latest => json!("latest"),
        BlockTag::Safe => json!("safe"),
        BlockTag::Finalized => json!("finalized"),
        BlockTag::Number(height) => json!(quantity(height)),
    }
}

fn bytes(raw: &RawValue) -> Result<Bytes, Unusable> {
    bytes_of(&decode_as::<String>(raw)?)
}

/// Reads the fee data of the newest block. A chain without a base fee omits that field.
fn decode_fee_facts(raw: &RawValue) -> Result<FeeFacts, Unusable> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Block {
        base_fee_per_gas: Option<String>,
        gas_limit: Option<String>,
        number: Option<String>,
    }
    let block = decode_as::<Block>(raw)?;
    Ok(FeeFacts {
        base_fee: block.base_fee_per_gas.map(|fee| parse_price(&fee)).transpose()?,
        // Some networks report a gas limit above 64 bits; treat it as missing.
        block_gas: block.gas_limit.and_then(|gas| u64_of(&gas).ok()),
        block: block.number.and_then(|number| u64_of(&number).ok()),
        ..FeeFacts::default()
    })
}

/// Reads the hash of a block; `None` if there is no such block.
fn block_hash(raw: &RawValue) -> Result<Option<B256>, Unusable> {
    #[derive(Deserialize)]
    struct WireBlock {
        hash: B256,
    }
    Ok(decode_as::<Option<WireBlock>>(raw)?.map(|block| block.hash))
}

/// Reads the number of a block; `None` if there is no such block.
fn block_number(raw: &RawValue) -> Result<Option<u64>, Unusable> {
    #[derive(Deserialize)]
    struct Block {
        number: String,
    }
    decode_as::<Option<Block>>(raw)?.map(|block| u64_of(&block.number)).transpose()
}

fn parse_price(text: &str) -> Result<u128, Unusable> {
    u128::try_from(u256_of(text)?).map_err(|_huge| Unusable("a price is above 128 bits"))
}

fn timestamp(raw: &RawValue) -> Result<Utc, Unusable> {
    // The end of the year 9999. A later timestamp is false, or in milliseconds by mistake.
    const SECONDS_MAX: u64 = 253_402_300_799;
    #[derive(Deserialize)]
    struct Block {
        timestamp: String,
    }
    let seconds = u64_of(&decode_as::<Block>(raw)?.timestamp)?;
    let seconds =
        Some(seconds).filter(|at| *at <= SECONDS_MAX).and_then(|at| i64::try_from(at).ok());
    seconds.map(Utc::from_seconds).ok_or(Unusable("the block's year is after 9999"))
}
