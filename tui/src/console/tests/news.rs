//! Messages about recent events are true, and disappear when they are no longer current.

use bursar_control::answers::{Answer, HistoryAnswer};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::{Stage, feed};
use crate::console::model::PASTE_GAP_MS;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::server::Topic;
use crate::console::update::Message;
use crate::oneshot::tests::{fixtures, more_fixtures};

const SIZE: (u16, u16) = (80, 24);

fn bar(stage: &Stage) -> String {
    let screen = stage.screen();
    screen.split('\n').rev().nth(1).unwrap().to_owned()
}

fn lose_connection(stage: &mut Stage) {
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
}

#[test]
fn opened_journal_entry_shows_every_field() {
    for size in [(60, 16), (120, 40)] {
        let mut stage = Stage::with_all_panes(size);
        let mut entries = feed(42, 2);
        entries.reverse();
        entries[0].detail = Some("a reason that is long ".repeat(20) + "and ends");
        entries[1].request = None;
        entries[1].changes = vec![bursar_core::change::Change {
            field: "payments.daily".into(),
            name: "max a day".into(),
            from: "10.00".into(),
            to: "100.00".into(),
            unit: "USD".into(),
            loosens: true,
        }];
        stage.model.server.append(entries, stage.now_ms);
        stage.keys("5");
        assert!(bar(&stage).contains("enter open"), "{}", stage.screen());
        stage.press(KeyCode::Enter);
        let screen = stage.screen();
        assert!(screen.contains("entry 42 of the journal") && screen.contains("api.example.com"));
        assert!(screen.contains("max a day 10.00 -> 100.00 USD"), "{screen}");
        stage.press(KeyCode::Esc);
        stage.keys("j");
        stage.press(KeyCode::Enter);
        stage.press(KeyCode::End);
        assert!(stage.screen().contains("and ends"), "{}", stage.screen());
        assert!(stage.screen().contains(":receipt"), "{}", stage.screen());
    }
}

/// A payment that a policy refuses needs no decision, so it is shown without ringing.
#[test]
fn refused_payment_is_noted_on_the_approvals_pane() {
    let mut stage = Stage::with_all_panes(SIZE);
    let mut refused = feed(42, 1);
    refused[0].kind = "payment.refused".parse().unwrap();
    let rings = stage.intents.len();
    let refuse = |stage: &mut Stage, seq: u64, count: u64| {
        let entries = (seq..seq + count).map(|seq| {
            let mut row = refused[0].clone();
            row.seq = seq;
            row
        });
        stage.frame(bursar_control::wire::ToClient::Entries { id: 7, entries: entries.collect() });
    };
    refuse(&mut stage, 41, 1);
    let screen = stage.screen();
    assert!(
        screen.contains("Refused: 1.500000 USDC from report bot. Press 5 to see why."),
        "{screen}"
    );
    assert!(screen.contains("(1 refused)"), "{screen}");
    refuse(&mut stage, 42, 2);
    assert!(
        stage.screen().contains("Refused: 2 requests.") && stage.screen().contains("(3 refused)")
    );
    assert_eq!(stage.intents.len(), rings, "it does not ring");
    stage.keys("5");
    refuse(&mut stage, 44, 1);
    stage.keys("1");
    assert!(!stage.screen().contains("refused)"), "{}", stage.screen());
    // The note of a failure remains until it was shown long enough.
    stage.model.note_failure("It was not carried out.");
    refuse(&mut stage, 45, 1);
    assert!(
        stage.screen().contains("It was not carried out.")
            && stage.screen().contains("(1 refused)")
    );
}

/// Trades appear in the panes of payments: a note shows a refusal, and the Sent pane shows their steps.
#[test]
fn trades_are_news_like_payments() {
    let mut stage = Stage::with_all_panes(SIZE);
    let mut entry = |kind: &str, seq| {
        let mut rows = feed(seq, 1);
        rows[0].kind = kind.parse().unwrap();
        stage.frame(bursar_control::wire::ToClient::Entries { id: 7, entries: rows });
        stage.wait(2_000);
        let reload = stage.take_newest_order("history");
        if let Some((id, _order)) = &reload {
            let none = HistoryAnswer { requests: vec![], more: false };
            stage.answer(*id, Ok(Answer::History(none)));
        }
        (stage.screen().contains("refused)"), reload.is_some())
    };
    assert_eq!(entry("trade.step_opened", 41), (false, true));
    assert_eq!(entry("trade.refused", 42), (true, true));
}

#[test]
fn note_disappears_when_something_newer_happens() {
    let said = |stage: &Stage| stage.screen().contains("0123: approved and signed");
    let tell = |stage: &mut Stage| {
        stage.model.note("0123: approved and signed");
        stage.wait(100);
        assert!(said(stage));
    };
    let mut stage = Stage::with_all_panes(SIZE);
    tell(&mut stage);
    let now = stage.now_ms;
    let requests = vec![super::held(9, 500_000, |_card| {})];
    stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
    stage.wait(1);
    assert!(!said(&stage), "under another request that waits");
    tell(&mut stage);
    lose_connection(&mut stage);
    assert!(!said(&stage), "of an engine that has gone");
    stage.handle_message(Message::Connected);
    assert!(stage.screen().contains("Connected to the engine again."));
    lose_connection(&mut stage);
    assert!(!stage.screen().contains("Connected to the engine again."), "{}", stage.screen());
    tell(&mut stage);
    assert!(stage.model.wake_ms().is_some_and(|wake| wake <= stage.now_ms + 10_000));
    stage.wait(10_000);
    assert!(!said(&stage));
}

