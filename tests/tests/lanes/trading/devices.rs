//! Trades from an address of a Ledger: each transaction and permit needs one press, in their order. Without a press the
//! trade ends safely.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::status::RequestStatus;
use bursar_ledger_device::device::{Decision, Device};
use bursar_tests::ledger::{SEED_WORDS, decide, plug_in_blind, prompts, wait_for};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::trading::operations::Operation;
use crate::trading::stage::{AUTOMATIC, DOLLAR, MANUAL, Stage, TIMEOUT};

struct Scene {
    stage: Stage,
    device: Arc<Device>,
    /// The first block after the set-up.
    first_block: u64,
}

impl Scene {
    async fn start(policy: &str) -> Option<Self> {
        let (device, at) = plug_in_blind(SEED_WORDS);
        let stage = Stage::with_device(policy, at).await?;
        let first = stage.head().await + 1;
        Some(Self { stage, device, first_block: first })
    }

    /// Requests a sale of 30 dollars, and returns its id.
    async fn ask(&mut self, v4: bool) -> Value {
        let asked = self.sale(v4).request(&self.stage);
        let (_status, answer) = self.stage.trade(&asked).await;
        // The device may have its first prompt already.
        let status = answer["status"].as_str().expect("a status");
        assert!(["pending", "executing"].contains(&status), "{answer}");
        answer["request_id"].clone()
    }

    fn sale(&self, v4: bool) -> Operation {
        let bought = if v4 { Address::ZERO } else { self.stage.contracts.weth };
        Operation { sold: self.stage.dollar(), bought, units: 30 * DOLLAR, amount: "30", v4 }
    }

