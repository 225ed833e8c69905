use std::sync::Arc;

use alloy_primitives::{B256, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::SNAPSHOT_INTERVAL_ENTRIES_MIN;
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::networks::NETWORKS;
use bursar_core::time::{LocalDay, Utc};
use bursar_domain::agents::Credential;
use bursar_domain::assets::Price;
use bursar_domain::event::RequestDraft;
use bursar_domain::identity::Identity;
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_domain::trades::{TradeAsk, TradeQuote, TradeToken, Venue};
use bursar_domain::{LaneAsk, PaymentAsk, deadline::Deadline};
use bursar_x402::{Authorization, Echo};

use super::*;
use crate::edition::Edition;
use crate::journal::{Batch, MemoryStore, Store, verify_chain};
use crate::rules::Rules;

const HOUR_S: i64 = 3_600;
const KEY: [u8; 32] = [7; 32];

fn moment(second: i64) -> Moment {
    Moment {
        utc: Utc::from_seconds(second),
        mono_ms: 0,
        boot_id: String::new(),
        boottime_ms: 0,
        local_day: LocalDay(20_454),
        day_start: Utc::from_seconds(0),
        offset_s: 0,
        chain_hint: None,
    }
}

fn open(store: &MemoryStore) -> Core {
    let (gate, rules) = (Arc::default(), Rules::default());
    Core::open(Box::new(store.clone()), &Edition::full(), gate, rules).unwrap()
}

fn draft(byte: u8) -> Box<RequestDraft> {
    let coin = NETWORKS[0];
    Box::new(RequestDraft {
        id: bursar_core::ids::RequestId::from_bytes([byte; 16]),
        agent: "ABC123".parse().unwrap(),
        label: "pay".parse().unwrap(),
        from: coin.stablecoin.address,
        identity: Identity::Hmac { day: 1, digest: [byte; 32] },
        ask: LaneAsk::Payment(PaymentAsk {
            chain: coin.chain,
            asset: coin.stablecoin.address,
            amount: Atoms::default(),
            usd: Usd::ZERO,
            price: Price::Reference,
            payee: coin.stablecoin.address,
            valid_seconds: 60,
            request_url: None,
            resource_url: None,
            other_urls: Vec::new(),
            domain_contradicted: false,
            padding: 0,
            echo: Echo::none(),
        }),
    })
}

fn trade_draft(byte: u8) -> Box<RequestDraft> {
    let coin = NETWORKS[0];
    let token = |address| TradeToken {
        address,
        symbol: "T".to_owned(),
        decimals: coin.stablecoin.decimals,
    };
    let ask = TradeAsk {
        chain: coin.chain,
        token_in: token(None),
        token_out: token(Some(coin.stablecoin.address)),
        amount_in: Atoms::default(),
        venue: Venue::Wrap,
        slippage: Bps(0),
        deadline: None,
        quote: TradeQuote::default(),
        counted_value: Usd::ZERO,
    };
    Box::new(RequestDraft { ask: LaneAsk::Trade(Box::new(ask)), ..*draft(byte) })
}

fn ask(byte: u8) -> Event {
    Event::RequestRefused { draft: draft(byte), refusal: Code::LimitReached.into() }
}

/// Every event that creates a request, with the identity of `draft(1)`.
fn events_of_asks() -> Vec<Event> {
    let until = Deadline::after(&moment(0));
    let own = NETWORKS[0].stablecoin.address;
    let terms = Authorization {
        from: own,
        to: own,
        value: U256::ZERO,
        valid_after: 0,
        valid_before: 60,
        nonce: B256::ZERO,
    };
    vec![
        ask(1),
        Event::RequestHeld {
            draft: draft(1),
            reason: HoldReason::UnattendedLimit,
            deadline: until.clone(),
        },
        Event::PaymentAuthorized { draft: draft(1), terms },
        Event::DeviceAwaited { draft: draft(1), until: until.clone() },
        Event::ExecutionStarted { draft: trade_draft(1), until },
    ]
}

/// A sealed journal with a snapshot, one ask before the snapshot (about a day before the last entry), and one ask
/// after it.
fn long_journal() -> MemoryStore {
    let store = MemoryStore::default();
    let mut core = open(&store);
    core.journal.seal_with(Zeroizing::new(KEY));
    for at in 0..=SNAPSHOT_INTERVAL_ENTRIES_MIN + 10 {
        let event = match at {
            9_000 => ask(1),
            _ if at > SNAPSHOT_INTERVAL_ENTRIES_MIN => ask(2),
            _ if at % 2 == 0 => Event::Frozen,
            _ => Event::Thawed,
        };
        // The entries span three days, with a hundred and forty entries an hour.
        let second = i64::try_from(at).unwrap() * HOUR_S / 140;
        core.record(event, &moment(second)).unwrap();
        if at % 500 == 0 {
            core.commit(&moment(second)).unwrap();
        }
    }
    core.commit(&moment(0)).unwrap();
    let kept = store.snapshot().unwrap().expect("a snapshot");
    assert!(kept.tag.is_some() && kept.head.seq > 9_002, "{}", kept.head.seq);
    store
}

/// Hours from the first entry to the last.
const LAST_ENTRY_H: i64 = 71;

/// Opens the wallet `hours` after the first entry. Returns why the journal does not match.
fn unlock(store: &MemoryStore, hours: i64, key: [u8; 32]) -> Result<Option<String>, Fault> {
    let mut core = open(store);
    let keys = vec![Zeroizing::new(key)];
    let sealed = core.verify_after_unlock(&moment(hours * HOUR_S), keys, None)?;
    assert_eq!(sealed.is_none(), core.untrusted_reason.is_some());
    Ok(core.untrusted_reason.clone())
}

#[test]
fn what_lies_before_a_sealed_snapshot_is_read_by_the_audit_alone() {
    let store = long_journal();
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
    store.tamper(7, |bytes| bytes[49] ^= 1);
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
    assert!(verify_chain(&*store.reader(), None, |_entry| ()).is_err());
    // The unlock reads entries whose asks may be repeated, and verifies the chain back to them.
    store.tamper(9_300, |bytes| bytes[15] ^= 1);
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap_err().code, Code::JournalDamaged);
    // Three days later no ask of that entry may be repeated, so the unlock does not read it.
    assert_eq!(unlock(&store, LAST_ENTRY_H + 72, KEY).unwrap(), None);
}

