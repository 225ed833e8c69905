//! Verifies the journal with the wallet's key. An unlock verifies the entries on disk, the operator may accept a
//! journal that does not match, and a lock ends sealing. Payments are automatic only after the journal was verified
//! or accepted.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::lock_cause::LockCause;
use bursar_core::time::Moment;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::payees::{self, Tally};
use bursar_domain::settlement::Check;
use bursar_domain::{Action, Entry, Event, State, unsealed_tail};
use zeroize::Zeroizing;

use super::{Core, day_minus, decode_state};
use crate::journal::{Head, JournalError, SealCheck};

/// The maximum age of asks whose index entry an unlock checks, in milliseconds. A signature is fresh for minutes
/// only; the margin covers a clock that is wrong by a time zone.
const REPEATABLE_MS: i64 = 2 * 86_400 * 1000;

impl Core {
    /// Verifies the journal after the wallet was opened; if it matches, seals the head and every later commit.
    ///
    /// `keys` are the wallet's sealing key, then those of earlier passwords. `note` is the head that the wallet file
    /// last recorded. Returns the sealed head, or `None` if journal and wallet do not match.
    ///
    /// # Errors
    /// `JOURNAL_FAILED` after a failed commit; `JOURNAL_DAMAGED` if the journal cannot be read.
    pub fn verify_after_unlock(
        &mut self,
        moment: &Moment,
        keys: Vec<Zeroizing<[u8; 32]>>,
        note: Option<Head>,
    ) -> Result<Option<Head>, Fault> {
        self.flush(moment);
        if self.failure.is_some() {
            return Err(Fault::new(Code::JournalFailed));
        }
        self.journal.stop_sealing();
        let sealed = self.judge(moment, &keys, note).map_err(|damage| damage_fault(&damage))?;
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
        let examined = match base.and_then(|base| decode_state(&base, &self.state.edition)) {
            Some((state, at)) => self.examine_since(state, at, sealed, moment)?,
            None => {
                // This unlock found no usable sealed snapshot. If the journal is long, the next commit stores one for
                // the next unlock.
                (self.last_snapshot, self.is_snapshot_sealed) = (0, false);
                self.examine_all(sealed, moment)?
            }
        };
        self.untrusted_reason = mismatch.or(examined).or_else(|| self.stale_wallet_file(note));
        if let Some(reason) = &self.untrusted_reason {
            tracing::warn!(
                reason,
                "the journal does not match the wallet: every payment needs approval"
            );
        }
        self.is_verified = self.untrusted_reason.is_none();
        // A journal that does not match is sealed again only after the operator has accepted it. The next unlock then
        // reads the whole journal.
        self.is_snapshot_sealed &= self.is_verified;
        Ok(self.is_verified)
    }

    /// Returns a reason if the wallet file is older than the newest note that the journal records.
    fn stale_wallet_file(&self, note: Option<Head>) -> Option<String> {
        let (noted, known) = (self.state.noted_entry, note.map_or(0, |note| note.seq));
        (known < noted).then(|| {
            format!(
                "the wallet file is older than the journal: it names entry {known}, its newest copy named entry {noted}"
            )
        })
    }

    /// Returns the state before the first entry.
    fn initial_state(&self) -> State {
        State::new(Arc::clone(&self.state.edition))
    }

    /// Examines the whole journal and the payee rows. Returns the first contradiction.
    fn examine_all(
        &mut self,
        sealed: Head,
        moment: &Moment,
    ) -> Result<Option<String>, JournalError> {
        let mut tally = Tally::new();
        let mut read = Examination::new(self.initial_state(), sealed);
        let _proof = self.journal.replay(Head::default(), |entry| {
            let touched = read.apply_entry(self, entry, moment);
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

    /// Examines the entries after a sealed snapshot, and the earlier entries whose asks may be repeated. Returns the
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
            let _touched = read.apply_entry(self, entry, moment);
        })?;
        if read.missing_ask.is_none() && !read.losses_accepted {
            self.journal.read_backwards(at, |piece| {
                for entry in piece {
                    read.check_index(self, entry, moment);
                }
                let young = piece.first().is_some_and(|first| is_repeatable(first, moment));
                young && !read.losses_accepted
            })?;
        }
        Ok(self.conclude(read))
    }

