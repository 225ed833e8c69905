//! Causes every refusal code, at both endpoints.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, U256};
use bursar_devnet::TokenMode;
use bursar_devnet::full::full_chain_or_skip;
use bursar_facilitator::reason::Reason;
use bursar_tests::payer::{
    PERMIT2, PRISM, PROXY, Payer, PaymentTerms, SignedPayment, TransferMethod, now_s, token_domain,
};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};
use crate::facilitator::verdict::{Refusal, check_settle, with, with_term};

const OTHER: Address = Address::repeat_byte(0x77);
const METHODS: [TransferMethod; 3] =
    [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism];

/// Returns the terms of a payment that the payer owes the shop; nonces of Prism start at zero.
fn payment_terms(stage: &Stage, payer: &Payer, method: TransferMethod) -> PaymentTerms {
    let mut terms = payer.terms(stage.network(), SHOP, 1_000);
    if method == TransferMethod::Prism {
        terms.nonce = B256::ZERO;
    }
    terms
}

fn refusal(case: &'static str, code: &'static str, paid: &SignedPayment) -> Refusal {
    Refusal { case, code, body: paid.body(2), payer: Some(paid.terms.from) }
}

/// Builds a payment that is signed over terms other than the seller's.
fn refusal_for_other_term(
    case: &'static str,
    code: &'static str,
    paid: &SignedPayment,
    name: &str,
    value: Value,
) -> Refusal {
    Refusal { body: with_term(&paid.body(2), name, &value), ..refusal(case, code, paid) }
}

/// Refusals of the specification's table, for one method.
async fn specified_refusals(stage: &Stage, method: TransferMethod) -> Vec<Refusal> {
    let payer = stage.payer().await;
    let poor = Payer::random();
    for spender in [PERMIT2, PRISM] {
        stage.chain.approve_as(poor.address(), stage.coin(), spender).await.expect("approved");
    }
    let good = payment_terms(stage, &payer, method);
    let sign = |change: fn(&mut PaymentTerms)| {
        let mut terms = good.clone();
        change(&mut terms);
        payer.pay(method, &terms)
    };
    let theirs = PaymentTerms { from: stage.payer().await.address(), ..good.clone() };
    let valid_before = "invalid_exact_evm_payload_authorization_valid_before";
    let valid_after = "invalid_exact_evm_payload_authorization_valid_after";
    vec![
        refusal("signed by another key", "invalid_signature", &payer.pay(method, &theirs)),
        refusal(
            "signed over another nonce",
            "invalid_signature",
            &SignedPayment {
                payload: {
                    let signature =
                        sign(|terms| terms.nonce = B256::repeat_byte(9)).payload["signature"]
                            .clone();
                    with(&payer.pay(method, &good).payload, "/signature", signature)
                },
                ..payer.pay(method, &good)
            },
        ),
        refusal(
            "without money",
            "insufficient_balance",
            &poor.pay(method, &payment_terms(stage, &poor, method)),
        ),
        refusal(
            "with too little money",
            "insufficient_balance",
            &sign(|terms| terms.amount = U256::from(INITIAL_BALANCE + 1)),
        ),
        refusal_for_other_term(
            "less than asked",
            "invalid_exact_evm_payload_authorization_value",
            &payer.pay(method, &good),
            "amount",
            json!("1001"),
        ),
        refusal("long expired", valid_before, &sign(|terms| terms.valid_before_s = 1_000_000_000)),
        refusal("just expired", valid_before, &sign(|terms| terms.valid_before_s = now_s() - 1)),
        refusal(
            "expires in a moment",
            valid_before,
            &sign(|terms| terms.valid_before_s = now_s() + 2),
        ),
        refusal("not yet valid", valid_after, &sign(|terms| terms.valid_after_s = now_s() + 60)),
        Refusal {
            payer: None,
            ..refusal_for_other_term(
                "a network that is known and not configured",
                "unsupported_network",
                &payer.pay(method, &good),
                "network",
                json!("eip155:84532"),
            )
        },
        Refusal {
            payer: None,
            ..refusal_for_other_term(
                "a network that nobody knows",
                "unsupported_network",
                &payer.pay(method, &good),
                "network",
                json!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"),
            )
        },
    ]
}

