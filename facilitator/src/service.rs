//! Assembles the facilitator and shuts it down in order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::clock::{ClockError, SystemClock};
use bursar_chain::failpoints::Failpoints;
use bursar_chain::follower::Follower;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{PlainHttpHosts, RpcChain, RpcConfig};
use bursar_core::networks::{ChainId, Gas};
use bursar_outbox::redb_store::RedbStore;
use bursar_outbox::service::{OutboxDeps, ServiceOutbox};
use bursar_outbox::store::{Store, StoreFault};
use bursar_rows::{StoreError, StoreUnusable};
use bursar_serve::access::Access;
use bursar_serve::http::{self, Bounds, Edge};
use bursar_serve::listen::{ListenFault, Listeners};
use bursar_serve::panics;
use bursar_serve::program::file_limit;
use bursar_serve::wait::with_timeout;
use bursar_submit::OutboxKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{self, Api, Catalogue};
use crate::batch::authorizer::Authorizer;
use crate::book::batch::Batch;
use crate::book::ledger::Ledger;
use crate::book::record::Record;
use crate::book::redb_store::RedbPayments;
use crate::book::store::{OpenWork, PaymentStore};
use crate::clock_watch::ClockWatch;
use crate::config::{Config, NetworkConfig};
use crate::health::ServiceHealth;
use crate::keys::{KeyFault, KeyLocks, KeyRing};
use crate::metrics::Metrics;
use crate::network::{Accounts, NetworkContext};
use crate::schemes;
use crate::settle::intake::SettlementService;
use crate::settle::queue::DispatchLimits;
use crate::settle::settler::{Settler, SettlerDeps, SignerSlot};
use crate::settle::success_rights::SuccessRights;
use crate::store_probe::StoreProbe;
use crate::upkeep::Upkeep;

/// Maximum number of nonces in use per outbox, including transactions that are mined but not final.
const OUTBOX_NONCES_MAX: usize = 256;

/// Maximum gas price of a no-op transaction, as a multiple of `max_gas_price_gwei`. A no-op uses up the nonce of a
/// withdrawn transaction.
const NOOP_CEILING_FACTOR: u128 = 4;

/// Number of connections reserved for nodes. Few are needed, because `node` batches questions.
const OUTBOUND_CONNECTIONS_RESERVED: usize = 64;

/// Why the facilitator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    #[error(transparent)]
    Key(#[from] crate::keys::KeyFault),
    // Not transparent, because the exit code depends on this cause.
    #[error("{0}")]
    Store(#[from] StoreUnusable),
    #[error("the clock cannot be used: {0}")]
    Clock(#[from] ClockError),
    #[error("{chain}: {why}")]
    Endpoint { chain: ChainId, why: String },
    #[error(transparent)]
    Listen(#[from] ListenFault),
    #[error(
        "upto_facilitator of {chain} is {address}, which is not one of its signers: set it to the address of one"
    )]
    Facilitator { chain: ChainId, address: Address },
    #[error(
        "the first of upto_contracts of {chain} contains none of its signers: put a contract first that a signer can call"
    )]
    NoSender { chain: ChainId },
    #[error(
        "upto_contracts of {chain} contains {address}, which is not an account of this facilitator and could settle its payments: add its key to signers or retired_signers, or remove it"
    )]
    ForeignSender { chain: ChainId, address: Address },
    #[error(
        "no network is configured: set rpc and signers for one, as in facilitator.example.toml"
    )]
    NoNetwork,
}

impl StartFault {
    pub(crate) fn store(config: &Config, fault: &StoreFault) -> Self {
        let error = match fault {
            StoreFault::Failed(error) => error.clone(),
            // These faults cannot occur: no other process writes an open store, and the start commits nothing.
            StoreFault::Conflict | StoreFault::Ended(_) | StoreFault::NonceTaken(_) => {
                StoreError::Bug(fault.to_string())
            }
        };
        Self::Store(StoreUnusable::at_start(&config.store, error))
    }
}

/// A running facilitator.
#[derive(Debug)]
pub struct Running {
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    settlers: Vec<Arc<Settler>>,
    lifecycle: Lifecycle,
    store: RedbPayments,
    store_path: PathBuf,
    drain_ms: u64,
    clock: Arc<dyn Clock>,
    /// Held until the facilitator has stopped.
    _key_locks: KeyLocks,
}

/// The tokens that stop a facilitator, and the tasks that it waits for.
#[derive(Debug, Default)]
struct Lifecycle {
    /// Cancelled to stop accepting new payments.
    draining: CancellationToken,
    /// Cancels background work.
    stopping: CancellationToken,
    servers: TaskTracker,
    deliveries: TaskTracker,
    /// Outboxes and periodic work.
    background: TaskTracker,
}

