//! Verifies the journal with the wallet's key. An unlock verifies the entries on disk, the operator may accept a
//! journal that does not match, and a lock ends sealing. Payments are automatic only after the journal was verified
//! or accepted.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::time::Moment;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::event::LockCause;
use bursar_domain::payees::{self, Tally};
use bursar_domain::{Action, Entry, Event, State, unsealed_tail};
use zeroize::Zeroizing;

use super::{Core, first_remembered, resumed};
use crate::journal::{Head, JournalError, SealCheck};

/// The age up to which an unlock checks that asks are indexed, in milliseconds. A signature is fresh for minutes
/// only; the margin covers a clock that is wrong by a time zone.
const REPEATABLE_MS: i64 = 2 * 86_400 * 1000;

impl Core {
    /// Verifies the journal after the wallet was opened; if both match, seals the head and every later commit.
    ///
    /// `keys` are the wallet's sealing key, then those of earlier passwords. `note` is the head that the wallet file
    /// last recorded. Returns the sealed head, or `None` if journal and wallet do not match.
    ///
    /// # Errors
    /// `JOURNAL_FAILED` after a failed commit; `JOURNAL_DAMAGED` if the journal cannot be read.
    pub fn unlocked(
        &mut self,
        moment: &Moment,
        keys: Vec<Zeroizing<[u8; 32]>>,
        note: Option<Head>,
    ) -> Result<Option<Head>, Fault> {
        self.flush(moment);
        if self.failed.is_some() {
            return Err(Fault::new(Code::JournalFailed));
        }
        self.journal.stop_sealing();
        let sealed = self.judge(moment, &keys, note).map_err(|damage| damaged(&damage))?;
        match (sealed, keys.into_iter().next()) {
            (true, Some(current)) => {
                self.journal.seal_with(current);
                self.commit(moment).map_err(|damage| self.fail(&damage))?;
                Ok(Some(self.journal.durable()))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether journal and wallet match. Replays the entries, and replaces the state if it differs from the
    /// replay.
    fn judge(
        &mut self,
        moment: &Moment,
        keys: &[Zeroizing<[u8; 32]>],
        note: Option<Head>,
    ) -> Result<bool, JournalError> {
        let (base, sealed, mismatch) = match self.journal.check_seal(keys, note)? {
            SealCheck::Matches(sealed) => {
                (self.journal.sealed_snapshot(keys, sealed)?, sealed, None)
            }
            // Without a valid seal no snapshot can be trusted.
            SealCheck::Mismatch(reason) => (None, self.journal.durable(), Some(reason)),
        };
        let examined = match base.and_then(|base| resumed(&base, &self.state.networks_on)) {
            Some((state, at)) => self.examine_since(state, at, sealed, moment)?,
            None => {
                // The next unlock needs its own snapshot.
                (self.last_snapshot, self.keeps_sealed) = (0, false);
                self.examine_all(sealed, moment)?
            }
        };
        self.untrusted = mismatch.or(examined).or_else(|| self.stale_wallet_file(note));
        if let Some(reason) = &self.untrusted {
            tracing::warn!(
                reason,
                "the journal does not match the wallet: every payment needs approval"
            );
        }
        self.judged = self.untrusted.is_none();
        // A journal that does not match is not sealed again before the operator accepts it, and then read as a whole.
        self.keeps_sealed &= self.judged;
        Ok(self.judged)
    }

    /// Returns a reason if the wallet file is older than the newest note that the journal records.
    fn stale_wallet_file(&self, note: Option<Head>) -> Option<String> {
        let (noted, known) = (self.state.wallet_noted, note.map_or(0, |note| note.seq));
        (known < noted).then(|| {
            format!(
                "the wallet file is older than the journal: it names entry {known}, its newest copy named entry {noted}"
            )
        })
    }

    /// Returns the state before the first entry.
    fn fresh(&self) -> State {
        State::new(self.state.networks_on.iter().copied())
    }

    /// Examines the whole journal and the payee rows. Returns the first contradiction.
    fn examine_all(
        &mut self,
        sealed: Head,
        moment: &Moment,
    ) -> Result<Option<String>, JournalError> {
        let mut tally = Tally::new();
        let mut read = Examination::new(self.fresh(), sealed);
        let _proof = self.journal.replay(Head::default(), |entry| {
            let touched = read.next(self, entry, moment);
            payees::count(&mut tally, entry, touched.as_ref());
        })?;
        self.repair_payees(tally)?;
        Ok(self.conclude(read))
    }

    fn repair_payees(&mut self, tally: Tally) -> Result<(), JournalError> {
        match self.journal.repair_payees(tally) {
            Ok(true) => Ok(()),
            // No decision depends on these rows, so payments stay automatic.
            Ok(false) => {
                tracing::warn!("the index of payees was wrong and was rebuilt");
                Ok(())
            }
            Err(damage) => {
                self.fail(&damage);
                Err(damage)
            }
        }
    }

    /// Examines the entries after a sealed snapshot, and those before it whose asks may be repeated. Returns the
    /// first contradiction. The cost does not grow with the journal.
    fn examine_since(
        &mut self,
        state: State,
        at: Head,
        sealed: Head,
        moment: &Moment,
    ) -> Result<Option<String>, JournalError> {
        let mut read = Examination::new(state, sealed);
        let _proof = self.journal.replay(at, |entry| {
            let _touched = read.next(self, entry, moment);
        })?;
        if read.unknown.is_none() && !read.accepted {
            self.journal.read_back(at, |piece| {
                for entry in piece {
                    read.check_index(self, entry, moment);
                }
                let young = piece.first().is_some_and(|first| is_repeatable(first, moment));
                young && !read.accepted
            })?;
        }
        Ok(self.conclude(read))
    }

    fn conclude(&mut self, read: Examination) -> Option<String> {
        let mut wrong = read.wrong.or(read.unknown);
        if read.state != self.state {
            self.state = read.state;
            wrong = wrong.or(Some("the snapshot does not match the entries".to_owned()));
        }
        wrong
    }

    /// Accepts the journal as it is, on the operator's command, and seals it from now on.
    ///
    /// If a fast clock made the journal forget signed requests, they are remembered again.
    ///
    /// # Errors
    /// The refusal of the command; `JOURNAL_FAILED` or `JOURNAL_DAMAGED`.
    pub fn accept(&mut self, moment: &Moment, key: Zeroizing<[u8; 32]>) -> Result<(), Fault> {
        for outcome in self.step(moment, vec![Action::AcceptJournal]) {
            outcome?;
        }
        self.untrusted = None;
        self.judged = true;
        self.journal.seal_with(key);
        let first = first_remembered(moment.utc, self.retention.signed_days);
        self.journal.remember_from(first).map_err(|damage| damaged(&damage))?;
        self.journal.commit().map_err(|damage| self.fail(&damage))?;
        self.count_payees().map_err(|damage| damaged(&damage))
    }

    /// Counts payees from the first entry, because an unlock may not have read that far back.
    fn count_payees(&mut self) -> Result<(), JournalError> {
        let tally = self.journal.count_payees(self.fresh())?;
        self.repair_payees(tally)
    }

    /// Ends sealing after the keys were wiped.
    ///
    /// The last sealed entry records the lock. `noted` is the entry that the wallet file recorded before the lock.
    pub fn locked(&mut self, moment: &Moment, cause: LockCause, noted: Option<u64>) {
        let is_recorded = self.journal.is_sealing() && self.state.wallet.is_some();
        if is_recorded && self.failed.is_none() {
            let mut ended = bursar_domain::decide::stop_plans(&self.state);
            ended.push(Event::WalletLocked { cause, noted });
            let recorded = ended
                .into_iter()
                .try_for_each(|event| self.record(event, moment).map(|_changed| ()));
            let noted = recorded.and_then(|()| self.commit(moment));
            if let Err(damage) = noted {
                self.fail(&damage);
            }
        }
        self.journal.stop_sealing();
    }
}

/// The state that the entries give, and the first contradiction in them.
struct Examination {
    state: State,
    sealed: Head,
    wrong: Option<String>,
    /// The first ask that is missing in the index.
    unknown: Option<String>,
    /// The operator has accepted earlier losses.
    accepted: bool,
}

impl Examination {
    fn new(state: State, sealed: Head) -> Self {
        Self { state, sealed, wrong: None, unknown: None, accepted: false }
    }

    /// Applies an entry. Entries after the seal must be changes that a locked wallet allows.
    fn next(&mut self, core: &Core, entry: &Entry, moment: &Moment) -> Option<ChangedRecord> {
        let free = entry.seq > self.sealed.seq;
        if free && self.wrong.is_none() && !unsealed_tail::may_follow_a_seal(&self.state, entry) {
            self.wrong = Some(match &entry.event {
                Event::JournalRestored { .. } => {
                    "it was restored, and the entries after the backup are lost".to_owned()
                }
                _other => format!(
                    "entry {} came after the last seal and needed an open wallet",
                    entry.seq
                ),
            });
        }
        self.check_index(core, entry, moment);
        core.rules.apply(&mut self.state, entry)
    }

    /// Checks that the index has the entry's ask. The index is not sealed, and a repeat of a lost ask would be paid
    /// again.
    fn check_index(&mut self, core: &Core, entry: &Entry, moment: &Moment) {
        if entry.event == Event::JournalAccepted {
            (self.unknown, self.accepted) = (None, true);
        }
        if self.unknown.is_some() || !is_repeatable(entry, moment) {
            return;
        }
        let known = match &entry.event {
            // A repeat of a forgotten request is refused, so it needs no index entry.
            Event::PaymentAuthorized { asked, .. }
            | Event::DeviceAwaited { asked, .. }
            | Event::RequestHeld { asked, .. }
            | Event::RequestRefused { asked, .. } => {
                core.journal.is_forgotten(&asked.identity).and_then(|forgotten| {
                    Ok(forgotten || core.journal.knows(&asked.identity, entry.seq)?)
                })
            }
            Event::SettlementReported { settlement, .. } if settlement.is_settled() => {
                core.journal.is_settled_indexed(settlement)
            }
            _no_ask => return,
        };
        if !known.unwrap_or(false) {
            self.unknown = Some(format!("the ask of entry {} is missing in the index", entry.seq));
        }
    }
}

fn is_repeatable(entry: &Entry, moment: &Moment) -> bool {
    moment.utc.since_ms(entry.at) < REPEATABLE_MS
}

fn damaged(error: &JournalError) -> Fault {
    Fault::because(Code::JournalDamaged, format!("{error}."))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bursar_core::codes::Code;
    use bursar_core::limits::SNAPSHOT_EVERY;
    use bursar_core::money::{Atoms, Usd};
    use bursar_core::networks::NETWORKS;
    use bursar_core::time::{LocalDay, Utc};
    use bursar_domain::assets::Price;
    use bursar_domain::event::RequestDraft;
    use bursar_domain::identity::Identity;
    use bursar_domain::payees::{Paid, Payee};
    use bursar_domain::{LaneAsk, PaymentAsk};
    use bursar_x402::Echo;

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

    fn ask(byte: u8) -> Event {
        let coin = NETWORKS[0];
        Event::RequestRefused {
            asked: Box::new(RequestDraft {
                id: bursar_core::ids::RequestId::from_bytes([byte; 16]),
                agent: "ABC123".parse().unwrap(),
                label: "pay".parse().unwrap(),
                from: coin.stablecoin.address,
                identity: Identity::Hmac { day: 1, digest: [byte; 32] },
                ask: LaneAsk::Payment(PaymentAsk {
                    chain: coin.chain,
                    asset: coin.stablecoin.address,
                    amount: Atoms::default(),
                    usd: Usd(1),
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
            }),
            refusal: Code::LimitReached.into(),
        }
    }

    /// A sealed journal with a snapshot, an ask before it, about a day before the last entry, and an ask after it.
    fn long() -> MemoryStore {
        let store = MemoryStore::default();
        let mut core = open(&store);
        core.journal.seal_with(Zeroizing::new(KEY));
        for at in 0..=SNAPSHOT_EVERY + 10 {
            let event = match at {
                9_000 => ask(1),
                _ if at > SNAPSHOT_EVERY => ask(2),
                _ if at % 2 == 0 => Event::Frozen,
                _ => Event::Thawed,
            };
            // Three days of entries, a hundred and forty an hour.
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
    const LAST_H: i64 = 71;

    /// Opens the wallet `hours` after the first entry. Returns why the journal does not match.
    fn unlock(store: &MemoryStore, hours: i64, key: [u8; 32]) -> Result<Option<String>, Fault> {
        let mut core = open(store);
        let keys = vec![Zeroizing::new(key)];
        let sealed = core.unlocked(&moment(hours * HOUR_S), keys, None)?;
        assert_eq!(sealed.is_none(), core.untrusted.is_some());
        Ok(core.untrusted.clone())
    }

    #[test]
    fn what_lies_before_a_sealed_snapshot_is_read_by_the_audit_alone() {
        let store = long();
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
        store.tamper(7, |bytes| bytes[49] ^= 1);
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
        assert!(verify_chain(&*store.reader(), None, |_entry| ()).is_err());
        // Entries whose asks may be repeated are read, and the chain must lead back to them.
        store.tamper(9_300, |bytes| bytes[15] ^= 1);
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap_err().code, Code::JournalDamaged);
        // Three days later no ask of that entry may be repeated, so the unlock does not read it.
        assert_eq!(unlock(&store, LAST_H + 72, KEY).unwrap(), None);
    }

    #[test]
    fn an_ask_before_the_snapshot_that_the_index_lost_is_noticed_while_it_may_be_repeated() {
        let store = long();
        let whole = store.copied();
        store.lose_index();
        let again = Batch { head: store.head().unwrap(), ..Batch::default() };
        let mut index = Vec::new();
        for seq in 10_001..=store.head().unwrap().seq {
            let known = whole.record(seq).unwrap();
            index.extend(known.map(|request| (request.identity.index_key(), request.seq)));
        }
        assert!(!index.is_empty());
        store.clone().commit(Batch { index, ..again }).unwrap();
        let told = unlock(&store, LAST_H, KEY).unwrap().expect("noticed");
        assert_eq!(told, "the ask of entry 9001 is missing in the index");
        let told = unlock(&store, 64 + 47, KEY).unwrap().expect("noticed");
        assert_eq!(told, "the ask of entry 9001 is missing in the index");
        assert_eq!(unlock(&store, 64 + 49, KEY).unwrap(), None, "it is too old to be repeated");
    }

    #[test]
    fn a_snapshot_that_no_key_of_the_wallet_made_is_none() {
        for tagged in [true, false] {
            let store = long();
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
            let told = unlock(&store, LAST_H, KEY).unwrap().expect("noticed");
            assert!(told.contains("snapshot"), "{told}");
        }
    }

    #[test]
    fn payees_that_unlock_did_not_look_at_are_counted_when_the_journal_is_accepted() {
        let store = long();
        let head = store.head().unwrap();
        let payee = Payee { chain: NETWORKS[0].chain, address: [3; 20].into() };
        let made_up = Paid { times: 9, approved: 9, first: Utc(0), last: Utc(0), usd: Usd(9) };
        let payees = [(payee, made_up)].into();
        store.clone().commit(Batch { head, payees, ..Batch::default() }).unwrap();
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
        assert_eq!(Store::paid(&store, &payee).unwrap(), Some(made_up), "it is not looked at");
        open(&store).count_payees().unwrap();
        assert_eq!(Store::paid(&store, &payee).unwrap(), None);
    }

    /// Records entries that a locked wallet allows, more than there are between two snapshots.
    fn freeze_often(core: &mut Core) {
        for _one in 0..=SNAPSHOT_EVERY {
            core.record(Event::Frozen, &moment(0)).unwrap();
        }
        core.commit(&moment(0)).unwrap();
    }

    #[test]
    fn a_locked_wallet_keeps_the_sealed_snapshot_and_the_next_unlock_replaces_it() {
        let store = long();
        let sealed = store.snapshot().unwrap().unwrap().head;
        let mut core = open(&store);
        freeze_often(&mut core);
        assert_eq!(store.snapshot().unwrap().unwrap().head, sealed);
        assert_eq!(open(&store).state, core.state);
        // The entries before the sealed snapshot are not read.
        store.tamper(7, |bytes| bytes[49] ^= 1);
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
        let newer = store.snapshot().unwrap().unwrap();
        assert!(newer.tag.is_some() && newer.head == store.head().unwrap(), "{:?}", newer.head);
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
    }

    #[test]
    fn an_unlock_that_read_everything_leaves_a_sealed_snapshot() {
        let store = long();
        let mut snapshot = store.snapshot().unwrap().unwrap();
        snapshot.tag = None;
        let batch =
            Batch { head: store.head().unwrap(), snapshot: Some(snapshot), ..Batch::default() };
        store.clone().commit(batch).unwrap();
        // Without a sealed one, a locked wallet writes others, so that a start reads little.
        freeze_often(&mut open(&store));
        let unsealed = store.snapshot().unwrap().unwrap();
        assert!(unsealed.tag.is_none() && unsealed.head == store.head().unwrap());
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
        store.tamper(7, |bytes| bytes[49] ^= 1);
        assert_eq!(unlock(&store, LAST_H, KEY).unwrap(), None);
    }

    #[test]
    fn a_journal_that_does_not_match_keeps_no_sealed_snapshot() {
        let store = long();
        let mut core = open(&store);
        let keys = vec![Zeroizing::new([8; 32])];
        assert_eq!(core.unlocked(&moment(LAST_H * HOUR_S), keys, None).unwrap(), None);
        freeze_often(&mut core);
        let newer = store.snapshot().unwrap().unwrap();
        assert!(newer.tag.is_none() && newer.head == store.head().unwrap(), "{:?}", newer.head);
    }

    #[test]
    fn with_another_key_everything_is_read() {
        let store = long();
        store.tamper(7, |bytes| bytes[49] ^= 1);
        assert_eq!(unlock(&store, LAST_H, [8; 32]).unwrap_err().code, Code::JournalDamaged);
    }
}
