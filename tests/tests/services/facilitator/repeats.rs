//! Several requests for one authorization: with other terms, with another signature, during settlement and after it.
//! The outcome is reported only for the exact payment.

use alloy_primitives::{Address, B256, U256};
use bursar_tests::payer::{
    PERMIT2, Payer, PaymentTerms, SignedPayment, TransferMethod, random_word, token_domain,
};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};
use crate::facilitator::verdict::{check_settle, check_verify, with, with_term};

const OTHER: Address = Address::repeat_byte(0x77);
const SIGNATURE: &str = "/paymentPayload/payload/signature";
const METHODS: [TransferMethod; 3] =
    [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism];

/// Returns a payment's body with its signature changed.
fn with_changed_signature(paid: &SignedPayment, change: impl FnOnce(&mut Vec<u8>)) -> Value {
    let text = paid.payload["signature"].as_str().expect("a signature");
    let mut bytes = hex::decode(&text[2..]).expect("hex");
    change(&mut bytes);
    with(&paid.body(2), SIGNATURE, json!(format!("0x{}", hex::encode(bytes))))
}

/// Requests that use the nonce of a payment but are not that payment.
fn impostors(payer: &Payer, paid: &SignedPayment) -> Vec<(&'static str, Value)> {
    let (body, terms, method) = (paid.body(2), &paid.terms, paid.method);
    let sign = |change: fn(&mut PaymentTerms)| {
        let mut terms = terms.clone();
        change(&mut terms);
        payer.pay(method, &terms).body(2)
    };
    vec![
        ("another payee is asked for", with_term(&body, "payTo", &json!(OTHER))),
        ("less is asked for", with_term(&body, "amount", &json!("1"))),
        ("more is asked for", with_term(&body, "amount", &json!("9000000"))),
        ("another token is asked for", with_term(&body, "asset", &json!(OTHER))),
        ("another payee is signed for", sign(|terms| terms.to = OTHER)),
        ("another amount is signed for", sign(|terms| terms.amount += U256::from(1))),
        ("another end is signed for", sign(|terms| terms.valid_before_s += 1)),
        ("another begin is signed for", sign(|terms| terms.valid_after_s = 1)),
        ("garbage", with_changed_signature(paid, |bytes| bytes.fill(0x5a))),
        ("a bit is changed", with_changed_signature(paid, |bytes| bytes[40] ^= 1)),
        ("no signature", with_changed_signature(paid, Vec::clear)),
        ("a byte more", with_changed_signature(paid, |bytes| bytes.push(0))),
        (
            "another's signature",
            with(&body, SIGNATURE, Payer::random().pay(method, terms).payload["signature"].clone()),
        ),
        ("a wrapper around garbage", {
            let forged = Payer::random();
            forged.pay_undeployed(method, terms, OTHER, &[]).body(2)
        }),
    ]
}