    /// Waits until `found` returns something.
    async fn wait_until<T>(
        &mut self,
        what: &str,
        found: impl AsyncFn(&mut Self) -> Option<T>,
    ) -> T {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = found(self).await {
                return found;
            }
            assert!(Instant::now() < end, "not in time: {what}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for the next prompt.
    async fn prompt(&self) -> Vec<String> {
        wait_for("a prompt", || self.device.screen()).await
    }

    /// Waits for the next prompt, and decides.
    async fn decide(&self, decision: Decision) {
        decide(&self.device, decision).await;
    }

    /// Returns the only pending request.
    async fn only_pending(&mut self) -> RequestAnswer {
        let answer = self.stage.operator.must("requests").await;
        let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
        let [only]: [RequestAnswer; 1] = requests.try_into().expect("one request");
        only
    }

    /// Waits until the step of the only pending request begins with `step`.
    async fn wait_for_step(&mut self, step: &str) -> RequestAnswer {
        self.wait_until(step, async |scene| {
            let answer = scene.stage.operator.must("requests").await;
            let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
            let at = |request: &RequestAnswer| {
                request.step.as_ref().is_some_and(|at| at.starts_with(step))
            };
            requests.into_iter().find(at)
        })
        .await
    }

    /// Returns the label of the queue of devices.
    async fn label(&mut self) -> Option<String> {
        let Answer::Status(status) = self.stage.operator.must("status").await else {
            panic!("a status")
        };
        status.device.map(|device| device.label)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_takes_two_presses_and_fills_to_the_unit() {
    let Some(mut scene) = Scene::start(MANUAL).await else { return };
    let sale = scene.sale(false);
    let before = sale.before(&scene.stage).await;
    let id = scene.ask(false).await;
    assert_eq!(scene.only_pending().await.status, RequestStatus::Pending);
    scene.stage.approve_held().await;
    scene.prompt().await;
    let request = scene.wait_for_step("1/2 token approval, confirm on device").await;
    assert_eq!(request.status, RequestStatus::AwaitingDevice);
    let left = request.expires_in_seconds.expect("a limit");
    assert!((1..=300).contains(&left), "{left}");
    let card = request.card.expect("a card").device.expect("a device");
    assert!(card.is_prompting, "{card:?}");
    let hash = card.shows.iter().find(|(name, _value)| name == "Transaction hash");
    assert!(hash.is_some_and(|(_name, value)| value.len() == 66), "{card:?}");
    let (_status, polled) = scene.stage.poll(&id).await;
    assert_eq!(polled["status"], "executing", "{polled}");
    scene.decide(Decision::Press).await;
    scene.prompt().await;
    scene.wait_for_step("2/2 swap, confirm on device").await;
    scene.decide(Decision::Press).await;
    let end = scene.stage.end_of(&id).await;
    sale.check(&scene.stage, before, &end).await;
    assert_eq!(prompts(&scene.device), 2);
    // The swap's deadline leaves a person enough time.
    let swap = scene
        .stage
        .mined_since(scene.first_block)
        .await
        .into_iter()
        .find(|sent| !sent.is_approval());
    let swap = swap.expect("a swap");
    let deadline = U256::try_from_be_slice(&swap.data[4..36]).expect("a word").to::<u64>();
    let now = u64::try_from(scene.stage.engine.now_s()).expect("after 1970");
    assert!((now + 60..=now + 180).contains(&deadline), "{deadline} at {now}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_swap_takes_three_presses_with_the_permit_between() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let sale = scene.sale(true);
    let before = sale.before(&scene.stage).await;
    let id = scene.ask(true).await;
    scene.wait_for_step("1/3 token approval, confirm on device").await;
    scene.decide(Decision::Press).await;
    let permit = scene.prompt().await;
    let request = scene.wait_for_step("2/3 permit, confirm on device").await;
    let shows = request.card.expect("a card").device.expect("a device").shows;
    for (name, value) in &shows {
        let row = format!("{name} | {value}").to_lowercase();
        let is_shown = permit.iter().any(|page| page.to_lowercase() == row);
        assert!(name.ends_with("hash") || is_shown, "{row}: {permit:?}");
    }
    // After a slow permit, the swap still has its full time.
    scene.stage.advance_seconds(100).await;
    scene.decide(Decision::Press).await;
    scene.wait_for_step("3/3 swap, confirm on device").await;
    scene.stage.advance_seconds(100).await;
    scene.decide(Decision::Press).await;
    let end = scene.stage.end_of(&id).await;
    sale.check(&scene.stage, before, &end).await;
    assert_eq!(prompts(&scene.device), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_swap_ends_the_trade_and_asks_for_the_allowance_back() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    for (round, revokes) in [(1, true), (2, false)] {
        let id = scene.ask(false).await;
        scene.decide(Decision::Press).await;
        scene.wait_for_step("2/2 swap, confirm on device").await;
        scene.decide(Decision::Refuse).await;
        let end = scene.stage.end_of(&id).await;
        assert_eq!(
            (&end["status"], &end["reason_code"]),
            (&json!("rejected"), &json!("LEDGER_REJECTED")),
            "{end}"
        );
        assert_eq!(scene.stage.volume_left().await, 1_000.0, "{end}");
        // The device asks for the revocation.
        scene.prompt().await;
        let allowance =
            async |stage: &Stage| stage.allowance(stage.dollar(), stage.contracts.v3.router).await;
        assert_eq!(allowance(&scene.stage).await, U256::from(30 * DOLLAR));
        let decision = if revokes { Decision::Press } else { Decision::Refuse };
        scene.decide(decision).await;
        scene.stage.await_trade_closed(&id).await;
        let left = if revokes { U256::ZERO } else { U256::from(30 * DOLLAR) };
        assert_eq!(allowance(&scene.stage).await, left, "round {round}");
        assert_eq!(prompts(&scene.device), 3 * round);
        assert_eq!(scene.label().await, None, "nothing waits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_permit_ends_the_trade() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let id = scene.ask(true).await;
    scene.decide(Decision::Press).await;
    scene.wait_for_step("2/3 permit, confirm on device").await;
    scene.decide(Decision::Refuse).await;
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["reason_code"], "LEDGER_REJECTED", "{end}");
    scene.decide(Decision::Press).await;
    scene.stage.await_trade_closed(&id).await;
    assert_eq!(prompts(&scene.device), 3, "the approval, the permit and the revocation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trade_waits_for_its_device_and_continues_by_itself() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    scene.device.set_plugged(false);
    let id = scene.ask(false).await;
    let request = scene.wait_for_step("1/2 token approval, plug it in").await;
    assert_eq!(request.status, RequestStatus::AwaitingDevice);
    let (status, polled) = scene.stage.poll(&id).await;
    assert_eq!((status, &polled["status"]), (202, &json!("pending")), "{polled}");
    // No terms are fixed yet, so no deadline is running.
    scene.stage.advance_seconds(240).await;
    scene.device.set_plugged(true);
    scene.device.change(|app| app.blind_signing = false);
    scene.wait_for_step("1/2 token approval, needs a setting").await;
    assert_eq!(scene.stage.mined_since(scene.first_block).await.len(), 0, "nothing is opened");
    scene.device.change(|app| app.blind_signing = true);
    scene.decide(Decision::Press).await;
    scene.decide(Decision::Press).await;
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trade_without_its_device_ends_after_five_minutes_or_by_a_denial() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    scene.device.set_plugged(false);
    let late = scene.ask(false).await;
    scene.wait_for_step("1/2 token approval, plug it in").await;
    scene.stage.advance_seconds(301).await;
    let end = scene.stage.end_of(&late).await;
    assert_eq!(end["reason_code"], "LEDGER_DISCONNECTED", "{end}");
    let denied = scene.ask(false).await;
    let request = scene.wait_for_step("1/2 token approval, plug it in").await;
    scene.stage.operator.must(&format!("deny {} not today", request.id)).await;
    let end = scene.stage.end_of(&denied).await;
    assert_eq!(end["reason_code"], "REQUEST_DENIED", "{end}");
    assert!(end["reason"].as_str().is_some_and(|why| why.contains("not today")), "{end}");
    scene.device.set_plugged(true);
    assert_eq!(scene.stage.volume_left().await, 1_000.0);
    assert_eq!((prompts(&scene.device), scene.label().await), (0, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_that_no_one_presses_for_ends_with_its_deadline() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let id = scene.ask(false).await;
    scene.decide(Decision::Press).await;
    scene.wait_for_step("2/2 swap, confirm on device").await;
    scene.stage.advance_seconds(171).await;
    scene.wait_for_step("2/2 swap, reject its prompt").await;
    scene.stage.advance_seconds(10).await;
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["reason_code"], "LEDGER_DISCONNECTED", "{end}");
    // Nothing else is shown until the old prompt is rejected. A late press changes nothing.
    scene
        .wait_until("the old prompt", async |scene| {
            (scene.label().await.as_deref() == Some("reject its prompt")).then_some(())
        })
        .await;
    scene.decide(Decision::Press).await;
    scene.decide(Decision::Press).await;
    scene.stage.await_trade_closed(&id).await;
    let sent = scene.stage.mined_since(scene.first_block).await;
    let swaps = sent.iter().filter(|one| one.to == scene.stage.contracts.v3.router).count();
    assert_eq!(swaps, 0, "{sent:?}");
    scene.stage.assert_no_allowance().await;
    assert_eq!(scene.stage.volume_left().await, 1_000.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_at_a_prompt_the_same_terms_are_shown_again() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let id = scene.ask(false).await;
    scene.decide(Decision::Press).await;
    let request = scene.wait_for_step("2/2 swap, confirm on device").await;
    let first = scene.prompt().await;
    let hash = |request: &RequestAnswer| {
        let shows =
            &request.card.as_ref().expect("a card").device.as_ref().expect("a device").shows;
        shows.iter().find(|(name, _value)| name == "Transaction hash").cloned()
    };
    let before = hash(&request);
    scene.stage.crash_and_restart().await;
    // The device still shows the prompt of the previous process.
    assert!(scene.device.press(Decision::Refuse));
    let request = scene.wait_for_step("2/2 swap, confirm on device").await;
    assert_eq!((hash(&request), scene.prompt().await), (before, first));
    scene.decide(Decision::Press).await;
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
}

/// The agent's own deadline ends the prompt first, so that no swap is signed too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_of_the_agent_ends_the_prompt_before_it() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let mut asked = scene.sale(false).request(&scene.stage);
    asked["deadline"] = json!(scene.stage.engine.now_s() + 90);
    let (_status, answer) = scene.stage.trade(&asked).await;
    let id = answer["request_id"].clone();
    scene.decide(Decision::Press).await;
    let request = scene.wait_for_step("2/2 swap, confirm on device").await;
    let left = request.expires_in_seconds.expect("a limit");
    assert!((1..=80).contains(&left), "{left}");
    scene.stage.advance_seconds(82).await;
    scene.wait_for_step("2/2 swap, reject its prompt").await;
    scene.stage.advance_seconds(10).await;
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["status"], "rejected", "{end}");
    // With too little time left, the wallet shows no prompt.
    scene.decide(Decision::Refuse).await;
    scene.decide(Decision::Press).await;
    scene.stage.await_trade_closed(&id).await;
    let shown = prompts(&scene.device);
    asked["deadline"] = json!(scene.stage.engine.now_s() + 20);
    let (_status, answer) = scene.stage.trade(&asked).await;
    let end = scene.stage.end_of(&answer["request_id"]).await;
    assert_eq!(end["status"], "rejected", "{end}");
    assert_eq!(prompts(&scene.device), shown);
}

/// While another transaction uses the next nonce, the plan opens no step, because the step's time would run out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_waits_for_the_operators_send() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let friend = "0x3a1DBb8A6ad007Aa58F31343231F0d7401559CF4";
    let send = format!("address send trade {friend} 0.1 --network base --confirm 0.1 --no-wait");
    scene.stage.operator.must(&send).await;
    scene.prompt().await;
    let id = scene.ask(false).await;
    scene.wait_for_step("1/2 token approval, ").await;
    scene.stage.advance_seconds(200).await;
    // The prompts are those of the send, the approval and the swap.
    for _prompt in 0..3 {
        scene.decide(Decision::Press).await;
    }
    let end = scene.stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(prompts(&scene.device), 3);
}

/// While the Ledger is unplugged, the operator can deny the revocation and so leave the allowance on the chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_that_waits_for_its_device_can_be_denied() {
    let Some(mut scene) = Scene::start(AUTOMATIC).await else { return };
    let id = scene.ask(false).await;
    scene.decide(Decision::Press).await;
    scene.wait_for_step("2/2 swap, confirm on device").await;
    scene.decide(Decision::Refuse).await;
    scene.prompt().await;
    scene.device.set_plugged(false);
    let short = id.as_str().expect("an id")[..8].to_owned();
    scene.stage.operator.must(&format!("deny {short}")).await;
    scene.stage.await_trade_closed(&id).await;
    assert_eq!(scene.stage.end_of(&id).await["reason_code"], "LEDGER_REJECTED");
    assert_eq!(prompts(&scene.device), 3);
}

/// Returns step and device state of the trade, and then of the payment.
async fn steps_of_trade_and_payment(scene: &mut Scene, trade: &Value) -> [(String, String); 2] {
    let answer = scene.stage.operator.must("requests").await;
    let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
    let of = |is_trade: bool| {
        let mut found = requests.iter().filter(|one| (one.id == *trade) == is_trade);
        let one = found.next().expect("it waits");
        let device = one.card.as_ref().and_then(|card| card.device.as_ref()).expect("a device");
        (one.step.clone().unwrap_or_default(), device.state.clone())
    };
    [of(true), of(false)]
}

/// A trade needs the switch "Blind signing", and a payment needs either switch. Each card names its own switch, and
/// neither request blocks the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trade_and_a_payment_wait_for_their_own_switches() {
    let policy = format!("{AUTOMATIC} --day 10 --txn 5 --auto 0.5");
    let Some(mut scene) = Scene::start(&policy).await else { return };
    scene.device.change(|app| (app.blind_signing, app.raw_messages) = (false, false));
    let trade = scene.ask(false).await;
    scene.wait_for_step("1/2 token approval, needs a setting").await;
    let now = scene.stage.engine.now_s();
    let body = scene.stage.agent.ask(now, &offer(12_000, 1), None);
    let (code, payment) = scene.stage.client().post("/sign", &body).await;
    assert_eq!((code, &payment["waits_for"]), (202, &json!("device")), "{payment}");
    let id = payment["request_id"].as_str().expect("an id").to_owned();
    // The device refuses the payment, and then the wallet shows no prompt.
    scene
        .wait_until("the refusal", async |scene| {
            let log = scene.device.log();
            log.iter().any(|line| line.starts_with("<= 6a80")).then_some(())
        })
        .await;
    scene.stage.operator.must("requests --retry").await;
    let [(step, state), (place, behind)] = steps_of_trade_and_payment(&mut scene, &trade).await;
    assert!(step.ends_with("needs a setting") && place == "1 before it", "{step}, {place}");
    assert!(state.starts_with("Turn on \"Blind signing\""), "{state}");
    assert!(behind.starts_with("1 other request"), "{behind}");
    // This switch suffices for the payment.
    scene.device.change(|app| app.raw_messages = true);
    scene.stage.operator.must("requests --retry").await;
    let pages = scene.prompt().await;
    assert!(pages.iter().any(|page| page.contains("12000")), "{pages:?}");
    scene.decide(Decision::Press).await;
    scene
        .wait_until("the payment", async |scene| {
            let (_code, polled) = scene.stage.client().get(&format!("/sign/status/{id}")).await;
            (polled["status"] == "success").then_some(())
        })
        .await;
    scene.wait_for_step("1/2 token approval, needs a setting").await;
    // The wallet notices this switch by itself.
    scene.device.change(|app| app.blind_signing = true);
    scene.decide(Decision::Press).await;
    scene.decide(Decision::Press).await;
    let end = scene.stage.end_of(&trade).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(prompts(&scene.device), 3);
}