/// Refusals with the codes of official libraries, for one method.
async fn common_refusals(stage: &Stage, method: TransferMethod) -> Vec<Refusal> {
    let payer = stage.payer().await;
    let paid = payer.pay(method, &payment_terms(stage, &payer, method));
    let body = paid.body(2);
    let another = match method {
        TransferMethod::Eip3009 | TransferMethod::Prism => {
            "/paymentPayload/payload/permit2Authorization"
        }
        TransferMethod::Permit2 | TransferMethod::Upto => "/paymentPayload/payload/authorization",
    };
    let (recipient, too_much, nowhere) = match method {
        TransferMethod::Eip3009 | TransferMethod::Prism => (
            "invalid_exact_evm_recipient_mismatch",
            "invalid_exact_evm_payload_authorization_value_mismatch",
            "asset_not_deployed_contract",
        ),
        TransferMethod::Permit2 | TransferMethod::Upto => (
            "invalid_permit2_recipient_mismatch",
            "permit2_amount_mismatch",
            "asset_not_deployed_contract",
        ),
    };
    let coin = &stage.network().stablecoin;
    let domain = token_domain(coin.domain_name, coin.domain_version, stage.network(), OTHER);
    let no_token = payer.pay(method, &PaymentTerms { token: OTHER, domain, ..paid.terms.clone() });
    let plain = |case, code, body| Refusal { case, code, body, payer: None };
    vec![
        refusal_for_other_term("to another payee", recipient, &paid, "payTo", json!(OTHER)),
        refusal_for_other_term("more than asked", too_much, &paid, "amount", json!("999")),
        refusal("a token that is not there", nowhere, &no_token),
        plain("version 3", "invalid_x402_version", with(&body, "/x402Version", json!(3))),
        plain("version 0", "invalid_x402_version", with(&body, "/x402Version", json!(0))),
        plain(
            "two versions",
            "invalid_x402_version",
            with(&body, "/paymentPayload/x402Version", json!(1)),
        ),
        plain("another scheme", "unsupported_scheme", with_term(&body, "scheme", &json!("stream"))),
        plain(
            "one scheme accepted and another asked",
            "invalid_exact_evm_scheme",
            with(&body, "/paymentPayload/accepted/scheme", json!("stream")),
        ),
        plain(
            "one network accepted and another asked",
            "invalid_exact_evm_network_mismatch",
            with(&body, "/paymentPayload/accepted/network", json!("eip155:4663")),
        ),
        plain(
            "a payload of two methods",
            "unsupported_payload_type",
            with(&body, another, json!({ "from": OTHER })),
        ),
        plain(
            "a payload of no method",
            "unsupported_payload_type",
            with(
                &body,
                "/paymentPayload/payload",
                json!({ "delegationManager": OTHER, "permissionContext": "0x", "delegator": OTHER }),
            ),
        ),
    ]
}

