//! A chain in memory with the contracts of `contracts`, and a clock that moves only while all tasks wait.
//!
//! Its node can be down, silent, late and wrong.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use alloy_consensus::transaction::RlpEcdsaDecodableTx;
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_chain::clock::paused::PausedClock;
use bursar_chain::ports::{
    BlockTag, Chain, ChainFault, ChainReply, Clock, FoundLog, Log, LogFilter, PaidFee, Question,
    Receipt, SentNonce, Transaction, TxStatus,
};
use bursar_core::networks::{ChainId, MULTICALL3};
use bursar_core::time::Utc;
use bursar_submit::Call;
use bursar_submit::fees::FeeFacts;
use bursar_x402::signature::{Signature65, recover};
use tokio::time::Duration;

use crate::contracts::{CHAIN, IToken, PERMIT2, Token, network};

pub(crate) const GWEI: u128 = 1_000_000_000;
/// 2026-11-01T12:00:00Z.
pub(crate) const START_TIME: Utc = Utc(1_793_534_400_000);
const DATA_ORACLE: Address = address!("0x420000000000000000000000000000000000000F");

/// The node's reaction to a broadcast.
#[derive(Debug, Clone)]
pub(crate) enum BroadcastReaction {
    /// Confirms the transaction without keeping it.
    ConfirmWithoutTaking,
    /// Refuses the transaction with this message and does not keep it.
    Refuse(&'static str),
    /// Refuses the transaction with this message, but keeps it.
    TakeAndRefuse(&'static str),
    /// Keeps the transaction, but its answer is lost.
    TakeAndBreak,
    /// Does not keep the transaction, and breaks the connection.
    Break,
    /// Keeps the transaction, but answers this many milliseconds later.
    Late(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Tx {
    pub(crate) hash: B256,
    pub(crate) from: Address,
    pub(crate) nonce: u64,
    pub(crate) to: Address,
    pub(crate) input: Bytes,
    pub(crate) gas_limit: u64,
    pub(crate) max_fee: u128,
}

#[derive(Debug, Clone)]
struct Mined {
    tx: Tx,
    block: u64,
    ok: bool,
    logs: Vec<Log>,
    fee: U256,
}

/// How a node answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    Answers,
    /// The node cannot be reached.
    Down,
    /// The node accepts the question but never answers. The caller gives up after twenty seconds.
    Mute,
}

/// The flaw of a node's receipts and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Receipts have the right status but no events.
    NoEvents,
    /// Receipts state that their transactions failed.
    Reverted,
}

/// The node's data about blocks before the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastBlocks {
    /// Everything.
    Kept,
    /// The headers and receipts of past blocks, but not their state.
    NewestOnly,
    /// Like `NewestOnly`, and the node refuses questions about a block by its hash.
    Refused,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) node: Node,
    pub(crate) past: PastBlocks,
    /// Number of requests for receipts.
    pub(crate) receipt_requests: usize,
    /// Reactions to the next broadcasts. Further transactions are kept.
    pub(crate) broadcast_reactions: VecDeque<BroadcastReaction>,
    /// Every transaction that was broadcast, in order.
    pub(crate) sent: Vec<Tx>,
    pub(crate) base_fee: u128,
    /// Number of further requests for the receipt of a mined transaction that return none.
    pub(crate) hidden_receipts: usize,
    /// The flaw of receipts. With a flaw, searches find no events.
    pub(crate) flaw: Option<Flaw>,
    /// A second node has the right receipts.
    pub(crate) has_honest_node: bool,
    /// Whether every mined transaction fails, although each simulation succeeds.
    pub(crate) fails_in_blocks: bool,
    /// Each account's coin for gas, in wei.
    pub(crate) coin_balances: BTreeMap<Address, U256>,
    /// Number of requests for prices.
    pub(crate) price_requests: usize,
    /// Number of exchanges about payments, and of requests for code.
    pub(crate) exchanges: usize,
    pub(crate) code_requests: usize,
    /// Calls that were simulated from a given sender: the sender and the target.
    pub(crate) simulated_calls: Vec<(Address, Address)>,
    /// Whether a second node does not answer.
    pub(crate) other_node_silent: bool,
    /// Whether blocks hide the senders of their transactions.
    pub(crate) hides_senders: bool,
    /// Whether requests for a single receipt return none. Requests for several receipts still return them.
    pub(crate) hides_receipts: bool,
    /// The network's fee for 1,000 bytes of data, in wei; `None` if it charges none.
    pub(crate) data_fee: Option<U256>,
    /// Accounts with wallet code, each with its answer to the question whether it has signed.
    pub(crate) smart_wallets: BTreeMap<Address, B256>,
    /// Units that the token keeps of each transfer.
    pub(crate) token_fee_units: u64,
    /// The account whose balance the token hides.
    pub(crate) hidden_balance_of: Option<Address>,
    /// The domain that the token reports, instead of its own.
    pub(crate) separator: Option<B256>,
    /// The node's error for each call, instead of running it.
    pub(crate) call_error: Option<&'static str>,
    /// Calls of Multicall3 use up all gas.
    pub(crate) multicall_uses_all_gas: bool,
    pub(crate) has_multicall: bool,
    pub(crate) block_gas: u64,
    head: u64,
    mined: BTreeMap<B256, Mined>,
    pool: BTreeMap<B256, Tx>,
    token: Token,
    /// The token's state before each block.
    token_before_block: BTreeMap<u64, Token>,
    /// Blocks in which unknown transactions used nonces of an account.
    foreign_nonce_blocks: BTreeMap<Address, Vec<u64>>,
}