#[test]
fn an_ask_before_the_snapshot_that_the_index_lost_is_noticed_while_it_may_be_repeated() {
    let store = long_journal();
    let whole = store.deep_copy();
    store.lose_index();
    let again = Batch { head: store.head().unwrap(), ..Batch::default() };
    let mut index = Vec::new();
    for seq in 10_001..=store.head().unwrap().seq {
        let known = whole.record(seq).unwrap();
        index.extend(known.map(|request| (request.identity.index_key(), request.seq)));
    }
    assert!(!index.is_empty());
    store.clone().commit(Batch { index, ..again }).unwrap();
    let told = unlock(&store, LAST_ENTRY_H, KEY).unwrap().expect("noticed");
    assert_eq!(told, "the ask of entry 9001 is missing in the index");
    let told = unlock(&store, 64 + 47, KEY).unwrap().expect("noticed");
    assert_eq!(told, "the ask of entry 9001 is missing in the index");
    assert_eq!(unlock(&store, 64 + 49, KEY).unwrap(), None, "it is too old to be repeated");
}

/// A sealed journal that contains an agent, and `event` in entry 2.
fn journal_with(event: Event) -> MemoryStore {
    let store = MemoryStore::default();
    let mut core = open(&store);
    core.journal.seal_with(Zeroizing::new(KEY));
    let agent = Event::AgentRegistered {
        id: "ABC123".parse().unwrap(),
        name: "bot".parse().unwrap(),
        credential: Credential::Hmac { secret_hash: [0; 32] },
    };
    core.record(agent, &moment(0)).unwrap();
    core.record(event, &moment(0)).unwrap();
    core.commit(&moment(0)).unwrap();
    store
}

#[test]
fn every_kind_of_ask_that_the_index_lost_is_noticed() {
    for event in events_of_asks() {
        let store = journal_with(event.clone());
        assert_eq!(unlock(&store, 1, KEY).unwrap(), None, "{event:?}");
        store.lose_index();
        let told = unlock(&store, 1, KEY).unwrap();
        let wanted = Some("the ask of entry 2 is missing in the index".to_owned());
        assert_eq!(told, wanted, "{event:?}");
    }
}

#[test]
fn every_kind_of_ask_is_remembered_again_after_a_fast_clock() {
    let identity = draft(1).identity;
    for event in events_of_asks() {
        let store = journal_with(event.clone());
        let mut core = open(&store);
        core.journal.forget_signed_before(1_000);
        core.journal.commit().unwrap();
        assert!(!core.journal.is_indexed(&identity, 2).unwrap(), "{event:?}");
        assert!(core.journal.remember_from(0).unwrap());
        core.journal.commit().unwrap();
        assert!(core.journal.is_indexed(&identity, 2).unwrap(), "{event:?}");
    }
}

