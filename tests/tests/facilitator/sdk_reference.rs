//! Our facilitator and the one of npm's `@x402/evm` receive the same requests of the scheme `upto`, each on its own
//! chain with the same signer. Every field that differs is listed with its reason.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;
use bursar_core::networks::ChainId;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::payer::{
    PERMIT2, PROXY, Payer, PaymentTerms, SignedPayment, TransferMethod, now_s,
};
use bursar_tests::sdk::Script;
use serde_json::{Value, json};

use crate::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage};

const CAP: u64 = 10_000;

/// A field that is not in an answer.
const ABSENT: &str = "(absent)";
/// An address with the upper-case letters of its checksum, or without.
const MIXED_CASE: &str = "(address in mixed case)";
const LOWER_CASE: &str = "(address in lower case)";
/// Any hash of 32 bytes.
const HASH: &str = "(hash)";
/// Any sentence for people.
const TEXT: &str = "(text)";

/// A field in which the answers to a case differ, and the reason.
#[derive(Debug)]
struct Difference {
    case: &'static str,
    field: &'static str,
    theirs: &'static str,
    ours: &'static str,
    reason: &'static str,
}

const fn differs(
    case: &'static str,
    field: &'static str,
    theirs: &'static str,
    ours: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { case, field, theirs, ours, reason }
}

/// In place of a case: every answer of ours that has the field.
const EVERY: &str = "every answer of ours with the field";

const SPELLING: &str =
    "Addresses are compared by value. Ours are in lower case, theirs as they were sent.";
const SENTENCE: &str = "We add what to do next. The field is optional in the protocol.";
const OUR_NAME: &str = "The specification of this facilitator names the code.";
const UNREAD: &str = "We compare the envelope before we read the payload. The field is optional.";
const NO_PAYER: &str = "We leave the field out instead of an empty address.";
const ONCE: &str =
    "A payment is settled once. The code tells a repeat from a payment that would fail.";
const FINDABLE: &str = "A repeat of the same request finds the transaction that settled it.";
const CLOSED: &str =
    "Zero closes the authorization, so that the payer can rely on having paid nothing.";
const OWED: &str =
    "The payer owes what was used, and has it. They require the authorized amount as the balance.";

const DIFFERENCES: [Difference; 36] = [
    differs(EVERY, "payer", MIXED_CASE, LOWER_CASE, SPELLING),
    differs(EVERY, "invalidMessage", ABSENT, TEXT, SENTENCE),
    differs(EVERY, "errorMessage", ABSENT, TEXT, SENTENCE),
    differs(
        "verify, more is required",
        "invalidReason",
        "permit2_amount_mismatch",
        "invalid_exact_evm_payload_authorization_value",
        OUR_NAME,
    ),
    differs(
        "verify, another facilitator",
        "invalidReason",
        "upto_facilitator_mismatch",
        "facilitator_mismatch",
        OUR_NAME,
    ),
    differs(
        "verify, expired",
        "invalidReason",
        "permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        OUR_NAME,
    ),
    differs(
        "verify, not yet valid",
        "invalidReason",
        "permit2_not_yet_valid",
        "invalid_exact_evm_payload_authorization_valid_after",
        OUR_NAME,
    ),
    differs(
        "verify, forged",
        "invalidReason",
        "invalid_permit2_signature",
        "invalid_signature",
        OUR_NAME,
    ),
    differs(
        "verify, no money",
        "invalidReason",
        "permit2_insufficient_balance",
        "insufficient_balance",
        OUR_NAME,
    ),
    differs("verify, another scheme", "payer", MIXED_CASE, ABSENT, UNREAD),
    differs("verify, another network", "payer", MIXED_CASE, ABSENT, UNREAD),
    differs("verify, another payload", "payer", "", ABSENT, NO_PAYER),
    differs(
        "settle, another facilitator",
        "errorReason",
        "upto_facilitator_mismatch",
        "facilitator_mismatch",
        OUR_NAME,
    ),
    differs(
        "settle, expired",
        "errorReason",
        "permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        OUR_NAME,
    ),
    differs(
        "settle, forged",
        "errorReason",
        "invalid_permit2_signature",
        "invalid_signature",
        OUR_NAME,
    ),
    differs(
        "settle, no money",
        "errorReason",
        "permit2_insufficient_balance",
        "insufficient_balance",
        OUR_NAME,
    ),
    differs("settle, money for the part", "success", "false", "true", OWED),
    differs(
        "settle, money for the part",
        "errorReason",
        "permit2_insufficient_balance",
        ABSENT,
        OWED,
    ),
    differs("settle, money for the part", "transaction", "", HASH, OWED),
    differs("settle, money for the part", "amount", ABSENT, "5", OWED),
    differs(
        "settle a part again",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        ONCE,
    ),
    differs("settle a part again", "extra.transaction", ABSENT, HASH, FINDABLE),
    differs(
        "settle another part",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        ONCE,
    ),
    differs(
        "settle zero of a settled payment",
        "errorReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        ONCE,
    ),
    differs(
        "verify a settled payment",
        "invalidReason",
        "permit2_simulation_failed",
        "duplicate_settlement",
        ONCE,
    ),
    differs("settle zero again", "success", "true", "false", ONCE),
    differs("settle zero again", "errorReason", ABSENT, "duplicate_settlement", ONCE),
    differs("settle zero again", "amount", "0", ABSENT, ONCE),
    differs("verify a payment closed with zero", "isValid", "true", "false", CLOSED),
    differs(
        "verify a payment closed with zero",
        "invalidReason",
        ABSENT,
        "duplicate_settlement",
        CLOSED,
    ),
    differs("settle a part after zero", "success", "true", "false", CLOSED),
    differs("settle a part after zero", "errorReason", ABSENT, "duplicate_settlement", CLOSED),
    differs("settle a part after zero", "transaction", HASH, "", CLOSED),
    differs("settle a part after zero", "amount", "5", ABSENT, CLOSED),
    differs("supported", "kinds.extra.facilitatorAddress", MIXED_CASE, LOWER_CASE, SPELLING),
    differs("supported", "signers", MIXED_CASE, LOWER_CASE, SPELLING),
];

