//! Blocks, the mempool, receipts and reorganizations.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_chain::ports::{Log, PaidFee, Receipt, Transfer, TxStatus};

use super::VenueName;
use super::contracts::Contracts;
use super::machine::{Env, Machine};
use super::raw::Transaction;
use super::state::State;

/// The gas of a transaction before its call.
const PLAIN_GAS: u64 = 21_000;

/// The number of blocks with transactions that a reorganization can undo.
const BLOCKS_KEPT: usize = 6;

/// Seconds between two blocks.
const BLOCK_S: u64 = 2;

/// The number of earlier states that the nodes keep, on a chain with venues.
const STATES_KEPT: usize = 8;

/// The reason why a node rejects a transaction, with the text of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFault {
    Known,
    NonceTooLow,
    Underpriced,
    Unfunded,
    Invalid,
}

impl SendFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Known => "already known",
            Self::NonceTooLow => "nonce too low",
            Self::Underpriced => "replacement transaction underpriced",
            Self::Unfunded => "insufficient funds for gas * price + value",
            Self::Invalid => "invalid transaction",
        }
    }
}

/// A transaction in a block, with its effects.
#[derive(Debug, Clone)]
pub(crate) struct Included {
    pub(crate) tx: Transaction,
    pub(crate) receipt: Receipt,
    pub(crate) block_s: u64,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) gas_paid: U256,
}

#[derive(Debug, Clone)]
struct Block {
    number: u64,
    before: State,
    transactions: Vec<Transaction>,
}

/// The state of a chain after an earlier block.
#[derive(Debug, Clone)]
struct PastState {
    number: u64,
    time: u64,
    state: State,
}

/// One chain: its newest state, and the blocks that led to it.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) contracts: Contracts,
    pub(crate) state: State,
    pub(crate) head: u64,
    /// The time of the newest block, in Unix seconds.
    pub(crate) time: u64,
    pub(crate) base_fee: u128,
    pub(crate) mempool: Vec<Transaction>,
    included: BTreeMap<B256, Included>,
    /// The newest blocks with transactions, oldest first.
    blocks: Vec<Block>,
    /// The changes of accounts' nonces: block, account, and nonce after the block.
    nonces: Vec<(u64, Address, u64)>,
    /// Planted bug: the accounts for which nodes report allowances that do not exist.
    pub(crate) pretends_allowances: Vec<Address>,
    /// Planted bug: whether nodes report that the exit gates of vaults are open.
    pub(crate) pretends_open_gates: bool,
    /// The number of reorganizations. Each one changes the hashes of blocks.
    fork: u64,
    /// Earlier states, oldest first, on a chain with venues.
    past: Vec<PastState>,
    /// The number of blocks by which the nodes are behind.
    pub(crate) lag_blocks: u64,
    /// The shares that nodes leave out of their answers.
    pub(crate) hidden_shares: BTreeMap<(VenueName, Address), U256>,
}

impl Ledger {
    pub(crate) fn new(contracts: Contracts, state: State, time: u64) -> Self {
        Self {
            contracts,
            state,
            head: 1_000,
            time,
            base_fee: 50_000_000,
            mempool: Vec::new(),
            included: BTreeMap::new(),
            blocks: Vec::new(),
            nonces: Vec::new(),
            pretends_allowances: Vec::new(),
            pretends_open_gates: false,
            fork: 0,
            past: Vec::new(),
            lag_blocks: 0,
            hidden_shares: BTreeMap::new(),
        }
    }

    /// Returns the block in which nodes run calls.
    pub(crate) fn env(&self) -> Env {
        Env { contracts: self.contracts, time: self.time_of(self.shown_head()) }
    }

