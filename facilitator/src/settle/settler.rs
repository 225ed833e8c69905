//! The settler of one network: its state, and the methods that the other files of `settle` share. This file starts no
//! work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, B256};
use bursar_chain::failpoints::Failpoints;
use bursar_chain::ports::ChainFault;
use bursar_outbox::service::ServiceOutbox;
use bursar_outbox::store::Store;
use bursar_submit::OutboxKey;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::book::ledger::Ledger;
use crate::book::record::Record;
use crate::book::reservation::GasReservation;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::network::NetworkContext;
use crate::settle::paused_signers::PausedSigners;
use crate::settle::price::{PriceCache, SignerNeed};
use crate::settle::queue::DispatchLimits;
use crate::settle::submission_lock::SubmissionLocks;
use crate::transaction;
use crate::ttl_map::TtlMap;

/// One signer of a network, with the outbox that sends its transactions.
#[derive(Debug)]
pub struct SignerSlot {
    pub outbox: Arc<ServiceOutbox>,
}

/// The dependencies of a [`Settler`].
#[derive(Debug)]
pub struct SettlerDeps {
    pub network: Arc<NetworkContext>,
    pub ledger: Ledger,
    pub signer_slots: BTreeMap<Address, SignerSlot>,
    /// The store of all outboxes, including those of removed signers.
    pub outboxes: Arc<dyn Store>,
    pub limits: DispatchLimits,
    pub metrics: Arc<Metrics>,
    /// The failpoints of tests.
    pub failpoints: Arc<dyn Failpoints>,
    pub stopping: CancellationToken,
}

/// Settles payments on one network.
#[derive(Debug)]
pub struct Settler {
    pub network: Arc<NetworkContext>,
    pub ledger: Ledger,
    pub signer_slots: BTreeMap<Address, SignerSlot>,
    pub(super) outboxes: Arc<dyn Store>,
    pub limits: DispatchLimits,
    pub metrics: Arc<Metrics>,
    /// The failpoints of tests.
    pub failpoints: Arc<dyn Failpoints>,
    pub stopping: CancellationToken,
    pub tasks: TaskTracker,
    pub(super) prices: PriceCache,
    /// Payers with a recent payment that cost a signer gas and moved no money.
    pub(super) wasteful_payers: TtlMap<Address, ()>,
    pub(super) submission_locks: SubmissionLocks,
    pub(super) paused_signers: PausedSigners,
    /// Signers that were removed from the settings while they had transactions in flight.
    // The lock is held for a single lookup.
    former_signers: Mutex<BTreeSet<Address>>,
    events: mpsc::UnboundedSender<DispatchEvent>,
}

/// How long a payer's new payments are rejected after a payment that wasted gas, in milliseconds.
const WASTEFUL_PAYER_PENALTY_MS: u64 = 60_000;

/// Messages to the dispatcher.
#[derive(Debug)]
pub(super) enum DispatchEvent {
    /// A payment is queued.
    Queued(Arc<Record>),
    /// A transaction of this signer, with this reservation, is mined or never will be.
    Released(Address, GasReservation),
}

impl Settler {
    /// A settler without work, and the receiver of its messages.
    pub(super) fn new(deps: SettlerDeps) -> (Self, mpsc::UnboundedReceiver<DispatchEvent>) {
        let SettlerDeps {
            network,
            ledger,
            signer_slots,
            outboxes,
            limits,
            metrics,
            failpoints,
            stopping,
        } = deps;
        let (events, receiver) = mpsc::unbounded_channel();
        let settler = Self {
            network,
            ledger,
            signer_slots,
            outboxes,
            limits,
            metrics,
            failpoints,
            stopping,
            tasks: TaskTracker::new(),
            prices: PriceCache::default(),
            wasteful_payers: TtlMap::new(WASTEFUL_PAYER_PENALTY_MS),
            submission_locks: SubmissionLocks::default(),
            paused_signers: PausedSigners::default(),
            former_signers: Mutex::default(),
            events,
        };
        (settler, receiver)
    }

    /// Hands a payment to the dispatcher.
    pub(super) fn queue(&self, record: Arc<Record>) {
        // The dispatcher ends only when the facilitator stops. The payment is on disk, and the next start resumes it.
        let _stopped = self.events.send(DispatchEvent::Queued(record));
    }

    /// Whether an account is one of our signers, or a removed one that had transactions in flight.
    pub(super) fn is_signer(&self, account: Address) -> bool {
        let former_signers = self.former_signers.lock().unwrap_or_else(PoisonError::into_inner);
        self.network.is_signer(account) || former_signers.contains(&account)
    }

    /// Whether an outbox of this store signed this transaction of an account. Another program may use the account's
    /// key.
    ///
    /// # Errors
    /// The store could not be read. Returned as a fault of the chain, so that the search is repeated.
    pub(super) async fn has_signed(&self, signer: Address, hash: B256) -> Result<bool, ChainFault> {
        let key = OutboxKey { chain: self.network.contracts.chain, signer };
        self.outboxes.has_signed(key, hash).await.map_err(|fault| {
            tracing::error!(%fault, "could not read whether a transaction is ours");
            ChainFault::Unavailable { tried: Vec::new() }
        })
    }

    /// Records a signer that is no longer in the settings but has a transaction in flight.
    pub(super) fn add_former_signer(&self, signer: Address) {
        self.former_signers.lock().unwrap_or_else(PoisonError::into_inner).insert(signer);
    }

    /// Reports that a transaction of a signer no longer uses this reservation.
    pub(super) fn release(&self, signer: Address, reservation: GasReservation) {
        let _stopped = self.events.send(DispatchEvent::Released(signer, reservation));
    }

    /// The gas and signers that a job needs. `gas` is the [`transaction::gas`] of the job alone.
    pub(super) fn need_of(&self, job: &Job, gas: u64) -> SignerNeed {
        let reservation = self.with_data(gas, &[job]);
        SignerNeed { reservation, senders: self.free_senders(job.work().sender()) }
    }

    /// Upper bound of the gas and data of a transaction. `None` if it exceeds the gas limit of a transaction.
    pub(super) fn reservation_of(&self, jobs: &[&Job]) -> Option<GasReservation> {
        let cap = self.network.config.gas_cap_contract;
        let gas = transaction::gas(&self.network.contracts, jobs, cap)?;
        Some(self.with_data(gas, jobs))
    }

    fn with_data(&self, gas: u64, jobs: &[&Job]) -> GasReservation {
        let kilobytes = jobs.iter().map(|job| transaction::data_kilobytes(job)).sum();
        let last = self.prices.last();
        last.map_or(GasReservation { gas, data_kilobytes: kilobytes }, |price| {
            price.with_data(gas, kilobytes)
        })
    }

    /// Sleeps on the network's clock. Cancel-safe.
    pub(super) async fn pause(&self, ms: u64) {
        let clock = &self.network.clock;
        clock.sleep_until(clock.mono_ms().saturating_add(ms)).await;
    }
}
