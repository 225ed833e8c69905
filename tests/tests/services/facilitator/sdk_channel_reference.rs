//! Our facilitator and the one of npm's `@x402/evm` receive the same requests of the scheme `batch-settlement`, each on
//! its own chain with the same signer. Every field that differs is listed with its reason.

use alloy_primitives::B256;
use bursar_core::networks::ChainId;
use bursar_tests::payer::{PERMIT2, PROXY, Payer};
use serde_json::{Value, json};

use crate::facilitator::channel::{Channel, DEPOSIT, PRICE};
use crate::facilitator::reference_differences::{assert_differ_as_listed, fields};
use crate::facilitator::reference_pair::{Case, Pair, settle, verify};
use crate::facilitator::sdk_channel_differences::DIFFERENCES;
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD};

const PAYLOAD_POINTER: &str = "/paymentPayload/payload";
const ACCEPTED_POINTER: &str = "/paymentPayload/accepted";
const REQUIREMENTS_POINTER: &str = "/paymentRequirements";
const EIP3009_POINTER: &str = "/paymentPayload/payload/deposit/authorization/erc3009Authorization";
const PERMIT2_POINTER: &str = "/paymentPayload/payload/deposit/authorization/permit2Authorization";

/// The deposits that are also settled.
const SETTLED_DEPOSITS: [&str; 9] = [
    "voucher above it",
    "forged voucher",
    "forged authorization",
    "forged permit",
    "expired",
    "expired permit",
    "no money",
    "no allowance",
    "another payee",
];

/// Returns the request with another value for one member.
fn with(body: &Value, parent: &str, key: &str, value: Value) -> Value {
    let mut body = body.clone();
    body.pointer_mut(parent).expect("an object")[key] = value;
    body
}

/// Returns the request without one member of the payload.
fn without(body: &Value, key: &str) -> Value {
    let mut body = body.clone();
    let payload =
        body.pointer_mut(PAYLOAD_POINTER).and_then(Value::as_object_mut).expect("an object");
    payload.remove(key).expect("a member");
    body
}

/// Returns a signature by a key that is unrelated to the channel.
fn unrelated_signature() -> Value {
    json!(Payer::random().sign(B256::repeat_byte(1)))
}

/// Builds a payer's request for a refund, as the payer sends it to its merchant.
fn refund_request(channel: &Channel, ceiling: u128) -> Value {
    channel.body(json!({
        "type": "refund", "channelConfig": channel.config_json(),
        "voucher": channel.voucher_json(ceiling),
    }))
}

impl Pair {
    fn channel_of(&self, payer: Payer) -> Channel {
        Channel::new(self.stage.network(), payer, Payer::random().address())
    }

    async fn channel(&self) -> Channel {
        self.channel_of(self.payer(INITIAL_BALANCE).await)
    }

