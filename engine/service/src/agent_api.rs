//! The HTTP server that agents call. Knows the core's handle and its published views, never the state.

mod admit;
pub mod auth;
mod balances;
mod body;
mod callback;
mod calls;
mod edge;
pub mod failed_auth;
mod guard;
pub mod host;
pub mod lan;
mod lanes_off;
pub mod listen;
mod mandate;
pub mod message;
pub mod openapi;
mod plain;
mod rate;
mod receipt;
pub mod reply;
mod sign;
mod texts;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::Response;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::limits::{OPEN_MINUTES, REQUESTS_A_DAY};
use bursar_core::time::Utc;
use bursar_domain::command::AskBounds;
use bursar_serve::http::{self, Edge};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain_time::HintedClock;
use crate::config::Live;
use crate::core::handle::Handle;
use crate::funds::Funds;
use crate::lanes::payments::{Execution, TokenDomains};
use crate::ports::Ports;
use crate::vault::Vault;
use failed_auth::FailedAuth;
use host::HostRule;
pub use lan::Exposure;
use lan::LanBearers;
use rate::Rate;
use reply::Answer;

/// What the endpoints share.
#[derive(Debug)]
pub struct Api {
    pub(crate) core: Handle,
    pub(crate) vault: Arc<Vault>,
    pub(crate) ports: Ports,
    pub(crate) execution: Execution,
    pub(crate) chain_time: HintedClock,
    pub(crate) funds: Arc<Funds>,
    pub(crate) domains: TokenDomains,
    /// How agents name themselves: `agent_id`, or `agent_code` in the payments-only edition.
    pub(crate) agent_field: &'static str,
    pub(crate) folder: PathBuf,
    settings: Arc<Live>,
    exposure: Exposure,
    pub lan: LanBearers,
    pub failed_auth: FailedAuth,
    host_rule: HostRule,
    rate: Rate,
    counters: Counters,
    started: Utc,
    started_offset_s: i32,
}

/// What `/status` counts since the server started.
#[derive(Debug, Default)]
struct Counters {
    signed: AtomicU64,
    rejected: AtomicU64,
    trades_rejected: AtomicU64,
}

