//! Starts the service and stops it in order.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bursar_chain::clock::{ClockError, SystemClock};
use bursar_chain::failpoints::Failpoints;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::RpcChain;
use bursar_core::networks::ChainId;
use bursar_outbound::Client;
use bursar_rows::StoreUnusable;
use bursar_serve::access::Access;
use bursar_serve::http::{self, Bounds, Edge};
use bursar_serve::listen::{ListenFault, Listeners};
use bursar_serve::panics;
use bursar_serve::program::file_limit;
use bursar_serve::wait::with_timeout;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer_memory::AnswerMemory;
use crate::api::{self, Api};
use crate::book::ledger::Ledger;
use crate::book::redb_store::RedbStore;
use crate::clock_watch::{ClockReport, ClockWatch};
use crate::config::{Config, CorsOrigins, SettingsFault};
use crate::facilitator::Facilitator;
use crate::metrics::Metrics;
use crate::node::Nodes;
use crate::penalties::PayerPenalties;
use crate::pricing::Pricing;
use crate::sell::{CUSTOMER_READ_MS_MAX, Seller, SellerDeps, StreamBudget};
use crate::unpaid::UnpaidSales;
use crate::upkeep;
use crate::upstream::{Upstream, UpstreamKey, UpstreamTimeouts};

const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Memory for the copies of open streams.
const STREAM_COPIES_BYTES_MAX: usize = 32 << 20;
/// Memory for bodies that are arriving, in bytes. It has room for at least four of the longest bodies.
const ARRIVING_BODIES_BYTES_MAX: usize = 16 << 20;
/// Memory for bodies of requests in progress, in bytes. It has room for at least sixteen of the longest bodies.
const OPEN_BODIES_BYTES_MAX: usize = 256 << 20;
/// How long an identical request waits in addition to the time of the longest answer, in milliseconds.
const REPEAT_WAIT_MS: u64 = 120_000;