    /// Deposits that are only verified, some of which are refused.
    async fn deposits(&self) -> Vec<Case> {
        let channel = self.channel().await;
        let good = channel.deposit(DEPOSIT, PRICE);
        let permit = channel.deposit_by_permit2(DEPOSIT, PRICE);
        let poor = self.channel_of(self.payer(DEPOSIT - 1).await);
        let unapproved = self.channel_of(self.payer_without_approval(INITIAL_BALANCE).await);
        let other = self.channel().await;
        let voucher = format!("{PAYLOAD_POINTER}/voucher");
        let extra = format!("{REQUIREMENTS_POINTER}/extra");
        let bodies = [
            ("good", good.clone()),
            ("by Permit2", permit.clone()),
            ("voucher for all of it", channel.deposit(DEPOSIT, DEPOSIT)),
            ("voucher above it", channel.deposit(DEPOSIT, DEPOSIT + 1)),
            ("voucher for nothing", channel.deposit(DEPOSIT, 0)),
            ("of nothing", channel.deposit(0, PRICE)),
            ("forged voucher", with(&good, &voucher, "signature", unrelated_signature())),
            (
                "forged authorization",
                with(&good, EIP3009_POINTER, "signature", unrelated_signature()),
            ),
            ("forged permit", with(&permit, PERMIT2_POINTER, "signature", unrelated_signature())),
            ("expired", with(&good, EIP3009_POINTER, "validBefore", json!("1000000000"))),
            ("not yet valid", with(&good, EIP3009_POINTER, "validAfter", json!("99999999999"))),
            ("expired permit", with(&permit, PERMIT2_POINTER, "deadline", json!("1000000000"))),
            ("another spender", with(&permit, PERMIT2_POINTER, "spender", json!(PROXY))),
            ("another permitted amount", {
                let permitted = json!({ "token": channel.config.token, "amount": "7" });
                with(&permit, PERMIT2_POINTER, "permitted", permitted)
            }),
            (
                "another witness",
                with(&permit, PERMIT2_POINTER, "witness", json!({ "channelId": other.id })),
            ),
            ("no money", poor.deposit(DEPOSIT, PRICE)),
            ("no allowance", unapproved.deposit_by_permit2(DEPOSIT, PRICE)),
            ("Permit2 is required", with(&good, &extra, "assetTransferMethod", json!("permit2"))),
            ("another channel id", with(&good, &voucher, "channelId", json!(other.id))),
            ("another payee", with(&good, REQUIREMENTS_POINTER, "payTo", json!(PROXY))),
            ("another token", with(&good, REQUIREMENTS_POINTER, "asset", json!(PERMIT2))),
            ("another authorizer", with(&good, &extra, "receiverAuthorizer", json!(PROXY))),
            ("another delay", with(&good, &extra, "withdrawDelay", json!(901))),
            ("another scheme", with(&good, ACCEPTED_POINTER, "scheme", json!("exact"))),
            ("another network", with(&good, ACCEPTED_POINTER, "network", json!("eip155:1"))),
            ("another type", with(&good, PAYLOAD_POINTER, "type", json!("stream"))),
        ];
        let mut cases: Vec<Case> = bodies
            .iter()
            .map(|(name, body)| verify(format!("verify a deposit, {name}"), body.clone()))
            .collect();
        for (name, body) in bodies {
            if SETTLED_DEPOSITS.contains(&name) {
                cases.push(settle(format!("settle a deposit, {name}"), body));
            }
        }
        cases
    }

    /// Vouchers, claims, payouts and refunds; each answer depends on the earlier ones.
    async fn life_cases(&self) -> Vec<Case> {
        let (channel, unknown) = (self.channel().await, self.channel().await);
        [
            opening_cases(&channel),
            voucher_cases(&channel, &unknown),
            claim_cases(&channel, &unknown),
        ]
        .into_iter()
        .chain([cases_after_claims(&channel), refund_cases(&channel, &unknown)])
        .flatten()
        .collect()
    }
}

/// Returns the cases after which the channel contains two deposits.
fn opening_cases(channel: &Channel) -> Vec<Case> {
    let first = channel.deposit(DEPOSIT, PRICE);
    vec![
        settle("settle a deposit", first.clone()),
        settle("settle a deposit again", first.clone()),
        verify("verify a settled deposit", first),
        settle("settle a deposit by Permit2", channel.deposit_by_permit2(DEPOSIT, PRICE)),
    ]
}

fn voucher_cases(channel: &Channel, unknown: &Channel) -> Vec<Case> {
    let good = channel.voucher(2 * PRICE);
    let forged_voucher =
        with(&good, &format!("{PAYLOAD_POINTER}/voucher"), "signature", unrelated_signature());
    vec![
        verify("verify a voucher", good.clone()),
        verify("verify a voucher for everything", channel.voucher(2 * DEPOSIT)),
        verify("verify a voucher above the balance", channel.voucher(2 * DEPOSIT + 1)),
        verify("verify a forged voucher", forged_voucher),
        verify("verify a voucher of an unknown channel", unknown.voucher(PRICE)),
        settle("settle a voucher", good),
        verify("verify a request for a refund", refund_request(channel, PRICE)),
        verify(
            "verify a request for a refund above the balance",
            refund_request(channel, 2 * DEPOSIT + 1),
        ),
        verify(
            "verify a request for a refund of an unknown channel",
            refund_request(unknown, PRICE),
        ),
        settle("settle a request for a refund", refund_request(channel, PRICE)),
        verify("verify a completed refund", channel.refund(PRICE, 0, PRICE)),
        verify("verify a claim", channel.claim(PRICE, PRICE)),
        verify("verify a payout", channel.sweep()),
    ]
}

