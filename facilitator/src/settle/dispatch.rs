//! Assigns the queued payments of one network to its signers. Each signer has its own outbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::ports::ChainFault;
use bursar_outbox::store::StoreFault;
use tokio::sync::mpsc;

use crate::book::batch::Batch;
use crate::book::record::{Record, State};
use crate::book::redb_store::fresh_id;
use crate::book::reservation::GasReservation;
use crate::settle::price::Price;
use crate::settle::queue::{DispatchLimits, Queue};
use crate::settle::settler::{DispatchEvent, Settler, SettlerDeps};
use crate::settle::watch;
use crate::transaction;

/// The transactions that a signer has in flight.
#[derive(Debug, Clone, Copy, Default)]
struct SignerLoad {
    /// Transactions that are in no block.
    unmined: usize,
    /// Gas and data that are reserved for them.
    reservation: GasReservation,
}

impl SignerLoad {
    fn add(&mut self, reservation: GasReservation) {
        self.unmined = self.unmined.saturating_add(1);
        self.reservation.add(reservation);
    }

    fn remove(&mut self, reservation: GasReservation) {
        self.unmined = self.unmined.saturating_sub(1);
        self.reservation.sub(reservation);
    }
}

type Loads = BTreeMap<Address, SignerLoad>;

impl Settler {
    /// Resumes the open payments and transactions, and starts the dispatcher.
    pub fn start(deps: SettlerDeps, open: (Vec<Record>, Vec<Batch>)) -> Arc<Self> {
        let (settler, events) = Self::new(deps);
        let settler = Arc::new(settler);
        let (records, batches) = open;
        let mut loads = Loads::new();
        for batch in batches {
            if batch.found_transaction.is_some() {
                settler.watch_settlement(batch);
                continue;
            }
            loads.entry(batch.signer).or_default().add(batch.reservation());
            settler.tasks.spawn(watch::follow_transaction(Arc::clone(&settler), batch));
        }
        for record in records {
            if record.state == State::Queued {
                settler.enqueue(Arc::new(record));
            }
        }
        settler.tasks.spawn(dispatch(Arc::clone(&settler), events, loads));
        settler
    }

    /// Composes a transaction and stores it. The task that follows the transaction hands it to the outbox. Returns
    /// `None` if one of the payments is no longer queued.
    async fn compose_batch(
        &self,
        signer: Address,
        records: &[Arc<Record>],
    ) -> Result<Option<Batch>, ComposeError> {
        let jobs: Vec<_> = records.iter().map(|record| &record.job).collect();
        let cap = self.network.config.gas_cap_contract;
        let contracts = &self.network.contracts;
        let gas = transaction::gas(contracts, &jobs, cap).ok_or(ComposeError::Gas)?;
        let call = transaction::call(contracts, &jobs, gas);
        let data_gas = self.data_gas(call.to, call.data).await?;
        let batch = Batch {
            id: fresh_id()?,
            chain: contracts.chain,
            signer,
            jobs: jobs.iter().map(|job| job.work().key()).collect(),
            gas_limit: gas.saturating_add(data_gas),
            data_kilobytes: jobs.iter().map(|job| transaction::data_kilobytes(job)).sum(),
            found_transaction: None,
        };
        // Register the lock before the batch is stored, because a stored batch's payments can be withdrawn.
        self.submission_locks.register(batch.id, signer);
        self.failpoints.pass("settle.before batch");
        let digests = records.iter().map(|record| record.digest()).collect();
        let assigned = self.ledger.assign(batch.clone(), digests).await;
        if !matches!(assigned, Ok(true)) {
            self.submission_locks.remove(batch.id);
        }
        self.failpoints.pass("settle.after batch");
        Ok(assigned?.then_some(batch))
    }

