//! Start time on a store with a hundred thousand settled payments.

use std::time::Instant;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_facilitator::book::redb_store::RedbPayments;
use bursar_facilitator::book::store::{Change, PaymentStore};
use bursar_facilitator::book::{Record, RequestOrigin, State};
use bursar_facilitator::payment::{MethodId, Payment, Terms};
use bursar_facilitator::work::Effect;
use bursar_tests::facilitator::FacilitatorHome;

use crate::stage::{chain, fund, start_facilitator};

const RECORDS: u64 = 100_000;

pub async fn measure() {
    let chain = chain().await;
    let home = FacilitatorHome::new(chain.network(), chain.url(), 1, "", "");
    fund(&chain, &home).await;
    {
        let file = home.folder().join("facilitator.redb");
        let (store, _outboxes) = RedbPayments::open_file(&file).expect("a store");
        for first in (0..RECORDS).step_by(1_000) {
            let some = (first..first + 1_000).map(|n| Change::Accepted(Box::new(record(n))));
            store.commit(some.collect()).await.expect("kept");
        }
    }
    let begun = Instant::now();
    let process = start_facilitator(&home);
    let took = begun.elapsed();
    let (now, _most) = process.memory_mib();
    println!("start on {RECORDS} settled payments: {} ms, {now:.1} MiB", took.as_millis());
}

fn record(n: u64) -> Record {
    let word = keccak256(n.to_be_bytes());
    Record {
        job: Payment {
            chain: ChainId(8453),
            method: MethodId::Eip3009,
            terms: Terms {
                token: Address::repeat_byte(1),
                payer: Address::from_word(word),
                payee: Address::repeat_byte(3),
                authorized_amount: U256::from(n),
                nonce: word,
                valid_after: U256::ZERO,
                valid_before: U256::from(u64::MAX),
                facilitator: None,
            },
            amount: U256::from(n),
            digest: word,
            signature: Bytes::copy_from_slice(&[7; 65]),
            deployment: None,
            is_contract_payer: false,
            sponsoring: None,
        }
        .into(),
        accepted_at: Utc(1_767_225_600_000),
        since_block: 0,
        attempts: 0,
        state: State::Settled {
            hash: B256::repeat_byte(9),
            block: n,
            at: Utc(1_767_225_600_000),
            effect: Effect::default(),
        },
        gas: 250_000,
        gas_caller: B256::ZERO,
        origin: RequestOrigin::default(),
        pending_returned: false,
        success_returned_at: None,
    }
}
