//! Which payments are rejected, for which reason, and how many node calls that takes.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolValue;
use bursar_facilitator::book::reservation::GasReservation;
use bursar_facilitator::payment::Terms;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::settle::queue::DispatchLimits;
use bursar_facilitator::verify::VerifyError;
use serde_json::json;

use crate::contracts::{EIP1271_MAGIC, OTHER_TOKEN, network};
use crate::stage::{COIN, SHOP, SignedPayment, Stage, StageConfig, caller_origin, payer, signer};
use crate::withdrawals::{is_settled, reason};

/// Suffix of a signature by a wallet that is not deployed yet (EIP-6492).
const UNDEPLOYED: [u8; 32] = [
    0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
    0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
];

async fn verdict(stage: &Stage, pay: &SignedPayment) -> Option<Reason> {
    match stage.settlement.verify(&pay.request, &caller_origin(1).into()).await {
        Ok(_payer) => None,
        Err(VerifyError::Rejected(rejection)) => Some(rejection.reason),
        Err(fault) => panic!("{fault:?}"),
    }
}

fn accepting_answer() -> B256 {
    let mut word = [0; 32];
    word[..4].copy_from_slice(&EIP1271_MAGIC);
    B256::new(word)
}

fn corrupt_signature(mut signature: Vec<u8>) -> Vec<u8> {
    signature[40] ^= 1;
    signature
}

/// Returns a payment with its signature changed.
fn payment_with_changed_signature(
    stage: &Stage,
    n: u8,
    change: impl FnOnce(Vec<u8>) -> Vec<u8>,
) -> SignedPayment {
    SignedPayment::signed_with(n, stage.sign_payment(n, 700, 1).terms, change, "USD Coin")
}

#[tokio::test(start_paused = true)]
async fn the_minimum_amount_of_a_token_is_accepted_and_less_is_not() {
    let mut plan = StageConfig::default();
    plan.config.min_amount.insert(network().stablecoin.address, U256::from(700));
    let stage = Stage::with(plan).await;
    assert_eq!(verdict(&stage, &stage.sign_payment(1, 699, 1)).await, Some(Reason::BelowMinimum));
    assert_eq!(verdict(&stage, &stage.sign_payment(1, 1, 1)).await, Some(Reason::BelowMinimum));
    assert_eq!(verdict(&stage, &stage.sign_payment(1, 700, 1)).await, None);
    assert_eq!(verdict(&stage, &stage.sign_payment(1, 701, 1)).await, None);
    assert_eq!(verdict(&stage, &stage.sign_payment(1, 0, 1)).await, Some(Reason::TooLittle));
}

#[tokio::test(start_paused = true)]
async fn with_a_payee_list_only_listed_payees_are_served() {
    for (payees, expected) in [
        (vec![], None),
        (vec![SHOP], None),
        (vec![Address::repeat_byte(1)], Some(Reason::PayeeNotServed)),
    ] {
        let mut stage = Stage::with_defaults().await;
        stage.restrict_payees(payees);
        let pay = stage.sign_payment(1, 700, 1);
        assert_eq!(verdict(&stage, &pay).await, expected);
        stage.keep_mining();
        assert_eq!(reason(&stage.settle(&pay).await), expected);
    }
}

/// A plain payment takes one exchange. `/verify` asks for the payer's code once a minute, `/settle` each time.
#[tokio::test(start_paused = true)]
async fn a_payment_costs_one_exchange() {
    let mut stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    assert_eq!(verdict(&stage, &pay).await, None);
    let requests = |stage: &Stage| {
        let state = stage.world.state();
        (state.exchanges, state.code_requests)
    };
    assert_eq!(requests(&stage), (1, 1));
    assert_eq!(verdict(&stage, &pay).await, None);
    assert_eq!(requests(&stage), (2, 1), "known");
    // A wrong signature of a payer without code costs no exchange.
    let wrong = payment_with_changed_signature(&stage, 1, corrupt_signature);
    assert_eq!(verdict(&stage, &wrong).await, Some(Reason::InvalidSignature));
    assert_eq!(requests(&stage), (2, 1));
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&pay).await));
    assert_eq!(requests(&stage), (3, 2), "a settlement asks each time");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_signature_is_refused_for_its_likely_reason() {
    let stage = Stage::with_defaults().await;
    let longer = |signature: Vec<u8>| [signature, vec![0]].concat();
    assert_eq!(
        verdict(&stage, &payment_with_changed_signature(&stage, 1, corrupt_signature)).await,
        Some(Reason::InvalidSignature)
    );
    assert_eq!(
        verdict(&stage, &payment_with_changed_signature(&stage, 2, longer)).await,
        Some(Reason::Undeployed)
    );
    let terms = stage.sign_payment(3, 700, 1).terms;
    let named = SignedPayment::signed_with(3, terms, corrupt_signature, "Another Coin");
    assert_eq!(verdict(&stage, &named).await, Some(Reason::NameMismatch));
    // If the signature is valid, a wrong token name does not matter.
    let terms = stage.sign_payment(3, 700, 1).terms;
    let named = SignedPayment::signed_with(3, terms, |signature| signature, "Another Coin");
    assert_eq!(verdict(&stage, &named).await, None);
}

