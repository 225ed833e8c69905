//! A store in two files gives the same answers as a store in memory, no matter when rows move to the history, and
//! also to concurrent readers. Files that do not belong together are refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_engine::journal::{
    Batch, Checkpoints, Head, Journal, MemoryStore, Reader, RedbStore, Seal, Snapshot, Store,
    check_closed_journal,
};
use bursar_engine::ports::{Failpoints, NoFailpoints};
use proptest::prelude::*;

use crate::request;

const SMALL_CHECKPOINTS: [Checkpoints; 3] = [
    Checkpoints { after_bytes: 1, in_background: false },
    Checkpoints { after_bytes: 1500, in_background: false },
    Checkpoints { after_bytes: 1500, in_background: true },
];

#[derive(Debug, Clone)]
enum Step {
    /// Commits `new` requests, and settlements or new records for some older ones.
    Commit {
        new: u8,
        older: u8,
        payee: u8,
        special: u8,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let commit = (0..4_u8, any::<u8>(), 0..5_u8, 0..24_u8)
        .prop_map(|(new, older, payee, special)| Step::Commit { new, older, payee, special });
    prop_oneof![9 => commit, 1 => Just(Step::Reopen)]
}

fn day_key(day: u32, tail: u64) -> Vec<u8> {
    [b"h".as_slice(), &day.to_be_bytes(), &tail.to_be_bytes()].concat()
}

fn payee(tail: u8) -> Payee {
    Payee { chain: ChainId(8453), address: [tail; 20].into() }
}

fn payee_totals(times: u64) -> PaymentTotals {
    PaymentTotals { times, approved: 0, first: Utc(1), last: Utc(2), usd: Usd(times) }
}

/// Makes batches as a journal does: entries in order, and other rows about any of them.
#[derive(Debug, Default)]
struct BatchMaker {
    seq: u64,
    day: u32,
    commits: u64,
    keys: Vec<Vec<u8>>,
}

impl BatchMaker {
    fn head(&self) -> Head {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&self.seq.to_be_bytes());
        Head { seq: self.seq, hash }
    }

    fn batch(&mut self, new: u8, older: u8, to: u8, special: u8) -> Batch {
        let mut batch = Batch::default();
        self.commits += 1;
        let before = self.seq;
        for _request in 0..new {
            self.seq += 1;
            batch.entries.push((self.seq, format!("entry {}", self.seq).into_bytes()));
            batch.records.push((self.seq, request(self.seq, 1)));
            let id = [b"i".as_slice(), &self.seq.to_be_bytes(), &[0; 8]].concat();
            for key in [id, day_key(self.day, self.seq), vec![b'b', older]] {
                batch.index.push((key.clone(), self.seq));
                self.keys.push(key);
            }
        }
        let known = (before > 0).then(|| 1 + u64::from(older) % before);
        if let Some(known) = known {
            batch.records.push((known, request(known, self.commits)));
        }
        if to > 0 {
            batch.payees.insert(payee(to), payee_totals(self.commits));
        }
        match special {
            0 => {
                batch.snapshot = Some(Snapshot {
                    head: self.head(),
                    state: vec![older; 1 + usize::from(older)],
                    tag: (older > 9).then_some([older; 32]),
                })
            }
            1 => {
                self.day += 1;
                batch.forget_before = Some(self.day);
            }
            2 => batch.payees_incomplete = true,
            3 => {
                batch.payees_replaced = true;
                batch.payees = (1..=to).map(|tail| (payee(tail), payee_totals(99))).collect();
            }
            _ => {}
        }
        batch.head = self.head();
        batch.seal = special.is_multiple_of(2).then_some(Seal { seq: self.seq, tag: [older; 32] });
        batch
    }
}

/// Returns everything that a store and its reader answer.
fn all_answers(store: &dyn Store, keys: &[Vec<u8>], last: u64) -> impl PartialEq + std::fmt::Debug {
    let mut entries = Vec::new();
    let mut visit = |bytes: &[u8]| {
        entries.push(bytes.to_vec());
        true
    };
    store.read_after(0, &mut visit).unwrap();
    let reader = store.reader();
    let mut late = Vec::new();
    let mut visit = |bytes: &[u8]| {
        late.push(bytes.to_vec());
        late.len() < 3
    };
    reader.read_after(last / 2, &mut visit).unwrap();
    let mut newest = Vec::new();
    let mut visit = |request: bursar_domain::Request| {
        newest.push((request.seq, request.ask.usd()));
        true
    };
    reader.newest(&mut visit).unwrap();
    let mut rows = BTreeMap::new();
    store.reader().payees(&mut |payee, paid| assert!(rows.insert(payee, paid).is_none())).unwrap();
    let each: Vec<_> = (0..=last + 1)
        .map(|seq| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&seq.to_be_bytes());
            let found = reader.request(RequestId::from_bytes(id)).unwrap();
            (store.entry(seq).unwrap(), store.record(seq).unwrap(), found)
        })
        .collect();
    let indexed: Vec<_> = keys.iter().map(|key| store.entry_of_key(key).unwrap()).collect();
    let paid: Vec<_> = (0..6)
        .map(|to| (store.payee_totals(&payee(to)).unwrap(), reader.payee_totals(&payee(to)).ok()))
        .collect();
    let heads = (store.head().unwrap(), store.payees_through().unwrap());
    let meta =
        (store.seal().unwrap(), store.snapshot().unwrap(), store.forgotten_before_day().unwrap());
    (entries, late, newest, rows, each, indexed, paid, (heads, meta))
}

