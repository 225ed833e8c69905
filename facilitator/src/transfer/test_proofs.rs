//! Tests of the proof of a settlement: the events and the call data of exactly this payment.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::Log;
use bursar_core::networks::{ChainId, MULTICALL3};
use bursar_x402::sponsoring::Eip2612Permit;

use crate::contract_call::ContractCall;
use crate::contracts::contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{MethodId, Payment, Sponsoring, Terms};
use crate::transfer::registry::method;
use crate::upto::contract;

const TOKEN: Address = Address::repeat_byte(0x11);
const PAYER: Address = Address::repeat_byte(0x22);
const PAYEE: Address = Address::repeat_byte(0x33);
const STRANGER: Address = Address::repeat_byte(0x44);

fn terms(nonce: u8) -> Terms {
    Terms {
        token: TOKEN,
        payer: PAYER,
        payee: PAYEE,
        authorized_amount: U256::from(700),
        nonce: B256::repeat_byte(nonce),
        valid_after: U256::from(1),
        valid_before: U256::from(2_000_000_000),
        facilitator: None,
    }
}

fn payment_of(id: MethodId, terms: &Terms) -> Payment {
    Payment {
        chain: ChainId(8453),
        method: id,
        terms: terms.clone(),
        amount: terms.authorized_amount,
        digest: B256::ZERO,
        signature: vec![0x1b; 65].into(),
        deployment: None,
        is_contract_payer: false,
        sponsoring: None,
    }
}

/// The payment's call with an EIP-2612 permit of the token.
fn call_with_permit(terms: &Terms) -> ContractCall {
    let permit = Eip2612Permit {
        value: terms.authorized_amount,
        deadline: terms.valid_before,
        v: 27,
        r: B256::repeat_byte(1),
        s: B256::repeat_byte(2),
    };
    let sponsoring = Some(Sponsoring::Permit(permit));
    let payment = Payment { sponsoring, ..payment_of(MethodId::Permit2, terms) };
    method(MethodId::Permit2).transfer(&contracts(), &payment)
}

fn call_of(id: MethodId, terms: &Terms) -> ContractCall {
    method(id).transfer(&contracts(), &payment_of(id, terms))
}

fn multicall_of(calls: &[ContractCall]) -> ContractCall {
    let calls = calls.iter().map(|call| IMulticall3::Call3 {
        target: call.to,
        allowFailure: true,
        callData: call.data.clone(),
    });
    let data = IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode();
    ContractCall { to: MULTICALL3, data: data.into() }
}

fn topic(signature: &str) -> B256 {
    keccak256(signature)
}

fn transfer_log(token: Address, to: Address, amount: u64) -> Log {
    Log {
        address: token,
        topics: vec![topic("Transfer(address,address,uint256)"), PAYER.into_word(), to.into_word()],
        data: U256::from(amount).to_be_bytes::<32>().into(),
    }
}

fn nonce_used_log(nonce: u8) -> Log {
    let topics = vec![
        topic("AuthorizationUsed(address,bytes32)"),
        PAYER.into_word(),
        B256::repeat_byte(nonce),
    ];
    Log { address: TOKEN, topics, data: Bytes::new() }
}

fn settled_log() -> Log {
    Log {
        address: contracts().exact_permit2_proxy,
        topics: vec![topic("Settled()")],
        data: Bytes::new(),
    }
}

fn prism_log(nonce: u8, fee: u64) -> Log {
    let words = [
        U256::from(700).to_be_bytes::<32>(),
        B256::repeat_byte(nonce).0,
        U256::from(fee).to_be_bytes::<32>(),
        [0; 32],
        [0; 32],
    ];
    let event =
        topic("ERC20Settlement(address,address,address,uint256,uint256,uint256,uint256,address)");
    Log {
        address: contracts().prism,
        topics: vec![event, TOKEN.into_word(), PAYER.into_word(), PAYEE.into_word()],
        data: words.concat().into(),
    }
}

