//! The lanes of requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The lane of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Payment,
    Trade,
    Loan,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Payment, Self::Trade, Self::Loan];

    /// Returns the stable text on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Lane::Payment => "payment",
            Lane::Trade => "trade",
            Lane::Loan => "loan",
        }
    }
}

/// One value for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ByLane<T> {
    pub payment: T,
    pub trade: T,
    pub loan: T,
}

impl<T> ByLane<T> {
    /// Returns the value of a lane.
    pub fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Payment => &self.payment,
            Lane::Trade => &self.trade,
            Lane::Loan => &self.loan,
        }
    }

    /// Returns the value of a lane, to change it.
    pub fn of_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Payment => &mut self.payment,
            Lane::Trade => &mut self.trade,
            Lane::Loan => &mut self.loan,
        }
    }
}
