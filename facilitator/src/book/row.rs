//! How a record is stored. Rows of the first version, which knew only payments of the scheme `exact`, are read too.
//!
//! A row begins with [`VERSION`]. A row of the first version begins with its chain id, which is never 0.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_rows::StoreError;
use bursar_submit::SubmissionId;
use serde::Deserialize;

use crate::book::record::{Record, RequestOrigin, State};
use crate::payment::{Deployment, MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::work::Effect;

/// The first bytes of a row. A program of the first version reads them as a method that it does not know, and reports
/// a damaged row.
const VERSION: [u8; 2] = [0, 102];

/// Encodes a record.
///
/// # Errors
/// [`StoreError::Bug`].
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, StoreError> {
    let mut row = VERSION.to_vec();
    row.extend(bursar_rows::encode(record)?);
    Ok(row)
}

/// Decodes a record of any version.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub(super) fn decode(row: &[u8]) -> Result<Record, StoreError> {
    match row.strip_prefix(&VERSION) {
        Some(record) => bursar_rows::decode(record),
        None => Ok(bursar_rows::decode::<FirstRecord>(row)?.into()),
    }
}

/// A record of the first version.
#[derive(Deserialize)]
struct FirstRecord {
    payment: FirstPayment,
    accepted_at: Utc,
    since_block: u64,
    attempts: u8,
    state: FirstState,
    gas: u64,
    gas_of: B256,
    asked: RequestOrigin,
    answered: Option<Utc>,
}

#[derive(Deserialize)]
struct FirstPayment {
    chain: ChainId,
    method: MethodId,
    terms: FirstTerms,
    digest: B256,
    signature: Bytes,
    deployment: Option<Deployment>,
    contract_payer: bool,
}

#[derive(Deserialize)]
struct FirstTerms {
    token: Address,
    payer: Address,
    payee: Address,
    amount: U256,
    nonce: B256,
    valid_after: U256,
    valid_before: U256,
}

#[derive(Deserialize)]
enum FirstState {
    Queued,
    Sent { batch: SubmissionId },
    Settled { hash: B256, block: u64, at: Utc },
    Failed { reason: Reason, message: String, at: Utc },
}

impl From<FirstState> for State {
    fn from(first: FirstState) -> Self {
        match first {
            FirstState::Queued => Self::Queued,
            FirstState::Sent { batch } => Self::Sent { batch },
            FirstState::Settled { hash, block, at } => {
                Self::Settled { hash, block, at, effect: Effect::default() }
            }
            FirstState::Failed { reason, message, at } => Self::Failed { reason, message, at },
        }
    }
}

impl From<FirstRecord> for Record {
    fn from(first: FirstRecord) -> Self {
        let FirstPayment { chain, method, terms, digest, signature, deployment, contract_payer } =
            first.payment;
        let FirstTerms { token, payer, payee, amount, nonce, valid_after, valid_before } = terms;
        let terms = Terms {
            token,
            payer,
            payee,
            authorized: amount,
            nonce,
            valid_after,
            valid_before,
            facilitator: None,
        };
        let payment =
            Payment { chain, method, terms, amount, digest, signature, deployment, contract_payer };
        Self {
            job: payment.into(),
            accepted_at: first.accepted_at,
            since_block: first.since_block,
            attempts: first.attempts,
            state: first.state.into(),
            gas: first.gas,
            gas_of: first.gas_of,
            asked: first.asked,
            answered: first.answered,
        }
    }
}
