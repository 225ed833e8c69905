//! The first steps from an empty folder to a first payment: their screens and their keys.

use bursar_control::answers::*;
use bursar_control::grammar::Order;
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use crossterm::event::KeyCode;
use zeroize::Zeroizing;

use super::looks::{ALL_SIZES, assert_screen};
use super::{Stage, feed};
use crate::console::model::Setup;
use crate::console::model::overlay::Overlay;
use crate::console::update::Message;
use crate::link::{Received, Secret};
use crate::oneshot::tests::{fixtures, more_fixtures};

/// Creates a console whose engine has completed the first `done` steps.
fn stage_after_steps(done: usize, size: (u16, u16)) -> Stage {
    let mut stage = Stage::new(Setup { owner: true, ..Setup::default() }, size);
    let mut status = fixtures::status();
    status.wallet = if done > 0 { fixtures::wallet() } else { fixtures::no_wallet() };
    status.wallet.seeds = usize::from(done > 1);
    status.wallet.addresses = usize::from(done > 2);
    status.server.running = done > 6;
    let holdings = if done > 2 { vec![fixtures::holdings("EVIL")] } else { Vec::new() };
    let agent = if done > 5 { fixtures::agent() } else { fixtures::new_agent() };
    while let Some((id, order)) = stage.sent.pop() {
        let answer = match order {
            Order::Status(_) => Answer::Status(status.clone()),
            Order::Requests(_) => Answer::Requests { requests: Vec::new() },
            Order::Agent(_) if done > 4 => Answer::Agents { agents: vec![agent.clone()] },
            Order::Agent(_) => Answer::Agents { agents: Vec::new() },
            Order::Policy(_) if done > 3 => Answer::Policies { policies: vec![fixtures::policy()] },
            Order::Policy(_) => Answer::Policies { policies: Vec::new() },
            Order::Address(_) if done > 2 => {
                Answer::Addresses { addresses: vec![fixtures::address()] }
            }
            Order::Address(_) => Answer::Addresses { addresses: Vec::new() },
            Order::Balances(_) => Answer::Balances { addresses: holdings.clone() },
            Order::Positions(_) => {
                Answer::Positions(more_fixtures::positions_answer(Vec::new(), 0))
            }
            Order::History(_) => {
                Answer::History(HistoryAnswer { requests: Vec::new(), more: false })
            }
            Order::Activity(_) => {
                Answer::Activity(ActivityAnswer { entries: Vec::new(), more: false })
            }
            Order::Config(_) => Answer::Setting(fixtures::notices("bell")),
            Order::Watch(_) => continue,
            other => panic!("{other:?}"),
        };
        stage.answer(id, Ok(answer));
    }
    stage
}

#[test]
fn every_step_is_shown_with_its_command() {
    for size in ALL_SIZES {
        for done in 0..8 {
            let stage = stage_after_steps(done, size);
            assert_screen(&format!("first_steps_{done}"), &stage);
        }
        let mut stage = stage_after_steps(0, size);
        stage.keys("n");
        assert_screen("first_step_line", &stage);
        stage.press(KeyCode::Enter);
        let (id, _) = stage.take_newest_order("wallet.create").unwrap();
        let prompt = Prompt::Secret { what: SecretPrompt::NewPassword };
        stage.frame(ToClient::Prompt { id, prompt });
        assert_screen("new_password", &stage);
        stage.keys("short");
        stage.press(KeyCode::Enter);
        assert_screen("new_password_short", &stage);
    }
}

