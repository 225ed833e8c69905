//! Who may receive the success of a payment: it is returned once. What counts durably is the record's
//! `answered`; here is which request holds the right to it at the moment.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::book::{AskedBy, Record};
use crate::payment::PaymentKey;

/// What a facilitator does with the repeat of a settled payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// It rejects it with `duplicate_settlement`.
    #[default]
    Duplicate,
    /// It returns the success again, to every caller.
    Success,
}

/// The rights that requests hold now.
#[derive(Debug, Clone, Default)]
pub struct Successes {
    // Held for one look-up.
    held: Arc<Mutex<HashSet<PaymentKey>>>,
    repeats: Repeats,
}

/// The right of one request to the success of one payment; dropped, the next request may have it.
#[derive(Debug)]
pub struct Right {
    successes: Successes,
    pub key: PaymentKey,
    pub by: AskedBy,
}

impl Drop for Right {
    fn drop(&mut self) {
        self.successes.held().remove(&self.key);
    }
}

/// What a request may hear of a payment that is settled or in flight.
#[derive(Debug)]
pub enum Share {
    /// The success. It counts as returned once it was written.
    Own(Right),
    /// The success once more: it repeats the request that had it, or repeats are allowed.
    Again,
    /// Another request has it.
    None,
}

impl Successes {
    pub fn new(repeats: Repeats) -> Self {
        Self { held: Arc::default(), repeats }
    }

    /// The right of the request that had the payment taken on. `None` while another request holds it.
    pub fn take(&self, key: PaymentKey, by: AskedBy) -> Option<Right> {
        let new = self.held().insert(key);
        new.then(|| Right { successes: self.clone(), key, by })
    }

    /// What a request may hear of a payment that another request had taken on.
    pub fn share(&self, record: &Record, by: AskedBy) -> Share {
        if self.repeats == Repeats::Success || by.repeats(&record.asked) {
            return Share::Again;
        }
        if record.answered.is_some() {
            return Share::None;
        }
        self.take(record.payment.key(), by).map_or(Share::None, Share::Own)
    }

    /// Whether a request that settles now would hear the success: what merchants ask before they settle.
    pub fn would_share(&self, record: &Record, by: AskedBy) -> bool {
        let free = || record.answered.is_none() && !self.held().contains(&record.payment.key());
        self.repeats == Repeats::Success || by.repeats(&record.asked) || free()
    }

    fn held(&self) -> MutexGuard<'_, HashSet<PaymentKey>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