    /// Runs calls on a copy of the newest state that nodes report, as in the next block.
    pub(crate) fn try_out<T>(&self, work: impl FnOnce(&mut Machine<'_>) -> T) -> T {
        let mut state = self.shown_state();
        work(&mut Machine::new(self.env(), &mut state))
    }

    /// Runs calls on a copy of the state after a block; `None` if the nodes do not have that state.
    pub(crate) fn try_out_at<T>(
        &self,
        number: u64,
        work: impl FnOnce(&mut Machine<'_>) -> T,
    ) -> Option<T> {
        let mut state = self.reported_at(number)?;
        let env = Env { contracts: self.contracts, time: self.time_of(number) };
        Some(work(&mut Machine::new(env, &mut state)))
    }

    /// Returns the newest block that the nodes report.
    pub(crate) fn shown_head(&self) -> u64 {
        let oldest = self.past.first().map_or(self.head, |past| past.number);
        self.head.saturating_sub(self.lag_blocks).max(oldest.min(self.head))
    }

    /// Returns the time of a block, in Unix seconds.
    pub(crate) fn time_of(&self, number: u64) -> u64 {
        if number >= self.head {
            return self.time;
        }
        let Some(before) = self.past.iter().rfind(|past| past.number < number) else {
            return self.past.first().map_or(self.time, |past| past.time);
        };
        let next = self.past.iter().find(|past| past.number >= number);
        let most = next.map_or(self.time, |next| next.time);
        (before.time + BLOCK_S * (number - before.number)).min(most)
    }

    /// Returns the state after a block; `None` if nodes no longer have it.
    pub(crate) fn state_of(&self, number: u64) -> Option<&State> {
        let first = self.past.first().map_or(0, |past| past.number);
        if number < first {
            return None;
        }
        // Only the first block after a kept state changes the state, so the next kept state is also the state after
        // block `number`.
        let kept = self.past.iter().find(|past| past.number >= number);
        Some(kept.map_or(&self.state, |past| &past.state))
    }

    /// Returns a copy of the state after a block, as nodes report it; `None` if they do not have it.
    pub(crate) fn reported_at(&self, number: u64) -> Option<State> {
        let known = number <= self.shown_head();
        self.state_of(number).filter(|_state| known).map(|state| self.reported_state(state.clone()))
    }

    /// Returns a copy of the newest state, as nodes report it.
    pub(crate) fn shown_state(&self) -> State {
        let shown = self.state_of(self.shown_head()).unwrap_or(&self.state);
        self.reported_state(shown.clone())
    }

    fn reported_state(&self, mut state: State) -> State {
        state.lending.hidden.clone_from(&self.hidden_shares);
        if self.pretends_open_gates {
            state.lending.open_exits();
        }
        let exchange = self.contracts.exchange;
        for owner in &self.pretends_allowances {
            for token in state.tokens.values_mut() {
                for spender in [exchange.v3.router, exchange.permit2] {
                    token.allowances.insert((*owner, spender), U256::from(u128::MAX));
                }
            }
        }
        state
    }

    pub(crate) fn included(&self, hash: B256) -> Option<&Included> {
        self.included.get(&hash)
    }

    pub(crate) fn receipt(&self, hash: B256) -> Option<Receipt> {
        self.included.get(&hash).map(|one| one.receipt.clone())
    }

    /// Returns whether the chain or the mempool holds a transaction.
    pub(crate) fn knows(&self, hash: B256) -> bool {
        self.included.contains_key(&hash) || self.mempool.iter().any(|tx| tx.hash == hash)
    }

    /// Returns an account's nonce after a block.
    pub(crate) fn nonce_at(&self, who: Address, block: u64) -> u64 {
        let known = self.nonces.iter().filter(|(at, account, _)| *at <= block && *account == who);
        known.map(|(_, _, nonce)| *nonce).max().unwrap_or(0)
    }

    /// Returns an account's nonce after its transactions in the mempool.
    pub(crate) fn pending_nonce(&self, who: Address) -> u64 {
        let mut nonce = self.state.nonce(who);
        while self.mempool.iter().any(|tx| tx.from == who && tx.nonce == nonce) {
            nonce += 1;
        }
        nonce
    }

    /// Adds a transaction to the mempool.
    pub(crate) fn accept(&mut self, tx: Transaction) -> Result<(), SendFault> {
        if tx.chain != self.contracts.network.chain.0 {
            return Err(SendFault::Invalid);
        }
        if self.knows(tx.hash) {
            return Err(SendFault::Known);
        }
        if tx.nonce < self.state.nonce(tx.from) {
            return Err(SendFault::NonceTooLow);
        }
        let gas = U256::from(tx.gas_limit) * U256::from(tx.max_fee);
        if self.state.native_of(tx.from) < gas + tx.value {
            return Err(SendFault::Unfunded);
        }
        let same = |one: &Transaction| one.from == tx.from && one.nonce == tx.nonce;
        if let Some(at) = self.mempool.iter().position(same) {
            let least = self.mempool[at].max_fee + self.mempool[at].max_fee / 10;
            if tx.max_fee < least {
                return Err(SendFault::Underpriced);
            }
            self.mempool[at] = tx;
        } else {
            self.mempool.push(tx);
        }
        Ok(())
    }

    /// Mines one block at `time` with all transactions that may enter it, and then `empty` empty blocks until `newest`.
    pub(crate) fn mine(&mut self, time: u64, empty: u64, newest: u64) -> Vec<Included> {
        self.store_past_state();
        self.head += 1;
        self.time = time;
        let before = self.state.clone();
        let mut done: Vec<Included> = Vec::new();
        while let Some(at) = self.mempool.iter().position(|tx| self.may_enter(tx)) {
            let tx = self.mempool.remove(at);
            done.push(self.execute(tx));
        }
        if !done.is_empty() {
            let transactions = done.iter().map(|one| one.tx.clone()).collect();
            self.blocks.push(Block { number: self.head, before, transactions });
            let surplus = self.blocks.len().saturating_sub(BLOCKS_KEPT);
            self.blocks.drain(..surplus);
        }
        let state = &self.state;
        self.mempool.retain(|tx| tx.nonce >= state.nonce(tx.from));
        self.head += empty;
        self.time = newest;
        done
    }

    /// Keeps the state after the newest block, on a chain with venues.
    fn store_past_state(&mut self) {
        if !self.state.lending.is_empty() {
            let (number, time, state) = (self.head, self.time, self.state.clone());
            self.past.push(PastState { number, time, state });
            let surplus = self.past.len().saturating_sub(STATES_KEPT);
            self.past.drain(..surplus);
        }
    }

    fn may_enter(&self, tx: &Transaction) -> bool {
        let gas = U256::from(tx.gas_limit) * U256::from(tx.max_fee);
        tx.nonce == self.state.nonce(tx.from)
            && tx.max_fee >= self.base_fee
            && self.state.native_of(tx.from) >= gas + tx.value
    }

    fn execute(&mut self, tx: Transaction) -> Included {
        let nonce = tx.nonce + 1;
        self.state.nonces.insert(tx.from, nonce);
        self.nonces.push((self.head, tx.from, nonce));
        let env = Env { contracts: self.contracts, time: self.time };
        let mut machine = Machine::new(env, &mut self.state);
        let done = machine.run(tx.from, tx.to, tx.value, &tx.data);
        let (logs, transfers) = (machine.logs, machine.transfers);
        let used = PLAIN_GAS + machine.gas + 16 * u64::try_from(tx.data.len()).unwrap_or(0);
        let ok = done.is_ok();
        let used = used.min(tx.gas_limit);
        let price = self.base_fee + tx.tip.min(tx.max_fee - self.base_fee);
        let data_fee = U256::from(self.data_fee(tx.data.len()));
        let gas_paid = U256::from(used) * U256::from(price) + data_fee;
        let left = self.state.native_of(tx.from).saturating_sub(gas_paid);
        self.state.native.insert(tx.from, left);
        let receipt = self.new_receipt(&tx, ok, logs, used, price, data_fee);
        let included = Included { tx, receipt, block_s: self.time, transfers, gas_paid };
        self.included.insert(included.tx.hash, included.clone());
        included
    }

    fn data_fee(&self, bytes: usize) -> u64 {
        if self.contracts.charges_for_data() {
            self.state.data_fee * (u64::try_from(bytes).unwrap_or(0) + 100)
        } else {
            0
        }
    }

    fn new_receipt(
        &self,
        tx: &Transaction,
        ok: bool,
        logs: Vec<Log>,
        gas_used: u64,
        price: u128,
        data_fee: U256,
    ) -> Receipt {
        Receipt {
            tx_hash: tx.hash,
            block_number: self.head,
            block_hash: self.block_hash(self.head),
            status: if ok { TxStatus::Succeeded } else { TxStatus::Reverted },
            logs,
            paid_fee: Some(PaidFee { gas_used, gas_price: U256::from(price), data_fee }),
        }
    }

    fn block_hash(&self, number: u64) -> B256 {
        keccak256(format!("{number} of fork {}", self.fork))
    }

    /// Removes the newest blocks that are not final for any wallet, and returns the hashes of their transactions.
    ///
    /// The transactions return to the mempool, or are lost if `lose` is true.
    pub(crate) fn reorganize(&mut self, lose: bool) -> Vec<B256> {
        let confirmations = self.contracts.network.gas.confirmations;
        let first = self.blocks.iter().position(|block| {
            // Depth counts the block itself.
            self.head + 1 - block.number < confirmations
        });
        let Some(first) = first else { return Vec::new() };
        let removed: Vec<Block> = self.blocks.drain(first..).collect();
        let Some(oldest) = removed.first() else { return Vec::new() };
        self.state = oldest.before.clone();
        let number = oldest.number;
        self.nonces.retain(|(at, _, _)| *at < number);
        self.head = number - 1;
        self.past.retain(|past| past.number + 1 < number);
        self.fork += 1;
        let mut hashes = Vec::new();
        for tx in removed.into_iter().flat_map(|block| block.transactions) {
            self.included.remove(&tx.hash);
            hashes.push(tx.hash);
            if !lose {
                self.mempool.push(tx);
            }
        }
        hashes
    }

    /// Changes the state in a separate block, as transactions of other accounts do.
    pub(crate) fn change_from_outside(&mut self, change: impl FnOnce(&mut State, u64)) {
        if !self.state.lending.is_empty() {
            self.store_past_state();
            self.head += 1;
        }
        change(&mut self.state, self.time);
        self.make_final();
    }

    /// Makes all blocks so far final, because the world changed the state without a transaction.
    pub(crate) fn make_final(&mut self) {
        self.blocks.clear();
    }

    /// Lets a foreign transaction use the next nonce of an account.
    pub(crate) fn take_nonce(&mut self, who: Address) -> u64 {
        let nonce = self.state.nonce(who);
        self.mempool.retain(|tx| tx.from != who || tx.nonce != nonce);
        self.state.nonces.insert(who, nonce + 1);
        self.nonces.push((self.head, who, nonce + 1));
        self.make_final();
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::setting::initial;
    use alloy_primitives::Bytes;
    use bursar_core::networks::ChainId;

    const OWNER: Address = Address::repeat_byte(0x11);

    fn ledger() -> Ledger {
        let chain = ChainId(8453);
        Ledger::new(Contracts::of(chain), initial(chain, &[OWNER]), 1_000)
    }

    fn tx(nonce: u64, max_fee: u128) -> Transaction {
        Transaction {
            hash: B256::repeat_byte(u8::try_from(max_fee % 251).unwrap()),
            digest: B256::ZERO,
            signature: String::new(),
            chain: 8453,
            from: OWNER,
            nonce,
            to: Address::repeat_byte(0x22),
            value: U256::from(5),
            data: Bytes::new(),
            gas_limit: 50_000,
            max_fee,
            tip: 0,
        }
    }

    #[test]
    fn a_reorganization_returns_transactions_and_nonces() {
        let mut ledger = ledger();
        let before = ledger.state.clone();
        ledger.accept(tx(0, 60_000_000)).unwrap();
        assert_eq!(ledger.accept(tx(0, 61_000_000)), Err(SendFault::Underpriced));
        assert_eq!(ledger.accept(tx(0, 60_000_000)), Err(SendFault::Known));
        let done = ledger.mine(1_002, 0, 1_002);
        assert_eq!((done.len(), ledger.nonce_at(OWNER, 1_001)), (1, 1));
        assert_eq!(ledger.accept(tx(0, 90_000_000)), Err(SendFault::NonceTooLow));
        assert_eq!(ledger.reorganize(false).len(), 1);
        assert_eq!((&ledger.state, ledger.mempool.len(), ledger.head), (&before, 1, 1_000));
        assert_eq!(ledger.nonce_at(OWNER, 1_001), 0);
        // A block that is two blocks deep is final on this network.
        ledger.mine(1_004, 1, 1_006);
        assert!(ledger.reorganize(true).is_empty());
    }
}
