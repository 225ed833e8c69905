//! A job: the action on the chain that one record of the book executes.

use serde::{Deserialize, Serialize};

use crate::batch::claim::ChannelClaim;
use crate::batch::deposit::ChannelDeposit;
use crate::batch::refund::ChannelRefund;
use crate::batch::sweep::ChannelSweep;
use crate::payment::Payment;
use crate::work::Work;

/// The action on the chain that one record carries out.
///
/// Serialized by position: append new variants.
#[expect(clippy::large_enum_variant, reason = "most jobs are payments, and a box costs them time")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// A token transfer that the payer signed.
    Payment(Payment),
    /// A deposit into a payment channel.
    Deposit(Box<ChannelDeposit>),
    /// A batch of claims.
    Claim(Box<ChannelClaim>),
    /// A payout of claimed money.
    Sweep(ChannelSweep),
    /// A refund of a channel.
    Refund(Box<ChannelRefund>),
}

impl Job {
    /// The job as the settlement sees it.
    pub fn work(&self) -> &dyn Work {
        match self {
            Self::Payment(payment) => payment,
            Self::Deposit(deposit) => &**deposit,
            Self::Claim(claim) => &**claim,
            Self::Sweep(sweep) => sweep,
            Self::Refund(refund) => &**refund,
        }
    }
}

impl From<Payment> for Job {
    fn from(payment: Payment) -> Self {
        Self::Payment(payment)
    }
}

/// Whether the events of one transaction show which of two jobs it executed.
pub fn are_distinguishable(one: &Job, other: &Job) -> bool {
    match (one, other) {
        (Job::Payment(one), Job::Payment(other)) => one.is_distinguishable_from(other),
        (Job::Payment(payment), Job::Deposit(deposit))
        | (Job::Deposit(deposit), Job::Payment(payment)) => {
            // A payment and a deposit both move the payer's money in the token.
            (payment.terms.payer, payment.terms.token)
                != (deposit.config.payer, deposit.config.token)
        }
        (Job::Deposit(one), Job::Deposit(other)) => one.channel != other.channel,
        (Job::Claim(one), Job::Claim(other)) => {
            let mut rows = one.rows.iter();
            !rows.any(|row| other.rows.iter().any(|same| same.channel == row.channel))
        }
        // One payout executes both jobs.
        (Job::Sweep(one), Job::Sweep(other)) => {
            (one.receiver, one.token) != (other.receiver, other.token)
        }
        (Job::Refund(_) | Job::Claim(_) | Job::Deposit(_), Job::Refund(_))
        | (Job::Refund(_), Job::Claim(_) | Job::Deposit(_)) => false,
        (
            Job::Payment(_) | Job::Sweep(_) | Job::Claim(_) | Job::Deposit(_) | Job::Refund(_),
            Job::Payment(_) | Job::Sweep(_) | Job::Claim(_) | Job::Deposit(_) | Job::Refund(_),
        ) => true,
    }
}
