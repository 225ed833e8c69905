//! The journal and the core on it: one suite for every store, snapshots and replay, and the detection of
//! changed bytes.

#![expect(clippy::unwrap_used, reason = "whatever goes wrong here fails a test")]

use std::path::Path;
use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::{Name, RequestId};
use bursar_core::limits::SNAPSHOT_INTERVAL_ENTRIES_MIN;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_core::time::{LocalDay, Moment, Utc};
use bursar_domain::assets::Price;
use bursar_domain::event::RequestDraft;
use bursar_domain::identity::Identity;
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_domain::{Action, Event, LaneAsk, PaymentAsk, Request, State, Status};
use bursar_engine::core::Core;
use bursar_engine::edition::{Edition, Retention};
use bursar_engine::journal::{
    Batch, Checkpoints, Head, Journal, MemoryStore, RedbStore, Seal, Snapshot, Store, verify_chain,
};
use bursar_engine::ports::NoFailpoints;
use bursar_engine::rules::Rules;
use bursar_engine::vault::Vault;
use bursar_engine::vault::file::WalletFiles;
use bursar_engine::vault::gate::Gate;
use bursar_engine::vault::kdf::{KdfBounds, KdfParams};
use bursar_x402::Echo;
use secrecy::SecretString;
use zeroize::Zeroizing;

mod two_files;

