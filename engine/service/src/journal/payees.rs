//! One row for each payee (address and network), written in the commit of the payment.
//!
//! The rows are an unsealed cache of the entries. If they are out of date, the start of the core rebuilds them. Code
//! that reads every entry also compares the rows: an unlock without a sealed snapshot corrects wrong rows, and the
//! audit reports them. A payment adds at most one row, a tenth of the size of its entry and record.
//!
//! The index has further rows, from which a card's risks follow: the latest prices of a payee, and the address, the
//! hosts and the highest price of approved payments. They are neither rebuilt nor compared, and begin with the version
//! of the program that writes them.

use std::collections::btree_map::Entry as Slot;
use std::ops::RangeInclusive;

use alloy_primitives::Address;
use bursar_core::hosts;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::payee::Payee;
use bursar_domain::payees::{self, PaymentTotals, Tally, TallyReplay};
use bursar_domain::risks::{ends, resembles};
use bursar_domain::{Entry, State};

use super::chain::Journal;
use super::error::JournalError;
use super::head::Head;
use super::store::{Reader, StoreError};

/// The error that a reader returns while the rows are behind the head: another version of the program wrote entries,
/// or a row could not be read.
const INDEX_OUT_OF_DATE: &str =
    "the index of payees is out of date; restart the engine to rebuild it";

impl Journal {
    /// If the entry authorized a payment, adds it to the rows that the next commit writes.
    pub fn note_payment(&mut self, entry: &Entry, touched: Option<&ChangedRecord>) {
        let Some((payee, paid)) = payees::payment(entry, touched) else { return };
        if paid.approved > 0 {
            self.index_approval(&payee, paid.usd, touched);
        }
        match self.pending.payees.entry(payee) {
            Slot::Occupied(mut known) => {
                let both = known.get().plus(paid);
                known.insert(both);
                self.pending.index.push(price_row(&payee, both.times, paid.usd));
            }
            Slot::Vacant(slot) => {
                // If all rows are rewritten, the pending batch has every existing row.
                let before = if self.pending.payees_replaced {
                    Ok(None)
                } else {
                    self.store.payee_totals(&payee)
                };
                match before {
                    Ok(before) => {
                        let both = before.map_or(paid, |known| known.plus(paid));
                        slot.insert(both);
                        self.pending.index.push(price_row(&payee, both.times, paid.usd));
                    }
                    // No decision depends on the rows, so continue. They stay out of date until they are rebuilt.
                    Err(failure) => {
                        tracing::warn!(%failure, "cannot read the earlier payments to a payee");
                        self.pending.payees_incomplete = true;
                    }
                }
            }
        }
    }

    /// Adds what an approval makes known to the index: the address, the hosts and the price.
    fn index_approval(&mut self, payee: &Payee, usd: Usd, touched: Option<&ChangedRecord>) {
        let key = approved_price_key(payee);
        let before = self.entry_of_key(&key).ok().flatten().unwrap_or(0);
        self.pending.index.push((key, before.max(usd.0)));
        let similar = [similar_keys(payee.address), payee.address.to_vec()].concat();
        self.pending.index.push((similar, payee.chain.0));
        let Some(ChangedRecord::Request(request)) = touched else { return };
        for host in request.ask.payment().into_iter().flat_map(payees::hosts) {
            for name in host_and_parents(&host) {
                let key = [host_keys(name), name.as_bytes().to_vec()].concat();
                self.pending.index.push((key, request.seq));
            }
        }
    }

    /// Rebuilds the rows if they are behind the head.
    ///
    /// # Errors
    /// The journal cannot be read or written. The rows stay behind, and cards show earlier payments as unknown.
    pub fn complete_payees(&mut self, fresh: State) -> Result<(), JournalError> {
        if self.store.payees_through()? == self.durable {
            return Ok(());
        }
        let tally = self.count_payees(fresh)?;
        self.write_payees(tally)
    }

    /// Counts the payments of all entries.
    ///
    /// `fresh` is the state before the first entry.
    ///
    /// # Errors
    /// The chain is damaged, or the store cannot be read.
    pub fn count_payees(&self, fresh: State) -> Result<Tally, JournalError> {
        let mut count = TallyReplay::from(fresh);
        let _proof = self.replay(Head::default(), |entry| count.next(entry))?;
        Ok(count.tally)
    }

    /// Replaces the rows of payees if they differ from `tally`, and returns whether they were correct.
    ///
    /// # Errors
    /// The commit failed.
    pub fn repair_payees(&mut self, tally: Tally) -> Result<bool, JournalError> {
        // Unreadable rows count as wrong.
        let current = self.store.payees_through().is_ok_and(|through| through == self.durable);
        if current && rows_equal(&*self.store.reader(), &tally).unwrap_or(false) {
            return Ok(true);
        }
        self.write_payees(tally)?;
        Ok(false)
    }