    /// Returns the payments that are still queued. The others have been withdrawn.
    async fn still_queued(
        &self,
        records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, StoreFault> {
        let mut left = Vec::with_capacity(records.len());
        for record in records {
            let known = self.ledger.find(record.key()).await?;
            if known.is_some_and(|known| known.record().is_queued_as(&record)) {
                left.push(record);
            }
        }
        Ok(left)
    }

    /// Returns the payments that have not expired while queued. The others end here, because they are in no open
    /// transaction.
    async fn drop_expired(&self, records: Vec<Arc<Record>>) -> Vec<Arc<Record>> {
        let now = self.network.now_seconds();
        let at = self.network.clock.utc();
        let mut valid = Vec::with_capacity(records.len());
        let mut expired = Vec::new();
        for record in records {
            match record.job.work().check_time(now) {
                Ok(()) => valid.push(record),
                Err(reason) => {
                    let message = reason.sentence().to_owned();
                    let state = State::Failed { reason, message, at };
                    expired.push((record, state));
                }
            }
        }
        for (record, state) in expired {
            let (job, attempts) = (&record.job, record.attempts);
            if let Err(fault) = self.ledger.transition(job, State::Queued, state, attempts).await {
                // The payment remains open, and the next start finds it expired again.
                tracing::error!(%fault, "could not store that a payment expired");
            }
        }
        valid
    }

    /// The limits of transactions, by the newest known block gas limit and data price.
    fn current_limits(&self) -> DispatchLimits {
        let share = u64::from(self.network.config.block_gas_share_percent);
        let last = self.prices.last();
        let block = last.as_ref().and_then(|price| price.block_gas);
        let data_gas = last.map_or(0, |price| price.data_gas);
        let gas = block.map_or(u64::MAX, |block| (block / 100).saturating_mul(share));
        let has_multicall = self.network.is_multicall_known();
        DispatchLimits {
            transaction_gas_max: gas.min(transaction::GAS_MAX / 2),
            data_gas,
            has_multicall,
            ..self.limits
        }
    }
}

/// Picks the signer of a payment, by load and coin.
struct SignerPicker<'a> {
    settler: &'a Settler,
    loads: &'a Loads,
    price: Option<Arc<Price>>,
    limits: DispatchLimits,
}

impl<'a> SignerPicker<'a> {
    fn new(settler: &'a Settler, loads: &'a Loads) -> Self {
        Self { settler, loads, price: settler.prices.last(), limits: settler.current_limits() }
    }

    fn load(&self, signer: Address) -> SignerLoad {
        self.loads.get(&signer).copied().unwrap_or_default()
    }

    /// The signer with the least load that can pay for a payment in addition to this load.
    fn pick(&self, record: &Record) -> Option<Address> {
        let network = &self.settler.network;
        let bound = self.settler.free_senders(record.job.work().sender());
        let reservation = record.reservation();
        let reservation = GasReservation {
            gas: reservation.gas.max(transaction::gas_share(&record.job)),
            ..reservation
        };
        // A retired signer sends only the jobs that are bound to it.
        let allowed = bound.as_ref().unwrap_or(&network.signers).iter().copied();
        let free = allowed.filter(|signer| network.is_signer(*signer)).filter(|signer| {
            self.load(*signer).unmined < self.settler.limits.in_flight_max
                && self.can_pay(*signer, reservation)
        });
        free.min_by_key(|signer| self.load(*signer).unmined)
    }

    /// Whether a signer can pay for a reservation in addition to its load. True before the first price is known.
    fn can_pay(&self, signer: Address, reservation: GasReservation) -> bool {
        let Some(price) = &self.price else { return true };
        let mut total = self.load(signer).reservation;
        total.add(reservation);
        price.cost(total).is_some_and(|wei| {
            wei.is_zero() || price.balances.get(&signer).is_some_and(|balance| *balance >= wei)
        })
    }
}

