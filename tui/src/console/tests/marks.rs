//! Filters, marks, and decisions about several requests.

use bursar_control::answers::{Answer, DecidedAnswer, RequestAnswer};
use bursar_control::grammar::Order;
use bursar_core::card::{Card, HoldReason, PaidBefore};
use bursar_core::codes::Code;
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

/// Answers all decisions until none is left; returns their digits.
fn answer_all(stage: &mut Stage, status: &str) -> Vec<String> {
    let mut answered = Vec::new();
    loop {
        let decisions = take_decisions(stage);
        if decisions.is_empty() {
            return answered;
        }
        for (call, _verb, digits) in decisions {
            stage.answer(call, decided(status));
            answered.push(digits);
        }
    }
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

#[test]
fn marked_requests_are_denied_by_one_key_each_by_its_own_command() {
    let mut stage = stage_with(several(4));
    stage.keys("   ");
    assert!(stage.screen().contains("3 marked, 4 waiting"), "{}", stage.screen());
    stage.keys("D");
    let shown = stage.screen();
    assert!(shown.contains("Deny 3 requests?"), "{shown}");
    assert!(shown.contains("3 requests of 1 agent") && shown.contains("4.500000 USDC"), "{shown}");
    // Neither an early key nor any other key decides.
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    for key in ["a", "n", "x"] {
        stage.wait(KEY_GUARD_MS);
        stage.keys(key);
        stage.wait(PASTE_GAP_MS);
        assert!(take_decisions(&mut stage).is_empty(), "{key}");
        if key == "n" {
            stage.keys("D");
        }
    }
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "denied"), ["01", "02", "03"]);
    assert!(stage.screen().contains("Denied 3 requests."), "{}", stage.screen());
    assert!(stage.model.marks.is_empty() && stage.model.overlay.is_none());
}

#[test]
fn star_marks_what_the_filter_shows_and_hidden_marks_are_left_out() {
    let mut stage = stage_with(several(5));
    stage.keys("/ab02");
    stage.press(KeyCode::Enter);
    stage.keys("*");
    stage.press(KeyCode::Esc);
    stage.keys("/ab03");
    stage.press(KeyCode::Enter);
    stage.keys("*");
    assert!(stage.screen().contains("2 marked"), "{}", stage.screen());
    stage.keys("D");
    let shown = stage.screen();
    assert!(shown.contains("Deny 1 request?"), "{shown}");
    assert!(shown.contains("hidden by the filter: 0123ab02"), "{shown}");
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "denied"), ["03"]);
    // A second star removes the marks of the shown rows.
    stage.press(KeyCode::Esc);
    stage.keys("*");
    assert_eq!(stage.model.marks.len(), 4);
    stage.keys("*");
    assert!(stage.model.marks.is_empty());
}

#[test]
fn approval_leaves_out_what_must_be_read_alone_and_names_it() {
    let mut requests = several(8);
    let card = |requests: &mut Vec<RequestAnswer>, at: usize, change: fn(&mut Card)| {
        change(requests[at].card.as_mut().unwrap());
    };
    card(&mut requests, 1, |card| card.type_amount = true);
    card(&mut requests, 2, |card| card.paid_before = None);
    card(&mut requests, 3, |card| card.obstacle = Some("Exceeds per-request maximum".into()));
    card(&mut requests, 4, |card| card.unpriced = true);
    requests[5].quote_age_ms = Some(31_000);
    requests[6].expires_in_ms = Some(3_000);
    let mut stage = stage_with(requests.clone());
    stage.keys("*A");
    let shown = stage.screen();
    assert!(shown.contains("Approve 3 requests?"), "{shown}");
    for line in [
        "needs its amount typed: 0123ab02, 0123ab05",
        "first approved payment to its payee: 0123ab03",
        "cannot be approved now: 0123ab04",
        "its quote is older than 30 s: 0123ab06",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // One expires and one changes while the card is open.
    requests[0].card.as_mut().unwrap().digest = "ff".repeat(32);
    stage.wait(3_000);
    requests.remove(6);
    list(&mut stage, requests);
    let shown = stage.screen();
    assert!(shown.contains("changed since it was marked: 0123ab01"), "{shown}");
    assert!(shown.contains("expired: 0123ab07"), "{shown}");
    assert!(shown.contains("The requests changed while the card was open"), "{shown}");
    // The change restarts the pause before an approval.
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(take_decisions(&mut stage).is_empty());
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "signed"), ["08"]);
    // What ended or changed was named, so its mark is gone; the others can still be denied.
    let marked: Vec<&str> = stage.model.marks.keys().map(|id| id.get(6..8).unwrap()).collect();
    assert_eq!(marked, ["02", "03", "04", "05", "06"]);
}

