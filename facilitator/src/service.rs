//! Assembles the facilitator and shuts it down in order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::clock::SystemClock;
use bursar_chain::failpoints::Failpoints;
use bursar_chain::follower::Follower;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{Plain, RpcChain, RpcConfig};
use bursar_core::networks::{ChainId, Gas};
use bursar_outbox::redb_store::RedbStore;
use bursar_outbox::service::{OutboxDeps, ServiceOutbox};
use bursar_outbox::store::{Store, StoreFault};
use bursar_serve::access::Access;
use bursar_serve::http::{self, Bounds, Edge};
use bursar_serve::listen::{ListenFault, listen};
use bursar_serve::program::file_limit;
use bursar_submit::OutboxKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{self, Api, Catalogue};
use crate::book::batch::Batch;
use crate::book::ledger::Ledger;
use crate::book::record::Record;
use crate::book::redb_store::RedbPayments;
use crate::book::store::{OpenWork, Payments};
use crate::config::{Config, NetworkConfig};
use crate::health::ServiceHealth;
use crate::keys::KeyRing;
use crate::metrics::Metrics;
use crate::network::NetworkContext;
use crate::settle::intake::SettlementService;
use crate::settle::queue::Limits;
use crate::settle::settler::{Settler, SettlerDeps, SignerSlot};
use crate::settle::success_rights::SuccessRights;
use crate::upkeep;

/// Maximum number of nonces in use per outbox, including transactions that are mined but not final.
const WINDOW: usize = 256;

/// How many times `max_gas_price_gwei` a no-op transaction may offer to use up the nonce of a withdrawn one.
const NOOP_CEILING_FACTOR: u128 = 4;

/// Maximum number of connections to nodes. `node` batches several questions into one exchange.
const OUTBOUND: usize = 64;

/// Why the facilitator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    #[error(transparent)]
    Key(#[from] crate::keys::KeyFault),
    #[error("the store {path} cannot be used ({why}): is another facilitator using it?")]
    Store { path: String, why: String },
    #[error("the clock cannot be used: {0}")]
    Clock(String),
    #[error("{chain}: {why}")]
    Endpoint { chain: ChainId, why: String },
    #[error(transparent)]
    Listen(#[from] ListenFault),
    #[error(
        "no network is configured: set rpc and signers of one, as facilitator.example.toml shows"
    )]
    NoNetwork,
}

/// A running facilitator.
#[derive(Debug)]
pub struct Running {
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    settlers: Vec<Arc<Settler>>,
    servers: TaskTracker,
    deliveries: TaskTracker,
    /// Cancelled when no new payments are accepted.
    draining: CancellationToken,
    /// Cancels background work.
    stopping: CancellationToken,
    /// Cancelled when the store cannot be written.
    broken: CancellationToken,
    outboxes: TaskTracker,
    drain_ms: u64,
    clock: Arc<dyn Clock>,
}

/// Loads the keys of each configured network. Reads files, and may take a second per file.
///
/// # Errors
/// The first file without a valid key.
pub fn load_keys(config: &Config) -> Result<BTreeMap<ChainId, KeyRing>, crate::keys::KeyFault> {
    let configured = config.networks.values().filter(|network| network.is_configured());
    configured
        .map(|network| {
            let ring = KeyRing::load(&network.signers, network.password_file.as_deref())?;
            Ok((network.chain(), ring))
        })
        .collect()
}

/// The nodes of a network.
///
/// # Errors
/// An endpoint that is not permitted.
pub fn chain_of(network: &NetworkConfig, clock: &Arc<dyn Clock>) -> Result<RpcChain, StartFault> {
    let endpoints = network.rpc.iter().map(|endpoint| endpoint.expose().to_owned());
    let mut config = RpcConfig::new(network.chain(), endpoints);
    config.plain = Plain::allowed(network.allow_plain_http);
    RpcChain::new(config, Arc::clone(clock))
        .map_err(|fault| StartFault::Endpoint { chain: network.chain(), why: fault.to_string() })
}

/// The opened store, with the work that the last run left.
struct Opened {
    payments: Arc<dyn Payments>,
    outbox_store: RedbStore,
    broken: CancellationToken,
    ledger: Ledger,
    open: OpenWork,
}