/// Loads the keys of each configured network. Blocks for about a second per encrypted file.
///
/// # Errors
/// The first file without a valid key, or the file of an authorizer that also pays gas on a network.
pub fn load_keys(config: &Config) -> Result<BTreeMap<ChainId, KeyRing>, KeyFault> {
    let configured = || config.networks.values().filter(|network| network.is_configured());
    let rings: BTreeMap<ChainId, KeyRing> = configured()
        .map(|network| {
            let password = network.password_file.as_deref();
            let mut ring = KeyRing::load(&network.signers, &network.retired_signers, password)?;
            if let Some(file) = &network.authorizer {
                ring = ring.with_authorizer(file, password)?;
            }
            Ok((network.chain(), ring))
        })
        .collect::<Result<_, _>>()?;
    for network in configured() {
        let authorizer = rings.get(&network.chain()).and_then(KeyRing::authorizer);
        if let (Some(file), Some(key)) = (&network.authorizer, authorizer)
            && rings.values().any(|ring| ring.get(key.address()).is_some())
        {
            let (file, address) = (file.clone(), key.address());
            return Err(KeyFault::AuthorizerSends { file, address });
        }
    }
    Ok(rings)
}

/// The key files of the accounts that send transactions on the configured networks. The authorizer sends none.
pub(crate) fn sender_files(config: &Config) -> impl Iterator<Item = &Path> {
    let configured = config.networks.values().filter(|network| network.is_configured());
    configured
        .flat_map(|network| network.signers.iter().chain(&network.retired_signers))
        .map(PathBuf::as_path)
}

/// Checks that each configured `upto_facilitator` is an active signer, that we have a key for each account of
/// `upto_contracts`, and that an active signer can call the first contract.
///
/// # Errors
/// [`StartFault::Facilitator`], [`StartFault::NoSender`], [`StartFault::ForeignSender`].
pub(crate) fn check_facilitators(
    config: &Config,
    keys: &BTreeMap<ChainId, KeyRing>,
) -> Result<(), StartFault> {
    for (chain, ring) in keys {
        let Some(network) = config.networks.get(chain) else { continue };
        let named = network.upto_facilitator;
        if let Some(address) = named.filter(|named| ring.addresses().all(|own| own != *named)) {
            return Err(StartFault::Facilitator { chain: *chain, address });
        }
        if let Some(offered) = network.upto_contracts.first()
            && ring.addresses().all(|own| !offered.contains(&own))
        {
            return Err(StartFault::NoSender { chain: *chain });
        }
        // An account that is not ours could settle a payment that we report as closed.
        let mut listed = network.upto_contracts.iter().flatten();
        if let Some(address) = listed.find(|address| ring.get(**address).is_none()) {
            return Err(StartFault::ForeignSender { chain: *chain, address: *address });
        }
    }
    Ok(())
}

/// The nodes of a network.
///
/// # Errors
/// The settings name an endpoint that is not permitted.
pub fn chain_of(network: &NetworkConfig, clock: &Arc<dyn Clock>) -> Result<RpcChain, StartFault> {
    let endpoints = network.rpc.iter().map(|endpoint| endpoint.expose().to_owned());
    let mut config = RpcConfig::new(network.chain(), endpoints);
    config.plain_http = PlainHttpHosts::from_setting(network.allow_plain_http);
    RpcChain::new(config, Arc::clone(clock))
        .map_err(|fault| StartFault::Endpoint { chain: network.chain(), why: fault.to_string() })
}

/// The opened store, with the work that the last run left unfinished.
struct Stores {
    payments: Arc<dyn PaymentStore>,
    outboxes: RedbStore,
    file: RedbPayments,
    ledger: Ledger,
    open: OpenWork,
}

impl Stores {
    async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self, StartFault> {
        let unusable = |fault: StoreFault| StartFault::store(config, &fault);
        panics::name_store(&config.store, bursar_rows::LIBRARY);
        let (file, outboxes) = RedbPayments::open_file(&config.store).map_err(unusable)?;
        let payments: Arc<dyn PaymentStore> = Arc::new(file.clone());
        let (ledger, open) =
            Ledger::load(Arc::clone(&payments), clock.utc()).await.map_err(unusable)?;
        Ok(Self { payments, outboxes, file, ledger, open })
    }
}