    fn conclude(&mut self, read: Examination) -> Option<String> {
        let mut wrong = read.contradiction.or(read.missing_ask);
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
        self.untrusted_reason = None;
        self.is_verified = true;
        self.journal.seal_with(key);
        let first = day_minus(moment.utc, self.retention.signed_days);
        self.journal.remember_from(first).map_err(|damage| damage_fault(&damage))?;
        self.journal.commit().map_err(|damage| self.fail(&damage))?;
        self.count_payees().map_err(|damage| damage_fault(&damage))
    }

    /// Counts payees from the first entry, because an unlock may not have read that far back.
    fn count_payees(&mut self) -> Result<(), JournalError> {
        let tally = self.journal.count_payees(self.initial_state())?;
        self.repair_payees(tally)
    }

    /// Ends sealing after the keys were wiped.
    ///
    /// The last sealed entry records the lock. `noted` is the entry that the wallet file recorded before the lock.
    pub fn end_sealing(&mut self, moment: &Moment, cause: LockCause, noted: Option<u64>) {
        let is_recorded = self.journal.is_sealing() && self.state.wallet.is_some();
        if is_recorded && self.failure.is_none() {
            let mut ended = bursar_domain::decide::stop_plans(&self.state);
            ended.push(Event::WalletLocked { cause, noted_entry: noted });
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

/// The state that the entries lead to, and the first contradiction in them.
struct Examination {
    state: State,
    sealed: Head,
    contradiction: Option<String>,
    /// The first ask, or reported settlement, that is missing in the index.
    missing_ask: Option<String>,
    /// The operator has accepted the journal, with any earlier gaps in its index.
    losses_accepted: bool,
}

impl Examination {
    fn new(state: State, sealed: Head) -> Self {
        Self { state, sealed, contradiction: None, missing_ask: None, losses_accepted: false }
    }

    /// Applies an entry. Entries after the seal must be changes that a locked wallet allows.
    fn apply_entry(
        &mut self,
        core: &Core,
        entry: &Entry,
        moment: &Moment,
    ) -> Option<ChangedRecord> {
        let free = entry.seq > self.sealed.seq;
        if free
            && self.contradiction.is_none()
            && !unsealed_tail::may_follow_a_seal(&self.state, entry)
        {
            self.contradiction = Some(match &entry.event {
                Event::JournalRestored { .. } => {
                    "it was restored, and the entries after the backup are lost".to_owned()
                }
                _other => format!(
                    "entry {} came after the last seal, and only an open wallet can write it",
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
            (self.missing_ask, self.losses_accepted) = (None, true);
        }
        if self.missing_ask.is_some() || !is_repeatable(entry, moment) {
            return;
        }
        let known = match (&entry.event, entry.event.draft()) {
            // A repeat of a forgotten request is refused, so it needs no index entry.
            (_, Some(asked)) => core.journal.is_forgotten(&asked.identity).and_then(|forgotten| {
                Ok(forgotten || core.journal.is_indexed(&asked.identity, entry.seq)?)
            }),
            (Event::SettlementReported { settlement, .. }, None) if settlement.is_settled() => {
                core.journal.is_settled_indexed(settlement)
            }
            (Event::SettlementChecked { id, found: Check::Verified { .. } }, None) => {
                core.find(*id).and_then(|request| {
                    let Some(request) = request else { return Ok(true) };
                    let settlement = core.journal.settlement(&request)?;
                    settlement.map_or(Ok(true), |known| core.journal.is_settled_indexed(&known))
                })
            }
            (_no_ask, None) => return,
        };
        if !known.unwrap_or(false) {
            self.missing_ask =
                Some(format!("the ask of entry {} is missing in the index", entry.seq));
        }
    }
}

fn is_repeatable(entry: &Entry, moment: &Moment) -> bool {
    moment.utc.since_ms(entry.at) < REPEATABLE_MS
}

fn damage_fault(error: &JournalError) -> Fault {
    Fault::because(Code::JournalDamaged, format!("{error}."))
}

#[cfg(test)]
mod tests;
