//! Journal and wallet side by side: at unlock the wallet's key judges what is on disk, an operator may accept what
//! does not fit, and a lock ends the seals. Only a judged journal lets anything be automatic.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::time::Moment;
use bursar_domain::payees::{self, Tally};
use bursar_domain::{Action, Entry, Event, State, tail};
use zeroize::Zeroizing;

use super::Core;
use crate::journal::{Head, JournalError};

/// How far back an ask may still be repeated: signatures are fresh for minutes, and clocks are wrong by
/// zones. What is older is not worth a look-up each at unlock.
const REPEATABLE_MS: i64 = 2 * 86_400 * 1000;

impl Core {
    /// The wallet was opened: checks the journal against it and, if they fit, seals the head at once and
    /// every commit from now on. `keys` are the wallet's key of seals and, after it, those of earlier
    /// passwords. Answers the sealed head; `None` if they do not fit.
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
                self.journal.commit().map_err(|damage| self.fail(&damage))?;
                Ok(Some(self.journal.durable()))
            }
            _ => Ok(None),
        }
    }

    /// Whether journal and wallet fit together. The state is rebuilt from the entries in any case.
    fn judge(
        &mut self,
        moment: &Moment,
        keys: &[Zeroizing<[u8; 32]>],
        note: Option<Head>,
    ) -> Result<bool, JournalError> {
        let sealed = self.journal.sealed(keys, note)?;
        // Without a seal that fits there is nothing to judge what follows by.
        let from = sealed.as_ref().copied().unwrap_or(self.journal.durable());
        let examined = self.examine(from, moment)?;
        self.untrusted = sealed.err().or(examined);
        if let Some(reason) = &self.untrusted {
            tracing::warn!(reason, "the journal does not fit the wallet: every payment asks");
        }
        self.judged = self.untrusted.is_none();
        Ok(self.judged)
    }

    /// Reads the whole journal: what follows the seal must be what may happen while locked, and the state
    /// must be what the entries say, for a snapshot is under no seal. Answers what is wrong.
    fn examine(&mut self, sealed: Head, moment: &Moment) -> Result<Option<String>, JournalError> {
        let mut state = State::new(self.state.networks_on.iter().copied());
        let mut wrong = None;
        let mut unknown = None;
        let mut paid = Tally::new();
        let _proof = self.journal.replay(Head::default(), |entry| {
            let free = entry.seq > sealed.seq;
            if free && wrong.is_none() && !tail::may_follow_a_seal(&state, entry) {
                wrong = Some(format!(
                    "entry {} came after the last seal and needed an open wallet",
                    entry.seq
                ));
            }
            if entry.event == Event::JournalAccepted {
                // The operator has accepted what was lost before.
                unknown = None;
            }
            if unknown.is_none() && moment.utc.since_ms(entry.at) < REPEATABLE_MS {
                unknown = self.lost_ask(entry);
            }
            let touched = self.faults.apply(&mut state, entry);
            payees::count(&mut paid, entry, touched.as_ref());
        })?;
        match self.journal.correct_payees(paid) {
            Ok(true) => {}
            // It decides nothing, so it is no reason for payments to ask.
            Ok(false) => tracing::warn!("the index of payees was wrong: it was made anew"),
            Err(damage) => {
                self.fail(&damage);
                return Err(damage);
            }
        }
        wrong = wrong.or(unknown);
        if state != self.state {
            self.state = state;
            wrong = wrong.or(Some("the snapshot was not what the entries say".to_owned()));
        }
        Ok(wrong)
    }

    /// The index is under no seal either: an ask that it lost would be taken for a new one when it is
    /// repeated.
    fn lost_ask(&self, entry: &Entry) -> Option<String> {
        let (Event::PaymentAuthorized { asked, .. }
        | Event::PaymentHeld { asked, .. }
        | Event::PaymentRefused { asked, .. }) = &entry.event
        else {
            return None;
        };
        let known = self.journal.knows(&asked.identity, entry.seq).unwrap_or(false);
        (!known).then(|| format!("the ask of entry {} is missing in the index", entry.seq))
    }

    /// The operator accepts the journal as it is: it is sealed from now on.
    pub fn accept(&mut self, moment: &Moment, key: Zeroizing<[u8; 32]>) -> Result<(), Fault> {
        for outcome in self.step(moment, vec![Action::AcceptJournal]) {
            outcome?;
        }
        self.untrusted = None;
        self.judged = true;
        self.journal.seal_with(key);
        self.journal.commit().map_err(|damage| self.fail(&damage))?;
        Ok(())
    }

    /// The keys are gone: what comes from now on is under no seal. The last that is under one says so.
    pub fn locked(&mut self, moment: &Moment) {
        if self.journal.is_sealing() && self.failed.is_none() {
            let noted =
                self.record(Event::WalletLocked, moment).and_then(|_none| self.commit(moment));
            if let Err(damage) = noted {
                self.fail(&damage);
            }
        }
        self.journal.stop_sealing();
    }
}

fn damaged(error: &JournalError) -> Fault {
    Fault::because(Code::JournalDamaged, format!("{error}."))
}
