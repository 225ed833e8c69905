//! The scheme `upto`: a payer signs the maximum price of a request, and the merchant settles the actual price.

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::{Call, TokenMode, WalletMode};
use bursar_tests::facilitator::idempotency_key;
use bursar_tests::payer::{
    PERMIT2, PROXY, Payer, PaymentTerms, SignedPayment, TransferMethod, UPTO_PROXY,
};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage};

const PRICE_MAX: u64 = 10_000;

/// Returns the terms of a payment to the shop that the first signer may settle.
fn terms_for(stage: &Stage, payer: &Payer) -> PaymentTerms {
    PaymentTerms {
        facilitator: stage.home.signers[0],
        ..payer.terms(stage.network(), SHOP, PRICE_MAX)
    }
}

async fn sign_payment(stage: &Stage) -> SignedPayment {
    let payer = stage.payer().await;
    payer.pay(TransferMethod::Upto, &terms_for(stage, &payer))
}

pub(crate) fn reason(answer: &Value) -> &str {
    let code = [&answer["errorReason"], &answer["invalidReason"]];
    code.into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// Returns the sender of a success's transaction.
async fn sender(stage: &Stage, answer: &Value) -> Address {
    let hash = &answer["transaction"];
    let sent = stage.chain.request("eth_getTransactionByHash", json!([hash])).await;
    let sent = sent.expect("answered");
    sent["from"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().expect("an address")
}

/// Returns the offered kind of the scheme, or null if it is not offered.
pub(crate) async fn offered_kind(stage: &Stage) -> Value {
    let (_status, answer) = stage.facilitator.get("/supported").await;
    let kinds = answer["kinds"].as_array().expect("kinds").clone();
    kinds.into_iter().find(|kind| kind["scheme"] == "upto").unwrap_or_default()
}

async fn used_amount_is_settled(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 2, "").await else { return };
    let kind = offered_kind(&stage).await;
    assert_eq!(kind["x402Version"], 2);
    assert_eq!(kind["extra"], json!({ "facilitatorAddress": stage.home.signers[0] }));
    for wallet in ["key", "contract", "contract with deployment data"] {
        let payer = stage.payer().await;
        let mut terms = terms_for(&stage, &payer);
        let mut planned = None;
        let paid = match wallet {
            "key" => payer.pay(TransferMethod::Upto, &terms),
            "contract" => {
                terms.from = stage.chain.deploy_wallet(payer.address()).await.expect("deployed");
                payer.pay(TransferMethod::Upto, &terms)
            }
            _wrapped => {
                let salt = U256::from_be_bytes(terms.nonce.0);
                let plan = stage.chain.counterfactual(payer.address(), salt).await;
                let plan = plan.expect("planned");
                planned = Some(plan.clone());
                terms.from = plan.wallet;
                payer.pay_undeployed(TransferMethod::Upto, &terms, plan.factory, &plan.calldata)
            }
        };
        if wallet == "contract with deployment data" {
            // Only the named account may send the transfer, so one transaction cannot also deploy the wallet.
            for answer in
                [stage.verify(&paid.body(2)).await, stage.settle(&paid.settle_body(0)).await]
            {
                assert_eq!(reason(&answer), "smart_wallet_deployment_failed", "{answer}");
            }
            let plan = planned.expect("planned");
            let deploy = Call {
                from: stage.home.signers[1],
                to: plan.factory,
                value: U256::ZERO,
                data: plan.calldata,
            };
            stage.chain.send_as(&deploy).await.expect("deployed");
        }
        if terms.from != payer.address() {
            stage.chain.mint(terms.from, INITIAL_BALANCE).await.expect("minted");
            let coin = stage.coin();
            stage.chain.approve_as(terms.from, coin, PERMIT2).await.expect("approved");
        }
        let before = (stage.balance(terms.from).await, stage.balance(SHOP).await);
        let verified = stage.verify(&paid.body(2)).await;
        assert_eq!(verified, json!({ "isValid": true, "payer": terms.from }), "{wallet}");
        let body = paid.settle_body(4_321);
        let answer = stage.settle(&body).await;
        assert_eq!(
            answer,
            json!({
                "success": true, "transaction": answer["transaction"], "payer": terms.from,
                "network": stage.network().caip2(), "amount": "4321",
            }),
            "{wallet}"
        );
        let moved = U256::from(4_321);
        let after = (stage.balance(terms.from).await, stage.balance(SHOP).await);
        assert_eq!(after, (before.0 - moved, before.1 + moved), "{wallet}");
        assert_eq!(sender(&stage, &answer).await, stage.home.signers[0], "{wallet}");

        // The merchant's own repeat receives the success; another amount or another caller does not.
        assert_eq!(stage.settle(&body).await, answer, "{wallet}");
        for (amount, key_of) in [(4_320, &body), (PRICE_MAX, &body), (0, &body)] {
            let other = paid.settle_body(amount);
            let reply = stage.settle_with_key_of(&other, key_of).await;
            assert_eq!(reason(&reply), "duplicate_settlement", "{wallet} {amount}: {reply}");
            assert!(reply["extra"].is_null(), "{wallet}: not this caller's settlement: {reply}");
        }
        // The merchant has the success, so it cannot settle the authorized amount: the payment no longer verifies.
        let key = idempotency_key(&body);
        let (_status, reply) =
            stage.facilitator.post_with_key("/verify", &paid.body(2), &key).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{wallet}: {reply}");
        let reply = stage.settle_without_key(&body).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{wallet}: {reply}");
        assert_eq!(reply["extra"]["transaction"], answer["transaction"], "{wallet}");
        let reply = stage.verify(&paid.body(2)).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{wallet}: {reply}");
        assert_eq!(stage.balance(terms.from).await, after.0, "{wallet}: nothing moved twice");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_used_amount_is_settled_on_base() {
    used_amount_is_settled(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_used_amount_is_settled_on_robinhood() {
    used_amount_is_settled(ROBINHOOD).await;
}

/// Settling zero moves nothing and costs nothing. The payer may rely on it: the authorization is never settled later.
#[tokio::test(flavor = "multi_thread")]
async fn settling_zero_closes_the_authorization_permanently() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let terms = terms_for(&stage, &payer);
    let by_key = payer.pay(TransferMethod::Upto, &terms);
    let owner = Payer::random();
    let wallet = stage.chain.deploy_wallet(owner.address()).await.expect("deployed");
    let of_wallet = PaymentTerms { from: wallet, ..terms_for(&stage, &owner) };
    let by_wallet = owner.pay(TransferMethod::Upto, &of_wallet);
    let before = stage.balance(SHOP).await;
    // A stranger cannot close an authorization with its own signature.
    for of in [&terms, &of_wallet] {
        let forged = Payer::random().pay(TransferMethod::Upto, of).settle_body(0);
        let reply = stage.settle(&forged).await;
        assert_eq!(reason(&reply), "invalid_signature", "{reply}");
    }
    // Settling zero needs no coin of the signers and no money of the payer: the wallet has none.
    stage.fund_signers(U256::ZERO).await;
    for paid in [&by_key, &by_wallet] {
        let body = paid.settle_body(0);
        let answer = stage.settle(&body).await;
        let expected = json!({
            "success": true, "transaction": "", "network": "eip155:8453",
            "payer": paid.terms.from, "amount": "0",
        });
        assert_eq!(answer, expected);
        assert_eq!(stage.settle(&body).await, expected, "the merchant's own repeat");
        let reply = stage.settle_without_key(&body).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
    }
    stage.fund_signers(U256::from(10).pow(U256::from(20))).await;
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
    stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
    for paid in [&by_key, &by_wallet] {
        for amount in [1, PRICE_MAX] {
            let reply = stage.settle(&paid.settle_body(amount)).await;
            assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
        }
        let reply = stage.verify(&paid.body(2)).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
    }
    assert_eq!(stage.balance(SHOP).await, before);
    stage.facilitator.stop().await;
}

/// Permit2 counts nonces by owner alone, so one nonce is one payment in all schemes and tokens.
#[tokio::test(flavor = "multi_thread")]
async fn one_permit2_nonce_is_settled_once_over_schemes_and_tokens() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let token = chain.deploy_token("Other", "1", TokenMode::Honest).await.expect("deployed");
    let stage = Stage::on(chain, 2, "repeats = \"success\"", "").await;
    for _round in 0..3 {
        let payer = stage.payer().await;
        stage.chain.mint_of(token, payer.address(), INITIAL_BALANCE).await.expect("minted");
        stage.chain.approve_as(payer.address(), token, PERMIT2).await.expect("approved");
        let terms = terms_for(&stage, &payer);
        let in_token = PaymentTerms { token, ..terms.clone() };
        let bodies = [
            payer.pay(TransferMethod::Permit2, &terms).body(2),
            payer.pay(TransferMethod::Upto, &terms).settle_body(5_000),
            payer.pay(TransferMethod::Upto, &terms).settle_body(PRICE_MAX),
            payer.pay(TransferMethod::Upto, &terms).settle_body(0),
            payer.pay(TransferMethod::Permit2, &in_token).body(2),
            payer.pay(TransferMethod::Upto, &in_token).settle_body(5_000),
        ];
        let answers = join_all(bodies.iter().map(|body| stage.settle_without_key(body))).await;
        let good = answers.iter().filter(|answer| answer["success"] == true).count();
        assert_eq!(good, 1, "{answers:#?}");
        for answer in answers.iter().filter(|answer| answer["success"] == false) {
            assert_eq!(reason(answer), "duplicate_settlement", "{answer}");
        }
    }
    // The other requests cost no transaction.
    let mut sent = 0;
    for signer in &stage.home.signers {
        let count = stage.chain.request("eth_getTransactionCount", json!([signer, "latest"])).await;
        let count = count.expect("answered");
        let digits = count.as_str().expect("text").trim_start_matches("0x").to_owned();
        sent += u64::from_str_radix(&digits, 16).expect("hex");
    }
    assert!(sent <= 3, "{sent} transactions for three nonces");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_parallel_settles_are_one_success_and_99_duplicates() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    for amount in [5_000, 0] {
        assert_one_of_a_hundred_settles(&stage, &sign_payment(&stage).await, amount).await;
    }
    stage.facilitator.stop().await;
}

/// Asserts that one of a hundred simultaneous settlements of a payment succeeds and moves the amount.
pub(crate) async fn assert_one_of_a_hundred_settles(
    stage: &Stage,
    paid: &SignedPayment,
    amount: u64,
) {
    let body = paid.settle_body(amount);
    let before = stage.balance(SHOP).await;
    let answers = join_all((0..100).map(|_one| stage.settle_without_key(&body))).await;
    let (good, bad): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["success"] == true);
    assert_eq!((good.len(), bad.len()), (1, 99), "{amount}");
    for duplicate in bad {
        assert_eq!(reason(duplicate), "duplicate_settlement", "{duplicate}");
    }
    assert_eq!(stage.balance(SHOP).await - before, U256::from(amount));
}

/// Only the named account can settle, so each payment is simulated and sent from it, even
/// if it has been retired since.
#[tokio::test(flavor = "multi_thread")]
async fn each_signer_settles_the_payments_that_name_it() {
    let Some(stage) = Stage::set_up(BASE, 3, "").await else { return };
    let naming = async |stage: &Stage, signer: Address| {
        let payer = stage.payer().await;
        let terms = PaymentTerms { facilitator: signer, ..terms_for(stage, &payer) };
        payer.pay(TransferMethod::Upto, &terms)
    };
    let [first, second, third] = [0, 1, 2].map(|n| stage.home.signers[n]);
    for signer in [first, second, third, second] {
        let paid = naming(&stage, signer).await;
        assert_eq!(stage.verify(&paid.body(2)).await["isValid"], true);
        let answer = stage.settle(&paid.settle_body(77)).await;
        assert_eq!(sender(&stage, &answer).await, signer, "{answer}");
    }
    let before = [naming(&stage, second).await, naming(&stage, third).await];
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    // The second signer is retired, and new payers must name the third.
    let text = std::fs::read_to_string(home.settings()).expect("read");
    let text = text.replace(
        "signers = [\"signer0.key\", \"signer1.key\", \"signer2.key\"]",
        &format!(
            "signers = [\"signer0.key\", \"signer2.key\"]\nretired_signers = [\"signer1.key\"]\n\
             upto_facilitator = \"{third}\""
        ),
    );
    assert!(text.contains("retired_signers"), "{text}");
    std::fs::write(home.settings(), text).expect("written");
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    assert_eq!(offered_kind(&stage).await["extra"], json!({ "facilitatorAddress": third }));
    let (_status, answer) = stage.facilitator.get("/supported").await;
    assert_eq!(answer["signers"]["eip155:8453"], json!([first, third]), "in their order");
    for (paid, signer) in before.iter().zip([second, third]) {
        assert_eq!(stage.verify(&paid.body(2)).await["isValid"], true, "{signer}");
        let answer = stage.settle(&paid.settle_body(78)).await;
        assert_eq!(sender(&stage, &answer).await, signer, "{answer}");
    }
    // A retired signer sends no other payments.
    let payer = stage.payer().await;
    let others = (0..12).map(|n| stage.pay(&payer, TransferMethod::Eip3009, 100 + n).body(2));
    let others: Vec<Value> = others.collect();
    let answers = join_all(others.iter().map(|body| stage.settle(body))).await;
    for answer in &answers {
        assert_ne!(sender(&stage, answer).await, second, "{answer}");
    }
    // The facilitator ignores the retired signer's coin for other payments. A payment that names
    // that signer needs its coin.
    let empty = |signer: Address| json!([signer, "0x0"]);
    for signer in [first, third] {
        stage.chain.request("anvil_setBalance", empty(signer)).await.expect("set");
    }
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    let reply = stage.settle(&stage.pay(&payer, TransferMethod::Eip3009, 500).body(2)).await;
    assert_eq!(reason(&reply), "facilitator_out_of_gas", "{reply}");
    let reply = stage.settle(&naming(&stage, third).await.settle_body(5)).await;
    assert_eq!(reason(&reply), "facilitator_out_of_gas", "{reply}");
    let answer = stage.settle(&naming(&stage, second).await.settle_body(5)).await;
    assert_eq!(sender(&stage, &answer).await, second, "{answer}");
    stage.facilitator.stop().await;
}

/// These refusals follow from the request alone, so they are the same if no node answers.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_need_no_node_are_given_without_one() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let terms = terms_for(&stage, &payer);
    let paid = payer.pay(TransferMethod::Upto, &terms);
    let body = paid.body(2);
    let with = |pointer: &str, value: Value| {
        let mut body = body.clone();
        *body.pointer_mut(pointer).expect("a member") = value;
        body
    };
    let stranger = PaymentTerms { facilitator: Address::repeat_byte(9), ..terms.clone() };
    let permit = "/paymentPayload/payload/permit2Authorization";
    let wanted = "/paymentRequirements";
    let cases = [
        ("facilitator_mismatch", payer.pay(TransferMethod::Upto, &stranger).body(2)),
        ("invalid_upto_evm_scheme", with("/paymentPayload/accepted/scheme", json!("exact"))),
        (
            "invalid_upto_evm_network_mismatch",
            with("/paymentPayload/accepted/network", json!("eip155:4663")),
        ),
        ("unsupported_scheme", payer.pay(TransferMethod::Upto, &terms).body(1)),
        ("invalid_permit2_spender", with(&format!("{permit}/spender"), json!(PROXY))),
        ("invalid_permit2_recipient_mismatch", with(&format!("{wanted}/payTo"), json!(PROXY))),
        ("permit2_token_mismatch", with(&format!("{wanted}/asset"), json!(PROXY))),
        (
            "invalid_exact_evm_payload_authorization_valid_before",
            with(&format!("{permit}/deadline"), json!("1000000000")),
        ),
        (
            "invalid_exact_evm_payload_authorization_valid_after",
            with(&format!("{permit}/witness/validAfter"), json!("99999999999")),
        ),
    ];
    stage.chain.kill();
    for (code, body) in &cases {
        for answer in [stage.verify(body).await, stage.facilitator.post("/settle", body).await.1] {
            assert_eq!(reason(&answer), *code, "{answer}");
        }
    }
    // `/verify` requires exactly the authorized amount.
    let less = stage.verify(&with(&format!("{wanted}/amount"), json!("10001"))).await;
    assert_eq!(reason(&less), "invalid_exact_evm_payload_authorization_value");
    let more = stage.verify(&with(&format!("{wanted}/amount"), json!("9999"))).await;
    assert_eq!(reason(&more), "permit2_amount_mismatch");
    let forever = PaymentTerms { valid_before_s: 99_999_999_999, ..terms.clone() };
    let forever = payer.pay(TransferMethod::Upto, &forever);
    for answer in [
        stage.verify(&forever.body(2)).await,
        stage.facilitator.post("/settle", &forever.settle_body(0)).await.1,
    ] {
        assert_eq!(reason(&answer), "upto_deadline_too_late", "{answer}");
    }
    // `/settle` accepts at most the authorized amount.
    let exceeds = "invalid_upto_evm_payload_settlement_exceeds_amount";
    for amount in [PRICE_MAX + 1, u64::MAX] {
        let (_status, answer) = stage.facilitator.post("/settle", &paid.settle_body(amount)).await;
        assert_eq!(reason(&answer), exceeds, "{answer}");
        assert_eq!(answer["payer"], json!(payer.address()));
        assert_eq!(answer["transaction"], "");
    }
}

/// Tests the refusals that a node decides.
#[tokio::test(flavor = "multi_thread")]
async fn payments_that_would_fail_are_refused_and_cost_nothing() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let rich = stage.payer().await;
    let forged = Payer::random().pay(TransferMethod::Upto, &terms_for(&stage, &rich));
    let poor = Payer::random();
    stage.chain.approve_as(poor.address(), stage.coin(), PERMIT2).await.expect("approved");
    let unapproved = Payer::random();
    stage.chain.mint(unapproved.address(), INITIAL_BALANCE).await.expect("minted");
    let of = |payer: &Payer| payer.pay(TransferMethod::Upto, &terms_for(&stage, payer));
    for (code, paid) in [
        ("invalid_signature", &forged),
        ("insufficient_balance", &of(&poor)),
        ("permit2_allowance_required", &of(&unapproved)),
    ] {
        for answer in
            [stage.verify(&paid.body(2)).await, stage.settle(&paid.settle_body(PRICE_MAX)).await]
        {
            assert_eq!(reason(&answer), code, "{answer}");
        }
    }
    // The merchant may settle the used amount even if the payer now has less than the authorized amount.
    stage.chain.mint(poor.address(), 600).await.expect("minted");
    let paid = of(&poor);
    assert_eq!(reason(&stage.settle(&paid.settle_body(601)).await), "insufficient_balance");
    assert_eq!(stage.settle(&paid.settle_body(600)).await["success"], true);
    stage.facilitator.stop().await;
}

