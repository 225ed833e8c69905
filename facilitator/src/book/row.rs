//! How a record is stored. Rows of earlier versions are read, too: the first version knew only payments of the scheme
//! `exact`, the second knew no sponsoring, and the third did not store whether `settlement_pending` was returned.
//!
//! A row begins with [`VERSION`]. A row of the first version begins with its chain id instead, which is never 0.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_rows::StoreError;
use bursar_submit::SubmissionId;
use bursar_x402::channel::ChannelConfig;
use bursar_x402::channel::payload::{DepositAuthorization, SignedVoucher};
use serde::Deserialize;

use crate::batch::claim::ChannelClaim;
use crate::batch::deposit::ChannelDeposit;
use crate::batch::refund::ChannelRefund;
use crate::batch::state::ChannelState;
use crate::batch::sweep::ChannelSweep;
use crate::book::record::{Record, RequestOrigin, State};
use crate::job::Job;
use crate::payment::{Deployment, MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::work::Effect;

/// The first bytes of a row. A program of the first version reads them as a method that it does not know, and reports
/// a damaged row.
const VERSION: [u8; 2] = [0, 104];
/// The first bytes of a row of the third version.
const THIRD_VERSION: [u8; 2] = [0, 103];
/// The first bytes of a row of the second version.
const SECOND_VERSION: [u8; 2] = [0, 102];

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
    if let Some(record) = row.strip_prefix(&VERSION) {
        return bursar_rows::decode(record);
    }
    if let Some(record) = row.strip_prefix(&THIRD_VERSION) {
        return Ok(bursar_rows::decode::<ThirdRecord>(record)?.into());
    }
    match row.strip_prefix(&SECOND_VERSION) {
        Some(record) => Ok(bursar_rows::decode::<SecondRecord>(record)?.into()),
        None => Ok(bursar_rows::decode::<FirstRecord>(row)?.into()),
    }
}

/// A record of an earlier version, whose job and state may have had other forms.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct EarlierRecord<J, S> {
    job: J,
    accepted_at: Utc,
    since_block: u64,
    attempts: u8,
    state: S,
    gas: u64,
    gas_caller: B256,
    origin: RequestOrigin,
    success_returned_at: Option<Utc>,
}

impl<J: Into<Job>, S: Into<State>> From<EarlierRecord<J, S>> for Record {
    fn from(earlier: EarlierRecord<J, S>) -> Self {
        Self {
            job: earlier.job.into(),
            accepted_at: earlier.accepted_at,
            since_block: earlier.since_block,
            attempts: earlier.attempts,
            state: earlier.state.into(),
            gas: earlier.gas,
            gas_caller: earlier.gas_caller,
            origin: earlier.origin,
            // Earlier versions did not store this. A pending answer may have been returned, so only the accepted
            // request may receive the success.
            pending_returned: true,
            success_returned_at: earlier.success_returned_at,
        }
    }
}

