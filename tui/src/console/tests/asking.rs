//! Questions of running commands: one is shown at a time, none is lost, and input for one never reaches another.

use bursar_control::answers::Answer;
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::Stage;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::{PASTE_GAP_MS, Purpose};
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;

const PASSWORD: Prompt = Prompt::Secret { what: SecretPrompt::Password };

fn sent_count(stage: &Stage) -> usize {
    stage.intents.iter().filter(|one| one.starts_with("Send")).count()
}

/// Operators retype a wrong password at once, without a look at the screen. The letters must not act as commands.
#[test]
fn password_field_stays_open_after_a_wrong_password() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys("u");
    let (id, _) = stage.take_newest_order("wallet.open").unwrap();
    stage.frame(ToClient::Prompt { id, prompt: PASSWORD });
    stage.keys("familie");
    stage.press(KeyCode::Enter);
    assert_eq!(sent_count(&stage), 1);
    // The operator continues to type before the engine answers.
    stage.keys("family");
    stage.press(KeyCode::Enter);
    stage.answer(id, Err(Fault::new(Code::WrongPassword)));
    for key in "family".chars() {
        stage.wait(900);
        stage.keys(&key.to_string());
    }
    let (again, _) = stage.take_newest_order("wallet.open").expect("it is asked for again");
    stage.frame(ToClient::Prompt { id: again, prompt: PASSWORD });
    assert!(stage.screen().contains("The password is wrong"), "{}", stage.screen());
    assert!(stage.take_newest_order("approve").is_none() && stage.model.line.is_none());
    stage.keys("family");
    stage.press(KeyCode::Enter);
    assert_eq!(sent_count(&stage), 2);
    stage.answer(again, Ok(Answer::Wallet(fixtures::wallet())));
    assert!(matches!(stage.model.overlay, Some(Overlay::Text(_))));
}

#[test]
fn a_mistyped_name_is_typed_again_in_the_same_field() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys(":agent delete ABC123");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("agent.delete").unwrap();
    let prompt = Prompt::TypeName { lines: vec!["agent".into()], name: "reader".into() };
    stage.frame(ToClient::Prompt { id, prompt: prompt.clone() });
    stage.wait(KEY_GUARD_MS);
    stage.keys("raeder");
    stage.press(KeyCode::Enter);
    stage.answer(id, Err(Fault::because(Code::Declined, "the name is reader")));
    stage.keys("ad");
    assert!(matches!(stage.model.overlay, Some(Overlay::Ask(_))));
    let (again, _) = stage.take_newest_order("agent.delete").unwrap();
    stage.frame(ToClient::Prompt { id: again, prompt });
    assert!(stage.screen().contains("the name is reader"));
    // After Esc the command does not run again.
    stage.press(KeyCode::Esc);
    stage.answer(again, Err(Fault::new(Code::Cancelled)));
    assert!(stage.model.overlay.is_none() && stage.take_newest_order("agent.delete").is_none());
}

#[test]
fn questions_are_queued_behind_other_overlays() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys("uuuu");
    let (first, _) = stage.take_newest_order("wallet.open").unwrap();
    assert!(stage.take_newest_order("wallet.open").is_none(), "one is enough");
    stage.keys(":thaw");
    stage.press(KeyCode::Enter);
    let (second, _) = stage.take_newest_order("thaw").unwrap();
    stage.keys("?");
    stage.frame(ToClient::Prompt { id: first, prompt: PASSWORD });
    stage.frame(ToClient::Prompt { id: second, prompt: PASSWORD });
    assert!(matches!(stage.model.overlay, Some(Overlay::Help { .. })));
    stage.press(KeyCode::Esc);
    stage.keys("half a passw");
    assert!(stage.screen().contains("wallet open"));
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("thaw") && !stage.screen().contains("****"));
    assert!(stage.intents.iter().any(|one| one.contains(&format!("Cancel {{ id: {first} }}"))));
    // A cancelled command no longer counts as in flight.
    stage.answer(first, Err(Fault::new(Code::Cancelled)));
    stage.press(KeyCode::Esc);
    stage.answer(second, Err(Fault::new(Code::Cancelled)));
    let lines = stage.model.purposes.values();
    assert_eq!(lines.filter(|purpose| matches!(purpose, Purpose::Line { .. })).count(), 0);
}

#[test]
fn input_counts_only_while_the_question_is_readable() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys(":agent delete ABC123");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("agent.delete").unwrap();
    let prompt = Prompt::TypeName { lines: Vec::new(), name: "reader".into() };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.keys("reader");
    stage.press(KeyCode::Enter);
    assert_eq!(sent_count(&stage), 0, "typed ahead");
    stage.wait(KEY_GUARD_MS);
    stage.handle_message(Message::Resize(20, 5));
    stage.keys("reader");
    stage.press(KeyCode::Enter);
    assert_eq!(sent_count(&stage), 0, "blind");
    stage.handle_message(Message::Resize(80, 24));
    stage.keys("reader");
    stage.press(KeyCode::Enter);
    assert_eq!(sent_count(&stage), 1);
}

/// A terminal without bracketed paste sends pasted text as keys at the same moment.
#[test]
fn yes_key_next_to_other_keys_is_treated_as_a_paste() {
    for text in ["yes please\n", "y\n", "yy", "so, y"] {
        let mut stage = Stage::with_all_panes((80, 24));
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        for ch in text.chars() {
            stage.press(if ch == '\n' { KeyCode::Enter } else { KeyCode::Char(ch) });
        }
        stage.wait(PASTE_GAP_MS);
        assert!(stage.take_newest_order("approve").is_none(), "{text:?}");
        stage.wait(KEY_GUARD_MS);
        stage.keys("y");
        stage.wait(PASTE_GAP_MS);
        assert!(stage.take_newest_order("approve").is_some(), "{text:?}");
    }
}

#[test]
fn approve_on_the_line_opens_the_card() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys(":approve 0123ab02 --yes");
    stage.press(KeyCode::Enter);
    assert!(stage.take_newest_order("approve").is_none());
    assert!(stage.screen().contains("Request 0123ab02"));
    stage.press(KeyCode::Esc);
    for (line, message) in [(":approve 0123ab", "Several"), (":approve ffff", "No request")] {
        stage.keys(line);
        stage.press(KeyCode::Enter);
        assert!(stage.screen().contains(message), "{}", stage.screen());
    }
}

/// A command may wait for a network that does not answer. Meanwhile the operator can close its question, and the
/// console shows the result later.
#[test]
fn a_command_that_waits_can_be_left() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys(":position withdraw 0xbeeF010f9cb27031ad51e3333f9aF9C6B1228183 all");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("position.withdraw").unwrap();
    let prompt = Prompt::Confirm {
        lines: vec!["withdraws  5.000000 USDC on Base".to_owned()],
        question: "Withdraw it?".to_owned(),
    };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert_eq!(sent_count(&stage), 1);
    assert!(stage.screen().contains("esc continue without waiting"), "{}", stage.screen());
    stage.keys("y");
    assert_eq!(sent_count(&stage), 1, "an answer counts once");
    stage.press(KeyCode::Esc);
    assert!(stage.model.overlay.is_none());
    assert!(stage.screen().contains("It continues."), "{}", stage.screen());
    assert_eq!(sent_count(&stage), 1, "nothing was cancelled");
    stage.answer(id, Err(Fault::new(Code::InsufficientLiquidity)));
    assert!(stage.screen().contains("The venue cannot pay this now"), "{}", stage.screen());
}