async fn open_store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Opened, StartFault> {
    let unusable = |fault: StoreFault| StartFault::Store {
        path: config.store.display().to_string(),
        why: fault.to_string(),
    };
    let (payments, outbox_store) = RedbPayments::open_file(&config.store).map_err(unusable)?;
    let broken = payments.broken();
    let payments: Arc<dyn Payments> = Arc::new(payments);
    let (ledger, open) =
        Ledger::load(Arc::clone(&payments), clock.utc()).await.map_err(unusable)?;
    Ok(Opened { payments, outbox_store, broken, ledger, open })
}

impl Running {
    /// Opens the store, resumes open payments, and listens.
    ///
    /// # Errors
    /// [`StartFault`].
    pub async fn start(
        config: Config,
        keys: BTreeMap<ChainId, KeyRing>,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StartFault> {
        if keys.is_empty() {
            return Err(StartFault::NoNetwork);
        }
        let clock = SystemClock::new().map_err(|fault| StartFault::Clock(fault.to_string()))?;
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let Opened { payments, outbox_store, broken, ledger, open } =
            open_store(&config, &clock).await?;
        let (listener, address) = listen(config.listen).await?;
        let metrics_listener = match config.metrics_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let (draining, stopping) = (CancellationToken::new(), CancellationToken::new());
        let outboxes = TaskTracker::new();
        let metrics = Arc::new(Metrics::default());
        let health = Arc::new(ServiceHealth::default());
        let signers: BTreeMap<ChainId, Vec<Address>> =
            keys.iter().map(|(chain, ring)| (*chain, ring.addresses().collect())).collect();
        let catalogue = Catalogue::of(&config, &signers);
        let builder = SettlerBuilder {
            config: &config,
            clock: &clock,
            store: &outbox_store,
            ledger: &ledger,
            outboxes: &outboxes,
            stopping: &stopping,
            failpoints: &failpoints,
            metrics: &metrics,
        };
        let settlers = builder.settlers(keys, &open).await?;
        let all: Vec<_> = settlers.values().cloned().collect();
        let settlement = SettlementService {
            settlers,
            ledger: ledger.clone(),
            payees: config.pay_to.clone(),
            wait_ms: config.wait_ms,
            success_rights: SuccessRights::new(config.repeats),
            failpoints: Arc::clone(&failpoints),
        };
        let access = Access::new(
            config.api_keys.clone(),
            config.trusted_proxies.clone(),
            config.rate_per_minute,
            Arc::clone(&clock),
        );
        let deliveries = TaskTracker::new();
        let api = Arc::new(Api {
            settlement,
            catalogue,
            metrics: Arc::clone(&metrics),
            access,
            clock: Arc::clone(&clock),
            stopping: draining.clone(),
            deliveries: deliveries.clone(),
            health: Arc::clone(&health),
        });
        let servers = TaskTracker::new();
        let bounds = Bounds {
            trusted: config.trusted_proxies.clone(),
            ..Bounds::public(http::slots(file_limit(), OUTBOUND))
        };
        let edge = |bounds| Edge { bounds, refuse: api::refuse(), clock: Arc::clone(&clock) };
        http::serve([listener], api::router(api), edge(bounds), &servers, &draining);
        let metrics_address = match metrics_listener {
            Some((listener, address)) => {
                let app = api::metrics_router(Arc::clone(&metrics), Arc::clone(&health));
                http::serve([listener], app, edge(Bounds::metrics()), &servers, &draining);
                Some(address)
            }
            None => None,
        };
        let upkeep = upkeep::Upkeep {
            settlers: all.clone(),
            ledger,
            payments,
            metrics,
            health,
            clock: Arc::clone(&clock),
            retention_days: config.retention_days,
        };
        outboxes.spawn(upkeep.run(stopping.clone()));
        Ok(Self {
            address,
            metrics_address,
            settlers: all,
            servers,
            deliveries,
            draining,
            stopping,
            broken,
            outboxes,
            drain_ms: config.drain_ms,
            clock,
        })
    }

    /// Returns when the store cannot be written. Nothing more can be settled then until the next start.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Accepts nothing new, waits for answers that are due, and stops. Unfinished work resumes at the next start.
    pub async fn stop(self) {
        self.draining.cancel();
        self.servers.close();
        let end = self.clock.mono_ms().saturating_add(self.drain_ms);
        self.deliveries.close();
        let all = async {
            self.servers.wait().await;
            self.deliveries.wait().await;
        };
        // cancel-safe: both only wait.
        tokio::select! {
            () = all => {}
            () = self.clock.sleep_until(end) => {
                tracing::warn!("some callers were not answered in time; their payments resume at the next start");
            }
        }
        self.stopping.cancel();
        for settler in &self.settlers {
            settler.tasks.close();
            settler.tasks.wait().await;
        }
        self.outboxes.close();
        self.outboxes.wait().await;
    }
}

fn open_work_on(open: &OpenWork, chain: ChainId) -> (Vec<Record>, Vec<Batch>) {
    let records = open.records.iter().filter(|record| record.payment.chain == chain);
    let batches = open.batches.iter().filter(|batch| batch.chain == chain);
    (records.cloned().collect(), batches.cloned().collect())
}

/// What a network's settler is built from.
struct SettlerBuilder<'a> {
    config: &'a Config,
    clock: &'a Arc<dyn Clock>,
    store: &'a RedbStore,
    ledger: &'a Ledger,
    outboxes: &'a TaskTracker,
    stopping: &'a CancellationToken,
    failpoints: &'a Arc<dyn Failpoints>,
    metrics: &'a Arc<Metrics>,
}

