//! Composes the transaction that carries out jobs: its call and its gas limit. Both depend only on the jobs and the
//! settings. `dispatch` adds Arbitrum's gas for data and stores the sum. So after a restart the same transaction is
//! composed.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_submit::Call;
use bursar_submit::fees::batch_gas;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job::Job;
use crate::upto::contract;
use crate::work::{SenderRule, Work};

/// Gas that a transaction uses before its call begins, with a reserve. The gas for data is added separately.
const BASE_GAS: u64 = 60_000;
/// Bytes of data per job in a shared transaction, rounded up.
const SHARED_JOB_BYTES_MAX: usize = 800;
/// Upper bound of the gas for `SHARED_JOB_BYTES_MAX` bytes of data.
const SHARED_JOB_DATA_GAS_MAX: u64 = 800 * GAS_PER_BYTE_MAX;
/// Gas for the deployment of a wallet by a factory. The largest known wallets use half of it.
const DEPLOYMENT_GAS: u64 = 800_000;

/// Upper bound of the gas per byte of data (EIP-7623). Transactions with much execution pay less per byte.
const GAS_PER_BYTE_MAX: u64 = 40;
/// The highest gas limit of a transaction (EIP-7825).
pub const GAS_MAX: u64 = 1 << 24;

/// Whether a job can share a transaction.
///
/// A job that may waste gas must not spoil the others, so only jobs of accounts without code, in known tokens, can
/// share.
pub fn can_share(job: &Job, is_known: impl Fn(Address) -> bool) -> bool {
    let work = job.work();
    matches!(work.sender(), SenderRule::Any | SenderRule::ThroughContract(_))
        && !work.runs_foreign_code()
        && work.deployment().is_none()
        && is_known(work.moved_amount().token)
}

/// Returns the gas limit of a transaction with these jobs, or `None` if it exceeds [`GAS_MAX`].
///
/// It does not use `eth_estimateGas`, whose estimate can be so low that the outer call succeeds and a payment in it
/// fails.
pub fn gas(contracts: &Contracts, jobs: &[&Job], cap_contract: u64) -> Option<u64> {
    let work = match jobs {
        [only] if only.work().deployment().is_some() => {
            BASE_GAS.checked_add(DEPLOYMENT_GAS)?.checked_add(cap_contract)?
        }
        [only] if only.work().runs_foreign_code() => BASE_GAS.checked_add(cap_contract)?,
        [only] => BASE_GAS.checked_add(only.work().gas())?,
        several if is_through_a_contract(several) => {
            let limits = several.iter().map(|job| job.work().gas());
            BASE_GAS.checked_add(contract::gas_of_several(limits)?)?
        }
        several => {
            // `batch_gas` adds half to this value, so two thirds of the call's gas result in its full gas.
            let used = |job: &&Job| {
                let most = job.work().gas();
                most.saturating_sub(most / 3)
            };
            batch_gas(&several.iter().map(used).collect::<Vec<_>>())?
        }
    };
    let bytes = u64::try_from(call(contracts, jobs, 0).data.len()).ok()?;
    let all = work.checked_add(bytes.checked_mul(GAS_PER_BYTE_MAX)?)?;
    (all <= GAS_MAX).then_some(all)
}

/// Lower bound of the gas limit of any transaction, without gas for data.
pub const GAS_MIN: u64 = 190_000;

/// Returns a lower bound of the gas limit of a transaction whose call needs this gas, without gas for data.
///
/// If no signer can pay for this, the job is rejected without a check.
pub fn gas_min(call: u64) -> u64 {
    BASE_GAS.saturating_add(call)
}

/// The gas that a job adds to a shared transaction.
pub fn gas_share(job: &Job) -> u64 {
    let most = job.work().gas();
    most.saturating_add(most / 63).saturating_add(SHARED_JOB_DATA_GAS_MAX)
}

/// Number of bytes in one priced unit of data.
pub const KILOBYTE_BYTES: usize = 1_000;