    fn write_payees(&mut self, tally: Tally) -> Result<(), JournalError> {
        self.pending.payees = tally;
        self.pending.payees_replaced = true;
        self.commit()?;
        Ok(())
    }
}

/// Whether the rows equal `tally`.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn rows_equal(reader: &dyn Reader, tally: &Tally) -> Result<bool, StoreError> {
    let (mut same, mut rows) = (true, 0_usize);
    reader.payees(&mut |payee, paid| {
        rows = rows.saturating_add(1);
        same = same && paid.is_some() && tally.get(&payee) == paid.as_ref();
    })?;
    Ok(same && rows == tally.len())
}

/// Number of latest prices that are kept for a payee.
const PRICES_KEPT: u64 = 9;

/// Returns the start of the index keys of a payee's latest prices.
pub(crate) fn price_keys(payee: &Payee) -> Vec<u8> {
    [b"d".to_vec(), encode_payee(payee)].concat()
}

/// Returns the index row of the price of the payment with this number to a payee, in millionths of a dollar. It
/// replaces the row of the oldest price.
fn price_row(payee: &Payee, times: u64, usd: Usd) -> (Vec<u8>, u64) {
    let place = u8::try_from(times.checked_rem(PRICES_KEPT).unwrap_or(0)).unwrap_or(0);
    ([price_keys(payee), vec![place]].concat(), usd.0)
}

/// Returns the index key of the highest price that an operator approved for a payee.
pub(crate) fn approved_price_key(payee: &Payee) -> Vec<u8> {
    [b"m".to_vec(), encode_payee(payee)].concat()
}

/// Returns the start of the index keys of the approved payees whose addresses resemble an address, on any network.
pub(crate) fn similar_keys(address: Address) -> Vec<u8> {
    [b"s".as_slice(), &ends(address)].concat()
}

/// Returns the payee's address in an index key of [`similar_keys`].
pub(crate) fn address_of_key(key: &[u8]) -> Option<Address> {
    Some(<[u8; 20]>::try_from(key.get(5..)?).ok()?.into())
}

/// Returns the start of the index keys of the approved hosts that look like a host.
///
/// A host name contains no zero byte.
pub(crate) fn host_keys(host: &str) -> Vec<u8> {
    [b"w", hosts::lookalike_key(host).as_bytes(), &[0]].concat()
}

/// Returns the host in an index key of [`host_keys`].
pub(crate) fn host_of_key(key: &[u8]) -> Option<String> {
    let mut parts = key.splitn(2, |byte| *byte == 0);
    String::from_utf8(parts.nth(1)?.to_vec()).ok()
}

/// Returns a host and its parent domains of at least two labels, the host first.
pub(crate) fn host_and_parents(host: &str) -> Vec<&str> {
    let mut names = vec![host];
    let mut rest = host;
    while let Some((_label, parent)) = rest.split_once('.')
        && parent.contains('.')
    {
        names.push(parent);
        rest = parent;
    }
    names
}

pub(super) fn behind_error() -> StoreError {
    StoreError::Bug(INDEX_OUT_OF_DATE.to_owned())
}

/// The bytes of a row's key.
pub(super) fn encode_payee(payee: &Payee) -> Vec<u8> {
    [payee.chain.0.to_be_bytes().as_slice(), payee.address.as_slice()].concat()
}

/// Returns the range of the payees on a payee's network whose addresses have the same first two bytes.
pub(super) fn payees_near(payee: &Payee) -> RangeInclusive<Payee> {
    let [a, b, ..] = payee.address.into_array();
    let end = |rest: u8| {
        let mut address = [rest; 20];
        (address[0], address[1]) = (a, b);
        Payee { chain: payee.chain, address: address.into() }
    };
    end(0)..=end(0xff)
}

/// Returns whether an operator has paid `other`, and its address resembles that of `payee`.
///
/// Payments without an operator do not count: an agent could make any payee known.
pub(super) fn is_similar(payee: &Payee, other: &Payee, paid: &PaymentTotals) -> bool {
    paid.approved > 0 && resembles(payee.address, other.address)
}

pub(super) fn decode_payee(bytes: &[u8]) -> Option<Payee> {
    let (chain, address) = bytes.split_first_chunk::<8>()?;
    let address = <[u8; 20]>::try_from(address).ok()?;
    Some(Payee { chain: ChainId(u64::from_be_bytes(*chain)), address: address.into() })
}

pub(super) fn encode_totals(paid: &PaymentTotals) -> Vec<u8> {
    // Plain numbers: encoding cannot fail.
    postcard::to_allocvec(paid).unwrap_or_default()
}

