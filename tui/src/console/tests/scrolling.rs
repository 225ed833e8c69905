//! A card that does not fit scrolls, and cannot be approved before every needed row was visible.

use bursar_control::answers::Answer;
use bursar_core::card::Card;
use crossterm::event::KeyCode;

use super::{Stage, held};
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::server::Topic;
use crate::console::model::{PASTE_GAP_MS, Setup};
use crate::console::update::Message;

const SMALL: (u16, u16) = (60, 16);
/// A name that, repeated 30 times, takes more rows than the screen has.
const LONG_NAME: &str = "a network of a long name ";

/// Returns a console with an open card whose first row is larger than the screen. Its keys already count.
fn long_card() -> Stage {
    let mut stage = Stage::with_all_panes(SMALL);
    replace_card(&mut stage, LONG_NAME, "00");
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage
}

fn replace_card(stage: &mut Stage, network: &str, digest: &str) {
    replace_card_with(stage, network, digest, |_card| {});
}

/// Like [`replace_card`], with a further change of the card.
fn replace_card_with(stage: &mut Stage, network: &str, digest: &str, change: impl Fn(&mut Card)) {
    let requests = vec![held(1, 700_000, |card| {
        card.network_title = network.repeat(30);
        card.digest = digest.repeat(32);
        change(card);
    })];
    let now = stage.now_ms;
    stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
    stage.wait(1);
}

fn sends_approval(stage: &mut Stage) -> bool {
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    stage.take_newest_order("approve").is_some()
}

#[test]
fn long_card_is_approved_only_after_every_needed_row_was_visible() {
    let mut stage = long_card();
    assert!(stage.screen().contains("rows 1-9 of"), "{}", stage.screen());
    assert!(!stage.screen().contains("y approve"), "{}", stage.screen());
    assert!(!sends_approval(&mut stage));
    assert!(stage.screen().contains("not yet: scroll (j) to `today`"), "{}", stage.screen());
    // It is not enough that the last rows of the card were visible.
    stage.press(KeyCode::End);
    assert!(stage.screen().contains("0000000"), "{}", stage.screen());
    assert!(!sends_approval(&mut stage));
    assert!(stage.screen().contains("not yet: scroll (k) to `leaves`"), "{}", stage.screen());
    stage.press(KeyCode::Home);
    for _ in 0..5 {
        stage.press(KeyCode::PageDown);
    }
    stage.wait(KEY_GUARD_MS);
    assert!(!stage.screen().contains("scroll ("), "{}", stage.screen());
    assert!(stage.screen().contains("y approve"), "{}", stage.screen());
    assert!(sends_approval(&mut stage));
}

#[test]
fn scroll_keys_move_the_card_and_stop_at_its_ends() {
    let mut stage = long_card();
    let top = stage.screen();
    for (there, back) in [
        (KeyCode::Down, KeyCode::Up),
        (KeyCode::Char('j'), KeyCode::Char('k')),
        (KeyCode::PageDown, KeyCode::PageUp),
        (KeyCode::Char(' '), KeyCode::PageUp),
        (KeyCode::End, KeyCode::Home),
        (KeyCode::Char('G'), KeyCode::Char('g')),
    ] {
        stage.press(there);
        stage.wait(KEY_GUARD_MS);
        assert_ne!(stage.screen(), top, "{there:?}");
        for _ in 0..99 {
            stage.press(there);
        }
        stage.press(back);
        stage.wait(KEY_GUARD_MS);
        let near_the_end = stage.screen();
        stage.press(there);
        stage.wait(KEY_GUARD_MS);
        assert_ne!(stage.screen(), near_the_end, "{back:?} counts at once");
        for _ in 0..99 {
            stage.press(back);
        }
        stage.wait(KEY_GUARD_MS);
        assert_eq!(stage.screen().lines().nth(3), top.lines().nth(3), "{back:?}");
    }
}

#[test]
fn changed_or_rewrapped_card_must_be_scrolled_again() {
    let read = |stage: &mut Stage| {
        for _ in 0..9 {
            stage.press(KeyCode::PageDown);
        }
    };
    let mut stage = long_card();
    read(&mut stage);
    replace_card(&mut stage, LONG_NAME, "ff");
    assert!(stage.screen().contains("rows 1-"), "from its beginning: {}", stage.screen());
    assert!(!sends_approval(&mut stage), "another card");
    read(&mut stage);
    stage.handle_message(Message::Resize(70, 16));
    assert!(!sends_approval(&mut stage), "other rows");
    // If the whole card fits, no scrolling is needed.
    stage.handle_message(Message::Resize(200, 60));
    assert!(!stage.screen().contains("rows 1-"));
    assert!(sends_approval(&mut stage));
}

/// A new warning counts as a change, even if the terms are the same.
#[test]
fn card_with_a_new_warning_must_be_scrolled_again() {
    let forgets_payee = |card: &mut Card| (card.payee_label, card.paid_before) = (None, None);
    let falls_short = |card: &mut Card| card.balance.as_mut().expect("a balance").after = None;
    let stays = |_card: &mut Card| {};
    for (change, warns) in
        [(&stays as &dyn Fn(&mut Card), false), (&forgets_payee, true), (&falls_short, true)]
    {
        let mut stage = long_card();
        for _ in 0..9 {
            stage.press(KeyCode::PageDown);
        }
        replace_card_with(&mut stage, LONG_NAME, "00", change);
        assert_eq!(sends_approval(&mut stage), !warns);
    }
}

/// If a letter that was typed for something else scrolls, the next letter does not decide.
#[test]
fn scroll_key_restarts_the_guard_time() {
    for (key, order) in [("y", "approve"), ("n", "deny")] {
        let mut stage = Stage::with_all_panes(SMALL);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        stage.keys("j");
        stage.wait(KEY_GUARD_MS - 1);
        stage.keys(key);
        stage.wait(PASTE_GAP_MS);
        assert!(stage.take_newest_order(order).is_none(), "{key}");
    }
}

#[test]
fn read_only_card_scrolls_too() {
    let observing = Setup { observe: true, ..Setup::default() };
    let mut stage = Stage::with_rows(observing, SMALL);
    stage.keys("a");
    stage.press(KeyCode::End);
    assert!(stage.screen().contains("card  "), "{}", stage.screen());
    let mut stage = Stage::with_all_panes(SMALL);
    stage.keys("jja");
    stage.wait(47_000);
    stage.press(KeyCode::End);
    assert!(stage.screen().contains("longer be decided: expired"), "{}", stage.screen());
    assert!(matches!(&stage.model.overlay, Some(Overlay::Card(view)) if view.scroll > 0));
}

/// The response to a key replaces the line of keys, so that the rows of the card do not move.
#[test]
fn key_hint_does_not_move_the_rows_of_the_card() {
    let mut stage = Stage::with_all_panes(SMALL);
    stage.keys("ja");
    stage.wait(KEY_GUARD_MS);
    let rows = |stage: &Stage| stage.screen().lines().take(10).collect::<Vec<_>>().join("\n");
    let before = rows(&stage);
    assert!(stage.screen().contains("scroll (j) to `today`, then y"), "{}", stage.screen());
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.screen().contains("not yet: scroll (j) to `today`"), "{}", stage.screen());
    assert_eq!(rows(&stage), before);
    stage.wait(KEY_GUARD_MS);
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("type digits"), "{}", stage.screen());
    assert_eq!(rows(&stage), before);
    // The rows after `today` need not be visible before an approval.
    stage.press(KeyCode::PageDown);
    stage.wait(KEY_GUARD_MS);
    assert!(!stage.screen().contains("scroll ("), "{}", stage.screen());
}
