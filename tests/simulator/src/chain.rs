//! The chains of the world: the payments executed on them, the time in their blocks and, in worlds that trade or lend,
//! a ledger that executes signed bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_auditor::observations::{Head, Observation, Payment, Read};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{
    BlockTag, Chain, ChainFault, ChainReply, Clock, Log, Receipt, SimulatedBlock, SimulatedCall,
    SimulationRequest, Transaction, TxStatus,
};
use bursar_core::networks::{self, ChainId};
use bursar_core::time::Utc;
use bursar_submit::Call;
use bursar_submit::fees::FeeFacts;

use crate::evm::{self, Contracts, Ledger, notes as chain_notes, rehearsal};
use crate::faults::PlantedBug;
use crate::loan_book::LoanObservation;
use crate::plan::NodeMode;
use crate::tape::Tape;

/// One chain of the world, for any network.
#[derive(Debug)]
pub(crate) struct WorldChain {
    id: ChainId,
    tape: Tape,
    clock: Arc<ManualClock>,
    plant: Option<PlantedBug>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The time of the newest block; `None` if no node is reachable.
    block: Option<Utc>,
    redeemed_payments: BTreeMap<B256, Payment>,
    market: Option<Market>,
    /// The delay of each answer in milliseconds.
    delay_ms: u64,
}

/// The part of a chain that executes transactions.
#[derive(Debug)]
struct Market {
    ledger: Ledger,
    mode: NodeMode,
    /// The newest block that the nodes have shown to the wallet.
    shown_head: Option<Head>,
    /// Transactions in blocks that are not final yet: hash, block, and whether it succeeded.
    unfinal_transactions: Vec<(B256, u64, bool)>,
    /// Nonces that other transactions used, with their block.
    taken_nonces: Vec<(Address, u64, u64)>,
    /// Planted bug: rehearsals that the wallet uses again.
    reused_rehearsals: rehearsal::ReusedRehearsals,
    /// The time at which the nodes became unreachable, in Unix seconds of the chain; `None` if they are reachable.
    down_since: Option<u64>,
    /// The address whose key is on the device; `None` in a world without one.
    on_device: Option<Address>,
}

fn word(hex_text: &str) -> B256 {
    let digits = hex_text.trim_start_matches("0x");
    let bytes = hex::decode(digits).expect("hex");
    B256::left_padding_from(&bytes)
}

/// Returns the hash of the transaction that executes a payment.
pub(crate) fn hash_of(payment: &Payment) -> B256 {
    keccak256(format!("{} {}", payment.payer, payment.nonce))
}

fn unavailable() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

/// Returns whether a simulation makes only an empty call, to learn whether the nodes support the method.
fn is_probe(request: &SimulationRequest) -> bool {
    matches!(request.calls.as_slice(), [only] if only.data.is_empty() && only.value.is_zero())
}

fn rejected_fault(message: &str) -> ChainFault {
    ChainFault::Rejected { code: -32_000, message: message.to_owned() }
}

impl WorldChain {
    pub(crate) fn new(
        id: ChainId,
        tape: &Tape,
        clock: &Arc<ManualClock>,
        plant: Option<PlantedBug>,
    ) -> Self {
        let (tape, clock) = (tape.clone(), Arc::clone(clock));
        Self { id, tape, clock, plant, inner: Mutex::default() }
    }

    /// Makes the nodes answer after `ms` milliseconds from now on.
    pub(crate) fn set_delay(&self, ms: u64) {
        self.inner.lock().unwrap().delay_ms = ms;
    }