/// A server that requires an authorization for another contract could mistake a token transfer for one.
#[tokio::test(start_paused = true)]
async fn requirements_for_another_domain_are_refused() {
    let mut stage = Stage::with_defaults().await;
    let token = network().stablecoin.address;
    let other = Address::repeat_byte(0x77);
    for (member, expected) in [
        (json!({"verifyingContract": other}), Some(Reason::NameMismatch)),
        (json!({"verifyingContract": 7}), Some(Reason::NameMismatch)),
        (json!({"chainId": 1}), Some(Reason::NameMismatch)),
        (json!({"salt": B256::ZERO}), Some(Reason::NameMismatch)),
        (json!({"verifyingContract": token, "chainId": network().chain.0}), None),
        (json!({"verifyingContract": null}), None),
    ] {
        let mut extra = json!({"name": "USD Coin", "version": "2"});
        extra.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
        let pay = SignedPayment::signed_for(
            1,
            stage.sign_payment(1, 700, 1).terms,
            |signature| signature,
            extra,
        );
        assert_eq!(verdict(&stage, &pay).await, expected, "{member}");
        if expected.is_some() {
            assert_eq!(reason(&stage.settle(&pay).await), expected, "{member}");
        }
    }
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 1)).await));
}

/// An account may receive code (EIP-7702) and keep its key. Its payment is then simulated as a contract's, by the exact
/// transaction that would be sent.
#[tokio::test(start_paused = true)]
async fn a_key_with_code_is_tried_as_a_contract() {
    let mut stage = Stage::with_defaults().await;
    stage.world.state().smart_wallets.insert(payer(1), accepting_answer());
    let pay = stage.sign_payment(1, 700, 1);
    assert_eq!(verdict(&stage, &pay).await, None);
    let sent = (signer(1), network().stablecoin.address);
    assert!(stage.world.state().simulated_calls.contains(&sent), "as it would be sent");
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&pay).await));
    // A payment of an account without code is not simulated by the exact transaction.
    stage.world.state().simulated_calls.clear();
    assert_eq!(verdict(&stage, &stage.sign_payment(2, 700, 1)).await, None);
    assert!(!stage.world.state().simulated_calls.contains(&sent));
}

#[tokio::test(start_paused = true)]
async fn a_contract_wallet_pays_if_it_confirms_the_signature() {
    let mut stage = Stage::with_defaults().await;
    stage.keep_mining();
    stage.world.state().smart_wallets.insert(payer(1), accepting_answer());
    let pay = payment_with_changed_signature(&stage, 1, corrupt_signature);
    assert_eq!(verdict(&stage, &pay).await, None, "its code has signed");
    assert!(is_settled(&stage.settle(&pay).await));
    // Any other answer of the wallet means "not signed". The verdict then reveals nothing about the payment.
    for answer in [B256::ZERO, B256::repeat_byte(1)] {
        stage.world.state().smart_wallets.insert(payer(1), answer);
        let terms = stage.sign_payment(1, 700, 2).terms;
        let unsigned = SignedPayment::signed_with(1, terms, corrupt_signature, "USD Coin");
        assert_eq!(verdict(&stage, &unsigned).await, Some(Reason::InvalidSignature));
        let rich = Terms { authorized_amount: U256::from(u64::MAX), ..unsigned.terms.clone() };
        let poor = SignedPayment::signed_with(1, rich, corrupt_signature, "USD Coin");
        assert_eq!(verdict(&stage, &poor).await, Some(Reason::InvalidSignature));
    }
    // The missing token is public information, so this reason may be returned.
    let terms = Terms { token: Address::repeat_byte(0x44), ..stage.sign_payment(1, 700, 3).terms };
    let unsigned = SignedPayment::signed_with(1, terms, corrupt_signature, "USD Coin");
    assert_eq!(verdict(&stage, &unsigned).await, Some(Reason::NotDeployed));
}

