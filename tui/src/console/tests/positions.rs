//! Tests of the positions in the Balances pane: they are visible when they matter, and do not displace the balances.

use bursar_control::answers::{Answer, PositionAnswer, PositionsAnswer, UnreadAnswer, VenueTrust};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use super::looks::{ALL_SIZES, assert_screen};
use super::{Stage, feed};
use crate::console::model::server::Topic;
use crate::console::model::{Pane, Setup};
use crate::console::theme::ColorUse;
use crate::console::update::Message;
use crate::oneshot::tests::{fixtures, more_fixtures};

/// Sizes for every layout of the pane, starting with one row of content.
const EACH_LAYOUT: [(u16, u16); 8] =
    [(60, 16), (80, 24), (99, 24), (100, 16), (100, 20), (100, 24), (120, 40), (200, 60)];

fn unread() -> UnreadAnswer {
    UnreadAnswer {
        label: "research".into(),
        network: "Base".into(),
        reason: "the vault 0x209693Bc6afc0C5328bA36FaF03C514EF312287C: its balance gives no valid answer"
            .into(),
    }
}

/// One position for each kind of trust, each in another venue, and one venue that was not read.
fn answer() -> PositionsAnswer {
    let mut positions = more_fixtures::positions();
    let curated = PositionAnswer {
        name: "Gauntlet USDC Prime".into(),
        network: "Base".into(),
        caip2: "eip155:8453".into(),
        worth: fixtures::usdc("1200.000000"),
        withdrawable: Some(fixtures::usdc("1200.000000")),
        trust: VenueTrust::Curated,
        ..positions[0].clone()
    };
    positions.insert(0, curated);
    for (number, position) in positions.iter_mut().enumerate() {
        position.venue = format!("0x{:040x}", number + 1);
    }
    PositionsAnswer { unread: vec![unread()], ..more_fixtures::positions_answer(positions, 7) }
}

/// Positions with different values and long names. Every `every`th position has an obstacle.
fn many(count: usize, every: usize) -> PositionsAnswer {
    let template = more_fixtures::positions();
    let positions = (0..count).map(|number| PositionAnswer {
        label: "an address with a very long label".into(),
        network: "a network with quite a long name".into(),
        name: "A venue whose name is longer than any pane of the console is wide".into(),
        venue: format!("0x{number:040x}"),
        worth: fixtures::usdg(&format!("123456789.{number:06}")),
        obstacle: template[1].obstacle.clone().filter(|_why| number.is_multiple_of(every)),
        ..template[0].clone()
    });
    more_fixtures::positions_answer(positions.collect(), count)
}

fn stage_with(size: (u16, u16), answer: PositionsAnswer) -> Stage {
    let mut stage = Stage::with_all_panes(size);
    let mut addresses = vec![fixtures::holdings("EVIL")];
    // Each token of a network needs a different address.
    addresses[0].networks[0].balances[3].token_address = Some(fixtures::PAYER.into());
    answer_topic(&mut stage, Topic::Balances, Answer::Balances { addresses });
    answer_topic(&mut stage, Topic::Positions, Answer::Positions(answer));
    stage.keys("2");
    stage
}

fn answer_topic(stage: &mut Stage, topic: Topic, answer: Answer) {
    let now = stage.now_ms;
    stage.model.server.store(topic, answer, now);
}

/// Answers a new query of `positions`.
fn answer_new_query(stage: &mut Stage, result: Result<Answer, Fault>) {
    stage.model.mark_stale(&[Topic::Positions]);
    stage.wait(400);
    let (id, _) = stage.take_newest_order("positions").unwrap();
    stage.answer(id, result);
}

fn fault() -> Fault {
    Fault::because(Code::ChainUnavailable, "No venue could be read.")
}