/// Refusals specific to EIP-3009.
async fn eip3009_refusals(stage: &Stage) -> Vec<Refusal> {
    let chain = &stage.chain;
    let payer = stage.payer().await;
    let terms = payment_terms(stage, &payer, TransferMethod::Eip3009);
    let plain = chain.deploy_token("Plain", "1", TokenMode::Plain).await.expect("deployed");
    chain.mint_of(plain, payer.address(), INITIAL_BALANCE).await.expect("minted");
    let domain = |name, version, token| token_domain(name, version, stage.network(), token);
    let signed = |name, version, token| {
        let domain = domain(name, version, token);
        payer.pay(TransferMethod::Eip3009, &PaymentTerms { token, domain, ..terms.clone() })
    };
    let in_plain = signed("Plain", "1", plain);
    let name = stage.network().stablecoin.domain_name;
    let to_nobody =
        payer.pay(TransferMethod::Eip3009, &PaymentTerms { to: Address::ZERO, ..terms.clone() });
    let planned = chain.counterfactual(payer.address(), terms.nonce.into()).await.expect("planned");
    let from_planned = PaymentTerms { from: planned.wallet, ..terms.clone() };
    chain.mint(planned.wallet, INITIAL_BALANCE).await.expect("minted");
    let longer = |mut signature: Vec<u8>| {
        signature.push(1);
        signature
    };
    let fee = chain.deploy_token("Fee", "1", TokenMode::TakesFee).await.expect("deployed");
    chain.mint_of(fee, payer.address(), INITIAL_BALANCE).await.expect("minted");
    let named = json!({ "name": "Fee", "version": "1" });
    vec![
        refusal_for_other_term(
            "another name of the domain",
            "invalid_exact_evm_token_name_mismatch",
            &signed("US Dollar", "2", stage.coin()),
            "extra",
            json!({ "name": "US Dollar", "version": "2" }),
        ),
        refusal_for_other_term(
            "another version of the domain",
            "invalid_exact_evm_token_name_mismatch",
            &signed(name, "9", stage.coin()),
            "extra",
            json!({ "name": name, "version": "9" }),
        ),
        refusal_for_other_term(
            "a token without authorizations",
            "invalid_exact_evm_eip3009_not_supported",
            &in_plain,
            "extra",
            json!({ "name": "Plain", "version": "1" }),
        ),
        // An earlier payment claimed a domain for this token; such a claim counts for that payment only.
        refusal_for_other_term(
            "a token without a domain",
            "invalid_exact_evm_missing_eip712_domain",
            &in_plain,
            "extra",
            json!({ "assetTransferMethod": "eip3009" }),
        ),
        refusal(
            "to the zero address",
            "invalid_exact_evm_transaction_simulation_failed",
            &to_nobody,
        ),
        refusal_for_other_term(
            "a token that keeps some",
            "invalid_exact_evm_transfer_event_mismatch",
            &signed("Fee", "1", fee),
            "extra",
            named,
        ),
        refusal(
            "a factory that is on no list",
            "eip6492_factory_not_allowed",
            &payer.pay_undeployed(TransferMethod::Eip3009, &from_planned, OTHER, &planned.calldata),
        ),
        refusal(
            "a wallet that is not there",
            "invalid_exact_evm_payload_undeployed_smart_wallet",
            &payer.pay_with(TransferMethod::Eip3009, &from_planned, longer),
        ),
    ]
}

/// Refusals specific to Permit2 and its proxy.
async fn permit2_refusals(stage: &Stage) -> Vec<Refusal> {
    let chain = &stage.chain;
    let payer = stage.payer().await;
    let paid =
        payer.pay(TransferMethod::Permit2, &payment_terms(stage, &payer, TransferMethod::Permit2));
    let stingy = Payer::random();
    chain.mint(stingy.address(), INITIAL_BALANCE).await.expect("minted");
    let refusing = chain.deploy_token("No", "1", TokenMode::PlainRefusing).await.expect("deployed");
    chain.mint_of(refusing, payer.address(), INITIAL_BALANCE).await.expect("minted");
    chain.approve_as(payer.address(), refusing, PERMIT2).await.expect("approved");
    let in_refusing = PaymentTerms { token: refusing, ..paid.terms.clone() };
    let named = |place: &str, value: Value| with(&paid.body(2), place, value);
    let permit = "/paymentPayload/payload/permit2Authorization";
    vec![
        Refusal {
            body: named(&format!("{permit}/spender"), json!(OTHER)),
            ..refusal("another spender", "invalid_permit2_spender", &paid)
        },
        refusal_for_other_term(
            "another token",
            "permit2_token_mismatch",
            &paid,
            "asset",
            json!(OTHER),
        ),
        refusal(
            "without an allowance",
            "permit2_allowance_required",
            &stingy.pay(
                TransferMethod::Permit2,
                &payment_terms(stage, &stingy, TransferMethod::Permit2),
            ),
        ),
        refusal(
            "a token that refuses",
            "permit2_simulation_failed",
            &payer.pay(TransferMethod::Permit2, &in_refusing),
        ),
    ]
}