/// Bytes of data that a job adds to a transaction, in [`KILOBYTE_BYTES`]s, rounded up.
pub fn data_kilobytes(job: &Job) -> u64 {
    let work = job.work();
    let deployment = work.deployment().map_or(0, |deployment| deployment.data.len());
    // `SHARED_JOB_BYTES_MAX` has room for the signature of a private key.
    let longer = work.extra_bytes().saturating_add(deployment);
    let units = SHARED_JOB_BYTES_MAX.saturating_add(longer).div_ceil(KILOBYTE_BYTES);
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Returns the call that one of our accounts makes for a single job, without its deployment.
///
/// It is the job's own call, or the call of the contract that makes the job's call.
pub fn sent_call(contracts: &Contracts, work: &dyn Work) -> ContractCall {
    let own = work.call(contracts);
    match work.sender() {
        SenderRule::ThroughContract(through) => contract::settle_one(through, own),
        SenderRule::Any | SenderRule::FirstSigner | SenderRule::Only(_) => own,
    }
}

/// Returns the call of the transaction.
///
/// For one job it is [`sent_call`]. For several jobs it is a call of Multicall3, or of the contract that makes their
/// calls. A wallet is also deployed through Multicall3: the payer chooses that call, so our accounts must not make it
/// directly.
pub fn call(contracts: &Contracts, jobs: &[&Job], gas_limit: u64) -> Call {
    let own = |job: &Job| job.work().call(contracts);
    let ContractCall { to, data } = match jobs {
        [only] => match only.work().deployment() {
            None => sent_call(contracts, only.work()),
            Some(deployment) => {
                let deploys =
                    ContractCall { to: deployment.factory, data: deployment.data.clone() };
                // The deployment may fail, because the wallet may already be deployed. The job must succeed.
                multicall(contracts, [(deploys, true), (own(only), false)])
            }
        },
        several => match several.first().map(|first| first.work().sender()) {
            Some(SenderRule::ThroughContract(through)) => {
                let each = several.iter().map(|job| (job.work().gas(), own(job)));
                contract::settle_many(through, each)
            }
            _any => multicall(contracts, several.iter().map(|job| (own(job), true))),
        },
    };
    Call { to, value: U256::ZERO, data, gas_limit }
}

/// Whether a contract makes the calls of these jobs. All of them have the same sender rule.
fn is_through_a_contract(jobs: &[&Job]) -> bool {
    jobs.first()
        .is_some_and(|first| matches!(first.work().sender(), SenderRule::ThroughContract(_)))
}

fn multicall(
    contracts: &Contracts,
    calls: impl IntoIterator<Item = (ContractCall, bool)>,
) -> ContractCall {
    let each = calls.into_iter().map(|(call, may_fail)| IMulticall3::Call3 {
        target: call.to,
        allowFailure: may_fail,
        callData: call.data,
    });
    let data = IMulticall3::aggregate3Call { calls: each.collect() }.abi_encode();
    ContractCall { to: contracts.multicall3, data: Bytes::from(data) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::contracts;
    use crate::payment::{Deployment, MethodId, Payment, Terms};
    use alloy_primitives::B256;
    use bursar_core::networks::{ChainId, MULTICALL3};

    const CAP: u64 = 600_000;

    fn job(method: MethodId, signature: usize) -> Job {
        payment(method, signature).into()
    }

    fn payment(method: MethodId, signature: usize) -> Payment {
        let terms = Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(1),
            nonce: B256::ZERO,
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            facilitator: Some(Address::repeat_byte(5)),
        };
        Payment {
            chain: ChainId(8453),
            method,
            terms,
            amount: U256::from(1),
            digest: B256::ZERO,
            signature: vec![0xff; signature].into(),
            deployment: None,
            is_contract_payer: signature != 65,
            sponsoring: None,
        }
    }

    #[test]
    fn data_is_counted_in_kilobytes_rounded_up() {
        let of = |signature| data_kilobytes(&job(MethodId::Eip3009, signature));
        assert_eq!((of(65), of(265), of(266)), (1, 1, 2));
        assert_eq!(of(8_192), 9);
        let deployment = Deployment { factory: Address::ZERO, data: vec![0xff; 2_000].into() };
        let deployment = Some(deployment);
        let deployed = Job::from(Payment { deployment, ..payment(MethodId::Permit2, 65) });
        assert_eq!(data_kilobytes(&deployed), 3);
        // The estimate is at least the size of the transaction's data without the envelope.
        for (method, signature) in [
            (MethodId::Eip3009, 65),
            (MethodId::Permit2, 65),
            (MethodId::Prism, 65),
            (MethodId::UptoPermit2, 65),
            (MethodId::UptoPermit2ByContract, 65),
            (MethodId::Permit2, 8_192),
        ] {
            let one = job(method, signature);
            let shared = call(&contracts(), &[&one, &one], 0).data.len();
            let alone = call(&contracts(), &[&one], 0).data.len();
            let most = KILOBYTE_BYTES * usize::try_from(data_kilobytes(&one)).unwrap();
            assert!(alone <= most && shared <= 2 * most, "{method:?}: {alone}, {shared}, {most}");
        }
    }

    fn gas_of(jobs: &[&Job]) -> Option<u64> {
        gas(&contracts(), jobs, CAP)
    }

    #[test]
    fn gas_limit_covers_the_bytes_of_a_long_signature() {
        let long = job(MethodId::Eip3009, 8_192);
        // The least gas that nodes require for a transaction with this many non-zero bytes (EIP-7623).
        let floor = 21_000 + 40 * 8_192;
        assert!(gas_of(&[&long]).unwrap() >= CAP + floor);
    }

    #[test]
    fn transactions_above_the_gas_limit_are_not_composed() {
        let many: Vec<Job> = (0..100).map(|_one| job(MethodId::Permit2, 65)).collect();
        let all: Vec<&Job> = many.iter().collect();
        assert_eq!(gas_of(&all), None);
        assert!(gas_of(all.get(..40).unwrap()).unwrap() <= GAS_MAX);
        let one = job(MethodId::Eip3009, 100);
        assert_eq!(gas(&contracts(), &[&one], GAS_MAX), None);
    }

    #[test]
    fn sum_of_gas_shares_covers_the_batch_gas_limit() {
        for method in [MethodId::Eip3009, MethodId::UptoPermit2ByContract] {
            let some: Vec<Job> = (0..30).map(|_one| job(method, 65)).collect();
            let all: Vec<&Job> = some.iter().collect();
            let sum: u64 = all.iter().map(|job| gas_share(job)).sum();
            assert!(sum + 2 * BASE_GAS >= gas_of(&all).unwrap(), "{method:?}");
            let limits: u64 = all.iter().map(|job| job.work().gas()).sum();
            assert!(gas_of(&all).unwrap() > limits + limits / 64, "{method:?}");
        }
    }

    #[test]
    fn only_key_payers_with_known_tokens_share_a_transaction() {
        let known = |token| token == Address::repeat_byte(1);
        let plain = payment(MethodId::Eip3009, 65);
        assert!(can_share(&plain.clone().into(), known));
        assert!(!can_share(&plain.clone().into(), |_token| false));
        assert!(!can_share(&job(MethodId::Eip3009, 66), known));
        for bound in [MethodId::Prism, MethodId::UptoPermit2] {
            assert!(!can_share(&job(bound, 65), known), "{bound:?}");
        }
        let deployment = Some(Deployment { factory: Address::ZERO, data: Bytes::new() });
        assert!(!can_share(&Payment { deployment, ..plain }.into(), known));
    }

    #[test]
    fn payments_of_one_contract_share_a_transaction_through_it() {
        let known = |token| token == Address::repeat_byte(1);
        let one = job(MethodId::UptoPermit2ByContract, 65);
        assert!(can_share(&one, known) && !can_share(&one, |_token| false));
        let through = Address::repeat_byte(5);
        let own = one.work().call(&contracts());
        assert_eq!(own.to, contracts().upto_permit2_proxy);
        for count in [1, 2] {
            let call = call(&contracts(), &vec![&one; count], 0);
            assert_eq!(call.to, through);
            let calls = contract::settlements(contracts().upto_permit2_proxy, &call.data);
            assert_eq!(calls, vec![own.clone(); count]);
        }
        let by_account = job(MethodId::UptoPermit2, 65);
        assert_eq!(call(&contracts(), &[&by_account], 0).to, contracts().upto_permit2_proxy);
        assert!(gas_of(&[&one]) > gas_of(&[&by_account]));
    }

    #[test]
    fn wallet_is_deployed_through_multicall3_and_the_transfer_must_succeed() {
        let factory = Address::repeat_byte(4);
        let deployment = Some(Deployment { factory, data: Bytes::from_static(&[1, 2]) });
        let made = Job::from(Payment { deployment, ..payment(MethodId::Eip3009, 65) });
        let call = call(&contracts(), &[&made], 1);
        assert_eq!(call.to, MULTICALL3);
        let calls = IMulticall3::aggregate3Call::abi_decode_validate(&call.data).unwrap().calls;
        let each: Vec<_> = calls.iter().map(|call| (call.target, call.allowFailure)).collect();
        assert_eq!(each, [(factory, true), (Address::repeat_byte(1), false)]);
    }
}
