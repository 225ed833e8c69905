//! Difficult conditions: a busy agent, a watch that ends, truncated lists, and odd sizes of the terminal.

use bursar_control::answers::{Answer, Reply, SilentNetworkAnswer, StatusAnswer, Warning};
use bursar_control::grammar::{Order, StatusOrder};
use bursar_control::wire::ToClient;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;

use super::{Stage, feed, held};
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::server::Topic;
use crate::console::model::{PASTE_GAP_MS, Pane, Purpose};
use crate::console::theme::Role;
use crate::console::update::Message;
use crate::oneshot::tests::fixtures;

/// The agent's small payments change the card's figures several times a second.
#[test]
fn changing_figures_of_a_busy_agent_do_not_block_a_decision() {
    for (key, order) in [("y", "approve"), ("n", "deny")] {
        let mut stage = Stage::with_all_panes((80, 24));
        stage.keys("ja");
        for round in 0..10u64 {
            stage.wait(300);
            let now = stage.now_ms;
            let requests = (1..=3).map(|number| {
                held(number, 223_000, |card| {
                    card.type_amount = number == 2;
                    card.spent.before.0 += round;
                    card.spent.after.0 += round;
                })
            });
            let requests = requests.collect();
            stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
            stage.wait(1);
            if round == 5 {
                stage.keys("1.5");
            }
        }
        stage.keys(key);
        stage.wait(PASTE_GAP_MS);
        assert!(stage.take_newest_order(order).is_some(), "{}", stage.screen());
    }
}

/// Reports the networks that do not answer, as the next query of the status does.
fn set_silent(stage: &mut Stage, names: &[&str]) {
    let since = |name: &&str| match *name {
        "Base" => "2026-01-01T08:31:44Z".to_owned(),
        _later => "2026-01-01T09:00:00Z".to_owned(),
    };
    let silent = names
        .iter()
        .map(|name| SilentNetworkAnswer { network: (*name).to_owned(), since: since(name) });
    let status = StatusAnswer { silent: silent.collect(), ..fixtures::status() };
    stage.wait(10_000);
    let (id, _order) = stage.take_newest_order("status").expect("the status is polled");
    stage.answer(id, Ok(Answer::Status(status)));
}

/// The header alone reports an outage, and the balances are queried again after it.
#[test]
fn an_outage_is_shown_once() {
    let mut stage = Stage::with_all_panes((200, 60));
    let why = "Base: The token does not report its decimals.";
    assert_eq!(stage.screen().matches(why).count(), 1);
    set_silent(&mut stage, &["Base"]);
    let screen = stage.screen();
    assert_eq!(screen.matches("Base: no answer since 08:31").count(), 1, "{screen}");
    assert_eq!(screen.matches(why).count(), 0, "{screen}");
    for topic in [Topic::Balances, Topic::Positions] {
        let why = "No balance could be read. Base: no endpoint answered.".to_owned();
        stage
            .model
            .server
            .query_failures
            .insert(topic, Fault::because(Code::ChainUnavailable, why));
    }
    let screen = stage.screen();
    assert!(!screen.contains("no endpoint answered"), "{screen}");
    let other = Fault::because(Code::BadInput, "Too many.");
    stage.model.server.query_failures.insert(Topic::Positions, other);
    assert!(stage.screen().contains("Too many."), "{}", stage.screen());
    // The header keeps its last piece at any width.
    stage.handle_message(Message::Resize(80, 24));
    let screen = stage.screen();
    assert!(screen.contains("Base: no answer") && screen.contains("engine: attached"), "{screen}");
    stage.handle_message(Message::Resize(200, 60));
    set_silent(&mut stage, &["Ethereum", "Base"]);
    assert!(stage.screen().contains("2 networks: no answer since 08:31"), "{}", stage.screen());
    assert!(stage.take_newest_order("balances").is_none());
    set_silent(&mut stage, &[]);
    assert!(!stage.screen().contains("no answer"), "{}", stage.screen());
    assert!(stage.take_newest_order("balances").is_some());
}

