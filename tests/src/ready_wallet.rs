//! A ready-made wallet for tests: one address, one policy, and one agent that may spend.

use alloy_primitives::Address;
use bursar_control::answers::Answer;
use tempfile::TempDir;

use crate::agent::Agent;
use crate::operator::{Expect, Operator};
use crate::process::{EngineProcess, StartOptions};

/// At most ten dollars a day and five per payment; automatic below half a dollar.
const POLICY: &str = "--day 10 --txn 5 --auto 0.5";

/// An open wallet in a separate process, and its agent.
#[derive(Debug)]
pub struct ReadyWallet {
    pub engine: EngineProcess,
    pub operator: Operator,
    pub agent: Agent,
    pub payer: Address,
    /// The Unix second in which the agent last signed.
    last_second: i64,
    _home: TempDir,
}

impl ReadyWallet {
    /// Starts an engine and sets up the wallet and the agent.
    pub async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create pay 0 \"for tests\"").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let payer = created.address.parse().expect("an address");
        operator.must(&format!("policy create p {POLICY}")).await;
        let created = operator.outcome("agent register bot --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result);
        };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, false);
        Self { engine, operator, agent, payer, last_second: 0, _home: home }
    }

    /// Returns a Unix second in which the agent has not signed yet.
    ///
    /// Two equal requests in one second would count as the same payment.
    pub fn next_second(&mut self) -> i64 {
        self.last_second = jiff::Timestamp::now().as_second().max(self.last_second + 1);
        self.last_second
    }
}
