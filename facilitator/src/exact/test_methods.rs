//! Tests of each method: the terms that it reads, its hashes, and the reasons that it reports. The hashes are composed
//! from the standards.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_x402::settlement::SettlementRequest;
use serde_json::{Value, json};

use super::METHODS;
use crate::contracts::contracts;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::signature::SIGNATURE_BYTES_MAX;
use crate::transfer::domain::SigningDomain;
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::payload::ReadError;
use crate::transfer::registry::method;
use crate::transfer::terms_check::Purpose;
use crate::work::SenderRule;

const TOKEN: Address = Address::repeat_byte(1);
const PAYER: Address = Address::repeat_byte(2);
const PAYEE: Address = Address::repeat_byte(3);

fn terms() -> Terms {
    Terms {
        token: TOKEN,
        payer: PAYER,
        payee: PAYEE,
        authorized_amount: U256::from(700),
        nonce: B256::from(U256::from(0x1_02)),
        valid_after: U256::from(5),
        valid_before: U256::from(6),
        facilitator: None,
    }
}

/// A payment with these terms, which moves the whole amount.
fn payment(id: MethodId) -> Payment {
    Payment {
        chain: ChainId(8453),
        method: id,
        terms: terms(),
        amount: terms().authorized_amount,
        digest: B256::ZERO,
        signature: Bytes::new(),
        deployment: None,
        is_contract_payer: false,
        sponsoring: None,
    }
}

fn payload(id: MethodId) -> Value {
    let (amount, times) = ("700", ("5", "6"));
    match id {
        MethodId::Eip3009 => json!({"authorization": {
            "from": PAYER, "to": PAYEE, "value": amount, "validAfter": times.0,
            "validBefore": times.1, "nonce": terms().nonce,
        }}),
        MethodId::Prism => json!({"authorization": {
            "from": PAYER, "to": PAYEE, "value": amount, "validAfter": times.0,
            "validBefore": times.1, "nonce": "258",
        }}),
        MethodId::Permit2 | MethodId::UptoPermit2 | MethodId::UptoPermit2ByContract => {
            json!({"permit2Authorization": {
                "from": PAYER, "spender": contracts().exact_permit2_proxy, "nonce": "258",
                "deadline": times.1, "permitted": {"token": TOKEN, "amount": amount},
                "witness": {"to": PAYEE, "validAfter": times.0},
            }})
        }
    }
}

fn request(payload: &Value) -> SettlementRequest {
    let body = json!({
        "x402Version": 2,
        "paymentPayload": {"x402Version": 2, "payload": payload,
            "accepted": {"scheme": "exact", "network": "eip155:8453"}},
        "paymentRequirements": {"scheme": "exact", "network": "eip155:8453", "asset": TOKEN,
            "payTo": PAYEE, "amount": "700", "extra": {}},
    });
    let body = bursar_core::json::parse(body.to_string().as_bytes(), 16).unwrap();
    SettlementRequest::parse(&body).unwrap()
}

fn read(id: MethodId, payload: &Value) -> Result<Terms, Reason> {
    let request = request(payload);
    match method(id).parse_terms(&contracts(), &request.payload, &request.requirements) {
        Ok(terms) => {
            let required = request.requirements.amount;
            let moved = [Purpose::Verify, Purpose::Settle]
                .map(|purpose| method(id).moved_amount(&terms, required, purpose));
            assert_eq!(moved[0], moved[1], "the same to verify and to settle");
            moved[0].map(|_amount| terms)
        }
        Err(ReadError::Rejected(rejection)) => {
            assert_eq!(rejection.payer, Some(PAYER));
            Err(rejection.reason)
        }
        Err(ReadError::Malformed(fault)) => panic!("{fault}"),
    }
}

/// A payload with one value replaced.
fn payload_with(id: MethodId, at: &str, value: Value) -> Value {
    let mut payload = payload(id);
    *payload.pointer_mut(at).unwrap() = value;
    payload
}

#[test]
fn signed_terms_are_read_and_compared_with_the_requirements() {
    for id in [MethodId::Eip3009, MethodId::Permit2, MethodId::Prism] {
        assert_eq!(read(id, &payload(id)), Ok(terms()), "{id:?}");
    }
    let other = || json!(Address::repeat_byte(9));
    for id in [MethodId::Eip3009, MethodId::Prism] {
        let at =
            |at: &str, value| read(id, &payload_with(id, &format!("/authorization/{at}"), value));
        assert_eq!(at("to", other()), Err(Reason::Recipient));
        assert_eq!(at("value", json!("699")), Err(Reason::TooLittle));
        assert_eq!(at("value", json!("701")), Err(Reason::TooMuch));
    }
    let id = MethodId::Permit2;
    let at = |at: &str, value| {
        read(id, &payload_with(id, &format!("/permit2Authorization/{at}"), value))
    };
    assert_eq!(at("spender", other()), Err(Reason::Permit2Spender));
    assert_eq!(at("witness/to", other()), Err(Reason::Permit2Recipient));
    assert_eq!(at("permitted/token", other()), Err(Reason::Permit2Token));
    assert_eq!(at("permitted/amount", json!("701")), Err(Reason::Permit2Amount));
    assert!(at("permitted/amount", json!("699")).is_err());
}

