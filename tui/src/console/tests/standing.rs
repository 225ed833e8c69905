//! The screens of problems: problems come first, outdated figures are marked as old, unknown figures have a reason, and
//! no key without an effect is offered.

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::{Stage, feed};
use crate::console::model::Setup;
use crate::console::model::server::Topic;
use crate::console::theme::ColorUse;
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;

const SIZE: (u16, u16) = (80, 24);

fn bar(stage: &Stage) -> String {
    let screen = stage.screen();
    screen.split('\n').rev().nth(1).unwrap().to_owned()
}

fn lose_connection(stage: &mut Stage) {
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
}

#[test]
fn lost_engine_marks_data_as_old_and_offers_no_key_that_needs_one() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut stage = Stage::with_all_panes(size);
        lose_connection(&mut stage);
        for key in "123456".chars() {
            stage.keys(&key.to_string());
            let screen = stage.screen();
            let title = screen.lines().find(|line| line.contains(&format!("> {key} "))).unwrap();
            assert!(title.contains("old"), "{title}");
            assert!(!bar(&stage).contains("open") && !bar(&stage).contains("command"), "{screen}");
            assert!(!screen.contains("WAITING") && !screen.contains("to retry"), "{screen}");
        }
        stage.keys("1");
        let screen = stage.screen();
        assert!(screen.contains("not known") && !screen.contains("12:34"), "{screen}");
        stage.press(KeyCode::Enter);
        stage.wait(1_000);
        assert!(!bar(&stage).contains("approve") && !bar(&stage).contains("deny"));
        assert!(!stage.screen().contains("12:3"), "{}", stage.screen());
        // After a reconnect the figures are current.
        stage.press(KeyCode::Esc);
        stage.handle_message(Message::Connected);
        assert!(bar(&stage).contains("enter open") && !stage.screen().contains(", old"));
    }
}

#[test]
fn empty_queue_is_reported_only_without_problems() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.model.server.queue.clear();
    assert!(stage.screen().contains("No requests are waiting."));
    let well = stage.model.server.status.clone().unwrap();
    for (change, word) in [
        (|status| status.wallet.locked = true, "The wallet is locked"),
        (|status| status.frozen = true, "Every agent is frozen"),
        (|status| status.server.running = false, "The agent server is off"),
        (|status| status.untrusted = Some("It does not match.".into()), "It does not match."),
        (|status| status.refused_before = Some("2026-01-15T00:00:00Z".into()), "2026-01-15"),
        (|status| status.disk_full = true, "less than 64 MiB free"),
        (|status| status.failed = Some("no space.".into()), "could not be written: no space."),
    ] as [(fn(&mut bursar_control::answers::StatusAnswer), &str); 7]
    {
        let mut status = well.clone();
        change(&mut status);
        stage.model.server.status = Some(status);
        let screen = stage.screen();
        assert!(screen.contains(word) && !screen.contains("No requests are waiting"), "{screen}");
    }
    stage.model.server.status = Some(well);
    lose_connection(&mut stage);
    assert!(stage.screen().contains("not known without an engine"), "{}", stage.screen());
}

#[test]
fn open_key_is_offered_only_on_a_row_that_opens() {
    let mut stage = Stage::with_all_panes(SIZE);
    for key in "123456".chars() {
        stage.keys(&key.to_string());
        assert!(bar(&stage).contains("enter open"), "{key}: {}", stage.screen());
    }
    let server = &mut stage.model.server;
    server.queue.clear();
    (server.agents, server.policies, server.history) = (None, None, None);
    server.balances = None;
    for key in "12346".chars() {
        stage.keys(&key.to_string());
        assert!(!bar(&stage).contains("enter open"), "{key}: {}", stage.screen());
    }
}

#[test]
fn opened_balance_shows_why_amounts_are_unknown() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("2");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("balances").unwrap();
    stage.answer(id, Ok(Answer::Balances { addresses: vec![fixtures::holdings("EVIL")] }));
    assert!(stage.screen().contains("gave no valid balance"), "{}", stage.screen());
}

/// The reason of the selected row is shown before the reasons of other rows.
#[test]
fn unknown_amount_shows_its_reason() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("2");
    assert!(stage.screen().contains("! Base: The token does not report its decimals."));
    stage.press(KeyCode::End);
    assert!(stage.screen().contains("! Ethereum: No endpoint of Ethereum"));
    assert!(stage.screen().contains("Press r to retry."));
    let known = fixtures::holdings("EVIL");
    let networks = vec![known.networks[0].clone()];
    let mut known = bursar_control::answers::HoldingsAnswer { networks, ..known };
    known.networks[0].balances.truncate(2);
    let answer = Answer::Balances { addresses: vec![known] };
    stage.model.server.store(Topic::Balances, answer, stage.now_ms);
    assert!(!stage.screen().contains("asks again"), "{}", stage.screen());
}