/// Asserts that none of the impostors receives a success or a transaction hash.
async fn assert_impostors_refused(stage: &Stage, when: &str, payer: &Payer, paid: &SignedPayment) {
    let settled = stage.balance(SHOP).await;
    let mut wrong = Vec::new();
    for (case, body) in impostors(payer, paid) {
        let case = format!("{:?}, {when}, {case}", paid.method);
        let answer = stage.settle(&body).await;
        check_settle(&case, &body, &answer);
        if answer["success"] != false || answer["transaction"] != "" {
            wrong.push(format!("{case}: {answer}"));
        }
        check_verify(&case, &stage.verify(&body).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(stage.balance(SHOP).await, settled, "{when}: nothing moved");
}

/// Settles again while the answer is of this kind, and returns the first other answer.
async fn settle_while(
    stage: &Stage,
    paid: &SignedPayment,
    is_kind: impl Fn(&Value) -> bool,
) -> Value {
    for _attempt in 0..300 {
        let answer = stage.settle(&paid.body(2)).await;
        if !is_kind(&answer) {
            return answer;
        }
    }
    panic!("the answer has not changed after 300 calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_terms_or_another_signature_learn_nothing_of_a_settled_payment() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for method in METHODS {
        let payer = stage.payer().await;
        let paid = stage.pay(&payer, method, 600);
        let first = stage.settle(&paid.body(2)).await;
        assert_eq!(first["success"], true, "{first}");
        assert_impostors_refused(&stage, "afterwards", &payer, &paid).await;
        // The same signature in another encoding is the same payment.
        let bare = with_changed_signature(&paid, |bytes| bytes[64] -= 27);
        let other_case = with_term(&paid.body(2), "payTo", &json!(SHOP.to_string().to_lowercase()));
        for body in [paid.body(2), bare, other_case] {
            let again = stage.settle_with_key_of(&body, &paid.body(2)).await;
            assert_eq!(again["success"], true, "{method:?}: {again}");
            assert_eq!(again["transaction"], first["transaction"], "{method:?}");
        }
        // For any other caller the payment no longer verifies, so it cannot be sold again.
        assert_eq!(stage.verify(&paid.body(2)).await["isValid"], false, "{method:?}");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_terms_or_another_signature_learn_nothing_of_a_payment_in_flight() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 200").await else { return };
    for method in METHODS {
        let payer = stage.payer().await;
        let paid = stage.pay(&payer, method, 600);
        stage.chain.set_automine(false).await.expect("set");
        // A first answer may come before the transaction has a hash.
        let answer = settle_while(&stage, &paid, |answer| answer["transaction"] == "").await;
        assert_eq!(answer["errorReason"], "settlement_pending", "{answer}");
        assert_impostors_refused(&stage, "on its way", &payer, &paid).await;
        let signed_twice =
            payer.pay(method, &PaymentTerms { to: OTHER, ..paid.terms.clone() }).body(2);
        let refused = stage.settle(&signed_twice).await;
        assert_eq!(refused["errorReason"], "duplicate_settlement", "{method:?}: {refused}");
        stage.chain.set_automine(true).await.expect("set");
        stage.chain.mine(1).await.expect("mined");
        let is_pending = |answer: &Value| answer["errorReason"] == "settlement_pending";
        let end = settle_while(&stage, &paid, is_pending).await;
        assert_eq!(end["success"], true, "{method:?}: {end}");
        assert_eq!(end["transaction"], answer["transaction"], "{method:?}");
    }
    stage.facilitator.stop().await;
}

/// T-38: one transaction, for any number of requests in any encoding.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_settles_in_any_encoding_are_one_transaction() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let paid = stage.pay(&payer, TransferMethod::Eip3009, 600);
    let bodies =
        [paid.body(2), with_changed_signature(&paid, |bytes| bytes[64] -= 27), paid.body(1)];
    let forged = with_changed_signature(&paid, |bytes| bytes.fill(0x5a));
    let asked = (0..50).map(|at| stage.settle_with_key_of(&bodies[at % 3], &bodies[0]));
    let (answer, theirs) = tokio::join!(futures::future::join_all(asked), stage.settle(&forged));
    let hash = answer[0]["transaction"].clone();
    for one in &answer {
        assert_eq!((&one["success"], &one["transaction"]), (&json!(true), &hash), "{one}");
    }
    assert_eq!((&theirs["success"], &theirs["transaction"]), (&json!(false), &json!("")));
    assert_eq!(stage.balance(payer.address()).await, U256::from(INITIAL_BALANCE - 600));
    stage.facilitator.stop().await;
}

/// If another facilitator settled a payment, the answer names its transaction. Only the contract can confirm its own
/// signature, so the answer to a forged one does not contain the transaction.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_signature_learns_nothing_of_a_contracts_payment_settled_elsewhere() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let other = Stage::on(stage.chain.clone(), 2, "", "").await;
    let owner = Payer::random();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2] {
        let wallet = stage.chain.deploy_wallet(owner.address()).await.expect("deployed");
        stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
        stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
        let terms = PaymentTerms { from: wallet, ..owner.terms(stage.network(), SHOP, 600) };
        let paid = owner.pay(method, &terms);
        assert_eq!(other.settle(&paid.body(2)).await["success"], true, "{method:?}");
        for body in [
            with_changed_signature(&paid, |bytes| bytes.fill(0x5a)),
            Payer::random().pay(method, &terms).body(2),
        ] {
            let answer = stage.settle(&body).await;
            assert_eq!(answer["errorReason"], "invalid_signature", "{method:?}: {answer}");
            assert_eq!(answer["transaction"], "", "{method:?}: {answer}");
        }
    }
    stage.facilitator.stop().await;
    other.facilitator.stop().await;
}

/// Two tokens with similar authorizations have separate nonces.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_nonce_in_another_token_is_another_payment() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let mode = bursar_devnet::TokenMode::Honest;
    let token = stage.chain.deploy_token("Odd", "1", mode).await.expect("deployed");
    stage.chain.mint_of(token, payer.address(), INITIAL_BALANCE).await.expect("minted");
    let nonce: B256 = random_word();
    let ours = PaymentTerms { nonce, ..payer.terms(stage.network(), SHOP, 600) };
    let domain = token_domain("Odd", "1", stage.network(), token);
    let theirs =
        payer.pay(TransferMethod::Eip3009, &PaymentTerms { token, domain, ..ours.clone() }).body(2);
    let named = with_term(&theirs, "extra", &json!({ "name": "Odd", "version": "1" }));
    let first = stage.settle(&payer.pay(TransferMethod::Eip3009, &ours).body(2)).await;
    let second = stage.settle(&named).await;
    assert_eq!((&first["success"], &second["success"]), (&json!(true), &json!(true)), "{second}");
    assert_eq!(stage.chain.balance_of_token(token, SHOP).await.expect("answered"), U256::from(600));
    stage.facilitator.stop().await;
}
