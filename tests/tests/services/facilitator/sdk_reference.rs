//! Our facilitator and the one of npm's `@x402/evm` receive the same requests of the scheme `upto`, each on its own
//! chain with the same signer. Every field that differs is listed with its reason.

use alloy_primitives::Address;
use bursar_core::networks::ChainId;
use bursar_tests::payer::{
    PERMIT2, PROXY, Payer, PaymentTerms, SignedPayment, TransferMethod, now_s,
};
use serde_json::{Value, json};

use crate::facilitator::reference_differences::{
    ABSENT, Difference, EVERY_CASE, HASH, LOWER_CASE, MIXED_CASE, REASON_ADDRESS_SPELLING,
    REASON_ENVELOPE_FIRST, REASON_NEXT_STEP, REASON_PAYER_OMITTED, REASON_REPEAT_FINDS,
    REASON_SETTLED_ONCE, REASON_SPECIFIED_NAME, TEXT, assert_differ_as_listed, differs, fields,
};
use crate::facilitator::reference_pair::{Case, Pair, settle, verify, with_checksums};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP};

const PRICE_MAX: u64 = 10_000;

const REASON_ZERO_CLOSES: &str =
    "Zero closes the authorization, so that the payer can rely on having paid nothing.";
const REASON_USAGE_OWED: &str =
    "The payer owes what was used, and has it. They require the authorized amount as the balance.";

