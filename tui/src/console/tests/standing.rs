//! What is shown where something is amiss: problems first, old figures as old ones, unknown ones with their
//! reason, and no key that would do nothing.

use bursar_core::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::{Stage, feed};
use crate::console::model::Setup;
use crate::console::model::server::Topic;
use crate::console::theme::{Palette, Theme};
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;

const SIZE: (u16, u16) = (80, 24);

fn bar(stage: &Stage) -> String {
    let screen = stage.screen();
    screen.split('\n').rev().nth(1).unwrap().to_owned()
}

fn gone(stage: &mut Stage) {
    stage.take(Message::Lost(Fault::new(Code::EngineDown)));
}

#[test]
fn without_an_engine_nothing_looks_live_and_nothing_is_offered_that_needs_one() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut stage = Stage::full(size);
        gone(&mut stage);
        for key in "123456".chars() {
            stage.keys(&key.to_string());
            let screen = stage.screen();
            let title = screen.lines().find(|line| line.contains(&format!("> {key} "))).unwrap();
            assert!(title.contains("old"), "{title}");
            assert!(!bar(&stage).contains("open") && !bar(&stage).contains("command"), "{screen}");
            assert!(!screen.contains("WAITING") && !screen.contains("r asks again"), "{screen}");
        }
        stage.keys("1");
        let screen = stage.screen();
        assert!(screen.contains("not known") && !screen.contains("12:34"), "{screen}");
        stage.press(KeyCode::Enter);
        stage.wait(1_000);
        assert!(!bar(&stage).contains("approve") && !bar(&stage).contains("deny"));
        assert!(!stage.screen().contains("12:3"), "{}", stage.screen());
        // It is back: what it says is true.
        stage.press(KeyCode::Esc);
        stage.take(Message::Connected);
        assert!(bar(&stage).contains("enter open") && !stage.screen().contains(", old"));
    }
}

#[test]
fn that_nothing_waits_is_said_only_where_nothing_is_amiss() {
    let mut stage = Stage::full(SIZE);
    stage.model.server.queue.clear();
    assert!(stage.screen().contains("Nothing waits for you."));
    let well = stage.model.server.status.clone().unwrap();
    for (change, word) in [
        (|status| status.wallet.locked = true, "The wallet is locked"),
        (|status| status.frozen = true, "Every agent is frozen"),
        (|status| status.server.running = false, "No agent is heard"),
        (|status| status.untrusted = Some("It does not fit.".into()), "It does not fit."),
    ] as [(fn(&mut bursar_core::answers::StatusAnswer), &str); 4]
    {
        let mut status = well.clone();
        change(&mut status);
        stage.model.server.status = Some(status);
        let screen = stage.screen();
        assert!(screen.contains(word) && !screen.contains("Nothing waits"), "{screen}");
    }
    stage.model.server.status = Some(well);
    gone(&mut stage);
    assert!(stage.screen().contains("nobody knows what waits"), "{}", stage.screen());
}

#[test]
fn opening_is_offered_where_there_is_something_to_open() {
    let mut stage = Stage::full(SIZE);
    for key in "123456".chars() {
        stage.keys(&key.to_string());
        assert!(bar(&stage).contains("enter open"), "{key}: {}", stage.screen());
    }
    let server = &mut stage.model.server;
    server.queue.clear();
    (server.agents, server.policies, server.sent) = (None, None, None);
    server.balances = None;
    for key in "12346".chars() {
        stage.keys(&key.to_string());
        assert!(!bar(&stage).contains("enter open"), "{key}: {}", stage.screen());
    }
}