#[derive(Debug)]
pub(crate) struct World {
    clock: Arc<PausedClock>,
    state: Mutex<State>,
}

impl World {
    pub(crate) fn new(clock: Arc<PausedClock>) -> Arc<Self> {
        let state = State {
            node: Node::Answers,
            broadcast_reactions: VecDeque::new(),
            sent: Vec::new(),
            base_fee: GWEI,
            past: PastBlocks::Kept,
            receipt_requests: 0,
            hidden_receipts: 0,
            flaw: None,
            has_honest_node: false,
            fails_in_blocks: false,
            coin_balances: BTreeMap::new(),
            price_requests: 0,
            exchanges: 0,
            code_requests: 0,
            simulated_calls: Vec::new(),
            other_node_silent: false,
            hides_senders: false,
            hides_receipts: false,
            smart_wallets: BTreeMap::new(),
            data_fee: None,
            token_fee_units: 0,
            hidden_balance_of: None,
            separator: None,
            call_error: None,
            multicall_uses_all_gas: false,
            has_multicall: true,
            block_gas: 120_000_000,
            head: 100,
            mined: BTreeMap::new(),
            pool: BTreeMap::new(),
            token: Token::default(),
            token_before_block: BTreeMap::new(),
            foreign_nonce_blocks: BTreeMap::new(),
        };
        Arc::new(Self { clock, state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn give(&self, owner: Address, amount: u64) {
        self.state().token.balances.insert(owner, U256::from(amount));
    }

    pub(crate) fn fund(&self, signer: Address, wei: U256) {
        self.state().coin_balances.insert(signer, wei);
    }

    pub(crate) fn balance_of(&self, owner: Address) -> u64 {
        self.state().token.balance(owner).to::<u64>()
    }

    /// Makes a block of all transactions that are ready.
    pub(crate) fn mine(&self) {
        let now_s = self.now_s();
        self.state().mine(now_s);
    }

    pub(crate) fn mine_many(&self, blocks: usize) {
        (0..blocks).for_each(|_block| self.mine());
    }

    /// Removes the last blocks. With `keep`, their transactions return to the pool; otherwise they are dropped.
    pub(crate) fn reorganise(&self, blocks: u64, keep: bool) {
        let mut state = self.state();
        let from = state.head.saturating_sub(blocks) + 1;
        if let Some((_block, token)) = state.token_before_block.range(from..).next() {
            state.token = token.clone();
        }
        state.token_before_block.retain(|block, _token| *block < from);
        let undone: Vec<B256> =
            state.mined.values().filter(|one| one.block >= from).map(|one| one.tx.hash).collect();
        for hash in undone {
            let one = state.mined.remove(&hash).unwrap();
            *state.coin_balances.entry(one.tx.from).or_default() += one.fee;
            if keep {
                state.pool.insert(hash, one.tx);
            }
        }
        // The height stays the same, but the blocks no longer contain their transactions.
        state.head = from - 1 + blocks;
    }

    /// Mines a block in which another sender settles a payment. Returns the transaction's hash.
    pub(crate) fn mine_foreign_settlement(&self, to: Address, input: Bytes) -> B256 {
        let mut state = self.state();
        let from = Address::repeat_byte(0x77);
        let hash = keccak256([&input[..], &state.head.to_be_bytes()].concat());
        let tx = Tx { hash, from, nonce: 0, to, input, gas_limit: 0, max_fee: 0 };
        let block = state.head + 1;
        let token = state.token.clone();
        state.token_before_block.insert(block, token);
        let logs = state.token.run(to, &tx.input, self.now_s()).expect("it runs").0;
        state.mined.insert(hash, Mined { tx, block, ok: true, logs, fee: U256::ZERO });
        state.head = block;
        hash
    }

    /// Removes the transaction of another sender, so that its block is empty.
    pub(crate) fn remove_foreign(&self) {
        let mut state = self.state();
        let from = Address::repeat_byte(0x77);
        let undone = state.mined.values().find(|one| one.tx.from == from).cloned().unwrap();
        state.mined.remove(&undone.tx.hash);
        state.token = state.token_before_block[&undone.block].clone();
    }

    /// Uses the next nonce of an account by a transaction that this chain does not know.
    pub(crate) fn use_nonce(&self, account: Address) {
        let mut state = self.state();
        let block = state.head + 1;
        state.foreign_nonce_blocks.entry(account).or_default().push(block);
        state.head = block;
        let count = state.count(account, u64::MAX);
        state.pool.retain(|_hash, tx| tx.from != account || tx.nonce >= count);
    }

    /// The hash of the transaction from elsewhere that used a nonce of an account in a block.
    pub(crate) fn foreign_hash(account: Address, block: u64) -> B256 {
        keccak256([account.as_slice(), &block.to_be_bytes()].concat())
    }

    /// Puts an earlier broadcast into the pool, regardless of how the node answered it.
    pub(crate) fn put_in_pool(&self, hash: B256) {
        let mut state = self.state();
        let tx = state.sent.iter().find(|tx| tx.hash == hash).unwrap().clone();
        state.pool.insert(hash, tx);
    }

    /// Drops an account's unmined transactions.
    pub(crate) fn drop_from_pool(&self, account: Address) {
        self.state().pool.retain(|_hash, tx| tx.from != account);
    }

    /// Returns the transactions that are pending.
    pub(crate) fn pool(&self) -> Vec<Tx> {
        self.state().pool.values().cloned().collect()
    }

    pub(crate) fn is_known(&self, hash: B256) -> bool {
        let state = self.state();
        state.pool.contains_key(&hash) || state.mined.contains_key(&hash)
    }

    fn now_s(&self) -> u64 {
        u64::try_from(self.clock.now().utc.seconds()).unwrap()
    }

    fn reply<'a, T: std::marker::Send + 'a>(
        &self,
        answer: impl FnOnce(&mut State) -> Result<T, ChainFault>,
    ) -> ChainReply<'a, T> {
        let mut state = self.state();
        match state.node {
            Node::Answers => {
                let answer = answer(&mut state);
                // An exchange takes a millisecond.
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    answer
                })
            }
            Node::Down => Box::pin(async { Err(down()) }),
            Node::Mute => Box::pin(async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                Err(down())
            }),
        }
    }
}

