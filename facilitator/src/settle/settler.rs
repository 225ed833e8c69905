//! The settler of one network: what it is made of, and what the files around it share. It starts no work itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::Address;
use bursar_chain::failpoints::Failpoints;
use bursar_desks::service::ServiceDesk;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::book::aside::Aside;
use crate::book::ledger::Ledger;
use crate::book::record::Record;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::network::Served;
use crate::payment::Payment;
use crate::settle::gate::Gates;
use crate::settle::price::{Need, Prices};
use crate::settle::queue::Limits;
use crate::transaction;

/// A signer slot: one signer of a network.
#[derive(Debug)]
pub struct Teller {
    pub desk: Arc<ServiceDesk>,
}

/// Everything that settling on one network needs.
#[derive(Debug)]
pub struct SettlerDeps {
    pub served: Arc<Served>,
    pub ledger: Ledger,
    pub tellers: BTreeMap<Address, Teller>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    /// The failpoints of tests.
    pub failpoints: Arc<dyn Failpoints>,
    pub stopping: CancellationToken,
}

/// Settles payments on one network.
#[derive(Debug)]
pub struct Settler {
    pub deps: SettlerDeps,
    pub tasks: TaskTracker,
    pub(super) prices: Prices,
    /// Payers whose code recently made a signer pay gas for nothing.
    pub(super) wasteful: Memory<Address, ()>,
    pub(super) gates: Gates,
    /// Signers that were removed from the settings while they had transactions in flight.
    former: Mutex<BTreeSet<Address>>,
    queue: mpsc::UnboundedSender<News>,
}

impl Deref for Settler {
    type Target = SettlerDeps;

    fn deref(&self) -> &SettlerDeps {
        &self.deps
    }
}

/// How long new payments of a payer are rejected after one wasted gas, in milliseconds.
const WASTEFUL_MS: u64 = 60_000;

/// Messages to the dispatcher.
#[derive(Debug)]
pub(super) enum News {
    /// A payment is queued.
    Waits(Arc<Record>),
    /// A transaction of this signer, with this reservation, is mined or never will be.
    Free(Address, Aside),
}

impl Settler {
    /// A settler without work, and the receiver of its messages.
    pub(super) fn new(deps: SettlerDeps) -> (Self, mpsc::UnboundedReceiver<News>) {
        let (queue, news) = mpsc::unbounded_channel();
        let settler = Self {
            deps,
            tasks: TaskTracker::new(),
            prices: Prices::default(),
            wasteful: Memory::new(WASTEFUL_MS),
            gates: Gates::default(),
            former: Mutex::default(),
            queue,
        };
        (settler, news)
    }

    /// Queues a payment for a transaction.
    pub fn enqueue(&self, record: Arc<Record>) {
        // The dispatcher ends only with the process. The payment is on disk, and the next start resumes it.
        let _stopped = self.queue.send(News::Waits(record));
    }

    /// Whether an account sends transactions for us, or did so before.
    pub(super) fn is_signer(&self, account: Address) -> bool {
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        self.served.signers.contains(&account) || former.contains(&account)
    }

    pub(super) fn remember_signer(&self, signer: Address) {
        self.former.lock().unwrap_or_else(PoisonError::into_inner).insert(signer);
    }

    pub(super) fn freed(&self, signer: Address, aside: Aside) {
        let _stopped = self.queue.send(News::Free(signer, aside));
    }

    /// What a payment needs of its signer, if `gas` is the [`transaction::gas`] of the payment alone.
    pub(super) fn need_of(&self, payment: &Payment, gas: u64) -> Need {
        let aside = self.with_data(gas, &[payment]);
        Need { aside, sender: self.served.only_sender(payment.method) }
    }

    /// Upper bound of what a transaction with these payments uses. `None` if it is more gas than a transaction may use.
    pub(super) fn aside_of(&self, payments: &[&Payment]) -> Option<Aside> {
        let cap = self.served.config.gas_cap_contract;
        let gas = transaction::gas(&self.served.place, payments, cap)?;
        Some(self.with_data(gas, payments))
    }

    fn with_data(&self, gas: u64, payments: &[&Payment]) -> Aside {
        let kilobytes = payments.iter().map(|payment| transaction::kilobytes(payment)).sum();
        let last = self.prices.last();
        last.map_or(Aside { gas, kilobytes }, |price| price.with_data(gas, kilobytes))
    }

    pub(super) async fn pause(&self, ms: u64) {
        let clock = &self.served.clock;
        clock.sleep_until(clock.mono_ms().saturating_add(ms)).await;
    }
}