/// Refusals specific to Prism.
async fn prism_refusals(stage: &Stage) -> Vec<Refusal> {
    let payer = stage.payer().await;
    let ahead = PaymentTerms {
        nonce: B256::with_last_byte(5),
        ..payment_terms(stage, &payer, TransferMethod::Prism)
    };
    let stingy = Payer::random();
    stage.chain.mint(stingy.address(), INITIAL_BALANCE).await.expect("minted");
    vec![
        refusal(
            "not the next nonce",
            "prism_invalid_nonce",
            &payer.pay(TransferMethod::Prism, &ahead),
        ),
        refusal(
            "without an allowance",
            "prism_allowance_required",
            &stingy
                .pay(TransferMethod::Prism, &payment_terms(stage, &stingy, TransferMethod::Prism)),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn both_endpoints_return_every_reason_of_the_specification() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for method in METHODS {
        let before = stage.balance(SHOP).await;
        stage.assert_refuses(&specified_refusals(&stage, method).await).await;
        assert_eq!(stage.balance(SHOP).await, before, "{method:?}: nothing moved");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_endpoints_return_every_reason_of_the_official_libraries() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let before = stage.balance(SHOP).await;
    let mut refusals = Vec::new();
    for method in METHODS {
        refusals.extend(common_refusals(&stage, method).await);
    }
    refusals.extend(eip3009_refusals(&stage).await);
    refusals.extend(permit2_refusals(&stage).await);
    refusals.extend(prism_refusals(&stage).await);
    stage.assert_refuses(&refusals).await;
    assert_eq!(stage.balance(SHOP).await, before, "nothing moved");
    stage.facilitator.stop().await;
}

/// A second facilitator with its own store settles the payment first.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_settled_by_another_facilitator_is_a_duplicate_and_not_sent_again() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let other = Stage::on(stage.chain.clone(), 2, "", "").await;
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism] {
        let paid = stage.pay(&stage.payer().await, method, 300);
        let theirs = other.settle(&paid.body(2)).await;
        assert_eq!(theirs["success"], true, "{method:?}: {theirs}");
        let before = stage.balance(SHOP).await;
        let answer = stage.verify(&paid.body(2)).await;
        assert_eq!(answer["invalidReason"], "duplicate_settlement", "{method:?}: {answer}");
        let hash = &theirs["transaction"];
        assert_eq!(answer["extra"]["transaction"], *hash, "{method:?}: {answer}");
        let answer = stage.settle(&paid.body(2)).await;
        check_settle("settled elsewhere", &paid.body(2), &answer);
        assert_eq!(answer["errorReason"], "duplicate_settlement", "{method:?}: {answer}");
        // The money moved as signed, so the answer names the transaction of the other sender.
        assert_eq!(answer["extra"]["transaction"], *hash, "{method:?}: {answer}");
        assert_eq!(stage.balance(SHOP).await, before, "{method:?}: nothing moved twice");
    }
    stage.facilitator.stop().await;
    other.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_paused_contract_is_reported() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let prism = stage.pay(&payer, TransferMethod::Prism, 10);
    let permit = stage.pay(&payer, TransferMethod::Permit2, 10);
    stage.chain.pause_prism().await.expect("paused");
    stage.assert_refuses(&[refusal("paused", "prism_unavailable", &prism)]).await;
    stage.chain.unpause_prism().await.expect("unpaused");
    assert_eq!(stage.verify(&prism.body(2)).await["isValid"], true);
    for at in [PRISM, PROXY] {
        stage.chain.request("anvil_setCode", json!([at, "0x"])).await.expect("set");
    }
    let refusals = [
        refusal("no Prism there", "prism_unavailable", &prism),
        refusal("no proxy there", "permit2_proxy_not_deployed", &permit),
    ];
    stage.assert_refuses(&refusals).await;
    stage.facilitator.stop().await;
}

/// A chain with a gas price of 1 gwei, and a facilitator with a lower ceiling.
async fn stage_with_expensive_gas() -> Option<Stage> {
    let chain = full_chain_or_skip(BASE).await?;
    chain.request("anvil_setNextBlockBaseFeePerGas", json!(["0x3b9aca00"])).await.expect("set");
    Some(Stage::on(chain, 1, "", "max_gas_price_gwei = \"0.000000001\"").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn settle_reports_gas_above_the_ceiling_and_spends_nothing() {
    let Some(stage) = stage_with_expensive_gas().await else { return };
    let before = stage.balance(SHOP).await;
    for method in METHODS {
        let body = stage.pay(&stage.payer().await, method, 300).body(2);
        let answer = stage.settle(&body).await;
        check_settle("gas is dear", &body, &answer);
        assert_eq!(answer["errorReason"], "gas_too_high", "{method:?}: {answer}");
        assert_eq!(answer["transaction"], "", "{method:?}: {answer}");
    }
    assert_eq!(stage.balance(SHOP).await, before);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_reports_gas_above_the_ceiling() {
    let Some(stage) = stage_with_expensive_gas().await else { return };
    for method in METHODS {
        let paid = stage.pay(&stage.payer().await, method, 300);
        stage.assert_refuses(&[refusal("gas is dear", "gas_too_high", &paid)]).await;
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_payees_and_tokens_are_refused() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let token = chain.deploy_token("Other", "1", TokenMode::Honest).await.expect("deployed");
    let general = format!("pay_to = [\"{SHOP}\"]");
    let stage = Stage::on(chain, 1, &general, &format!("tokens = [\"{OTHER}\"]")).await;
    for method in METHODS {
        let payer = stage.payer().await;
        let terms = payment_terms(&stage, &payer, method);
        let astray = payer.pay(method, &PaymentTerms { to: OTHER, ..terms.clone() });
        let foreign = payer.pay(method, &PaymentTerms { token, ..terms.clone() });
        // If the seller is not served, the facilitator reads nothing of the payment, so the answer names no payer.
        let refusals = [
            refusal("to a stranger", "pay_to_not_allowed", &astray),
            refusal("a foreign token", "asset_not_allowed", &foreign),
        ];
        stage.assert_refuses(&refusals.map(|refusal| Refusal { payer: None, ..refusal })).await;
        assert_eq!(
            stage.settle(&payer.pay(method, &terms).body(2)).await["success"],
            true,
            "{method:?}"
        );
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_nodes_are_reported_with_503() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let body = stage.pay(&stage.payer().await, TransferMethod::Eip3009, 300).body(2);
    stage.chain.kill();
    for (path, field, code) in [
        ("/verify", "invalidReason", "unexpected_verify_error"),
        ("/settle", "errorReason", "unexpected_settle_error"),
    ] {
        let request = stage.facilitator.request("POST", path).json(&body);
        let answer = request.send().await.expect("answered");
        assert_eq!(answer.status(), 503, "{path}");
        assert!(answer.headers().contains_key("retry-after"), "{path}");
        let reply: Value = answer.json().await.expect("JSON");
        assert_eq!(reply[field], code, "{path}: {reply}");
    }
}

/// Asserts that every code occurs in a test of this folder.
#[test]
fn every_code_has_a_test_that_causes_it() {
    let here = [
        include_str!("refusals.rs"),
        include_str!("hostile_wallets.rs"),
        include_str!("lying_tokens.rs"),
        include_str!("repeats.rs"),
        include_str!("gas.rs"),
        include_str!("upto.rs"),
        include_str!("channel_refusals.rs"),
        include_str!("authorizer.rs"),
        include_str!("sponsoring_refusals.rs"),
        include_str!("troubles.rs"),
        // These tests cover a used nonce whose transaction is unknown.
        include_str!("../../lanes/chain/sdk.rs"),
    ]
    .concat();
    let missing: BTreeSet<&str> = Reason::ALL
        .iter()
        .map(|reason| reason.text())
        // The tests of channels write their codes without the prefix of the scheme.
        .filter(|code| {
            let short = code.strip_prefix("invalid_batch_settlement_evm_").unwrap_or(code);
            !here.contains(&format!("\"{short}\""))
        })
        .collect();
    assert_eq!(missing, BTreeSet::new());
}