/// Both facilitators, with the same state of the chain behind each.
struct Pair {
    stage: Stage,
    their_chain: Devnet,
    their_url: String,
    client: reqwest::Client,
    _script: Script,
}

/// A request of the comparison.
#[derive(Clone)]
struct Case {
    name: &'static str,
    path: &'static str,
    body: Value,
}

fn verify(name: &'static str, body: Value) -> Case {
    Case { name, path: "/verify", body }
}

fn settle(name: &'static str, body: Value) -> Case {
    Case { name, path: "/settle", body }
}

impl Pair {
    async fn set_up(chain: ChainId) -> Option<Self> {
        let stage = Stage::set_up(chain, 1, "").await?;
        let their_chain = full_chain_or_skip(chain).await?;
        let key = std::fs::read_to_string(stage.home.folder().join("signer0.key")).expect("read");
        let network = stage.network().caip2();
        let args = [their_chain.url(), &network, &format!("0x{key}")];
        let script = Script::start("facilitator.mjs", &args).await;
        let their_url = script.ready.clone();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Some(Self { stage, their_chain, their_url, client, _script: script })
    }

    /// Creates a payer with this balance on both chains, which has not approved Permit2.
    async fn unapproved(&self, balance: u128) -> Payer {
        let payer = Payer::random();
        for chain in [&self.stage.chain, &self.their_chain] {
            chain.mint(payer.address(), balance).await.expect("minted");
        }
        payer
    }

    async fn payer(&self, balance: u128) -> Payer {
        let payer = self.unapproved(balance).await;
        for chain in [&self.stage.chain, &self.their_chain] {
            let approved = chain.approve_as(payer.address(), self.stage.coin(), PERMIT2).await;
            approved.expect("approved");
        }
        payer
    }

    fn terms(&self, payer: &Payer) -> PaymentTerms {
        let terms = payer.terms(self.stage.network(), SHOP, CAP);
        PaymentTerms { facilitator: self.stage.home.signers[0], ..terms }
    }

    fn pay(&self, payer: &Payer) -> SignedPayment {
        payer.pay(TransferMethod::Upto, &self.terms(payer))
    }

