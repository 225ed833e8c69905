//! Payments and sends that a device alone signs, on a local chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_control::answers::{Answer, SendAnswer};
use bursar_core::codes::Code;
use bursar_core::status::SendStatus;
use bursar_core::time::Utc;
use bursar_device::emulator::Emulators;
use bursar_devnet::Devnet;
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Version};
use bursar_ledger_device::device::Decision;
use bursar_tests::engine::Setup;
use bursar_tests::offers::{BASE, PAY_TO};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use bursar_tests::ledger::plug_in_blind;

use super::support::{Bench, SEED_WORDS, prompts};

const PRICE: u128 = 12_000;
const NATIVE_BALANCE: &str = "0x8ac7230489e80000";
/// A receiver other than the merchant.
const OTHER_RECEIVER: &str = "0x3a1DBb8A6ad007Aa58F31343231F0d7401559CF4";

struct Scene {
    bench: Bench,
    chain: Devnet,
    http: reqwest::Client,
}

impl Scene {
    async fn start() -> Option<Self> {
        let anvil = chain_or_skip()?;
        let chain = Devnet::start_at(&anvil, BASE).await.expect("a local chain");
        // The chain checks times by the machine's clock.
        let clock = Arc::new(ManualClock::new(Utc(jiff::Timestamp::now().as_millisecond())));
        let config = RpcConfig::new(BASE, [chain.url().to_owned()]);
        let node = RpcChain::new(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("a node");
        let (device, at) = plug_in_blind(SEED_WORDS);
        let setup = Setup {
            devices: Some(Arc::new(Emulators::new(vec![at])) as _),
            chains: BTreeMap::from([(BASE, Arc::new(node) as Arc<dyn Chain>)]),
            clock,
            ..Setup::default()
        };
        let bench = Bench::with(setup, (device, at), "--day 10 --txn 5 --auto 0.5", "bearer").await;
        let payer: Address = bench.address.parse().unwrap();
        chain.mint(payer, 1_000_000).await.expect("minted");
        chain.request("anvil_setBalance", json!([payer, NATIVE_BALANCE])).await.expect("set");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Some(Self { bench, chain, http })
    }

    async fn native_balance(&self, of: &str) -> U256 {
        let held = self.chain.request("eth_getBalance", json!([of, "latest"])).await.unwrap();
        held.as_str().unwrap().parse().unwrap()
    }

    async fn send(&self, amount: &str) -> SendAnswer {
        let line = format!(
            "address send safe {OTHER_RECEIVER} {amount} --network base --confirm {amount} --no-wait"
        );
        match self.bench.engine.operator().must(&line).await {
            Answer::Send(sent) => sent,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a status of a send. If `mines`, the chain mines blocks meanwhile.
    async fn wait_for_status(&self, id: &str, status: &str, mines: bool) -> SendAnswer {
        self.bench
            .wait_until(status, async || {
                if mines {
                    self.chain.request("anvil_mine", json!(["0x1"])).await.expect("mined");
                }
                let Answer::Sends { sends } =
                    self.bench.engine.operator().must("address sends").await
                else {
                    panic!("no list")
                };
                let found = sends.into_iter().find(|send| send.id == id).expect("it is listed");
                (found.status.text() == status).then_some(found)
            })
            .await
    }

    /// Returns whether the node's pool holds a transaction of the payer that moves `wei`.
    async fn has_pending_transfer(&self, wei: U256) -> bool {
        let pool = self.chain.request("txpool_content", json!([])).await.expect("read");
        let payer: Address = self.bench.address.parse().unwrap();
        let mut found = pool["pending"].as_object().into_iter().flatten();
        found.any(|(from, held)| {
            from.parse() == Ok(payer)
                && held.as_object().into_iter().flatten().any(|(_nonce, sent)| {
                    sent["value"].as_str().and_then(|value| value.parse().ok()) == Some(wei)
                })
        })
    }

    fn prompt_count(&self) -> usize {
        prompts(&self.bench.device)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_of_both_versions_are_signed_by_the_device_and_settled() {
    let Some(scene) = Scene::start().await else { return };
    let payee: Address = PAY_TO.parse().unwrap();
    let goods = MerchantConfig::new(BASE, payee)
        .sell("/small", PRICE)
        .sell_in(Version::V1, "/v1/small", PRICE)
        .settle_on(scene.chain.clone());
    let merchant = Merchant::serve(goods).await.expect("a port");
    let payer: Address = scene.bench.address.parse().unwrap();
    for (count, path) in [(1u128, "/small"), (2, "/v1/small")] {
        let url = format!("{}{path}", merchant.url());
        let answer = scene.http.get(&url).send().await.unwrap();
        assert_eq!(answer.status(), 402);
        let now = scene.bench.engine.now_s();
        let agent = &scene.bench.agent;
        let body = match answer.headers().get("payment-required").cloned() {
            Some(offer) => agent.ask(now, offer.to_str().unwrap(), Some(&url)),
            None => agent.ask_v1(now, &answer.json::<Value>().await.unwrap(), Some(&url)),
        };
        let (_code, asked) = scene.bench.engine.post("/sign", &body).await;
        let id = asked["request_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
        scene.bench.prompt().await;
        scene.bench.press(Decision::Press).await;
        let paid = scene.bench.poll_until_status(&id, "success").await;
        let (name, value) =
            (paid["header_name"].as_str().unwrap(), paid["header_value"].as_str().unwrap());
        let delivered = scene.http.get(&url).header(name, value).send().await.unwrap();
        assert_eq!(delivered.status(), 200, "{path}");
        let token = scene.chain.balance_of(payee).await.expect("read");
        assert_eq!(token, U256::from(PRICE * count));
        let left = scene.chain.balance_of(payer).await.expect("read");
        assert_eq!(left, U256::from(1_000_000 - PRICE * count));
    }
    assert_eq!(scene.prompt_count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_signed_by_one_press_and_offers_the_whole_ceiling() {
    let Some(scene) = Scene::start().await else { return };
    let sent = scene.send("0.25").await;
    let shown = scene.bench.prompt().await;
    assert!(shown.iter().any(|page| page.contains("0.25")), "{shown:?}");
    let listed = scene.wait_for_status(&sent.id, "waiting", false).await;
    assert!(listed.told.contains("Ledger"), "{}", listed.told);
    scene.bench.press(Decision::Press).await;
    scene.wait_for_status(&sent.id, "done", true).await;
    assert_eq!(scene.native_balance(OTHER_RECEIVER).await, U256::from(250_000_000_000_000_000u64));
    assert_eq!(scene.prompt_count(), 1, "one press for one send");
    // A token can be sent only with blind signing.
    scene.bench.device.change(|app| app.blind_signing = false);
    let line = format!(
        "address send safe {OTHER_RECEIVER} 0.5 --token USDC --network base --yes --no-wait"
    );
    let Answer::Send(sent) = scene.bench.engine.operator().must(&line).await else {
        panic!("a send")
    };
    scene
        .bench
        .wait_until("the switch", async || {
            let Answer::Status(status) = scene.bench.engine.operator().must("status").await else {
                panic!("a status")
            };
            status.device.filter(|device| device.state.contains("Turn on \"Blind signing\""))
        })
        .await;
    scene.bench.device.change(|app| app.blind_signing = true);
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    scene.wait_for_status(&sent.id, "done", true).await;
    let friend: Address = OTHER_RECEIVER.parse().unwrap();
    assert_eq!(scene.chain.balance_of(friend).await.expect("read"), U256::from(500_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_send_is_dropped_and_a_cancel_or_a_higher_offer_asks_again() {
    let Some(scene) = Scene::start().await else { return };
    let mut operator = scene.bench.engine.operator();
    let refused = scene.send("0.1").await;
    scene.bench.prompt().await;
    scene.bench.press(Decision::Refuse).await;
    scene.wait_for_status(&refused.id, "dropped", false).await;
    scene.chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let sent = scene.send("0.2").await;
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    let first = scene.wait_for_status(&sent.id, "sent", false).await;
    assert_eq!(first.nonce, Some(0), "the refused send left no gap");
    // The wallet offers no transaction again by itself, however long the transaction waits.
    for _minute in 0..30 {
        scene.bench.engine.clock.advance(60_000);
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.prompt_count(), 2);
    operator.must(&format!("address send --faster {} --yes --no-wait", sent.id)).await;
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    scene
        .bench
        .wait_until("another hash", async || {
            let now = scene.wait_for_status(&sent.id, "sent", false).await;
            (now.tx_hash != first.tx_hash).then_some(())
        })
        .await;
    operator.must(&format!("address cancel {}", sent.id)).await;
    scene.bench.prompt().await;
    scene.bench.press(Decision::Refuse).await;
    // After one refusal on the device, the cancellation asks again only on the operator's command.
    scene.bench.engine.clock.advance(60_000);
    assert_eq!(scene.prompt_count(), 4);
    // Repeats the command, because it has no effect until the wallet has recorded the refusal.
    let mut other = scene.bench.engine.operator();
    scene
        .bench
        .wait_until("the fifth prompt", async || {
            other.must(&format!("address cancel {}", sent.id)).await;
            (scene.prompt_count() == 5).then_some(())
        })
        .await;
    scene.bench.press(Decision::Press).await;
    // Waits until the node has the empty transaction: a block mined earlier would contain the payment instead.
    scene
        .bench
        .wait_until("the empty one", async || {
            scene.has_pending_transfer(U256::ZERO).await.then_some(())
        })
        .await;
    assert_eq!(scene.prompt_count(), 5);
    let ended = scene.wait_for_status(&sent.id, "cancelled", true).await;
    assert!(ended.block.is_some(), "{ended:?}");
    assert_eq!(scene.native_balance(OTHER_RECEIVER).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_send_is_never_shown_and_payments_go_on() {
    let Some(scene) = Scene::start().await else { return };
    scene.bench.device.set_plugged(false);
    let sent = scene.send("0.1").await;
    scene
        .bench
        .wait_until("the wait", async || {
            let Answer::Sends { sends } = scene.bench.engine.operator().must("address sends").await
            else {
                panic!("no list")
            };
            sends[0].told.contains("waits for the Ledger").then_some(())
        })
        .await;
    scene.bench.engine.operator().must(&format!("address cancel {}", sent.id)).await;
    scene.wait_for_status(&sent.id, "dropped", false).await;
    let (_code, asked) = scene.bench.ask(12_000, 1).await;
    let id = asked["request_id"].as_str().unwrap().to_owned();
    scene.bench.device.set_plugged(true);
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    scene.bench.poll_until_status(&id, "success").await;
    assert_eq!(scene.prompt_count(), 1, "only the payment was shown");
}

/// A script reads the exit code, so it is 0 only if the money moved.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_fails_whose_send_is_refused_or_cancelled() {
    let Some(scene) = Scene::start().await else { return };
    let line = format!("address send safe {OTHER_RECEIVER} 0.1 --network base --confirm 0.1");
    let (mut operator, mut other) = (scene.bench.engine.operator(), scene.bench.engine.operator());
    let (refused, ()) = tokio::join!(operator.run_refused(&line), async {
        scene.bench.prompt().await;
        scene.bench.press(Decision::Refuse).await;
    });
    assert_eq!((refused.code, refused.code.exit()), (Code::LedgerRejected, 12), "{refused:?}");
    assert!(refused.message.contains("refused on the Ledger: nothing was sent"), "{refused:?}");
    let (cancelled, ()) = tokio::join!(operator.run_refused(&line), async {
        scene.bench.prompt().await;
        let Answer::Sends { sends } = other.must("address sends").await else { panic!("a list") };
        let open = sends.iter().find(|send| send.status == SendStatus::Waiting);
        other.must(&format!("address cancel {}", open.expect("an open one").id)).await;
    });
    assert_eq!((cancelled.code, cancelled.code.exit()), (Code::Declined, 1), "{cancelled:?}");
    // The device still shows the cancelled send.
    scene.bench.press(Decision::Refuse).await;
    scene.chain.request("evm_setAutomine", json!([false])).await.expect("set");
    let sent = scene.send("0.2").await;
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    scene.wait_for_status(&sent.id, "sent", false).await;
    let faster = format!("address send --faster {} --yes", sent.id);
    let (kept, ()) = tokio::join!(operator.run_refused(&faster), async {
        scene.bench.prompt().await;
        scene.bench.press(Decision::Refuse).await;
    });
    assert_eq!(kept.code, Code::LedgerRejected, "{kept:?}");
    assert!(kept.message.contains("keeps its earlier gas price"), "{kept:?}");
    assert_eq!(scene.native_balance(OTHER_RECEIVER).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_behind_another_says_how_many_are_before_it() {
    let Some(scene) = Scene::start().await else { return };
    scene.bench.device.change(|app| app.blind_signing = false);
    let line = format!(
        "address send safe {OTHER_RECEIVER} 0.5 --token USDC --network base --yes --no-wait"
    );
    scene.bench.engine.operator().must(&line).await;
    let coins = scene.send("0.1").await;
    scene
        .bench
        .wait_until("the switch and the place", async || {
            let Answer::Sends { sends } = scene.bench.engine.operator().must("address sends").await
            else {
                panic!("a list")
            };
            let told = |is_coins: bool| {
                sends.iter().find(|one| (one.id == coins.id) == is_coins).map(|one| &one.told)
            };
            let needs = told(false)?.contains("Turn on \"Blind signing\"");
            let waits = told(true)?.contains("1 other request is shown on the Ledger before it");
            (needs && waits).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_needs_a_switch_keeps_no_payment_waiting() {
    let Some(scene) = Scene::start().await else { return };
    scene.bench.device.change(|app| app.blind_signing = false);
    let line = format!(
        "address send safe {OTHER_RECEIVER} 0.5 --token USDC --network base --yes --no-wait"
    );
    scene.bench.engine.operator().must(&line).await;
    let (_code, asked) = scene.bench.ask(12_000, 1).await;
    let id = asked["request_id"].as_str().unwrap().to_owned();
    scene.bench.prompt().await;
    scene.bench.press(Decision::Press).await;
    scene.bench.poll_until_status(&id, "success").await;
}
