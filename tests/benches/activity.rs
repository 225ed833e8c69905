//! The cost of a page of `activity` in a journal of a million entries, by its position.
//!
//! A console pages through the whole journal, so no position may cost more than another. The bench also measures the
//! console's own jump to the oldest entry.
//!
//! `cargo bench -p bursar-tests --bench activity` (takes some minutes to make the journal)

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bursar_control::answers::Answer;
use bursar_core::client::Program;
use bursar_core::settings::Setting;
use bursar_domain::Action;
use bursar_engine::control::ControlChannel;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::operator::{Expect, Operator};
use bursar_tui::console::{OffscreenConsole, Setup as Look};

const ENTRIES: u64 = 1_000_000;
const CONCURRENT_REQUESTS: u64 = 64;
const PAGES: u64 = 200;

#[tokio::main]
async fn main() {
    let engine = Arc::new(
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await,
    );
    engine.set_up_wallet("--day 10").await;
    let begun = Instant::now();
    let head = head(&mut engine.operator()).await;
    let makers = (0..CONCURRENT_REQUESTS).map(|maker| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            for turn in 0..(ENTRIES - head) / CONCURRENT_REQUESTS {
                // The value changes with each turn, and stays below the default.
                let seconds = 600 + (turn * CONCURRENT_REQUESTS + maker) % 2_000;
                let set = Action::Set(Setting::MaxValidity(seconds));
                engine.engine.core().act(set).await.expect("it may be set");
            }
        })
    });
    for maker in makers.collect::<Vec<_>>() {
        maker.await.expect("done");
    }
    let mut operator = engine.operator();
    let head = self::head(&mut operator).await;
    println!("{head} entries, made in {:.0} s", begun.elapsed().as_secs_f64());

    let mut newest = Duration::ZERO;
    for (place, from) in [("newest", head), ("middle", head / 2), ("oldest", 40_000)] {
        let begun = Instant::now();
        for page in 0..PAGES {
            let before = from - page * 200 + 1;
            let line = format!("activity --raw --before {before} --limit 200");
            let Answer::Activity(answer) = operator.must(&line).await else { panic!("a page") };
            assert_eq!(answer.entries.len(), 200);
        }
        let mean = begun.elapsed() / u32::try_from(PAGES).expect("few");
        if newest == Duration::ZERO {
            newest = mean;
        }
        let ratio = mean.as_secs_f64() / newest.as_secs_f64();
        println!("{place:<7} page of 200: {:>7.3} ms  x {ratio:.2}", mean.as_secs_f64() * 1e3);
    }

    engine.engine.serve_control(ControlChannel::SOCKET).await.expect("a socket");
    let mut link = engine.link(Program::Console).await;
    let mut screen = OffscreenConsole::new(Look::default(), (200, 60), io::sink());
    let begun = Instant::now();
    let mut sent = screen.connect();
    let mut jumped = None;
    loop {
        for frame in sent {
            link.send(&frame).await.expect("sent");
        }
        sent = match (screen.is_settled(), jumped) {
            (true, None) => {
                println!("attached: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
                jumped = Some(Instant::now());
                let mut sent = screen.press('5');
                sent.extend(screen.press('G'));
                sent
            }
            (true, Some(at)) => {
                screen.show().expect("a sink");
                println!("to the oldest entry: {:.1} ms", at.elapsed().as_secs_f64() * 1e3);
                break;
            }
            (false, _) => screen.receive(link.receive().await.expect("received")),
        };
    }
}

async fn head(operator: &mut Operator) -> u64 {
    let Answer::Activity(answer) = operator.must("activity --raw --limit 1").await else {
        panic!("a page")
    };
    answer.entries.first().map_or(0, |row| row.seq)
}
