//! The cost of the console, at 200 by 60 with 10,000 rows in every pane.
//!
//! The bench compares a whole frame with an empty one, and the first frame from a running engine with one command. It
//! also measures the time from a key to its frame.
//!
//! `cargo bench -p bursar-tests --bench console`

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bursar_control::answers::{Answer, Reply};
use bursar_control::wire::ToClient;
use bursar_core::client::Program;
use bursar_core::ids::RequestId;
use bursar_engine::control::ControlChannel;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator, PASSWORD};
use bursar_tui::console::{OffscreenConsole, Setup as Look};
use bursar_tui::link::{Link, Received};

const SIZE: (u16, u16) = (200, 60);
const ROWS: usize = 10_000;
const FRAMES_PER_RUN: usize = 500;

/// Counts the bytes that a terminal would receive.
#[derive(Clone, Default)]
struct Wire(Rc<Cell<usize>>);

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let engine =
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    engine.set_up_wallet("--day 1000 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    for number in 0..300 {
        let fields = serde_json::Map::from_iter([(
            "payment_required".to_owned(),
            serde_json::json!(offer(if number == 0 { 6_000_000 } else { 1_000 }, number)),
        )]);
        let mut body = serde_json::Value::Object(fields);
        body["agent_id"] = agent.id.as_str().into();
        body["signature"] = agent.token.as_str().into();
        let (status, _) = engine.post("/sign", &body).await;
        assert!(status == 200 || status == 202, "{status}");
    }
    engine.engine.serve_control(ControlChannel::SOCKET).await.expect("a socket");

    let out = Wire::default();
    let mut floor = OffscreenConsole::new(Look::default(), SIZE, out.clone());
    let mut full = OffscreenConsole::new(Look::default(), SIZE, out.clone());
    let link = engine.link(Program::Console).await;
    attach(link, &mut full, true).await;

    let empty = frames(&mut floor, |screen| screen.forget());
    let whole = frames(&mut full, |screen| screen.forget());
    out.0.set(0);
    full.forget();
    full.show().expect("counted");
    let bytes = out.0.get();
    print_row("an empty frame", empty, 1.0, "");
    let ratio = whole.mean.as_secs_f64() / empty.mean.as_secs_f64();
    print_row("a whole frame, 10,000 rows", whole, ratio, &format!("goal 2 ms, {bytes} bytes"));

    for (key, what) in [('j', "a key to its frame"), ('5', "another pane")] {
        let mut other = false;
        let turned = frames(&mut full, |screen| {
            other = !other;
            drop(screen.press(if other || key == 'j' { key } else { '1' }));
        });
        let ratio = turned.mean.as_secs_f64() / empty.mean.as_secs_f64();
        print_row(what, turned, ratio, "goal 16 ms");
    }

    let (mut command, mut first) = (Vec::new(), Vec::new());
    for _turn in 0..50 {
        let started = Instant::now();
        let link = engine.link(Program::Command).await;
        Operator::new(link, PASSWORD).must("status").await;
        command.push(started.elapsed());
        let started = Instant::now();
        let mut screen = OffscreenConsole::new(Look::default(), SIZE, out.clone());
        let link = engine.link(Program::Console).await;
        attach(link, &mut screen, false).await;
        screen.show().expect("counted");
        first.push(started.elapsed());
    }
    let (command, first) = (FrameTimes::from_times(command), FrameTimes::from_times(first));
    print_row("attach and one command", command, 1.0, "");
    let ratio = first.mean.as_secs_f64() / command.mean.as_secs_f64();
    print_row("attach to first full frame", first, ratio, "goal 100 ms");
}

/// Feeds messages to a console until it has loaded everything.
async fn attach(mut link: Link, screen: &mut OffscreenConsole<Wire>, inflated: bool) {
    let mut sent = screen.connect();
    loop {
        for frame in sent {
            link.send(&frame).await.expect("sent");
        }
        if screen.is_settled() {
            return;
        }
        let frame = link.receive().await.expect("received");
        sent = screen.receive(if inflated { with_many_rows(frame) } else { frame });
    }
}

/// Returns the frame with `ROWS` rows in its answer.
fn with_many_rows(frame: Received) -> Received {
    let Received::Message(ToClient::Done { id, reply }) = frame else { return frame };
    let Reply { result, warnings, secret } = *reply;
    let result = result.map(|answer| match answer {
        Answer::Requests { requests } => Answer::Requests {
            requests: repeat_rows(requests, |row, number| {
                row.id = uuid(number);
                if let Some(card) = &mut row.card {
                    card.id = row.id.parse::<RequestId>().expect("an id");
                }
            }),
        },
        Answer::Agents { agents } => Answer::Agents {
            agents: repeat_rows(agents, |row, number| row.agent_id = format!("A{number:05}")),
        },
        Answer::Policies { policies } => Answer::Policies {
            policies: repeat_rows(policies, |row, number| row.name = format!("policy {number}")),
        },
        Answer::History(mut history) => {
            history.requests = repeat_rows(history.requests, |row, number| row.id = uuid(number));
            Answer::History(history)
        }
        Answer::Activity(mut page) => {
            page.entries = repeat_rows(page.entries, |row, number| {
                row.seq = u64::try_from(ROWS - number).expect("small");
            });
            Answer::Activity(page)
        }
        Answer::Balances { addresses } => Answer::Balances {
            addresses: repeat_rows(addresses, |row, number| {
                row.label = format!("address {number}")
            }),
        },
        other => other,
    });
    Received::Message(ToClient::Done { id, reply: Box::new(Reply { result, warnings, secret }) })
}

fn uuid(number: usize) -> String {
    format!("{number:08x}-4567-4890-8bcd-ef0123456789")
}

fn repeat_rows<T: Clone>(rows: Vec<T>, mut change: impl FnMut(&mut T, usize)) -> Vec<T> {
    let rows = rows.into_iter().cycle().take(ROWS).enumerate();
    let changed = rows.map(|(number, mut row)| {
        change(&mut row, number);
        row
    });
    changed.collect()
}

#[derive(Clone, Copy)]
struct FrameTimes {
    mean: Duration,
    slowest_of_100: Duration,
}

impl FrameTimes {
    fn from_times(mut all: Vec<Duration>) -> Self {
        all.sort();
        let mean = all.iter().sum::<Duration>() / u32::try_from(all.len()).expect("few");
        Self { mean, slowest_of_100: all[all.len() * 99 / 100] }
    }
}

fn frames(
    screen: &mut OffscreenConsole<Wire>,
    mut before: impl FnMut(&mut OffscreenConsole<Wire>),
) -> FrameTimes {
    let mut all = Vec::with_capacity(FRAMES_PER_RUN);
    for turn in 0..FRAMES_PER_RUN + 20 {
        let started = Instant::now();
        before(screen);
        screen.show().expect("counted");
        if turn >= 20 {
            all.push(started.elapsed());
        }
    }
    FrameTimes::from_times(all)
}

fn print_row(what: &str, spent: FrameTimes, ratio: f64, note: &str) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what:<28} mean {:>8.3} ms  p99 {:>8.3} ms  x {ratio:<7.2} {note}",
        ms(spent.mean),
        ms(spent.slowest_of_100)
    );
}