/// Returns the cases after which two prices are claimed.
fn claim_cases(channel: &Channel, unknown: &Channel) -> Vec<Case> {
    let good = channel.claim(3 * PRICE, 2 * PRICE);
    let row = format!("{PAYLOAD_POINTER}/claims/0");
    vec![
        settle("settle a payout before any claim", channel.sweep()),
        settle(
            "settle a claim with a forged voucher",
            with(&good, &row, "signature", unrelated_signature()),
        ),
        settle(
            "settle a claim with a forged consent",
            with(&good, PAYLOAD_POINTER, "claimAuthorizerSignature", unrelated_signature()),
        ),
        settle("settle a claim without consent", without(&good, "claimAuthorizerSignature")),
        settle("settle a claim above its voucher", channel.claim(PRICE, PRICE + 1)),
        settle("settle a claim above the balance", channel.claim(2 * DEPOSIT + 1, 2 * DEPOSIT + 1)),
        settle("settle a claim of an unknown channel", unknown.claim(PRICE, PRICE)),
        settle("settle a claim", good.clone()),
        settle("settle a claim again", good),
        settle("settle a claim that adds nothing", channel.claim(4 * PRICE, 2 * PRICE)),
        settle("settle a claim of less", channel.claim(3 * PRICE, PRICE)),
    ]
}

fn cases_after_claims(channel: &Channel) -> Vec<Case> {
    vec![
        verify("verify a voucher equal to what was claimed", channel.voucher(2 * PRICE)),
        verify("verify a voucher below what was claimed", channel.voucher(PRICE)),
        verify(
            "verify a request for a refund equal to what was claimed",
            refund_request(channel, 2 * PRICE),
        ),
        verify(
            "verify a request for a refund below what was claimed",
            refund_request(channel, PRICE),
        ),
        verify("verify a deposit below what was claimed", channel.deposit(DEPOSIT, PRICE)),
        settle("settle a payout", channel.sweep()),
        settle("settle a payout again", channel.sweep()),
    ]
}

/// Returns the cases that refund all unclaimed money to the payer.
fn refund_cases(channel: &Channel, unknown: &Channel) -> Vec<Case> {
    let part = channel.refund(PRICE, 0, 0);
    vec![
        settle(
            "settle a refund with a forged consent",
            with(&part, PAYLOAD_POINTER, "refundAuthorizerSignature", unrelated_signature()),
        ),
        settle("settle a refund without consent", without(&part, "refundAuthorizerSignature")),
        settle("settle a refund of nothing", channel.refund(0, 0, 0)),
        settle("settle a refund of an unknown channel", unknown.refund(PRICE, 0, 0)),
        settle("settle a refund with a later nonce", channel.refund(PRICE, 1, 0)),
        settle("settle a refund of a part", part.clone()),
        settle("settle a refund of a part again", part),
        settle("settle a refund with an old nonce", channel.refund(PRICE + 1, 0, 0)),
        settle("settle a refund with a claim", channel.refund(PRICE, 1, 3 * PRICE)),
        settle(
            "settle a refund with a claim that adds nothing",
            channel.refund(PRICE, 2, 3 * PRICE),
        ),
        settle("settle a refund of more than is left", channel.refund(u128::MAX, 3, 0)),
        settle("settle a refund of a channel without money", channel.refund(PRICE, 4, 0)),
        settle("settle the last payout", channel.sweep()),
        settle("settle a deposit of another channel", unknown.deposit(DEPOSIT, PRICE)),
        settle("settle a refund of another channel id", {
            let refund = unknown.refund(PRICE, 0, 0);
            with(&refund, &format!("{PAYLOAD_POINTER}/voucher"), "channelId", json!(channel.id))
        }),
    ]
}

async fn answers_differ_only_as_listed(chain: ChainId) {
    let Some(pair) = Pair::set_up(chain).await else { return };
    let cases = [pair.deposits().await, pair.life_cases().await].concat();
    let mut answers = pair.all_answers(&cases).await;
    let offers = pair.offers("batch-settlement").await;
    answers.push(("supported".to_owned(), offers.map(|offer| fields(200, &offer))));
    assert_differ_as_listed(&answers, &DIFFERENCES);
    pair.stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_about_channels_differ_from_the_reference_only_as_listed_on_base() {
    answers_differ_only_as_listed(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_about_channels_differ_from_the_reference_only_as_listed_on_robinhood() {
    answers_differ_only_as_listed(ROBINHOOD).await;
}