impl SettlerBuilder<'_> {
    /// Builds the settler of each network and resumes its work.
    async fn settlers(
        &self,
        keys: BTreeMap<ChainId, KeyRing>,
        open: &OpenWork,
    ) -> Result<BTreeMap<ChainId, Arc<Settler>>, StartFault> {
        let mut settlers = BTreeMap::new();
        for (chain, ring) in keys {
            let Some(network) = self.config.networks.get(&chain) else { continue };
            let settler = self.settler(network, ring, open_work_on(open, chain)).await?;
            settlers.insert(chain, settler);
        }
        Ok(settlers)
    }

    async fn settler(
        &self,
        network: &NetworkConfig,
        ring: KeyRing,
        open: (Vec<Record>, Vec<Batch>),
    ) -> Result<Arc<Settler>, StartFault> {
        let chain: Arc<dyn Chain> = Arc::new(chain_of(network, self.clock)?);
        let signers: Vec<Address> = ring.addresses().collect();
        let network_context = NetworkContext::new(
            network.clone(),
            Arc::clone(&chain),
            Arc::clone(self.clock),
            signers.clone(),
        );
        let ring = Arc::new(ring);
        let follower = Arc::new(Follower::default());
        let mut signer_slots = BTreeMap::new();
        for signer in signers {
            let deps = OutboxDeps {
                store: Arc::new(self.store.clone()) as Arc<dyn Store>,
                chain: Arc::clone(&chain),
                signer: Arc::clone(&ring) as _,
                clock: Arc::clone(self.clock),
                // A no-op transaction may outbid the call that it withdraws.
                gas: Gas {
                    ceiling: network.max_gas_price.saturating_mul(NOOP_CEILING_FACTOR),
                    ..network.gas()
                },
                window: WINDOW,
                follower: Arc::clone(&follower),
                failpoints: Arc::clone(self.failpoints),
            };
            let key = OutboxKey { chain: network.chain(), signer };
            let opened =
                ServiceOutbox::open(key, deps, self.outboxes.clone(), self.stopping.clone()).await;
            let outbox = opened.map_err(|fault| StartFault::Store {
                path: self.config.store.display().to_string(),
                why: fault.to_string(),
            })?;
            outbox.go_on();
            signer_slots.insert(signer, SignerSlot { outbox });
        }
        let limits = Limits {
            batch_max: self.config.batch_calls,
            window_ms: self.config.batch_window_ms,
            in_flight: self.config.in_flight,
            gas: u64::MAX,
            data_gas: 0,
        };

        let deps = SettlerDeps {
            network: Arc::new(network_context),
            ledger: self.ledger.clone(),
            signer_slots,
            limits,
            metrics: Arc::clone(self.metrics),
            failpoints: Arc::clone(self.failpoints),
            stopping: self.stopping.clone(),
        };
        Ok(Settler::start(deps, open))
    }
}
