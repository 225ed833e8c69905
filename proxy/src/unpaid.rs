//! How much is owed to the seller: the prices of answers whose upstream call is running, or that were delivered
//! while their money was on its way. Bounded for each payer and in total.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_core::money::parse_decimal;

use crate::book::{PaymentId, Record};

/// Decimals of [`Dollars`]: as many as any asset may have.
pub const SCALE: u8 = 36;

/// An amount in units of 10^-36 dollars, so that amounts in different assets add up exactly.
pub type Dollars = U256;

/// The most that may be unpaid at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub per_payer: Dollars,
    pub total: Dollars,
}

/// Which bound a sale would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverBound {
    Payer,
    Total,
}

/// What is unpaid. Clones share it.
#[derive(Debug, Clone)]
pub struct Unpaid {
    bounds: Bounds,
    // Held for one addition.
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    sales: HashMap<PaymentId, (Address, Dollars)>,
    payers: HashMap<Address, Dollars>,
    total: Dollars,
}

/// A sale that counts as unpaid until this is dropped, or for longer if it is [kept](Debt::keep).
#[derive(Debug)]
pub struct Debt {
    id: PaymentId,
    unpaid: Unpaid,
    kept: bool,
}

impl Debt {
    /// The answer goes out while its money is on its way: it counts until [`Unpaid::end`].
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if !self.kept {
            self.unpaid.end(self.id);
        }
    }
}

/// What a sale costs, as its record tells it; `None` if no bound could cover it.
pub fn price_of(record: &Record) -> Option<Dollars> {
    parse_decimal(&record.usd, SCALE).ok()
}

impl Unpaid {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, open: Arc::default() }
    }

    /// Counts an answer that an earlier process delivered, whatever the bounds are now.
    pub fn load(&self, record: &Record) {
        let amount = price_of(record).unwrap_or(Dollars::MAX);
        self.lock().add(record.id, record.payer, amount);
    }

    /// Counts a sale, if both bounds leave room for it.
    ///
    /// # Errors
    /// The bound that leaves no room.
    pub fn reserve(
        &self,
        id: PaymentId,
        payer: Address,
        amount: Dollars,
    ) -> Result<Debt, OverBound> {
        let mut open = self.lock();
        let of_payer = open.payers.get(&payer).copied().unwrap_or_default();
        let fits =
            |sum: Dollars, most: Dollars| sum.checked_add(amount).is_some_and(|sum| sum <= most);
        // Delivered already, and counted.
        let kept = open.sales.contains_key(&id);
        if !kept {
            if !fits(of_payer, self.bounds.per_payer) {
                return Err(OverBound::Payer);
            }
            if !fits(open.total, self.bounds.total) {
                return Err(OverBound::Total);
            }
            open.add(id, payer, amount);
        }
        drop(open);
        Ok(Debt { id, unpaid: self.clone(), kept })
    }

    /// The sale is paid, or was not delivered, or will never be paid.
    pub fn end(&self, id: PaymentId) {
        self.lock().remove(id);
    }

    /// All that is unpaid.
    pub fn total(&self) -> Dollars {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn add(&mut self, id: PaymentId, payer: Address, amount: Dollars) {
        if self.sales.contains_key(&id) {
            return;
        }
        // A sum that does not fit is beyond every bound; what was added is what is taken away again.
        let amount = amount.min(Dollars::MAX.saturating_sub(self.total));
        self.sales.insert(id, (payer, amount));
        let of_payer = self.payers.entry(payer).or_default();
        *of_payer = of_payer.saturating_add(amount);
        self.total = self.total.saturating_add(amount);
    }

    fn remove(&mut self, id: PaymentId) {
        let Some((payer, amount)) = self.sales.remove(&id) else { return };
        self.total = self.total.saturating_sub(amount);
        if let Some(of_payer) = self.payers.get_mut(&payer) {
            *of_payer = of_payer.saturating_sub(amount);
            if of_payer.is_zero() {
                self.payers.remove(&payer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
