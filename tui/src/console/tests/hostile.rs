//! Text of agents and merchants reaches the terminal without any control characters.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use bursar_control::answers::{Answer, HistoryAnswer, UnreadAnswer};
use bursar_control::grammar::Order;
use bursar_control::wire::ToClient;
use crossterm::event::KeyCode;

use super::{Stage, feed, held};
use crate::console::canvas::Canvas;
use crate::console::model::server::Topic;
use crate::console::view;
use crate::oneshot::tests::{fixtures, more_fixtures};

const HOSTILE: &str = concat!(
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}evil\u{200b}\u{9b}31m\r\n\"",
    "界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界",
    "界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界界",
);

fn is_plain(text: &str) -> bool {
    text.chars().all(|ch| {
        !ch.is_control() && !matches!(ch, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// Returns every pane and every overlay, with hostile text in each field that other people control.
fn stages() -> Vec<Stage> {
    let mut stages = Vec::new();
    for size in [(80, 24), (120, 40), (200, 60), (60, 16), (59, 15), (20, 5)] {
        for opened in ["", "a", "6", "2", "2G", "2Gk\n", "3", "4", "5", "?", ":"] {
            let mut stage = Stage::new(Default::default(), size);
            let request = {
                let mut request = held(1, 60_000, |card| {
                    card.terms.request_url = Some(HOSTILE.into());
                    card.terms.resource_url = Some(HOSTILE.repeat(30));
                    card.obstacle = Some(HOSTILE.into());
                    card.amount = HOSTILE.into();
                });
                request.domain = Some(HOSTILE.into());
                request.summary = HOSTILE.into();
                request
            };
            let mut row = more_fixtures::history_row();
            (row.host, row.symbol) = (Some(HOSTILE.into()), Some(HOSTILE.into()));
            let mut agent = fixtures::agent();
            agent.name = HOSTILE.into();
            let mut entries = feed(9, 9);
            entries.iter_mut().for_each(|row| {
                (row.host, row.detail, row.agent) =
                    (Some(HOSTILE.into()), Some(HOSTILE.into()), Some(HOSTILE.into()));
            });
            for (id, order) in std::mem::take(&mut stage.sent) {
                let answer = match order {
                    Order::Status(_) => Answer::Status(fixtures::status()),
                    Order::Requests(_) => Answer::Requests { requests: vec![request.clone()] },
                    Order::Agent(_) => Answer::Agents { agents: vec![agent.clone()] },
                    Order::Policy(_) => Answer::Policies { policies: vec![fixtures::policy()] },
                    Order::History(_) => {
                        Answer::History(HistoryAnswer { requests: vec![row.clone()], more: false })
                    }
                    _activity => Answer::Activity(bursar_control::answers::ActivityAnswer {
                        entries: entries.clone(),
                        more: false,
                    }),
                };
                stage.answer(id, Ok(answer));
            }
            // Only some queries run at once.
            while let Some((id, _)) = stage.take_newest_order("config.get") {
                stage.answer(id, Ok(Answer::Setting(fixtures::notices("all"))));
            }
            if let Some((id, _)) = stage.take_newest_order("balances") {
                let addresses = vec![fixtures::holdings(HOSTILE)];
                stage.answer(id, Ok(Answer::Balances { addresses }));
            }
            let (id, _) = stage.take_newest_order("positions").unwrap();
            let mut lent = more_fixtures::positions_answer(more_fixtures::positions(), 3);
            for position in &mut lent.positions {
                (position.name, position.reason) = (HOSTILE.into(), HOSTILE.into());
                (position.label, position.obstacle) = (HOSTILE.into(), Some(HOSTILE.into()));
            }
            let (label, network) = (HOSTILE.into(), HOSTILE.into());
            lent.unread.push(UnreadAnswer { label, network, reason: HOSTILE.into() });
            stage.answer(id, Ok(Answer::Positions(lent)));
            opened.chars().for_each(|key| match key {
                '\n' => stage.press(KeyCode::Enter),
                key => stage.keys(&key.to_string()),
            });
            stage.frame(ToClient::Progress { id: 1, text: HOSTILE.into() });
            stages.push(stage);
        }
    }
    stages
}

#[test]
fn no_cell_of_any_screen_contains_a_control_character() {
    for stage in stages() {
        let buffer = stage.buffer();
        for cell in buffer.content() {
            assert!(is_plain(cell.symbol()), "{:?} at {:?}", cell.symbol(), stage.model.size);
        }
    }
}

/// Counts the bytes that go to the terminal.
#[derive(Clone, Default)]
struct CountingWriter(Rc<Cell<usize>>);

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn show(canvas: &mut Canvas<CountingWriter>, stage: &Stage) {
    canvas.show(stage.model.size, |buffer| view::draw(&stage.model, buffer)).unwrap();
}

/// Countdowns must not use up the bandwidth of an SSH connection.
#[test]
fn three_countdowns_write_less_than_200_bytes_a_second_and_idling_changes_nothing() {
    let mut stage = Stage::with_all_panes((200, 60));
    let line = CountingWriter::default();
    let mut canvas = Canvas::new(line.clone());
    show(&mut canvas, &stage);
    assert!(line.0.replace(0) > 5_000, "the first frame is a whole one");
    let start = stage.now_ms;
    while stage.now_ms < start + 10_000 {
        let wake = stage.model.wake_ms().unwrap();
        stage.wait(wake - stage.now_ms);
        show(&mut canvas, &stage);
    }
    let (written, seconds) = (line.0.get(), 10);
    assert!(written > 0 && written < 200 * seconds, "{written} bytes in {seconds} s");

    let mut stage = Stage::with_all_panes((120, 40));
    stage.model.server.queue.clear();
    show(&mut canvas, &stage);
    line.0.set(0);
    for _minute in 0..60 {
        stage.wait(60_000);
        show(&mut canvas, &stage);
    }
    assert_eq!(line.0.get(), 0, "nothing waits");
}

/// Each countdown once changed at its own fraction of a second, so that 500 of them took half a core.
#[test]
fn hundreds_of_countdowns_wake_the_console_once_a_second() {
    let mut stage = Stage::with_all_panes((120, 40));
    let rows = (1..=250).map(|number| held(number, 600_000 + 37 * u64::from(number), |_card| {}));
    let requests = rows.collect();
    stage.model.mark_stale(&[Topic::Requests]);
    stage.wait(1_000);
    let (call, _) = stage.take_newest_order("requests").expect("a query");
    stage.answer(call, Ok(Answer::Requests { requests }));
    stage.model.last_note = None;
    let start = stage.now_ms;
    let mut wakes = 0;
    while stage.now_ms < start + 9_000 {
        let wake = stage.model.wake_ms().unwrap();
        stage.wait(wake - stage.now_ms);
        wakes += 1;
    }
    assert!(wakes <= 12, "{wakes} in nine seconds");
}
