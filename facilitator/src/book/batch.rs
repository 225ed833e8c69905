//! Payments that share a transaction.

use alloy_primitives::{Address, B256};
use bursar_core::networks::ChainId;
use bursar_submit::SubmissionId;
use serde::{Deserialize, Serialize};

use crate::book::reservation::GasReservation;
use crate::job::Job;
use crate::job_key::JobKey;

/// Payments that share a transaction.
///
/// The order of the payments determines the transaction's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub id: SubmissionId,
    pub chain: ChainId,
    /// The account that sends the transaction; zero for a transaction that was found on the chain.
    pub signer: Address,
    pub jobs: Vec<JobKey>,
    pub gas_limit: u64,
    /// Data of the payments, counted as in [`GasReservation`].
    pub data_kilobytes: u64,
    /// The hash of a transaction that was found on the chain and settled the payment; usually another sender's.
    ///
    /// Such a batch is only watched until its transaction is final.
    pub found_transaction: Option<B256>,
}

impl Batch {
    /// Creates the batch of a transaction that was found on the chain and settled a payment.
    pub fn of_found_transaction(id: SubmissionId, job: &Job, hash: B256) -> Self {
        let work = job.work();
        Self {
            id,
            chain: work.chain(),
            signer: Address::ZERO,
            jobs: vec![work.key()],
            gas_limit: 0,
            data_kilobytes: 0,
            found_transaction: Some(hash),
        }
    }

    /// Gas and data reserved for the transaction.
    pub fn reservation(&self) -> GasReservation {
        GasReservation { gas: self.gas_limit, data_kilobytes: self.data_kilobytes }
    }
}
