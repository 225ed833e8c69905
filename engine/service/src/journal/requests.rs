//! Requests, their settlements, and the index from an ask to its request. Changes are noted for the next commit;
//! lookups include pending changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar_core::ids::RequestId;
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::settlement::{Settlement, Stage};
use bursar_domain::{Event, LaneAsk, Request, Status};

use super::chain::Journal;
use super::codec;
use super::error::JournalError;
use super::store::{encode_record, id_key, transaction_key};

/// Returns the index key of the settled payments of a bearer agent's ask; `None` for a signed ask, which is paid at
/// most once.
///
/// Without `after`, the key leads to the newest payment. With `after`, the entry of a payment's request, the key
/// leads to the payment before that one, or to that payment itself if it is the first.
fn settled_key(identity: &Identity, after: Option<u64>) -> Option<Vec<u8>> {
    let Identity::Bearer { digest, .. } = identity else { return None };
    let mut key = Vec::with_capacity(41);
    key.push(b'p');
    key.extend_from_slice(digest);
    key.extend(after.iter().flat_map(|seq| seq.to_be_bytes()));
    Some(key)
}

impl Journal {
    /// Adds a request's record to the next commit and returns the request as recorded.
    ///
    /// A `new` request is indexed. The record of a known request keeps the echo of its earlier record, because the
    /// state has none.
    ///
    /// # Errors
    /// The earlier record cannot be read, or the new one cannot be encoded.
    pub fn record_request(
        &mut self,
        request: &Arc<Request>,
        new: bool,
    ) -> Result<Arc<Request>, JournalError> {
        let mut request = Arc::clone(request);
        if !new
            && request.ask.payment().is_some_and(|payment| payment.echo.is_stripped())
            && let Some(before) = self.request(request.seq)?
            && let LaneAsk::Payment(before) = before.ask
            && let Some(payment) = Arc::make_mut(&mut request).ask.payment_mut()
        {
            payment.echo = before.echo;
        }
        let bytes = self.encode(&*request)?;
        self.pending.records.push((request.seq, bytes));
        if new {
            self.pending.index.push((id_key(request.id), request.seq));
            self.pending.index.push((request.identity.index_key(), request.seq));
            self.pending.index.extend(request.identity.claim_key().map(|key| (key, request.seq)));
        }
        self.overlay.retain(|known| known.id != request.id);
        self.overlay.push(Arc::clone(&request));
        Ok(request)
    }

    fn encode<T: serde::Serialize>(&self, record: &T) -> Result<Vec<u8>, JournalError> {
        let seq = self.head.seq;
        encode_record(record).map_err(|reason| JournalError::Damaged { seq, reason })
    }

    /// Adds a settlement to the next commit.
    ///
    /// # Errors
    /// The settlement cannot be encoded.
    pub fn record_settlement(&mut self, settlement: &Arc<Settlement>) -> Result<(), JournalError> {
        let bytes = self.encode(&**settlement)?;
        self.pending.settlements.push((settlement.request_seq, bytes));
        self.pending_settlements.retain(|known| known.id != settlement.id);
        self.pending_settlements.push(Arc::clone(settlement));
        Ok(())
    }

