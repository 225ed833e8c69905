//! An engine in this process whose ports the test controls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::icon_http::IconHttp;
use bursar_chain::ports::{Chain, Explorer, Icons, Registry};
use bursar_chain::registry_http::RegistryHttp;
use bursar_control::answers::Answer;
use bursar_core::auth::AuthMode;
use bursar_core::client::Program;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_engine::agent_api::router;
use bursar_engine::edition::{Edition, Retention};
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::journal::Store;
use bursar_engine::ports::{Failpoints, NoFailpoints, Ports, PriceSource, Signer};
use bursar_engine::rules::Rules;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, InstanceLock, claim, running};
use bursar_engine::vault::kdf::{KdfBounds, KdfParams};
use bursar_ledger::port::Devices;
use bursar_tui::link::Link;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::agent::Agent;
use crate::doubles::{ScriptedRandom, TestDisk};
use crate::operator::{Expect, Operator, PASSWORD};

/// 2026-01-01T00:00:00Z, the clock of the request test vectors.
pub const NEW_YEAR_S: i64 = 1_767_225_600;

/// Returns the full edition with cheap key derivation.
pub fn test_edition() -> Edition {
    with_cheap_kdf(EditionName::Full)
}

/// Returns an edition with cheap key derivation, because tests open hundreds of wallets.
pub fn with_cheap_kdf(name: EditionName) -> Edition {
    Edition {
        kdf: KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 },
        kdf_bounds: KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION },
        ..Edition::of(name)
    }
}

/// The options of a test engine.
#[derive(Debug)]
pub struct Setup {
    pub edition: EditionName,
    pub mode: Mode,
    pub store: Option<Box<dyn Store>>,
    pub icons: Arc<dyn Icons>,
    pub registry: Arc<dyn Registry>,
    pub signer: Option<Arc<dyn Signer>>,
    pub devices: Option<Arc<dyn Devices>>,
    pub failpoints: Arc<dyn Failpoints>,
    pub rules: Rules,
    pub clock: Arc<ManualClock>,
    pub chains: BTreeMap<ChainId, Arc<dyn Chain>>,
    /// The content of the folder's `settings.toml`; empty for no file.
    pub settings: &'static str,
    pub explorers: BTreeMap<ChainId, Arc<dyn Explorer>>,
    /// How often snapshots are written, and how long signed requests are remembered.
    pub retention: Retention,
}

/// Settings for tests that call more often than an agent may.
pub const UNLIMITED_RATE_SETTINGS: &str = "[server]\nrate_per_minute = 10000000\n";

impl Default for Setup {
    fn default() -> Self {
        Self {
            edition: EditionName::Full,
            mode: Mode::Full,
            store: None,
            icons: Arc::new(IconHttp::new()),
            registry: Arc::new(RegistryHttp),
            signer: None,
            devices: None,
            failpoints: Arc::new(NoFailpoints),
            rules: Rules::default(),
            clock: Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S))),
            chains: BTreeMap::new(),
            settings: "",
            explorers: BTreeMap::new(),
            retention: Retention::PRODUCTION,
        }
    }
}

/// An engine and the doubles that control it.
#[derive(Debug)]
pub struct TestEngine {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub disk: Arc<TestDisk>,
    pub random: Arc<ScriptedRandom>,
    pub folder: PathBuf,
    edition: EditionName,
    /// The agent server's routes, without a socket.
    pub http: Router,
    /// Keeps the folder alive as long as the engine.
    home: Option<TempDir>,
}

/// Takes the lock of a data folder; panics if another process holds it.
pub fn lock_folder(folder: &DataFolder) -> InstanceLock {
    match claim(folder, EditionName::Full, ENGINE_WAIT).expect("the folder can be used") {
        Instance::Free(lock) => lock,
        Instance::Running(other) => panic!("{other:?} holds the folder"),
    }
}