/// Serves the API and the metrics until draining begins.
fn serve(listeners: Listeners, config: &Config, api: Arc<Api>, lifecycle: &Lifecycle) {
    let Lifecycle { servers, draining, .. } = lifecycle;
    let clock = Arc::clone(&api.clock);
    let edge = |bounds| Edge { bounds, refuse: api::refusal_writer(), clock: Arc::clone(&clock) };
    let bounds = Bounds {
        trusted_proxies: config.trusted_proxies.clone(),
        ..Bounds::public(http::slots_for_files(file_limit(), OUTBOUND_CONNECTIONS_RESERVED))
    };
    let metrics_router = api::metrics_router(Arc::clone(&api.metrics), Arc::clone(&api.health));
    http::serve([listeners.public], api::router(api), edge(bounds), servers, draining);
    http::serve(listeners.metrics, metrics_router, edge(Bounds::metrics()), servers, draining);
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
        check_facilitators(&config, &keys)?;
        let key_locks = KeyLocks::lock_files(sender_files(&config))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new()?);
        let stores = Stores::open(&config, &clock).await?;
        let listeners = Listeners::bind(config.listen, config.metrics_listen).await?;
        let (address, metrics_address) = (listeners.address, listeners.metrics_address);
        let lifecycle = Lifecycle::default();
        let metrics = Arc::new(Metrics::default());
        let health = Arc::new(ServiceHealth::default());
        let builder = SettlerBuilder {
            config: &config,
            clock: &clock,
            stores: &stores,
            lifecycle: &lifecycle,
            failpoints: &failpoints,
            metrics: &metrics,
        };
        let settlers = builder.settlers(keys).await?;
        let networks = settlers.iter().map(|(chain, all)| (*chain, Arc::clone(&all.network)));
        let catalogue = Catalogue::of(&config, networks.collect());
        look_for_contracts(&settlers, &clock).await;
        let payments = Arc::clone(&stores.payments);
        let store = StoreProbe::new(payments, stores.ledger.clone(), Arc::clone(&clock));
        let store = Arc::new(store);
        let clock_watch = ClockWatch {
            networks: settlers.values().map(|one| Arc::clone(&one.network)).collect(),
            health: Arc::clone(&health),
            clock: Arc::clone(&clock),
        };
        let upkeep = Upkeep {
            store: Arc::clone(&store),
            settlers: settlers.values().cloned().collect(),
            ledger: stores.ledger.clone(),
            payments: stores.payments,
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
            clock: Arc::clone(&clock),
            retention_days: config.retention_days,
        };
        let all_settlers = upkeep.settlers.clone();
        let api = Api {
            settlement: settlement_service(&config, settlers, stores.ledger, failpoints),
            catalogue,
            metrics,
            access: access(&config, &clock),
            clock: Arc::clone(&clock),
            stopping: lifecycle.draining.clone(),
            deliveries: lifecycle.deliveries.clone(),
            health,
            store,
        };
        serve(listeners, &config, Arc::new(api), &lifecycle);
        lifecycle.background.spawn(upkeep.run(lifecycle.stopping.clone()));
        lifecycle.background.spawn(clock_watch.run(lifecycle.stopping.clone()));
        Ok(Self {
            address,
            metrics_address,
            settlers: all_settlers,
            lifecycle,
            store: stores.file,
            store_path: config.store,
            drain_ms: config.drain_ms,
            clock,
            _key_locks: key_locks,
        })
    }

    /// Completes with the reason when the store cannot be written. No payment can then be settled until the next start.
    pub async fn wait_until_store_broken(&self) -> StoreUnusable {
        self.store.write_failed().cancelled().await;
        // The failure is set before the token is cancelled.
        let failure = self.store.failure().unwrap_or(StoreError::Bug("unknown".to_owned()));
        StoreUnusable::at_write(&self.store_path, failure)
    }

    /// Stops: accepts no new requests, then waits up to `drain_ms` for the answers to earlier ones. Unfinished work
    /// resumes at the next start.
    pub async fn stop(self) {
        let Lifecycle { draining, stopping, servers, deliveries, background } = self.lifecycle;
        draining.cancel();
        servers.close();
        deliveries.close();
        let answered = async {
            servers.wait().await;
            deliveries.wait().await;
        };
        if with_timeout(&*self.clock, self.drain_ms, answered).await.is_none() {
            tracing::warn!(
                "some callers were not answered in time; their payments resume at the next start"
            );
        }
        stopping.cancel();
        for settler in &self.settlers {
            settler.tasks.close();
            settler.tasks.wait().await;
        }
        background.close();
        background.wait().await;
    }
}

/// How long the start waits for nodes to report the contracts of the schemes, in milliseconds. Upkeep looks again.
const CONTRACT_LOOKUP_TIMEOUT_MS: u64 = 3_000;

/// Looks for the contracts of all schemes on all networks.
async fn look_for_contracts(settlers: &BTreeMap<ChainId, Arc<Settler>>, clock: &Arc<dyn Clock>) {
    let each = settlers.values().map(|settler| schemes::look_for_contracts(&settler.network));
    // A lookup that is dropped keeps the contracts that it has found.
    let _looked =
        with_timeout(&**clock, CONTRACT_LOOKUP_TIMEOUT_MS, futures::future::join_all(each)).await;
}