const DIFFERENCES: [Difference; 36] = [
    differs(EVERY_CASE, "payer", MIXED_CASE, LOWER_CASE, REASON_ADDRESS_SPELLING),
    differs(EVERY_CASE, "invalidMessage", ABSENT, TEXT, REASON_NEXT_STEP),
    differs(EVERY_CASE, "errorMessage", ABSENT, TEXT, REASON_NEXT_STEP),
    differs(
        "verify, more is required",
        "invalidReason",
        "permit2_amount_mismatch",
        "invalid_exact_evm_payload_authorization_value",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify, another facilitator",
        "invalidReason",
        "upto_facilitator_mismatch",
        "facilitator_mismatch",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify, expired",
        "invalidReason",
        "permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify, not yet valid",
        "invalidReason",
        "permit2_not_yet_valid",
        "invalid_exact_evm_payload_authorization_valid_after",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify, forged",
        "invalidReason",
        "invalid_permit2_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify, no money",
        "invalidReason",
        "permit2_insufficient_balance",
        "insufficient_balance",
        REASON_SPECIFIED_NAME,
    ),
    differs("verify, another scheme", "payer", MIXED_CASE, ABSENT, REASON_ENVELOPE_FIRST),
    differs("verify, another network", "payer", MIXED_CASE, ABSENT, REASON_ENVELOPE_FIRST),
    differs("verify, another payload", "payer", "", ABSENT, REASON_PAYER_OMITTED),
    differs(
        "settle, another facilitator",
        "errorReason",
        "upto_facilitator_mismatch",
        "facilitator_mismatch",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle, expired",
        "errorReason",
        "permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle, forged",
        "errorReason",
        "invalid_permit2_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle, no money",
        "errorReason",
        "permit2_insufficient_balance",
        "insufficient_balance",
        REASON_SPECIFIED_NAME,
    ),
    differs("settle, money for the part", "success", "false", "true", REASON_USAGE_OWED),
    differs(
        "settle, money for the part",
        "errorReason",
        "permit2_insufficient_balance",
        ABSENT,
        REASON_USAGE_OWED,
    ),
    differs("settle, money for the part", "transaction", "", HASH, REASON_USAGE_OWED),
    differs("settle, money for the part", "amount", ABSENT, "5", REASON_USAGE_OWED),
    differs(
        "settle a part again",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("settle a part again", "extra.transaction", ABSENT, HASH, REASON_REPEAT_FINDS),
    differs(
        "settle another part",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs(
        "settle zero of a settled payment",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs(
        "verify a settled payment",
        "invalidReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("settle zero again", "success", "true", "false", REASON_SETTLED_ONCE),
    differs(
        "settle zero again",
        "errorReason",
        ABSENT,
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("settle zero again", "amount", "0", ABSENT, REASON_SETTLED_ONCE),
    differs("verify a payment closed with zero", "isValid", "true", "false", REASON_ZERO_CLOSES),
    differs(
        "verify a payment closed with zero",
        "invalidReason",
        ABSENT,
        "duplicate_settlement",
        REASON_ZERO_CLOSES,
    ),
    differs("settle a part after zero", "success", "true", "false", REASON_ZERO_CLOSES),
    differs(
        "settle a part after zero",
        "errorReason",
        ABSENT,
        "duplicate_settlement",
        REASON_ZERO_CLOSES,
    ),
    differs("settle a part after zero", "transaction", HASH, "", REASON_ZERO_CLOSES),
    differs("settle a part after zero", "amount", "5", ABSENT, REASON_ZERO_CLOSES),
    differs(
        "supported",
        "kinds.extra.facilitatorAddress",
        MIXED_CASE,
        LOWER_CASE,
        REASON_ADDRESS_SPELLING,
    ),
    differs("supported", "signers", MIXED_CASE, LOWER_CASE, REASON_ADDRESS_SPELLING),
];

impl Pair {
    fn terms(&self, payer: &Payer) -> PaymentTerms {
        let terms = payer.terms(self.stage.network(), SHOP, PRICE_MAX);
        PaymentTerms { facilitator: self.stage.home.signers[0], ..terms }
    }

    fn pay(&self, payer: &Payer) -> SignedPayment {
        payer.pay(TransferMethod::Upto, &self.terms(payer))
    }

    async fn sign_new_payment(&self) -> SignedPayment {
        self.pay(&self.payer(INITIAL_BALANCE).await)
    }

    /// Requests that do not depend on earlier ones.
    async fn single_requests(&self) -> Vec<Case> {
        let payer = self.payer(INITIAL_BALANCE).await;
        let terms = self.terms(&payer);
        let pay = |terms: &PaymentTerms| payer.pay(TransferMethod::Upto, terms);
        let good = pay(&terms);
        let with = |pointer: &str, value: Value| {
            let mut body = good.body(2);
            *body.pointer_mut(pointer).expect("a member") = value;
            body
        };
        let stranger = Address::repeat_byte(9);
        let stranger = pay(&PaymentTerms { facilitator: stranger, ..terms.clone() });
        let expired = pay(&PaymentTerms { valid_before_s: now_s() - 60, ..terms.clone() });
        let early = pay(&PaymentTerms { valid_after_s: now_s() + 3_600, ..terms.clone() });
        let forged = Payer::random().pay(TransferMethod::Upto, &terms);
        let unapproved = self.pay(&self.payer_without_approval(INITIAL_BALANCE).await);
        let poor = self.pay(&self.payer(0).await);
        let partly = self.pay(&self.payer(5).await);
        let eip3009 = payer.pay(TransferMethod::Eip3009, &terms).payload;
        let (wanted, accepted) = ("/paymentRequirements", "/paymentPayload/accepted");
        let spender = "/paymentPayload/payload/permit2Authorization/spender";
        let amount = |amount: u64| with(&format!("{wanted}/amount"), json!(amount.to_string()));
        vec![
            verify("verify", good.body(2)),
            verify("verify, less is required", amount(PRICE_MAX - 1)),
            verify("verify, more is required", amount(PRICE_MAX + 1)),
            verify("verify, another facilitator", stranger.body(2)),
            verify("verify, expired", expired.body(2)),
            verify("verify, not yet valid", early.body(2)),
            verify("verify, forged", forged.body(2)),
            verify("verify, no allowance", unapproved.body(2)),
            verify("verify, no money", poor.body(2)),
            verify("verify, another payee", with(&format!("{wanted}/payTo"), json!(PROXY))),
            verify("verify, another token", with(&format!("{wanted}/asset"), json!(PERMIT2))),
            verify("verify, another spender", with(spender, json!(PROXY))),
            verify("verify, another scheme", with(&format!("{accepted}/scheme"), json!("exact"))),
            verify(
                "verify, another network",
                with(&format!("{accepted}/network"), json!("eip155:1")),
            ),
            verify("verify, another payload", with("/paymentPayload/payload", eip3009)),
            settle("settle, another facilitator", stranger.settle_body(5)),
            settle("settle, expired", expired.settle_body(5)),
            settle("settle, forged", forged.settle_body(5)),
            settle("settle, no allowance", unapproved.settle_body(5)),
            settle("settle, no money", poor.settle_body(5)),
            settle("settle, money for the part", partly.settle_body(5)),
        ]
    }

    /// Requests whose answers depend on the earlier ones.
    async fn settlements(&self) -> Vec<Case> {
        let (part, above, zero) = (
            self.sign_new_payment().await,
            self.sign_new_payment().await,
            self.sign_new_payment().await,
        );
        vec![
            settle("settle above the cap", above.settle_body(PRICE_MAX + 1)),
            settle("settle the cap afterwards", above.settle_body(PRICE_MAX)),
            settle("settle a part", part.settle_body(4_321)),
            settle("settle a part again", part.settle_body(4_321)),
            settle("settle another part", part.settle_body(7)),
            settle("settle zero of a settled payment", part.settle_body(0)),
            verify("verify a settled payment", part.body(2)),
            settle("settle zero", zero.settle_body(0)),
            settle("settle zero again", zero.settle_body(0)),
            verify("verify a payment closed with zero", zero.body(2)),
            settle("settle a part after zero", zero.settle_body(5)),
        ]
    }
}

async fn answers_differ_only_as_listed(chain: ChainId) {
    let Some(pair) = Pair::set_up(chain).await else { return };
    let offers = pair.offers("upto").await;
    for offer in &offers {
        let named = &offer["kinds"]["extra"]["facilitatorAddress"];
        assert_eq!(with_checksums(named), with_checksums(&offer["signers"]));
    }
    let cases = [pair.single_requests().await, pair.settlements().await].concat();
    let mut answers = pair.all_answers(&cases).await;
    answers.push(("supported".to_owned(), offers.map(|offer| fields(200, &offer))));
    assert_differ_as_listed(&answers, &DIFFERENCES);
    pair.stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_differ_from_the_reference_only_as_listed_on_base() {
    answers_differ_only_as_listed(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_differ_from_the_reference_only_as_listed_on_robinhood() {
    answers_differ_only_as_listed(ROBINHOOD).await;
}