fn proves(
    id: MethodId,
    terms: &Terms,
    call: &ContractCall,
    logs: &[Log],
    sent_by_us: bool,
) -> bool {
    let mined = MinedTransaction { sent_by_us, to: Some(call.to), input: &call.data, logs };
    method(id).is_proven(&contracts(), &payment_of(id, terms), &mined)
}

#[test]
fn authorization_is_proven_by_its_nonce_in_events_and_call_data() {
    let id = MethodId::Eip3009;
    let (own, other) = (call_of(id, &terms(1)), call_of(id, &terms(2)));
    let logs = [nonce_used_log(1), transfer_log(TOKEN, PAYEE, 700)];
    assert!(proves(id, &terms(1), &own, &logs, false));
    assert!(
        !proves(id, &terms(1), &own, &[nonce_used_log(2), transfer_log(TOKEN, PAYEE, 700)], false),
        "event"
    );
    assert!(!proves(id, &terms(1), &other, &logs, false), "call data");
    assert!(!proves(id, &terms(1), &own, &[transfer_log(TOKEN, PAYEE, 700)], false), "no use");
    assert!(!proves(
        id,
        &terms(1),
        &own,
        &[nonce_used_log(1), transfer_log(TOKEN, PAYEE, 699)],
        false
    ));
    // An `AuthorizationUsed` event of another contract does not count.
    let foreign = Log { address: STRANGER, ..nonce_used_log(1) };
    assert!(!proves(id, &terms(1), &own, &[foreign, transfer_log(TOKEN, PAYEE, 700)], false));
    // The transfer may come first only if the transaction uses a single authorization.
    let both = [transfer_log(TOKEN, PAYEE, 700), nonce_used_log(1)];
    assert!(proves(id, &terms(1), &own, &both, false));
    let two = [nonce_used_log(2), transfer_log(TOKEN, PAYEE, 700), nonce_used_log(1)];
    assert!(!proves(id, &terms(1), &own, &two, false), "it is the movement of the use before");
    let two = [transfer_log(TOKEN, PAYEE, 700), nonce_used_log(1), nonce_used_log(2)];
    assert!(!proves(id, &terms(1), &own, &two, false), "the transfer may belong to either use");
    // The nonce was used for another payee, and this payee got the amount for another reason.
    let two =
        [nonce_used_log(1), transfer_log(TOKEN, STRANGER, 500), transfer_log(TOKEN, PAYEE, 700)];
    assert!(!proves(id, &terms(1), &own, &two, false), "the first transfer is that of the nonce");
    // Any relay contract may have submitted the payment.
    let mut relayed = own.clone();
    relayed.to = STRANGER;
    relayed.data = [&[0xab; 37][..], &own.data].concat().into();
    assert!(proves(id, &terms(1), &relayed, &logs, false));
    for term in 0..5 {
        let mut changed = terms(1);
        match term {
            0 => changed.payee = STRANGER,
            1 => changed.authorized_amount += U256::from(1),
            2 => changed.valid_after += U256::from(1),
            3 => changed.valid_before += U256::from(1),
            _payer => changed.payer = STRANGER,
        }
        assert!(!proves(id, &terms(1), &call_of(id, &changed), &logs, false), "{term}");
    }
}

#[test]
fn only_the_used_one_of_two_equal_authorizations_in_a_batch_is_proven() {
    let id = MethodId::Eip3009;
    let both = multicall_of(&[call_of(id, &terms(1)), call_of(id, &terms(2))]);
    let logs = [nonce_used_log(2), transfer_log(TOKEN, PAYEE, 700)];
    assert!(!proves(id, &terms(1), &both, &logs, true));
    assert!(proves(id, &terms(2), &both, &logs, true));
}