#[test]
fn constantly_changing_card_can_be_denied() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    let now = stage.now_ms;
    let requests = vec![held(1, 700_000, |card| card.digest = "aa".repeat(32))];
    stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
    stage.wait(1);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("approve").is_none());
    stage.keys("n");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("deny").is_some());
}

#[test]
fn ended_watch_is_restarted_and_requests_are_polled() {
    let mut stage = Stage::with_all_panes((80, 24));
    let watch = |stage: &Stage| {
        let found = stage.model.purposes.iter().find(|(_, purpose)| **purpose == Purpose::Watch);
        found.map(|(id, _)| *id)
    };
    let first = watch(&stage).expect("it watches");
    stage.answer(first, Err(Fault::new(Code::InternalError)));
    assert_eq!(watch(&stage), None);
    let wake = stage.model.wake_ms().expect("it wakes for it");
    assert!(wake <= stage.now_ms + 1_000);
    stage.wait(1_000);
    assert!(watch(&stage).is_some_and(|again| again != first));
    let (_, order) = stage.take_newest_order("watch").unwrap();
    assert!(matches!(order, Order::Watch(watch) if watch.since == Some(40)));
    stage.wait(10_000);
    assert!(stage.take_newest_order("requests").is_some(), "whatever the journal says");
}

/// More requests are pending than one answer contains. The missing requests do not count as decided.
#[test]
fn truncated_request_list_closes_no_request() {
    let mut stage = Stage::with_all_panes((80, 24));
    let answer = |stage: &mut Stage, requests, cut: bool| {
        stage.model.mark_stale(&[Topic::Requests]);
        stage.wait(400);
        let (id, _) = stage.take_newest_order("requests").unwrap();
        let warning = Warning { code: "MORE_REQUESTS".into(), message: "more".into() };
        let warnings = if cut { vec![warning] } else { Vec::new() };
        let result = Ok(Answer::Requests { requests });
        let reply = Box::new(Reply { result, warnings, secret: None });
        stage.frame(ToClient::Done { id, reply });
    };
    answer(&mut stage, vec![held(1, 700_000, |_card| {})], true);
    assert!(stage.screen().contains("3 waiting, and more not shown"), "{}", stage.screen());
    answer(&mut stage, vec![held(1, 700_000, |_card| {})], false);
    assert!(stage.screen().contains("1 waiting") && stage.screen().contains("decided"));
    // A later list contains the request again, so it is still pending.
    answer(&mut stage, vec![held(1, 700_000, |_| {}), held(2, 200_000, |_| {})], false);
    assert!(stage.screen().contains("2 waiting"));
}

#[test]
fn urgent_command_goes_before_queued_queries() {
    let mut stage = Stage::with_all_panes((80, 24));
    for _ in 0..8 {
        stage.model.call(
            Purpose::Query(Topic::Payments),
            Order::Status(StatusOrder::default()),
            bursar_control::wire::Asking::Silent,
        );
    }
    stage.wait(10);
    stage.sent.clear();
    stage.control('x');
    stage.control('x');
    assert!(stage.take_newest_order("freeze").is_some(), "{:?}", stage.model.purposes);
}

#[test]
fn every_terminal_size_is_drawn_and_absurd_sizes_are_clamped() {
    let sizes = [(80, 0), (0, 0), (0, 24), (1, 1), (80, 1), (59, 15), (65_535, 65_535)];
    for size in sizes {
        for keys in ["", ":status", "a", "?"] {
            let mut stage = Stage::with_all_panes((80, 24));
            stage.keys(keys);
            stage.model.note("a note");
            stage.handle_message(Message::Resize(size.0, size.1));
            let area = stage.buffer().area;
            assert!(area.width <= 1_000 && area.height <= 500);
        }
    }
}