/// Amounts and states are never cut at any supported size, and every column has a name.
#[test]
fn amounts_and_states_are_never_cut() {
    for size in [(60, 16), (80, 24), (100, 30), (120, 40), (200, 60)] {
        let mut stage = Stage::with_all_panes(size);
        let amount = "123456789.000000 USDC";
        stage.model.server.queue[0].request.summary = amount.into();
        let mut rows = stage.model.server.history.clone().unwrap();
        rows[0].amount = fixtures::usdc("123456789.000000");
        rows[0].status = "submitted".parse().unwrap();
        stage.model.server.history = Some(rows);
        let mut entries = feed(41, 1);
        entries[0].amount = Some(fixtures::usdc("123456789.000000"));
        entries[0].kind = "settlement.reported".parse().unwrap();
        stage.model.server.append(entries, stage.now_ms);
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
fn focused_pane_is_marked_without_colour() {
    for size in [(60, 16), (120, 40)] {
        let setup = Setup { colors: ColorUse::Never, ascii: true, ..Setup::default() };
        let mut stage = Stage::with_rows(setup, size);
        for (key, title) in [("1", "> 1 Approvals"), ("4", "> 4 Policies"), ("6", "> 6 Payments")] {
            stage.keys(key);
            assert_eq!(stage.screen().matches("- > ").count(), 1, "{}", stage.screen());
            assert!(stage.screen().contains(title), "{}", stage.screen());
        }
    }
}

/// A note may report the result of a payment, so it must not be cut.
#[test]
fn long_note_is_shown_whole_and_never_over_the_keys_of_a_dialog() {
    let mut stage = Stage::with_all_panes((60, 16));
    let end = "that.";
    stage.model.note_failure(format!(
        "Something long happened that takes more than a line, or so it seems: {end}"
    ));
    assert!(stage.screen().contains(end), "{}", stage.screen());
    stage.keys("?");
    assert!(bar(&stage).contains("esc close"), "{}", stage.screen());
}

#[test]
fn header_shows_whether_the_engine_is_inside_or_attached() {
    assert!(Stage::with_all_panes(SIZE).screen().contains("engine: attached"));
    let owner = Setup { owner: true, ..Setup::default() };
    assert!(Stage::with_rows(owner, SIZE).screen().contains("engine: inside"));
}

/// If room is short, the address for agents is left out, because commands also show it.
#[test]
fn header_keeps_the_kind_of_engine_on_a_narrow_screen() {
    let mut stage = Stage::with_all_panes((60, 16));
    let header = |stage: &Stage| stage.screen().lines().next().unwrap().to_owned();
    assert!(header(&stage).contains("3 WAITING  engine: attached"), "{}", header(&stage));
    stage.model.server.queue.clear();
    assert!(header(&stage).contains("agents :9402  engine: attached"), "{}", header(&stage));
    stage.model.server.status.as_mut().unwrap().frozen = true;
    assert!(header(&stage).contains("FROZEN") && header(&stage).contains("engine: attached"));
}

#[test]
fn header_shows_when_the_wallet_locks() {
    for (seconds, message) in
        [(900, "locks in 15 min"), (45, "locks in under a minute"), (7_200, "locks in 2 h")]
    {
        for size in [(80, 24), (200, 60)] {
            let mut stage = Stage::with_all_panes(size);
            stage.model.server.status.as_mut().unwrap().wallet.locks_in_s = Some(seconds);
            let screen = stage.screen();
            let header = screen.lines().next().unwrap();
            assert!(header.contains("UNLOCKED") && header.contains(message), "{header}");
            assert!(
                header.contains("3 WAITING") && header.contains("engine: attached"),
                "{header}"
            );
        }
    }
    let screen = Stage::with_all_panes(SIZE).screen();
    assert!(!screen.contains("locks in"), "{screen}");
}

#[test]
fn bar_never_truncates_a_key() {
    for width in 60..100 {
        let mut stage = Stage::with_all_panes((width, 16));
        for keys in ["", "a", "\u{1b}", "?"] {
            if keys == "\u{1b}" {
                stage.press(KeyCode::Esc)
            } else {
                stage.keys(keys)
            }
            stage.wait(500);
            assert!(!bar(&stage).contains('…'), "{}", bar(&stage));
        }
    }
    let mut stage = Stage::with_all_panes((60, 16));
    stage.keys(":policy create careful");
    assert!(bar(&stage).matches('…').count() <= 1, "{}", bar(&stage));
}

#[test]
fn escape_discards_an_invalid_command_line() {
    for (key, stays) in [(KeyCode::Esc, false), (KeyCode::Enter, true)] {
        let mut stage = Stage::with_all_panes(SIZE);
        stage.keys(":agnet list");
        stage.press(KeyCode::Enter);
        let keys = bar(&stage);
        assert!(keys.contains("esc leave the line") && keys.contains("enter edit it"), "{keys}");
        stage.press(key);
        assert_eq!(stage.model.line.is_some(), stays);
        assert!(stage.model.overlay.is_none());
    }
}

/// In the console's command line, commands have no program name.
#[test]
fn hints_of_faults_are_shown_in_console_form() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys(":thaw");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("thaw").unwrap();
    stage.answer(id, Err(Fault::new(Code::WalletLocked)));
    assert!(stage.screen().contains("Try `:wallet open`."), "{}", stage.screen());
    lose_connection(&mut stage);
    assert!(stage.screen().contains("start it with `bursar engine`"), "that is for a shell");
}
