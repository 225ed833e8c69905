//! Cards open by themselves in the window of a sealed program, and never under the operator's hands.

use std::path::Path;

use bursar_control::answers::{Answer, RequestAnswer};
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::looks::{ALL_SIZES, assert_screen};
use super::{Stage, held};
use crate::console::model::card::DIALOG_GUARD_MS;
use crate::console::model::overlay::{Overlay, TextView};
use crate::console::model::server::Topic;
use crate::console::model::{PASTE_GAP_MS, Setup};
use crate::console::theme::ColorUse;
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;
use zeroize::Zeroizing;

const SIZE: (u16, u16) = (80, 24);

fn sealed() -> Setup {
    Setup { exports: Some("/stick/exports".into()), owner: true, ..Setup::default() }
}

/// Returns a sealed window in which no request waits.
fn empty() -> Stage {
    let mut stage = Stage::with_rows(sealed(), SIZE);
    list(&mut stage, Vec::new());
    stage.model.overlay = None;
    stage
}

/// Answers the next query of the requests.
fn list(stage: &mut Stage, requests: Vec<RequestAnswer>) {
    stage.model.mark_stale(&[Topic::Requests]);
    stage.wait(1_000);
    let (call, _order) = stage.take_newest_order("requests").unwrap();
    stage.answer(call, Ok(Answer::Requests { requests }));
}

/// Returns a request that was made in this second.
fn made(number: u8, second: u8) -> RequestAnswer {
    let created = format!("2026-01-01T00:00:{second:02}Z");
    RequestAnswer { created, ..held(number, 700_000, |_card| {}) }
}

/// Returns the number of the request whose card is open.
fn open_card(stage: &Stage) -> Option<u8> {
    let Some(Overlay::Card(view)) = &stage.model.overlay else { return None };
    u8::from_str_radix(view.id.get(6..8)?, 16).ok()
}

#[test]
fn row_approvals_in_dialogs_the_oldest_card_opens_and_later_leaves_it_in_the_queue() {
    let mut stage = empty();
    list(&mut stage, vec![made(11, 30), made(12, 10), made(13, 20)]);
    for expected in [12, 13, 11] {
        assert_eq!(open_card(&stage), Some(expected));
        assert!(stage.screen().contains("esc later"), "{}", stage.screen());
        stage.wait(DIALOG_GUARD_MS);
        stage.press(KeyCode::Esc);
    }
    // Each was left once. None opens by itself again, and all wait in the queue.
    assert_eq!(open_card(&stage), None);
    assert_eq!(stage.model.pending_count(), 3);
    list(&mut stage, vec![made(11, 30), made(12, 10), made(13, 20), made(14, 5)]);
    assert_eq!(open_card(&stage), Some(14));
}

#[test]
fn five_hundred_cards_are_left_with_one_key() {
    let mut stage = empty();
    let many = (4..=253).map(|number| made(number, number % 60)).collect();
    list(&mut stage, many);
    // It was made in the first second, like 120, 180 and 240.
    assert_eq!(open_card(&stage), Some(60));
    assert!(stage.screen().contains("l later, all"), "{}", stage.screen());
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("l");
    assert_eq!(open_card(&stage), None);
    assert!(stage.screen().contains("250 requests are left in the queue"), "{}", stage.screen());
    stage.wait(60_000);
    assert_eq!(open_card(&stage), None);
}

#[test]
fn in_any_other_console_no_card_opens_by_itself() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.wait(60_000);
    assert_eq!(open_card(&stage), None);
    // There the key for all cards does nothing.
    stage.keys("a");
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("l");
    assert!(open_card(&stage).is_some());
}

#[test]
fn row_approvals_in_dialogs_ignore_keys_typed_before_they_opened() {
    let mut stage = empty();
    list(&mut stage, vec![made(11, 1)]);
    stage.keys("y");
    stage.wait(DIALOG_GUARD_MS - 1);
    stage.keys("y");
    stage.press(KeyCode::Enter);
    stage.wait(DIALOG_GUARD_MS);
    stage.press(KeyCode::Enter);
    stage.handle_message(Message::Paste("y".into()));
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_none());
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_some());
}