/// After a request is decided, the next pending request is selected.
#[test]
fn after_a_decision_the_next_request_is_selected() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("n");
    stage.wait(PASTE_GAP_MS);
    let (id, _) = stage.take_newest_order("deny").unwrap();
    let mut entries = feed(41, 1);
    entries[0].kind = "payment.denied".parse().unwrap();
    entries[0].request = Some(stage.model.server.queue[0].request.id.clone());
    stage.frame(ToClient::Entries { id: 7, entries });
    let denied = crate::oneshot::tests::fixtures::decided("denied");
    stage.answer(id, Ok(Answer::Decided(denied)));
    assert_eq!(stage.model.selected_row(Pane::Approvals), 0);
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("Request 0123ab02"));
}

/// Delivers the entry that ends the request in a row of the list.
fn deliver_end(stage: &mut Stage, place: usize, kind: &str, detail: Option<&str>) {
    let mut entries = feed(stage.model.server.feed.head() + 1, 1);
    entries[0].kind = kind.parse().unwrap();
    entries[0].request = Some(stage.model.server.queue[place].request.id.clone());
    entries[0].detail = detail.map(str::to_owned);
    stage.frame(ToClient::Entries { id: 7, entries });
}

/// Returns the two digits in which the ids of the list differ, from the top.
fn listed_ids(stage: &Stage) -> Vec<&str> {
    stage.model.server.queue.iter().map(|row| row.request.id.get(6..8).unwrap()).collect()
}

#[test]
fn closed_requests_are_listed_below_pending_ones_and_keys_skip_them() {
    let mut stage = Stage::with_all_panes((80, 24));
    for place in [0, 0, 0] {
        deliver_end(&mut stage, place, "payment.denied", None);
    }
    assert_eq!(listed_ids(&stage).len(), 2, "few of them stay");
    // The next request arrives while a closed request is selected.
    let requests = vec![held(9, 500_000, |_card| {})];
    let now = stage.now_ms;
    stage.model.server.store(Topic::Requests, Answer::Requests { requests }, now);
    for key in ["a", "d", "ja", "jjja", "Ga"] {
        stage.keys(key);
        let title = if key == "d" { "Deny 0123ab09?" } else { "Request 0123ab09" };
        assert!(stage.screen().contains(title), "{key}: {}", stage.screen());
        stage.press(KeyCode::Esc);
    }
    assert_eq!(listed_ids(&stage)[0], "09");
    // If no request is pending, a closed request can still be selected for a while.
    stage.wait(1);
    deliver_end(&mut stage, 0, "payment.approved", None);
    assert_eq!(listed_ids(&stage)[0], "09", "the latest first");
    stage.keys("ja");
    assert!(stage.screen().contains("Can no longer be decided: denied"));
    stage.wait(60_000);
    assert_eq!(listed_ids(&stage).len(), 1, "the one on the screen");
    stage.press(KeyCode::Esc);
    stage.wait(1);
    assert!(stage.screen().contains("No requests are waiting."), "{}", stage.screen());
}

#[test]
fn pending_requests_keep_order_and_cursor_when_another_one_closes() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys("jj");
    deliver_end(&mut stage, 0, "payment.denied", None);
    assert_eq!(
        (listed_ids(&stage), stage.model.selected_row(Pane::Approvals)),
        (vec!["02", "03", "01"], 1)
    );
    // The selected request expires between two keys.
    stage.now_ms += 47_000;
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("Request 0123ab02"), "{}", stage.screen());
}

#[test]
fn preview_of_a_closed_request_is_dimmed() {
    let mut stage = Stage::with_all_panes((120, 40));
    for _each in 0..3 {
        deliver_end(&mut stage, 0, "payment.denied", None);
    }
    let screen = stage.screen();
    let row = screen.lines().position(|line| line.contains("from report bot, denied")).unwrap();
    let buffer = stage.buffer();
    let cell = &buffer[(3, u16::try_from(row + 1).unwrap())];
    let quiet = stage.model.theme().style(Role::Quiet);
    assert_eq!(cell.fg, quiet.fg.unwrap(), "{screen}");
}