#[test]
fn positions_look_right_at_every_size() {
    for size in ALL_SIZES {
        let mut stage = stage_with(size, answer());
        assert_screen("positions", &stage);
        stage.press(KeyCode::End);
        assert_screen("positions_end", &stage);
        stage.press(KeyCode::Up);
        stage.press(KeyCode::Up);
        stage.press(KeyCode::Enter);
        assert_screen("position", &stage);
        stage.press(KeyCode::Esc);
        stage.keys("+");
        assert_screen("positions_alone", &stage);
        stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
        assert_screen("positions_without_engine", &stage);

        let one = more_fixtures::positions()[..1].to_vec();
        assert_screen("positions_one", &stage_with(size, more_fixtures::positions_answer(one, 7)));
        assert_screen(
            "positions_none",
            &stage_with(size, more_fixtures::positions_answer(Vec::new(), 7)),
        );
        let none = PositionsAnswer {
            unread: vec![unread()],
            ..more_fixtures::positions_answer(Vec::new(), 6)
        };
        assert_screen("positions_unread", &stage_with(size, none));
        let mut stage = stage_with(size, many(1_000, 3));
        for _each in 0..11 {
            stage.press(KeyCode::Down);
        }
        assert_screen("positions_many", &stage);

        let mut stage = stage_with(size, answer());
        answer_new_query(&mut stage, Err(fault()));
        assert_screen("positions_old", &stage);
        stage.model.server.positions = None;
        assert_screen("positions_unknown", &stage);
    }
}

#[test]
fn venue_that_changed_is_noted_once() {
    let note = |stage: &Stage| stage.model.last_note.as_ref().map(|note| note.text.clone());
    let mut changed = answer();
    changed.positions[1].trust = VenueTrust::Changed;
    changed.positions[1].reason = "its owner is not trusted".into();
    let mut stage = stage_with((80, 24), answer());
    answer_new_query(&mut stage, Ok(Answer::Positions(answer())));
    assert_eq!(note(&stage), None);
    answer_new_query(&mut stage, Ok(Answer::Positions(changed.clone())));
    let text = "The venue \"Steakhouse USDG\" is no longer trusted. Press 2 to see why.";
    assert_eq!(note(&stage).as_deref(), Some(text));
    let screen = stage.screen();
    assert!(screen.contains(text) && screen.contains(" changed "), "{screen}");
    // The note is shown again neither for the same answer nor for an answer without the row.
    let mut unread = changed.clone();
    unread.positions.remove(1);
    for known in [changed.clone(), unread, changed.clone()] {
        stage.model.last_note = None;
        answer_new_query(&mut stage, Ok(Answer::Positions(known)));
        assert_eq!(note(&stage), None);
    }
    // A note is shown again for a row that was trusted in between. Several venues share one note.
    answer_new_query(&mut stage, Ok(Answer::Positions(answer())));
    changed.positions[2].trust = VenueTrust::Changed;
    answer_new_query(&mut stage, Ok(Answer::Positions(changed)));
    let text = "2 venues are no longer trusted. Press 2 to see why.";
    assert_eq!(note(&stage).as_deref(), Some(text));
}

#[test]
fn every_row_can_be_scrolled_to() {
    for size in EACH_LAYOUT {
        let mut stage = stage_with(size, many(30, 3));
        stage.model.server.positions.as_mut().unwrap().unread = vec![unread(); 3];
        let balances = stage.model.shown_rows(Pane::Balances).len() - 33;
        for index in 0..balances + 33 {
            assert_eq!(stage.model.selected_row(Pane::Balances), index, "{size:?}");
            let screen = stage.screen();
            let number = index.checked_sub(balances).filter(|number| *number < 30);
            let wanted = match number {
                Some(number) => format!("123456789.{number:06} USDG"),
                None if index < balances => "NETWORK".into(),
                None => "not read: research on".into(),
            };
            assert!(screen.contains(&wanted), "row {index} at {size:?}:\n{screen}");
            stage.press(KeyCode::Down);
        }
        let mut stage = stage_with(size, many(1_000, 7));
        stage.press(KeyCode::End);
        assert!(stage.screen().contains("123456789.000999 USDG"), "{}", stage.screen());
        stage.press(KeyCode::PageUp);
        stage.press(KeyCode::Home);
        assert_eq!(stage.model.selected_row(Pane::Balances), 0);
    }
}

/// The selected position is shown with all its lines and its obstacle.
#[test]
fn selected_position_is_whole() {
    for size in [(60, 16), (80, 24), (120, 40), (200, 60)] {
        let mut stage = stage_with(size, answer());
        for _each in 0..10 {
            stage.press(KeyCode::Down);
        }
        let screen = stage.screen();
        for part in ["50.012345 USDG", " refused ", "\"Steakhouse USDG\"", " 0.000000 USDG"] {
            assert!(screen.contains(part), "{part} at {size:?}:\n{screen}");
        }
        assert!(screen.contains("! nothing can be withdrawn: "), "{size:?}:\n{screen}");
        // All of its lines are marked as selected.
        let line = screen.lines().find(|line| line.contains("  refused ")).unwrap();
        let x = u16::try_from(line.split("  refused ").next().unwrap().chars().count()).unwrap();
        let buffer = stage.buffer();
        let is_marked = |y: &u16| buffer[(x, *y)].modifier.contains(Modifier::REVERSED);
        let lines = 4 + usize::from(size.0 == 120);
        assert_eq!((0..size.1).filter(is_marked).count(), lines, "{size:?}:\n{screen}");
        assert!(screen.contains(" shares"), "{size:?}:\n{screen}");
    }
}

