//! Connects, loses the engine, runs command lines, answers questions, and leaves.

use bursar_control::answers::{ActivityAnswer, Answer};
use bursar_control::grammar::Order;
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::settings::Notices;
use crossterm::event::KeyCode;

use super::{Stage, feed, held};
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::server::Topic;
use crate::console::model::{PASTE_GAP_MS, Pane, Setup};
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;

const SIZE: (u16, u16) = (80, 24);

#[test]
fn all_topics_are_queried_within_the_limit_of_calls_in_flight() {
    let stage = Stage::new(Setup::default(), SIZE);
    assert_eq!(stage.sent.len(), 6);
    let mut stage = Stage::with_all_panes(SIZE);
    let since = |stage: &mut Stage| match stage.take_newest_order("watch") {
        Some((_, Order::Watch(watch))) => watch.since,
        other => panic!("{other:?}"),
    };
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
    assert!(stage.screen().contains("ENGINE GONE"));
    // The console requests the entries after the newest known one.
    stage.handle_message(Message::Connected);
    let mut waiting = Vec::new();
    std::mem::swap(&mut waiting, &mut stage.sent);
    stage.sent = waiting;
    assert_eq!(since(&mut stage), Some(40));
    assert!(stage.take_newest_order("activity").is_none());
}

#[test]
fn decision_in_flight_is_not_reported_as_done_when_the_link_is_lost() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
    let screen = stage.screen();
    assert!(screen.contains("no engine is connected"), "{screen}");
    stage.press(KeyCode::Esc);
    assert!(stage.screen().contains("before the engine answered"));
}

#[test]
fn new_entries_are_added_once_and_older_pages_on_demand() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.frame(ToClient::Entries { id: 7, entries: feed(42, 3).into_iter().rev().collect() });
    let seqs: Vec<u64> = stage.model.server.feed.rows().map(|row| row.seq).collect();
    assert_eq!(seqs, (11..=42).rev().collect::<Vec<_>>());
    stage.keys("5");
    stage.press(KeyCode::End);
    let (call, order) = stage.take_newest_order("activity").unwrap();
    let Order::Activity(order) = order else { panic!() };
    assert_eq!(order.before, Some(11));
    let page = ActivityAnswer { entries: feed(10, 10), more: false };
    stage.answer(call, Ok(Answer::Activity(page)));
    assert_eq!(stage.model.server.feed.rows().count(), 42);
    assert_eq!(stage.model.selected_row(Pane::Activity), 41);
    stage.press(KeyCode::Home);
    stage.press(KeyCode::End);
    assert!(stage.take_newest_order("activity").is_none(), "there is no more");
}

/// Returns the number of the selected entry of Activity.
fn selected(stage: &Stage) -> u64 {
    let index = stage.model.selected_index(Pane::Activity).expect("a row");
    stage.model.server.feed.row(index).expect("an entry").seq
}

/// A request has one row, which moves up with its newest entry. The selection stays where it was.
#[test]
fn a_request_has_one_row_in_activity() {
    let mut stage = Stage::with_all_panes((120, 40));
    stage.keys("5");
    let shown = |stage: &Stage| stage.model.shown_rows(Pane::Activity).len();
    assert_eq!(shown(&stage), 30);
    let mut entries = feed(41, 1);
    entries[0].request.clone_from(&feed(38, 1)[0].request);
    stage.keys("jj");
    assert_eq!(selected(&stage), 38);
    stage.frame(ToClient::Entries { id: 7, entries });
    assert_eq!(shown(&stage), 30, "41 instead of 38");
    // Entry 37 took the place of the former state of the selected request.
    assert_eq!(selected(&stage), 37);
    let screen = stage.screen();
    assert_eq!(screen.matches("00000026").count(), 1, "{screen}");
}