#[test]
fn each_payload_matches_exactly_one_method() {
    for id in [MethodId::Eip3009, MethodId::Permit2, MethodId::Prism] {
        let request = request(&payload(id));
        let matches =
            METHODS.iter().find(|known| known.matches(&request.payload, &request.requirements));
        assert_eq!(matches.map(|known| known.id()), Some(id));
        let count =
            METHODS.iter().filter(|known| known.matches(&request.payload, &request.requirements));
        assert_eq!(count.count(), 1, "{id:?}");
    }
}

#[test]
fn struct_hashes_and_domains_match_the_standards() {
    let hash = |words: &[B256]| keccak256(words.concat());
    let number = |number: U256| B256::from(number);
    let terms = terms();
    let chain = number(U256::from(8453));
    let of = |id: MethodId| method(id).struct_hash(&contracts(), &terms);
    let times = [number(terms.valid_after), number(terms.valid_before)];
    let kind = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,\
                uint256 validBefore,bytes32 nonce)";
    let parties = [PAYER.into_word(), PAYEE.into_word(), number(terms.authorized_amount)];
    let words = [keccak256(kind), parties[0], parties[1], parties[2], times[0], times[1]];
    assert_eq!(of(MethodId::Eip3009), hash(&[&words[..], &[terms.nonce]].concat()));
    assert_eq!(method(MethodId::Eip3009).domain(&contracts()), SigningDomain::Token);

    let kind = "ERC20Payment(address token,address from,address to,uint256 value,uint256 nonce,\
                uint256 validAfter,uint256 validBefore)";
    let words = [keccak256(kind), TOKEN.into_word(), parties[0], parties[1], parties[2]];
    let expected = hash(&[&words[..], &[terms.nonce], &times].concat());
    assert_eq!(of(MethodId::Prism), expected);
    let kind = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
    let domain = [keccak256(kind), keccak256("Primer"), keccak256("1"), chain];
    let domain = hash(&[&domain[..], &[contracts().prism.into_word()]].concat());
    assert_eq!(method(MethodId::Prism).domain(&contracts()), SigningDomain::Known(domain));

    let permitted = "TokenPermissions(address token,uint256 amount)";
    let witness = "Witness(address to,uint256 validAfter)";
    let kind = format!(
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,\
         uint256 deadline,Witness witness){permitted}{witness}"
    );
    let permitted =
        hash(&[keccak256(permitted), TOKEN.into_word(), number(terms.authorized_amount)]);
    let witness = hash(&[keccak256(witness), PAYEE.into_word(), times[0]]);
    let spender = contracts().exact_permit2_proxy.into_word();
    let expected = hash(&[keccak256(kind), permitted, spender, terms.nonce, times[1], witness]);
    assert_eq!(of(MethodId::Permit2), expected);
    let kind = "EIP712Domain(string name,uint256 chainId,address verifyingContract)";
    let domain = [keccak256(kind), keccak256("Permit2"), chain, contracts().permit2.into_word()];
    assert_eq!(method(MethodId::Permit2).domain(&contracts()), SigningDomain::Known(hash(&domain)));
}

/// The reason of a failed transfer, by the payer's balance and the method's facts.
fn diagnosed_reason(id: MethodId, balance: Option<u64>, facts: &[Option<u64>]) -> Reason {
    let revert = Bytes::new();
    let word = |fact: &Option<u64>| fact.map(|fact| Bytes::from(B256::from(U256::from(fact))));
    let facts: Vec<_> = facts.iter().map(word).collect();
    let evidence =
        NodeEvidence { balance: balance.map(U256::from), facts: &facts, revert: &revert };
    method(id).diagnose(&payment(id), &evidence)
}