#[test]
fn card_decided_elsewhere_shows_its_decider_and_time() {
    for (size, wrapped) in [((80, 24), false), ((60, 16), true)] {
        let mut stage = Stage::with_all_panes(size);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        // On a small screen the last row that an approval needs is not visible yet.
        if wrapped {
            stage.keys("j");
            stage.wait(KEY_GUARD_MS);
        }
        stage.keys("y");
        stage.wait(PASTE_GAP_MS);
        let (id, _) = stage.take_newest_order("approve").unwrap();
        let why = "It was denied by a console (process 12345, 2026-01-01T00:41:00Z) meanwhile.";
        stage.answer(id, Err(Fault::because(Code::AlreadyDecided, why)));
        // The whole message is shown, and only once: it does not appear in the bottom line as well.
        let screen = stage.screen();
        assert!(screen.contains("meanwhile.") && screen.matches("It was denied").count() == 1);
        assert_eq!(screen.contains(why), !wrapped, "{screen}");
        deliver_end(&mut stage, 0, "payment.denied", Some("by a console"));
        assert!(stage.screen().contains("decided: denied by a console,"), "{}", stage.screen());
    }
}

#[test]
fn locked_wallet_blocks_approvals() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.model.server.status.as_mut().unwrap().wallet.locked = true;
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(
        stage.take_newest_order("approve").is_none()
            && stage.screen().contains("The wallet is locked")
    );
}

#[test]
fn locked_wallet_can_be_opened_from_a_card() {
    for size in [(60, 16), (120, 40)] {
        let mut stage = Stage::with_all_panes(size);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        assert!(!stage.screen().contains("u open"), "{}", stage.screen());
        stage.keys("u");
        assert!(stage.take_newest_order("wallet.open").is_none(), "it is open");
        stage.model.server.status.as_mut().unwrap().wallet.locked = true;
        stage.press(KeyCode::Down);
        stage.wait(KEY_GUARD_MS);
        let screen = stage.screen();
        assert!(
            screen.contains("wallet locked: press u to open it") && !screen.contains("y approve")
        );
        stage.keys("u");
        let (id, _) = stage.take_newest_order("wallet.open").unwrap();
        let what = bursar_control::wire::SecretPrompt::Password;
        let prompt = bursar_control::wire::Prompt::Secret { what };
        stage.frame(ToClient::Prompt { id, prompt });
        stage.keys("n y");
        stage.press(KeyCode::Enter);
        stage.model.server.status.as_mut().unwrap().wallet.locked = false;
        let wallet = crate::oneshot::tests::fixtures::wallet();
        stage.answer(id, Ok(Answer::Wallet(wallet)));
        // The card is open again, and ignores keys like any card that was just opened.
        assert!(stage.screen().contains("Request 0123ab01"), "{}", stage.screen());
        stage.keys("y");
        stage.wait(PASTE_GAP_MS);
        assert!(
            stage.take_newest_order("approve").is_none()
                && stage.take_newest_order("deny").is_none()
        );
        stage.press(KeyCode::Esc);
        stage.wait(1);
        assert!(!stage.screen().contains("Request 0123ab01"), "once");
    }
}

#[test]
fn console_that_runs_the_engine_cannot_be_suspended() {
    let owner = crate::console::model::Setup { owner: true, ..Default::default() };
    for (setup, sleeps) in [(owner, false), (Default::default(), true)] {
        let mut stage = Stage::with_rows(setup, (80, 24));
        stage.keys("a");
        stage.control('z');
        assert_eq!(stage.intents.iter().any(|one| one == "Suspend"), sleeps);
    }
}

/// The URL of an endpoint may contain its API key.
#[test]
fn command_with_a_url_is_not_written_to_the_history_file() {
    let mut stage = Stage::with_all_panes((80, 24));
    stage.keys(":network rpc base https://node.example/v2/KEY");
    stage.press(KeyCode::Enter);
    assert!(stage.take_newest_order("network.rpc").is_some());
    assert!(!stage.intents.iter().any(|one| one.contains("KEY")));
}
