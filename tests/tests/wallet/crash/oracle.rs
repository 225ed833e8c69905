//! The invariants after any crash, checked from outside: the engine's reports must agree with the answers that clients
//! have received.

use std::collections::BTreeSet;

use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::codes::Code;
use bursar_core::status::RequestStatus;
use bursar_tests::caller::json_or_null;
use bursar_tests::offers::decode_header;
use bursar_tests::operator::PASSWORD;
use bursar_tests::process::StartOptions;

use crate::crash::scenario::{
    Expected, NEW_PASSWORD, REQUESTS, RequestSpec, Scenario, Step, StepError,
};

impl Scenario {
    /// Recovers from a kill during `step`: the next engine must start, open, and know everything that was answered.
    pub(crate) async fn recover(&mut self, step: Step) -> Result<(), StepError> {
        self.drop_killed();
        self.start(&StartOptions::default()).await?;
        self.open_after(step).await?;
        self.check().await
    }

    /// Opens the wallet with the expected password. While a password change is in doubt, either one may be right.
    async fn open_after(&mut self, step: Step) -> Result<(), StepError> {
        if !self.has_wallet().await? {
            assert!(
                !self.observed.answered_steps.contains(&Step::CreateWallet),
                "the wallet is gone"
            );
            return Ok(());
        }
        let in_doubt = step == Step::Passwd && self.password == PASSWORD;
        let candidates = if in_doubt { vec![NEW_PASSWORD, PASSWORD] } else { vec![self.password] };
        let mut refused = Vec::new();
        for password in candidates {
            self.operator().password = password.to_owned();
            match self.order("wallet open").await {
                Ok(opened) => {
                    assert!(opened.reply.warnings.is_empty(), "{:?}", opened.reply.warnings);
                    self.password = password;
                    return Ok(());
                }
                Err(StepError::Refused(fault)) if fault.code == Code::WrongPassword => {
                    refused.push(fault);
                }
                Err(other) => return Err(other),
            }
        }
        panic!("no password opens the wallet: {refused:?}");
    }

    /// Runs every check; a wallet that exists must be open.
    pub(crate) async fn check(&mut self) -> Result<(), StepError> {
        if !self.has_wallet().await? {
            return Ok(());
        }
        self.check_journal().await?;
        self.check_agents().await?;
        self.check_answers().await?;
        self.check_money().await
    }

    async fn check_journal(&mut self) -> Result<(), StepError> {
        let Answer::Audit(audit) = self.answer("audit verify").await? else { panic!() };
        assert!(audit.untrusted.is_none() && audit.sealed, "{audit:?}");
        let Answer::Status(status) = self.answer("status").await? else { panic!() };
        assert_eq!(status.untrusted, None);
        if let Some(frozen) = self.observed.frozen {
            assert_eq!(status.frozen, frozen, "a freeze or thaw that was answered");
        }
        self.observed.frozen = Some(status.frozen);
        Ok(())
    }

    async fn check_agents(&mut self) -> Result<(), StepError> {
        let Answer::Agents { agents } = self.answer("agent list").await? else { panic!() };
        for agent in self.observed.agents.values() {
            let known = agents.iter().find(|known| known.agent_id == agent.id);
            let known = known.unwrap_or_else(|| panic!("{} was registered and is gone", agent.id));
            assert_eq!(known.problem, None, "{known:?}");
        }
        Ok(())
    }

    /// Every id is known, and every repeated request gets the same bytes.
    async fn check_answers(&mut self) -> Result<(), StepError> {
        let frozen = self.observed.frozen == Some(true);
        for spec in &REQUESTS {
            if let Some(id) = self.observed.ids.get(spec.name) {
                let answered = self.get(&format!("/sign/status/{id}")).await?;
                assert!(matches!(answered.0, 200 | 202), "{}: {answered:?}", spec.name);
                self.note(spec, &answered);
            }
            let Some(before) = self.observed.answers.get(spec.name).cloned() else { continue };
            if frozen {
                continue;
            }
            let body = self.observed.bodies[spec.name].clone();
            let again = self.post("/sign", &body).await?;
            self.note(spec, &again);
            let (first, second) = (json_or_null(&before.1), json_or_null(&again.1));
            assert_eq!(again, before, "{}: first {first}, now {second}", spec.name);
        }
        Ok(())
    }

