//! Requests that wait for a hardware device.

use bursar_control::answers::{Answer, DeviceAnswer, RequestAnswer, StatusAnswer};
use bursar_control::grammar::{Order, RequestsOrder};
use bursar_control::wire::ToClient;
use bursar_core::card::Lane;
use bursar_core::status::EntryKind;

use super::looks::{ALL_SIZES, SIZES, assert_screen};
use super::{Stage, feed, held};
use crate::console::model::Setup;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::server::Topic;
use crate::oneshot::tests::fixtures;

const PROMPT_STATE: &str =
    "The Ledger Flex (0001) shows it: compare it with this, and sign or refuse it there.";
const LOCKED_STATE: &str = "The Ledger Flex (0001) is locked: enter its PIN.";
const SWITCH_OFF_STATE: &str = "Turn on \"Raw messages\" (or \"Blind signing\") in the settings of the Ethereum app of the Ledger Flex \
    (0001). Take your time: the wallet asks it again after 30 seconds and then each minute, or now with r in the console or \
    `requests --retry`.";

/// Returns a console with one request for a device and one for the operator.
fn stage(size: (u16, u16), state: &str, label: &str, is_prompting: bool) -> Stage {
    with_device_requests(Stage::with_all_panes(size), (state, label, is_prompting), None)
}

/// Adds these requests to a console. The device may be an emulator.
fn with_device_requests(
    mut stage: Stage,
    (state, label, is_prompting): (&str, &str, bool),
    emulator: Option<&str>,
) -> Stage {
    let mut card = fixtures::device_card(state, is_prompting);
    let emulator = emulator.map(str::to_owned);
    card.device.as_mut().expect("a device").emulator.clone_from(&emulator);
    let mut first = held(1, if is_prompting { 43_000 } else { 754_000 }, |held| {
        held.device.clone_from(&card.device);
        held.hold = card.hold;
    });
    first.status = "awaiting_device".parse().unwrap();
    first.step = Some(label.to_owned());
    let requests = vec![first, held(2, 223_000, |_card| {})];
    let device = DeviceAnswer {
        label: label.to_owned(),
        state: state.to_owned(),
        is_prompting,
        may_retry: state == SWITCH_OFF_STATE,
        waiting: 1,
    };
    let status =
        StatusAnswer { device: Some(device), ledger_emulator: emulator, ..fixtures::status() };
    // The engine reports a change of the device queue with a message without entries.
    stage.frame(ToClient::Entries { id: 7, entries: Vec::new() });
    for (topic, answer) in
        [("requests", Answer::Requests { requests }), ("status", Answer::Status(status))]
    {
        stage.wait(2_000);
        let (call, _order) = stage.take_newest_order(topic).expect("it is read again");
        stage.answer(call, Ok(answer));
    }
    stage.sent.clear();
    stage
}

#[test]
fn requests_at_a_device() {
    for size in SIZES {
        assert_screen("device_locked", &stage(size, LOCKED_STATE, "locked", false));
        assert_screen("device_prompting", &stage(size, PROMPT_STATE, "confirm on device", true));
        let mut emulated = with_device_requests(
            Stage::with_all_panes(size),
            (PROMPT_STATE, "confirm on device", true),
            Some("127.0.0.1:9999"),
        );
        emulated.keys("a");
        emulated.wait(KEY_GUARD_MS);
        let shown = emulated.screen();
        assert!(shown.contains("EMULATOR") && shown.contains("NOT a Ledger"), "{shown}");
    }
    for size in SIZES {
        let mut stage = stage(size, SWITCH_OFF_STATE, "switch off", false);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        let shown = stage.screen();
        assert!(shown.contains("r asks the Ledger again"), "{shown}");
    }
    for size in ALL_SIZES {
        let mut stage = stage(size, PROMPT_STATE, "confirm on device", true);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        assert_screen("device_card", &stage);
    }
}

