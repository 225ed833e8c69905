//! A service with an outbox in its own file is killed and paused, and its nodes lie. Every submission that it accepted
//! is executed once, and no nonce is missing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::clock::SystemClock;
use bursar_chain::failpoints::NoFailpoints;
use bursar_chain::ports::Clock;
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_core::networks::{Gas, by_chain};
use bursar_devnet::Devnet;
use bursar_outbox::memory::MemoryStore;
use bursar_outbox::service::{OutboxDeps, ServiceOutbox};
use bursar_submit::{Call, OutboxKey, Outcome, SubmissionId};
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::offers::BASE;
use bursar_tests::service_key::ServiceKey;
use futures::StreamExt;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain::sends::GAS_MONEY;
use crate::chain::stage::{POLL_INTERVAL, TIMEOUT, local_chain};

const KEY: &str = "4646464646464646464646464646464646464646464646464646464646464646";
/// The address of that key, from the example in EIP-155.
const SIGNER: &str = "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F";
const COUNT: u8 = 5;

/// A disruption of the process after this many broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disruption {
    None,
    Kill {
        after: usize,
    },
    /// Pauses the process while blocks are mined.
    Pause {
        after: usize,
    },
}

const DISRUPTIONS: [Disruption; 5] = [
    Disruption::None,
    Disruption::Kill { after: 1 },
    Disruption::Kill { after: 3 },
    Disruption::Kill { after: 5 },
    Disruption::Pause { after: 2 },
];

fn program() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("a test program");
    let folder = test.parent().and_then(Path::parent).expect("target/<profile>/deps");
    folder.join("bursar-test-sender")
}

struct Service(Child);

