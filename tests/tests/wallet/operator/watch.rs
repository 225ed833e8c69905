//! `watch`: a client that listens, joins late or reconnects receives every entry once and in order.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar_control::answers::ActivityRow;
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::limits::{WATCH_FRAME_BYTES_MAX, WATCH_FRAME_ENTRIES_MAX};
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::operator::Expect;
use bursar_tui::link::{Link, Received};

use super::activity::{activity, ask, seqs};

/// Timeout for waits that only a bug makes endless.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client that watches.
pub(crate) struct Watcher(Link);

impl Watcher {
    pub(crate) async fn begin(engine: &TestEngine, line: &str) -> Self {
        let mut link = Link::over(engine.engine.attach());
        let order = Box::new(Order::parse_line(line).unwrap());
        link.send(&ToEngine::Run { id: 1, order, asking: Asking::Silent }).await.unwrap();
        Self(link)
    }

    async fn next_rows(&mut self) -> Vec<ActivityRow> {
        match self.0.receive().await.unwrap() {
            Received::Message(ToClient::Entries { id: 1, entries }) => {
                assert!(
                    (1..=WATCH_FRAME_ENTRIES_MAX).contains(&u64::try_from(entries.len()).unwrap())
                );
                assert!(serde_json::to_vec(&entries).unwrap().len() <= WATCH_FRAME_BYTES_MAX);
                entries
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns all entries up to the first that matches.
    pub(crate) async fn rows_until(
        &mut self,
        fits: impl Fn(&ActivityRow) -> bool,
    ) -> Vec<ActivityRow> {
        let mut answer: Vec<ActivityRow> = Vec::new();
        while !answer.iter().any(&fits) {
            answer.extend(self.next_rows().await);
        }
        answer
    }

    async fn end(mut self) -> Code {
        loop {
            match self.0.receive().await.unwrap() {
                Received::Message(ToClient::Entries { .. }) => {}
                Received::Message(ToClient::Done { id: 1, reply }) => {
                    return reply.result.unwrap_err().code;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// All watchers receive the same entries: a steady one, a slow one, a late one, and one that reconnects after each
/// frame.
#[tokio::test]
async fn every_watcher_receives_every_entry_once_and_in_order() {
    let engine =
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    engine.set_up_wallet("--day 1000 --txn 10 --auto 5").await;
    // A long name fills a frame before it reaches its maximum of entries.
    let agent = engine.add_agent(&"bot".repeat(33), "bearer").await;
    let begin = activity(&mut engine.operator(), "activity --raw --limit 1").await.entries[0].seq;
    let since = |seq: u64| format!("watch --since {seq}");
    let mut idle = Watcher::begin(&engine, &since(begin)).await;
    let last = |row: &ActivityRow| row.kind.text() == "frozen";
    let paying = async {
        for n in 0..400 {
            ask(&engine, &agent, 10_000, n).await;
        }
        engine.operator().must("freeze").await;
    };
    let listening = async {
        let mut watcher = Watcher::begin(&engine, &since(begin)).await;
        watcher.rows_until(last).await
    };
    let resuming = async {
        let mut answer: Vec<ActivityRow> = Vec::new();
        while !answer.iter().any(last) {
            let seen = answer.last().map_or(begin, |row| row.seq);
            let mut watcher = Watcher::begin(&engine, &since(seen)).await;
            answer.extend(watcher.next_rows().await);
        }
        answer
    };
    let ((), response, resumed) = tokio::join!(paying, listening, resuming);
    let expected: Vec<u64> = (begin + 1..=response.last().unwrap().seq).collect();
    assert!(expected.len() > 800, "two entries for each payment");
    assert_eq!(seqs(&response), expected);
    assert_eq!(resumed, response);
    assert_eq!(idle.rows_until(last).await, response);
    let mut late = Watcher::begin(&engine, "watch --since 0").await;
    let all = late.rows_until(last).await;
    assert_eq!(seqs(&all), (1..=response.last().unwrap().seq).collect::<Vec<_>>());
    let ids: BTreeSet<_> = response.iter().filter_map(|row| row.request.as_ref()).collect();
    assert_eq!(ids.len(), 400);
}

#[tokio::test]
async fn a_watch_without_a_start_receives_only_new_entries() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10").await;
    let mut link = Link::over(engine.engine.attach());
    let run = |id, line: &str| ToEngine::Run {
        id,
        order: Box::new(Order::parse_line(line).unwrap()),
        asking: Asking::Silent,
    };
    link.send(&run(1, "watch")).await.unwrap();
    // The engine does not signal that the watch has begun, so create entries until one arrives.
    let mut answer = Vec::new();
    for id in 2.. {
        link.send(&run(id, &format!("policy create q{id} --day 1"))).await.unwrap();
        loop {
            match link.receive().await.unwrap() {
                Received::Message(ToClient::Entries { entries, .. }) => answer.extend(entries),
                Received::Message(ToClient::Done { reply, .. }) => {
                    assert!(reply.result.is_ok(), "{reply:?}");
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        if !answer.is_empty() {
            break;
        }
    }
    let fresh = |row: &ActivityRow| row.detail.as_ref().is_some_and(|text| text.starts_with('q'));
    assert!(answer.iter().all(fresh), "{answer:?}");
}

#[tokio::test]
async fn a_watch_from_beyond_the_journals_end_is_refused() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10").await;
    let mut operator = engine.operator();
    let head = activity(&mut operator, "activity --raw --limit 1").await.entries[0].seq;
    let line = format!("watch --since {}", head + 1);
    let refused = tokio::time::timeout(TIMEOUT, operator.run_refused(&line)).await.unwrap();
    assert_eq!(refused.code, Code::BadInput);
    let counted = format!("This journal has {head} entries");
    assert!(refused.message.contains(&counted), "{refused}");
}

#[tokio::test]
async fn a_cancelled_watch_ends_and_its_connection_stays_open() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10").await;
    let mut watcher = Watcher::begin(&engine, "watch --since 0").await;
    watcher.next_rows().await;
    watcher.0.send(&ToEngine::Cancel { id: 1 }).await.unwrap();
    let end = tokio::time::timeout(TIMEOUT, watcher.end()).await;
    assert_eq!(end, Ok(Code::Cancelled));
}