#[test]
fn positions_leave_the_balances_at_least_half_of_the_pane() {
    for size in EACH_LAYOUT {
        let screen = stage_with(size, many(1_000, 1)).screen();
        let shown = |what: &str| screen.lines().filter(|line| line.contains(what)).count();
        assert!(shown(" ETH ") >= 1 && shown(" 0.25│") >= 1, "{size:?}:\n{screen}");
        let head = screen.lines().position(|line| line.contains("TOKEN "));
        let end = screen.lines().position(|line| line.contains("POSITIONS "));
        if let (Some(head), Some(end)) = (head, end) {
            let positions = shown("123456789.") + shown("  pinned ") + shown("withdrawn");
            assert!(end - head >= positions, "{size:?}:\n{screen}");
        }
        assert!(screen.contains("1000 positions"), "{size:?}:\n{screen}");
    }
    // If room is short, the line that reports no positions is left out first.
    let none = || stage_with((100, 24), more_fixtures::positions_answer(Vec::new(), 7)).screen();
    assert!(!none().contains("No position"), "{}", none());
}

#[test]
fn positions_that_fail_or_take_long_hide_and_delay_no_balance() {
    let mut stage = Stage::new(Setup::default(), (80, 24));
    stage.keys("2");
    let mut slow = None;
    while let Some((id, order)) = (!stage.sent.is_empty()).then(|| stage.sent.remove(0)) {
        match order.name() {
            "positions" => slow = Some(id),
            "balances" => {
                assert!(slow.is_none(), "balances are queried first");
                let addresses = vec![fixtures::holdings("EVIL")];
                stage.answer(id, Ok(Answer::Balances { addresses }));
            }
            "watch" => {}
            _other => stage.answer(id, Err(Fault::new(Code::InternalError))),
        }
    }
    let slow = slow.expect("they are queried");
    let screen = stage.screen();
    assert!(screen.contains("12.5") && screen.contains("Positions are not known yet."), "{screen}");
    // Meanwhile balances are still queried and stored.
    for round in 1..4 {
        stage.wait(300_000);
        assert!(stage.take_newest_order("positions").is_none(), "one at a time");
        let (id, _) = stage.take_newest_order("balances").expect("not delayed");
        let mut addresses = vec![fixtures::holdings("EVIL")];
        addresses[0].networks[0].balances[0].amount = Some(fixtures::usdc(&format!("{round}.77")));
        stage.answer(id, Ok(Answer::Balances { addresses }));
        assert!(stage.screen().contains(&format!("{round}.77")), "{}", stage.screen());
    }
    stage.answer(slow, Err(fault()));
    let screen = stage.screen();
    assert!(screen.contains("12.5") && screen.contains("8, positions ?"), "{screen}");
    assert!(
        screen.contains("Positions are not known: No venue could be read. Press r"),
        "{screen}"
    );
    // Known positions remain, and are marked as old.
    answer_new_query(&mut stage, Ok(Answer::Positions(answer())));
    assert!(stage.screen().contains("8, 4 positions ! "), "{}", stage.screen());
    answer_new_query(&mut stage, Err(fault()));
    let screen = stage.screen();
    assert!(screen.contains("8, 4 positions old ! "), "{screen}");
    assert!(screen.contains("1200.000000 USDC"), "{screen}");
    assert!(screen.contains("! These positions are old: No venue could be read."), "{screen}");
}

fn unavailable(why: &str) -> Fault {
    Fault::because(Code::ChainUnavailable, why)
}

#[test]
fn positions_stay_when_balances_fail() {
    let mut stage = stage_with((80, 24), answer());
    let why = "No balance could be read.";
    stage.model.server.balances = None;
    stage.model.server.query_failures.insert(Topic::Balances, unavailable(why));
    let screen = stage.screen();
    assert!(screen.contains(why) && screen.contains("1200.000000 USDC"), "{screen}");
    // A reason that applies to both balances and positions is shown once.
    stage.model.server.positions = None;
    stage.model.server.query_failures.insert(Topic::Positions, unavailable(why));
    assert_eq!(stage.screen().matches(why).count(), 1, "{}", stage.screen());
}