    /// Returns an answer after the delay of the nodes.
    fn answer_later<'a, T: Send + 'a>(
        &self,
        inner: &Inner,
        answered: Result<T, ChainFault>,
    ) -> ChainReply<'a, T> {
        let delay_ms = inner.delay_ms;
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            if delay_ms > 0 {
                clock.sleep_until(clock.mono_ms().saturating_add(delay_ms)).await;
            }
            answered
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.0
    }

    /// Opens the market, in which these addresses hold some of each token.
    pub(crate) fn open_market(&self, state: evm::State, time: u64) {
        let contracts = Contracts::of(self.id);
        let mut ledger = Ledger::new(contracts, state, time);
        ledger.pretends_open_gates = self.plant == Some(PlantedBug::GatesUnread);
        self.inner.lock().unwrap().market = Some(Market {
            ledger,
            mode: NodeMode::Honest,
            shown_head: None,
            unfinal_transactions: Vec::new(),
            taken_nonces: Vec::new(),
            reused_rehearsals: rehearsal::ReusedRehearsals::default(),
            down_since: None,
            on_device: None,
        });
    }

    /// Shows the auditor the allowances that exist before any trade.
    pub(crate) fn show_allowances(&self, owners: &[Address]) {
        self.with_market(|market| {
            for owner in owners {
                let open = chain_notes::allowances(&market.ledger, *owner);
                if !open.open.is_empty() {
                    self.tape.write(Observation::Allowances(open));
                }
            }
        });
    }

    /// Sets the time of the newest block. A chain with a market mines blocks until then.
    pub(crate) fn set_block(&self, block: Option<Utc>) {
        let mut inner = self.inner.lock().unwrap();
        inner.block = block;
        if let (Some(block), Some(market)) = (block, &mut inner.market) {
            let seconds = u64::try_from(block.seconds()).unwrap_or(0);
            market.mine_until(seconds, &self.tape);
        }
    }

    pub(crate) fn set_mode(&self, mode: NodeMode) {
        self.with_market(|market| {
            market.mode = mode;
            market.down_since = match (mode, market.down_since) {
                (NodeMode::Down, None) => Some(market.ledger.time),
                (NodeMode::Down, since) => since,
                _reachable => None,
            };
            market.ledger.lag_blocks = if let NodeMode::Lags(blocks) = mode { blocks } else { 0 };
            market.ledger.state.quoted_permille =
                if let NodeMode::Quotes(permille) = mode { permille } else { 1_000 };
        });
    }

    /// From now on, shows the auditor which digests the transactions of this address carry.
    pub(crate) fn watch_device(&self, address: Address) {
        self.with_market(|market| market.on_device = Some(address));
    }

    /// Runs `work` on the ledger of a chain with a market.
    pub(crate) fn with_ledger<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
        self.with_market(|market| work(&mut market.ledger))
    }

    /// Returns the time since which no node is reachable, in Unix seconds of the chain; `None` if a node is.
    pub(crate) fn down_since(&self) -> Option<u64> {
        self.with_market(|market| market.down_since).flatten()
    }

    fn with_market<T>(&self, work: impl FnOnce(&mut Market) -> T) -> Option<T> {
        self.inner.lock().unwrap().market.as_mut().map(work)
    }

    /// Undoes the newest blocks that are not final.
    pub(crate) fn reorganize(&self, lose: bool) {
        self.with_market(|market| {
            for hash in market.ledger.reorganize(lose) {
                market.unfinal_transactions.retain(|(open, _, _)| *open != hash);
                let hash = format!("{hash:#x}");
                self.tape.write(Observation::Unmined { chain: self.id.0, hash });
            }
            let head = market.ledger.head;
            market.taken_nonces.retain(|(_, _, block)| *block <= head);
        });
    }

    /// Lets another transaction take the nonce of the wallet's first pending transaction.
    pub(crate) fn take_next_nonce(&self) {
        self.with_market(|market| {
            let ledger = &mut market.ledger;
            let next = |tx: &&evm::Transaction| tx.nonce == ledger.state.nonce(tx.from);
            if let Some(who) = ledger.mempool.iter().find(next).map(|tx| tx.from) {
                let nonce = ledger.take_nonce(who);
                market.taken_nonces.push((who, nonce, ledger.head));
            }
        });
    }

    /// Executes a payment and returns the hash of its transaction; `None` if the payer has too little money.
    pub(crate) fn redeem(&self, payment: &Payment) -> Option<B256> {
        let hash = hash_of(payment);
        let mut inner = self.inner.lock().unwrap();
        let asset = Address::from_word(word(&payment.asset));
        if let Some(market) = &mut inner.market
            && let Some(token) = market.ledger.state.tokens.get_mut(&asset)
        {
            let payer = Address::from_word(word(&payment.payer));
            let held = token.balances.get(&payer).copied().unwrap_or_default();
            token.balances.insert(payer, held.checked_sub(U256::from(payment.amount))?);
            market.ledger.make_final();
        }
        inner.redeemed_payments.insert(hash, payment.clone());
        Some(hash)
    }

    fn reply<'a, T: Send + 'a>(&self, answer: impl FnOnce(&Inner) -> T) -> ChainReply<'a, T> {
        let inner = self.inner.lock().unwrap();
        let down = inner.market.as_ref().is_some_and(|market| market.mode == NodeMode::Down);
        let answered = match inner.block {
            Some(_block) if !down => Ok(answer(&inner)),
            _none => Err(unavailable()),
        };
        self.answer_later(&inner, answered)
    }

    /// Answers from the market. Without a market, answers as a node that does not support the method.
    fn market<'a, T: Send + 'a>(
        &self,
        answer: impl FnOnce(&mut Market) -> Result<T, ChainFault>,
    ) -> ChainReply<'a, T> {
        let mut inner = self.inner.lock().unwrap();
        let reachable = inner.block.is_some();
        let answered = match &mut inner.market {
            Some(market) if reachable && market.mode != NodeMode::Down => answer(market),
            _none => Err(unavailable()),
        };
        self.answer_later(&inner, answered)
    }

    fn has_market(&self) -> bool {
        self.inner.lock().unwrap().market.is_some()
    }

    fn authorization_state(&self, data: &Bytes) -> ChainReply<'_, Bytes> {
        // `authorizationState(payer, nonce)`; any other call returns no data.
        self.reply(|inner| match (data.get(4..36), data.get(36..68)) {
            (Some(payer), Some(nonce)) => {
                let used = inner.redeemed_payments.values().any(|one| {
                    word(&one.payer).as_slice() == payer && word(&one.nonce).as_slice() == nonce
                });
                Bytes::from(B256::with_last_byte(u8::from(used)))
            }
            _other => Bytes::new(),
        })
    }
}

