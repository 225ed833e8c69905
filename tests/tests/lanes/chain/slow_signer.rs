//! While a device waits for a person, other addresses are not blocked, and a refusal on the
//! device leaves no nonce gap.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::U256;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_control::answers::{Answer, SendAnswer};
use bursar_core::time::Utc;
use bursar_devnet::Devnet;
use bursar_engine::ports::{SignFault, Signer};
use bursar_tests::doubles::{SignRequest, SlowSigner};
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::BASE;
use bursar_tests::operator::{Expect, Operator};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::chain::sends::{GAS_MONEY, TO};
use crate::chain::stage::{POLL_INTERVAL, TIMEOUT, local_chain};

struct Scene {
    chain: Devnet,
    engine: TestEngine,
    operator: Operator,
    requests: tokio::sync::mpsc::UnboundedReceiver<SignRequest>,
}

impl Scene {
    async fn set_up() -> Option<Self> {
        let chain = local_chain(BASE).await?;
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
        let config = RpcConfig::new(BASE, [chain.url().to_owned()]);
        let node = RpcChain::new(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("a node");
        let (signer, requests) = SlowSigner::person();
        let setup = Setup {
            signer: Some(signer as Arc<dyn Signer>),
            chains: BTreeMap::from([(BASE, Arc::new(node) as Arc<dyn Chain>)]),
            clock,
            ..Setup::default()
        };
        let engine = TestEngine::start(setup).await;
        engine.set_up_wallet("--day 10").await;
        let mut operator = engine.operator();
        operator.must("address create other 1 \"\"").await;
        let Answer::Addresses { addresses } = operator.must("address list").await else {
            panic!("no list")
        };
        for address in addresses {
            let set = json!([address.address, GAS_MONEY]);
            chain.request("anvil_setBalance", set).await.expect("set");
        }
        Some(Self { chain, engine, operator, requests })
    }

    async fn send(&mut self, from: &str, amount: &str) -> SendAnswer {
        let line = format!(
            "address send {from} {TO} {amount} --network base --confirm {amount} --no-wait"
        );
        match self.operator.must(&line).await {
            Answer::Send(sent) => sent,
            other => panic!("{other:?}"),
        }
    }

    /// Mines a block and advances the engine's time.
    async fn mine_and_advance(&mut self) {
        self.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
        self.engine.clock.advance(500);
        sleep(POLL_INTERVAL).await;
    }

    async fn next_request(&mut self) -> SignRequest {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Ok(request) = self.requests.try_recv() {
                return request;
            }
            assert!(Instant::now() < end, "the device is not asked");
            self.mine_and_advance().await;
        }
    }

    async fn wait_for_status(&mut self, id: &str, status: &str) -> SendAnswer {
        let end = Instant::now() + TIMEOUT;
        loop {
            let Answer::Sends { sends } = self.operator.must("address sends").await else {
                panic!("no list")
            };
            let found = sends.into_iter().find(|send| send.id == id).expect("it is listed");
            if found.status.text() == status {
                return found;
            }
            assert!(Instant::now() < end, "{found:?}");
            self.mine_and_advance().await;
        }
    }

    async fn sign(&self, request: SignRequest) {
        let signature = self.engine.engine.vault().sign(request.slip, request.terms).await;
        request.answer.send(signature).expect("somebody waits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_signing_device_does_not_block_other_addresses() {
    let Some(mut scene) = Scene::set_up().await else { return };
    let slow = scene.send("pay", "0.1").await;
    let device = scene.next_request().await;
    let quick = scene.send("other", "0.2").await;
    let request = scene.next_request().await;
    assert_ne!(request.slip.signer(), device.slip.signer());
    scene.sign(request).await;
    scene.wait_for_status(&quick.id, "done").await;
    // Mines 40 blocks (20 s of the engine's time), after which the device has not been prompted again.
    for _block in 0..40 {
        scene.mine_and_advance().await;
    }
    assert!(scene.requests.try_recv().is_err(), "asked twice for one transaction");
    assert_eq!(scene.wait_for_status(&slow.id, "waiting").await.nonce, Some(0));
    scene.sign(device).await;
    let done = scene.wait_for_status(&slow.id, "done").await;
    assert!(done.block.is_some(), "{done:?}");
    let held =
        scene.chain.request("eth_getBalance", json!([TO, "latest"])).await.expect("answered");
    let held: U256 = held.as_str().expect("text").parse().expect("a number");
    assert_eq!(held, U256::from(300_000_000_000_000_000u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_refused_on_the_device_is_dropped_and_its_nonce_reused() {
    let Some(mut scene) = Scene::set_up().await else { return };
    let refused = scene.send("pay", "0.1").await;
    let device = scene.next_request().await;
    let no = SignFault::Refused("rejected on the device".to_owned());
    device.answer.send(Err(no)).expect("somebody waits");
    scene.wait_for_status(&refused.id, "dropped").await;
    let next = scene.send("pay", "0.2").await;
    let request = scene.next_request().await;
    assert_eq!(scene.wait_for_status(&next.id, "waiting").await.nonce, Some(0));
    scene.sign(request).await;
    scene.wait_for_status(&next.id, "done").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_pending_on_the_device_can_be_cancelled_despite_a_late_answer() {
    let Some(mut scene) = Scene::set_up().await else { return };
    let sent = scene.send("pay", "0.1").await;
    let device = scene.next_request().await;
    scene.operator.must(&format!("address cancel {}", &sent.id[..8])).await;
    scene.wait_for_status(&sent.id, "dropped").await;
    scene.sign(device).await;
    for _block in 0..5 {
        scene.mine_and_advance().await;
    }
    let held =
        scene.chain.request("eth_getBalance", json!([TO, "latest"])).await.expect("answered");
    assert_eq!(held, json!("0x0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slip_made_stale_by_a_freeze_is_issued_again() {
    let Some(mut scene) = Scene::set_up().await else { return };
    let sent = scene.send("pay", "0.1").await;
    let device = scene.next_request().await;
    // A freeze stops agents at once; the operator's send continues with a new slip.
    scene.operator.must("freeze").await;
    let stale = scene.engine.engine.vault().sign(device.slip, device.terms).await;
    assert_eq!(stale, Err(SignFault::Stale));
    device.answer.send(stale).expect("somebody waits");
    let again = scene.next_request().await;
    scene.sign(again).await;
    scene.wait_for_status(&sent.id, "done").await;
}
