//! A job: what one record of the book carries out on the chain.

use serde::{Deserialize, Serialize};

use crate::payment::Payment;
use crate::work::Work;

/// What one record carries out. Serialized by position: append new variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// A token transfer that the payer signed.
    Payment(Payment),
}

impl Job {
    /// What settling the job needs to know about it.
    pub fn work(&self) -> &dyn Work {
        match self {
            Self::Payment(payment) => payment,
        }
    }
}

impl From<Payment> for Job {
    fn from(payment: Payment) -> Self {
        Self::Payment(payment)
    }
}

/// Whether the events of one transaction distinguish two jobs.
pub fn are_distinguishable(one: &Job, other: &Job) -> bool {
    match (one, other) {
        (Job::Payment(one), Job::Payment(other)) => one.is_distinguishable_from(other),
    }
}