#[test]
fn row_approvals_in_dialogs_never_open_over_words_passwords_or_where_the_operator_types() {
    // A seed's words, or another text.
    let mut stage = empty();
    let text = TextView::new("seed create", Zeroizing::new("words".to_owned()));
    stage.model.overlay = Some(Overlay::Text(text));
    list(&mut stage, vec![made(11, 1)]);
    assert!(matches!(stage.model.overlay, Some(Overlay::Text(_))));
    stage.press(KeyCode::Esc);
    assert_eq!(open_card(&stage), Some(11));
    // The command line.
    let mut stage = empty();
    stage.keys(":wallet ");
    list(&mut stage, vec![made(11, 1)]);
    assert_eq!(open_card(&stage), None);
    stage.press(KeyCode::Esc);
    assert_eq!(open_card(&stage), None, "a key was just pressed");
    stage.wait(1_000);
    assert_eq!(open_card(&stage), Some(11));
    // A password field.
    let mut stage = empty();
    stage.keys(":wallet passwd");
    stage.press(KeyCode::Enter);
    let (id, _order) = stage.take_newest_order("wallet.passwd").unwrap();
    // Before the question arrives, the operator may begin to type the password.
    list(&mut stage, vec![made(11, 1)]);
    assert_eq!(open_card(&stage), None);
    stage.frame(ToClient::Prompt { id, prompt: Prompt::Secret { what: SecretPrompt::Password } });
    stage.wait(60_000);
    assert!(matches!(stage.model.overlay, Some(Overlay::Ask(_))));
    stage.answer(id, Err(Fault::new(Code::Cancelled)));
    stage.wait(1);
    assert_eq!(open_card(&stage), Some(11));
}

/// A key that was meant for the panes or a line has no effect on a card that has just opened, not even that of esc.
#[test]
fn row_approvals_in_dialogs_ignore_every_key_until_they_are_noticed() {
    for key in ['y', 'n', 'd', 'l', 'q', 'u', 'j', 'a'] {
        let mut stage = empty();
        list(&mut stage, vec![made(11, 1), made(12, 2)]);
        stage.wait(DIALOG_GUARD_MS - 1);
        stage.keys(&key.to_string());
        stage.press(KeyCode::Esc);
        assert_eq!(open_card(&stage), Some(11), "{key}");
        // Each of them begins the time again.
        stage.wait(DIALOG_GUARD_MS - 1);
        stage.keys("y");
        stage.wait(PASTE_GAP_MS);
        assert!(stage.take_newest_order("approve").is_none(), "{key}");
        assert!(stage.take_newest_order("deny").is_none(), "{key}");
        let Some(Overlay::Card(view)) = &stage.model.overlay else { panic!("{key}") };
        assert!(!view.opened_to_deny && stage.model.orders.is_empty(), "{key}");
    }
    // Nor does a card open within a second of a key on the panes.
    let mut stage = empty();
    stage.model.mark_stale(&[Topic::Requests]);
    stage.wait(1_000);
    let (call, _order) = stage.take_newest_order("requests").unwrap();
    stage.keys("j");
    stage.answer(call, Ok(Answer::Requests { requests: vec![made(11, 1)] }));
    stage.wait(999);
    assert_eq!(open_card(&stage), None);
    stage.wait(1);
    assert_eq!(open_card(&stage), Some(11));
}

/// Keys that were pressed while a file was completed on a slow disk were meant for what was on the screen before.
#[test]
fn a_card_takes_no_key_right_after_the_console_was_held_up() {
    let mut stage = empty();
    list(&mut stage, vec![made(11, 1)]);
    stage.wait(DIALOG_GUARD_MS);
    stage.handle_message(Message::Stalled);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_none());
    // A part of a file does not hold it up.
    stage.wait(DIALOG_GUARD_MS);
    stage.handle_message(Message::Tick);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_some());
}

/// In a window without an operator, an unfinished line, the help and an ended card do not keep the next card away.
#[test]
fn in_an_idle_window_the_next_card_opens() {
    for keys in [":pol", "?", "/x"] {
        let mut stage = empty();
        stage.keys(keys);
        list(&mut stage, vec![made(11, 1)]);
        assert_eq!(open_card(&stage), None, "{keys}");
        stage.wait(10_000);
        assert_eq!(open_card(&stage), Some(11), "{keys}");
    }
    let mut stage = empty();
    list(&mut stage, vec![held(11, 3_000, |_card| {})]);
    assert_eq!(open_card(&stage), Some(11));
    stage.wait(4_000);
    list(&mut stage, vec![made(12, 1)]);
    stage.wait(1_000);
    assert_eq!(open_card(&stage), Some(12));
}

