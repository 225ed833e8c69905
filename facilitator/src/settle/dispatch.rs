//! Gives what waits on one network to its signers, each with a desk of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::points::Points;
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_core::networks::FeeModel;
use bursar_desks::service::ServiceDesk;
use bursar_desks::store::StoreFault;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::book::ledger::Ledger;
use crate::book::redb_store::fresh_id;
use crate::book::{Batch, Record, State};
use crate::exact;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::network::Served;
use crate::settle::price::Prices;
use crate::settle::queue::{Limits, Queue};
use crate::settle::watch;
use crate::settle::withdraw::Gates;
use crate::transaction;

sol! {
    #[derive(Debug)]
    interface INodeInterface {
        function gasEstimateL1Component(address to, bool contractCreation, bytes data)
            external view returns (uint64 gasEstimateForL1, uint256 baseFee, uint256 l1BaseFeeEstimate);
    }
}

/// One signer of a network.
#[derive(Debug)]
pub struct Teller {
    pub desk: Arc<ServiceDesk>,
}

/// What a signer has in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Transactions that are in no block.
    unmined: usize,
    /// The gas that they may use.
    gas: u64,
}

type Loads = BTreeMap<Address, Load>;

/// Everything that settling on one network takes.
#[derive(Debug)]
pub struct Means {
    pub served: Arc<Served>,
    pub ledger: Ledger,
    pub tellers: BTreeMap<Address, Teller>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    /// Where tests end the process.
    pub points: Arc<dyn Points>,
    pub stopping: CancellationToken,
}

/// Settles on one network.
#[derive(Debug)]
pub struct Settler {
    pub means: Means,
    pub tasks: TaskTracker,
    pub(super) prices: Prices,
    /// Payers whose code has had a signer pay for nothing.
    pub(super) wasteful: Memory<Address, ()>,
    pub(super) gates: Gates,
    /// Signers that were removed from the settings while they had something in flight.
    former: Mutex<BTreeSet<Address>>,
    queue: mpsc::UnboundedSender<News>,
}

impl Deref for Settler {
    type Target = Means;

    fn deref(&self) -> &Means {
        &self.means
    }
}

/// How long a payer is left alone that has wasted gas.
const WASTEFUL_MS: u64 = 60_000;

/// What the dispatcher is told.
#[derive(Debug)]
pub(super) enum News {
    Waits(Arc<Record>),
    /// A transaction of this signer, of so much gas, is mined, or will not be.
    Free(Address, u64),
}

impl Settler {
    /// Begins to settle what is open and whatever comes.
    pub fn start(means: Means, open: (Vec<Record>, Vec<Batch>)) -> Arc<Self> {
        let (queue, news) = mpsc::unbounded_channel();
        let settler = Arc::new(Self {
            means,
            tasks: TaskTracker::new(),
            prices: Prices::default(),
            wasteful: Memory::new(WASTEFUL_MS),
            gates: Gates::default(),
            former: Mutex::default(),
            queue,
        });
        let (records, batches) = open;
        let mut loads = Loads::new();
        for batch in batches {
            if batch.found.is_some() {
                settler.watch(batch);
                continue;
            }
            let load = loads.entry(batch.signer).or_default();
            load.unmined = load.unmined.saturating_add(1);
            load.gas = load.gas.saturating_add(batch.gas_limit);
            settler.tasks.spawn(watch::see_through(Arc::clone(&settler), batch));
        }
        for record in records {
            if record.state == State::Queued {
                settler.enqueue(Arc::new(record));
            }
        }
        settler.tasks.spawn(dispatch(Arc::clone(&settler), news, loads));
        settler
    }

    /// Has a payment wait for its transaction.
    pub fn enqueue(&self, record: Arc<Record>) {
        // Nobody listens only when everything ends; it is kept, and the next start goes on.
        let _stopped = self.queue.send(News::Waits(record));
    }

    /// Whether an account sends transactions for us, or has.
    pub(super) fn is_signer(&self, account: Address) -> bool {
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        self.served.signers.contains(&account) || former.contains(&account)
    }

    pub(super) fn remember_signer(&self, signer: Address) {
        self.former.lock().unwrap_or_else(PoisonError::into_inner).insert(signer);
    }

    /// Watches a settlement of another sender.
    pub(super) fn watch(self: &Arc<Self>, batch: Batch) {
        self.tasks.spawn(watch::see_through(Arc::clone(self), batch));
    }

    pub(super) fn freed(&self, signer: Address, gas: u64) {
        let _stopped = self.queue.send(News::Free(signer, gas));
    }