fn down() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

fn rejection(message: &str) -> ChainFault {
    ChainFault::Rejected { code: -32000, message: message.to_owned() }
}

impl State {
    /// Returns the token in the state that a simulated call sees.
    fn simulated_token(&self) -> Token {
        Token {
            smart_wallets: self.smart_wallets.clone(),
            fee_units: self.token_fee_units,
            hidden_balance_of: self.hidden_balance_of,
            separator: self.separator,
            uses_all_gas: self.multicall_uses_all_gas,
            ..self.token.clone()
        }
    }

    /// Returns the number of an account's transactions up to a block.
    fn count(&self, account: Address, block: u64) -> u64 {
        let ours = self.mined.values().filter(|one| one.tx.from == account && one.block <= block);
        let foreign = self.foreign_nonce_blocks.get(&account).into_iter().flatten();
        let count = ours.count() + foreign.filter(|at| **at <= block).count();
        u64::try_from(count).unwrap()
    }

    fn mine(&mut self, now_s: u64) {
        let block = self.head + 1;
        let token = self.token.clone();
        self.token_before_block.insert(block, token);
        loop {
            let ready = self.pool.values().find(|tx| {
                tx.nonce == self.count(tx.from, u64::MAX)
                    && tx.max_fee >= self.base_fee
                    && self.coin_balances.get(&tx.from).copied().unwrap_or_default() >= tx.cost()
            });
            let Some(tx) = ready.cloned() else { break };
            self.pool.retain(|_hash, other| other.from != tx.from || other.nonce != tx.nonce);
            let ran = match self.fails_in_blocks {
                true => Err(Bytes::new()),
                false => self.token.run(tx.to, &tx.input, now_s),
            };
            let approve = IToken::approveCall::abi_decode(&tx.input);
            if let (Ok(_), Ok(IToken::approveCall { spender: PERMIT2, amount })) = (&ran, approve) {
                self.token.allowances.insert(tx.from, amount);
            }
            let (ok, logs) = match ran {
                Ok((logs, _returned)) => (true, logs),
                Err(_why) => (false, Vec::new()),
            };
            let fee = U256::from(tx.gas_limit / 2) * U256::from(self.base_fee);
            *self.coin_balances.get_mut(&tx.from).unwrap() -= fee;
            self.mined.insert(tx.hash, Mined { tx, block, ok, logs, fee });
        }
        self.head = block;
    }
}