/// A query that was made before there was a wallet is repeated once there is one.
#[test]
fn balances_follow_the_wallet() {
    let mut stage = Stage::with_all_panes(SIZE);
    let look = |stage: &mut Stage, wallet| {
        stage.model.mark_stale(&[Topic::Status]);
        stage.wait(400);
        let (id, _) = stage.take_newest_order("status").unwrap();
        let status = bursar_control::answers::StatusAnswer { wallet, ..fixtures::status() };
        stage.answer(id, Ok(Answer::Status(status)));
        stage.wait(400);
    };
    look(&mut stage, fixtures::no_wallet());
    stage.sent.clear();
    stage.model.server.balances = None;
    stage.model.server.query_failures.insert(Topic::Balances, Fault::new(Code::NoWallet));
    stage.model.purposes.clear();
    look(&mut stage, fixtures::wallet());
    let (id, _) = stage.take_newest_order("balances").expect("asked again");
    stage.answer(id, Ok(Answer::Balances { addresses: Vec::new() }));
    stage.keys("2");
    assert!(!stage.screen().contains("There is no wallet"), "{}", stage.screen());
    assert!(stage.screen().contains("There is no address yet."), "{}", stage.screen());
}

#[test]
fn two_keys_freeze_from_anywhere_and_one_does_not() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.control('x');
    stage.wait(2_001);
    stage.control('x');
    assert!(stage.take_newest_order("freeze").is_none());
    assert!(stage.screen().contains("Too late: nothing was frozen."), "{}", stage.screen());
    stage.control('x');
    assert!(stage.take_newest_order("freeze").is_some());
}

/// An operator may regret a yes at once: the freeze keys also cancel it.
#[test]
fn freeze_keys_work_right_after_a_yes() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.control('x');
    stage.control('x');
    assert!(stage.take_newest_order("freeze").is_some());
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_none(), "the yes did not come alone");
}

/// The hint about the second key is shown only while a second press freezes, even without an engine.
#[test]
fn freeze_hint_ends_with_its_time_or_another_key() {
    const HINT: &str = "Press ^X again";
    for gone in [false, true] {
        let mut stage = Stage::with_all_panes(SIZE);
        if gone {
            stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
        }
        stage.control('x');
        assert!(stage.screen().contains(HINT));
        let end = stage.now_ms + 2_000;
        assert!(stage.model.wake_ms().is_some_and(|wake| wake <= end));
        stage.wait(1_999);
        assert!(stage.screen().contains(HINT));
        stage.wait(1);
        assert!(!stage.screen().contains(HINT), "{}", stage.screen());
        stage.control('x');
        stage.keys("j");
        assert!(!stage.screen().contains("Too late"), "{}", stage.screen());
        // The two keys must follow each other, with no other key in between.
        stage.control('x');
        assert!(stage.screen().contains(HINT) && stage.take_newest_order("freeze").is_none());
    }
}

/// Requests of every state and the operator's own sends are one list, the newest first.
#[test]
fn payments_list_requests_and_sends_together() {
    let mut stage = Stage::with_all_panes((200, 60));
    let mut denied = more_fixtures::history_row();
    denied.id = "de000000-4567-4890-8bcd-ef0123456789".into();
    denied.created = "2026-01-01T02:00:00Z".into();
    denied.status = "denied".parse().unwrap();
    denied.payee_name = Some("Acme".parse().unwrap());
    stage.model.server.history = Some(vec![denied, more_fixtures::history_row()]);
    stage.model.server.sends = Some(vec![more_fixtures::send()]);
    stage.keys("6+");
    let screen = stage.screen();
    let at = |part: &str| screen.find(part).unwrap_or_else(|| panic!("{part}:\n{screen}"));
    assert!(at("de000000") < at("5e9d0000") && at("5e9d0000") < at("0123abcd"), "{screen}");
    assert!(at("today: paid") < at("de000000"), "{screen}");
    assert!(screen.contains("\"Acme\"") && screen.contains(" you "), "{screen}");
    assert!(screen.contains("0x5e5e5e~5e5e"), "{screen}");
    // A filter searches what the rows show.
    stage.keys("/you");
    stage.press(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("5e9d0000") && !screen.contains("de000000"), "{screen}");
    stage.press(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("The transaction is final.") && screen.contains("send 5e9d0000"));
    stage.press(KeyCode::Esc);
    stage.keys("c");
    assert_eq!(stage.intents.last().unwrap(), &format!("Copy(\"0x{}\")", "5e".repeat(32)));
    stage.press(KeyCode::Esc);
    stage.press(KeyCode::Enter);
    assert!(stage.take_newest_order("receipt").is_some());
}