#[test]
fn each_first_step_writes_a_valid_command() {
    for done in 0..7 {
        let mut stage = stage_after_steps(done, (120, 40));
        stage.keys("n");
        let line = stage.model.line.as_ref().unwrap().text();
        assert!(Order::parse_line(&line).is_ok(), "{line}");
    }
    let mut stage = stage_after_steps(7, (120, 40));
    stage.keys("n");
    assert!(stage.model.line.is_none(), "it is for a shell");
    let copied = stage.intents.last().unwrap().clone();
    assert!(
        copied.contains(r#"eval \"$(bursar agent instructions 'report bot')\"; bursar-demo pay"#),
        "{copied}"
    );
}

#[test]
fn first_steps_disappear_with_the_first_request() {
    let mut stage = stage_after_steps(7, (120, 40));
    assert!(stage.screen().contains("bursar-demo"));
    stage.model.server.append(feed(1, 1), stage.now_ms);
    assert!(!stage.screen().contains("First steps"));
    // The first steps do not reappear if the server stops later.
    stage.model.server.status.as_mut().unwrap().server.running = false;
    assert!(!stage.screen().contains("First steps"));
}

/// If not all steps fit, the number of hidden steps is shown.
#[test]
fn hidden_first_steps_are_counted() {
    for done in 0..8 {
        let stage = stage_after_steps(done, (60, 16));
        let screen = stage.screen();
        let steps = crate::console::model::setup::steps(&stage.model);
        let last = steps.iter().rposition(|step| screen.contains(&format!("] {}", step.title)));
        let more = steps.len() - 1 - last.unwrap();
        assert_eq!(screen.contains(&format!("{more} more step")), more > 0, "{done}: {screen}");
        let next = steps.iter().find(|step| !step.is_done).unwrap();
        assert!(screen.contains(&format!("[>] {}", next.title)), "{screen}");
        assert!(screen.contains("engine: inside"), "{screen}");
    }
}

/// Creates a console that shows the words of a new seed.
fn stage_with_words(size: (u16, u16)) -> Stage {
    let mut stage = stage_after_steps(1, size);
    stage.keys("n");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("seed.create").unwrap();
    deliver_words(&mut stage, id);
    stage
}

/// Delivers the words that a command requested.
fn deliver_words(stage: &mut Stage, id: u64) {
    let secret = Secret(Zeroizing::new(fixtures::PHRASE.as_bytes().to_vec()));
    stage.handle_message(Message::Frame(Received::Secret { id, secret }));
    let result = Ok(Answer::Seed(fixtures::seed()));
    let reply = Box::new(Reply { result, warnings: Vec::new(), secret: Some(SecretField::Phrase) });
    stage.frame(ToClient::Done { id, reply });
}

#[test]
fn words_of_a_new_seed_are_checked_and_leave_the_screen() {
    for size in ALL_SIZES {
        let mut stage = stage_with_words(size);
        assert_screen("seed_words", &stage);
        // Any program can read the clipboard.
        stage.keys("c");
        assert!(!stage.intents.iter().any(|one| one.starts_with("Copy")));
        stage.press(KeyCode::Enter);
        assert!(!stage.screen().contains("sausage"));
        assert_screen("seed_check", &stage);
        stage.keys("guess");
        stage.press(KeyCode::Enter);
        assert_screen("seed_check_wrong", &stage);
        // Escape returns to the words, and Enter to the check.
        stage.press(KeyCode::Esc);
        assert!(stage.screen().contains("sausage"), "{}", stage.screen());
        stage.press(KeyCode::Enter);
        let words: Vec<&str> = fixtures::PHRASE.split(' ').collect();
        let mut asked = Vec::new();
        while let Some(Overlay::Words(_, check)) = &stage.model.overlay {
            asked.push(check.number());
            stage.keys(words[asked.last().unwrap() - 1]);
            stage.press(KeyCode::Enter);
        }
        assert_eq!(asked.len(), 3);
        assert!(asked.is_sorted() && asked[0] != asked[1] && asked[1] != asked[2], "{asked:?}");
        assert!(stage.screen().contains("The words match"));
        assert!(!format!("{:?}", stage.model).contains("sausage"));
    }
}

/// The smallest screen shows all words at once, each next to its number.
#[test]
fn seed_check_starts_only_after_all_words_were_visible() {
    let mut stage = stage_with_words((60, 16));
    let screen = stage.screen();
    for (number, word) in (1..).zip(fixtures::PHRASE.split(' ')) {
        assert!(screen.contains(&format!("{number:>2}  {word}")), "{screen}");
    }
    stage.press(KeyCode::Enter);
    assert!(matches!(stage.model.overlay, Some(Overlay::Words(..))));

    // On a screen that is too small for all words, the operator must scroll through them; the last words alone do not
    // suffice.
    for keys in [&[][..], &[KeyCode::End]] {
        let mut stage = stage_with_words((20, 5));
        keys.iter().for_each(|key| stage.press(*key));
        stage.press(KeyCode::Enter);
        assert!(matches!(stage.model.overlay, Some(Overlay::Text(_))));
        assert!(stage.model.last_note.as_ref().unwrap().text.contains("not seen all of the words"));
        stage.press(KeyCode::Home);
        (0..20).for_each(|_row| stage.press(KeyCode::Down));
        stage.press(KeyCode::Enter);
        assert!(matches!(stage.model.overlay, Some(Overlay::Words(..))));
    }
}

/// Makes the engine report the seed that was created.
fn report_new_seed(stage: &mut Stage) {
    stage.model.server.status.as_mut().unwrap().wallet.seeds = 1;
}

#[test]
fn seed_step_is_done_only_after_its_words_were_checked() {
    let mut stage = stage_with_words((120, 40));
    report_new_seed(&mut stage);
    assert!(stage.screen().contains("[>] A seed phrase"), "{}", stage.screen());
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("[>] A seed phrase"), "{}", stage.screen());
    // The key of the step opens the words and their check again.
    stage.keys("n");
    assert_eq!(stage.model.line.as_ref().unwrap().text(), "seed words S001");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("seed.words").unwrap();
    deliver_words(&mut stage, id);
    stage.press(KeyCode::Enter);
    let words: Vec<&str> = fixtures::PHRASE.split(' ').collect();
    while let Some(Overlay::Words(_, check)) = &stage.model.overlay {
        let word = words[check.number() - 1];
        stage.keys(word);
        stage.press(KeyCode::Enter);
    }
    assert!(
        stage.screen().contains("The words match") && stage.screen().contains("[x] A seed phrase")
    );
    assert!(stage.screen().contains("[>] An address"), "{}", stage.screen());
}

