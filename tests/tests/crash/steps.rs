//! The steps and their expected answers, on the first attempt and when repeated.

use std::time::{Duration, Instant};

use bursar_core::answers::Answer;
use bursar_core::codes::Code;
use bursar_tests::agent::Agent;
use bursar_tests::caller::json_or_null;
use bursar_tests::operator::PASSWORD;
use serde_json::Value;

use crate::scenario::{End, NEW_PASSWORD, POLICY_LINE, Step, Trouble, Wish, World, wish};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

impl World {
    /// Runs a step. With `again`, an earlier attempt was not answered and may have taken effect.
    pub(crate) async fn take(&mut self, step: Step, again: bool) -> Result<(), Trouble> {
        match step {
            Step::CreateWallet => self.create_wallet(again).await?,
            Step::CreateSeed => {
                // The phrase is shown only once: an operator who missed it checks before creating another seed.
                if !(again && self.has_seed().await?) {
                    let made = self.order("seed create").await?;
                    assert!(made.secret.is_some(), "a phrase is shown");
                }
            }
            Step::CreateAddress => {
                let line = "address create pay 0 \"for tests\"";
                self.unless_there(line, again).await?;
            }
            Step::CreatePolicy => self.unless_there(POLICY_LINE, again).await?,
            Step::Register(name, auth) => self.register(name, auth, again).await?,
            Step::Commission(name) => {
                let id = self.seen.agents[name].id.clone();
                self.order(&format!("agent commission {id} p pay")).await?;
            }
            Step::Ask(name) => self.ask(&wish(name)).await?,
            Step::AskInVain(name) => {
                let body = self.body(&wish(name));
                let (status, bytes) = self.post("/sign", &body).await?;
                let answer = json_or_null(&bytes);
                assert_eq!((status, answer["code"].as_str()), (403, Some("AGENTS_FROZEN")));
            }
            Step::Approve(name) => {
                self.decide("approve", name, again).await?;
                self.poll_until_signed(&wish(name)).await?;
            }
            Step::Deny(name) => self.decide("deny", name, again).await?,
            Step::Lock => {
                self.order("wallet lock").await?;
            }
            Step::Open => {
                let opened = self.order("wallet open").await?;
                self.seen.warnings.extend(opened.reply.warnings);
            }
            Step::Freeze | Step::Thaw => {
                self.seen.frozen = None;
                self.order(if step == Step::Freeze { "freeze" } else { "thaw" }).await?;
                self.seen.frozen = Some(step == Step::Freeze);
            }
            Step::LeaveRest => {
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
        self.seen.done.push(step);
        Ok(())
    }

    async fn create_wallet(&mut self, again: bool) -> Result<(), Trouble> {
        if again && self.has_wallet().await? {
            return Ok(());
        }
        match self.order("wallet create main").await {
            // The file was written but not its event; the message names the file to move away.
            Err(Trouble::Refused(fault)) if again && fault.code == Code::WalletExists => {
                let file = self.folder().join("wallets/main.wallet");
                let named = fault.message.contains(&file.display().to_string());
                assert!(named && fault.message.contains("move it away"), "{fault}");
                std::fs::rename(&file, self.home().join("away")).expect("moved away");
                self.order("wallet create main").await.map(|_created| ())
            }
            other => other.map(|_created| ()),
        }
    }

    pub(crate) async fn has_wallet(&mut self) -> Result<bool, Trouble> {
        let Answer::Wallet(wallet) = self.answer("wallet status").await? else { panic!() };
        Ok(wallet.exists)
    }

    async fn has_seed(&mut self) -> Result<bool, Trouble> {
        let Answer::Seeds { seeds } = self.answer("seed list").await? else { panic!() };
        Ok(!seeds.is_empty())
    }

    /// Runs a command that creates a named object; a repeat may find the name taken.
    async fn unless_there(&mut self, line: &str, again: bool) -> Result<(), Trouble> {
        match self.order(line).await {
            Err(Trouble::Refused(fault)) if again && fault.code == Code::NameTaken => Ok(()),
            other => other.map(|_made| ()),
        }
    }

    /// Registers an agent; a repeat that finds it registered asks for its credentials.
    async fn register(
        &mut self,
        name: &'static str,
        auth: &'static str,
        again: bool,
    ) -> Result<(), Trouble> {
        let made = match self.order(&format!("agent register {name} --auth {auth}")).await {
            Err(Trouble::Refused(fault)) if again && fault.code == Code::NameTaken => {
                let regenerate = if auth == "bearer" { " --regenerate" } else { "" };
                self.order(&format!("agent instructions {name}{regenerate}")).await?
            }
            other => other?,
        };
        let Ok(Answer::Credentials(given)) = made.reply.result else {
            panic!("{:?}", made.reply.result)
        };
        let token = made.secret.expect("a token");
        let agent = Agent { id: given.agent_id, token, bearer: auth == "bearer" };
        self.seen.agents.insert(name, agent);
        Ok(())
    }

    async fn ask(&mut self, wish: &Wish) -> Result<(), Trouble> {
        let body = self.body(wish);
        let answered = self.post("/sign", &body).await?;
        let answer = json_or_null(&answered.1);
        let held = wish.atoms >= 500_000 && wish.end != End::Refused;
        let wanted = match wish.end {
            _any if held => (202, "pending"),
            End::Paid => (200, "success"),
            End::Denied | End::Refused => (403, "error"),
        };
        let got = (answered.0, answer["status"].as_str().unwrap_or_default());
        assert_eq!(got, wanted, "{}: {answer}", wish.name);
        self.note(wish, &answered);
        if !held {
            self.seen.answers.insert(wish.name, answered);
        }
        Ok(())
    }

    async fn decide(&mut self, verb: &str, name: &'static str, again: bool) -> Result<(), Trouble> {
        let id = self.seen.ids[name].clone();
        match self.order(&format!("{verb} {id}")).await {
            Err(Trouble::Refused(fault)) if again && fault.code == Code::AlreadyDecided => Ok(()),
            other => other.map(|_decided| ()),
        }
    }

    /// Polls a request until it returns a header.
    pub(crate) async fn poll_until_signed(&mut self, wish: &Wish) -> Result<(), Trouble> {
        let path = format!("/sign/status/{}", self.seen.ids[wish.name]);
        let end = Instant::now() + PATIENCE;
        loop {
            let answered = self.get(&path).await?;
            self.note(wish, &answered);
            match answered.0 {
                200 => {
                    let answer = json_or_null(&answered.1);
                    assert_eq!(answer["status"], "success", "{answer}");
                    self.seen.answers.insert(wish.name, answered);
                    return Ok(());
                }
                202 => assert!(Instant::now() < end, "{}: never signed", wish.name),
                other => panic!("{}: {other} {}", wish.name, json_or_null(&answered.1)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn change_password(&mut self) -> Result<(), Trouble> {
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

    pub(crate) fn stop(&mut self) -> Result<(), Trouble> {
        let engine = self.engine.as_mut().expect("an engine runs");
        match engine.terminate() {
            Some(0) => {
                self.engine = None;
                self.hang_up();
                Ok(())
            }
            Some(code) => panic!("the engine ended with {code}"),
            None => Err(Trouble::Lost),
        }
    }

    /// Returns the `agent` object of the agent's `/status`.
    pub(crate) async fn agent_reads(&self, name: &str) -> Result<Value, Trouble> {
        let body = self.seen.agents[name].read(crate::scenario::now_s());
        let (status, bytes) = self.post("/status", &body).await?;
        let mut answer = json_or_null(&bytes);
        assert_eq!(status, 200, "{answer}");
        Ok(answer["agent"].take())
    }
}
