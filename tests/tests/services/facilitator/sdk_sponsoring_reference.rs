//! Our facilitator and that of npm's `@x402/evm` receive the same requests of payers without an allowance, each on
//! its own chain with the same signer. Every field that differs is listed with its reason.

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_tests::payer::{Payer, TransferMethod, now_s};
use bursar_tests::sponsored::{ApprovalTerms, PermitTerms};
use serde_json::{Value, json};

use crate::facilitator::channel::Channel;
use crate::facilitator::reference_differences::{
    ABSENT, Difference, EVERY_CASE, LOWER_CASE, MIXED_CASE, REASON_ADDRESS_SPELLING,
    REASON_NEXT_STEP, TEXT, assert_differ_as_listed, differs,
};
use crate::facilitator::reference_pair::{Case, Pair, settle, verify};
use crate::facilitator::sponsoring::{KINDS, PaymentKind};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP};

const PRICE: u64 = 10_000;

const REASON_AMOUNTS_COMPARED: &str =
    "We compare the two amounts before we simulate, and so name the cause.";
const REASON_PERMIT_IGNORED: &str =
    "The collector ignores a permit that the token rejects: what is missing is the allowance.";

const DIFFERENCES: [Difference; 6] = [
    differs(
        "Exact, permit, another amount",
        "invalidReason",
        "permit2_allowance_required",
        "permit2_2612_amount_mismatch",
        REASON_AMOUNTS_COMPARED,
    ),
    differs(
        "Upto, permit, another amount",
        "invalidReason",
        "permit2_allowance_required",
        "permit2_2612_amount_mismatch",
        REASON_AMOUNTS_COMPARED,
    ),
    differs(
        "Deposit, permit, used nonce",
        "invalidReason",
        "invalid_batch_settlement_evm_deposit_simulation_failed",
        "invalid_batch_settlement_evm_permit2_allowance_required",
        REASON_PERMIT_IGNORED,
    ),
    differs(EVERY_CASE, "payer", MIXED_CASE, LOWER_CASE, REASON_ADDRESS_SPELLING),
    differs(EVERY_CASE, "invalidMessage", ABSENT, TEXT, REASON_NEXT_STEP),
    differs(EVERY_CASE, "errorMessage", ABSENT, TEXT, REASON_NEXT_STEP),
];

impl Pair {
    /// Builds a request of a new payer that has no allowance, but has coin for an approval.
    async fn bare_request(&self, kind: PaymentKind) -> (Payer, Value) {
        let payer = self.payer_without_approval(INITIAL_BALANCE).await;
        let network = self.stage.network();
        for chain in [&self.stage.chain, &self.their_chain] {
            let coin = ApprovalTerms::new(network.chain.0, self.stage.coin()).coin();
            let set = json!([payer.address(), coin]);
            chain.request("anvil_setBalance", set).await.expect("set");
        }
        let mut terms = payer.terms(network, SHOP, PRICE);
        let body = match kind {
            PaymentKind::Exact => payer.pay(TransferMethod::Permit2, &terms).body(2),
            PaymentKind::Upto => {
                terms.facilitator = self.stage.home.signers[0];
                payer.pay(TransferMethod::Upto, &terms).body(2)
            }
            PaymentKind::Deposit => {
                let receiver = Payer::random().address();
                let channel = Channel::new(network, payer.clone(), receiver);
                let mut body = channel.deposit_by_permit2(PRICE.into(), 1_000);
                for place in ["/paymentPayload/accepted", "/paymentRequirements"] {
                    let wanted = body.pointer_mut(place).expect("terms");
                    wanted["extra"]["assetTransferMethod"] = json!("permit2");
                }
                body
            }
        };
        (payer, body)
    }