fn settlement_service(
    config: &Config,
    settlers: BTreeMap<ChainId, Arc<Settler>>,
    ledger: Ledger,
    failpoints: Arc<dyn Failpoints>,
) -> SettlementService {
    SettlementService {
        settlers,
        ledger,
        payees: config.pay_to.clone(),
        wait_ms: config.wait_ms,
        success_rights: SuccessRights::new(config.repeats),
        foreign_settlements: config.foreign_settlements,
        failpoints,
    }
}

fn access(config: &Config, clock: &Arc<dyn Clock>) -> Access {
    Access::new(
        config.api_keys.clone(),
        config.trusted_proxies.clone(),
        config.rate_per_minute,
        Arc::clone(clock),
    )
}

/// The open payments and transactions of one network.
fn open_work_on(open: &OpenWork, chain: ChainId) -> (Vec<Record>, Vec<Batch>) {
    let records = open.records.iter().filter(|record| record.job.work().chain() == chain);
    let batches = open.batches.iter().filter(|batch| batch.chain == chain);
    (records.cloned().collect(), batches.cloned().collect())
}

/// Builds the settlers of all networks.
struct SettlerBuilder<'a> {
    config: &'a Config,
    clock: &'a Arc<dyn Clock>,
    stores: &'a Stores,
    lifecycle: &'a Lifecycle,
    failpoints: &'a Arc<dyn Failpoints>,
    metrics: &'a Arc<Metrics>,
}

impl SettlerBuilder<'_> {
    /// Builds the settler of each network and resumes its work.
    async fn settlers(
        &self,
        keys: BTreeMap<ChainId, KeyRing>,
    ) -> Result<BTreeMap<ChainId, Arc<Settler>>, StartFault> {
        let mut settlers = BTreeMap::new();
        for (chain, ring) in keys {
            let Some(network) = self.config.networks.get(&chain) else { continue };
            let open = open_work_on(&self.stores.open, chain);
            let settler = self.settler(network, ring, open).await?;
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
        let network_context = NetworkContext::new(
            network.clone(),
            Arc::clone(&chain),
            Arc::clone(self.clock),
            Accounts {
                signers: ring.addresses().collect(),
                retired_signers: ring.retired().collect(),
                authorizer: ring.authorizer().map(Authorizer::new),
            },
        );

        let limits = DispatchLimits {
            batch_max: self.config.batch_calls,
            has_multicall: false,
            window_ms: self.config.batch_window_ms,
            in_flight_max: self.config.in_flight,
            transaction_gas_max: u64::MAX,
            data_gas: 0,
        };
        let deps = SettlerDeps {
            network: Arc::new(network_context),
            ledger: self.stores.ledger.clone(),
            signer_slots: self.open_outboxes(network, &chain, ring).await?,
            outboxes: Arc::new(self.stores.outboxes.clone()),
            limits,
            metrics: Arc::clone(self.metrics),
            failpoints: Arc::clone(self.failpoints),
            stopping: self.lifecycle.stopping.clone(),
        };
        Ok(Settler::start(deps, open))
    }

    /// Opens the outbox of each signer and resumes its transactions.
    async fn open_outboxes(
        &self,
        network: &NetworkConfig,
        chain: &Arc<dyn Chain>,
        ring: KeyRing,
    ) -> Result<BTreeMap<Address, SignerSlot>, StartFault> {
        let signers: Vec<Address> = ring.addresses().chain(ring.retired()).collect();
        let ring = Arc::new(ring);
        let follower = Arc::new(Follower::default());
        let mut signer_slots = BTreeMap::new();
        for signer in signers {
            let deps = OutboxDeps {
                store: Arc::new(self.stores.outboxes.clone()) as Arc<dyn Store>,
                chain: Arc::clone(chain),
                signer: Arc::clone(&ring) as _,
                clock: Arc::clone(self.clock),
                // The no-op transaction that withdraws a call may pay more for gas than the call.
                gas: Gas {
                    ceiling: network.max_gas_price.saturating_mul(NOOP_CEILING_FACTOR),
                    ..network.gas()
                },
                window: OUTBOX_NONCES_MAX,
                follower: Arc::clone(&follower),
                failpoints: Arc::clone(self.failpoints),
            };
            let key = OutboxKey { chain: network.chain(), signer };
            let (tasks, stopping) =
                (self.lifecycle.background.clone(), self.lifecycle.stopping.clone());
            let outbox = ServiceOutbox::open(key, deps, tasks, stopping)
                .await
                .map_err(|fault| StartFault::store(self.config, &fault))?;
            outbox.ensure_running();
            signer_slots.insert(signer, SignerSlot { outbox });
        }
        Ok(signer_slots)
    }
}