#[test]
fn failure_reason_follows_from_the_facts_read() {
    let of = |balance, used| diagnosed_reason(MethodId::Eip3009, balance, &[used]);
    assert_eq!(of(Some(700), None), Reason::NotEip3009);
    assert_eq!(of(Some(700), Some(1)), Reason::NonceUsed);
    assert_eq!(of(Some(699), Some(0)), Reason::InsufficientBalance);
    assert_eq!(of(Some(699), Some(1)), Reason::NonceUsed);
    assert_eq!(of(Some(700), Some(0)), Reason::Simulation);
    assert_eq!(of(None, Some(0)), Reason::Simulation);

    // The nonce is bit 2 of its word.
    let of = |balance, bitmap, allowed| {
        diagnosed_reason(MethodId::Permit2, balance, &[bitmap, allowed, Some(1)])
    };
    let rich = Some(u64::MAX);
    assert_eq!(of(Some(700), Some(0b100), rich), Reason::Permit2Nonce);
    assert_eq!(of(Some(700), Some(0b011), rich), Reason::Permit2Simulation);
    assert_eq!(of(Some(699), Some(0), rich), Reason::InsufficientBalance);
    assert_eq!(of(Some(700), Some(0), Some(699)), Reason::Permit2Allowance);
    assert_eq!(of(Some(700), Some(0), Some(0)), Reason::Permit2Allowance);
    assert_eq!(of(Some(700), Some(0), Some(700)), Reason::Permit2Simulation);
    assert_eq!(of(Some(700), Some(0), Some(701)), Reason::Permit2Simulation);
    assert_eq!(of(Some(700), None, rich), Reason::Permit2Proxy);
    assert_eq!(of(Some(700), Some(0), None), Reason::Permit2Simulation);

    // The nonce is 258.
    let of = |balance, next, allowed| {
        diagnosed_reason(MethodId::Prism, balance, &[next, allowed, Some(30)])
    };
    assert_eq!(of(Some(700), Some(259), rich), Reason::NonceUsed);
    assert_eq!(of(Some(700), Some(257), rich), Reason::PrismNonce);
    assert_eq!(of(Some(699), Some(258), rich), Reason::InsufficientBalance);
    assert_eq!(of(Some(700), Some(258), Some(699)), Reason::PrismAllowance);
    assert_eq!(of(Some(700), Some(258), Some(700)), Reason::PrismUnavailable);
    assert_eq!(of(Some(700), Some(258), Some(701)), Reason::PrismUnavailable);
    assert_eq!(of(Some(700), Some(258), None), Reason::PrismUnavailable);
}

#[test]
fn missing_contracts_are_reported_and_fees_are_deducted() {
    let revert = Bytes::new();
    let number = |n: u64| Some(Bytes::from(B256::from(U256::from(n))));
    let missing_contract = |id: MethodId, facts: &[Option<Bytes>]| {
        method(id).missing_contract(&NodeEvidence { balance: None, facts, revert: &revert })
    };
    let all = [number(0), number(0), number(30)];
    for id in [MethodId::Eip3009, MethodId::Permit2, MethodId::Prism] {
        assert_eq!(missing_contract(id, &all), None);
    }
    assert_eq!(missing_contract(MethodId::Eip3009, &[None]), None);
    let no_proxy = [number(0), number(0), None];
    assert_eq!(missing_contract(MethodId::Permit2, &no_proxy), Some(Reason::Permit2Proxy));
    let no_prism = [None, number(0), number(30)];
    assert_eq!(missing_contract(MethodId::Prism, &no_prism), Some(Reason::PrismUnavailable));
    // A number has 32 bytes; data of any other length is not a number.
    let odd = [Some(Bytes::from_static(&[1])), number(0), number(30)];
    assert_eq!(missing_contract(MethodId::Prism, &odd), Some(Reason::PrismUnavailable));

    let amount_received = |id: MethodId, facts: &[Option<Bytes>]| {
        method(id)
            .amount_received(&payment(id), &NodeEvidence { balance: None, facts, revert: &revert })
    };
    assert_eq!(amount_received(MethodId::Eip3009, &all), U256::from(700));
    assert_eq!(amount_received(MethodId::Permit2, &all), U256::from(700));
    // 30 hundredths of a percent of 700 are 2, rounded down.
    assert_eq!(amount_received(MethodId::Prism, &all), U256::from(698));
    assert_eq!(amount_received(MethodId::Prism, &[number(0), number(0), None]), U256::from(700));
}

#[test]
fn each_method_states_its_payers_senders_and_settlement_event() {
    let of = |id: MethodId| {
        let method = method(id);
        (
            method.allows_contract_payers(),
            method.sender(&terms()) == SenderRule::Any,
            method.settlement_event(&contracts(), &terms()),
        )
    };
    let (contract_payers, any_sender, event) = of(MethodId::Eip3009);
    assert!(contract_payers && any_sender && event.is_rare && event.contract == TOKEN);
    assert_eq!(event.indexed, [PAYER.into_word(), terms().nonce]);
    let (contract_payers, any_sender, event) = of(MethodId::Permit2);
    assert!(contract_payers && any_sender && !event.is_rare && event.contract == TOKEN);
    assert_eq!(event.indexed, [PAYER.into_word(), PAYEE.into_word()]);
    let (contract_payers, any_sender, event) = of(MethodId::Prism);
    assert!(
        !contract_payers && !any_sender && event.is_rare && event.contract == contracts().prism
    );
    assert_eq!(event.indexed, [TOKEN, PAYER, PAYEE].map(|party| party.into_word()));
    assert_eq!(SIGNATURE_BYTES_MAX, 8_192);
}
