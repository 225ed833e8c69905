//! Assigns the queued payments of one network to its signers. Each signer has its own outbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::ports::ChainFault;
use bursar_desks::store::StoreFault;
use tokio::sync::mpsc;

use crate::book::aside::Aside;
use crate::book::batch::Batch;
use crate::book::record::{Record, State};
use crate::book::redb_store::fresh_id;
use crate::exact::terms_check::check_time;
use crate::settle::price::Price;
use crate::settle::queue::{Limits, Queue};
use crate::settle::settler::{News, Settler, SettlerDeps};
use crate::settle::watch;
use crate::transaction;

/// What a signer has in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Transactions that are in no block.
    unmined: usize,
    /// Gas and data that are reserved for them.
    aside: Aside,
}

impl Load {
    fn more(&mut self, aside: Aside) {
        self.unmined = self.unmined.saturating_add(1);
        self.aside.add(aside);
    }

    fn less(&mut self, aside: Aside) {
        self.unmined = self.unmined.saturating_sub(1);
        self.aside.sub(aside);
    }
}

type Loads = BTreeMap<Address, Load>;

impl Settler {
    /// Resumes the open payments and transactions, and starts the dispatcher.
    pub fn start(deps: SettlerDeps, open: (Vec<Record>, Vec<Batch>)) -> Arc<Self> {
        let (settler, news) = Self::new(deps);
        let settler = Arc::new(settler);
        let (records, batches) = open;
        let mut loads = Loads::new();
        for batch in batches {
            if batch.found.is_some() {
                settler.watch(batch);
                continue;
            }
            loads.entry(batch.signer).or_default().more(batch.aside());
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

    /// Composes a transaction and stores it. The task that follows it hands it to the outbox. Returns `None` if one of
    /// the payments is no longer queued.
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
        let data_gas = self.data_gas(call.to, call.data).await?;
        let batch = Batch {
            id: fresh_id()?,
            chain: place.chain,
            signer,
            payments: payments.iter().map(|payment| payment.key()).collect(),
            gas_limit: gas.saturating_add(data_gas),
            kilobytes: payments.iter().map(|payment| transaction::kilobytes(payment)).sum(),
            found: None,
        };
        // Before it is stored: from then on one of its payments can be withdrawn.
        self.gates.open(batch.id, signer);
        self.failpoints.pass("settle.before batch");
        let digests = payments.iter().map(|payment| payment.digest).collect();
        let kept = self.ledger.batched(batch.clone(), digests).await;
        if !matches!(kept, Ok(true)) {
            self.gates.close(batch.id);
        }
        self.failpoints.pass("settle.after batch");
        Ok(kept?.then_some(batch))
    }

    /// Returns the payments that are still queued; the others were withdrawn meanwhile.
    async fn still_queued(
        &self,
        records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, StoreFault> {
        let mut left = Vec::with_capacity(records.len());
        for record in records {
            let known = self.ledger.find(record.payment.key()).await?;
            if known.is_some_and(|known| known.record().waits_as(&record)) {
                left.push(record);
            }
        }
        Ok(left)
    }

    /// Returns the payments that have not expired while queued. The others end here, because nothing was sent for them.
    async fn in_time(&self, records: Vec<Arc<Record>>) -> Vec<Arc<Record>> {
        let now = self.served.now_seconds();
        let at = self.served.clock.utc();
        let mut good = Vec::with_capacity(records.len());
        let mut late = Vec::new();
        for record in records {
            match check_time(&record.payment.terms, now) {
                Ok(()) => good.push(record),
                Err(reason) => {
                    let message = reason.sentence().to_owned();
                    let state = State::Failed { reason, message, at };
                    late.push((record, state));
                }
            }
        }
        for (record, state) in late {
            let (payment, attempts) = (&record.payment, record.attempts);
            if let Err(fault) = self.ledger.moved(payment, State::Queued, state, attempts).await {
                // The payment remains open, and the next start finds it expired again.
                tracing::error!(%fault, "a payment that expired could not be kept as such");
            }
        }
        good
    }

    /// The limits of transactions, by the newest known block gas limit and data price.
    fn limits_now(&self) -> Limits {
        let share = u64::from(self.served.config.block_gas_share_percent);
        let last = self.prices.last();
        let block = last.as_ref().and_then(|price| price.block_gas);
        let data_gas = last.map_or(0, |price| price.data_gas);
        let gas = block.map_or(u64::MAX, |block| (block / 100).saturating_mul(share));
        // Without Multicall3 payments are sent one by one.
        let together = if self.served.is_multicall_known() { self.limits.together } else { 1 };
        Limits { gas: gas.min(transaction::GAS_MAX / 2), data_gas, together, ..self.limits }
    }
}

/// Picks the signer of a payment, by load and coin.
struct Senders<'a> {
    settler: &'a Settler,
    loads: &'a Loads,
    price: Option<Arc<Price>>,
    limits: Limits,
}

impl<'a> Senders<'a> {
    fn now(settler: &'a Settler, loads: &'a Loads) -> Self {
        Self { settler, loads, price: settler.prices.last(), limits: settler.limits_now() }
    }

