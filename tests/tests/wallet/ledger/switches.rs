//! Payments that need a switch which is off: the wallet covers no screen while the person walks
//! through the app's settings.

use bursar_chain::ports::Clock;
use bursar_control::answers::{Answer, DeviceAnswer};
use bursar_ledger_device::device::Decision;
use bursar_ledger_device::settings::{STEP, Switch};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use super::support::Bench;

const POLICY: &str = "--day 10 --txn 5 --auto 0.5";
/// Screens on the way to a switch: a notice, the app's home, its menu, its settings, and the page of the switch.
const STEPS_TO_SWITCH: usize = 5;

impl Bench {
    /// Asks for a payment, and waits until the device has refused to show it.
    async fn start_payment_refused_by_device(&self, n: u64) -> String {
        let (_code, answer) = self.ask(12_000, n).await;
        assert_eq!(answer["waits_for"], "device", "{answer}");
        self.wait_for_queue_text("Take your time").await;
        answer["request_id"].as_str().expect("an id").to_owned()
    }

    async fn device_answer(&self) -> Option<DeviceAnswer> {
        match self.engine.operator().must("status").await {
            Answer::Status(status) => status.device,
            other => panic!("{other:?}"),
        }
    }

    async fn wait_for_queue_text(&self, part: &str) -> DeviceAnswer {
        self.wait_until(part, async || {
            self.device_answer().await.filter(|device| device.state.contains(part))
        })
        .await
    }

    /// Lets time pass in small steps, so that the queue works in between.
    async fn advance_slowly(&self, ms: u64) {
        let until = self.engine.clock.mono_ms() + ms;
        self.wait_until("the time", async || (self.engine.clock.mono_ms() >= until).then_some(()))
            .await;
    }

    /// Takes `steps` steps towards a switch; returns whether the switch is on afterwards.
    async fn walk_to_switch(&self, switch: Switch, steps: usize) -> bool {
        let mut is_on = false;
        for _step in 0..steps {
            self.advance_slowly(STEP.as_millis() as u64).await;
            is_on = self.device.step_towards(switch);
        }
        is_on
    }

    /// Returns how often the device refused data, and how often its configuration was read.
    fn refusals_and_reads(&self) -> (usize, usize) {
        let log = self.device.log();
        let count = |part: &str| log.iter().filter(|line| line.starts_with(part)).count();
        (count("<= 6a80"), count("=> e006"))
    }

    async fn press_until_signed(&self, id: &str) -> Value {
        self.prompt().await;
        self.press(Decision::Press).await;
        self.poll_until_status(id, "success").await
    }
}