    async fn check_money(&mut self) -> Result<(), StepError> {
        let Answer::Requests { requests } = self.answer("requests --all").await? else { panic!() };
        let names: Vec<&'static str> = self.observed.agents.keys().copied().collect();
        for name in names {
            let id = self.observed.agents[name].id.clone();
            let sum = |wanted: fn(&RequestAnswer) -> bool| {
                let mine = requests.iter().filter(|request| request.agent_id == id);
                mine.filter(|request| wanted(request)).map(atoms).sum::<u64>()
            };
            let read = self.agent_reads(name).await?;
            let figure = |field: &str| read[field].as_u64().unwrap_or(0);
            assert_eq!(figure("spent_today_micro"), sum(is_authorized), "{name}: {read}");
            assert_eq!(figure("reserved_micro"), sum(is_held), "{name}: {read}");
            assert!(
                figure("spent_today_micro") >= self.atoms_authorized_to(name),
                "{name}: {read}"
            );
        }
        for spec in REQUESTS.iter().filter(|spec| self.observed.agents.contains_key(spec.agent)) {
            let agent = &self.observed.agents[spec.agent].id;
            let same = |request: &&RequestAnswer| {
                request.agent_id == *agent && atoms(request) == spec.atoms
            };
            let found: Vec<_> = requests.iter().filter(same).collect();
            assert!(found.len() <= 1, "{}: asked once, recorded as {found:?}", spec.name);
        }
        let nonces: BTreeSet<String> = self.all_headers().map(|header| nonce(header)).collect();
        assert_eq!(nonces.len(), self.all_headers().count(), "one nonce for two bodies");
        Ok(())
    }

    /// Returns the atoms of all headers that an agent received.
    fn atoms_authorized_to(&self, agent: &str) -> u64 {
        let paid = |spec: &&RequestSpec| {
            spec.agent == agent && self.observed.headers.contains_key(spec.name)
        };
        REQUESTS.iter().filter(paid).map(|spec| spec.atoms).sum()
    }

    fn all_headers(&self) -> impl Iterator<Item = &String> {
        self.observed.headers.values().flatten()
    }

    /// Checks the exact final state with a new engine; only the new password opens it.
    pub(crate) async fn finish(&mut self) -> Result<(), StepError> {
        self.start(&StartOptions::default()).await?;
        self.operator().password = PASSWORD.to_owned();
        match self.order("wallet open").await {
            Err(StepError::Refused(fault)) => assert_eq!(fault.code, Code::WrongPassword),
            other => panic!("the old password opens the wallet: {other:?}"),
        }
        self.open_after(Step::Open).await?;
        self.check().await?;
        for (agent, spent) in [("signer", 2_012_000), ("bearer", 13_000), ("late", 14_000)] {
            let read = self.agent_reads(agent).await?;
            assert_eq!(read["spent_today_micro"], spent, "{agent}: {read}");
            assert_eq!(read["reserved_micro"], 0, "{agent}: {read}");
        }
        for spec in REQUESTS.iter().filter(|spec| spec.expected == Expected::Paid) {
            assert!(self.observed.headers.contains_key(spec.name), "{} was never paid", spec.name);
        }
        self.stop()
    }
}

pub(crate) fn atoms(request: &RequestAnswer) -> u64 {
    request.amount.atoms.parse().expect("a number")
}

pub(crate) fn is_authorized(request: &RequestAnswer) -> bool {
    matches!(request.status, RequestStatus::Signed | RequestStatus::Executing)
}

fn is_held(request: &RequestAnswer) -> bool {
    request.status == RequestStatus::Pending
}

pub(crate) fn nonce(header: &str) -> String {
    decode_header(header)["payload"]["authorization"]["nonce"].as_str().expect("a nonce").to_owned()
}