#[test]
fn prism_settlement_is_proven_by_its_nonce_and_the_amount_received() {
    let id = MethodId::Prism;
    let (own, other) = (call_of(id, &terms(1)), call_of(id, &terms(2)));
    let logs = [transfer_log(TOKEN, PAYEE, 690), prism_log(1, 10)];
    assert!(proves(id, &terms(1), &own, &logs, false));
    assert!(!proves(
        id,
        &terms(1),
        &own,
        &[transfer_log(TOKEN, PAYEE, 690), prism_log(2, 10)],
        false
    ));
    assert!(!proves(id, &terms(1), &other, &logs, false));
    assert!(!proves(id, &terms(1), &own, &[prism_log(1, 10)], false), "nothing arrived");
    assert!(!proves(
        id,
        &terms(1),
        &own,
        &[transfer_log(TOKEN, PAYEE, 700), prism_log(1, 10)],
        false
    ));
    let elsewhere = Log { address: STRANGER, ..prism_log(1, 10) };
    assert!(!proves(id, &terms(1), &own, &[transfer_log(TOKEN, PAYEE, 690), elsewhere], false));
}

#[test]
fn foreign_permit_is_proven_only_if_every_proxy_call_succeeded() {
    let id = MethodId::Permit2;
    let (own, other) = (call_of(id, &terms(1)), call_of(id, &terms(2)));
    let logs = [transfer_log(TOKEN, PAYEE, 700), settled_log()];
    assert!(proves(id, &terms(1), &own, &logs, false));
    // A transfer of the same amount between the same accounts proves nothing if another permit made it, or no permit.
    assert!(!proves(id, &terms(1), &other, &logs, false));
    let transfer = ContractCall { to: TOKEN, data: Bytes::from_static(&[0xa9, 5, 0x9c, 0xbb]) };
    assert!(!proves(id, &terms(1), &transfer, &[transfer_log(TOKEN, PAYEE, 700)], false));
    assert!(!proves(id, &terms(1), &own, &[transfer_log(TOKEN, PAYEE, 700)], false), "no event");
    assert!(!proves(id, &terms(1), &own, &[settled_log()], false), "no movement");
    let elsewhere = Log { address: STRANGER, ..settled_log() };
    assert!(!proves(id, &terms(1), &own, &[transfer_log(TOKEN, PAYEE, 700), elsewhere], false));
    // If one of two equal permits failed, the events do not show which one.
    let both = multicall_of(&[own.clone(), other.clone()]);
    assert!(!proves(id, &terms(1), &both, &logs, false));
    let twice = [&logs[..], &logs[..]].concat();
    assert!(proves(id, &terms(1), &both, &twice, false));
    // The permit fails in a transaction that also transfers its amount and runs foreign code, which calls the proxy.
    let mixed =
        multicall_of(&[own.clone(), transfer, ContractCall { to: STRANGER, data: Bytes::new() }]);
    assert!(!proves(id, &terms(1), &mixed, &logs, false));
    // The permit is in data that is never executed.
    let junk = ContractCall { to: STRANGER, data: own.data.clone() };
    assert!(!proves(id, &terms(1), &junk, &logs, false));
    for term in 0..6 {
        let mut changed = terms(1);
        match term {
            0 => changed.payee = STRANGER,
            1 => changed.authorized_amount += U256::from(1),
            2 => changed.valid_after += U256::from(1),
            3 => changed.valid_before += U256::from(1),
            4 => changed.token = STRANGER,
            _payer => changed.payer = STRANGER,
        }
        assert!(!proves(id, &terms(1), &call_of(id, &changed), &logs, false), "{term}");
    }
}

#[test]
fn payment_with_a_token_permit_is_proven_like_one_without() {
    let call = call_with_permit(&terms(1));
    assert_eq!(call.data.get(..4), Some(&[0xfa, 0x34, 0x03, 0x78][..]));
    let reported = Log { topics: vec![topic("SettledWithPermit()")], ..settled_log() };
    let logs = [transfer_log(TOKEN, PAYEE, 700), reported];
    for sent_by_us in [true, false] {
        // The proof does not depend on whether the mined call, or our payment, includes an EIP-2612 permit.
        for mined in [&call, &call_of(MethodId::Permit2, &terms(1))] {
            assert!(proves(MethodId::Permit2, &terms(1), mined, &logs, sent_by_us));
            assert!(!proves(MethodId::Permit2, &terms(2), mined, &logs, sent_by_us));
        }
    }
}

