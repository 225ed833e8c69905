//! A wallet's life as a list of steps, with everything that clients have seen so far.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bursar_control::answers::{Answer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_engine::journal::Checkpoints;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, HttpResponse, json_or_null};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Operator, Outcome, PASSWORD};
use bursar_tests::process::{EngineProcess, StartOptions};
use bursar_tests::registry::TestRegistry;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

/// The wallet's password after the step `Passwd`.
pub(crate) const NEW_PASSWORD: &str = "another horse battery";

/// Timeout of any one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Moves rows to the history synchronously, so at the same steps in every life.
const EARLY_CHECKPOINTS: Checkpoints = Checkpoints { after_bytes: 6_000, in_background: false };

/// One step of the operator, an agent or the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    CreateWallet,
    CreateSeed,
    CreateAddress,
    CreatePolicy,
    Register(&'static str, &'static str),
    Commission(&'static str),
    CreateMandate(&'static str),
    SetRegistry,
    UploadMandate(&'static str),
    RetireMandate(&'static str),
    Ask(&'static str),
    Approve(&'static str),
    Deny(&'static str),
    Lock,
    Open,
    Freeze,
    AskWhileFrozen(&'static str),
    Thaw,
    /// Leaves an unfinished save in the folder, as from an old crash.
    LeaveUnfinishedSave,
    Passwd,
    DeleteWallet,
    /// Stops the engine with SIGTERM.
    Stop,
}

use Step::{
    Approve, Ask, AskWhileFrozen, Commission, CreateAddress, CreateMandate, CreatePolicy,
    CreateSeed, CreateWallet, Deny, Freeze, LeaveUnfinishedSave, Lock, Open, Passwd, Register,
    RetireMandate, SetRegistry, Stop, Thaw, UploadMandate,
};

/// The whole life. The agent `late` is registered right before the password change, so its secret is only in the last
/// save under the old password.
pub(crate) const WHOLE_LIFE: &[Step] = &[
    CreateWallet,
    CreateSeed,
    CreateAddress,
    CreatePolicy,
    Register("signer", "hmac"),
    Register("bearer", "bearer"),
    Commission("signer"),
    Commission("bearer"),
    CreateMandate("signer"),
    CreateMandate("bearer"),
    SetRegistry,
    UploadMandate("bearer"),
    Ask("small"),
    Ask("borne"),
    Ask("large"),
    Ask("unwanted"),
    Approve("large"),
    Deny("unwanted"),
    Ask("huge"),
    Lock,
    Open,
    Freeze,
    AskWhileFrozen("small"),
    Thaw,
    RetireMandate("bearer"),
    Register("late", "hmac"),
    Commission("late"),
    LeaveUnfinishedSave,
    Passwd,
    Ask("after"),
    Stop,
];

/// A policy that pays up to 0.50 dollars automatically, and at most five per payment and ten per day.
pub(crate) const POLICY_LINE: &str = "policy create p --day 10 --txn 5 --auto 0.5";

/// A request: its name, agent, amount in micro-dollars (unique) and expected outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSpec {
    pub(crate) name: &'static str,
    pub(crate) agent: &'static str,
    pub(crate) atoms: u64,
    pub(crate) expected: Expected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Paid,
    Denied,
    Refused,
}

pub(crate) const REQUESTS: [RequestSpec; 6] = [
    RequestSpec { name: "small", agent: "signer", atoms: 12_000, expected: Expected::Paid },
    RequestSpec { name: "borne", agent: "bearer", atoms: 13_000, expected: Expected::Paid },
    RequestSpec { name: "large", agent: "signer", atoms: 2_000_000, expected: Expected::Paid },
    RequestSpec { name: "unwanted", agent: "bearer", atoms: 2_100_000, expected: Expected::Denied },
    RequestSpec { name: "huge", agent: "signer", atoms: 5_000_001, expected: Expected::Refused },
    RequestSpec { name: "after", agent: "late", atoms: 14_000, expected: Expected::Paid },
];

pub(crate) fn spec(name: &str) -> RequestSpec {
    *REQUESTS.iter().find(|spec| spec.name == name).expect("a known request")
}

/// Why a step failed. Any unexpected answer to an agent fails the test at once.
#[derive(Debug)]
pub(crate) enum StepError {
    /// No answer arrived.
    Lost,
    /// The engine refused the operator.
    Refused(Fault),
}

/// Everything that clients know for certain.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Steps that were answered.
    pub(crate) answered_steps: Vec<Step>,
    pub(crate) agents: BTreeMap<&'static str, Agent>,
    /// The body of each request, repeated byte for byte.
    pub(crate) bodies: BTreeMap<&'static str, Value>,
    /// The last final answer of `/sign` for each request.
    pub(crate) answers: BTreeMap<&'static str, HttpResponse>,
    pub(crate) ids: BTreeMap<&'static str, String>,
    /// Every header returned, by request.
    pub(crate) headers: BTreeMap<&'static str, BTreeSet<String>>,
    /// Warnings of steps that succeeded.
    pub(crate) warnings: Vec<Warning>,
    /// Whether agents are frozen; `None` while a freeze or thaw is in doubt.
    pub(crate) frozen: Option<bool>,
}

/// A data folder, the engine on it, and the answers that clients received.
#[derive(Debug)]
pub(crate) struct Scenario {
    home: TempDir,
    pub(crate) engine: Option<EngineProcess>,
    operator: Option<Operator>,
    caller: Option<AgentClient>,
    pub(crate) password: &'static str,
    /// Started by the first step that needs it.
    pub(crate) registry: Option<TestRegistry>,
    pub(crate) observed: Observed,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().expect("a folder"),
            engine: None,
            operator: None,
            caller: None,
            password: PASSWORD,
            registry: None,
            observed: Observed { frozen: Some(false), ..Observed::default() },
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Starts an engine on the folder; it may die before it is ready.
    pub(crate) async fn start(&mut self, start: &StartOptions) -> Result<(), StepError> {
        let start = StartOptions { checkpoints: Some(EARLY_CHECKPOINTS), ..start.clone() };
        match EngineProcess::try_start(&self.folder(), &start) {
            Ok(engine) => {
                self.caller = Some(AgentClient::for_url(&engine.url));
                let mut operator = engine.operator().await;
                operator.password = self.password.to_owned();
                self.operator = Some(operator);
                self.engine = Some(engine);
                Ok(())
            }
            Err(why) if why.starts_with("signal: 9") => Err(StepError::Lost),
            Err(why) => panic!("the engine did not start: {why}"),
        }
    }

    /// Drops a killed engine and its clients.
    ///
    /// Panics if the engine did not end by kill -9.
    pub(crate) fn drop_killed(&mut self) {
        (self.operator, self.caller) = (None, None);
        if let Some(mut engine) = self.engine.take() {
            assert!(
                engine.wait_killed(),
                "the engine did not answer, and no kill -9 was the reason"
            );
        }
    }

    /// Drops the clients of an engine that has ended.
    pub(crate) fn drop_clients(&mut self) {
        (self.operator, self.caller) = (None, None);
    }

    pub(crate) fn caller(&self) -> &AgentClient {
        self.caller.as_ref().expect("an engine runs")
    }

    pub(crate) fn operator(&mut self) -> &mut Operator {
        self.operator.as_mut().expect("an engine runs")
    }

    /// Runs one command line.
    pub(crate) async fn order(&mut self, line: &str) -> Result<Outcome, StepError> {
        let run = timeout(TIMEOUT, self.operator().run(line)).await;
        let outcome = run.unwrap_or_else(|_late| panic!("{line}: no answer in time"));
        let outcome = outcome.map_err(|fault| {
            assert_eq!(fault.code, Code::EngineDown, "{line}: {fault}");
            StepError::Lost
        })?;
        match outcome.reply.result {
            Err(fault) => Err(StepError::Refused(fault)),
            Ok(_) => Ok(outcome),
        }
    }

    /// Runs one command line and returns its answer.
    pub(crate) async fn answer(&mut self, line: &str) -> Result<Answer, StepError> {
        let outcome = self.order(line).await?;
        Ok(outcome.reply.result.expect("looked at above"))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<HttpResponse, StepError> {
        self.caller().post(path, body).await.map_err(|_cut| StepError::Lost)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<HttpResponse, StepError> {
        self.caller().get(path).await.map_err(|_cut| StepError::Lost)
    }

    /// Returns the body of a request, built on first use.
    pub(crate) fn body(&mut self, spec: &RequestSpec) -> Value {
        let agent = &self.observed.agents[spec.agent];
        let created = || agent.ask(now_s(), &offer(spec.atoms, spec.atoms), None);
        self.observed.bodies.entry(spec.name).or_insert_with(created).clone()
    }

    /// Records an answer of `/sign` or of a poll; it must agree with earlier ones.
    pub(crate) fn note(&mut self, spec: &RequestSpec, answered: &HttpResponse) {
        let answer = json_or_null(&answered.1);
        let id = answer["transaction_id"].as_str().or(answer["request_id"].as_str());
        if let Some(id) = id {
            let known = self.observed.ids.entry(spec.name).or_insert_with(|| id.to_owned());
            assert_eq!(known, id, "{}: a second request for one body", spec.name);
        }
        if let Some(header) = answer["header_value"].as_str() {
            let headers = self.observed.headers.entry(spec.name).or_default();
            headers.insert(header.to_owned());
            assert_eq!(headers.len(), 1, "{}: a second authorization: {headers:?}", spec.name);
        }
    }
}

pub(crate) fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}