#[test]
fn leaving_seed_words_unchecked_shows_how_to_see_them_again() {
    let mut stage = stage_with_words((80, 24));
    assert!(stage.screen().contains("sausage"));
    assert!(!format!("{:?}", stage.model).contains("sausage"));
    stage.press(KeyCode::Esc);
    assert!(!stage.screen().contains("sausage"));
    assert!(stage.screen().contains("seed words"));
    assert_eq!(stage.intents.last().unwrap(), "Redraw");
}

#[test]
fn credentials_of_a_new_agent_are_copied_whole() {
    for size in ALL_SIZES {
        let mut stage = stage_after_steps(4, size);
        stage.keys("n");
        stage.press(KeyCode::Enter);
        let (id, _) = stage.take_newest_order("agent.register").unwrap();
        let token = format!("AT_{}", "0123456789abcdef".repeat(4));
        let secret = Secret(Zeroizing::new(token.clone().into_bytes()));
        stage.handle_message(Message::Frame(Received::Secret { id, secret }));
        let result = Ok(Answer::Credentials(fixtures::credentials()));
        let reply =
            Box::new(Reply { result, warnings: Vec::new(), secret: Some(SecretField::Token) });
        stage.frame(ToClient::Done { id, reply });
        assert_screen("agent_block", &stage);
        stage.keys("c");
        let copied = stage.intents.last().unwrap();
        assert!(copied.contains(&format!("export WALLET_AGENT_TOKEN={token}\\n")), "{copied}");
    }
}

/// An answer that arrives while a card is open is not lost, because it may contain a secret that is shown only once.
#[test]
fn answer_that_arrives_under_a_card_is_shown_after_it() {
    let mut stage = Stage::with_all_panes((120, 40));
    stage.keys(":agent register second");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("agent.register").unwrap();
    stage.keys("a");
    stage.answer(id, Ok(Answer::Credentials(fixtures::credentials())));
    assert!(!stage.screen().contains("WALLET_AGENT_ID"));
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("WALLET_AGENT_ID"));
}

/// Any program can read the clipboard.
#[test]
fn seed_words_are_never_copied_to_the_clipboard() {
    let mut stage = Stage::with_all_panes((120, 40));
    stage.keys(":seed words S001");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("seed.words").unwrap();
    deliver_words(&mut stage, id);
    assert!(stage.screen().contains("sausage"));
    stage.keys("c");
    assert!(!stage.intents.iter().any(|one| one.starts_with("Copy")));
    assert!(stage.screen().contains("Not copied"));
}