/// Nothing opens while a filter is typed, so that no typed letter answers a question.
#[test]
fn nothing_opens_while_a_filter_is_typed() {
    let mut stage = stage_with(several(2));
    stage.keys(":status");
    stage.press(KeyCode::Enter);
    let (call, _) = stage.take_newest_order("status").unwrap();
    stage.keys("/ab");
    stage.answer(call, Ok(Answer::Status(fixtures::status())));
    assert!(stage.model.overlay.is_none());
    stage.press(KeyCode::Enter);
    assert!(stage.model.overlay.is_some());
}

#[test]
fn large_sum_must_be_typed() {
    let mut stage = stage_with(several(4));
    stage.keys("*A");
    assert!(stage.screen().contains("Type the sum to approve them (6.00)"), "{}", stage.screen());
    press_alone(&mut stage, 'y');
    assert!(take_decisions(&mut stage).is_empty());
    assert!(stage.screen().contains("Type the sum first: 6.00."), "{}", stage.screen());
    stage.wait(KEY_GUARD_MS);
    stage.keys("5.00");
    press_alone(&mut stage, 'y');
    assert!(stage.screen().contains("The sum is 6.00, not 5.00."), "{}", stage.screen());
    for _digit in 0..4 {
        stage.press(KeyCode::Backspace);
    }
    stage.keys("6.00");
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "signed"), ["01", "02", "03", "04"]);
    // A denial needs no sum.
    let mut stage = stage_with(several(4));
    stage.keys("*D");
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "denied").len(), 4);
}

/// A mark belongs to the request, not to the row.
#[test]
fn mark_stays_with_its_request_when_the_list_changes() {
    let mut stage = stage_with(several(3));
    stage.keys("j ");
    let mut requests = several(3);
    requests.insert(0, held(9, 5_000, is_known));
    list(&mut stage, requests);
    stage.keys("sD");
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "denied"), ["02"]);
}

#[test]
fn failures_are_named_and_a_lost_connection_ends_the_run() {
    let mut stage = stage_with(several(3));
    stage.keys("*D");
    press_alone(&mut stage, 'y');
    let decisions = take_decisions(&mut stage);
    stage.answer(decisions[0].0, decided("denied"));
    let gone = Fault::because(Code::AlreadyDecided, "0123ab02 was approved by console.");
    stage.answer(decisions[1].0, Err(gone));
    stage.keys("D");
    assert!(stage.model.overlay.is_none(), "the results of the last decision are missing");
    stage.answer(decisions[2].0, decided("denied"));
    let shown = stage.screen();
    assert!(shown.contains("Denied 2 of 3 requests."), "{shown}");
    assert!(shown.contains("0123ab02: 0123ab02 was approved by console."), "{shown}");

    let mut stage = stage_with(several(3));
    stage.keys("*D");
    press_alone(&mut stage, 'y');
    take_decisions(&mut stage);
    let fault = Fault::new(Code::EngineDown);
    stage.handle_message(crate::console::update::Message::Lost(fault));
    assert!(stage.screen().contains("Connection lost before the engine answered"));
    assert!(stage.model.marked_run.is_none());
}

#[test]
fn five_hundred_requests_are_denied_by_few_keys() {
    let mut requests = Vec::new();
    for number in 0..500u32 {
        let mut one = held(1, 700_000, is_known);
        one.id = format!("{number:08x}-4567-4890-8bcd-ef0123456789");
        let card = one.card.as_mut().unwrap();
        card.id = one.id.parse().unwrap();
        card.agent_name = format!("agent {}", number % 25).parse().unwrap();
        requests.push(one);
    }
    let mut stage = stage_with(requests);
    stage.keys("*D");
    assert!(stage.screen().contains("500 requests of 25 agents"), "{}", stage.screen());
    press_alone(&mut stage, 'y');
    let (mut answered, mut most) = (0, 0);
    while answered < 500 {
        let sent: Vec<(u64, Order)> = stage.sent.drain(..).collect();
        let denials = sent.iter().filter(|(_call, order)| matches!(order, Order::Deny(_)));
        most = most.max(denials.count());
        assert!(!sent.is_empty(), "nothing is sent after {answered} answers");
        for (call, order) in sent {
            match order {
                Order::Deny(_) => {
                    stage.answer(call, decided("denied"));
                    answered += 1;
                }
                Order::Watch(_) => {}
                _query => stage.answer(call, Err(Fault::new(Code::Busy))),
            }
        }
    }
    assert!(most <= 4, "few are in flight at once, not {most}");
    assert_eq!(answered, 500);
    assert!(stage.screen().contains("Denied 500 requests."), "{}", stage.screen());
}

