//! Gives what waits on one network to its signers, each with a desk of its own.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
use crate::network::Served;
use crate::settle::price::Prices;
use crate::settle::queue::{Limits, Queue};
use crate::settle::watch;
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
    /// Whether it has coin enough to be given more.
    pub funded: AtomicBool,
}

/// Everything that settling on one network takes.
#[derive(Debug)]
pub struct Means {
    pub served: Arc<Served>,
    pub ledger: Ledger,
    pub tellers: BTreeMap<Address, Teller>,
    pub limits: Limits,
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
    /// A transaction of this signer is mined, or will not be.
    Free(Address),
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
            queue,
        });
        let (records, batches) = open;
        let mut unmined = BTreeMap::new();
        for batch in batches {
            let count: &mut usize = unmined.entry(batch.signer).or_default();
            *count = count.saturating_add(1);
            settler.tasks.spawn(watch::see_through(Arc::clone(&settler), batch));
        }
        for record in records {
            if record.state == State::Queued {
                settler.enqueue(Arc::new(record));
            }
        }
        settler.tasks.spawn(dispatch(Arc::clone(&settler), news, unmined));
        settler
    }

    /// Has a payment wait for its transaction.
    pub fn enqueue(&self, record: Arc<Record>) {
        // Nobody listens only when everything ends; it is kept, and the next start goes on.
        let _stopped = self.queue.send(News::Waits(record));
    }

    pub(super) fn freed(&self, signer: Address) {
        let _stopped = self.queue.send(News::Free(signer));
    }

    /// Puts a transaction together and keeps it; the desk hears of it from its watch.
    async fn open_batch(
        &self,
        signer: Address,
        records: &[Arc<Record>],
    ) -> Result<Batch, Unopened> {
        let payments: Vec<_> = records.iter().map(|record| &record.payment).collect();
        let cap = self.served.config.gas_cap_contract;
        let place = &self.served.place;
        let gas = transaction::gas(place, &payments, cap).ok_or(Unopened::Gas)?;
        let call = transaction::call(&self.served.place, &payments, gas);
        let data_gas = self.data_gas(&call).await?;
        let batch = Batch {
            id: fresh_id()?,
            chain: self.served.place.chain,
            signer,
            payments: payments.iter().map(|payment| payment.key()).collect(),
            gas_limit: gas.saturating_add(data_gas),
        };
        self.points.reach("settle.before batch");
        self.ledger.batched(batch.clone()).await?;
        self.points.reach("settle.after batch");
        Ok(batch)
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
        if !late.is_empty()
            && let Err(fault) = self.ledger.judged(late).await
        {
            // They are as open as before, and the next start finds them expired again.
            tracing::error!(%fault, "payments that expired could not be kept as such");
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
        match answer.await {
            // Only the nodes of such networks answer; a local chain does not.
            Ok(bytes) => {
                let told =
                    INodeInterface::gasEstimateL1ComponentCall::abi_decode_returns_validate(&bytes);
                // The price of data moves: half as much again.
                Ok(told.map_or(0, |told| {
                    let gas = told.gasEstimateForL1;
                    gas.saturating_add(gas / 2)
                }))
            }
            Err(ChainFault::Reverted { .. } | ChainFault::Rejected { .. }) => Ok(0),
            Err(fault) => Err(fault),
        }
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

    /// The signer that is given the next transaction. One that is short of coin is passed over while there is
    /// another, even a busy one.
    fn least_busy(&self, unmined: &BTreeMap<Address, usize>) -> Option<Address> {
        let busy = |signer: &Address| unmined.get(signer).copied().unwrap_or(0);
        let has_coin = |teller: &Teller| teller.funded.load(Ordering::Relaxed);
        let any_has_coin = self.tellers.values().any(has_coin);
        let free = self.tellers.iter().filter(|(signer, teller)| {
            busy(signer) < self.limits.in_flight && (has_coin(teller) || !any_has_coin)
        });
        free.min_by_key(|(signer, _teller)| busy(signer)).map(|(signer, _teller)| *signer)
    }

    /// Who sends what only known senders may send: the one that was simulated.
    fn sender_of(&self, records: &[Arc<Record>], signer: Address) -> Address {
        let bound = |record: &Arc<Record>| !exact::method(record.payment.method).takes_any_caller();
        let first = self.served.signers.first().copied();
        if records.iter().any(bound) { first.unwrap_or(signer) } else { signer }
    }

    /// What a signer has, in wei; remembers whether it is enough.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn look_at_balance(&self, signer: Address) -> Result<U256, ChainFault> {
        let balance = self.served.chain.balance(signer, BlockTag::Latest).await?;
        if let Some(teller) = self.tellers.get(&signer) {
            let enough = balance >= self.served.config.min_signer_balance;
            teller.funded.store(enough, Ordering::Relaxed);
        }
        Ok(balance)
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
    mut unmined: BTreeMap<Address, usize>,
) {
    let clock = Arc::clone(&settler.served.clock);
    let coin = settler.served.row().stablecoin.address;
    let known = settler.served.config.tokens.iter().copied().chain([coin]);
    let mut queue = Queue::new(known.collect());
    loop {
        while let Ok(told) = news.try_recv() {
            hear(&mut queue, &mut unmined, told, clock.mono_ms());
        }
        while let Some(signer) = settler.least_busy(&unmined) {
            let idle = unmined.values().all(|count| *count == 0);
            let Some(records) = queue.next(&settler.limits_now(), idle, clock.mono_ms()) else {
                break;
            };
            let signer = settler.sender_of(&records, signer);
            let count = unmined.entry(signer).or_default();
            *count = count.saturating_add(1);
            settler.tasks.spawn(begin(Arc::clone(&settler), signer, records));
        }
        let wake = queue.due_ms(&settler.limits).unwrap_or(u64::MAX);
        let may_send = settler.least_busy(&unmined).is_some();
        // cancel-safe: news stays in its channel, the rest only waits.
        tokio::select! {
            () = settler.stopping.cancelled() => return,
            told = news.recv() => match told {
                Some(told) => hear(&mut queue, &mut unmined, told, clock.mono_ms()),
                None => return,
            },
            () = clock.sleep_until(wake), if may_send && wake != u64::MAX => {}
        }
    }
}

fn hear(queue: &mut Queue, unmined: &mut BTreeMap<Address, usize>, told: News, now_ms: u64) {
    match told {
        News::Waits(record) => queue.push(record, now_ms),
        News::Free(signer) => {
            let count = unmined.entry(signer).or_default();
            *count = count.saturating_sub(1);
        }
    }
}

/// Puts a transaction together and sees it through.
async fn begin(settler: Arc<Settler>, signer: Address, records: Vec<Arc<Record>>) {
    let records = settler.in_time(records).await;
    if records.is_empty() {
        settler.freed(signer);
        return;
    }
    match settler.open_batch(signer, &records).await {
        Ok(batch) => watch::see_through(settler, batch).await,
        Err(fault) => {
            tracing::warn!(chain = %settler.served.place.chain, %fault, "no transaction was made");
            let clock = &settler.served.clock;
            clock.sleep_until(clock.mono_ms().saturating_add(PAUSE_MS)).await;
            settler.freed(signer);
            for record in records {
                settler.enqueue(record);
            }
        }
    }
}
