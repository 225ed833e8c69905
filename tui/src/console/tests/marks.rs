//! Filters and copies.

use bursar_control::answers::{Answer, DecidedAnswer, RequestAnswer};
use bursar_control::grammar::Order;
use bursar_core::card::{Card, PaidBefore};
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use crossterm::event::KeyCode;

use super::{Stage, held};
use crate::console::model::PASTE_GAP_MS;
use crate::console::model::Pane;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::server::Topic;
use crate::oneshot::tests::fixtures;

const SIZE: (u16, u16) = (100, 30);

/// Makes a card that can be approved together with others.
fn is_known(card: &mut Card) {
    card.paid_before = Some(PaidBefore {
        times: 1,
        approved: 1,
        first: Some("2026-01-01T00:00:00Z".into()),
        last: Some("2026-01-01T00:00:00Z".into()),
        usd: Usd(1_000_000),
    });
    card.usd = Usd(1_500_000);
    card.typing_threshold = Usd(5_000_000);
}

/// Returns a console with these pending requests.
fn stage_with(requests: Vec<RequestAnswer>) -> Stage {
    let mut stage = Stage::with_all_panes(SIZE);
    list(&mut stage, requests);
    stage
}

/// Delivers a new list of pending requests.
fn list(stage: &mut Stage, requests: Vec<RequestAnswer>) {
    stage.model.mark_stale(&[Topic::Requests]);
    stage.wait(1_000);
    let (call, _) = stage.take_newest_order("requests").expect("a query");
    stage.answer(call, Ok(Answer::Requests { requests }));
}

fn several(count: u8) -> Vec<RequestAnswer> {
    (1..=count).map(|number| held(number, 700_000, is_known)).collect()
}

/// Presses a key that decides, alone and after the pause.
fn press_alone(stage: &mut Stage, key: char) {
    stage.wait(KEY_GUARD_MS);
    stage.keys(&key.to_string());
    stage.wait(PASTE_GAP_MS);
}

/// Removes and returns the sent decisions: call, verb and the two digits in which the ids differ.
fn take_decisions(stage: &mut Stage) -> Vec<(u64, &'static str, String)> {
    let digits = |id: &str| id.get(6..8).unwrap().to_owned();
    let mut taken = Vec::new();
    stage.sent.retain(|(call, order)| match order {
        Order::Approve(approve) => {
            assert!(approve.yes && approve.card.is_some() && approve.confirm.is_none());
            taken.push((*call, "approve", digits(&approve.id)));
            false
        }
        Order::Deny(deny) => {
            taken.push((*call, "deny", digits(deny.single_id().unwrap())));
            false
        }
        _other => true,
    });
    taken
}

fn decided(status: &str) -> Result<Answer, Fault> {
    Ok(Answer::Decided(DecidedAnswer { ..fixtures::decided(status) }))
}

#[test]
fn filter_narrows_a_list_as_it_is_typed() {
    let mut stage = Stage::with_all_panes((80, 24));
    list(&mut stage, several(3));
    stage.keys("/AB02");
    let shown = stage.screen();
    assert!(shown.contains("1 Approvals /AB02") && shown.contains("\n/AB02"), "{shown}");
    assert!(shown.contains("0123ab02") && !shown.contains("0123ab01"), "{shown}");
    stage.press(KeyCode::Enter);
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("Request 0123ab02"), "{}", stage.screen());
    stage.press(KeyCode::Esc);
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("0123ab01"), "escape shows every row again");

    stage.keys("/!ab02");
    assert!(!stage.screen().contains("0123ab02") && stage.screen().contains("0123ab03"));
    stage.press(KeyCode::Backspace);
    stage.keys("0");
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("0123ab02"));
    stage.keys("/nothing like it");
    assert!(stage.screen().contains("No row matches the filter"), "{}", stage.screen());
    // Letters are typed, and decide nothing.
    stage.keys("adADy*");
    stage.wait(KEY_GUARD_MS);
    assert!(stage.model.overlay.is_none() && take_decisions(&mut stage).is_empty());
}

#[test]
fn every_list_and_the_help_can_be_filtered() {
    let mut stage = stage_with(several(3));
    for pane in ["2", "3", "4", "5", "6"] {
        stage.keys(pane);
        let before = stage.screen();
        stage.keys("/xyzzy");
        assert!(stage.screen().contains("No row matches the filter"), "{pane}: {}", stage.screen());
        stage.press(KeyCode::Esc);
        assert_eq!(stage.screen(), before, "{pane}");
    }
    stage.keys("?/freeze");
    let shown = stage.screen();
    assert!(shown.contains("Help /freeze") && shown.contains("freeze every agent"), "{shown}");
    assert!(!shown.contains("Next pane"), "{shown}");
    stage.press(KeyCode::Enter);
    stage.press(KeyCode::Esc);
    stage.keys("?");
    assert!(stage.screen().contains("Next pane"), "a closed help forgets its filter");
}

/// After a decision the cursor stays at its place, where the next request is.
#[test]
fn cursor_keeps_its_place_after_a_decision() {
    let mut stage = stage_with(several(4));
    stage.keys("jd");
    press_alone(&mut stage, 'y');
    let decisions = take_decisions(&mut stage);
    assert_eq!(decisions.len(), 1);
    stage.answer(decisions[0].0, decided("denied"));
    assert_eq!(stage.model.selected_row(Pane::Approvals), 1);
    stage.keys("a");
    assert!(matches!(&stage.model.overlay, Some(Overlay::Card(card)) if card.id.contains("ab03")));
}

#[test]
fn copy_key_offers_each_text_of_a_request_in_turn() {
    let mut stage = stage_with(several(2));
    let card = stage.model.server.queue[0].request.card.clone().unwrap();
    let texts = [card.terms.payee.clone(), card.id.to_string(), card.digest.clone()];
    for open in ["", "a", "d"] {
        stage.keys(open);
        for text in texts.iter().chain(&texts[..1]) {
            stage.keys("c");
            assert_eq!(stage.intents.last().unwrap(), &format!("Copy({text:?})"), "{open}");
        }
        assert!(stage.screen().contains("c again: id") || !open.is_empty(), "{}", stage.screen());
        // After a while the key begins again.
        stage.wait(6_000);
        stage.keys("c");
        assert_eq!(stage.intents.last().unwrap(), &format!("Copy({:?})", texts[0]));
        stage.wait(6_000);
        stage.press(KeyCode::Esc);
    }
    // `y` only confirms.
    let before = stage.intents.len();
    stage.keys("y");
    assert_eq!(stage.intents.len(), before);
}
