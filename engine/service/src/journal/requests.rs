//! Requests, what became of them, and how an ask leads to its own: noted for the next commit, and looked up
//! as that commit will leave them.

use std::sync::Arc;

use bursar_core::ids::RequestId;
use bursar_domain::idempotency::{Identity, Prior};
use bursar_domain::settlement::{Settlement, Stage};
use bursar_domain::{Event, Request, Status};

use super::store::id_key;
use super::{Journal, JournalError, RECORD_BYTES, codec};

impl Journal {
    /// Keeps a request's record for the next commit, and for look-ups until then. `new` ones are indexed.
    pub fn note(&mut self, request: &Arc<Request>, new: bool) -> Result<(), JournalError> {
        let bytes = Vec::with_capacity(RECORD_BYTES);
        let bytes = postcard::to_extend(&**request, bytes).map_err(|error| {
            JournalError::Damaged { seq: self.head.seq, reason: error.to_string() }
        })?;
        self.waiting.records.push((request.seq, bytes));
        if new {
            self.waiting.index.push((id_key(request.id), request.seq));
            self.waiting.index.push((request.identity.index_key(), request.seq));
            self.waiting.index.extend(request.identity.claim_key().map(|key| (key, request.seq)));
        }
        self.overlay.retain(|known| known.id != request.id);
        self.overlay.push(Arc::clone(request));
        Ok(())
    }

    /// Keeps a settlement for the next commit, and for look-ups until then.
    pub fn note_settlement(&mut self, settlement: &Arc<Settlement>) -> Result<(), JournalError> {
        let bytes = postcard::to_allocvec(&**settlement).map_err(|error| {
            JournalError::Damaged { seq: self.head.seq, reason: error.to_string() }
        })?;
        self.waiting.settlements.push((settlement.request_seq, bytes));
        if settlement.is_settled()
            && let Some(request) = self.request(settlement.request_seq)?
            && let Some(key) = request.identity.paid_key()
        {
            self.waiting.index.push((key, request.seq));
        }
        self.settled.retain(|known| known.id != settlement.id);
        self.settled.push(Arc::clone(settlement));
        Ok(())
    }

    /// Leads from a report that was just appended to its entry, so that a repeat gets the same answer.
    pub fn note_report(&mut self, identity: &Identity) {
        // A bearer agent's reports carry nothing that tells a repeat from a new one.
        if matches!(identity, Identity::Hmac { .. }) {
            self.waiting.index.push((identity.index_key(), self.head.seq));
        }
    }

    /// How far the payment had come when this very report was answered before.
    pub fn answered(&self, identity: &Identity) -> Result<Option<Stage>, JournalError> {
        if matches!(identity, Identity::Bearer { .. }) {
            return Ok(None);
        }
        let key = identity.index_key();
        let waiting = self.waiting.index.iter().rev().find(|(known, _seq)| *known == key);
        let bytes = match waiting {
            Some((_key, seq)) => {
                let entry = self.waiting.entries.iter().find(|(known, _bytes)| known == seq);
                entry.map(|(_seq, bytes)| bytes.clone())
            }
            None => match self.store.indexed(&key)? {
                Some(seq) => self.store.entry(seq)?,
                None => None,
            },
        };
        Ok(match bytes.as_deref().and_then(codec::event) {
            Some(Event::SettlementReported { settlement, .. }) => Some(settlement.stage),
            _other => None,
        })
    }

    /// What became of a request once it was signed.
    pub fn settlement(&self, request: &Request) -> Result<Option<Settlement>, JournalError> {
        match self.settled.iter().find(|known| known.id == request.id) {
            Some(known) => Ok(Some((**known).clone())),
            None => Ok(self.store.settlement(request.seq)?),
        }
    }

    /// What is known of an ask: in the batch that waits, else on disk.
    pub fn prior(&self, identity: &Identity) -> Result<Prior, JournalError> {
        let same = self.find(&identity.index_key())?;
        let claimed = match identity.claim_key() {
            Some(key) => self.find(&key)?,
            None => None,
        };
        let paid = match &same {
            Some(same) => self.paid(same)?,
            None => None,
        };
        Ok(Prior { same, paid, claimed })
    }

    /// The newest request of an ask if its payment was settled, else an earlier one of which that is true.
    fn paid(&self, same: &Request) -> Result<Option<Request>, JournalError> {
        let is_paid = |request: &Request| -> Result<bool, JournalError> {
            let signed = matches!(request.status, Status::Authorized { .. });
            let settlement = if signed { self.settlement(request)? } else { None };
            Ok(settlement.is_some_and(|settlement| settlement.is_settled()))
        };
        if is_paid(same)? {
            return Ok(Some(same.clone()));
        }
        let Some(key) = same.identity.paid_key() else { return Ok(None) };
        match self.find(&key)? {
            Some(earlier) if is_paid(&earlier)? => Ok(Some(earlier)),
            Some(_unpaid) => Ok(None),
            None => Ok(None),
        }
    }

    /// Whether the index leads from an ask to its request, or to a later one.
    pub fn knows(&self, identity: &Identity, seq: u64) -> Result<bool, JournalError> {
        Ok(self.find(&identity.index_key())?.is_some_and(|found| found.seq >= seq))
    }

    /// What an index key leads to, as the next commit will leave it.
    fn find(&self, key: &[u8]) -> Result<Option<Request>, JournalError> {
        let waiting = self.waiting.index.iter().rev().find(|(known, _seq)| known == key);
        let seq = match waiting {
            Some((_key, seq)) => Some(*seq),
            None => self.store.indexed(key)?,
        };
        match seq {
            Some(seq) => self.request(seq),
            None => Ok(None),
        }
    }

    /// The record of the request that an entry made, as the next commit will leave it.
    fn request(&self, seq: u64) -> Result<Option<Request>, JournalError> {
        match self.overlay.iter().find(|known| known.seq == seq) {
            Some(known) => Ok(Some((**known).clone())),
            None => Ok(self.store.record(seq)?),
        }
    }

    /// The day before which signed asks were forgotten: such a signature cannot be told from a new one.
    pub fn forgotten(&self) -> Result<u32, JournalError> {
        Ok(self.store.forgotten()?)
    }

    /// A request's record, open or over.
    pub fn record(&self, id: RequestId) -> Result<Option<Request>, JournalError> {
        if let Some(known) = self.overlay.iter().find(|known| known.id == id) {
            return Ok(Some((**known).clone()));
        }
        self.find(&id_key(id))
    }
}
