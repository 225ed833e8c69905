//! Start, commands, questions of the engine, secrets and the end.

use bursar_control::grammar::Order;
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use bursar_core::codes::Code;
use zeroize::Zeroizing;

use super::*;

#[test]
fn the_start_names_the_reason_and_the_state() {
    let setup = Setup { reason: Some("TERM is dumb".to_owned()), ..Setup::default() };
    let mut stage = Stage::with(setup, Vec::new());
    let printed = stage.printed();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "No full screen is possible here: TERM is dumb.");
    assert!(lines[1].starts_with("Bursar ") && lines[1].ends_with(", help or quit."));
    let server = "The server for agents runs.";
    assert_eq!(lines[2..], ["The wallet main is open.", server, "No requests are waiting."]);
}

#[test]
fn own_lines_fit_80_columns_of_ascii() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    for line in ["help", "help approve", "next", "status", "requests", "nonsense", "policy create"]
    {
        stage.type_(line);
    }
    let printed = stage.printed();
    assert!(printed.is_ascii(), "{printed}");
    let long = printed.lines().find(|line| line.len() > 80 && line.contains(' '));
    assert_eq!(long, None);
}

#[test]
fn hostile_text_moves_no_cursor() {
    let evil = "\x1b[2Jhttps://a.example/\u{202e}\u{9b}1A";
    let mut request = held(1, 600_000, |card| {
        card.terms.request_url = Some(evil.to_owned());
        card.obstacle = Some(evil.to_owned());
    });
    request.domain = Some(evil.to_owned());
    let mut stage = Stage::new(vec![request]);
    stage.frame(ToClient::Progress { id: 1, text: evil.to_owned() });
    stage.type_("deny 0123ab01");
    let printed = stage.printed();
    let bad = |ch: char| (ch.is_control() && ch != '\n') || ch == '\u{202e}';
    assert!(!printed.contains(bad), "{printed:?}");
}

#[test]
fn questions_of_the_engine_need_the_word_yes() {
    for (typed, yes) in [("yes", true), ("y", false), ("", false)] {
        let mut stage = Stage::new(Vec::new());
        stage.type_("deny --all");
        let (id, order) = stage.order().unwrap();
        assert_eq!(order.name(), "deny");
        let lines = vec!["2 of reader".to_owned()];
        let question = "Deny these 2 requests?".to_owned();
        stage.printed();
        stage.others.clear();
        stage.frame(ToClient::Prompt { id, prompt: Prompt::Confirm { lines, question } });
        assert_eq!(stage.printed(), "2 of reader\nDeny these 2 requests? Type yes.\n");
        stage.type_(typed);
        assert_eq!(stage.others.last(), Some(&format!("Send(Answer {{ id: {id}, yes: {yes} }})")));
        assert!(!stage.session.wants_line());
        stage.reply(id, Err(Fault::new(Code::Declined)));
        assert!(stage.session.wants_line());
    }
}

#[test]
fn a_secret_is_asked_on_the_terminal_and_holds_news_back() {
    let mut stage = Stage::new(Vec::new());
    stage.type_("wallet open");
    let (id, _order) = stage.order().unwrap();
    stage.others.clear();
    let prompt = Prompt::Secret { what: SecretPrompt::Password };
    stage.frame(ToClient::Prompt { id, prompt });
    assert_eq!(stage.others, ["AskSecret(Password)"]);
    stage.printed();
    stage.waiting.push(held(1, 600_000, |_card| {}));
    stage.wait(20_000);
    assert_eq!((stage.printed(), stage.session.wants_line()), (String::new(), false));
    let secret = Secret(Zeroizing::new(b"hunter2!".to_vec()));
    let effects = stage.session.secret_typed(Ok(secret), stage.now_ms);
    stage.apply(effects);
    assert_eq!(
        stage.others.last().unwrap(),
        &format!("SendSecret {{ id: {id}, secret: Secret(…) }}")
    );
    assert!(stage.printed().contains("Decide with: approve 0123ab01"));
}

#[test]
fn a_secret_that_is_not_typed_cancels_its_command() {
    let mut stage = Stage::new(Vec::new());
    stage.type_("thaw");
    let (id, _order) = stage.order().unwrap();
    let prompt = Prompt::Secret { what: SecretPrompt::Password };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.printed();
    let fault = Fault::because(Code::Declined, "Nothing was done.");
    let effects = stage.session.secret_typed(Err(fault), stage.now_ms);
    stage.apply(effects);
    assert_eq!(stage.others.last(), Some(&format!("Send(Cancel {{ id: {id} }})")));
    assert_eq!(stage.printed(), "Cancelled. Nothing was done.\n");
    assert!(stage.session.wants_line());
}

#[test]
fn shell_commands_are_refused_with_their_place() {
    let mut stage = Stage::new(Vec::new());
    stage.printed();
    for (line, said) in [
        ("wallet backup /tmp/x", "in a shell"),
        ("address export research", "in a shell"),
        ("history export /tmp/x", "in a shell"),
        ("watch", "by itself"),
        ("seed create", "only on a terminal"),
    ] {
        stage.type_(line);
        assert!(stage.printed().contains(said), "{line}");
        assert_eq!(stage.order(), None, "{line}");
    }
    let setup = Setup { shows_secrets: true, ..Setup::default() };
    let mut stage = Stage::with(setup, Vec::new());
    stage.type_("seed create");
    assert!(matches!(stage.order(), Some((_, Order::Seed(_)))));
}

#[test]
fn the_engines_own_console_asks_before_it_stops_the_engine() {
    let mut stage = Stage::new(Vec::new());
    stage.type_("quit");
    assert_eq!(stage.others, ["Leave(0)"]);
    let setup = Setup { owner: true, ..Setup::default() };
    let mut stage = Stage::with(setup, Vec::new());
    stage.type_("quit");
    stage.type_("y");
    assert!(stage.printed().ends_with("The console stays.\n"));
    stage.type_("quit");
    stage.type_("yes");
    assert_eq!(stage.others.last().unwrap(), "Leave(0)");
    let effects = stage.session.typed(&Typed::End, stage.now_ms);
    stage.apply(effects);
    assert_eq!(stage.others.last().unwrap(), "Leave(0)");
}
