//! Limits the unpaid amount per payer and in total. A sale counts as unpaid from the verification of its payment until
//! the payment is settled or the sale ends. After delivery it also counts while its settlement is pending.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_core::money::parse_decimal;

use crate::book::{PaymentId, Record};

/// Decimals of [`Dollars`]: the most that an asset may have.
pub const DOLLAR_DECIMALS: u8 = 36;

/// An amount in units of 10^-36 dollars.
///
/// Amounts in different assets add up exactly.
pub type Dollars = U256;

/// Limits on the unpaid amount at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpaidLimits {
    pub per_payer_max: Dollars,
    pub total_max: Dollars,
}

/// The limit that a sale would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    Payer,
    Total,
}

impl OverLimit {
    /// Returns the name of the setting of this limit.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Payer => "max_unpaid_usd_per_payer",
            Self::Total => "max_unpaid_usd",
        }
    }
}

/// The unpaid sales and their limits.
///
/// Clones share them.
#[derive(Debug, Clone)]
pub struct UnpaidSales {
    limits: UnpaidLimits,
    // The lock is held for a single update.
    open: Arc<Mutex<OpenSales>>,
}

/// The unpaid sales, and their sums.
#[derive(Debug, Default)]
struct OpenSales {
    sales: HashMap<PaymentId, (Address, Dollars)>,
    payers: HashMap<Address, Dollars>,
    total: Dollars,
}

/// A sale that counts as unpaid until this is dropped.
///
/// If it is [kept](UnpaidGuard::keep), it counts until [`UnpaidSales::end`].
#[derive(Debug)]
pub struct UnpaidGuard {
    id: PaymentId,
    unpaid: UnpaidSales,
    stays_counted: bool,
}

impl UnpaidGuard {
    /// Keeps the sale counted until [`UnpaidSales::end`]: its answer is delivered while its settlement is pending.
    pub fn keep(mut self) {
        self.stays_counted = true;
    }
}

impl Drop for UnpaidGuard {
    fn drop(&mut self) {
        if !self.stays_counted {
            self.unpaid.end(self.id);
        }
    }
}

/// Returns the price of a stored sale, or `None` if the price cannot be read.
pub fn price_of(record: &Record) -> Option<Dollars> {
    parse_decimal(&record.usd, DOLLAR_DECIMALS).ok()
}

impl UnpaidSales {
    /// Creates the limits without any sale.
    pub fn new(limits: UnpaidLimits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// Counts a sale whose settlement was pending at the start, even if it exceeds the limits.
    pub fn load(&self, record: &Record) {
        let amount = price_of(record).unwrap_or(Dollars::MAX);
        self.lock().add(record.id, record.payer, amount);
    }

    /// Counts a sale if both limits leave room for it.
    ///
    /// A sale that is already counted is not counted again.
    ///
    /// # Errors
    /// The limit that the sale would exceed.
    pub fn reserve(
        &self,
        id: PaymentId,
        payer: Address,
        amount: Dollars,
    ) -> Result<UnpaidGuard, OverLimit> {
        let mut open = self.lock();
        let of_payer = open.payers.get(&payer).copied().unwrap_or_default();
        let fits =
            |sum: Dollars, most: Dollars| sum.checked_add(amount).is_some_and(|sum| sum <= most);
        // The sale already counts, because its settlement is pending.
        let kept = open.sales.contains_key(&id);
        if !kept {
            if !fits(of_payer, self.limits.per_payer_max) {
                return Err(OverLimit::Payer);
            }
            if !fits(open.total, self.limits.total_max) {
                return Err(OverLimit::Total);
            }
            open.add(id, payer, amount);
        }
        drop(open);
        Ok(UnpaidGuard { id, unpaid: self.clone(), stays_counted: kept })
    }

    /// Stops counting a sale, because it is paid, was not delivered, or will never be paid.
    pub fn end(&self, id: PaymentId) {
        self.lock().remove(id);
    }

    /// Returns the unpaid total.
    pub fn total(&self) -> Dollars {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, OpenSales> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSales {
    fn add(&mut self, id: PaymentId, payer: Address, amount: Dollars) {
        if self.sales.contains_key(&id) {
            return;
        }
        // Caps the amount, so that the total cannot overflow. Stores the capped amount, because `remove` subtracts it.
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