impl TestEngine {
    /// Starts an engine in its own temporary folder.
    pub async fn start(setup: Setup) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut engine = Self::open(home.path().join("data"), setup).await;
        engine.home = Some(home);
        engine
    }

    /// Starts an engine in the folder at `path`.
    pub async fn open(path: PathBuf, setup: Setup) -> Self {
        Self::try_open(path, setup).await.unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Starts an engine in the folder at `path`, or returns why it does not start.
    pub async fn try_open(path: PathBuf, setup: Setup) -> Result<Self, Fault> {
        let folder = DataFolder::open(&path).expect("the folder can be used");
        let lock = lock_folder(&folder);
        if !setup.settings.is_empty() {
            std::fs::write(path.join("settings.toml"), setup.settings).expect("settings");
        }
        let disk =
            Arc::new(TestDisk { free_bytes: AtomicU64::new(u64::MAX), ..TestDisk::default() });
        let random = Arc::new(ScriptedRandom::default());
        let edition = Edition { retention: setup.retention, ..with_cheap_kdf(setup.edition) };
        let mut options = Options::new(folder, lock, edition, setup.mode);
        options.store = setup.store;
        options.ports = Some(Ports {
            clock: Arc::clone(&setup.clock) as _,
            random: Arc::clone(&random) as _,
            disk: Arc::clone(&disk) as _,
            failpoints: setup.failpoints,
            chains: setup.chains.into_iter().collect(),
            explorers: setup.explorers.into_iter().collect(),
            prices: PriceSource::default(),
            icons: setup.icons,
            registry: setup.registry,
            devices: setup.devices,
            signer: setup.signer,
            rules: setup.rules,
        });
        let engine = Engine::open(options).await?;
        let http = router(Arc::new(engine.api()));
        let (clock, edition) = (setup.clock, setup.edition);
        Ok(Self { engine, clock, disk, random, folder: path, edition, http, home: None })
    }

    /// Advances the clock in steps of 100 ms until `work` completes.
    pub async fn while_time_passes<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::task::yield_now() => self.clock.advance(100),
            }
        }
    }

    /// Stops the engine and opens its folder again.
    pub async fn restart(self, setup: Setup) -> Self {
        let (path, home) = (self.folder.clone(), self.home);
        drop(self.http);
        self.engine.stop().await;
        let mut reopened = Self::open(path, setup).await;
        reopened.home = home;
        reopened
    }

    /// Takes the temporary folder, so that it outlives the engine.
    pub fn keep_folder(&mut self) -> Option<TempDir> {
        self.home.take()
    }

    /// Returns an operator attached in this process.
    pub fn operator(&self) -> Operator {
        Operator::new(self.attach(), PASSWORD)
    }

    /// Connects to the engine in this process.
    pub fn attach(&self) -> Link {
        Link::over(self.engine.attach())
    }

    /// Connects an operator to the control socket, which the engine must serve.
    pub async fn operator_at_the_socket(&self, program: Program) -> Operator {
        Operator::new(self.link(program).await, PASSWORD)
    }

    /// Connects to the control socket, which the engine must serve.
    pub async fn link(&self, program: Program) -> Link {
        let folder = DataFolder::open(&self.folder).expect("the folder can be used");
        let control = running(&folder).expect("ours").expect("the engine serves it");
        Link::connect(&control, program).await.expect("the engine lets us in")
    }

    /// Creates a wallet, a seed, the address `pay`, and a policy `p` with these options.
    pub async fn set_up_wallet(&self, policy: &str) {
        let mut operator = self.operator();
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        operator.must("address create pay 0 \"for tests\"").await;
        operator.must(&format!("policy create p {policy}")).await;
    }

    /// Registers and commissions an agent that spends from `pay` under policy `p`.
    pub async fn add_agent(&self, name: &str, auth: &str) -> Agent {
        let mut operator = self.operator();
        let created = operator.outcome(&format!("agent register {name} --auth {auth}")).await;
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result);
        };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let bearer = given.auth_mode == AuthMode::Bearer;
        let field = Edition::of(self.edition).wire.field;
        Agent { field, ..Agent::new(given.agent_id, created.secret.expect("a token"), bearer) }
    }

    /// Returns the engine clock's time in Unix seconds.
    pub fn now_s(&self) -> i64 {
        use bursar_chain::ports::Clock;
        self.clock.now().utc.seconds()
    }

    /// Posts a JSON body; a body that is not JSON is returned as null.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, body.to_string().into_bytes()).await
    }

    /// Calls a read endpoint, which must return status 200.
    pub async fn post_read(&self, path: &str, agent: &Agent) -> Value {
        let (status, answer) = self.post(path, &agent.read(self.now_s())).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Gets `path`; a body that is not JSON is returned as null.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Vec::new()).await
    }

    /// Sends one request through the whole server except its socket.
    pub async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, Value) {
        let (status, bytes) = self.raw(method, path, body).await;
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Like [`Self::send`], but returns the bytes of the body.
    pub async fn raw(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        ask(self.http.clone(), method, path, body).await
    }
}

/// Sends one request from a loopback address and returns the status and the bytes of the body.
pub async fn ask(http: Router, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:9402")
        .body(Body::from(body))
        .expect("a request");
    let peer = ConnectInfo(std::net::SocketAddr::from(([127, 0, 0, 1], 5)));
    request.extensions_mut().insert(peer);
    let response = http.oneshot(request).await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    (status, bytes.to_vec())
}
