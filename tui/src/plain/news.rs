//! News about requests: new ones, the time that is left, and how they ended. Each is reported once.

use std::collections::BTreeMap;

use bursar_control::answers::RequestAnswer;
use bursar_core::text::Zone;

use crate::console::model::queued::QueuedRequest;
use crate::console::model::server::Server;

/// The times left, in milliseconds, at which a request is announced again.
const MARKS_MS: [u64; 3] = [300_000, 60_000, 10_000];
/// Maximum number of cards that are printed at once. Of more requests, only the number is printed.
const CARDS_MAX: usize = 5;

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    New(Box<RequestAnswer>),
    /// Number of further new requests.
    More(usize),
    Left {
        id: String,
        left_ms: u64,
    },
    Ended {
        id: String,
        how: String,
    },
}

/// What was reported of a request.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// Number of [`MARKS_MS`] that have passed.
    marks: usize,
    is_end_known: bool,
}

/// What was reported of each request.
#[derive(Debug, Default)]
pub(super) struct News {
    reported: BTreeMap<String, Reported>,
}

impl News {
    /// Returns the news that were not reported yet. `with_ends` is false while the operator's own decision is in flight.
    pub(super) fn take(&mut self, server: &Server, now_ms: u64, with_ends: bool) -> Vec<Item> {
        self.reported.retain(|id, _known| server.find_queued(id).is_some());
        let (mut items, mut others) = (Vec::new(), Vec::new());
        let mut more = 0usize;
        for queued in &server.queue {
            let id = &queued.request.id;
            let end = queued.closed_reason(now_ms);
            let Some(known) = self.reported.get_mut(id) else {
                let is_new = end.is_none();
                let marks = marks(queued, now_ms);
                let reported = Reported { marks, is_end_known: !is_new };
                self.reported.insert(id.clone(), reported);
                if is_new && items.len() < CARDS_MAX {
                    items.push(Item::New(Box::new(queued.request.clone())));
                } else if is_new {
                    more = more.saturating_add(1);
                }
                continue;
            };
            match end {
                None => {
                    // A trade that was approved may wait for its Ledger again.
                    known.is_end_known = false;
                    let passed = marks(queued, now_ms);
                    if passed > known.marks {
                        known.marks = passed;
                        let left_ms = queued.left_ms(now_ms);
                        others.push(Item::Left { id: id.clone(), left_ms });
                    }
                }
                Some(how) if with_ends && !known.is_end_known => {
                    known.is_end_known = true;
                    others.push(Item::Ended { id: id.clone(), how: end_text(queued, how) });
                }
                Some(_known) => {}
            }
        }
        others.extend(items);
        others.extend((more > 0).then_some(Item::More(more)));
        others
    }

    /// Records that the card of a pending request was printed.
    pub(super) fn note_printed(&mut self, queued: &QueuedRequest, now_ms: u64) {
        let known = self.reported.entry(queued.request.id.clone()).or_default();
        known.marks = known.marks.max(marks(queued, now_ms));
    }

    /// Records that the operator knows the end of a request.
    pub(super) fn note_end(&mut self, id: &str) {
        self.reported.entry(id.to_owned()).or_default().is_end_known = true;
    }

    /// Returns when the next request passes a mark or expires.
    pub(super) fn wake_ms(&self, server: &Server, now_ms: u64) -> Option<u64> {
        let pending = server.pending(now_ms);
        let times = pending.flat_map(|queued| {
            MARKS_MS.iter().chain([&0]).map(|mark| queued.deadline_ms.saturating_sub(*mark))
        });
        times.filter(|time| *time > now_ms).min()
    }
}

/// Returns how many marks a request has passed.
fn marks(queued: &QueuedRequest, now_ms: u64) -> usize {
    let left_ms = queued.left_ms(now_ms);
    MARKS_MS.iter().filter(|mark| left_ms <= **mark).count()
}

fn end_text(queued: &QueuedRequest, how: &str) -> String {
    let origin = queued.end.as_ref().and_then(|end| end.origin.as_ref());
    let origin = origin.map(|origin| origin.text(&Zone::default()));
    origin.map_or_else(|| how.to_owned(), |origin| format!("{how}, {origin}"))
}
