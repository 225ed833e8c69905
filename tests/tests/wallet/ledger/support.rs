//! An engine with a simulated device that is plugged in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bursar_control::answers::{AddressAnswer, Answer};
use bursar_device::emulator::Emulators;
use bursar_ledger_device::device::{Decision, Device};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
pub(crate) use bursar_tests::ledger::{SEED_WORDS, plug_in, prompts};
use bursar_tests::operator::Expect;
use serde_json::Value;

pub(crate) const OTHER_WORDS: &str =
    "legal winner thank year wave sausage worth useful legal winner thank yellow";

/// Timeout of a wait for a state, in real time.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// An engine, its device, and an agent that pays from an address of the device.
pub(crate) struct Bench {
    pub(crate) engine: TestEngine,
    pub(crate) device: Arc<Device>,
    pub(crate) agent: Agent,
    /// The paying address.
    pub(crate) address: String,
    /// Socket address of the simulated device.
    pub(crate) device_socket: SocketAddr,
}

impl Bench {
    /// Starts with this policy and an agent that authenticates by `auth`.
    pub(crate) async fn start(policy: &str, auth: &str) -> Self {
        let (device, at) = plug_in(SEED_WORDS);
        let devices = Some(Arc::new(Emulators::new(vec![at])) as _);
        Self::with(Setup { devices, ..Setup::default() }, (device, at), policy, auth).await
    }

    pub(crate) async fn with(
        setup: Setup,
        (device, at): (Arc<Device>, SocketAddr),
        policy: &str,
        auth: &str,
    ) -> Self {
        let engine = TestEngine::start(setup).await;
        engine.set_up_wallet(policy).await;
        let agent = engine.add_agent("bot", auth).await;
        let mut operator = engine.operator();
        let Answer::Address(AddressAnswer { address, .. }) =
            operator.must("address ledger add 0 safe").await
        else {
            panic!("an address")
        };
        operator.must(&format!("agent commission {} p safe", agent.id)).await;
        Self { engine, device, agent, address, device_socket: at }
    }

    /// Asks for a payment of `atoms` units on Base.
    pub(crate) async fn ask(&self, atoms: u64, n: u64) -> (u16, Value) {
        let offer = bursar_tests::offers::offer(atoms, n);
        self.engine.post("/sign", &self.agent.ask(self.engine.now_s(), &offer, None)).await
    }

    /// Waits until `found` returns something; the engine's clock runs at twice real time.
    pub(crate) async fn wait_until<T>(
        &self,
        what: &str,
        mut found: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        wait_until(&self.engine, what, async || found().await).await
    }

    /// Polls until the request has this status, and returns the answer.
    pub(crate) async fn poll_until_status(&self, id: &str, wanted: &str) -> Value {
        let path = format!("/sign/status/{id}");
        self.wait_until(wanted, async || {
            let (_code, answer) = self.engine.get(&path).await;
            (answer["status"] == wanted).then_some(answer)
        })
        .await
    }

    /// Answers the prompt on the screen, and waits until the device has sent the decision.
    pub(crate) async fn press(&self, decision: Decision) {
        let decided = || {
            let log = self.device.log();
            log.iter().filter(|line| *line == "press" || *line == "refuse").count()
        };
        let before = decided();
        assert!(self.device.press(decision), "there is no prompt");
        self.wait_until("the decision", async || (decided() > before).then_some(())).await;
    }

    /// Waits until a prompt is on the device's screen.
    pub(crate) async fn prompt(&self) -> Vec<String> {
        self.wait_until("a prompt", async || self.device.screen()).await
    }
}

/// Waits until `found` returns something; the engine's clock runs at twice real time.
pub(crate) async fn wait_until<T>(
    engine: &TestEngine,
    what: &str,
    mut found: impl AsyncFnMut() -> Option<T>,
) -> T {
    let begun = std::time::Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        engine.clock.advance(40);
    }
}