/// An answer that was given before the end of a request does not bring the request back.
#[test]
fn a_late_answer_brings_no_ended_request_back() {
    let mut stage = Stage::with_all_panes(SIZE);
    let rows = || vec![held(1, 700_000, |_card| {}), held(2, 700_000, |_card| {})];
    let ids: Vec<String> = rows().into_iter().map(|row| row.id).collect();
    let mut entries = feed(43, 3);
    entries.reverse();
    for (entry, number) in entries.iter_mut().zip(1..) {
        entry.kind = "payment.denied".parse().unwrap();
        entry.request = Some(held(number, 0, |_card| {}).id);
    }
    stage.frame(ToClient::Entries { id: 7, entries });
    stage.wait(61_000);
    assert!(stage.model.server.queue.is_empty(), "dropped after a minute");
    let now = stage.now_ms;
    stage.model.server.store(Topic::Requests, Answer::Requests { requests: rows() }, now);
    stage.wait(1);
    let queue = &stage.model.server.queue;
    assert!(!queue.iter().any(|row| ids.contains(&row.request.id)), "{queue:?}");
}

/// The first and the last row are those of the journal, also while the entries between are not loaded.
#[test]
fn the_ends_of_a_long_feed_are_one_key_away() {
    let mut stage = Stage::with_all_panes(SIZE);
    let page = ActivityAnswer { entries: feed(5_000, 200), more: true };
    let now = stage.now_ms;
    stage.model.server.store(Topic::Feed, Answer::Activity(page), now);
    let answer_pages = |stage: &mut Stage| {
        while let Some((call, Order::Activity(order))) = stage.take_newest_order("activity") {
            assert!(order.raw);
            let newest = order.before.unwrap() - 1;
            let count = newest.min(u64::try_from(order.limit.unwrap()).unwrap());
            let page = ActivityAnswer { entries: feed(newest, count), more: newest > count };
            stage.answer(call, Ok(Answer::Activity(page)));
        }
    };
    stage.keys("5");
    answer_pages(&mut stage);
    for _round in 0..2 {
        stage.press(KeyCode::End);
        answer_pages(&mut stage);
        assert_eq!(selected(&stage), 1);
        stage.press(KeyCode::Up);
        answer_pages(&mut stage);
        assert_eq!(selected(&stage), 2);
        for page in 1..=60 {
            stage.press(KeyCode::PageUp);
            answer_pages(&mut stage);
            assert_eq!(selected(&stage), 2 + page * u64::from(SIZE.1 / 2));
        }
        stage.press(KeyCode::Home);
        answer_pages(&mut stage);
        assert_eq!(selected(&stage), 5_000);
        assert!(!stage.model.selected.contains_key(&Pane::Activity), "new entries are followed");
    }
}

#[test]
fn a_command_line_runs_the_grammar_and_shows_the_answer() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys(":bursar agent show ABC123");
    stage.press(KeyCode::Enter);
    let (call, _) = stage.take_newest_order("agent.show").unwrap();
    assert_eq!(stage.intents.last().unwrap(), r#"Remember("bursar agent show ABC123")"#);
    stage.answer(call, Ok(Answer::Agent(fixtures::agent())));
    let screen = stage.screen();
    assert!(screen.contains("agent show") && screen.contains("report bot"), "{screen}");
    stage.press(KeyCode::Esc);
    stage.keys(":");
    stage.press(KeyCode::Up);
    assert!(stage.screen().contains(":bursar agent show ABC123"));
    stage.press(KeyCode::Esc);
    stage.keys(":agnet list");
    let remembered = stage.intents.len();
    stage.press(KeyCode::Enter);
    // Input that is not a command may be a seed phrase that was pasted by mistake, so it is not remembered.
    assert!(!stage.intents[remembered..].iter().any(|one| one.starts_with("Remember")));
    assert!(stage.screen().contains("similar"), "{}", stage.screen());
}

#[test]
fn password_input_is_hidden_and_a_new_password_is_typed_twice() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("u");
    let (call, _) = stage.take_newest_order("wallet.open").unwrap();
    let prompt = |what| Prompt::Secret { what };
    stage.frame(ToClient::Prompt { id: call, prompt: prompt(SecretPrompt::Password) });
    stage.keys("hunter2 y");
    assert!(!stage.screen().contains("hunter") && !format!("{:?}", stage.model).contains("hunter"));
    stage.press(KeyCode::Enter);
    assert_eq!(
        stage.intents.last().unwrap(),
        &format!("SendSecret {{ id: {call}, secret: Secret(…) }}")
    );

    stage.frame(ToClient::Prompt { id: call, prompt: prompt(SecretPrompt::NewPassword) });
    let sent = stage.intents.len();
    stage.keys("short");
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("at least 8"));
    stage.handle_message(Message::Paste("correct horse".into()));
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("Repeat the password"));
    stage.keys("correct house");
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("passwords differ"));
    assert_eq!(stage.intents.len(), sent);
    for _ in 0..2 {
        stage.keys("correct horse");
        stage.press(KeyCode::Enter);
    }
    assert_eq!(stage.intents.len(), sent + 1);
}