/// Answers every query and returns their commands.
fn queries(stage: &mut Stage) -> Vec<&'static str> {
    let mut names = Vec::new();
    while let Some((id, order)) = stage.sent.pop() {
        if order.name() != "watch" {
            names.push(order.name());
            stage.answer(id, Err(Fault::new(Code::InternalError)));
        }
    }
    names
}

#[test]
fn positions_are_queried_less_often_than_balances() {
    let mut stage = stage_with((80, 24), answer());
    let mut names = Vec::new();
    for _minute in 0..60 {
        stage.wait(60_000);
        names.extend(queries(&mut stage));
    }
    let count = |wanted| names.iter().filter(|name| **name == wanted).count();
    assert_eq!((count("balances"), count("positions")), (12, 6));
    stage.keys("r");
    stage.wait(400);
    assert!(queries(&mut stage).contains(&"positions"));
    for (kind, queried) in
        [("payment.signed", false), ("trade.ended", false), ("address.added", true)]
    {
        let mut entries = feed(stage.model.server.feed.head() + 1, 1);
        entries[0].kind = kind.parse().unwrap();
        stage.frame(bursar_control::wire::ToClient::Entries { id: 7, entries });
        stage.wait(400);
        assert_eq!(queries(&mut stage).contains(&"positions"), queried, "{kind}");
    }
}

#[test]
fn opened_position_shows_the_whole_venue_and_copying_never_takes_its_address() {
    let mut stage = stage_with((80, 24), answer());
    for _each in 0..10 {
        stage.press(KeyCode::Down);
    }
    let venue = stage.model.server.positions.as_ref().unwrap().positions[2].venue.clone();
    stage.keys("c");
    let copied = stage.intents.last().unwrap().clone();
    let own = fixtures::address().address;
    assert!(copied.contains(&own) && !copied.contains(&venue), "{copied}");
    stage.press(KeyCode::Enter);
    let screen = stage.screen();
    for part in [
        venue.as_str(),
        "refused: no official factory created the vault's adapter",
        "49000000000000000000",
        "nothing now: a gate of the vault",
        "\"Steakhouse USDG\"  (text from the venue)",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    stage.press(KeyCode::Esc);
    // A row without readable positions cannot be opened.
    stage.press(KeyCode::End);
    assert!(!stage.screen().contains("enter open"), "{}", stage.screen());
    stage.press(KeyCode::Enter);
    assert!(stage.model.overlay.is_none());
}

/// The selected position remains selected when positions above it appear and disappear.
#[test]
fn selection_follows_its_position() {
    let mut stage = stage_with((80, 24), answer());
    for _each in 0..10 {
        stage.press(KeyCode::Down);
    }
    let mut fewer = answer();
    fewer.positions.remove(0);
    answer_topic(&mut stage, Topic::Positions, Answer::Positions(fewer));
    assert_eq!(stage.model.selected_row(Pane::Balances), 9);
    answer_topic(&mut stage, Topic::Balances, Answer::Balances { addresses: Vec::new() });
    assert_eq!(stage.model.selected_row(Pane::Balances), 1);
}

#[test]
fn trust_is_a_word_in_every_theme() {
    let mut stage = Stage::with_rows(
        Setup { colors: ColorUse::Never, ascii: true, ..Setup::default() },
        (200, 60),
    );
    answer_topic(&mut stage, Topic::Positions, Answer::Positions(answer()));
    stage.keys("2+");
    let screen = stage.screen();
    for word in [" curated ", " pinned ", " new ", " refused "] {
        assert!(screen.contains(word), "{word}:\n{screen}");
    }
    let buffer = stage.buffer();
    for cell in buffer.content() {
        assert!(cell.symbol().is_ascii() && cell.fg == Color::Reset, "{}", cell.symbol());
    }
}

/// A venue's name cannot imitate the column of trust, and its quotation ends before the amount.
#[test]
fn name_of_a_venue_stays_in_its_quotation() {
    let mut positions = vec![more_fixtures::positions()[1].clone()];
    positions[0].name = "x\" curated \u{1b}[2J\u{202e}".into();
    let stage = stage_with((80, 24), more_fixtures::positions_answer(positions, 1));
    let screen = stage.screen();
    assert!(screen.contains(r#"  refused "x\" curated \u{1b}[2J\u{202e}""#), "{screen}");
}