#[tokio::test(start_paused = true)]
async fn a_wallet_is_deployed_only_by_a_factory_that_is_allowed() {
    let factory = Address::repeat_byte(0x33);
    let wrapped = |signature: Vec<u8>| {
        let parts = (factory, Bytes::from_static(&[1]), Bytes::from(signature));
        [&parts.abi_encode_params()[..], &UNDEPLOYED].concat()
    };
    for allowed in [false, true] {
        let mut plan = StageConfig::default();
        plan.config.eip6492_factories.clear();
        if allowed {
            plan.config.eip6492_factories.insert(factory);
        }
        let stage = Stage::with(plan).await;
        let pay = payment_with_changed_signature(&stage, 1, wrapped);
        let expected = (!allowed).then_some(Reason::FactoryNotAllowed);
        assert_eq!(verdict(&stage, &pay).await, expected);
        if allowed {
            // A moment later the wallet is deployed, and signs without deployment data.
            stage.world.state().smart_wallets.insert(payer(1), accepting_answer());
            assert_eq!(
                verdict(&stage, &payment_with_changed_signature(&stage, 1, corrupt_signature))
                    .await,
                None
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_simulation_result_decides_the_refusal_reason() {
    let stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    stage.world.state().multicall_uses_all_gas = true;
    assert_eq!(verdict(&stage, &pay).await, Some(Reason::Simulation));
    stage.world.state().multicall_uses_all_gas = false;
    stage.world.state().token_fee_units = 1;
    assert_eq!(verdict(&stage, &pay).await, Some(Reason::NotMoved));
    stage.world.state().token_fee_units = 0;
    // The payee's balance is hidden, so the received amount is unknown; the token itself is in our table.
    stage.world.state().hidden_balance_of = Some(SHOP);
    assert_eq!(verdict(&stage, &pay).await, None);
    stage.world.state().hidden_balance_of = None;
    let rich = stage.sign_payment(1, 1_000_001, 1);
    assert_eq!(verdict(&stage, &rich).await, Some(Reason::InsufficientBalance));
    let own = Terms { payee: payer(1), ..pay.terms.clone() };
    assert_eq!(verdict(&stage, &SignedPayment::signed(1, own)).await, None, "it pays itself");
    // The token has changed its domain. From then on, the domain that it reports counts.
    stage.world.state().separator = Some(B256::repeat_byte(3));
    assert_eq!(verdict(&stage, &pay).await, Some(Reason::NameMismatch));
}

/// A node's own error is not a verdict; an error of the call itself is.
#[tokio::test(start_paused = true)]
async fn a_node_error_is_not_a_verdict() {
    let stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    stage.world.state().call_error = Some("header not found");
    let result = stage.settlement.verify(&pay.request, &caller_origin(1).into()).await;
    assert!(matches!(result, Err(VerifyError::Chain(_))), "{result:?}");
    let result = stage.settle(&pay).await;
    assert!(matches!(result, Err(SettleError::Unavailable(_))), "{result:?}");
    stage.world.state().call_error = Some("gas required exceeds allowance");
    assert_eq!(verdict(&stage, &pay).await, Some(Reason::Simulation));
}

/// Without Multicall3, calls are simulated one by one, and payments are sent one by one.
#[tokio::test(start_paused = true)]
async fn without_multicall_payments_are_checked_and_sent_one_by_one() {
    let limits = DispatchLimits { in_flight_max: 1, ..StageConfig::default().limits };
    let plan = StageConfig { limits, wait_ms: 8_000, ..StageConfig::default() };
    let mut stage = Stage::with(plan).await;
    stage.world.state().has_multicall = false;
    let pays: Vec<SignedPayment> =
        (1..=4).map(|n| stage.sign_payment(n, 100, u64::from(n))).collect();
    assert_eq!(verdict(&stage, &pays[0]).await, None);
    let settling: Vec<_> = pays.iter().map(|pay| stage.spawn_settle(pay)).collect();
    stage.keep_mining();
    for settling in settling {
        assert!(is_settled(&settling.await.unwrap()));
    }
    let state = stage.world.state();
    assert_eq!(state.sent.len(), 4);
    assert!(state.sent.iter().all(|tx| tx.to == network().stablecoin.address));
}

/// A token in no table is asked for its domain, and its payments are sent alone.
#[tokio::test(start_paused = true)]
async fn an_unlisted_token_is_judged_by_its_own_domain() {
    let mut stage = Stage::with_defaults().await;
    let terms = Terms { token: OTHER_TOKEN, ..stage.sign_payment(1, 700, 1).terms };
    let pay = SignedPayment::signed(1, terms);
    assert_eq!(verdict(&stage, &pay).await, None);
    stage.world.state().token_fee_units = 1;
    assert_eq!(verdict(&stage, &pay).await, Some(Reason::NotMoved));
    stage.world.state().token_fee_units = 0;
    stage.keep_mining();
    let end = stage.settle(&pay).await;
    assert!(matches!(end, Ok(SettleOutcome::Settled { .. })), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_takes_no_more_than_its_share_of_a_block() {
    let limits = DispatchLimits { in_flight_max: 1, ..StageConfig::default().limits };
    let plan = StageConfig { limits, wait_ms: 8_000, ..StageConfig::default() };
    let mut stage = Stage::with(plan).await;
    stage.world.state().block_gas = 3_200_000;
    let settling: Vec<_> =
        (1..=9).map(|n| stage.spawn_settle(&stage.sign_payment(n, 100, u64::from(n)))).collect();
    stage.advance_clock(300).await;
    stage.keep_mining();
    for settling in settling {
        assert!(is_settled(&settling.await.unwrap()));
    }
    let state = stage.world.state();
    let most = state.sent.iter().map(|tx| tx.gas_limit).max().unwrap();
    // The limit is a quarter of the block, plus the margin that a batch gets.
    assert!((500_000..1_300_000).contains(&most), "{most}");
}

/// This network charges a data fee, and a signature of several kilobytes pays it for each kilobyte.
#[tokio::test(start_paused = true)]
async fn a_long_signature_costs_its_signer_more() {
    let mut plan = StageConfig::default();
    (plan.config.gas_budget_caller_percent, plan.config.gas_budget_percent) = (100, 100);
    let mut stage = Stage::with(plan).await;
    stage.keep_mining();
    let fee = COIN / U256::from(20);
    stage.world.state().data_fee = Some(fee);
    stage.world.state().smart_wallets.insert(payer(1), accepting_answer());
    let long = |bytes: usize| move |signature: Vec<u8>| signature.repeat(bytes.div_ceil(65));
    let price = stage.settler.look_up_price().await.unwrap();
    assert_eq!(price.data_fee, fee * U256::from(2), "with room");
    let gas = price.cost(GasReservation { gas: 1_200_000, data_kilobytes: 0 }).unwrap();
    // The signer has enough coin for three kilobytes, but not for four.
    stage.world.fund(signer(1), gas + fee * U256::from(6));
    stage.advance_clock(2_100).await;
    let _price = stage.settler.look_up_price().await.unwrap();
    assert_eq!(
        verdict(&stage, &payment_with_changed_signature(&stage, 1, long(3_300))).await,
        Some(Reason::OutOfGas)
    );
    let end = stage.settle(&payment_with_changed_signature(&stage, 1, long(3_300))).await;
    assert_eq!(reason(&end), Some(Reason::OutOfGas), "{end:?}");
    assert_eq!(
        verdict(&stage, &payment_with_changed_signature(&stage, 1, long(2_200))).await,
        None
    );
    // The amount reserved for the long signature counts against other payments.
    let settling = stage.spawn_settle(&payment_with_changed_signature(&stage, 1, long(2_200)));
    stage.advance_clock(100).await;
    let open = stage.usage(1).network_reserved;
    assert_eq!(open.data_kilobytes, 3, "{open:?}");
    assert!(is_settled(&settling.await.unwrap()));
}
