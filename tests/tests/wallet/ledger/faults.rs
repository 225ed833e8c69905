//! Payments whose device is not ready, lies, is unplugged or stays unattended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::card::DeviceCard;
use bursar_device::emulator::Emulators;
use bursar_engine::journal::{FaultyStore, MemoryStore};
use bursar_ledger_device::device::{Decision, Lie};
use bursar_ledger_device::key::Seed;
use bursar_tests::engine::{Setup, UNLIMITED_RATE_SETTINGS};
use bursar_tests::operator::Expect;
use futures::FutureExt;
use serde_json::{Value, json};

use super::support::{Bench, OTHER_WORDS, SEED_WORDS, plug_in, prompts};

const POLICY: &str = "--day 10 --txn 5 --auto 0.5";

fn id(answer: &Value) -> String {
    answer["request_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

impl Bench {
    /// Starts a payment that waits for the device; returns its id.
    async fn start_waiting_payment(&self, n: u64) -> String {
        let (code, answer) = self.ask(12_000, n).await;
        assert_eq!((code, &answer["status"]), (202, &json!("pending")), "{answer}");
        id(&answer)
    }

    async fn pending_requests(&self) -> Vec<RequestAnswer> {
        match self.engine.operator().must("requests").await {
            Answer::Requests { requests } => requests,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the device line of a request's card contains a text.
    async fn wait_for_device_text(&self, id: &str, part: &str) -> DeviceCard {
        self.wait_until(part, async || {
            let listed = self.pending_requests().await;
            let card = listed.into_iter().find(|one| one.id == id)?.card?;
            card.device.filter(|device| device.state.contains(part)).map(|device| *device)
        })
        .await
    }

    /// Presses when the device shows a prompt, and waits until the payment succeeds.
    async fn press_until_paid(&self, id: &str) -> Value {
        self.prompt().await;
        self.press(Decision::Press).await;
        self.poll_until_status(id, "success").await
    }

    fn prompt_count(&self) -> usize {
        prompts(&self.device)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_waits_while_the_device_is_not_ready_and_continues_by_itself() {
    let bench = Bench::start(POLICY, "bearer").await;
    let device = &bench.device;
    device.set_plugged(false);
    let request = bench.start_waiting_payment(1).await;
    bench.wait_for_device_text(&request, "plug it in").await;
    device.set_locked(true);
    device.set_plugged(true);
    bench.wait_for_device_text(&request, "is locked: enter its PIN").await;
    device.set_locked(false);
    device.open(Some(("BOLOS".to_owned(), "1.4.0".to_owned())));
    bench.wait_for_device_text(&request, "no app is open: open its Ethereum app").await;
    device.open(Some(("\u{1b}[2JBitcoin".to_owned(), "2.0".to_owned())));
    bench.wait_for_device_text(&request, "the app ?[2JBitcoin is open").await;
    device.open(None);
    device.change(|app| app.raw_messages = false);
    bench.wait_for_device_text(&request, "Turn on \"Raw messages\" (or \"Blind signing\")").await;
    device.change(|app| app.version = [1, 4, 0]);
    bench.wait_for_device_text(&request, "is too old: update it").await;
    // This version of the app can sign only hashes, which needs blind signing.
    device.change(|app| app.version = [1, 6, 0]);
    bench.wait_for_device_text(&request, "Turn on \"Blind signing\"").await;
    device.change(|app| {
        app.version = [1, 22, 0];
        app.raw_messages = true;
        app.seed = Seed::from_words(OTHER_WORDS).unwrap();
    });
    bench.wait_for_device_text(&request, "plug in the one that was enrolled").await;
    assert_eq!(bench.prompt_count(), 0, "{:?}", bench.device.log());
    device.change(|app| app.seed = Seed::from_words(SEED_WORDS).unwrap());
    bench.press_until_paid(&request).await;
    assert!(bench.pending_requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_app_signs_the_hashes() {
    let bench = Bench::start(POLICY, "hmac").await;
    bench.device.change(|app| {
        app.version = [1, 6, 0];
        app.raw_messages = false;
        app.blind_signing = true;
    });
    let request = bench.start_waiting_payment(1).await;
    let shown = bench.prompt().await;
    let card = bench.wait_for_device_text(&request, "shows it: compare it").await;
    let hash = |name: &str| {
        let row = card.shows.iter().find(|(of, _value)| of == name).expect("a row");
        row.1.trim_start_matches("0x").to_uppercase()
    };
    let shown = shown.join(" ").to_uppercase();
    for name in ["domain hash", "message hash"] {
        assert!(shown.contains(&hash(name)), "{name}: {shown}");
    }
    bench.press_until_paid(&request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_ready_in_time_ends_the_request_and_returns_its_value() {
    let bench = Bench::start("--day 0.02 --txn 0.02 --auto 0.02", "bearer").await;
    bench.device.set_plugged(false);
    let request = bench.start_waiting_payment(1).await;
    bench.wait_for_device_text(&request, "plug it in").await;
    bench.engine.clock.advance(15 * 60 * 1000);
    let ended = bench.poll_until_status(&request, "rejected").await;
    assert_eq!(ended["code"], "LEDGER_DISCONNECTED", "{ended}");
    let returned = bench.wait_until("the value", async || {
        let (_code, answer) = bench.ask(12_000, 2).await;
        (answer["status"] == "pending").then_some(answer)
    });
    returned.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cable_that_comes_out_at_any_command_costs_nothing() {
    let bench = Bench::start(POLICY, "bearer").await;
    let commands = || bench.device.log().iter().filter(|line| line.starts_with("=> ")).count();
    let enrolled = commands();
    let request = bench.start_waiting_payment(1).await;
    bench.press_until_paid(&request).await;
    let commands = u64::try_from(commands() - enrolled).unwrap();
    assert!(commands > 25, "they find the device and ask for the signature: {commands}");
    for before in 1..=commands {
        let bench = Bench::start(POLICY, "bearer").await;
        bench.device.cut(Some(before), None);
        let request = bench.start_waiting_payment(1).await;
        bench.wait_until("the cut", async || (!bench.device.is_plugged()).then_some(())).await;
        bench.device.cut(None, None);
        bench.device.set_plugged(true);
        bench.press_until_paid(&request).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_whose_answer_is_lost_is_asked_again_with_the_same_terms() {
    let bench = Bench::start(POLICY, "bearer").await;
    let request = bench.start_waiting_payment(1).await;
    let first = bench.prompt().await;
    // The person presses, but the device is unplugged before the answer arrives.
    bench.device.cut(None, Some(1));
    bench.press(Decision::Press).await;
    bench.wait_until("the cut", async || (!bench.device.is_plugged()).then_some(())).await;
    bench.wait_for_device_text(&request, "plug it in").await;
    bench.device.cut(None, None);
    bench.device.set_plugged(true);
    assert_eq!(bench.prompt().await, first, "the same terms");
    bench.press_until_paid(&request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_press_after_a_stop_is_read_and_discarded() {
    for stop in ["freeze", "wallet lock", "deny"] {
        let bench = Bench::start(POLICY, "bearer").await;
        let request = bench.start_waiting_payment(1).await;
        bench.prompt().await;
        let line = if stop == "deny" { format!("deny {request}") } else { stop.to_owned() };
        bench.engine.operator().must(&line).await;
        // The wallet abandons the prompt, while the device still shows it.
        bench
            .wait_until("given up", async || {
                let Answer::Status(status) = bench.engine.operator().must("status").await else {
                    panic!("a status")
                };
                (!status.device.is_some_and(|device| device.is_prompting)).then_some(())
            })
            .await;
        match stop {
            "freeze" => drop(bench.engine.operator().must("thaw").await),
            "wallet lock" => drop(bench.engine.operator().must("wallet open").await),
            _deny => {}
        }
        if stop == "deny" {
            // No request waits any longer, but the Ledger still shows the payment.
            bench
                .wait_until("a warning", async || {
                    let Answer::Status(status) = bench.engine.operator().must("status").await
                    else {
                        panic!("a status")
                    };
                    status.device.filter(|device| device.state.contains("reject it there"))
                })
                .await;
        }
        let other =
            if stop == "deny" { bench.start_waiting_payment(2).await } else { request.clone() };
        bench.wait_for_device_text(&other, "still shows an earlier request: reject it there").await;
        // The operator signs the abandoned prompt after all; no caller gets that signature.
        bench.press(Decision::Press).await;
        if stop == "deny" {
            assert_eq!(
                bench.poll_until_status(&request, "rejected").await["code"],
                "REQUEST_DENIED"
            );
        }
        bench.press_until_paid(&other).await;
        assert_eq!(bench.prompt_count(), 2, "{stop}: {:?}", bench.device.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_other_commands_are_never_taken_for_a_signature() {
    for lie in [Lie::Truncated, Lie::Longer, Lie::Changed, Lie::Earlier] {
        let bench = Bench::start(POLICY, "bearer").await;
        bench.device.decide_itself(Some(Decision::Press));
        let request = bench.start_waiting_payment(1).await;
        bench.poll_until_status(&request, "success").await;
        // In each round, the device starts to lie at a later answer of the next payment. It answered the first payment
        // honestly.
        for honest in 0..32 {
            bench.device.set_lie(honest, Some(lie));
            let other = bench.start_waiting_payment(10 + honest).await;
            bench
                .wait_until("an exchange", async || {
                    let lied = bench.device.log().len() > 60;
                    lied.then_some(())
                })
                .await;
            bench.device.set_lie(0, None);
            let paid = bench.poll_until_status(&other, "success").await;
            assert_ne!(paid["header_value"], Value::Null);
        }
        bench.engine.operator().must("audit verify").await;
    }
}

/// The wallet reads a status that was meant for another program, although the device has signed. It trusts neither a
/// refusal nor a claim that nothing was shown: the value stays reserved, and the same terms are shown again.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_for_another_program_ends_no_payment() {
    let [refused, switch_off, locked] = [0x6985, 0x6a80, 0x5515];
    for status in [refused, switch_off, locked] {
        let bench = Bench::start(POLICY, "bearer").await;
        let request = bench.start_waiting_payment(1).await;
        let first = bench.prompt().await;
        bench.device.set_lie(0, Some(Lie::Foreign(status)));
        bench.press(Decision::Press).await;
        let second = bench.prompt().await;
        assert_eq!(first, second, "{status:04x}: the same terms");
        assert_eq!(bench.prompt_count(), 2, "{:?}", bench.device.log());
        bench.press(Decision::Press).await;
        bench.poll_until_status(&request, "success").await;
        bench.engine.operator().must("audit verify").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_devices_the_one_with_the_address_is_used() {
    let ((device, at), (other, other_at)) = (plug_in(SEED_WORDS), plug_in(OTHER_WORDS));
    other.set_plugged(false);
    let devices = Some(Arc::new(Emulators::new(vec![other_at, at])) as _);
    let setup = Setup { devices, ..Setup::default() };
    let bench = Bench::with(setup, (device, at), POLICY, "bearer").await;
    other.set_plugged(true);
    let request = bench.start_waiting_payment(1).await;
    bench.press_until_paid(&request).await;
    assert!(other.log().iter().all(|line| !line.contains("asked:")));
    // The device is unplugged and plugged in again between two payments.
    bench.device.set_plugged(false);
    let request = bench.start_waiting_payment(2).await;
    bench.wait_for_device_text(&request, "plug").await;
    bench.device.set_plugged(true);
    bench.press_until_paid(&request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_wait_for_one_device_while_software_pays() {
    let (device, at) = plug_in(SEED_WORDS);
    let devices = Some(Arc::new(Emulators::new(vec![at])) as _);
    let settings = UNLIMITED_RATE_SETTINGS;
    let setup = Setup { devices, settings, ..Setup::default() };
    let policy = "--day 1000 --txn 5 --auto 0.5";
    let bench = Bench::with(setup, (device, at), policy, "bearer").await;
    let software = bench.engine.add_agent("quick", "bearer").await;
    let mut waiting = Vec::new();
    for n in 0..20 {
        waiting.push(bench.start_waiting_payment(n).await);
    }
    assert_eq!(bench.ask(12_000, 99).await.1["code"], "TOO_MANY_PENDING");
    bench.prompt().await;
    for n in 0..500 {
        let offer = bursar_tests::offers::offer(10_000, 1_000 + n);
        let body = software.ask(bench.engine.now_s(), &offer, None);
        let (code, answer) = bench.engine.post("/sign", &body).await;
        assert_eq!((code, &answer["status"]), (200, &json!("success")), "{answer}");
    }
    let last = waiting.last().expect("twenty");
    bench.wait_for_device_text(last, "other requests are shown on the Ledger before it").await;
    // The device shows the requests in the order of their arrival.
    for request in &waiting {
        bench.press_until_paid(request).await;
    }
    assert_eq!(bench.prompt_count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_prompt_ends_before_its_terms() {
    let bench = Bench::start(POLICY, "bearer").await;
    let request = bench.start_waiting_payment(1).await;
    bench.prompt().await;
    bench.poll_until_status(&request, "executing").await;
    bench.engine.clock.advance(49_000);
    bench.poll_until_status(&request, "executing").await;
    bench.engine.clock.advance(2_000);
    let ended = bench.poll_until_status(&request, "rejected").await;
    assert_eq!(ended["code"], "LEDGER_DISCONNECTED", "{ended}");
    let other = bench.start_waiting_payment(2).await;
    bench.wait_for_device_text(&other, "reject it there").await;
    bench.press(Decision::Refuse).await;
    bench.press_until_paid(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_at_the_prompt_asks_for_the_same_terms() {
    let bench = Bench::start(POLICY, "bearer").await;
    let request = bench.start_waiting_payment(1).await;
    let first = bench.prompt().await;
    let Bench { engine, device, agent, address, device_socket: at } = bench;
    let devices = Some(Arc::new(Emulators::new(vec![at])) as _);
    let engine = engine.restart(Setup { devices, ..Setup::default() }).await;
    engine.operator().must("wallet open").await;
    let bench = Bench { engine, device, agent, address, device_socket: at };
    // The screen still shows the first prompt; the wallet drops its answer.
    bench.press(Decision::Press).await;
    assert_eq!(bench.prompt().await, first);
    bench.press_until_paid(&request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_off_fills_no_journal() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.change(|app| app.raw_messages = false);
    let request = bench.start_waiting_payment(1).await;
    bench.wait_for_device_text(&request, "Turn on \"Raw messages\"").await;
    let entries = async || {
        let Answer::Status(status) = bench.engine.operator().must("status").await else {
            panic!("a status")
        };
        status.journal
    };
    let before = entries().await;
    let refusals = || bench.device.log().iter().filter(|line| line.starts_with("<= 6a80")).count();
    for _try in 0..4 {
        let before = refusals();
        bench.engine.clock.advance(60_000);
        bench.wait_until("a try", async || (refusals() > before).then_some(())).await;
    }
    assert_eq!(entries().await, before, "no terms are fixed for what cannot be shown");
    bench.device.change(|app| app.raw_messages = true);
    bench.engine.clock.advance(60_000);
    bench.press_until_paid(&request).await;
}

/// Fills the disk after `commits` commits. Returns whether the failed commit contained the signature.
async fn fails_on_signature_commit(commits: usize) -> bool {
    let (device, at) = plug_in(SEED_WORDS);
    let store = FaultyStore::new(MemoryStore::default(), commits);
    let devices = Some(Arc::new(Emulators::new(vec![at])) as _);
    let setup = Setup { devices, store: Some(Box::new(store)), ..Setup::default() };
    let bench = Bench::with(setup, (device, at), POLICY, "bearer").await;
    let request = bench.start_waiting_payment(1).await;
    let failed = async || {
        let Answer::Status(status) = bench.engine.operator().must("status").await else {
            panic!("a status")
        };
        status.failed
    };
    let shown = bench.wait_until("a prompt or the failure", async || {
        if failed().await.is_some() { Some(false) } else { bench.device.screen().map(|_any| true) }
    });
    if !shown.await {
        return false;
    }
    bench.press(Decision::Press).await;
    bench.wait_until("the failure", async || failed().await).await;
    let (_code, answer) = bench.engine.get(&format!("/sign/status/{request}")).await;
    assert_eq!(answer["status"], "executing", "{answer}");
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_is_not_on_disk_is_given_to_no_one() {
    let mut lost = 0;
    // With fewer commits the wallet is not set up, and with more everything is recorded.
    for commits in 9..=14 {
        let limit = std::time::Duration::from_secs(5);
        let tried = tokio::time::timeout(limit, fails_on_signature_commit(commits));
        let tried = AssertUnwindSafe(tried).catch_unwind().await;
        lost += usize::from(matches!(tried, Ok(Ok(true))));
    }
    assert_eq!(lost, 1, "one of the commits is that of the signature");
}