    fn load(&self, signer: Address) -> Load {
        self.loads.get(&signer).copied().unwrap_or_default()
    }

    /// The least busy signer that can pay for a payment in addition to what it has in flight.
    fn of(&self, record: &Record) -> Option<Address> {
        let only = self.settler.served.only_sender(record.payment.method);
        let aside = record.aside();
        let aside = Aside { gas: aside.gas.max(transaction::share(&record.payment)), ..aside };
        let signers = self.settler.tellers.keys().copied();
        let allowed = signers.filter(|signer| only.is_none_or(|only| only == *signer));
        let free = allowed.filter(|signer| {
            self.load(*signer).unmined < self.settler.limits.in_flight
                && self.can_pay(*signer, aside)
        });
        free.min_by_key(|signer| self.load(*signer).unmined)
    }

    /// Whether a signer can pay for this in addition to what it has in flight. True before the first price is known.
    fn can_pay(&self, signer: Address, aside: Aside) -> bool {
        let Some(price) = &self.price else { return true };
        let mut all = self.load(signer).aside;
        all.add(aside);
        price.cost(all).is_some_and(|wei| {
            wei.is_zero() || price.balances.get(&signer).is_some_and(|has| *has >= wei)
        })
    }
}

/// Why a transaction was not composed. Nothing was sent.
#[derive(Debug, thiserror::Error)]
enum Unopened {
    #[error("the payments need more gas than there is")]
    Gas,
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// Delay before a failed attempt is repeated, in milliseconds.
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
        // A withdrawn payment does not delay others.
        queue.drop_gone(|record| settler.ledger.is_queued(record));
        loop {
            let idle = loads.values().all(|load| load.unmined == 0);
            let senders = Senders::now(&settler, &loads);
            let now_ms = clock.mono_ms();
            let can_pay = |signer: &Address, aside| senders.can_pay(*signer, aside);
            let of = |record: &Record| senders.of(record);
            let next = queue.next(&senders.limits, idle, now_ms, of, can_pay);
            let Some((signer, records)) = next else { break };
            let payments: Vec<_> = records.iter().map(|record| &record.payment).collect();
            let aside = settler.aside_of(&payments).unwrap_or_default();
            loads.entry(signer).or_default().more(aside);
            settler.tasks.spawn(begin(Arc::clone(&settler), signer, aside, records));
        }
        let now_ms = clock.mono_ms();
        // A signer may be funded, or gas may become cheaper, without a message here.
        let wake = queue.wake_ms(&settler.limits, now_ms, PAUSE_MS).unwrap_or(u64::MAX);
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
        News::Free(signer, aside) => loads.entry(signer).or_default().less(aside),
    }
}

/// Composes a transaction and follows it to its end. `aside` is what was reserved for it.
async fn begin(settler: Arc<Settler>, signer: Address, aside: Aside, records: Vec<Arc<Record>>) {
    let mut records = settler.in_time(records).await;
    let unopened = loop {
        if records.is_empty() {
            settler.freed(signer, aside);
            return;
        }
        match settler.open_batch(signer, &records).await {
            Ok(Some(batch)) => {
                watch::see_through_sized(settler, batch, aside).await;
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
    settler.freed(signer, aside);
    for record in records {
        settler.enqueue(record);
    }
}