pub(super) fn decode_totals(bytes: &[u8]) -> Option<PaymentTotals> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bursar_core::client::Client;
    use bursar_core::time::Utc;
    use bursar_domain::identity::Identity;
    use bursar_domain::{Event, Status};

    use super::*;
    use crate::journal::MemoryStore;
    use crate::journal::sample::authorized_request;

    /// Approves a payment without a commit.
    fn pay(journal: &mut Journal, second: i64) -> Payee {
        let at = Utc::from_seconds(second);
        let request = authorized_request(1, Identity::Hmac { day: 1, digest: [0; 32] }, at);
        let Status::Authorized { terms, .. } = request.status.clone() else { unreachable!() };
        let id = request.id;
        let payee = Payee::of(request.ask.payment().unwrap());
        let entry = journal
            .append(Event::PaymentApproved { id, terms, by: Client::Inside, asset: None }, at)
            .unwrap();
        let touched = ChangedRecord::Request(Arc::new(request));
        journal.note_payment(&entry, Some(&touched));
        payee
    }

    #[test]
    fn payments_of_one_batch_and_of_later_ones_add_up() {
        let mut journal = Journal::open(Box::new(MemoryStore::default())).unwrap();
        let payee = pay(&mut journal, 10);
        pay(&mut journal, 20);
        assert_eq!(journal.reader().payee_totals(&payee).unwrap(), None, "nothing is on disk yet");
        journal.commit().unwrap();
        let paid = |times, last| PaymentTotals {
            times,
            approved: times,
            first: Utc::from_seconds(10),
            last: Utc::from_seconds(last),
            usd: Usd(3 * times),
        };
        assert_eq!(journal.reader().payee_totals(&payee).unwrap(), Some(paid(2, 20)));
        pay(&mut journal, 30);
        journal.commit().unwrap();
        assert_eq!(journal.reader().payee_totals(&payee).unwrap(), Some(paid(3, 30)));
    }

    #[test]
    fn latest_prices_of_a_payee_are_kept() {
        let mut journal = Journal::open(Box::new(MemoryStore::default())).unwrap();
        let payee = pay(&mut journal, 0);
        let count = |journal: &Journal| {
            let rows = journal.reader().index_rows(&price_keys(&payee)).unwrap();
            assert!(rows.iter().all(|(_key, usd)| *usd == 3));
            rows.len()
        };
        journal.commit().unwrap();
        assert_eq!(count(&journal), 1);
        for second in 1..20 {
            pay(&mut journal, second);
        }
        journal.commit().unwrap();
        assert_eq!(count(&journal), 9);
        let other = Payee { chain: ChainId(1), ..payee };
        assert_eq!(journal.reader().index_rows(&price_keys(&other)).unwrap(), []);
    }

    #[test]
    fn approved_hosts_and_addresses_are_found_by_what_they_look_like() {
        let mut journal = Journal::open(Box::new(MemoryStore::default())).unwrap();
        let mut request = authorized_request(1, Identity::Hmac { day: 1, digest: [0; 32] }, Utc(0));
        let payment = request.ask.payment_mut().unwrap();
        payment.request_url = Some("https://www.paypal.com/x".to_owned());
        let payee = Payee::of(payment);
        let touched = ChangedRecord::Request(Arc::new(request));
        for usd in [5, 3] {
            journal.index_approval(&payee, Usd(usd), Some(&touched));
        }
        journal.append(Event::Frozen, Utc(0)).unwrap();
        journal.commit().unwrap();
        let reader = journal.reader();
        let found = |host: &str| -> Vec<String> {
            let rows = reader.index_rows(&host_keys(host)).unwrap();
            rows.iter().filter_map(|(key, _seq)| host_of_key(key)).collect()
        };
        for alike in ["paypal.com", "paypa1.com", "xn--pypal-4ve.com"] {
            assert_eq!(found(alike), ["paypal.com"], "{alike}");
        }
        assert_eq!(found("www.paypa1.com"), ["www.paypal.com"]);
        assert_eq!(found("paypal.co"), Vec::<String>::new());
        assert_eq!(
            host_and_parents("a.b.example.com"),
            ["a.b.example.com", "b.example.com", "example.com"]
        );
        let similar = reader.index_rows(&similar_keys(payee.address)).unwrap();
        assert_eq!(
            similar.iter().filter_map(|(key, _chain)| address_of_key(key)).collect::<Vec<_>>(),
            [payee.address]
        );
        let approved = reader.index_rows(&approved_price_key(&payee)).unwrap();
        assert_eq!(approved[0].1, 5, "the highest price");
    }

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        let payee = Payee { chain: ChainId(8453), address: [7; 20].into() };
        let key = encode_payee(&payee);
        assert_eq!((key.len(), decode_payee(&key)), (28, Some(payee)));
        assert_eq!((decode_payee(&key[1..]), decode_payee(&[])), (None, None));
        let paid =
            PaymentTotals { times: 1, approved: 0, first: Utc(-2), last: Utc(3), usd: Usd(4) };
        assert_eq!(decode_totals(&encode_totals(&paid)), Some(paid));
        assert_eq!(decode_totals(&[0xff]), None);
    }
}