/// Every new user of a Ledger meets this switch at the first payment.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_with_two_seconds_a_step_reaches_the_switch_and_the_payment_follows() {
    for (switch, found_by_itself) in [(Switch::RawMessages, false), (Switch::BlindSigning, true)] {
        let bench = Bench::start(POLICY, "bearer").await;
        bench.device.change(|app| app.raw_messages = false);
        let request = bench.start_payment_refused_by_device(1).await;
        let (refusals, polls) = bench.refusals_and_reads();
        assert!(
            bench.walk_to_switch(switch, STEPS_TO_SWITCH).await,
            "{switch:?}: the settings were covered"
        );
        assert_eq!(
            (bench.refusals_and_reads().0, bench.device.covered()),
            (refusals, 0),
            "{switch:?}"
        );
        assert!(bench.refusals_and_reads().1 > polls, "the configuration is read meanwhile");
        if !found_by_itself {
            // The app's configuration does not report this switch, so the wallet must wait for its next try.
            bench.advance_slowly(2_000).await;
            assert!(bench.device.screen().is_none());
            bench.engine.clock.advance(30_000);
        }
        bench.press_until_signed(&request).await;
        assert!(bench.device_answer().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wallet_asks_again_after_half_a_minute_and_then_each_minute() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.change(|app| app.raw_messages = false);
    let request = bench.start_payment_refused_by_device(1).await;
    for rest_s in [30, 60, 60] {
        let (before, polls) = bench.refusals_and_reads();
        // The refusal was up to four seconds ago.
        bench.engine.clock.advance((rest_s - 4) * 1_000);
        bench
            .wait_until("two polls", async || {
                (bench.refusals_and_reads().1 > polls + 1).then_some(())
            })
            .await;
        assert_eq!(bench.refusals_and_reads().0, before, "{rest_s}");
        bench.engine.clock.advance(4_000);
        bench
            .wait_until("a try", async || (bench.refusals_and_reads().0 > before).then_some(()))
            .await;
        assert_eq!(bench.refusals_and_reads().0, before + 1, "{rest_s}");
    }
    bench.device.change(|app| app.raw_messages = true);
    bench.engine.clock.advance(60_000);
    bench.press_until_signed(&request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_starts_a_try_at_any_time() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.change(|app| app.raw_messages = false);
    let request = bench.start_payment_refused_by_device(1).await;
    assert!(bench.device_answer().await.expect("it waits").may_retry);
    let (before, _polls) = bench.refusals_and_reads();
    // The try fails, and the list is unchanged.
    let listed = async || match bench.engine.operator().must("requests --retry").await {
        Answer::Requests { requests } => requests[0].card.clone().expect("a card").device,
        other => panic!("{other:?}"),
    };
    assert!(listed().await.expect("a device").state.contains("Take your time"));
    assert_eq!(bench.refusals_and_reads().0, before + 1);
    bench.device.change(|app| app.raw_messages = true);
    let device = listed().await.expect("a device");
    assert!(device.is_prompting, "{device:?}");
    let prompting = bench.device_answer().await.expect("a prompt");
    assert!(prompting.is_prompting && !prompting.may_retry, "{prompting:?}");
    bench.press_until_signed(&request).await;
}

/// Neither a denial nor another request makes the wallet cover the settings again.
#[tokio::test(flavor = "multi_thread")]
async fn another_request_disturbs_the_person_no_more_than_the_first() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.change(|app| app.raw_messages = false);
    let first = bench.start_payment_refused_by_device(1).await;
    let (refusals, _polls) = bench.refusals_and_reads();
    assert!(!bench.walk_to_switch(Switch::RawMessages, 2).await);
    let (_code, second) = bench.ask(12_000, 2).await;
    let second = second["request_id"].as_str().expect("an id").to_owned();
    bench.advance_slowly(2_000).await;
    let Answer::Requests { requests } = bench.engine.operator().must("requests").await else {
        panic!("a list")
    };
    let steps: Vec<_> = requests.iter().map(|request| request.step.as_deref()).collect();
    assert_eq!(steps, [Some("needs a setting"), Some("1 before it")]);
    bench.engine.operator().must(&format!("deny {first}")).await;
    assert!(bench.walk_to_switch(Switch::RawMessages, STEPS_TO_SWITCH - 2).await, "it was covered");
    assert_eq!(bench.refusals_and_reads().0, refusals);
    bench.engine.operator().must("requests --retry").await;
    bench.press_until_signed(&second).await;
}

/// An older app answers the first part of a payment only after the last, so the terms are in the
/// journal before the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_app_is_left_alone_too() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.change(|app| {
        app.version = [1, 10, 3];
        app.raw_messages = false;
    });
    let request = bench.start_payment_refused_by_device(1).await;
    let (refusals, _polls) = bench.refusals_and_reads();
    assert!(bench.walk_to_switch(Switch::BlindSigning, STEPS_TO_SWITCH).await);
    assert_eq!((bench.refusals_and_reads().0, bench.device.covered()), (refusals, 0));
    bench.press_until_signed(&request).await;
    bench.engine.operator().must("audit verify").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_learns_that_its_payment_waits_for_the_device() {
    let bench = Bench::start("--day 10 --txn 5 --auto 0.005", "bearer").await;
    let (_code, held) = bench.ask(12_000, 1).await;
    assert_eq!((&held["status"], &held["waits_for"]), (&json!("pending"), &json!("operator")));
    let id = held["request_id"].as_str().expect("an id").to_owned();
    bench.device.set_plugged(false);
    bench.engine.operator().must(&format!("approve {id} --yes")).await;
    let waits = bench.poll_until_status(&id, "pending").await;
    assert_eq!(waits["waits_for"], "device", "{waits}");
    bench.device.set_plugged(true);
    bench.prompt().await;
    let shown = bench.poll_until_status(&id, "executing").await;
    assert_eq!(shown["waits_for"], "device", "{shown}");
}