fn open(path: &Path, carry: Checkpoints) -> RedbStore {
    RedbStore::open(path, Arc::new(NoFailpoints)).unwrap().with_checkpoints(carry)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_store_in_two_files_equals_one_in_memory(
        steps in proptest::collection::vec(step(), 1..40),
        carry in proptest::sample::select(&SMALL_CHECKPOINTS),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.redb");
        let (mut model, mut maker) = (MemoryStore::default(), BatchMaker::default());
        let mut store = open(&path, carry);
        for step in steps {
            match step {
                Step::Commit { new, older, payee, special } => {
                    let batch = maker.batch(new, older, payee, special);
                    model.commit(batch.clone()).unwrap();
                    store.commit(batch).unwrap();
                }
                Step::Reopen => {
                    drop(store);
                    store = open(&path, carry);
                }
            }
            let (expected, found) =
                (all_answers(&model, &maker.keys, maker.seq), all_answers(&store, &maker.keys, maker.seq));
            prop_assert!(expected == found, "{expected:?}\n{found:?}");
        }
        // Reopening once more changes nothing.
        drop(store);
        let store = open(&path, Checkpoints::PRODUCTION);
        prop_assert!(all_answers(&model, &maker.keys, maker.seq) == all_answers(&store, &maker.keys, maker.seq));
    }
}

/// Fails the first checkpoint, and nothing else.
#[derive(Debug, Default)]
struct FirstCheckpointFails(AtomicBool);

impl Failpoints for FirstCheckpointFails {
    fn hit(&self, point: &'static str) -> std::io::Result<()> {
        let first = point == "journal.before_carry" && !self.0.swap(true, Ordering::SeqCst);
        if first { Err(std::io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

#[test]
fn after_a_failed_checkpoint_a_store_commits_nothing_and_a_restart_finds_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let carry = Checkpoints { after_bytes: 1, in_background: true };
    let store = RedbStore::open(&path, Arc::new(FirstCheckpointFails::default())).unwrap();
    let mut store = store.with_checkpoints(carry);
    let (mut model, mut maker) = (MemoryStore::default(), BatchMaker::default());
    let batch = maker.batch(3, 0, 0, 0);
    model.commit(batch.clone()).unwrap();
    store.commit(batch).unwrap();
    // The start of a backup reports the failure before any commit does.
    assert!(store.begin_copy().is_err());
    let (keys, last) = (maker.keys.clone(), maker.seq);
    assert!(store.commit(maker.batch(3, 0, 0, 0)).is_err());
    assert!(
        all_answers(&model, &keys, last) == all_answers(&store, &keys, last),
        "rows are missing"
    );
    drop(store);
    let store = open(&path, Checkpoints::PRODUCTION);
    assert!(all_answers(&model, &keys, last) == all_answers(&store, &keys, last), "rows are lost");
}

#[test]
fn readers_miss_no_row_while_rows_move_to_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let carry = Checkpoints { after_bytes: 6_000, in_background: true };
    let mut store = open(&folder.path().join("journal.redb"), carry);
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let reader: Arc<dyn Reader> = store.reader();
    std::thread::scope(|scope| {
        for _reader in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let known = written.load(Ordering::Acquire);
                    let mut seen = 0;
                    let mut visit = |bytes: &[u8]| {
                        seen += 1;
                        assert_eq!(bytes, format!("entry {seen}").as_bytes());
                        true
                    };
                    reader.read_after(0, &mut visit).unwrap();
                    assert!(seen >= known, "{seen} of {known}");
                    let mut last = None;
                    let mut visit = |request: bursar_domain::Request| {
                        assert_eq!(request.seq, last.map_or(request.seq, |last| last - 1));
                        assert!(last.is_some() || request.seq >= known);
                        last = Some(request.seq);
                        true
                    };
                    reader.newest(&mut visit).unwrap();
                    assert_eq!(last.unwrap_or(1), 1);
                    if known > 0 {
                        let mut id = [0; 16];
                        id[..8].copy_from_slice(&known.to_be_bytes());
                        assert!(reader.request(RequestId::from_bytes(id)).unwrap().is_some());
                    }
                }
            });
        }
        let mut maker = BatchMaker::default();
        for _commit in 0..600 {
            store.commit(maker.batch(3, 0, 0, 23)).unwrap();
            written.store(maker.seq, Ordering::Release);
        }
        over.store(true, Ordering::Release);
    });
}