#[test]
fn permit_in_our_batch_is_proven_by_a_transfer_before_the_proxy_event() {
    let id = MethodId::Permit2;
    let more = Terms { authorized_amount: U256::from(900), ..terms(2) };
    let batch = multicall_of(&[call_of(id, &terms(1)), call_of(id, &more)]);
    let one = [transfer_log(TOKEN, PAYEE, 900), settled_log()];
    assert!(!proves(id, &terms(1), &batch, &one, true));
    assert!(proves(id, &more, &batch, &one, true));
    // The transfer of an authorization with the same amount proves no permit.
    let mixed = [
        nonce_used_log(5),
        transfer_log(TOKEN, PAYEE, 700),
        transfer_log(TOKEN, PAYEE, 900),
        settled_log(),
    ];
    assert!(!proves(id, &terms(1), &batch, &mixed, true));
    assert!(proves(id, &more, &batch, &mixed, true));
    let both = [
        transfer_log(TOKEN, PAYEE, 700),
        settled_log(),
        transfer_log(TOKEN, PAYEE, 900),
        settled_log(),
    ];
    assert!(proves(id, &terms(1), &batch, &both, true) && proves(id, &more, &batch, &both, true));
}

/// Returns a payment of at most 900 that moves 700. Its payer named this contract.
fn through_contract(nonce: u8, contract: Address) -> Payment {
    let terms =
        Terms { facilitator: Some(contract), authorized_amount: U256::from(900), ..terms(nonce) };
    Payment { amount: U256::from(700), ..payment_of(MethodId::UptoPermit2ByContract, &terms) }
}

fn proves_upto(payment: &Payment, call: &ContractCall, logs: &[Log]) -> bool {
    let mined = MinedTransaction { sent_by_us: true, to: Some(call.to), input: &call.data, logs };
    method(payment.method).is_proven(&contracts(), payment, &mined)
}

#[test]
fn payment_through_a_contract_is_proven_by_its_own_transfer_in_a_call_of_that_contract() {
    let ours = Address::repeat_byte(0x55);
    let proxy_settled = Log { address: contracts().upto_permit2_proxy, ..settled_log() };
    let logs = [transfer_log(TOKEN, PAYEE, 700), proxy_settled.clone()];
    let one = through_contract(1, ours);
    let call = |payment: &Payment| method(payment.method).transfer(&contracts(), payment);
    let alone = contract::settle_one(ours, call(&one));
    assert!(proves_upto(&one, &alone, &logs));
    assert!(!proves_upto(&one, &alone, &logs[..1]), "no event of the proxy");
    assert!(!proves_upto(&one, &alone, &logs[1..]), "no transfer");
    assert!(!proves_upto(&one, &alone, &logs.clone().map(|log| Log { address: STRANGER, ..log })));
    // With several payments, the logs prove each payment whose transfer is followed by the proxy's event.
    let less = Payment { amount: U256::from(300), ..through_contract(2, ours) };
    let both = contract::settle_many(ours, [&one, &less].map(|payment| (1, call(payment))));
    assert!(proves_upto(&one, &both, &logs) && !proves_upto(&less, &both, &logs));
    let other = [transfer_log(TOKEN, PAYEE, 300), proxy_settled];
    assert!(!proves_upto(&one, &both, &other) && proves_upto(&less, &both, &other));
    let all = [&logs[..], &other[..]].concat();
    assert!(proves_upto(&one, &both, &all) && proves_upto(&less, &both, &all));
    // The logs prove no other payment, amount or contract, and no call outside the contract.
    for changed in [
        through_contract(3, ours),
        Payment { amount: U256::from(701), ..one.clone() },
        through_contract(1, STRANGER),
    ] {
        assert!(!proves_upto(&changed, &alone, &logs), "{changed:?}");
    }
    assert!(!proves_upto(&one, &ContractCall { to: STRANGER, ..alone.clone() }, &logs));
    assert!(!proves_upto(&one, &call(&one), &logs), "the proxy refuses this sender");
    assert!(!proves_upto(&one, &multicall_of(&[alone]), &logs), "the contract refuses Multicall3");
}