    async fn paid(&self) -> SignedPayment {
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
        let unapproved = self.pay(&self.unapproved(INITIAL_BALANCE).await);
        let poor = self.pay(&self.payer(0).await);
        let partly = self.pay(&self.payer(5).await);
        let eip3009 = payer.pay(TransferMethod::Eip3009, &terms).payload;
        let (wanted, accepted) = ("/paymentRequirements", "/paymentPayload/accepted");
        let spender = "/paymentPayload/payload/permit2Authorization/spender";
        let amount = |amount: u64| with(&format!("{wanted}/amount"), json!(amount.to_string()));
        vec![
            verify("verify", good.body(2)),
            verify("verify, less is required", amount(CAP - 1)),
            verify("verify, more is required", amount(CAP + 1)),
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
        let (part, above, zero) = (self.paid().await, self.paid().await, self.paid().await);
        vec![
            settle("settle above the cap", above.settle_body(CAP + 1)),
            settle("settle the cap afterwards", above.settle_body(CAP)),
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

    /// Returns what they offer, and what we offer.
    async fn offers(&self) -> [Fields; 2] {
        let theirs = self.client.get(format!("{}/supported", self.their_url)).send().await;
        let theirs = theirs.expect("an answer").json().await.expect("JSON");
        let (_status, ours) = self.stage.facilitator.get("/supported").await;
        [theirs, ours].map(|answer| fields(200, &offer(&answer)))
    }

    /// Returns the fields of their answer and of ours.
    async fn answers(&self, case: &Case) -> [Fields; 2] {
        let body = checksummed(&case.body);
        let theirs = self.client.post(format!("{}{}", self.their_url, case.path)).json(&body);
        let theirs = theirs.send().await.expect("an answer");
        let (status, theirs) = (theirs.status().as_u16(), theirs.json().await.expect("JSON"));
        let theirs = fields(status, &theirs);
        let (status, ours) = self.stage.facilitator.post(case.path, &body).await;
        [theirs, fields(status, &ours)]
    }
}

/// An answer's fields by their path. Addresses, hashes and sentences are replaced by their kind.
type Fields = BTreeMap<String, String>;

fn fields(status: u16, answer: &Value) -> Fields {
    let mut found = Fields::from([("(status)".to_owned(), status.to_string())]);
    collect("", answer, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut Fields) {
    if let Value::Object(members) = value {
        for (name, value) in members {
            let dot = if path.is_empty() { "" } else { "." };
            collect(&format!("{path}{dot}{name}"), value, found);
        }
        return;
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let kind = match text.parse::<Address>() {
        Ok(_address) if text == text.to_lowercase() => Some(LOWER_CASE),
        Ok(_address) => Some(MIXED_CASE),
        Err(_other) if text.len() == 66 && text.starts_with("0x") => Some(HASH),
        Err(_other) if path.ends_with("Message") && !text.is_empty() => Some(TEXT),
        Err(_other) => None,
    };
    let text = kind.map_or(text, str::to_owned);
    found.insert(path.to_owned(), text);
}

/// Writes addresses as official clients do.
fn checksummed(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), checksummed(value)));
            Value::Object(members.collect())
        }
        Value::String(text) => match text.parse::<Address>() {
            Ok(address) => json!(address.to_checksum(None)),
            Err(_other) => value.clone(),
        },
        other => other.clone(),
    }
}

/// A differing field: its path, their value and ours.
type Differing = [String; 3];

fn differences(theirs: &Fields, ours: &Fields) -> BTreeSet<Differing> {
    let value = |of: &Fields, name: &str| of.get(name).map_or(ABSENT, String::as_str).to_owned();
    let names = theirs.keys().chain(ours.keys());
    let all = names.map(|name| [name.clone(), value(theirs, name), value(ours, name)]);
    all.filter(|[_name, theirs, ours]| theirs != ours).collect()
}

/// The listed differences of a case.
fn listed(case: &str, ours: &Fields) -> BTreeSet<Differing> {
    let rows = DIFFERENCES
        .iter()
        .filter(|row| row.case == case || (row.case == EVERY && ours.contains_key(row.field)));
    rows.map(|row| [row.field, row.theirs, row.ours].map(str::to_owned)).collect()
}

/// The offered kind and the signers of an answer of `/supported`.
fn offer(answer: &Value) -> Value {
    let kinds = answer["kinds"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
    let kinds: Vec<&Value> = kinds.filter(|kind| kind["scheme"] == "upto").collect();
    let signers = answer["signers"]["eip155:*"].as_array().expect("signers");
    assert_eq!((kinds.len(), signers.len()), (1, 1), "{answer}");
    assert_eq!(checksummed(&kinds[0]["extra"]["facilitatorAddress"]), checksummed(&signers[0]));
    json!({ "kinds": kinds[0], "signers": signers[0] })
}

async fn answers_differ_only_as_listed(chain: ChainId) {
    let Some(pair) = Pair::set_up(chain).await else { return };
    let cases = [pair.single_requests().await, pair.settlements().await].concat();
    let mut answers = vec![("supported", pair.offers().await)];
    for case in &cases {
        answers.push((case.name, pair.answers(case).await));
    }
    let mut wrong = Vec::new();
    for (case, [theirs, ours]) in &answers {
        let (found, listed) = (differences(theirs, ours), listed(case, ours));
        if found != listed {
            wrong.push(format!("{case}: {found:#?} instead of {listed:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for row in &DIFFERENCES {
        let is_known =
            row.case == EVERY || answers.iter().any(|(case, _answers)| *case == row.case);
        assert!(is_known && !row.reason.is_empty(), "{row:?}");
    }
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