#[test]
fn journal_files_of_different_times_are_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let beside = folder.path().join("journal-history.redb");
    let mut maker = BatchMaker::default();
    let mut pass = |commits: u8| {
        let mut store = open(&path, SMALL_CHECKPOINTS[1]);
        for at in 0..commits {
            store.commit(maker.batch(2, at, 0, 23)).unwrap();
        }
        drop(store);
        (std::fs::read(&path).unwrap(), std::fs::read(&beside).ok())
    };
    let (first, none) = pass(1);
    assert!(none.is_none(), "a short journal needs no history");
    let (older, older_history) = pass(9);
    let (newer, newer_history) = pass(9);
    let (older_history, newer_history) = (older_history.unwrap(), newer_history.unwrap());
    let refused = |short: &[u8], long: Option<&[u8]>| {
        std::fs::write(&path, short).unwrap();
        match long {
            Some(long) => std::fs::write(&beside, long).unwrap(),
            None => std::fs::remove_file(&beside).unwrap_or_default(),
        }
        let checked = check_closed_journal(&path).map(drop).map_err(|error| error.to_string());
        let opened = RedbStore::open(&path, Arc::new(NoFailpoints)).unwrap_err().to_string();
        assert!(opened.contains("journal-history.redb"), "{opened}");
        // The check skips an empty file, because redb cannot open it read-only.
        assert_eq!(checked, if short.is_empty() { Ok(()) } else { Err(opened) });
        assert_eq!(std::fs::read(&path).unwrap().is_empty(), short.is_empty());
    };
    refused(&newer, None);
    refused(&newer, Some(&older_history));
    refused(&older, Some(&newer_history));
    refused(&first, Some(&newer_history));
    refused(&[], Some(&newer_history));
    std::fs::write(&beside, b"").unwrap();
    assert!(RedbStore::open(&path, Arc::new(NoFailpoints)).is_err(), "an empty history is none");
    for (short, long) in [(&older, &older_history), (&newer, &newer_history)] {
        std::fs::write(&path, short).unwrap();
        std::fs::write(&beside, long).unwrap();
        assert!(RedbStore::open(&path, Arc::new(NoFailpoints)).is_ok());
    }
}

#[test]
fn a_copy_fails_if_the_history_changes_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (path, beside) =
        (folder.path().join("journal.redb"), folder.path().join("journal-history.redb"));
    let (mut store, mut maker) = (open(&path, SMALL_CHECKPOINTS[1]), BatchMaker::default());
    assert_eq!(store.begin_copy().unwrap(), None, "a short journal needs no history");
    store.end_copy(None).unwrap();
    for at in 0..9 {
        store.commit(maker.batch(2, at, 1, 23)).unwrap();
    }
    let copies = tempfile::tempdir().unwrap();
    let to = copies.path().join("journal.redb");

    assert_eq!(store.begin_copy().unwrap().as_ref(), Some(&beside));
    // Commit so many rows that a checkpoint starts despite the copy.
    for at in 0..40 {
        store.commit(maker.batch(2, at, 1, 23)).unwrap();
    }
    assert!(store.end_copy(Some(&to)).unwrap_err().to_string().contains("try again"));
    assert!(!to.exists());

    let mut journal = Journal::open(Box::new(store)).unwrap();
    let history = journal.begin_copy().unwrap().unwrap();
    std::fs::copy(history, copies.path().join("journal-history.redb")).unwrap();
    journal.end_copy(Some(&to)).unwrap();
    drop(journal);
    let (copied, store) =
        (open(&to, Checkpoints::PRODUCTION), open(&path, Checkpoints::PRODUCTION));
    assert!(
        all_answers(&copied, &maker.keys, maker.seq) == all_answers(&store, &maker.keys, maker.seq)
    );
}

#[cfg(unix)]
#[test]
fn commits_fail_after_the_history_is_moved_or_replaced() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.redb");
        let beside = folder.path().join("journal-history.redb");
        let (mut store, mut maker) = (open(&path, SMALL_CHECKPOINTS[0]), BatchMaker::default());
        store.commit(maker.batch(1, 0, 0, 23)).unwrap();
        store.commit(maker.batch(1, 0, 0, 23)).unwrap();
        std::fs::rename(&beside, folder.path().join("elsewhere")).unwrap();
        if replaced {
            std::fs::copy(folder.path().join("elsewhere"), &beside).unwrap();
        }
        let failure = store.commit(maker.batch(1, 0, 0, 23)).unwrap_err().to_string();
        let said = if replaced { "another file was put in its place" } else { "moved or deleted" };
        assert!(failure.contains(said), "{failure}");
    }
}