impl Market {
    fn chain(&self) -> u64 {
        self.ledger.contracts.network.chain.0
    }

    /// Mines the blocks until `seconds`. Pending transactions go into the first block, so most later blocks are empty.
    fn mine_until(&mut self, seconds: u64, tape: &Tape) {
        let passed = seconds.saturating_sub(self.ledger.time);
        if passed == 0 {
            // If its time is set back, a chain mines nothing.
            return;
        }
        let interval = 2;
        let blocks = passed.div_ceil(interval);
        let first = self.ledger.time + passed.min(interval);
        let done = self.ledger.mine(first, blocks - 1, seconds);
        for included in &done {
            let ok = included.receipt.status == TxStatus::Succeeded;
            self.unfinal_transactions.push((included.tx.hash, included.receipt.block_number, ok));
            let seen = chain_notes::included(&self.ledger.contracts, included);
            tape.write(Observation::Included(Box::new(seen)));
        }
        self.show_loans(&done, tape);
        let mut owners: Vec<Address> = done.iter().map(|one| one.tx.from).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            tape.write(Observation::Allowances(chain_notes::allowances(&self.ledger, owner)));
            if !self.ledger.state.lending.is_empty() {
                tape.write_audited(evm::loan_notes::deployed(&self.ledger, owner));
            }
        }
        self.report_final(tape);
    }

    /// Writes the loans of these transactions to the tape, and the value of shares after their block.
    fn show_loans(&self, done: &[evm::Included], tape: &Tape) {
        if self.ledger.state.lending.is_empty() {
            return;
        }
        for one in done {
            if let Some(moved) = evm::loan_move(&self.ledger, one) {
                tape.write_loan(LoanObservation::Moved(moved));
            }
        }
        let (chain, block) = (self.chain(), self.ledger.head);
        let worth = evm::prices(&self.ledger.state, self.ledger.time);
        tape.write_loan(LoanObservation::Prices { chain, block, worth });
    }

    /// Writes the transactions that have become final to the tape.
    fn report_final(&mut self, tape: &Tape) {
        let (chain, head) = (self.chain(), self.ledger.head);
        let confirmations = self.ledger.contracts.network.gas.confirmations;
        let is_final = |block: u64| head + 1 >= block + confirmations;
        self.unfinal_transactions.retain(|(hash, block, succeeded)| {
            if is_final(*block) {
                let (hash, succeeded) = (format!("{hash:#x}"), *succeeded);
                tape.write(Observation::Mined { chain, hash, succeeded });
            }
            !is_final(*block)
        });
        self.taken_nonces.retain(|(from, nonce, block)| {
            if is_final(*block) {
                let (from, nonce) = (format!("{from:#x}"), *nonce);
                tape.write(Observation::NonceTaken { chain, from, nonce });
            }
            !is_final(*block)
        });
    }

    /// Writes to the tape that the wallet sees the newest block.
    fn show_head(&mut self, tape: &Tape) {
        let block = self.ledger.shown_head();
        let head = Head { chain: self.chain(), block, time_s: self.ledger.time_of(block) };
        if self.shown_head != Some(head) {
            self.shown_head = Some(head);
            tape.write(Observation::Head(head));
        }
    }

    fn send(&mut self, raw: &Bytes, tape: &Tape) -> Result<B256, ChainFault> {
        let tx = evm::decode(raw).ok_or_else(|| rejected_fault("invalid transaction"))?;
        let hash = tx.hash;
        if self.on_device == Some(tx.from) {
            tape.write_audited(chain_notes::carried_observation(&tx));
        }
        tape.write(Observation::Broadcast(chain_notes::transaction(&tx)));
        if self.mode == NodeMode::Forgets {
            return Ok(hash);
        }
        let accepted = self.ledger.accept(tx);
        match (self.mode, accepted) {
            (NodeMode::LosesAnswers, _any) => Err(unavailable()),
            (_mode, Err(fault)) => Err(rejected_fault(fault.text())),
            (_mode, Ok(())) => Ok(hash),
        }
    }

    fn run(&self, from: Address, call: &Call) -> Result<Bytes, ChainFault> {
        let done =
            self.ledger.try_out(|machine| machine.run(from, call.to, call.value, &call.data));
        done.map_err(|data| ChainFault::Reverted { data })
    }

    fn answer(
        &mut self,
        to: Address,
        data: &Bytes,
        block: BlockTag,
        tape: &Tape,
    ) -> Result<Bytes, ChainFault> {
        let number = match block {
            BlockTag::Number(number) => number,
            _newest => self.ledger.shown_head(),
        };
        let done = self
            .ledger
            .try_out_at(number, |machine| machine.run(Address::ZERO, to, U256::ZERO, data));
        let Some(answer) = done else {
            // A slow reader asks for a block that the nodes no longer have.
            tape.write(Observation::Read(Read::Failed { chain: self.chain() }));
            return Err(rejected_fault("header not found"));
        };
        let answer = answer.map_err(|data| ChainFault::Reverted { data })?;
        self.show_head(tape);
        let notes = chain_notes::reads(&self.ledger, to, data, &answer);
        notes.into_iter().for_each(|note| tape.write(note));
        let notes = evm::loan_notes::loan_reads(&self.ledger, number, (to, data), &answer);
        notes.into_iter().for_each(|note| tape.write_audited(note));
        Ok(answer)
    }

    fn fee_facts(&mut self, tape: &Tape) -> FeeFacts {
        self.show_head(tape);
        let (base, tip) = (self.ledger.base_fee, 1_000_000);
        let worst = chain_notes::worst_gas(&self.ledger, tip);
        tape.write(Observation::Read(Read::GasCost { chain: self.chain(), worst }));
        FeeFacts {
            base_fee: Some(base),
            tip: Some(tip),
            gas_price: Some(base + tip),
            block_gas: Some(30_000_000),
            block: Some(self.ledger.shown_head()),
        }
    }
}

