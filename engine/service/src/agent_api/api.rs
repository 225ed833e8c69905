//! The state of the agent server, its counters and its settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar_core::ids::AgentId;
use bursar_core::limits::{OPEN_PAYMENTS_RATE_MINUTES, REQUESTS_PER_DAY_MAX};
use bursar_core::networks::ChainId;
use bursar_core::time::{Moment, Utc};
use bursar_domain::command::AskBounds;
use tokio_util::sync::CancellationToken;

use super::failed_auth::FailedProofLimit;
use super::host::HostRule;
use super::lan::{Exposure, LanBearers};
use super::rate::Rate;
use super::reply::{Answer, Outcome};
use crate::chain_time::HintedClock;
use crate::config::LiveConfig;
use crate::core::handle::Handle;
use crate::disk_room::DiskRoom;
use crate::edition::Edition;
use crate::funds::Funds;
use crate::lanes::lending::Lending;
use crate::lanes::payments::{Execution, TokenDomains};
use crate::lanes::plans::ExecutionCounter;
use crate::lanes::trading::Trading;
use crate::ports::Ports;
use crate::vault::Vault;

/// The state that all endpoints share.
#[derive(Debug)]
pub struct Api {
    pub(crate) core: Handle,
    pub(crate) vault: Arc<Vault>,
    pub(crate) ports: Ports,
    pub(crate) execution: Execution,
    pub(crate) chain_time: HintedClock,
    pub(crate) funds: Arc<Funds>,
    pub(crate) domains: TokenDomains,
    pub(crate) trading: Arc<Trading>,
    pub(crate) lending: Arc<Lending>,
    pub(super) execution_counter: ExecutionCounter,
    pub(crate) edition: Edition,
    pub(crate) folder: PathBuf,
    pub(crate) disk_room: Arc<DiskRoom>,
    pub(super) settings: Arc<LiveConfig>,
    pub(super) exposure: Exposure,
    pub lan_bearers: LanBearers,
    pub failed_auth: FailedProofLimit,
    pub(super) host_rule: HostRule,
    pub(super) rate: Rate,
    pub(super) counters: Counters,
    pub(super) started: Utc,
    pub(super) started_offset_s: i32,
    /// Cancelled when the server begins to stop, so that calls that only wait return at once.
    pub(super) stopping: CancellationToken,
}

/// The counters that `/status` shows, since the server started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    signed: AtomicU64,
    rejected: AtomicU64,
    trades_rejected: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, answer: &Answer) {
        let counter = match answer.outcome {
            Outcome::Done => &self.signed,
            Outcome::InProgress => return,
            Outcome::Refused => &self.rejected,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the answer if it refuses a trade or position.
    pub(super) fn count_trade(&self, answer: &Answer) {
        if answer.status >= 400 {
            self.trades_rejected.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn rejected_trade_count(&self) -> u64 {
        self.trades_rejected.load(Ordering::Relaxed)
    }

    pub(super) fn signed_count(&self) -> u64 {
        self.signed.load(Ordering::Relaxed)
    }

    pub(super) fn rejected_count(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

/// The lanes that carry out agents' requests.
#[derive(Debug)]
pub struct Lanes {
    pub execution: Execution,
    pub trading: Arc<Trading>,
    pub lending: Arc<Lending>,
    pub execution_counter: ExecutionCounter,
    pub funds: Arc<Funds>,
}

/// The settings of the server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub edition: Edition,
    pub folder: PathBuf,
    pub(crate) disk_room: Arc<DiskRoom>,
    pub exposure: Exposure,
    /// The settings, which are read for each call so that a change applies at once.
    pub(crate) settings: Arc<LiveConfig>,
}

impl Api {
    /// Creates the endpoints' state. Reads the machine's host name for the check of Host headers.
    pub fn new(
        core: Handle,
        vault: Arc<Vault>,
        ports: Ports,
        lanes: Lanes,
        chain_time: HintedClock,
        config: ServerConfig,
    ) -> Self {
        let Lanes { execution, trading, lending, execution_counter: executed, funds } = lanes;
        let now = core.now();
        let system = rustix::system::uname();
        let machine = system.nodename().to_string_lossy();
        Self {
            exposure: config.exposure,
            lan_bearers: LanBearers::new(Arc::clone(&ports.clock)),
            failed_auth: FailedProofLimit::new(Arc::clone(&ports.clock)),
            host_rule: HostRule::new(config.exposure, &machine),
            rate: Rate::new(&ports.clock),
            domains: TokenDomains::new(ports.chains.clone(), Arc::clone(&ports.clock)),
            core,
            vault,
            ports,
            execution,
            chain_time,
            funds,
            trading,
            lending,
            execution_counter: executed,
            edition: config.edition,
            folder: config.folder,
            disk_room: config.disk_room,
            settings: config.settings,
            counters: Counters::default(),
            started: now.utc,
            started_offset_s: now.offset_s,
            stopping: CancellationToken::new(),
        }
    }

    /// Compares our clock with the clock of `chain` if a comparison is due, in parallel with the request.
    pub(super) fn probe_chain_time(&self, chain: ChainId, now: &Moment) {
        if let Some(node) = self.ports.chains.get(&chain)
            && self.chain_time.is_due(chain, now)
        {
            let (clock, node) = (self.chain_time.clone(), Arc::clone(&node));
            // No caller waits for the probe, and an engine that stops abandons it.
            tokio::spawn(async move { clock.probe(chain, &*node).await });
        }
    }

    /// Returns the calls allowed per minute and caller; `None` if there is no limit.
    pub(super) fn rate_limit(&self) -> Option<u32> {
        let off = self.core.view().settings().rate_limit_off;
        (!off).then(|| self.settings.get().rate_per_minute)
    }

    /// Returns an agent's maximum number of open payments and of requests per day; both are `None` if the rate limit
    /// is off.
    pub(super) fn ask_bounds(&self) -> AskBounds {
        let rate = self.rate_limit();
        AskBounds {
            open_payments_max: rate.map(|rate| rate.saturating_mul(OPEN_PAYMENTS_RATE_MINUTES)),
            requests_a_day_max: rate.map(|_rate| REQUESTS_PER_DAY_MAX),
        }
    }

    /// Returns the allowed distance of a signed timestamp from our clock, in seconds.
    pub(super) fn signature_window_s(&self) -> u64 {
        self.settings.get().signature_window_s
    }

    /// Whether the engine verifies reported settlements on the chain.
    pub(super) fn verifies_settlements(&self) -> bool {
        self.settings.get().verify_settlements
    }

    /// Returns the agents that used a bearer token from another machine since the server started.
    pub fn lan_bearers(&self) -> Vec<AgentId> {
        self.lan_bearers.agents()
    }
}