#[test]
fn every_entry_of_the_journal_is_opened_whole() {
    for size in [(60, 16), (120, 40)] {
        let mut stage = Stage::full(size);
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
        stage.model.server.happened(entries, stage.now_ms);
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

/// Nobody is asked about what a policy refuses, but it is said: quietly.
#[test]
fn a_refused_payment_is_told_of_where_requests_are_waited_for() {
    let mut stage = Stage::full(SIZE);
    let mut refused = feed(42, 1);
    refused[0].kind = "payment.refused".into();
    let rings = stage.intents.len();
    let mut told = |stage: &mut Stage, seq: u64, count: u64| {
        let entries = (seq..seq + count).map(|seq| {
            let mut row = refused[0].clone();
            row.seq = seq;
            row
        });
        stage.frame(bursar_core::wire::ToClient::Entries { id: 7, entries: entries.collect() });
    };
    told(&mut stage, 41, 1);
    let screen = stage.screen();
    assert!(screen.contains("Refused: 1.500000 USDC from report bot. 5 shows why."), "{screen}");
    assert!(screen.contains("(1 refused)"), "{screen}");
    told(&mut stage, 42, 2);
    assert!(
        stage.screen().contains("Refused: 2 payments.") && stage.screen().contains("(3 refused)")
    );
    assert_eq!(stage.intents.len(), rings, "it does not ring");
    stage.keys("5");
    told(&mut stage, 44, 1);
    stage.keys("1");
    assert!(!stage.screen().contains("refused)"), "{}", stage.screen());
    // What failed is read first.
    stage.model.complain("It was not carried out.");
    told(&mut stage, 45, 1);
    assert!(
        stage.screen().contains("It was not carried out.")
            && stage.screen().contains("(1 refused)")
    );
}

#[test]
fn news_goes_when_something_else_is_news() {
    let said = |stage: &Stage| stage.screen().contains("0123: approved and signed");
    let tell = |stage: &mut Stage| {
        stage.model.note("0123: approved and signed");
        stage.wait(100);
        assert!(said(stage));
    };
    let mut stage = Stage::full(SIZE);
    tell(&mut stage);
    let now = stage.now_ms;
    let requests = vec![super::held(9, 500_000, |_card| {})];
    stage.model.server.learn(Topic::Requests, Answer::Requests { requests }, now);
    stage.wait(1);
    assert!(!said(&stage), "under another request that waits");
    tell(&mut stage);
    gone(&mut stage);
    assert!(!said(&stage), "of an engine that has gone");
    stage.take(Message::Connected);
    assert!(stage.screen().contains("Connected to the engine again."));
    gone(&mut stage);
    assert!(!stage.screen().contains("Connected to the engine again."), "{}", stage.screen());
    tell(&mut stage);
    assert!(stage.model.wake_ms().is_some_and(|wake| wake <= stage.now_ms + 10_000));
    stage.wait(10_000);
    assert!(!said(&stage));
}

/// What was asked before there was a wallet is asked again once there is one.
#[test]
fn balances_follow_the_wallet() {
    let mut stage = Stage::full(SIZE);
    let look = |stage: &mut Stage, wallet| {
        stage.model.mark_stale(&[Topic::Status]);
        stage.wait(400);
        let (id, _) = stage.took("status").unwrap();
        let status = bursar_core::answers::StatusAnswer { wallet, ..fixtures::status() };
        stage.answer(id, Ok(Answer::Status(status)));
        stage.wait(400);
    };
    look(&mut stage, fixtures::no_wallet());
    stage.sent.clear();
    stage.model.server.balances = None;
    stage.model.server.failed.insert(Topic::Balances, "There is no wallet yet.".into());
    stage.model.purposes.clear();
    look(&mut stage, fixtures::wallet());
    let (id, _) = stage.took("balances").expect("asked again");
    stage.answer(id, Ok(Answer::Balances { addresses: Vec::new() }));
    stage.keys("2");
    assert!(!stage.screen().contains("There is no wallet"), "{}", stage.screen());
    assert!(stage.screen().contains("There is no address yet."), "{}", stage.screen());
}

#[test]
fn what_an_address_holds_is_opened_with_its_reasons() {
    let mut stage = Stage::full(SIZE);
    stage.keys("2");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.took("balances").unwrap();
    stage.answer(id, Ok(Answer::Balances { addresses: vec![fixtures::holdings("EVIL")] }));
    assert!(stage.screen().contains("gave no usable balance"), "{}", stage.screen());
}

/// The row that is looked at has the first word.
#[test]
fn an_unknown_amount_says_why() {
    let mut stage = Stage::full(SIZE);
    stage.keys("2");
    assert!(stage.screen().contains("! Base: The token does not say how many decimals it has."));
    stage.press(KeyCode::End);
    assert!(stage.screen().contains("! Ethereum: No endpoint of Ethereum"));
    assert!(stage.screen().contains("r asks again."));
    let known = fixtures::holdings("EVIL");
    let networks = vec![known.networks[0].clone()];
    let mut known = bursar_core::answers::HoldingsAnswer { networks, ..known };
    known.networks[0].balances.truncate(2);
    let answer = Answer::Balances { addresses: vec![known] };
    stage.model.server.learn(Topic::Balances, answer, stage.now_ms);
    assert!(!stage.screen().contains("asks again"), "{}", stage.screen());
}

/// Amounts and states are whole at every size that is drawn, and every column has a name.
#[test]
fn amounts_and_states_are_never_cut() {
    for size in [(60, 16), (80, 24), (100, 30), (120, 40), (200, 60)] {
        let mut stage = Stage::full(size);
        let amount = "123456789.000000 USDC";
        stage.model.server.queue[0].request.amount = amount.into();
        let mut rows = stage.model.server.sent.clone().unwrap();
        rows[0].amount = Some("123456789.000000".into());
        rows[0].status = "submitted".into();
        stage.model.server.sent = Some(rows);
        let mut entries = feed(41, 1);
        entries[0].amount = Some(amount.into());
        entries[0].kind = "settlement.reported".into();
        stage.model.server.happened(entries, stage.now_ms);
        for (keys, state) in [("1", "12:34"), ("6", "submitted"), ("5", "settlement reported")] {
            stage.keys(keys);
            let screen = stage.screen();
            let here = screen.lines().find(|line| line.contains(amount) && line.contains(state));
            assert!(here.is_some(), "{keys} at {size:?}:\n{screen}");
            assert!(screen.contains("AMOUNT"), "{screen}");
        }
    }
}

#[test]
fn the_pane_that_has_the_keys_is_marked_without_any_colour() {
    let theme = Theme { palette: Palette::Mono, ascii: true };
    for size in [(60, 16), (120, 40)] {
        let setup = Setup { theme, ..Setup::default() };
        let mut stage = Stage::filled(setup, size);
        for (key, title) in [("1", "> 1 Approvals"), ("4", "> 4 Policies"), ("6", "> 6 Sent")] {
            stage.keys(key);
            assert_eq!(stage.screen().matches("- > ").count(), 1, "{}", stage.screen());
            assert!(stage.screen().contains(title), "{}", stage.screen());
        }
    }
}

/// Such a note may say what became of money.
#[test]
fn a_long_note_is_read_whole_and_hides_no_key_of_a_dialog() {
    let mut stage = Stage::full((60, 16));
    let end = "that.";
    stage.model.complain(format!(
        "Something long happened that takes more than a line, or so it seems: {end}"
    ));
    assert!(stage.screen().contains(end), "{}", stage.screen());
    stage.keys("?");
    assert!(bar(&stage).contains("esc close"), "{}", stage.screen());
}

#[test]
fn it_says_whose_engine_it_is() {
    assert!(Stage::full(SIZE).screen().contains("engine: attached"));
    let owner = Setup { owner: true, ..Setup::default() };
    assert!(Stage::filled(owner, SIZE).screen().contains("engine: inside"));
}

/// In its line a command is typed without the program's name.
#[test]
fn commands_are_shown_as_they_are_typed_here() {
    let mut stage = Stage::full(SIZE);
    stage.keys(":thaw");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.took("thaw").unwrap();
    stage.answer(id, Err(Fault::new(Code::WalletLocked)));
    assert!(stage.screen().contains("run `:wallet open`."), "{}", stage.screen());
    gone(&mut stage);
    assert!(stage.screen().contains("`bursar engine` starts one"), "that is for a shell");
}