    /// Requests with an extension: valid ones, and variants with one fault each.
    async fn sponsored_cases(&self, kind: PaymentKind) -> Vec<Case> {
        let coin = &self.stage.network().stablecoin;
        let permit = PermitTerms {
            token: coin.address,
            domain: coin.domain_separator,
            value: U256::from(PRICE),
            nonce: 0,
            deadline: now_s() + 400,
        };
        let approval = ApprovalTerms::new(self.stage.network().chain.0, coin.address);
        let (payer, body) = self.bare_request(kind).await;
        let with = |extensions: &Value| {
            let mut body = body.clone();
            body["paymentPayload"]["extensions"] = extensions.clone();
            body
        };
        let changed = |extensions: Value, member: &str, value: Value| {
            let mut extensions = extensions;
            let key = extensions.as_object().and_then(|all| all.keys().next().cloned());
            extensions[key.expect("a key")]["info"][member] = value;
            with(&extensions)
        };
        let of_permit = |member, value| changed(payer.permit(&permit), member, value);
        let of_approval = |member, value| changed(payer.approval(&approval), member, value);
        let signed = |terms: &ApprovalTerms| {
            let raw = hex::encode(payer.signed_approval(terms));
            of_approval("signedTransaction", json!(format!("0x{raw}")))
        };
        let foreign = hex::encode(Payer::random().signed_approval(&approval));
        let named = |name: &str| format!("{kind:?}, {name}");
        let mut cases: Vec<Case> = [
            ("no extension", body.clone()),
            ("permit", with(&payer.permit(&permit))),
            ("permit, signature too short", of_permit("signature", json!("0xzz"))),
            ("permit, amount in words", of_permit("amount", json!("much"))),
            ("permit, another payer", of_permit("from", json!(SHOP))),
            ("permit, another token", of_permit("asset", json!(SHOP))),
            ("permit, another spender", of_permit("spender", json!(SHOP))),
            ("permit, expired", with(&payer.permit(&PermitTerms { deadline: 1_000, ..permit }))),
            (
                "permit, another amount",
                with(&payer.permit(&PermitTerms { value: U256::from(PRICE - 1), ..permit })),
            ),
            ("permit, used nonce", with(&payer.permit(&PermitTerms { nonce: 7, ..permit }))),
            ("permit, incomplete", of_permit("nonce", json!(""))),
            ("approval", with(&payer.approval(&approval))),
            ("approval, no hex", of_approval("signedTransaction", json!("0xzz"))),
            ("approval, another payer", of_approval("from", json!(SHOP))),
            ("approval, another token", of_approval("asset", json!(SHOP))),
            ("approval, another spender", of_approval("spender", json!(SHOP))),
            ("approval, no transaction", of_approval("signedTransaction", json!("0x1234"))),
            ("approval, sent elsewhere", signed(&ApprovalTerms { to: SHOP, ..approval })),
            ("approval, of another spender", signed(&ApprovalTerms { spender: SHOP, ..approval })),
            (
                "approval, of another account",
                of_approval("signedTransaction", json!(format!("0x{foreign}"))),
            ),
        ]
        .map(|(name, body)| verify(named(name), body))
        .into();
        // In the scheme `exact`, the reference returns a whole stack trace as the error code of such a settlement.
        if !matches!(kind, PaymentKind::Exact) {
            cases.push(settle(named("settle without"), body.clone()));
        }
        cases.push(settle(named("settle a permit"), with(&payer.permit(&permit))));
        let (payer, mut body) = self.bare_request(kind).await;
        body["paymentPayload"]["extensions"] = payer.approval(&approval);
        cases.push(settle(named("settle an approval"), body));
        cases
    }
}

async fn answers_differ_only_as_listed(chain: ChainId) {
    let Some(pair) = Pair::set_up(chain).await else { return };
    let mut cases = Vec::new();
    for kind in KINDS {
        cases.extend(pair.sponsored_cases(kind).await);
    }
    let answers = pair.all_answers(&cases).await;
    assert_differ_as_listed(&answers, &DIFFERENCES);
    pair.stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_about_sponsoring_differ_from_the_reference_only_as_listed_on_base() {
    answers_differ_only_as_listed(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_about_sponsoring_differ_from_the_reference_only_as_listed_on_robinhood() {
    answers_differ_only_as_listed(ROBINHOOD).await;
}