#[test]
fn a_request_at_a_device_can_only_be_denied() {
    let mut stage = stage((80, 24), PROMPT_STATE, "confirm on device", true);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(KEY_GUARD_MS);
    assert!(stage.sent.is_empty(), "{:?}", stage.sent);
    stage.keys("n");
    stage.wait(KEY_GUARD_MS);
    assert!(
        matches!(stage.sent.as_slice(), [(_id, order)] if order.name() == "deny"),
        "{:?}",
        stage.sent
    );
}

/// `r` orders a retry at a Ledger that is not prompted because a switch is off, in the panes and on the card.
#[test]
fn r_asks_a_ledger_again_that_is_left_alone() {
    let retries = |stage: &Stage| {
        let is_retry = |(_id, order): &&(u64, Order)| {
            matches!(order, Order::Requests(RequestsOrder { retry: true, .. }))
        };
        stage.sent.iter().filter(is_retry).count()
    };
    for card in [false, true] {
        let mut stage = stage((80, 24), SWITCH_OFF_STATE, "switch off", false);
        if card {
            stage.keys("a");
            stage.wait(KEY_GUARD_MS);
        }
        stage.keys("r");
        stage.wait(KEY_GUARD_MS);
        assert_eq!(retries(&stage), 1, "card {card}: {:?}", stage.sent);
        // While a retry is in flight, `r` does not send another.
        stage.keys("r");
        stage.wait(KEY_GUARD_MS);
        assert_eq!(retries(&stage), 1, "card {card}: {:?}", stage.sent);
    }
    // `r` has no effect while the Ledger is locked, and for an observer.
    let mut locked = stage((80, 24), LOCKED_STATE, "locked", false);
    locked.keys("r");
    locked.wait(KEY_GUARD_MS);
    assert_eq!(retries(&locked), 0, "{:?}", locked.sent);
    let observing = Stage::with_rows(Setup { observe: true, ..Setup::default() }, (80, 24));
    let mut observing =
        with_device_requests(observing, (SWITCH_OFF_STATE, "switch off", false), None);
    observing.keys("r");
    observing.keys("a");
    observing.keys("r");
    observing.wait(KEY_GUARD_MS);
    assert_eq!(retries(&observing), 0, "{:?}", observing.sent);
}

/// A device signs a trade in several steps. The request remains in the list after its approval and between the steps.
#[test]
fn an_approved_trade_stays_in_the_list_until_its_device_has_signed() {
    let mut stage = Stage::with_all_panes((80, 24));
    let trade = |status: &str, step: Option<&str>| {
        let mut request = held(1, 290_000, |_card| {});
        request.lane = Lane::Trade;
        request.status = status.parse().unwrap();
        request.step = step.map(str::to_owned);
        request
    };
    let read = |stage: &mut Stage, requests: Vec<RequestAnswer>| {
        let now_ms = stage.model.now_ms;
        stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now_ms);
    };
    let entry = |stage: &mut Stage, kind: EntryKind| {
        let [mut row] = <[_; 1]>::try_from(feed(1, 1)).unwrap();
        (row.seq, row.kind) = (stage.model.server.feed.head() + 1, kind);
        row.request = Some(trade("pending", None).id);
        let now_ms = stage.model.now_ms;
        stage.model.server.append(vec![row], now_ms);
    };
    let closed = |stage: &Stage| {
        let row = &stage.model.server.queue[0];
        row.closed_reason(stage.model.now_ms).map(str::to_owned)
    };
    read(&mut stage, vec![trade("pending", None)]);
    entry(&mut stage, EntryKind::TradeApproved);
    let device = trade("awaiting_device", Some("1/2 token approval, confirm on device"));
    read(&mut stage, vec![device]);
    assert_eq!(closed(&stage), None);
    let device = trade("awaiting_device", Some("2/2 swap, confirm on device"));
    read(&mut stage, vec![device]);
    assert_eq!(closed(&stage), None);
    read(&mut stage, Vec::new());
    assert_eq!(closed(&stage).as_deref(), Some("signed"));
    entry(&mut stage, EntryKind::TradeEnded);
    assert_eq!(closed(&stage).as_deref(), Some("ended"));
}