fn moment(second: i64) -> Moment {
    Moment {
        utc: Utc::from_seconds(1_767_225_600 + second),
        mono_ms: 0,
        boot_id: String::new(),
        boottime_ms: 0,
        local_day: LocalDay(20_454),
        day_start: Utc::from_seconds(1_767_225_600),
        offset_s: 0,
        chain_hint: None,
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Returns the bytes of a request over `usd`, created by entry `seq`.
fn request(seq: u64, usd: u64) -> Vec<u8> {
    let coin = bursar_core::networks::NETWORKS[0];
    let request = Request {
        id: RequestId::from_bytes((u128::from(seq) << 64).to_be_bytes()),
        seq,
        agent: "ABC123".parse().unwrap(),
        created: Utc(0),
        label: name("pay"),
        from: coin.stablecoin.address,
        ask: LaneAsk::Payment(PaymentAsk {
            chain: coin.chain,
            asset: coin.stablecoin.address,
            amount: Atoms::default(),
            usd: Usd(usd),
            payee: coin.stablecoin.address,
            valid_seconds: 60,
            request_url: None,
            resource_url: None,
            other_urls: Vec::new(),
            domain_contradicted: false,
            padding: 0,
            price: Price::Reference,
            echo: Echo::none(),
        }),
        identity: Identity::Hmac { day: 1, digest: [0; 32] },
        status: Status::Refused {
            refusal: bursar_core::codes::Code::LimitReached.into(),
            at: Utc(0),
            was_held: false,
        },
        mandate: None,
    };
    postcard::to_allocvec(&request).unwrap()
}

/// The behaviour that all stores share.
fn check_store(store: &mut dyn Store) {
    assert_eq!(store.head().unwrap(), Head::default());
    assert!(store.seal().unwrap().is_none() && store.snapshot().unwrap().is_none());
    assert!(store.entry(1).unwrap().is_none() && store.entry_of_key(b"h").unwrap().is_none());
    let key = |day: u32, tail: u8| [b"h".as_slice(), &day.to_be_bytes(), &[tail]].concat();
    let head = |seq: u64| Head { seq, hash: [u8::try_from(seq).unwrap(); 32] };
    let first = Batch {
        entries: vec![(1, b"one".to_vec()), (2, b"two".to_vec())],
        head: head(2),
        seal: Some(Seal { seq: 2, tag: [9; 32] }),
        records: vec![(1, request(1, 1)), (2, request(2, 1))],
        index: vec![(key(10, 1), 1), (key(11, 1), 2), (b"b-same".to_vec(), 1)],
        snapshot: Some(Snapshot { head: head(1), state: b"state".to_vec(), tag: Some([5; 32]) }),
        ..Batch::default()
    };
    store.commit(first).unwrap();
    let second = Batch {
        entries: vec![(3, b"three".to_vec())],
        head: head(3),
        records: vec![(3, request(3, 1))],
        index: vec![(b"b-same".to_vec(), 3)],
        forget_before: Some(11),
        ..Batch::default()
    };
    store.commit(second).unwrap();
    assert_eq!(store.head().unwrap(), head(3));
    // A commit without a seal or snapshot keeps the old one.
    assert_eq!(store.seal().unwrap(), Some(Seal { seq: 2, tag: [9; 32] }));
    assert_eq!(store.snapshot().unwrap().unwrap().state, b"state");
    assert_eq!(store.entry(2).unwrap().unwrap(), b"two");
    let found = |key: &[u8]| store.entry_of_key(key).unwrap();
    assert_eq!(found(b"b-same"), Some(3), "the newest of an identity");
    assert_eq!(found(&key(10, 1)), None, "a forgotten day");
    assert_eq!(found(&key(11, 1)), Some(2), "a day that is kept");
    assert_eq!(store.forgotten_before_day().unwrap(), 11);
    // A forgotten day stays forgotten, whatever the clock has shown since.
    let back = Batch { head: head(3), forget_before: Some(9), ..Batch::default() };
    store.commit(back).unwrap();
    assert_eq!(store.forgotten_before_day().unwrap(), 11);
    let found = |key: &[u8]| store.entry_of_key(key).unwrap();
    assert_eq!((found(&key(10, 1)), found(&key(11, 1))), (None, Some(2)));
    check_payee_rows(store, head);
    let latest: Vec<u64> = store.reader().latest(2).unwrap().iter().map(|r| r.seq).collect();
    assert_eq!(latest, [3, 2]);
    let mut seen = Vec::new();
    store
        .read_after(1, &mut |bytes| {
            seen.push(bytes.to_vec());
            seen.len() < 2
        })
        .unwrap();
    assert_eq!(seen, [b"two".to_vec(), b"three".to_vec()]);
}

/// Checks the rows of payees after the third entry.
fn check_payee_rows(store: &mut dyn Store, head: impl Fn(u64) -> Head) {
    let payee = |tail: u8| Payee { chain: ChainId(8453), address: [tail; 20].into() };
    let paid = |times: u64| PaymentTotals {
        times,
        approved: 0,
        first: Utc(1),
        last: Utc(2),
        usd: Usd(times),
    };
    let rows = |store: &dyn Store| {
        let mut rows = Vec::new();
        store.reader().payees(&mut |payee, paid| rows.push((payee, paid.unwrap()))).unwrap();
        rows
    };
    assert_eq!(store.payees_through().unwrap(), head(3), "it goes with the head from the first");
    let first = [(payee(1), paid(1)), (payee(2), paid(2))].into();
    store.commit(Batch { head: head(3), payees: first, ..Batch::default() }).unwrap();
    let newer = [(payee(2), paid(3))].into();
    store.commit(Batch { head: head(3), payees: newer, ..Batch::default() }).unwrap();
    assert_eq!(rows(store), [(payee(1), paid(1)), (payee(2), paid(3))]);
    assert_eq!(store.payee_totals(&payee(2)).unwrap(), Some(paid(3)));
    assert_eq!(store.reader().payee_totals(&payee(2)).unwrap(), Some(paid(3)));
    assert_eq!(store.reader().payee_totals(&payee(3)).unwrap(), None);
    let elsewhere = Payee { chain: ChainId(1), ..payee(2) };
    assert_eq!(store.reader().payee_totals(&elsewhere).unwrap(), None);
    let anew = Batch {
        head: head(3),
        payees: [(payee(9), paid(9))].into(),
        payees_replaced: true,
        ..Batch::default()
    };
    store.commit(anew).unwrap();
    assert_eq!(rows(store), [(payee(9), paid(9))]);
}

#[test]
fn every_store_passes_the_same_suite() {
    check_store(&mut MemoryStore::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    check_store(&mut RedbStore::open(&path, Arc::new(NoFailpoints)).unwrap());
    let again = RedbStore::open(&path, Arc::new(NoFailpoints)).unwrap();
    assert_eq!(again.head().unwrap().seq, 3, "what was committed is there after a reopening");
}

fn open(store: &MemoryStore) -> Core {
    Core::open(Box::new(store.clone()), &Edition::full(), Arc::default(), Rules::default()).unwrap()
}

/// Returns a gate that an open wallet has opened.
fn open_gate(folder: &Path) -> Arc<Gate> {
    let bounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
    let gate = Arc::new(Gate::default());
    let files = WalletFiles::new(folder, bounds, Arc::new(NoFailpoints));
    let kdf = KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 };
    let vault = Vault::new(files, kdf, Arc::clone(&gate));
    vault.create(&name("w"), &SecretString::from("a password")).unwrap();
    vault.admit(&State::default(), None).unwrap();
    gate
}

/// Returns a journal of `count` entries: a wallet, then freezes and thaws.
fn filled_journal(count: u64) -> (MemoryStore, State) {
    let folder = tempfile::tempdir().unwrap();
    let gate = open_gate(folder.path());
    let store = MemoryStore::default();
    let mut core =
        Core::open(Box::new(store.clone()), &Edition::full(), gate, Rules::default()).unwrap();
    core.step(&moment(0), vec![Action::CreateWallet { name: name("w"), wallet_id: [1; 16] }]);
    while core.state().seq < count {
        let left = usize::try_from(count - core.state().seq).unwrap().min(64);
        let frozen = core.state().frozen.is_some();
        let toggles = [Action::Freeze, Action::Thaw].into_iter().cycle().skip(usize::from(frozen));
        let second = i64::try_from(core.state().seq).unwrap();
        for outcome in core.step(&moment(second), toggles.take(left).collect()) {
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
    (store, core.state().clone())
}

#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    let (store, _state) = filled_journal(3);
    for seq in 1..=3 {
        let length = {
            let mut length = 0;
            store.tamper(seq, |bytes| length = bytes.len());
            length
        };
        for at in 0..length {
            store.tamper(seq, |bytes| bytes[at] ^= 1);
            let chain = verify_chain(&*store.reader(), None, |_entry| ());
            let head = store.head().unwrap();
            // The last entry's own bytes are covered by the recorded head.
            assert!(chain.is_err() || chain.unwrap() != head, "entry {seq}, byte {at}");
            let opened = Core::open(
                Box::new(store.clone()),
                &Edition::full(),
                Arc::default(),
                Rules::default(),
            );
            assert!(opened.is_err(), "entry {seq}, byte {at}");
            store.tamper(seq, |bytes| bytes[at] ^= 1);
        }
    }
    assert!(verify_chain(&*store.reader(), None, |_entry| ()).is_ok());
}

#[test]
fn a_wrong_snapshot_is_ignored() {
    let (store, state) = filled_journal(3);
    let keep = |state: &[u8], head: Head| {
        let mut store = store.clone();
        let batch = Batch {
            head: store.head().unwrap(),
            snapshot: Some(Snapshot { head, state: state.to_vec(), tag: None }),
            ..Batch::default()
        };
        store.commit(batch).unwrap();
    };
    let place = |seq: u64| {
        let mut at = Head::default();
        let reader = store.reader();
        // The position of an entry is the head of the chain up to it.
        let mut entries = Vec::new();
        reader
            .read_after(0, &mut |bytes| {
                entries.push(bytes.to_vec());
                true
            })
            .unwrap();
        for (bytes, number) in entries.iter().zip(1..=seq) {
            at = Head { seq: number, hash: <sha2::Sha256 as sha2::Digest>::digest(bytes).into() };
        }
        at
    };
    let whole = postcard::to_allocvec(&state).unwrap();
    for (what, bytes, head) in [
        ("a right one", whole.clone(), place(3)),
        ("of another place", whole.clone(), Head { seq: 2, hash: [7; 32] }),
        ("of a chain that is shorter", whole, Head { seq: 99, hash: [0; 32] }),
        ("no state at all", vec![0xff; 9], place(2)),
    ] {
        keep(&bytes, head);
        assert_eq!(open(&store).state(), &state, "{what}");
    }
}

/// A clock that runs ahead must not make the journal forget: once the clock is right again, a forgotten request
/// could be signed again.
#[test]
fn signed_asks_are_forgotten_only_if_a_chain_agrees_with_the_clock() {
    const DAY: i64 = 86_400;
    const MINUTE_MS: i64 = 60_000;
    let day = |day: i64, apart_ms: Option<i64>| {
        let mut now = moment(day * DAY);
        now.chain_hint = apart_ms.map(|apart| now.utc.plus_ms(apart));
        now
    };
    let kept = u32::try_from(moment(1_000 * DAY).utc.seconds() / DAY - 30).unwrap();
    for (now, forgotten) in [
        (day(1_000, None), 0),
        (day(1_000, Some(-40 * DAY * 1_000)), 0),
        (day(1_000, Some(40 * DAY * 1_000)), 0),
        (day(1_000, Some(10 * MINUTE_MS + 1)), 0),
        (day(1_000, Some(10 * MINUTE_MS)), kept),
        (day(1_000, Some(0)), kept),
        // The earlier of the two times counts.
        (day(1_000, Some(-10 * MINUTE_MS)), kept - 1),
    ] {
        let store = filled_journal(SNAPSHOT_INTERVAL_ENTRIES_MIN - 1).0;
        let mut core = open(&store);
        core.step(&now, vec![Action::Freeze, Action::Freeze]);
        core.step(&now, vec![Action::Freeze]);
        assert!(store.snapshot().unwrap().is_some(), "{now:?}");
        assert_eq!(store.forgotten_before_day().unwrap(), forgotten, "{now:?}");
    }
}

fn refusal_event(request: &Request) -> Event {
    let Request { id, agent, label, from, identity, ask, .. } = request.clone();
    let asked = Box::new(RequestDraft { id, agent, label, from, identity, ask });
    Event::RequestRefused { draft: asked, refusal: Code::LimitReached.into() }
}

/// If a chain agreed with a clock that was ahead, the operator can restore the forgotten identities by
/// accepting the journal.
#[test]
fn accepting_the_journal_restores_identities_that_a_fast_clock_forgot() {
    const DAY: i64 = 86_400;
    let edition =
        Edition { retention: Retention { snapshot_every: 2, signed_days: 30 }, ..Edition::full() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let gate = open_gate(folder.path());
    for carry in [Checkpoints::PRODUCTION, Checkpoints { after_bytes: 1, in_background: false }] {
        let _new = std::fs::remove_file(&path);
        let _new = std::fs::remove_file(folder.path().join("journal-history.redb"));
        let open = || {
            let store =
                RedbStore::open(&path, Arc::new(NoFailpoints)).unwrap().with_checkpoints(carry);
            Core::open(Box::new(store), &edition, Arc::clone(&gate), Rules::default()).unwrap()
        };
        let today = u32::try_from(moment(1_000 * DAY).utc.seconds() / DAY).unwrap();
        let signed = |back: u32| Identity::Hmac { day: today - back, digest: [7; 32] };
        // One ask that was signed today, and one that was signed too long ago.
        let store = RedbStore::open(&path, Arc::new(NoFailpoints)).unwrap().with_checkpoints(carry);
        let mut journal = Journal::open(Box::new(store)).unwrap();
        for (seq, identity) in [(1, signed(0)), (2, signed(31))] {
            let request: Request = postcard::from_bytes(&request(seq, 1)).unwrap();
            let request = Request { identity, ..request };
            journal.append(refusal_event(&request), moment(0).utc).unwrap();
            journal.record_request(&Arc::new(request), true).unwrap();
        }
        journal.commit().unwrap();
        drop(journal);
        let mut core = open();
        let mut ahead = moment(1_040 * DAY);
        ahead.chain_hint = Some(ahead.utc);
        for _snapshot in 0..2 {
            core.step(&ahead, vec![Action::Freeze, Action::Thaw, Action::Freeze, Action::Thaw]);
        }
        assert_eq!(core.view().forgotten_before_day, today + 10, "{carry:?}");
        let right = moment(1_000 * DAY);
        let first = core.view().refused_before(&right).expect("it is reported");
        assert_eq!(first, moment((1_000 + 10) * DAY).utc);
        assert_eq!(core.view().refused_before(&ahead), None);
        assert!(!core.journal().is_indexed(&signed(0), 0).unwrap());
        core.accept(&right, Zeroizing::new([7; 32])).unwrap();
        for again in 0..3 {
            assert_eq!(core.view().forgotten_before_day, today - 30, "{carry:?}, {again}");
            assert_eq!(core.view().refused_before(&right), None);
            assert!(core.journal().is_indexed(&signed(0), 0).unwrap(), "{carry:?}, {again}");
            assert!(!core.journal().is_indexed(&signed(31), 0).unwrap(), "{carry:?}, {again}");
            drop(core);
            core = open();
            core.step(&right, vec![Action::Freeze, Action::Thaw]);
        }
    }
}

#[test]
fn a_long_journal_is_opened_from_its_snapshot_and_its_tail() {
    let (store, state) = filled_journal(SNAPSHOT_INTERVAL_ENTRIES_MIN + 200);
    let kept = store.snapshot().unwrap().expect("a snapshot was kept");
    assert!(
        kept.head.seq >= SNAPSHOT_INTERVAL_ENTRIES_MIN && kept.head.seq < state.seq,
        "{}",
        kept.head.seq
    );
    assert_eq!(open(&store).state(), &state);
    // Entries before the snapshot are not read at start; the audit reads all of them.
    store.tamper(7, |bytes| bytes[49] ^= 1);
    assert_eq!(open(&store).state(), &state);
    assert!(verify_chain(&*store.reader(), None, |_entry| ()).is_err());
}