/// A record of the first version.
type FirstRecord = EarlierRecord<FirstPayment, FirstState>;
/// A record of the third version.
type ThirdRecord = EarlierRecord<Job, State>;
/// A record of the second version.
type SecondRecord = EarlierRecord<SecondJob, State>;

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum SecondJob {
    Payment(Box<SecondPayment>),
    Deposit(Box<SecondDeposit>),
    Claim(Box<ChannelClaim>),
    Sweep(ChannelSweep),
    Refund(Box<ChannelRefund>),
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct SecondPayment {
    chain: ChainId,
    method: MethodId,
    terms: Terms,
    amount: U256,
    digest: B256,
    signature: Bytes,
    deployment: Option<Deployment>,
    contract_payer: bool,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct SecondDeposit {
    chain: ChainId,
    config: ChannelConfig,
    channel: B256,
    amount: u128,
    authorization: DepositAuthorization,
    voucher: SignedVoucher,
    digest: B256,
    signature: Bytes,
    deployment: Option<Deployment>,
    contract_payer: bool,
    before: ChannelState,
}

impl From<SecondJob> for Job {
    fn from(second: SecondJob) -> Self {
        match second {
            SecondJob::Payment(payment) => Self::Payment((*payment).into()),
            SecondJob::Deposit(deposit) => Self::Deposit(Box::new((*deposit).into())),
            SecondJob::Claim(claim) => Self::Claim(claim),
            SecondJob::Sweep(sweep) => Self::Sweep(sweep),
            SecondJob::Refund(refund) => Self::Refund(refund),
        }
    }
}

impl From<SecondPayment> for Payment {
    fn from(second: SecondPayment) -> Self {
        Self {
            chain: second.chain,
            method: second.method,
            terms: second.terms,
            amount: second.amount,
            digest: second.digest,
            signature: second.signature,
            deployment: second.deployment,
            is_contract_payer: second.contract_payer,
            sponsoring: None,
        }
    }
}

impl From<SecondDeposit> for ChannelDeposit {
    fn from(second: SecondDeposit) -> Self {
        Self {
            chain: second.chain,
            config: second.config,
            channel: second.channel,
            amount: second.amount,
            authorization: second.authorization,
            voucher: second.voucher,
            digest: second.digest,
            signature: second.signature,
            deployment: second.deployment,
            contract_payer: second.contract_payer,
            state_before: second.before,
            sponsoring: None,
        }
    }
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

impl From<FirstPayment> for Job {
    fn from(first: FirstPayment) -> Self {
        let FirstPayment { chain, method, terms, digest, signature, deployment, contract_payer } =
            first;
        let FirstTerms { token, payer, payee, amount, nonce, valid_after, valid_before } = terms;
        let terms = Terms {
            token,
            payer,
            payee,
            authorized_amount: amount,
            nonce,
            valid_after,
            valid_before,
            facilitator: None,
        };
        let second = SecondPayment {
            chain,
            method,
            terms,
            amount,
            digest,
            signature,
            deployment,
            contract_payer,
        };
        Payment::from(second).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(job: SecondJob) -> SecondRecord {
        SecondRecord {
            job,
            accepted_at: Utc(7),
            since_block: 8,
            attempts: 1,
            state: State::Queued,
            gas: 9,
            gas_caller: B256::repeat_byte(1),
            origin: RequestOrigin::default(),
            success_returned_at: Some(Utc(10)),
        }
    }

    #[test]
    fn rows_of_the_second_version_are_read() {
        let terms = Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(4),
            nonce: B256::repeat_byte(5),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            facilitator: Some(Address::repeat_byte(6)),
        };
        let payment = SecondPayment {
            chain: ChainId(8453),
            method: MethodId::UptoPermit2,
            terms: terms.clone(),
            amount: U256::from(3),
            digest: B256::repeat_byte(7),
            signature: vec![8; 65].into(),
            deployment: None,
            contract_payer: true,
        };
        let sweep = ChannelSweep {
            chain: ChainId(8453),
            receiver: Address::repeat_byte(1),
            token: Address::repeat_byte(2),
            claimed: 3,
            paid_out: 2,
        };
        for job in [SecondJob::Payment(Box::new(payment)), SecondJob::Sweep(sweep)] {
            let old = second(job);
            let mut row = SECOND_VERSION.to_vec();
            row.extend(bursar_rows::encode(&old).unwrap());
            let record = decode(&row).unwrap();
            if let Job::Payment(payment) = &record.job {
                assert_eq!((&payment.terms, payment.amount), (&terms, U256::from(3)));
                assert_eq!((payment.is_contract_payer, &payment.sponsoring), (true, &None));
            }
            assert_eq!((record.gas, record.pending_returned), (9, true));
            assert_eq!(record.success_returned_at, Some(Utc(10)));
            // The record is written in the newest version, and read again.
            let row = encode(&record).unwrap();
            assert!(row.starts_with(&VERSION));
            assert_eq!(decode(&row).unwrap(), record);
            // A row of the third version is read too. That version does not show whether a pending answer was returned.
            let Record { job, accepted_at, since_block, attempts, state, .. } = record.clone();
            let Record {
                gas,
                gas_caller: gas_of,
                origin: asked,
                success_returned_at: answered,
                ..
            } = record.clone();
            let third = ThirdRecord {
                job,
                accepted_at,
                since_block,
                attempts,
                state,
                gas,
                gas_caller: gas_of,
                origin: asked,
                success_returned_at: answered,
            };
            let mut row = THIRD_VERSION.to_vec();
            row.extend(bursar_rows::encode(&third).unwrap());
            assert_eq!(decode(&row).unwrap(), record);
        }
    }
}