/// Escape and the freeze keys stop what was not sent, and the result says how many.
#[test]
fn decisions_that_were_not_sent_can_be_stopped() {
    for stop in ["esc", "^x"] {
        let mut stage = stage_with(several(20));
        stage.keys("*D");
        press_alone(&mut stage, 'y');
        // A request of the run cannot be decided a second time.
        stage.keys("a");
        assert!(stage.screen().contains("is being sent with others"), "{}", stage.screen());
        stage.press(KeyCode::Esc);
        stage.keys("q");
        assert!(stage.screen().contains("esc stops the rest"), "{}", stage.screen());
        assert!(!stage.intents.contains(&"Quit".to_owned()));
        match stop {
            "esc" => stage.press(KeyCode::Esc),
            _keys => {
                stage.control('x');
                stage.control('x');
            }
        }
        let sent = take_decisions(&mut stage);
        assert_eq!(sent.len(), 4, "{stop}");
        for (call, _verb, _digits) in sent {
            stage.answer(call, decided("denied"));
        }
        assert!(take_decisions(&mut stage).is_empty(), "{stop}");
        let said = "Denied 4 of 20 requests. 16 were stopped before they were sent.";
        assert!(stage.screen().contains(said), "{}", stage.screen());
    }
}

/// A group never covers a request whose card warns: each must be read alone.
#[test]
fn approval_leaves_out_every_card_with_a_warning() {
    type Change = fn(&mut Card);
    let changes: [Change; 4] = [
        |card| card.hold = HoldReason::ResourceOutsideAllowList,
        |card| card.balance.as_mut().unwrap().after = None,
        |card| card.terms.address = "0x0000000000000000000000000000000000000001".into(),
        |card| card.paid_before.as_mut().unwrap().approved = 0,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut requests = several(2);
        change(requests[1].card.as_mut().unwrap());
        let mut stage = stage_with(requests);
        stage.keys("*A");
        assert!(stage.screen().contains("Approve 1 request?"), "{number}: {}", stage.screen());
        press_alone(&mut stage, 'y');
        assert_eq!(answer_all(&mut stage, "signed"), ["01"], "{number}");
    }
}

/// On a card whose rows do not fit, a group is approved only after all of them were visible.
#[test]
fn approval_needs_every_row_and_an_open_wallet() {
    let mut requests = several(3);
    for number in 0..40u8 {
        let mut other = held(10 + number, 700_000, is_known);
        other.card.as_mut().unwrap().agent_name =
            format!("agent {number} with a name").parse().unwrap();
        other.card.as_mut().unwrap().type_amount = number % 2 == 0;
        requests.push(other);
    }
    requests.iter_mut().for_each(|request| request.card.as_mut().unwrap().usd = Usd(1));
    let mut stage = Stage::with_all_panes((60, 16));
    list(&mut stage, requests);
    stage.keys("*A");
    press_alone(&mut stage, 'y');
    assert!(take_decisions(&mut stage).is_empty(), "{}", stage.screen());
    assert!(stage.screen().contains("scroll (j) to the end"), "{}", stage.screen());
    for _row in 0..30 {
        stage.keys("j");
    }
    stage.model.server.status.as_mut().unwrap().wallet.locked = true;
    press_alone(&mut stage, 'y');
    assert!(take_decisions(&mut stage).is_empty() && stage.screen().contains("wallet is locked"));
    stage.model.server.status.as_mut().unwrap().wallet.locked = false;
    press_alone(&mut stage, 'y');
    assert_eq!(answer_all(&mut stage, "signed").len(), 23, "{}", stage.screen());
}

#[test]
fn observer_marks_and_decides_nothing() {
    let setup = crate::console::model::Setup { observe: true, ..Default::default() };
    let mut stage = Stage::with_rows(setup, SIZE);
    stage.keys("* AD");
    assert!(stage.model.marks.is_empty() && stage.model.overlay.is_none());
    stage.keys("/ab02");
    assert!(stage.screen().contains("/ab02"), "an observer may filter");
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

/// Two requests can have the same payee, but the first copy of the second one copies that payee, too.
#[test]
fn copy_key_begins_again_on_another_row_with_the_same_payee() {
    let mut stage = stage_with(several(2));
    let payee = |stage: &Stage, row: usize| stage.model.server.queue[row].request.payee.clone();
    assert_eq!(payee(&stage, 0), payee(&stage, 1));
    stage.keys("cjc");
    let last = stage.intents.last().unwrap();
    assert_eq!(last, &format!("Copy({:?})", payee(&stage, 1)));
}