#[test]
fn a_command_that_never_ends_does_not_keep_cards_away() {
    let mut stage = empty();
    stage.keys(":doctor");
    stage.press(KeyCode::Enter);
    list(&mut stage, vec![made(11, 1)]);
    assert_eq!(open_card(&stage), None);
    stage.wait(10_000);
    assert_eq!(open_card(&stage), Some(11));
}

#[test]
fn words_of_a_seed_come_before_the_next_card() {
    let mut stage = empty();
    stage.keys(":seed create");
    stage.press(KeyCode::Enter);
    let (id, _order) = stage.take_newest_order("seed.create").unwrap();
    list(&mut stage, vec![made(11, 1)]);
    stage.answer(id, Ok(Answer::Seed(fixtures::seed())));
    assert_ne!(open_card(&stage), Some(11), "{}", stage.screen());
}

#[test]
fn on_a_screen_that_is_too_small_the_card_waits_for_room() {
    let mut stage = empty();
    stage.handle_message(Message::Resize(20, 5));
    list(&mut stage, vec![made(11, 1)]);
    assert_eq!(open_card(&stage), None);
    stage.handle_message(Message::Resize(80, 24));
    assert_eq!(open_card(&stage), Some(11));
    // Under an open card: no key decides until it can be read again.
    stage.handle_message(Message::Resize(20, 5));
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_none());
}

#[test]
fn row_ledger_a_request_has_a_second_card_with_the_rows_of_its_screen() {
    let mut stage = empty();
    let on_device = |is_prompting| {
        let mut request = made(11, 1);
        let card = request.card.as_mut().unwrap();
        card.device = fixtures::device_card("The Ledger shows it.", is_prompting).device;
        request
    };
    list(&mut stage, vec![made(11, 1)]);
    stage.wait(DIALOG_GUARD_MS);
    stage.press(KeyCode::Esc);
    list(&mut stage, vec![on_device(false)]);
    assert_eq!(open_card(&stage), None, "the device does not show it yet");
    list(&mut stage, vec![on_device(true)]);
    assert_eq!(open_card(&stage), Some(11));
    // The device shows it again, for example after it was plugged in again.
    stage.wait(DIALOG_GUARD_MS);
    stage.press(KeyCode::Esc);
    list(&mut stage, vec![on_device(true)]);
    assert_eq!(open_card(&stage), None);
    list(&mut stage, vec![on_device(false)]);
    list(&mut stage, vec![on_device(true)]);
    assert_eq!(open_card(&stage), Some(11));
}

#[test]
fn row_agent_server_leaving_warns_and_cannot_leave_the_engine_behind() {
    let mut stage = empty();
    list(&mut stage, vec![made(11, 1)]);
    stage.wait(DIALOG_GUARD_MS);
    stage.press(KeyCode::Esc);
    stage.keys("q");
    let screen = stage.screen();
    assert!(
        screen.contains("This window is the engine") && screen.contains("1 request is waiting")
    );
    assert!(!screen.contains("keep the engine"), "{screen}");
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("k");
    assert!(!stage.model.keeps_engine && stage.intents.iter().all(|intent| intent != "Quit"));
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert_eq!(stage.intents.last().map(String::as_str), Some("Quit"));
}

#[test]
fn row_console_panel_commands_with_files_ask_first_and_use_the_folder_for_exports() {
    let mut stage = empty();
    stage.keys(":wallet backup may");
    stage.press(KeyCode::Enter);
    let screen = stage.screen();
    assert!(
        screen.contains("/stick/exports/may") && screen.contains("Write the file?"),
        "{screen}"
    );
    // Enter is not a yes.
    stage.wait(DIALOG_GUARD_MS);
    stage.press(KeyCode::Enter);
    assert!(stage.take_newest_order("wallet.backup").is_none());
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    let (id, order) = stage.take_newest_order("wallet.backup").unwrap();
    assert!(format!("{order:?}").contains("/stick/exports/may"), "{order:?}");
    let created = format!("CreateFile {{ id: {id}, ");
    assert!(stage.intents.iter().any(|intent| intent.starts_with(&created)));

    stage.keys(":wallet restore ../x");
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("only a name"), "{}", stage.screen());
    stage.keys(":wallet restore may");
    stage.press(KeyCode::Enter);
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("n");
    assert!(stage.model.run_closed.is_none() && stage.model.overlay.is_none());
    stage.keys(":wallet restore may");
    stage.press(KeyCode::Enter);
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(
        stage.take_newest_order("wallet.restore").is_none(),
        "it runs once the window is closed"
    );
    let line = format!("wallet restore {}", Path::new("/stick/exports/may").display());
    assert_eq!(
        stage.model.run_closed,
        Some(bursar_control::grammar::Order::parse_line(&line).unwrap())
    );
}

