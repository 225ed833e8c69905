//! The steps and their expected answers, on the first attempt and when repeated.

use std::time::{Duration, Instant};

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::status::EntryKind;
use bursar_tests::agent::Agent;
use bursar_tests::caller::json_or_null;
use bursar_tests::operator::PASSWORD;
use bursar_tests::registry::TestRegistry;
use serde_json::Value;

use crate::crash::scenario::{
    Expected, NEW_PASSWORD, POLICY_LINE, RequestSpec, Scenario, Step, StepError, spec,
};

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Scenario {
    /// Runs a step. With `again`, an earlier attempt was not answered and may have taken effect.
    pub(crate) async fn run_step(&mut self, step: Step, again: bool) -> Result<(), StepError> {
        match step {
            Step::CreateWallet => self.create_wallet(again).await?,
            Step::CreateSeed => {
                // The phrase is shown only once: an operator who missed it checks before creating another seed.
                if !(again && self.has_seed().await?) {
                    let created = self.order("seed create").await?;
                    assert!(created.secret.is_some(), "a phrase is shown");
                }
            }
            Step::CreateAddress => {
                let line = "address create pay 0 \"for tests\"";
                self.create_unless_exists(line, again).await?;
            }
            Step::CreatePolicy => self.create_unless_exists(POLICY_LINE, again).await?,
            Step::Register(name, auth) => self.register(name, auth, again).await?,
            Step::Commission(name) => {
                let id = self.observed.agents[name].id.clone();
                self.order(&format!("agent commission {id} p pay")).await?;
            }
            Step::CreateMandate(name) => self.sign_mandate("create", name, 1).await?,
            Step::SetRegistry => {
                self.start_registry().await;
                let line = format!("config set registry.url {}", self.registry().url);
                self.order(&line).await?;
            }
            Step::UploadMandate(name) => self.publish_mandate("upload", name, again).await?,
            Step::RetireMandate(name) => {
                self.publish_mandate("retire", name, again).await?;
                self.sign_mandate("retire", name, 2).await?;
            }
            Step::Ask(name) => self.ask(&spec(name)).await?,
            Step::AskWhileFrozen(name) => {
                let body = self.body(&spec(name));
                let (status, bytes) = self.post("/sign", &body).await?;
                let answer = json_or_null(&bytes);
                assert_eq!((status, answer["code"].as_str()), (403, Some("AGENTS_FROZEN")));
            }
            Step::Approve(name) => {
                self.decide("approve", name, again).await?;
                self.poll_until_signed(&spec(name)).await?;
            }
            Step::Deny(name) => self.decide("deny", name, again).await?,
            Step::Lock => {
                self.order("wallet lock").await?;
            }
            Step::Open => {
                let opened = self.order("wallet open").await?;
                self.observed.warnings.extend(opened.reply.warnings);
            }
            Step::Freeze | Step::Thaw => {
                self.observed.frozen = None;
                self.order(if step == Step::Freeze { "freeze" } else { "thaw" }).await?;
                self.observed.frozen = Some(step == Step::Freeze);
            }
            Step::LeaveUnfinishedSave => {
                let file = format!(".main.wallet.{}.tmp", "0123456789abcdef".repeat(2));
                let path = self.folder().join("wallets").join(file);
                std::fs::write(path, "half a save").expect("written");
            }
            Step::Passwd => self.change_password().await?,
            Step::DeleteWallet => {
                self.order("wallet delete --confirm main").await?;
            }
            Step::Stop => self.stop()?,
        }
        self.observed.answered_steps.push(step);
        Ok(())
    }

    async fn create_wallet(&mut self, again: bool) -> Result<(), StepError> {
        if again && self.has_wallet().await? {
            return Ok(());
        }
        match self.order("wallet create main").await {
            // The file was written but not its event; the message names the file to move away.
            Err(StepError::Refused(fault)) if again && fault.code == Code::WalletExists => {
                let file = self.folder().join("wallets/main.wallet");
                let named = fault.message.contains(&file.display().to_string());
                assert!(named && fault.message.contains("move it away"), "{fault}");
                std::fs::rename(&file, self.home().join("away")).expect("moved away");
                self.order("wallet create main").await.map(|_created| ())
            }
            other => other.map(|_created| ()),
        }
    }

    pub(crate) async fn has_wallet(&mut self) -> Result<bool, StepError> {
        let Answer::Wallet(wallet) = self.answer("wallet status").await? else { panic!() };
        Ok(wallet.exists)
    }

    async fn has_seed(&mut self) -> Result<bool, StepError> {
        let Answer::Seeds { seeds } = self.answer("seed list").await? else { panic!() };
        Ok(!seeds.is_empty())
    }

    /// Runs a command that creates a named object; a repeat may find the name taken.
    async fn create_unless_exists(&mut self, line: &str, again: bool) -> Result<(), StepError> {
        match self.order(line).await {
            Err(StepError::Refused(fault)) if again && fault.code == Code::NameTaken => Ok(()),
            other => other.map(|_made| ()),
        }
    }

    /// Registers an agent; a repeat that finds it registered asks for its credentials.
    async fn register(
        &mut self,
        name: &'static str,
        auth: &'static str,
        again: bool,
    ) -> Result<(), StepError> {
        let created = match self.order(&format!("agent register {name} --auth {auth}")).await {
            Err(StepError::Refused(fault)) if again && fault.code == Code::NameTaken => {
                let regenerate = if auth == "bearer" { " --regenerate" } else { "" };
                self.order(&format!("agent instructions {name}{regenerate}")).await?
            }
            other => other?,
        };
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result)
        };
        let token = created.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, auth == "bearer");
        self.observed.agents.insert(name, agent);
        Ok(())
    }

    /// Signs a mandate. However often the command is repeated, the agent then has `issued` mandates, all signed.
    async fn sign_mandate(
        &mut self,
        verb: &str,
        name: &str,
        issued: usize,
    ) -> Result<(), StepError> {
        let Answer::Mandate(signed) = self.answer(&format!("mandate {verb} {name}")).await? else {
            panic!("a mandate")
        };
        let document = signed.mandate.expect("it is signed").to_string();
        let checked = bursar_mandate::read(document.as_bytes()).expect("a mandate");
        assert_eq!(checked.defects, []);
        let Answer::Activity(activity) = self.answer("activity --limit 200").await? else {
            panic!("a list")
        };
        let count = |kind: EntryKind| {
            let own = activity.entries.iter().filter(|row| row.agent.as_deref() == Some(name));
            own.filter(|row| row.kind == kind).count()
        };
        let counts = [EntryKind::MandateIssued, EntryKind::MandateSigned].map(count);
        assert_eq!(counts, [issued, issued], "mandate {verb} {name}");
        Ok(())
    }

    async fn start_registry(&mut self) {
        if self.registry.is_none() {
            self.registry = Some(TestRegistry::start().await);
        }
    }

    fn registry(&self) -> &TestRegistry {
        self.registry.as_ref().expect("the registry is set")
    }

    /// Publishes a mandate, or its retirement. However often the command is repeated, the registry has the newest mandate
    /// and the wallet knows it, and a mandate that is there already is not sent again.
    async fn publish_mandate(
        &mut self,
        verb: &str,
        name: &str,
        again: bool,
    ) -> Result<(), StepError> {
        let code = self.observed.agents[name].id.as_str().to_owned();
        let before = self.registry().mandate_of(&code);
        self.registry().take_calls();
        let Answer::Mandate(shown) = self.answer(&format!("mandate {verb} {name}")).await? else {
            panic!("a mandate")
        };
        let published = self.registry().mandate_of(&code).expect("it is published");
        assert_eq!(Some(&published), shown.mandate.as_ref());
        let [registration] = &shown.registries[..] else { panic!("{:?}", shown.registries) };
        let [entry] = &registration.mandates[..] else { panic!("{registration:?}") };
        assert!(entry.is_newest && entry.confirmed.is_some() && entry.registry_id.is_some());
        let posts = self.registry().take_calls().iter().filter(|call| *call == "POST").count();
        let was_there = again && before.as_ref() == Some(&published);
        assert_eq!(posts, usize::from(!was_there), "mandate {verb} {name}");
        Ok(())
    }

    async fn ask(&mut self, spec: &RequestSpec) -> Result<(), StepError> {
        let body = self.body(spec);
        let answered = self.post("/sign", &body).await?;
        let answer = json_or_null(&answered.1);
        let held = spec.atoms >= 500_000 && spec.expected != Expected::Refused;
        let wanted = match spec.expected {
            _any if held => (202, "pending"),
            Expected::Paid => (200, "success"),
            Expected::Denied | Expected::Refused => (403, "error"),
        };
        let response = (answered.0, answer["status"].as_str().unwrap_or_default());
        assert_eq!(response, wanted, "{}: {answer}", spec.name);
        self.note(spec, &answered);
        if !held {
            self.observed.answers.insert(spec.name, answered);
        }
        Ok(())
    }

    async fn decide(
        &mut self,
        verb: &str,
        name: &'static str,
        again: bool,
    ) -> Result<(), StepError> {
        let id = self.observed.ids[name].clone();
        match self.order(&format!("{verb} {id}")).await {
            Err(StepError::Refused(fault)) if again && fault.code == Code::AlreadyDecided => Ok(()),
            other => other.map(|_decided| ()),
        }
    }

    /// Polls a request until it returns a header.
    pub(crate) async fn poll_until_signed(&mut self, spec: &RequestSpec) -> Result<(), StepError> {
        let path = format!("/sign/status/{}", self.observed.ids[spec.name]);
        let end = Instant::now() + TIMEOUT;
        loop {
            let answered = self.get(&path).await?;
            self.note(spec, &answered);
            match answered.0 {
                200 => {
                    let answer = json_or_null(&answered.1);
                    assert_eq!(answer["status"], "success", "{answer}");
                    self.observed.answers.insert(spec.name, answered);
                    return Ok(());
                }
                202 => assert!(Instant::now() < end, "{}: never signed", spec.name),
                other => panic!("{}: {other} {}", spec.name, json_or_null(&answered.1)),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn change_password(&mut self) -> Result<(), StepError> {
        if self.password == NEW_PASSWORD {
            return Ok(());
        }
        self.operator().passwords.extend([PASSWORD.to_owned(), NEW_PASSWORD.to_owned()]);
        let changed = self.order("wallet passwd").await;
        self.operator().passwords.clear();
        changed?;
        self.password = NEW_PASSWORD;
        self.operator().password = NEW_PASSWORD.to_owned();
        Ok(())
    }

    pub(crate) fn stop(&mut self) -> Result<(), StepError> {
        let engine = self.engine.as_mut().expect("an engine runs");
        match engine.terminate() {
            Some(0) => {
                self.engine = None;
                self.drop_clients();
                Ok(())
            }
            Some(code) => panic!("the engine ended with {code}"),
            None => Err(StepError::Lost),
        }
    }

    /// Returns the `agent` object of the agent's `/status`.
    pub(crate) async fn agent_reads(&self, name: &str) -> Result<Value, StepError> {
        let body = self.observed.agents[name].read(crate::crash::scenario::now_s());
        let (status, bytes) = self.post("/status", &body).await?;
        let mut answer = json_or_null(&bytes);
        assert_eq!(status, 200, "{answer}");
        Ok(answer["agent"].take())
    }
}