impl Tx {
    fn cost(&self) -> U256 {
        U256::from(self.gas_limit) * U256::from(self.max_fee)
    }

    fn decode(raw: &Bytes) -> Self {
        assert_eq!(raw[0], 2, "EIP-1559");
        let (tx, signature) =
            TxEip1559::rlp_decode_with_signature(&mut &raw[1..]).expect("a transaction");
        let (r, s) = (B256::from(signature.r()), B256::from(signature.s()));
        let signature = Signature65::new(r, s, 27 + u8::from(signature.v())).expect("signed");
        let from = recover(tx.signature_hash(), &signature).expect("signed");
        let TxKind::Call(to) = tx.to else { panic!("it creates") };
        Self {
            hash: keccak256(raw),
            from,
            nonce: tx.nonce,
            to,
            input: tx.input,
            gas_limit: tx.gas_limit,
            max_fee: tx.max_fee_per_gas,
        }
    }

    /// Whether the transaction is a no-op that only uses its nonce.
    pub(crate) fn is_noop(&self) -> bool {
        self.to == self.from && self.input.is_empty()
    }
}

impl State {
    /// Adds a transaction to the pool, or refuses it as a node's pool would.
    fn accept_transaction(&mut self, tx: Tx) -> Result<B256, ChainFault> {
        if self.pool.contains_key(&tx.hash) || self.mined.contains_key(&tx.hash) {
            return Err(rejection("already known"));
        }
        if tx.nonce < self.count(tx.from, u64::MAX) {
            return Err(rejection("nonce too low"));
        }
        if self.coin_balances.get(&tx.from).copied().unwrap_or_default() < tx.cost() {
            return Err(rejection("insufficient funds for gas * price + value"));
        }
        let rival =
            self.pool.values().find(|other| other.from == tx.from && other.nonce == tx.nonce);
        if let Some(rival) = rival.cloned() {
            if tx.max_fee < rival.max_fee + rival.max_fee / 10 {
                return Err(rejection("replacement transaction underpriced"));
            }
            self.pool.remove(&rival.hash);
        }
        let hash = tx.hash;
        self.pool.insert(hash, tx);
        Ok(hash)
    }

    fn receipt(&mut self, hash: B256) -> Option<Receipt> {
        self.receipt_requests += 1;
        if self.hidden_receipts > 0 && self.mined.contains_key(&hash) {
            self.hidden_receipts -= 1;
            return None;
        }
        let receipt = self.true_receipt(hash)?;
        let logs = if self.flaw.is_some() { Vec::new() } else { receipt.logs };
        let status = match self.flaw {
            Some(Flaw::Reverted) => TxStatus::Reverted,
            Some(Flaw::NoEvents) | None => receipt.status,
        };
        Some(Receipt { status, logs, ..receipt })
    }