#[test]
fn leaving_asks_only_if_the_console_runs_the_engine() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("q");
    assert_eq!(stage.intents.last().unwrap(), "Quit");
    let mut stage = Stage::with_rows(Setup { owner: true, ..Setup::default() }, SIZE);
    stage.keys("q");
    assert!(stage.screen().contains("3 requests are waiting"));
    assert!(!stage.screen().contains("attached console"), "{}", stage.screen());
    stage.wait(KEY_GUARD_MS);
    let (id, _) = stage.take_newest_order("status").expect("who else is there");
    for (consoles, message) in [(1, "Another attached console"), (2, "2 other attached consoles")] {
        let status = bursar_control::answers::StatusAnswer { consoles, ..fixtures::status() };
        stage.model.server.store(Topic::Status, Answer::Status(status.clone()), stage.now_ms);
        assert!(stage.screen().contains(message), "{}", stage.screen());
        stage.answer(id, Ok(Answer::Status(status)));
    }
    stage.press(KeyCode::Esc);
    stage.keys("q");
    stage.keys("y");
    assert_ne!(stage.intents.last().unwrap(), "Quit");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert_eq!(stage.intents.last().unwrap(), "Quit");
}

#[test]
fn bell_rings_for_a_new_request_and_for_its_last_minute() {
    let rings = |stage: &Stage| {
        let notices = stage.intents.iter().filter(|one| one.starts_with("Notify"));
        notices.cloned().collect::<Vec<_>>()
    };
    let mut stage = Stage::with_all_panes(SIZE);
    let before = rings(&stage);
    assert_eq!(before.len(), 1);
    assert!(before[0].contains("3 requests need your approval"), "{before:?}");
    stage.wait(10_000);
    assert_eq!(rings(&stage), before);
    stage.wait(160_000);
    let after = rings(&stage);
    assert!(after.len() == 2 && after[1].contains("0123ab02 expires"), "{after:?}");
    // The operator's setting can switch notices off.
    stage.model.server.notices = Notices::None;
    stage.model.server.queue.clear();
    stage.model.server.store(
        Topic::Requests,
        Answer::Requests { requests: vec![held(4, 500_000, |_card| {})] },
        stage.now_ms,
    );
    stage.wait(10);
    assert_eq!(rings(&stage), after);
    stage.model.server.notices = Notices::Bell;
    stage.keys("1");
    stage.model.server.queue[0].was_announced = false;
    stage.wait(10);
    assert!(rings(&stage)[2].contains("bell: true, notice: None"));
}

/// A flood rings twice, with counts. Then the console is silent until a key shows that somebody looks.
#[test]
fn flood_of_requests_rings_twice_until_somebody_looks() {
    let notices = |stage: &mut Stage| {
        let all = std::mem::take(&mut stage.intents);
        all.into_iter().filter(|one| one.starts_with("Notify")).collect::<Vec<_>>()
    };
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("1");
    notices(&mut stage);
    stage.model.server.queue.clear();
    let mut arrived = Vec::new();
    let mut arrive = |stage: &mut Stage, count: usize| {
        for _each in 0..count {
            arrived.push(held(u8::try_from(arrived.len()).unwrap(), 500_000, |_card| {}));
            let requests = arrived.clone();
            stage.model.server.store(Topic::Requests, Answer::Requests { requests }, stage.now_ms);
            stage.wait(10);
        }
    };
    arrive(&mut stage, 1);
    let first = notices(&mut stage);
    assert!(first.len() == 1 && first[0].contains("request 0123ab00 needs your approval"));
    arrive(&mut stage, 40);
    assert_eq!(notices(&mut stage), Vec::<String>::new());
    stage.wait(30_000);
    let second = notices(&mut stage);
    assert!(
        second.len() == 1 && second[0].contains("40 requests need your approval"),
        "{second:?}"
    );
    arrive(&mut stage, 20);
    stage.wait(100_000);
    assert_eq!(notices(&mut stage), Vec::<String>::new(), "nobody has looked");
    // Their last minute is news of another kind.
    stage.wait(350_000);
    let last = notices(&mut stage);
    assert!(last.len() == 1 && last[0].contains("61 requests expire within a minute"), "{last:?}");
    stage.keys("j");
    arrive(&mut stage, 1);
    assert_eq!(notices(&mut stage).len(), 1, "after a key the next request rings again");
}