/// `DOMAIN_SEPARATOR()`, which the tokens of the world do not have.
const DOMAIN_SEPARATOR: [u8; 4] = [0x36, 0x44, 0xe5, 0x15];

impl Chain for WorldChain {
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        self.reply(|_inner| self.id)
    }

    fn call(&self, to: Address, data: Bytes, block: BlockTag) -> ChainReply<'_, Bytes> {
        let exchange = networks::by_chain(self.id).and_then(|network| network.exchange);
        let is_token = exchange.is_none_or(|exchange| to != exchange.permit2);
        let own = chain_notes::is_authorization_state(&data)
            || (is_token && data.get(..4) == Some(&DOMAIN_SEPARATOR));
        if own || !self.has_market() {
            return self.authorization_state(&data);
        }
        let down = self.with_market(|market| {
            let is_down = market.mode == NodeMode::Down;
            is_down.then(|| evm::loan_notes::failed_reads(&market.ledger, to, &data))
        });
        down.flatten().into_iter().flatten().for_each(|note| self.tape.write_audited(note));
        self.market(|market| market.answer(to, &data, block, &self.tape))
    }

    fn balance(&self, address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        self.reply(|inner| match &inner.market {
            Some(market) => market.ledger.state.native_of(address),
            None => U256::MAX >> 64,
        })
    }

    fn code_at(&self, address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.reply(|inner| {
            let has_code = inner
                .market
                .as_ref()
                .is_some_and(|market| market.ledger.try_out(|machine| machine.has_code(address)));
            if has_code { Bytes::from_static(&[0x60]) } else { Bytes::new() }
        })
    }

    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>> {
        self.reply(|inner| {
            let mined = inner.market.as_ref().and_then(|market| {
                let receipt = market.ledger.receipt(hash);
                receipt.filter(|one| one.block_number <= market.ledger.shown_head())
            });
            mined.or_else(|| {
                inner.redeemed_payments.get(&hash).map(|payment| receipt(hash, payment))
            })
        })
    }

    fn block_time(&self) -> ChainReply<'_, Utc> {
        self.reply(|inner| {
            let block = inner.block.unwrap_or_default();
            match &inner.market {
                Some(market) if market.ledger.lag_blocks > 0 => {
                    let shown = market.ledger.time_of(market.ledger.shown_head());
                    block.min(Utc::from_seconds(i64::try_from(shown).unwrap_or(0)))
                }
                _newest => block,
            }
        })
    }

    /// Without it, the search for foreign positions does not begin.
    fn safe_block_number(&self) -> ChainReply<'_, u64> {
        Box::pin(async { Err(unavailable()) })
    }

    fn block_number(&self) -> ChainReply<'_, u64> {
        self.market(|market| {
            market.show_head(&self.tape);
            Ok(market.ledger.shown_head())
        })
    }

    fn fee_facts(&self) -> ChainReply<'_, FeeFacts> {
        self.market(|market| Ok(market.fee_facts(&self.tape)))
    }

    fn transaction_count(&self, who: Address, block: BlockTag) -> ChainReply<'_, u64> {
        self.market(|market| {
            let ledger = &market.ledger;
            Ok(match block {
                BlockTag::Pending => ledger.pending_nonce(who),
                BlockTag::Number(number) => ledger.nonce_at(who, number),
                BlockTag::Latest | BlockTag::Safe | BlockTag::Finalized
                    if ledger.lag_blocks == 0 =>
                {
                    ledger.state.nonce(who)
                }
                BlockTag::Latest | BlockTag::Safe | BlockTag::Finalized => {
                    ledger.nonce_at(who, ledger.shown_head())
                }
            })
        })
    }

    fn estimate_gas(&self, from: Address, call: Call) -> ChainReply<'_, u64> {
        self.market(|market| {
            market.ledger.try_out(|machine| {
                let done = machine.run(from, call.to, call.value, &call.data);
                done.map_err(|data| ChainFault::Reverted { data })?;
                Ok(rehearsal::gas_of(&call.data, machine.gas))
            })
        })
    }

    fn simulate(&self, request: SimulationRequest) -> ChainReply<'_, SimulatedBlock> {
        self.market(|market| {
            if matches!(market.mode, NodeMode::OverridesOnly | NodeMode::SingleCalls) {
                // The planted bug makes the wallet treat the method as supported, as if it did not probe again.
                if self.plant == Some(PlantedBug::LostMethodKept) && is_probe(&request) {
                    let calls = vec![SimulatedCall::without_details(true, Bytes::new())];
                    return Ok(SimulatedBlock { calls, reads: Vec::new() });
                }
                self.tape.write(Observation::Read(Read::NoSimulation { chain: self.id.0 }));
                return Err(ChainFault::Rejected {
                    code: -32_601,
                    message: "the method eth_simulateV1 does not exist".to_owned(),
                });
            }
            let (mut block, note) = rehearsal::simulate_plan(
                &market.ledger,
                &request,
                self.plant == Some(PlantedBug::RehearsalIgnored),
            );
            if self.plant == Some(PlantedBug::RehearsalReused) {
                block = market.reused_rehearsals.replace(&request, block);
            }
            note.into_iter().for_each(|note| self.tape.write(note));
            Ok(block)
        })
    }

    fn call_as(&self, from: Address, call: Call, code: Option<Bytes>) -> ChainReply<'_, Bytes> {
        self.market(|market| {
            if code.is_none() {
                let alone = market.mode == NodeMode::SingleCalls;
                let done = market.run(from, &call);
                let note = rehearsal::simulate_single(&market.ledger, from, &call, done.is_ok());
                note.into_iter().filter(|_| alone).for_each(|note| self.tape.write(note));
                return done;
            }
            if market.mode == NodeMode::SingleCalls {
                return Err(rejected_fault("too many arguments, want at most 2"));
            }
            let (answer, note) = rehearsal::as_account(&market.ledger, from, &call);
            note.into_iter().for_each(|note| self.tape.write(note));
            answer.map_err(|data| ChainFault::Reverted { data })
        })
    }

    fn is_known(&self, hash: B256) -> ChainReply<'_, bool> {
        self.market(|market| Ok(market.ledger.knows(hash)))
    }

    fn transaction(&self, hash: B256) -> ChainReply<'_, Option<Transaction>> {
        self.market(|market| {
            let mined = market.ledger.included(hash).map(|one| &one.tx);
            let tx = mined.or_else(|| market.ledger.mempool.iter().find(|tx| tx.hash == hash));
            Ok(tx.map(|tx| Transaction {
                hash,
                from: tx.from,
                to: Some(tx.to),
                input: tx.data.clone(),
            }))
        })
    }

    fn send_raw(&self, raw: Bytes) -> ChainReply<'_, B256> {
        if !self.has_market() {
            return self.reply(|_inner| keccak256(raw));
        }
        self.market(|market| market.send(&raw, &self.tape))
    }
}

fn receipt(hash: B256, payment: &Payment) -> Receipt {
    let address = Address::from_word(word(&payment.asset));
    let used = Log {
        address,
        topics: vec![
            keccak256("AuthorizationUsed(address,bytes32)"),
            word(&payment.payer),
            word(&payment.nonce),
        ],
        data: Bytes::new(),
    };
    let moved = Log {
        address,
        topics: vec![
            keccak256("Transfer(address,address,uint256)"),
            word(&payment.payer),
            word(&payment.payee),
        ],
        data: U256::from(payment.amount).to_be_bytes::<32>().into(),
    };
    Receipt {
        tx_hash: hash,
        status: TxStatus::Succeeded,
        block_number: 7,
        block_hash: B256::repeat_byte(7),
        logs: vec![used, moved],
        paid_fee: None,
    }
}