    /// Indexes a payment of a bearer agent under its ask, if it was reported as settled.
    ///
    /// Earlier payments of the ask remain in the list, because a chain lookup may find that this payment failed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn index_settled(&mut self, settlement: &Settlement) -> Result<(), JournalError> {
        if !settlement.is_settled() {
            return Ok(());
        }
        let Some(request) = self.request(settlement.request_seq)? else { return Ok(()) };
        let (seq, identity) = (request.seq, &request.identity);
        let (Some(newest), Some(own)) =
            (settled_key(identity, None), settled_key(identity, Some(seq)))
        else {
            return Ok(());
        };
        if self.entry_of_key(&own)?.is_none() {
            let before = self.entry_of_key(&newest)?.unwrap_or(seq);
            self.pending.index.extend([(own, before), (newest, seq)]);
        }
        Ok(())
    }

    /// Returns whether the index has a payment that was reported as settled; true for signed asks, which need no entry.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_settled_indexed(&self, settlement: &Settlement) -> Result<bool, JournalError> {
        let Some(request) = self.request(settlement.request_seq)? else { return Ok(false) };
        for key in [None, Some(request.seq)] {
            let Some(key) = settled_key(&request.identity, key) else { return Ok(true) };
            if self.entry_of_key(&key)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Indexes a settlement's transaction under the entry that was just appended.
    ///
    /// Until the chain shows the payment in the transaction, the first report that names it counts.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn index_transaction(&mut self, settlement: &Settlement) -> Result<(), JournalError> {
        let Some(hash) = settlement.tx_hash else { return Ok(()) };
        let key = transaction_key(hash);
        if settlement.stage == Stage::Verified || self.entry_of_key(&key)?.is_none() {
            self.pending.index.push((key, self.head.seq));
        }
        Ok(())
    }

    /// Indexes the report that was just appended, so that a repeat gets the same answer.
    pub fn index_report(&mut self, identity: &Identity) {
        // A repeated report of a bearer agent cannot be distinguished from a new report.
        if matches!(identity, Identity::Hmac { .. }) {
            self.pending.index.push((identity.index_key(), self.head.seq));
        }
    }

    /// Returns the stage with which the same report was answered before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn report_stage(&self, identity: &Identity) -> Result<Option<Stage>, JournalError> {
        if matches!(identity, Identity::Bearer { .. }) {
            return Ok(None);
        }
        let Some(seq) = self.entry_of_key(&identity.index_key())? else { return Ok(None) };
        let pending = self.pending.entries.iter().find(|(known, _bytes)| *known == seq);
        let bytes = match pending {
            Some((_seq, bytes)) => Some(bytes.clone()),
            None => self.store.entry(seq)?,
        };
        Ok(match bytes.as_deref().and_then(codec::event) {
            Some(Event::SettlementReported { settlement, .. }) => Some(settlement.stage),
            _other => None,
        })
    }

    /// Returns the settlement of an authorized payment, including pending changes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn settlement(&self, request: &Request) -> Result<Option<Settlement>, JournalError> {
        match self.pending_settlements.iter().find(|known| known.id == request.id) {
            Some(known) => Ok(Some((**known).clone())),
            None => Ok(self.store.settlement(request.seq)?),
        }
    }

    /// Returns the earlier requests of an ask, from the pending batch or the disk.
    ///
    /// # Errors
    /// The store cannot be read, or the index is damaged.
    pub fn prior(&self, identity: &Identity) -> Result<Prior, JournalError> {
        let same = self.find(&identity.index_key())?;
        let claimed = match identity.claim_key() {
            Some(key) => self.find(&key)?,
            None => None,
        };
        let paid = match &same {
            Some(same) => self.settled_payment(same)?,
            None => None,
        };
        Ok(Prior { newest: same, settled_payment: paid, last_with_key: claimed })
    }

    /// Returns a settled payment of an ask: `same` if it is settled, else the payment that was reported as settled
    /// last.
    fn settled_payment(&self, same: &Request) -> Result<Option<Request>, JournalError> {
        let is_paid = |request: &Request| -> Result<bool, JournalError> {
            let signed = matches!(request.status, Status::Authorized { .. });
            let settlement = if signed { self.settlement(request)? } else { None };
            Ok(settlement.is_some_and(|settlement| settlement.is_settled()))
        };
        if is_paid(same)? {
            return Ok(Some(same.clone()));
        }
        let mut at = None;
        let mut seen = BTreeSet::new();
        while let Some(key) = settled_key(&same.identity, at)
            && let Some(next) = self.entry_of_key(&key)?.filter(|next| Some(*next) != at)
        {
            if !seen.insert(next) {
                let reason = "the index of the payments of one ask is circular".to_owned();
                return Err(JournalError::Damaged { seq: next, reason });
            }
            if let Some(earlier) = self.request(next)?
                && is_paid(&earlier)?
            {
                return Ok(Some(earlier));
            }
            at = Some(next);
        }
        Ok(None)
    }

    /// Returns whether this is a signed ask of a forgotten day, whose repeat is refused.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_forgotten(&self, identity: &Identity) -> Result<bool, JournalError> {
        match identity {
            Identity::Hmac { day, .. } => Ok(*day < self.forgotten_before_day()?),
            Identity::Bearer { .. } => Ok(false),
        }
    }

    /// Returns whether the index leads from an ask to the request of entry `seq` or a later one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_indexed(&self, identity: &Identity, seq: u64) -> Result<bool, JournalError> {
        Ok(self.find(&identity.index_key())?.is_some_and(|found| found.seq >= seq))
    }

    /// Returns the request that an index key leads to, including pending changes.
    fn find(&self, key: &[u8]) -> Result<Option<Request>, JournalError> {
        match self.entry_of_key(key)? {
            Some(seq) => self.request(seq),
            None => Ok(None),
        }
    }

    pub(super) fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, JournalError> {
        let pending = self.pending.index.iter().rev().find(|(known, _seq)| known == key);
        match pending {
            Some((_key, seq)) => Ok(Some(*seq)),
            None => Ok(self.store.entry_of_key(key)?),
        }
    }

    /// Returns the record of the request that entry `seq` created, including pending changes.
    fn request(&self, seq: u64) -> Result<Option<Request>, JournalError> {
        match self.overlay.iter().find(|known| known.seq == seq) {
            Some(known) => Ok(Some((**known).clone())),
            None => Ok(self.store.record(seq)?),
        }
    }

    /// Returns the day (since 1970) before which signed asks are forgotten.
    ///
    /// Such asks are refused, because a repeat would look new.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn forgotten_before_day(&self) -> Result<u32, JournalError> {
        Ok(self.store.forgotten_before_day()?)
    }

    /// Returns the record of a request, open or finished.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn record(&self, id: RequestId) -> Result<Option<Request>, JournalError> {
        if let Some(known) = self.overlay.iter().find(|known| known.id == id) {
            return Ok(Some((**known).clone()));
        }
        self.find(&id_key(id))
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::codes::Code;
    use bursar_core::time::Utc;
    use bursar_domain::settlement::Check;

    use super::*;
    use crate::journal::MemoryStore;
    use crate::journal::sample::authorized_request;

    fn bearer(content: u8) -> Identity {
        Identity::Bearer { digest: [content; 32], key: None }
    }

    /// A journal that [`ReopenedJournal::settled_payment`] commits and opens again on the same store.
    struct ReopenedJournal {
        store: MemoryStore,
        journal: Journal,
    }

    impl ReopenedJournal {
        fn new() -> Self {
            let store = MemoryStore::default();
            Self { journal: Journal::open(Box::new(store.clone())).unwrap(), store }
        }

        fn record_ask(&mut self, request: &Request) {
            // Fill the gap with any entries: these tests do not read them.
            while self.journal.head().seq < request.seq {
                self.journal.append(Event::JournalAccepted, Utc(0)).unwrap();
            }
            self.journal.record_request(&Arc::new(request.clone()), true).unwrap();
        }

        fn record_report(&mut self, request: &Request, stage: Stage) -> Settlement {
            let settlement = Settlement { stage, ..Settlement::of(request).unwrap() };
            self.journal.record_settlement(&Arc::new(settlement.clone())).unwrap();
            self.journal.index_settled(&settlement).unwrap();
            settlement
        }

        fn record_revert(&mut self, settlement: &Settlement) {
            let next = settlement.after_check(&Check::Reverted { block: 1 });
            self.journal.record_settlement(&Arc::new(next)).unwrap();
        }

        /// Returns the entry of the payment that settled an ask. It must be the same before and after the commit.
        fn settled_entry(&mut self, content: u8) -> Option<u64> {
            let paid = |journal: &Journal| {
                let prior = journal.prior(&bearer(content)).unwrap();
                prior.settled_payment.map(|request| request.seq)
            };
            let waiting = paid(&self.journal);
            let _on_disk = self.journal.commit().unwrap();
            self.journal = Journal::open(Box::new(self.store.clone())).unwrap();
            assert_eq!(paid(&self.journal), waiting);
            waiting
        }
    }

    fn refused_request(seq: u64, content: u8) -> Request {
        let status =
            Status::Refused { refusal: Code::LimitReached.into(), at: Utc(0), was_held: false };
        Request { status, ..authorized_request(seq, bearer(content), Utc(0)) }
    }

    #[test]
    fn an_ask_leads_to_the_payments_that_settled_it_until_all_are_reverted() {
        let mut kept = ReopenedJournal::new();
        let payments: Vec<Request> =
            (1..=3).map(|seq| authorized_request(seq, bearer(7), Utc(0))).collect();
        payments.iter().for_each(|payment| kept.record_ask(payment));
        kept.record_ask(&refused_request(4, 7));
        assert_eq!(kept.settled_entry(7), None);
        let settled: Vec<Settlement> =
            payments.iter().map(|payment| kept.record_report(payment, Stage::Settled)).collect();
        assert_eq!(kept.settled_entry(7), Some(3));
        // A repeated report does not change the order.
        kept.record_report(&payments[0], Stage::Settled);
        assert_eq!(kept.settled_entry(7), Some(3));
        for (reverted, left) in [(1, Some(3)), (2, Some(1)), (0, None)] {
            kept.record_revert(&settled[reverted]);
            assert_eq!(kept.settled_entry(7), left);
        }
    }

    #[test]
    fn an_index_with_a_cycle_is_reported_as_damaged() {
        let mut kept = ReopenedJournal::new();
        let payments = [1, 2].map(|seq| authorized_request(seq, bearer(7), Utc(0)));
        payments.iter().for_each(|payment| kept.record_ask(payment));
        kept.record_ask(&refused_request(3, 7));
        let settled =
            payments.each_ref().map(|payment| kept.record_report(payment, Stage::Settled));
        settled.iter().for_each(|settlement| kept.record_revert(settlement));
        assert_eq!(kept.settled_entry(7), None);
        let first = settled_key(&bearer(7), Some(1)).unwrap();
        kept.journal.pending.index.push((first, 2));
        let error = kept.journal.prior(&bearer(7)).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
    }

    #[test]
    fn only_a_payment_reported_as_settled_settles_its_ask_and_no_other() {
        let mut kept = ReopenedJournal::new();
        let payments =
            [7, 8].map(|content| authorized_request(u64::from(content), bearer(content), Utc(0)));
        payments.iter().for_each(|payment| kept.record_ask(payment));
        kept.record_ask(&refused_request(9, 7));
        kept.record_ask(&refused_request(10, 8));
        let submitted = kept.record_report(&payments[0], Stage::Submitted);
        assert_eq!(
            (kept.settled_entry(7), kept.journal.is_settled_indexed(&submitted).unwrap()),
            (None, false)
        );
        let settled = kept.record_report(&payments[1], Stage::Settled);
        assert!(kept.journal.is_settled_indexed(&settled).unwrap());
        assert_eq!((kept.settled_entry(7), kept.settled_entry(8)), (None, Some(8)));
        assert!(kept.journal.is_settled_indexed(&settled).unwrap());
    }

    #[test]
    fn a_repeated_report_is_answered_from_its_own_entry() {
        let mut kept = ReopenedJournal::new();
        let payment = authorized_request(1, bearer(7), Utc(0));
        kept.record_ask(&payment);
        let report = |digest: u8| Identity::Hmac { day: 1, digest: [digest; 32] };
        for (digest, stage) in [(1, Stage::Submitted), (2, Stage::Settled)] {
            let settlement = Box::new(kept.record_report(&payment, stage));
            let event = Event::SettlementReported { settlement, identity: report(digest) };
            kept.journal.append(event, Utc(0)).unwrap();
            kept.journal.index_report(&report(digest));
        }
        // This index key leads to an entry of another kind.
        kept.journal.append(Event::JournalAccepted, Utc(0)).unwrap();
        kept.journal.index_report(&report(3));
        let answered = |journal: &Journal| {
            let reports = [report(1), report(2), report(3), report(4), bearer(7)];
            reports.map(|identity| journal.report_stage(&identity).unwrap())
        };
        let expected = [Some(Stage::Submitted), Some(Stage::Settled), None, None, None];
        assert_eq!(answered(&kept.journal), expected);
        kept.settled_entry(7);
        assert_eq!(answered(&kept.journal), expected, "from the disk");
    }
}