#[test]
fn resizing_keeps_the_typed_line_and_the_selection() {
    let mut stage = Stage::with_all_panes((200, 60));
    stage.keys("j:policy create careful");
    for turn in 0..200u16 {
        let size = if turn % 2 == 0 { (20, 5) } else { (200, 60) };
        stage.handle_message(Message::Resize(size.0, size.1));
        assert!(stage.screen().contains(if turn % 2 == 0 { "careful" } else { ":policy create" }));
    }
    assert_eq!(stage.model.selected_row(Pane::Approvals), 1);
}

#[test]
fn failed_query_is_shown_and_old_rows_stay() {
    let fault = || Fault::because(Code::ChainUnavailable, "No balance could be read.");
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("2");
    stage.model.mark_stale(&[Topic::Balances]);
    stage.wait(400);
    let (id, _) = stage.take_newest_order("balances").unwrap();
    stage.answer(id, Err(fault()));
    assert!(stage.screen().contains("old !"), "{}", stage.screen());
    stage.model.server.balances = None;
    assert!(stage.screen().contains("No balance could be read. Press r to retry."));
    stage.model.mark_stale(&[Topic::Balances]);
    stage.wait(400);
    let (id, _) = stage.take_newest_order("balances").unwrap();
    stage.answer(id, Ok(Answer::Balances { addresses: vec![fixtures::holdings("EVIL")] }));
    assert!(!stage.screen().contains("old !"));
    // Balances are polled, because the engine does not report incoming money. It reports changes of other topics.
    stage.sent.clear();
    stage.wait(300_000);
    assert!(
        stage.take_newest_order("balances").is_some()
            && stage.take_newest_order("agent.list").is_none()
    );
}

/// Two processes may have different wall clocks. So the engine reports the time left, and the console counts down.
#[test]
fn countdown_follows_the_engine_without_adding_transport_time() {
    let mut stage = Stage::with_all_panes(SIZE);
    let left = |stage: &Stage| stage.model.server.queue[0].left_ms(stage.now_ms);
    let report = |stage: &mut Stage, ms| {
        let requests = vec![held(1, ms, |_card| {})];
        let now = stage.now_ms;
        stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
    };
    assert_eq!(left(&stage), 754_000);
    stage.wait(10_000);
    assert_eq!(left(&stage), 744_000);
    // A slow answer must not add the time that it was in flight.
    report(&mut stage, 744_700);
    assert_eq!(left(&stage), 744_000);
    report(&mut stage, 743_800);
    assert_eq!(left(&stage), 743_800);
    // After a large difference the new value counts: the engine's machine slept, or its clock was set.
    report(&mut stage, 3_000);
    assert_eq!(left(&stage), 3_000);
    report(&mut stage, 600_000);
    assert_eq!(left(&stage), 600_000);
}

/// The first key that scrolls back has an effect, even after more downward key presses than there are lines.
#[test]
fn scrolling_ends_where_the_text_does() {
    for size in [(80, 24), (120, 40)] {
        let mut stage = Stage::with_all_panes(size);
        stage.keys("?");
        let top = stage.screen();
        for _ in 0..200 {
            stage.press(KeyCode::Down);
        }
        let end = stage.screen();
        assert!(end.contains("To give an agent its policy"), "{end}");
        stage.press(KeyCode::Up);
        assert_ne!(stage.screen(), end);
        for _ in 0..20 {
            stage.press(KeyCode::PageUp);
        }
        assert_eq!(stage.screen(), top);
        stage.keys("G");
        assert_eq!(stage.screen(), end);
        stage.keys("g");
        assert_eq!(stage.screen(), top);
    }
}