/// A wallet that fails only in the sent transaction costs gas, and the code is that of the scheme.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_fails_in_its_block_is_reported_with_the_code_of_the_scheme() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let _mining = stage.keep_mining();
    let owner = Payer::random();
    let mode = WalletMode::BurnsWhenSent;
    let wallet = stage.chain.deploy_hostile_wallet(owner.address(), mode).await;
    let wallet = wallet.expect("deployed");
    stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
    stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
    let terms = PaymentTerms { from: wallet, ..terms_for(&stage, &owner) };
    let body = owner.pay(TransferMethod::Upto, &terms).settle_body(5);
    let answer = stage.settle(&body).await;
    assert_eq!(reason(&answer), "invalid_upto_evm_transaction_failed", "{answer}");
    stage.facilitator.stop().await;
}

/// A network offers the scheme only while the facilitator finds its contracts there.
#[tokio::test(flavor = "multi_thread")]
async fn the_scheme_is_offered_once_its_contracts_are_found() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let code = chain.request("eth_getCode", json!([UPTO_PROXY, "latest"])).await.expect("read");
    let set_code = async |code: Value| {
        chain.request("anvil_setCode", json!([UPTO_PROXY, code])).await.expect("set");
    };
    set_code(json!("0x")).await;
    let stage = Stage::on(chain.clone(), 1, "", "").await;
    assert_eq!(offered_kind(&stage).await, Value::Null);
    let (_status, summary) = stage.facilitator.get("/supported?view=summary").await;
    assert_eq!(summary["kinds"], json!(["exact"]), "and no channels without an authorizer");
    let reply = stage.settle(&sign_payment(&stage).await.settle_body(5)).await;
    assert_eq!(reason(&reply), "permit2_proxy_not_deployed", "{reply}");
    set_code(code).await;
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let stage = Stage { facilitator: home.start_again().await, chain, home };
    assert_eq!(offered_kind(&stage).await["scheme"], "upto");
    let (_status, summary) = stage.facilitator.get("/supported?view=summary").await;
    assert_eq!(summary["kinds"], json!(["exact", "upto"]));
    stage.facilitator.stop().await;
}