#[test]
fn a_snapshot_that_no_key_of_the_wallet_made_is_none() {
    for tagged in [true, false] {
        let store = long_journal();
        let mut snapshot = store.snapshot().unwrap().unwrap();
        let mut state: State = postcard::from_bytes(&snapshot.state).unwrap();
        state.frozen = match state.frozen {
            None => Some(Utc(0)),
            Some(_frozen) => None,
        };
        snapshot.state = postcard::to_allocvec(&state).unwrap();
        snapshot.tag = snapshot.tag.filter(|_tag| tagged);
        let head = store.head().unwrap();
        let batch = Batch { head, snapshot: Some(snapshot), ..Batch::default() };
        store.clone().commit(batch).unwrap();
        let told = unlock(&store, LAST_ENTRY_H, KEY).unwrap().expect("noticed");
        assert!(told.contains("snapshot"), "{told}");
    }
}

#[test]
fn payees_that_unlock_did_not_look_at_are_counted_when_the_journal_is_accepted() {
    let store = long_journal();
    let head = store.head().unwrap();
    let payee = Payee { chain: NETWORKS[0].chain, address: [3; 20].into() };
    let made_up = PaymentTotals { times: 9, approved: 9, first: Utc(0), last: Utc(0), usd: Usd(9) };
    let payees = [(payee, made_up)].into();
    store.clone().commit(Batch { head, payees, ..Batch::default() }).unwrap();
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
    assert_eq!(Store::payee_totals(&store, &payee).unwrap(), Some(made_up), "it is not looked at");
    open(&store).count_payees().unwrap();
    assert_eq!(Store::payee_totals(&store, &payee).unwrap(), None);
}

/// Records entries that a locked wallet allows, more than there are between two snapshots.
fn freeze_often(core: &mut Core) {
    for _one in 0..=SNAPSHOT_INTERVAL_ENTRIES_MIN {
        core.record(Event::Frozen, &moment(0)).unwrap();
    }
    core.commit(&moment(0)).unwrap();
}

#[test]
fn a_locked_wallet_keeps_the_sealed_snapshot_and_the_next_unlock_replaces_it() {
    let store = long_journal();
    let sealed = store.snapshot().unwrap().unwrap().head;
    let mut core = open(&store);
    freeze_often(&mut core);
    assert_eq!(store.snapshot().unwrap().unwrap().head, sealed);
    assert_eq!(open(&store).state, core.state);
    // The entries before the sealed snapshot are not read.
    store.tamper(7, |bytes| bytes[49] ^= 1);
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
    let newer = store.snapshot().unwrap().unwrap();
    assert!(newer.tag.is_some() && newer.head == store.head().unwrap(), "{:?}", newer.head);
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
}

#[test]
fn an_unlock_that_read_everything_leaves_a_sealed_snapshot() {
    let store = long_journal();
    let mut snapshot = store.snapshot().unwrap().unwrap();
    snapshot.tag = None;
    let batch = Batch { head: store.head().unwrap(), snapshot: Some(snapshot), ..Batch::default() };
    store.clone().commit(batch).unwrap();
    // If the stored snapshot is not sealed, a locked wallet replaces it, so that a start reads few entries.
    freeze_often(&mut open(&store));
    let unsealed = store.snapshot().unwrap().unwrap();
    assert!(unsealed.tag.is_none() && unsealed.head == store.head().unwrap());
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
    store.tamper(7, |bytes| bytes[49] ^= 1);
    assert_eq!(unlock(&store, LAST_ENTRY_H, KEY).unwrap(), None);
}

#[test]
fn a_journal_that_does_not_match_keeps_no_sealed_snapshot() {
    let store = long_journal();
    let mut core = open(&store);
    let keys = vec![Zeroizing::new([8; 32])];
    assert_eq!(core.verify_after_unlock(&moment(LAST_ENTRY_H * HOUR_S), keys, None).unwrap(), None);
    freeze_often(&mut core);
    let newer = store.snapshot().unwrap().unwrap();
    assert!(newer.tag.is_none() && newer.head == store.head().unwrap(), "{:?}", newer.head);
}

#[test]
fn with_another_key_everything_is_read() {
    let store = long_journal();
    store.tamper(7, |bytes| bytes[49] ^= 1);
    assert_eq!(unlock(&store, LAST_ENTRY_H, [8; 32]).unwrap_err().code, Code::JournalDamaged);
}
