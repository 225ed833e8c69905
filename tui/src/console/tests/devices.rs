//! Requests that wait for a hardware device.

use bursar_control::answers::{Answer, DeviceAnswer, StatusAnswer};
use bursar_control::wire::ToClient;

use super::looks::{ALL_SIZES, SIZES, assert_screen};
use super::{Stage, held};
use crate::console::model::card::GUARD_MS;
use crate::oneshot::tests::fixtures;

const PRESS: &str =
    "The Ledger Flex (0001) shows it: compare it with this, and sign or refuse it there.";
const LOCKED: &str = "The Ledger Flex (0001) is locked: enter its PIN.";

/// A console with one request that a device shows or will show, and one for the operator.
fn stage(size: (u16, u16), state: &str, label: &str, is_prompting: bool) -> Stage {
    let mut stage = Stage::full(size);
    let card = fixtures::device_card(state, is_prompting);
    let mut first = held(1, if is_prompting { 43_000 } else { 754_000 }, |held| {
        held.device.clone_from(&card.device);
        held.hold = card.hold;
    });
    first.status = "awaiting_device".parse().unwrap();
    first.step = Some(label.to_owned());
    let requests = vec![first, held(2, 223_000, |_card| {})];
    let device =
        DeviceAnswer { label: label.to_owned(), state: state.to_owned(), is_prompting, waiting: 1 };
    let status = StatusAnswer { device: Some(device), ..fixtures::status() };
    // The engine reports a change of the devices' queue by a message without entries.
    stage.frame(ToClient::Entries { id: 7, entries: Vec::new() });
    for (topic, answer) in
        [("requests", Answer::Requests { requests }), ("status", Answer::Status(status))]
    {
        stage.wait(2_000);
        let (call, _order) = stage.took(topic).expect("it is read again");
        stage.answer(call, Ok(answer));
    }
    stage.sent.clear();
    stage
}

#[test]
fn requests_at_a_device() {
    for size in SIZES {
        assert_screen("device_locked", &stage(size, LOCKED, "locked", false));
        assert_screen("device_prompting", &stage(size, PRESS, "confirm on device", true));
    }
    for size in ALL_SIZES {
        let mut stage = stage(size, PRESS, "confirm on device", true);
        stage.keys("a");
        stage.wait(GUARD_MS);
        assert_screen("device_card", &stage);
    }
}

#[test]
fn a_request_at_a_device_can_only_be_denied() {
    let mut stage = stage((80, 24), PRESS, "confirm on device", true);
    stage.keys("a");
    stage.wait(GUARD_MS);
    stage.keys("y");
    stage.wait(GUARD_MS);
    assert!(stage.sent.is_empty(), "{:?}", stage.sent);
    stage.keys("n");
    stage.wait(GUARD_MS);
    assert!(
        matches!(stage.sent.as_slice(), [(_id, order)] if order.name() == "deny"),
        "{:?}",
        stage.sent
    );
}