impl Counters {
    fn count(&self, answer: &Answer) {
        let counter = match answer.body.get("status").and_then(|status| status.as_str()) {
            Some("success") => &self.signed,
            Some("pending" | "executing") => return,
            _refused => &self.rejected,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Trades and positions; none is carried out yet.
    fn count_trade(&self, answer: &Answer) {
        if answer.status >= 400 {
            self.trades_rejected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn trades_rejected(&self) -> u64 {
        self.trades_rejected.load(Ordering::Relaxed)
    }

    fn signed(&self) -> u64 {
        self.signed.load(Ordering::Relaxed)
    }

    fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub agent_field: &'static str,
    pub folder: PathBuf,
    pub exposure: Exposure,
    /// Read anew for each call, like the settings that the journal has.
    pub(crate) settings: Arc<Live>,
}

impl Api {
    pub fn new(
        core: Handle,
        vault: Arc<Vault>,
        ports: Ports,
        execution: Execution,
        chain_time: HintedClock,
        funds: Arc<Funds>,
        config: ServerConfig,
    ) -> Self {
        let now = core.now();
        let system = rustix::system::uname();
        let machine = system.nodename().to_string_lossy();
        Self {
            exposure: config.exposure,
            lan: LanBearers::new(Arc::clone(&ports.clock)),
            failed_auth: FailedAuth::new(Arc::clone(&ports.clock)),
            host_rule: HostRule::new(config.exposure, &machine),
            rate: Rate::new(&ports.clock),
            domains: TokenDomains::new(ports.chains.clone(), Arc::clone(&ports.clock)),
            core,
            vault,
            ports,
            execution,
            chain_time,
            funds,
            agent_field: config.agent_field,
            folder: config.folder,
            settings: config.settings,
            counters: Counters::default(),
            started: now.utc,
            started_offset_s: now.offset_s,
        }
    }

    /// Calls a minute that one caller may make; `None` where there is no limit.
    fn rate_limit(&self) -> Option<u32> {
        let off = self.core.view().settings().rate_limit_off;
        (!off).then(|| self.settings.get().rate_per_minute)
    }

    /// How many payments and requests an agent may have.
    fn ask_bounds(&self) -> AskBounds {
        let rate = self.rate_limit();
        AskBounds {
            open: rate.map(|rate| rate.saturating_mul(OPEN_MINUTES)),
            today: rate.map(|_rate| REQUESTS_A_DAY),
        }
    }

    /// How far a signed timestamp may be from our clock, in seconds.
    fn signature_window_s(&self) -> u64 {
        self.settings.get().signature_window_s
    }

    /// Whether settled payments are looked up on the chain.
    fn verifies_settlements(&self) -> bool {
        self.settings.get().verify_settlements
    }

    /// Agents whose bearer tokens came from other machines since the server started.
    pub fn lan_bearers(&self) -> Vec<AgentId> {
        self.lan.agents()
    }
}

/// The routes; a test drives them in process.
pub fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/health", only(get(plain::health), "GET"))
        .route("/status", only(get(plain::status).post(plain::status), "GET, POST"))
        .route("/ping", only(post(plain::ping), "POST"))
        .route("/sign", only(post(sign::sign), "POST"))
        .route("/sign/status/{id}", only(get(sign::status::status), "GET"))
        .route("/sign/status/", only(get(missing_id), "GET"))
        .route("/", only(get(texts::root), "GET"))
        .route("/agent", only(get(texts::skill), "GET"))
        .route("/agent/partner", only(get(texts::partner), "GET"))
        .route("/agent/1claw", only(get(texts::partner), "GET"))
        .route("/agent/{*other}", only(get(texts::skill), "GET"))
        .route("/openapi.json", only(get(openapi::openapi), "GET"))
        .route("/sign/helper", only(get(texts::helper), "GET"))
        .route("/callback", only(post(callback::callback), "POST"))
        .route("/receipt/{id}", only(get(receipt::receipt), "GET"))
        .route("/receipt/", only(get(receipt::missing_id), "GET"))
        .route("/mandate", only(post(mandate::mandate), "POST"))
        .route("/balances", only(post(balances::balances), "POST"))
        .route("/trade", only(post(lanes_off::trade), "POST"))
        .route("/trade/status/{id}", only(get(lanes_off::status), "GET"))
        .route("/trade/status/", only(get(missing_id), "GET"))
        .route("/venues", only(post(lanes_off::venues), "POST"))
        .route("/position", only(post(lanes_off::position), "POST"))
        .route("/position/status/{id}", only(get(lanes_off::status), "GET"))
        .route("/position/status/", only(get(missing_id), "GET"))
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&api), guard::guard))
        .with_state(api)
}

fn only(methods: MethodRouter<Arc<Api>>, allowed: &'static str) -> MethodRouter<Arc<Api>> {
    methods.fallback(move || async move { Answer::wrong_method(allowed).into_http() })
}

/// An id in a path, before anybody has looked at it.
type PathId = Result<Path<String>, PathRejection>;

/// What is no text once its percent signs are read is no id either.
fn text_of(id: PathId) -> String {
    id.map_or(String::new(), |Path(id)| id)
}

async fn not_found() -> Response<Body> {
    Answer::from(Fault::new(Code::NotFound)).into_http()
}

async fn missing_id() -> Response<Body> {
    Answer::from(Fault::new(Code::MissingRequestId)).into_http()
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    pub api: Arc<Api>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Server {
    /// Whether other machines can call it.
    pub fn is_open_to_network(&self) -> bool {
        self.api.exposure == Exposure::Lan
    }

    /// Serves on listeners that are bound already.
    pub fn start(api: Arc<Api>, address: SocketAddr, listeners: Vec<TcpListener>) -> Self {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let clock = Arc::clone(&api.ports.clock);
        let edge = Edge { bounds: edge::bounds(), refuse: edge::refuse(), clock };
        http::serve(listeners, router(Arc::clone(&api)), edge, &tasks, &stopping);
        Self { address, api, tasks, stopping }
    }

    /// Takes no more calls and waits for those in progress.
    pub async fn stop(&self, patience: std::time::Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("calls were still in progress when the server stopped");
        }
    }
}
