//! Payments that the tests of this folder record.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_facilitator::book::{Record, RequestOrigin, State};
use bursar_facilitator::job::Job;
use bursar_facilitator::payment::{MethodId, Payment, Terms};

pub(crate) const CHAIN: ChainId = ChainId(8453);
pub(crate) const CALLER: B256 = B256::repeat_byte(4);

/// A payment of 10 with this nonce and digest.
pub(crate) fn payment(nonce: u8, digest: u8) -> Job {
    let terms = Terms {
        token: Address::repeat_byte(1),
        payer: Address::repeat_byte(2),
        payee: Address::repeat_byte(3),
        authorized_amount: U256::from(10),
        nonce: B256::repeat_byte(nonce),
        valid_after: U256::ZERO,
        valid_before: U256::MAX,
        facilitator: None,
    };
    Job::Payment(Payment {
        chain: CHAIN,
        method: MethodId::Eip3009,
        terms,
        amount: U256::from(10),
        digest: B256::repeat_byte(digest),
        signature: Bytes::from(vec![digest; 65]),
        deployment: None,
        is_contract_payer: false,
        sponsoring: None,
    })
}

/// Returns a queued payment with this number as its nonce and digest.
pub(crate) fn record(n: u8) -> Record {
    Record {
        job: payment(n, n),
        accepted_at: Utc(1),
        since_block: 0,
        attempts: 0,
        state: State::Queued,
        gas: 100,
        gas_caller: CALLER,
        origin: RequestOrigin { caller: CALLER, idempotency: None },
        pending_returned: false,
        success_returned_at: None,
    }
}
