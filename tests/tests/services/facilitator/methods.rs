//! Every method, payer kind and protocol version: the payment verifies, settles and moves once, and a
//! repeat gets the same answer.

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_tests::payer::{PERMIT2, Payer, SignedPayment, TransferMethod};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage};

/// The kind of account that pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountKind {
    Key,
    /// A deployed contract (EIP-1271).
    Wallet,
    /// A contract that is not deployed yet (EIP-6492).
    Undeployed,
}

async fn sign_payment(
    stage: &Stage,
    method: TransferMethod,
    kind: AccountKind,
    amount: u64,
) -> SignedPayment {
    let payer = stage.payer().await;
    let chain = &stage.chain;
    let mut terms = payer.terms(stage.network(), SHOP, amount);
    match kind {
        AccountKind::Key => {
            if method == TransferMethod::Prism {
                terms.nonce = B256::ZERO;
            }
            payer.pay(method, &terms)
        }
        AccountKind::Wallet => {
            terms.from = chain.deploy_wallet(payer.address()).await.expect("deployed");
            set_up_wallet(stage, terms.from).await;
            payer.pay(method, &terms)
        }
        AccountKind::Undeployed => {
            let salt = U256::from_be_bytes(terms.nonce.0);
            let planned = chain.counterfactual(payer.address(), salt).await.expect("planned");
            terms.from = planned.wallet;
            set_up_wallet(stage, terms.from).await;
            payer.pay_undeployed(method, &terms, planned.factory, &planned.calldata)
        }
    }
}

async fn set_up_wallet(stage: &Stage, wallet: Address) {
    stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
    stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
    // No contract can be deployed at an address with a nonce (EIP-684): keep the approval, reset the nonce.
    stage.chain.request("anvil_setNonce", json!([wallet, "0x0"])).await.expect("set");
}

fn bodies(paid: &SignedPayment) -> [Value; 2] {
    [paid.body(1), paid.body(2)]
}

async fn every_method_on(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 1, "").await else { return };
    let cases = [
        (TransferMethod::Eip3009, AccountKind::Key),
        (TransferMethod::Eip3009, AccountKind::Wallet),
        (TransferMethod::Eip3009, AccountKind::Undeployed),
        (TransferMethod::Permit2, AccountKind::Key),
        (TransferMethod::Permit2, AccountKind::Wallet),
        (TransferMethod::Permit2, AccountKind::Undeployed),
        (TransferMethod::Prism, AccountKind::Key),
    ];
    for (method, kind) in cases {
        for version in [0, 1] {
            let amount = 1_000 + u64::try_from(version).expect("small");
            let paid = sign_payment(&stage, method, kind, amount).await;
            let [v1, v2] = bodies(&paid);
            let body = if version == 0 { v1 } else { v2 };
            let case = format!("{method:?} {kind:?} version {}", version + 1);
            let before = (stage.balance(paid.terms.from).await, stage.balance(SHOP).await);
            let answer = stage.verify(&body).await;
            assert_eq!(answer, json!({ "isValid": true, "payer": paid.terms.from }), "{case}");
            let answer = stage.settle(&body).await;
            assert_eq!(answer["success"], true, "{case}: {answer}");
            assert_eq!(answer["payer"], json!(paid.terms.from), "{case}");
            assert_eq!(answer["network"], body["paymentRequirements"]["network"], "{case}");
            let moved = U256::from(amount);
            let after = (stage.balance(paid.terms.from).await, stage.balance(SHOP).await);
            assert_eq!(after, (before.0 - moved, before.1 + moved), "{case}");
            let again = stage.settle(&body).await;
            assert_eq!(again, answer, "{case}: the same answer");
            let after_again = (stage.balance(paid.terms.from).await, stage.balance(SHOP).await);
            assert_eq!(after_again, after, "{case}: nothing moved twice");
        }
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_and_payer_is_settled_on_base() {
    every_method_on(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_and_payer_is_settled_on_robinhood() {
    every_method_on(ROBINHOOD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_form_of_older_clients_is_settled_too() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    for method in [TransferMethod::Eip3009, TransferMethod::Prism] {
        let body = stage.pay(&payer, method, 700).short_body();
        assert_eq!(stage.verify(&body).await["isValid"], true, "{method:?}");
        assert_eq!(stage.settle(&body).await["success"], true, "{method:?}");
    }
    let poor = Payer::random();
    let body = stage.pay(&poor, TransferMethod::Eip3009, 700).short_body();
    let (status, answer) = stage.facilitator.post("/settle", &body).await;
    assert_eq!(status, 402, "they judge by the status alone: {answer}");
    assert_eq!(answer["errorReason"], "insufficient_balance");
    assert!(answer["error"].is_string());
}