#[test]
fn row_boot_service_commands_name_the_full_edition() {
    let mut stage = empty();
    stage.model.setup.commands.program = "bursar-desk";
    for line in [":install-service", ":bursar-desk service status"] {
        stage.keys(line);
        stage.press(KeyCode::Enter);
        let screen = stage.screen();
        assert!(
            screen.contains("bursar-desk has no `") && screen.contains("the full edition (bursar)"),
            "{screen}"
        );
    }
}

/// A command of the operator that a Ledger shows has a dialog for as long as the Ledger waits.
#[test]
fn row_ledger_a_command_shows_what_to_compare_until_it_ends() {
    let mut stage = empty();
    stage.keys(":address ledger verify cold");
    stage.press(KeyCode::Enter);
    let (id, _order) = stage.take_newest_order("address.ledger.verify").unwrap();
    stage.frame(ToClient::Progress { id, text: "compare 0x5342 with the screen".to_owned() });
    assert!(matches!(stage.model.overlay, Some(Overlay::Text(_))), "{}", stage.screen());
    assert!(stage.screen().contains("compare 0x5342"));
    stage.answer(id, Ok(Answer::Address(fixtures::address())));
    assert!(!stage.screen().contains("compare 0x5342"), "{}", stage.screen());

    let mut stage = empty();
    stage.keys(
        ":address send research 0x209693Bc6afc0C5328bA36FaF03C514EF312287C 5 --token USDC --network base",
    );
    stage.press(KeyCode::Enter);
    let Some((id, _order)) = stage.take_newest_order("address.send") else {
        panic!("{}", stage.screen())
    };
    let lines = vec!["to 0x1".to_owned()];
    let prompt = Prompt::Confirm { lines, question: "Send it?".to_owned() };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.wait(DIALOG_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    stage.frame(ToClient::Progress { id, text: "The Ledger shows it.".to_owned() });
    let screen = stage.screen();
    assert!(screen.contains("to 0x1") && screen.contains("The Ledger shows it."), "{screen}");
}

/// Names and texts of others, with an escape sequence and a change of the reading direction.
fn hostile() -> RequestAnswer {
    let mut request = made(14, 1);
    let card = request.card.as_mut().unwrap();
    card.obstacle = Some("\u{202e}why\u{1b}]0;x\u{7}".to_owned());
    request
}

#[test]
fn dialogs_of_the_window() {
    let looks = [sealed(), Setup { ascii: true, colors: ColorUse::Never, ..sealed() }];
    for (setup, look) in looks.into_iter().zip(["desk", "desk_ascii"]) {
        for size in ALL_SIZES {
            let mut stage = Stage::with_rows(setup.clone(), size);
            stage.wait(DIALOG_GUARD_MS);
            assert_screen(&format!("{look}_dialog"), &stage);
            stage.keys("d");
            stage.wait(DIALOG_GUARD_MS);
            assert_screen(&format!("{look}_dialog_to_deny"), &stage);
            stage.press(KeyCode::Esc);
            stage.wait(DIALOG_GUARD_MS);
            stage.keys("l");
            assert_screen(&format!("{look}_left"), &stage);
            for (line, name) in [
                (":wallet backup may", "backup"),
                (":wallet restore may", "restore"),
                (":address export research", "key"),
            ] {
                stage.keys(line);
                stage.press(KeyCode::Enter);
                stage.wait(DIALOG_GUARD_MS);
                assert_screen(&format!("{look}_{name}"), &stage);
                stage.press(KeyCode::Esc);
            }
            stage.keys("q");
            stage.wait(DIALOG_GUARD_MS);
            assert_screen(&format!("{look}_leave"), &stage);
        }
    }
    let mut stage = empty();
    list(&mut stage, vec![hostile()]);
    assert_eq!(open_card(&stage), Some(14));
    let screen = stage.screen();
    assert!(!screen.contains('\u{202e}') && !screen.contains('\u{1b}'), "{screen}");
}