/// Why a transaction was not composed. Nothing was sent.
#[derive(Debug, thiserror::Error)]
enum ComposeError {
    #[error("the payments need more gas than one transaction may use")]
    Gas,
    #[error(transparent)]
    Chain(#[from] ChainFault),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// Delay before a failed attempt is repeated, in milliseconds.
const RETRY_PAUSE_MS: u64 = 500;

/// Assigns queued payments to signers until the facilitator stops.
async fn dispatch(
    settler: Arc<Settler>,
    mut events: mpsc::UnboundedReceiver<DispatchEvent>,
    mut loads: Loads,
) {
    let clock = Arc::clone(&settler.network.clock);
    let dollar_token = settler.network.table_row().stablecoin.address;
    let known_tokens = settler.network.config.tokens.iter().copied().chain([dollar_token]);
    let mut queue = Queue::new(known_tokens.collect());
    loop {
        while let Ok(event) = events.try_recv() {
            handle(&mut queue, &mut loads, event, clock.mono_ms());
        }
        // Drop withdrawn payments, so that they do not delay others.
        queue.drop_withdrawn(|record| settler.ledger.is_queued(record));
        let now_s = settler.network.now_seconds();
        let expired = queue.take_expired(|record| record.job.work().check_time(now_s).is_err());
        if !expired.is_empty() {
            settler.tasks.spawn(end_expired(Arc::clone(&settler), expired));
        }
        loop {
            let idle = loads.values().all(|load| load.unmined == 0);
            let picker = SignerPicker::new(&settler, &loads);
            let now_ms = clock.mono_ms();
            let can_pay = |signer: &Address, reservation| picker.can_pay(*signer, reservation);
            let pick = |record: &Record| picker.pick(record);
            let next = queue.next(&picker.limits, idle, now_ms, pick, can_pay);
            let Some((signer, records)) = next else { break };
            let jobs: Vec<_> = records.iter().map(|record| &record.job).collect();
            let reservation = settler.reservation_of(&jobs).unwrap_or_default();
            loads.entry(signer).or_default().add(reservation);
            settler.tasks.spawn(compose_and_follow(
                Arc::clone(&settler),
                signer,
                reservation,
                records,
            ));
        }
        let now_ms = clock.mono_ms();
        // No event reports that a signer was funded or that gas became cheaper, so the queue is checked regularly.
        let wake = queue.wake_ms(&settler.limits, now_ms, RETRY_PAUSE_MS).unwrap_or(u64::MAX);
        // cancel-safe: events stay in their channel, and the other branches only wait.
        tokio::select! {
            () = settler.stopping.cancelled() => return,
            event = events.recv() => match event {
                Some(event) => handle(&mut queue, &mut loads, event, clock.mono_ms()),
                None => return,
            },
            () = clock.sleep_until(wake), if wake != u64::MAX => {}
        }
    }
}

fn handle(queue: &mut Queue, loads: &mut Loads, event: DispatchEvent, now_ms: u64) {
    match event {
        DispatchEvent::Queued(record) => queue.push(record, now_ms),
        DispatchEvent::Released(signer, reservation) => {
            loads.entry(signer).or_default().remove(reservation)
        }
    }
}

/// Ends payments that expired in the queue.
async fn end_expired(settler: Arc<Settler>, records: Vec<Arc<Record>>) {
    for valid in settler.drop_expired(records).await {
        settler.queue(valid);
    }
}

/// Composes a transaction and follows it to its end. The signer's load already includes `reservation`.
async fn compose_and_follow(
    settler: Arc<Settler>,
    signer: Address,
    reservation: GasReservation,
    records: Vec<Arc<Record>>,
) {
    let mut records = settler.drop_expired(records).await;
    let error = loop {
        if records.is_empty() {
            settler.release(signer, reservation);
            return;
        }
        match settler.compose_batch(signer, &records).await {
            Ok(Some(batch)) => {
                watch::follow_with_reservation(settler, batch, reservation).await;
                return;
            }
            // A payment was withdrawn in the meantime.
            Ok(None) => match settler.still_queued(records.clone()).await {
                Ok(left) => records = left,
                Err(fault) => break ComposeError::from(fault),
            },
            Err(fault) => break fault,
        }
    };
    let chain = settler.network.contracts.chain;
    tracing::warn!(
        %chain, fault = %error,
        "could not compose a transaction; its payments are queued again"
    );
    settler.pause(RETRY_PAUSE_MS).await;
    settler.release(signer, reservation);
    for record in records {
        settler.enqueue(record);
    }
}
