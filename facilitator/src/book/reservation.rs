//! Gas and data that are reserved for a payment or a transaction.

/// Gas and data that are reserved for payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GasReservation {
    pub gas: u64,
    /// Data in units of 1,000 bytes, rounded up for each payment.
    ///
    /// Some networks charge a fee for data.
    pub data_kilobytes: u64,
}

impl GasReservation {
    /// Adds; saturates.
    pub fn add(&mut self, other: Self) {
        self.gas = self.gas.saturating_add(other.gas);
        self.data_kilobytes = self.data_kilobytes.saturating_add(other.data_kilobytes);
    }

    /// Subtracts; saturates at zero.
    pub fn sub(&mut self, other: Self) {
        self.gas = self.gas.saturating_sub(other.gas);
        self.data_kilobytes = self.data_kilobytes.saturating_sub(other.data_kilobytes);
    }
}