    /// Puts a transaction together and keeps it; the desk hears of it from its watch.
    async fn open_batch(
        &self,
        signer: Address,
        records: &[Arc<Record>],
    ) -> Result<Option<Batch>, Unopened> {
        let payments: Vec<_> = records.iter().map(|record| &record.payment).collect();
        let cap = self.served.config.gas_cap_contract;
        let place = &self.served.place;
        let gas = transaction::gas(place, &payments, cap).ok_or(Unopened::Gas)?;
        let call = transaction::call(place, &payments, gas);
        let data_gas = self.data_gas(&call).await?;
        let batch = Batch {
            id: fresh_id()?,
            chain: place.chain,
            signer,
            payments: payments.iter().map(|payment| payment.key()).collect(),
            gas_limit: gas.saturating_add(data_gas),
            found: None,
        };
        // Before it is kept: a payment of it can be withdrawn from then on.
        self.gates.open(batch.id, signer);
        self.points.reach("settle.before batch");
        let kept = self.ledger.batched(batch.clone()).await;
        if !matches!(kept, Ok(true)) {
            self.gates.close(batch.id);
        }
        self.points.reach("settle.after batch");
        Ok(kept?.then_some(batch))
    }

    /// Those of the payments that still wait for a transaction: others were withdrawn meanwhile.
    async fn still_queued(
        &self,
        records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, StoreFault> {
        let mut left = Vec::with_capacity(records.len());
        for record in records {
            let known = self.ledger.find(record.payment.key()).await?;
            if known.is_some_and(|known| known.record().state == State::Queued) {
                left.push(record);
            }
        }
        Ok(left)
    }

    /// Those of the payments that have not expired while they waited. The others end here: nothing was sent
    /// for them.
    async fn in_time(&self, records: Vec<Arc<Record>>) -> Vec<Arc<Record>> {
        let now = self.served.now_seconds();
        let at = self.served.clock.now().utc;
        let mut good = Vec::with_capacity(records.len());
        let mut late = Vec::new();
        for record in records {
            match exact::check_time(&record.payment.terms, now) {
                Ok(()) => good.push(record),
                Err(reason) => {
                    let message = reason.sentence().to_owned();
                    let state = State::Failed { reason, message, at };
                    late.push((record.payment.key(), state, record.attempts));
                }
            }
        }
        for (key, state, attempts) in late {
            if let Err(fault) = self.ledger.moved(key, State::Queued, state, attempts).await {
                // It is as open as before, and the next start finds it expired again.
                tracing::error!(%fault, "a payment that expired could not be kept as such");
            }
        }
        good
    }

    /// Where the cost of the data is part of the gas, only the network knows it (Arbitrum Nitro).
    async fn data_gas(&self, call: &bursar_submit::Call) -> Result<u64, ChainFault> {
        if self.served.row().gas.model != FeeModel::Arbitrum {
            return Ok(0);
        }
        let ask = INodeInterface::gasEstimateL1ComponentCall {
            to: call.to,
            contractCreation: false,
            data: call.data.clone(),
        };
        let node_interface = Address::with_last_byte(0xc8);
        let answer =
            self.served.chain.call(node_interface, ask.abi_encode().into(), BlockTag::Latest);
        let told = match answer.await {
            Ok(bytes) => {
                INodeInterface::gasEstimateL1ComponentCall::abi_decode_returns_validate(&bytes).ok()
            }
            Err(ChainFault::Reverted { .. } | ChainFault::Rejected { .. }) => None,
            Err(fault) => return Err(fault),
        };
        match told {
            // The price of data moves: half as much again.
            Some(told) => {
                let gas = told.gasEstimateForL1;
                Ok(gas.saturating_add(gas / 2))
            }
            None if self.has_arbitrum_system().await? => Err(ChainFault::Rejected {
                code: 0,
                message: "the node does not say how much gas the data of a transaction takes"
                    .to_owned(),
            }),
            // A local chain that stands for the network: its data costs no more than any.
            None => Ok(0),
        }
    }

    /// Whether the chain has the precompile that every Arbitrum chain has (ArbSys).
    async fn has_arbitrum_system(&self) -> Result<bool, ChainFault> {
        let arb_sys = Address::with_last_byte(0x64);
        Ok(!self.served.chain.code_at(arb_sys, BlockTag::Latest).await?.is_empty())
    }

    /// When payments are sent, by what is known of blocks now.
    fn limits_now(&self) -> Limits {
        let share = u64::from(self.served.config.block_gas_share_percent);
        let block = self.prices.last().and_then(|price| price.block_gas);
        let gas = block.map_or(u64::MAX, |block| (block / 100).saturating_mul(share));
        // Without the contract that they share, they go one by one.
        let together = if self.served.is_multicall_known() { self.limits.together } else { 1 };
        Limits { gas: gas.min(transaction::GAS_MAX / 2), together, ..self.limits }
    }

    /// The same for a signer: a transaction takes no more gas than it can pay for.
    fn limits_of(&self, signer: Address, loads: &Loads) -> Limits {
        let limits = self.limits_now();
        let load = loads.get(&signer).copied().unwrap_or_default();
        let Some(price) = self.prices.last().filter(|price| price.most > 0) else { return limits };
        let coin = price.balances.get(&signer).copied().unwrap_or_default();
        let affords = u64::try_from(coin / U256::from(price.most)).unwrap_or(u64::MAX);
        Limits { gas: limits.gas.min(affords.saturating_sub(load.gas)), ..limits }
    }

    /// The signer that is given the next transaction of so much gas: the least busy one that can pay for it next to
    /// what it has in flight.
    fn least_busy(&self, loads: &Loads, gas: u64) -> Option<Address> {
        let price = self.prices.last();
        let load = |signer: &Address| loads.get(signer).copied().unwrap_or_default();
        let can_pay = |signer: &Address| {
            let Some(price) = &price else { return true };
            let all = price.cost(load(signer).gas.saturating_add(gas), 1);
            all.is_some_and(|wei| {
                wei.is_zero() || price.balances.get(signer).is_some_and(|has| *has >= wei)
            })
        };
        let free = self
            .tellers
            .keys()
            .filter(|signer| load(signer).unmined < self.limits.in_flight && can_pay(signer));
        free.min_by_key(|signer| load(signer).unmined).copied()
    }

    /// The gas that the transaction of these payments may use, data gas of Arbitrum apart.
    fn gas_of(&self, records: &[Arc<Record>]) -> u64 {
        let payments: Vec<_> = records.iter().map(|record| &record.payment).collect();
        let cap = self.served.config.gas_cap_contract;
        transaction::gas(&self.served.place, &payments, cap).unwrap_or(0)
    }

    /// Who sends what only known senders may send: the one that was simulated.
    fn sender_of(&self, records: &[Arc<Record>], signer: Address) -> Address {
        let bound = |record: &Arc<Record>| !exact::method(record.payment.method).takes_any_caller();
        let first = self.served.signers.first().copied();
        if records.iter().any(bound) { first.unwrap_or(signer) } else { signer }
    }
}

/// Why a transaction was not put together. Nothing was sent.
#[derive(Debug, thiserror::Error)]
enum Unopened {
    #[error("the payments need more gas than there is")]
    Gas,
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// How long is waited before something is tried again that did not work.
const PAUSE_MS: u64 = 500;

async fn dispatch(
    settler: Arc<Settler>,
    mut news: mpsc::UnboundedReceiver<News>,
    mut loads: Loads,
) {
    let clock = Arc::clone(&settler.served.clock);
    let coin = settler.served.row().stablecoin.address;
    let known = settler.served.config.tokens.iter().copied().chain([coin]);
    let mut queue = Queue::new(known.collect());
    loop {
        while let Ok(told) = news.try_recv() {
            hear(&mut queue, &mut loads, told, clock.mono_ms());
        }
        // What was withdrawn holds up nothing.
        queue.drop_gone(|record| settler.ledger.is_queued(&record.payment.key()));
        while let Some(signer) = settler.least_busy(&loads, queue.next_gas()) {
            let idle = loads.values().all(|load| load.unmined == 0);
            let limits = settler.limits_of(signer, &loads);
            let Some(records) = queue.next(&limits, idle, clock.mono_ms()) else {
                break;
            };
            let signer = settler.sender_of(&records, signer);
            let gas = settler.gas_of(&records);
            let load = loads.entry(signer).or_default();
            load.unmined = load.unmined.saturating_add(1);
            load.gas = load.gas.saturating_add(gas);
            settler.tasks.spawn(begin(Arc::clone(&settler), signer, gas, records));
        }
        let may_send = settler.least_busy(&loads, queue.next_gas()).is_some();
        let wake = match queue.due_ms(&settler.limits) {
            None => u64::MAX,
            Some(due) if may_send => due,
            // A signer may get coin, or gas may become cheaper.
            Some(_due) => clock.mono_ms().saturating_add(PAUSE_MS),
        };
        // cancel-safe: news stays in its channel, the rest only waits.
        tokio::select! {
            () = settler.stopping.cancelled() => return,
            told = news.recv() => match told {
                Some(told) => hear(&mut queue, &mut loads, told, clock.mono_ms()),
                None => return,
            },
            () = clock.sleep_until(wake), if wake != u64::MAX => {}
        }
    }
}

fn hear(queue: &mut Queue, loads: &mut Loads, told: News, now_ms: u64) {
    match told {
        News::Waits(record) => queue.push(record, now_ms),
        News::Free(signer, gas) => {
            let load = loads.entry(signer).or_default();
            load.unmined = load.unmined.saturating_sub(1);
            load.gas = load.gas.saturating_sub(gas);
        }
    }
}

/// Puts a transaction together and sees it through. `gas` is what was set aside for it.
async fn begin(settler: Arc<Settler>, signer: Address, gas: u64, records: Vec<Arc<Record>>) {
    let mut records = settler.in_time(records).await;
    let unopened = loop {
        if records.is_empty() {
            settler.freed(signer, gas);
            return;
        }
        match settler.open_batch(signer, &records).await {
            Ok(Some(batch)) => {
                // From here on it counts with the gas of the batch.
                watch::see_through_sized(settler, batch, gas).await;
                return;
            }
            // One of them was withdrawn meanwhile.
            Ok(None) => match settler.still_queued(records.clone()).await {
                Ok(left) => records = left,
                Err(fault) => break Unopened::from(fault),
            },
            Err(fault) => break fault,
        }
    };
    tracing::warn!(chain = %settler.served.place.chain, fault = %unopened, "no transaction was made");
    settler.pause(PAUSE_MS).await;
    settler.freed(signer, gas);
    for record in records {
        settler.enqueue(record);
    }
}