/// Why the proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    #[error(transparent)]
    Settings(#[from] SettingsFault),
    // Not transparent, because the exit code depends on this cause.
    #[error("{0}")]
    Store(#[from] StoreUnusable),
    #[error("the clock cannot be used: {0}")]
    Clock(#[from] ClockError),
    #[error("this machine cannot make connections: {0}")]
    Client(String),
    #[error(transparent)]
    Listen(#[from] ListenFault),
}

/// A running proxy.
#[derive(Debug)]
pub struct Running {
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    pub seller: Seller,
    store: RedbStore,
    store_path: PathBuf,
    servers: TaskTracker,
    sales: TaskTracker,
    upkeep: TaskTracker,
    writer: TaskTracker,
    stopping: CancellationToken,
    drain_ms: u64,
    clock: Arc<dyn Clock>,
}

/// Returns the clock of this machine.
///
/// # Errors
/// The clock cannot be used.
pub fn clock() -> Result<Arc<dyn Clock>, ClockError> {
    Ok(Arc::new(SystemClock::new()?))
}

/// Opens the store of sales and loads its open records.
async fn open_ledger(
    config: &Config,
    writer: &TaskTracker,
) -> Result<(Ledger, RedbStore), StoreUnusable> {
    panics::name_store(&config.store, bursar_rows::LIBRARY);
    let unusable = |error| StoreUnusable::at_start(&config.store, error);
    let store = RedbStore::open_file(&config.store).map_err(unusable)?;
    let ledger = Ledger::load(Arc::new(store.clone()), writer).await.map_err(unusable)?;
    Ok((ledger, store))
}

/// Returns the bounds of the public listener. Reserves files for the upstream connections of answers in progress.
fn bounds_of(config: &Config) -> Bounds {
    let mut bounds = Bounds::public(http::slots_for_files(file_limit(), config.in_flight));
    bounds.trusted_proxies = config.trusted_proxies.clone();
    bounds.write_ms_max = CUSTOMER_READ_MS_MAX;
    bounds.body.incomplete_bytes_max =
        ARRIVING_BODIES_BYTES_MAX.max(config.body_bytes.saturating_mul(4));
    bounds.body.complete_bytes_max =
        OPEN_BODIES_BYTES_MAX.max(config.body_bytes.saturating_mul(16));
    bounds
}

/// Creates the client of the facilitator.
///
/// # Errors
/// The settings are invalid, or the HTTP client cannot be created.
pub fn facilitator_of(config: &Config, clock: &Arc<dyn Clock>) -> Result<Facilitator, StartFault> {
    let client = Client::for_streaming(CONNECT_TIMEOUT_MS).map_err(StartFault::Client)?;
    let (target, key) = (config.facilitator()?, config.facilitator_authorization()?);
    Ok(Facilitator::new(client, target, key, Arc::clone(clock)))
}

/// Creates the clients of the nodes that must know a pending settlement. Opens no connection.
///
/// # Errors
/// The settings are invalid.
pub fn nodes_of(config: &Config, clock: &Arc<dyn Clock>) -> Result<Nodes, StartFault> {
    let mut chains: HashMap<ChainId, Arc<dyn Chain>> = HashMap::new();
    for rpc in config.nodes()? {
        let chain = rpc.chain;
        let nodes = RpcChain::new(rpc, Arc::clone(clock)).map_err(|fault| {
            StartFault::Settings(SettingsFault::Key { key: "RPC_URL", why: fault.to_string() })
        })?;
        chains.insert(chain, Arc::new(nodes));
    }
    Ok(Nodes::new(chains, Arc::clone(clock)))
}

/// Creates the client of the upstream.
///
/// # Errors
/// The settings are invalid, or the HTTP client cannot be created.
pub fn upstream_of(config: &Config, clock: &Arc<dyn Clock>) -> Result<Upstream, StartFault> {
    let client = Client::for_streaming(CONNECT_TIMEOUT_MS).map_err(StartFault::Client)?;
    let timeouts =
        UpstreamTimeouts { answer_ms: config.upstream_ms, idle_ms: config.upstream_idle_ms };
    let (secret, bearer) = (config.upstream_key.clone(), config.upstream_authorization()?);
    let key = UpstreamKey { secret, bearer };
    Ok(Upstream::new(client, config.upstream()?, key, Arc::clone(clock), timeouts))
}

impl Running {
    /// Opens the store, resumes pending work, and listens.
    ///
    /// # Errors
    /// [`StartFault`].
    pub async fn start(
        config: Config,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StartFault> {
        let clock = clock()?;
        let writer = TaskTracker::new();
        let (ledger, store) = open_ledger(&config, &writer).await?;
        let store_path = config.store.clone();
        let unpaid = UnpaidSales::new(config.unpaid);
        ledger.pending_records().iter().for_each(|record| unpaid.load(record));
        let (servers, sales, upkeep) = (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
        let metrics = Arc::new(Metrics::default());
        let seller = Seller::new(SellerDeps {
            ledger,
            facilitator: facilitator_of(&config, &clock)?,
            nodes: nodes_of(&config, &clock)?,
            unpaid,
            upstream: upstream_of(&config, &clock)?,
            metrics: Arc::clone(&metrics),
            clock: Arc::clone(&clock),
            failpoints,
            repeat_wait_ms: config.upstream_ms.saturating_add(REPEAT_WAIT_MS),
            budget: StreamBudget::of(STREAM_COPIES_BYTES_MAX),
            answers: AnswerMemory::with_bytes(config.answers_bytes),
            sale_permits: Arc::new(Semaphore::new(config.in_flight)),
            penalties: PayerPenalties::default(),
            tasks: sales.clone(),
        });
        let Listeners { public, address, metrics: metrics_listener, metrics_address } =
            Listeners::bind(config.listen, config.metrics_listen).await?;
        let stopping = CancellationToken::new();
        let bounds = bounds_of(&config);
        let edge = |bounds, origins| Edge {
            bounds,
            refuse: api::refusal_writer(origins),
            clock: Arc::clone(&clock),
        };
        let metrics_edge = edge(Bounds::metrics(), CorsOrigins::None);
        let metrics_router = api::metrics_router(metrics);
        http::serve(metrics_listener, metrics_router, metrics_edge, &servers, &stopping);
        let access = Access::new(
            Vec::new(),
            config.trusted_proxies.clone(),
            config.rate_per_minute,
            Arc::clone(&clock),
        );
        let (terms, drain_ms) = (config.terms()?, config.drain_ms);
        let edge = edge(bounds, config.cors_origins.clone());
        let clocks = Arc::new(ClockReport::default());
        let watch = ClockWatch {
            seller: seller.clone(),
            networks: config.networks.clone(),
            report: Arc::clone(&clocks),
        };
        let pricing = Pricing::new(config, terms);
        let api = Api::new(pricing, seller.clone(), access, clocks, stopping.clone());
        http::serve([public], api::router(Arc::new(api)), edge, &servers, &stopping);
        upkeep.spawn(upkeep::reconcile_pending(seller.clone(), stopping.clone()));
        upkeep.spawn(upkeep::release_memory(seller.clone(), stopping.clone()));
        upkeep.spawn(upkeep::delete_old(seller.clone(), stopping.clone()));
        upkeep.spawn(watch.run(stopping.clone()));
        Ok(Self {
            address,
            metrics_address,
            seller,
            store,
            store_path,
            servers,
            sales,
            upkeep,
            writer,
            stopping,
            drain_ms,
            clock,
        })
    }

    /// Completes with the reason when the store cannot be written.
    ///
    /// Nothing can then be sold until the next start.
    pub async fn wait_until_store_broken(&self) -> StoreUnusable {
        StoreUnusable::at_write(&self.store_path, self.store.wait_until_unwritable().await)
    }

    /// Stops accepting payments, and waits for answers in progress.
    ///
    /// Waits at most `drain_ms`. At the next start an unfinished sale is released, unless its answer is stored or owed.
    pub async fn stop(self) {
        self.stopping.cancel();
        for tracker in [&self.servers, &self.sales, &self.upkeep, &self.writer] {
            tracker.close();
        }
        let Self { servers, sales, upkeep, seller, store, writer, clock, .. } = self;
        let all = async {
            servers.wait().await;
            sales.wait().await;
            upkeep.wait().await;
            // Dropping the last ledger ends the writer and closes the file.
            drop((seller, store));
            writer.wait().await;
        };
        if with_timeout(&*clock, self.drain_ms, all).await.is_none() {
            tracing::warn!(
                "some requests were unfinished after drain_ms; their payments can be used again, or their answers are owed"
            );
        }
    }
}