impl Service {
    fn start(store: &Path, rpc: &str) -> Self {
        let mut command = Command::new(program());
        command.arg(store).args([rpc, KEY, &COUNT.to_string()]);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("started"))
    }

    fn signal(&self, signal: Signal) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).expect("signalled");
    }

    fn has_exited(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_some()
    }

    fn output(mut self) -> String {
        let mut text = String::new();
        let out = self.0.stdout.take().expect("a pipe");
        std::io::Read::read_to_string(&mut { out }, &mut text).expect("text");
        text
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

async fn rpc_number(chain: &Devnet, method: &str, params: Value) -> U256 {
    let answer = chain.request(method, params).await.expect("answered");
    answer.as_str().expect("text").parse().expect("a number")
}

async fn serve_through(lies: Vec<Lie>, disruption: Disruption) {
    let Some(chain) = local_chain(BASE).await else { return };
    let case = format!("{lies:?}, {disruption:?}");
    let rpc = LyingRpc::in_front_of(chain.url()).await;
    chain.request("anvil_setBalance", json!([SIGNER, GAS_MONEY])).await.expect("set");
    chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("outboxes.redb");
    rpc.queue_lies(lies.iter().copied());
    let mut service = Service::start(&store, &rpc.url);
    let mut pending = disruption;
    let end = Instant::now() + TIMEOUT;
    while !service.has_exited() {
        assert!(
            Instant::now() < end,
            "{case}: no end, {} broadcasts",
            rpc.broadcast_transactions().len()
        );
        match pending {
            Disruption::Kill { after } if rpc.broadcast_transactions().len() >= after => {
                drop(service);
                service = Service::start(&store, &rpc.url);
                pending = Disruption::None;
            }
            Disruption::Pause { after } if rpc.broadcast_transactions().len() >= after => {
                service.signal(Signal::STOP);
                for _block in 0..5 {
                    chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
                }
                sleep(POLL_INTERVAL * 30).await;
                service.signal(Signal::CONT);
                pending = Disruption::None;
            }
            _not_yet => {}
        }
        chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        sleep(POLL_INTERVAL * 3).await;
    }
    assert_eq!(pending, Disruption::None, "{case}: the disruption never happened");
    // If a block comes between two lies, the mined transaction is not sent again, and later lies are not used.
    assert!((1..=lies.len()).contains(&rpc.lies_told()), "{case}: {} lies", rpc.lies_told());
    let output = service.output();
    assert!(output.ends_with("END\n"), "{case}: {output}");
    assert_eq!(output.matches("Succeeded").count(), usize::from(COUNT), "{case}: {output}");
    for n in 0..COUNT {
        let of = json!([Address::repeat_byte(0xc0 | n), "latest"]);
        let held = rpc_number(&chain, "eth_getBalance", of).await;
        assert_eq!(held, U256::from(1_000 + u64::from(n)), "{case}: payee {n}");
    }
    let mut counts = Vec::new();
    for tag in ["latest", "pending"] {
        let of = json!([SIGNER, tag]);
        counts.push(rpc_number(&chain, "eth_getTransactionCount", of).await);
    }
    assert_eq!(counts[0], counts[1], "{case}: something waits");
    let fillers = counts[0].saturating_sub(U256::from(COUNT));
    assert!(fillers <= U256::from(3), "{case}: {fillers} nonces were filled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_executes_each_submission_once_despite_lying_nodes_and_kills() {
    let mut cases: Vec<(Vec<Lie>, Disruption)> = Vec::new();
    for (at, lie) in Lie::ALL.into_iter().enumerate() {
        let calm = [Disruption::None, DISRUPTIONS[1 + at % (DISRUPTIONS.len() - 1)]];
        cases.extend(calm.map(|disruption| (vec![lie], disruption)));
        // The node tells several lies in one run.
        let other = Lie::ALL[(at + 4) % Lie::ALL.len()];
        cases.push((vec![lie, other, lie], DISRUPTIONS[1 + (at + 1) % (DISRUPTIONS.len() - 1)]));
    }
    futures::stream::iter(cases)
        .for_each_concurrent(4, |(lies, disruption)| serve_through(lies, disruption))
        .await;
}

/// Two processes both believe that they own the outbox, like a paused process and its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_of_one_outbox_execute_each_submission_once() {
    let Some(chain) = local_chain(BASE).await else { return };
    chain.request("anvil_setBalance", json!([SIGNER, GAS_MONEY])).await.expect("set");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new().expect("a zone"));
    let node = RpcChain::new(RpcConfig::new(BASE, [chain.url().to_owned()]), Arc::clone(&clock));
    let key = ServiceKey::from_hex(KEY);
    let outbox = OutboxKey { chain: BASE, signer: key.address() };
    let row = by_chain(BASE).expect("a row");
    let deps = OutboxDeps {
        store: Arc::new(MemoryStore::default()),
        chain: Arc::new(node.expect("a node")),
        signer: Arc::new(key),
        clock,
        gas: Gas { patience_ms: 2_000, poll_ms: 20, ..row.gas },
        window: 3,
        follower: Arc::default(),
        failpoints: Arc::new(NoFailpoints),
    };
    let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
    let mut hosts = Vec::new();
    for _host in 0..2 {
        let host = ServiceOutbox::open(outbox, deps.clone(), tasks.clone(), stopping.clone());
        hosts.push(host.await.expect("an outbox"));
    }
    let ids: Vec<SubmissionId> = (0..8).map(|n| SubmissionId([n; 16])).collect();
    for (n, id) in (0u8..).zip(&ids) {
        let call = Call {
            to: Address::repeat_byte(0xd0 | n),
            value: U256::from(1_000 + u64::from(n)),
            data: Default::default(),
            gas_limit: 21_000,
        };
        // Both hosts submit the same call; the second submission reports that the call is already accepted.
        for host in &hosts {
            host.submit(*id, call.clone(), row.gas.ceiling, None).await.expect("taken");
        }
    }
    let end = Instant::now() + TIMEOUT;
    loop {
        let mut open = 0;
        for id in &ids {
            open += usize::from(deps.store.outcome(outbox, *id).await.expect("a store").is_none());
        }
        if open == 0 {
            break;
        }
        assert!(Instant::now() < end, "{open} are open: {:#?}", hosts[0].outbox());
        chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        sleep(POLL_INTERVAL).await;
    }
    stopping.cancel();
    for n in 0..8u8 {
        let outcome = deps.store.outcome(outbox, SubmissionId([n; 16])).await.expect("a store");
        assert!(matches!(outcome, Some(Outcome::Succeeded { .. })), "{n}: {outcome:?}");
        let of = json!([Address::repeat_byte(0xd0 | n), "latest"]);
        let held = rpc_number(&chain, "eth_getBalance", of).await;
        assert_eq!(held, U256::from(1_000 + u64::from(n)), "payee {n}");
    }
    let count = rpc_number(&chain, "eth_getTransactionCount", json!([SIGNER, "pending"])).await;
    assert_eq!(count, U256::from(8), "one nonce each");
}