    fn true_receipt(&self, hash: B256) -> Option<Receipt> {
        let found = self.mined.get(&hash)?.clone();
        let status = if found.ok { TxStatus::Succeeded } else { TxStatus::Reverted };
        Some(Receipt {
            tx_hash: hash,
            block_number: found.block,
            block_hash: block_hash(found.block),
            status,
            logs: found.logs,
            paid_fee: Some(PaidFee { gas_used: 1, gas_price: found.fee, data_fee: U256::ZERO }),
        })
    }
}

impl Chain for World {
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        self.reply(|_state| Ok(CHAIN))
    }

    fn call(&self, to: Address, data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        if to == DATA_ORACLE {
            return self.reply(|state| {
                Ok(state.data_fee.map_or(Bytes::new(), |fee| fee.abi_encode().into()))
            });
        }
        let now_s = self.now_s();
        self.reply(move |state| {
            if let Some(words) = state.call_error {
                return Err(rejection(words));
            }
            let result = state.simulated_token().run(to, &data, now_s);
            result.map(|(_logs, returned)| returned).map_err(|data| ChainFault::Reverted { data })
        })
    }

    fn call_as(&self, from: Address, call: Call, _code: Option<Bytes>) -> ChainReply<'_, Bytes> {
        self.state().simulated_calls.push((from, call.to));
        self.call(call.to, call.data, BlockTag::Latest)
    }

    fn balance(&self, address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        self.reply(move |state| Ok(state.coin_balances.get(&address).copied().unwrap_or_default()))
    }

    fn code_at(&self, address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        let mut state = self.state();
        state.code_requests += usize::from(address != MULTICALL3);
        let is_contract = (address == MULTICALL3 && state.has_multicall)
            || address == network().stablecoin.address
            || state.smart_wallets.contains_key(&address);
        drop(state);
        let code = if is_contract { Bytes::from_static(&[1]) } else { Bytes::new() };
        self.reply(|_state| Ok(code))
    }

    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>> {
        self.reply(move |state| {
            if state.hides_receipts {
                return Ok(None);
            }
            Ok(state.receipt(hash))
        })
    }

    fn receipts<'a>(&'a self, hashes: &'a [B256]) -> ChainReply<'a, Vec<Option<Receipt>>> {
        self.reply(|state| Ok(hashes.iter().map(|hash| state.receipt(*hash)).collect()))
    }

    fn receipts_from_all_nodes(&self, hash: B256) -> ChainReply<'_, Vec<Receipt>> {
        self.reply(move |state| {
            let second = state.has_honest_node.then(|| state.true_receipt(hash)).flatten();
            Ok(state.receipt(hash).into_iter().chain(second).collect())
        })
    }

    fn answers(&self, questions: Vec<Question>) -> ChainReply<'_, Vec<Result<Bytes, ChainFault>>> {
        self.state().exchanges += 1;
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

    fn block_time(&self) -> ChainReply<'_, Utc> {
        let now = self.clock.now().utc;
        self.reply(move |_state| Ok(now))
    }

    fn logs(&self, wanted: LogFilter) -> ChainReply<'_, Vec<FoundLog>> {
        self.reply(move |state| {
            let mut found = Vec::new();
            for one in state.mined.values() {
                for (index, log) in (0..).zip(&one.logs) {
                    found.push(FoundLog {
                        log: log.clone(),
                        tx_hash: one.tx.hash,
                        block_number: one.block,
                        block_hash: keccak256(one.block.to_be_bytes()),
                        index,
                    });
                }
            }
            found.retain(|log| wanted.matches(log) && state.flaw.is_none());
            Ok(found)
        })
    }

    fn fee_facts(&self) -> ChainReply<'_, FeeFacts> {
        self.reply(|state| {
            state.price_requests += 1;
            Ok(FeeFacts {
                base_fee: Some(state.base_fee),
                tip: Some(1_000_000),
                gas_price: Some(state.base_fee),
                block_gas: Some(state.block_gas),
                block: Some(state.head),
            })
        })
    }

    fn block_number(&self) -> ChainReply<'_, u64> {
        self.reply(|state| Ok(state.head))
    }

    fn block_hash(&self, number: u64) -> ChainReply<'_, Option<B256>> {
        let hash = block_hash(number);
        self.reply(move |state| Ok((number <= state.head).then_some(hash)))
    }

    fn transaction_count_in(&self, address: Address, block: B256) -> ChainReply<'_, u64> {
        self.reply(move |state| {
            if state.past == PastBlocks::Refused || block_hash(state.head) != block {
                return Err(rejection("missing trie node"));
            }
            Ok(state.count(address, u64::MAX))
        })
    }

    fn transaction_count(&self, address: Address, block: BlockTag) -> ChainReply<'_, u64> {
        self.reply(move |state| {
            let mined = state.count(address, u64::MAX);
            if matches!(block, BlockTag::Number(_)) && state.past != PastBlocks::Kept {
                return Err(rejection("missing trie node"));
            }
            Ok(match block {
                BlockTag::Number(block) => state.count(address, block),
                BlockTag::Pending => {
                    let waits = |nonce| {
                        state.pool.values().any(|tx| tx.from == address && tx.nonce == nonce)
                    };
                    (mined..).find(|nonce| !waits(*nonce)).expect("a nonce")
                }
                BlockTag::Latest | BlockTag::Safe | BlockTag::Finalized => mined,
            })
        })
    }

    fn has_failed_since(&self, _mono_ms: u64) -> bool {
        self.state().other_node_silent
    }

    fn is_known(&self, hash: B256) -> ChainReply<'_, bool> {
        self.reply(move |state| {
            Ok(state.pool.contains_key(&hash) || state.mined.contains_key(&hash))
        })
    }

    fn transaction(&self, hash: B256) -> ChainReply<'_, Option<Transaction>> {
        self.reply(move |state| {
            let mined = state.mined.get(&hash).map(|one| &one.tx);
            let tx = mined.or_else(|| state.pool.get(&hash));
            Ok(tx.map(|tx| Transaction {
                hash,
                from: tx.from,
                to: Some(tx.to),
                input: tx.input.clone(),
            }))
        })
    }

    fn senders_in(&self, block: u64) -> ChainReply<'_, Vec<SentNonce>> {
        self.reply(move |state| {
            if state.hides_senders {
                return Ok(Vec::new());
            }
            let ours = state.mined.values().filter(|one| one.block == block);
            let ours = ours.map(|one| SentNonce {
                hash: one.tx.hash,
                from: one.tx.from,
                nonce: one.tx.nonce,
            });
            let foreign =
                state.foreign_nonce_blocks.iter().filter(|(_account, at)| at.contains(&block));
            let foreign = foreign.map(|(account, _at)| SentNonce {
                hash: Self::foreign_hash(*account, block),
                from: *account,
                nonce: state.count(*account, block - 1),
            });
            Ok(ours.chain(foreign).collect())
        })
    }

    fn send_raw(&self, raw: Bytes) -> ChainReply<'_, B256> {
        let tx = Tx::decode(&raw);
        let mut state = self.state();
        if state.node != Node::Answers {
            drop(state);
            return self.reply(|_state| Ok(B256::ZERO));
        }
        state.sent.push(tx.clone());
        let treatment = state.broadcast_reactions.pop_front();
        drop(state);
        match treatment {
            None => self.reply(|state| state.accept_transaction(tx)),
            Some(BroadcastReaction::ConfirmWithoutTaking) => self.reply(move |_state| Ok(tx.hash)),
            Some(BroadcastReaction::Refuse(words)) => {
                self.reply(move |_state| Err(rejection(words)))
            }
            Some(BroadcastReaction::TakeAndRefuse(words)) => self.reply(move |state| {
                state.accept_transaction(tx)?;
                Err(rejection(words))
            }),
            Some(BroadcastReaction::TakeAndBreak) => self.reply(move |state| {
                state.accept_transaction(tx)?;
                Err(down())
            }),
            Some(BroadcastReaction::Break) => self.reply(|_state| Err(down())),
            Some(BroadcastReaction::Late(ms)) => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.state().accept_transaction(tx)
            }),
        }
    }
}

fn block_hash(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}
