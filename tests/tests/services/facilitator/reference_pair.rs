//! Our facilitator and that of npm's `@x402/evm`, each on its own chain with the same signer.

use alloy_primitives::Address;
use bursar_core::networks::ChainId;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::payer::{PERMIT2, Payer};
use bursar_tests::sdk::Script;
use serde_json::{Value, json};

use crate::facilitator::reference_differences::{Fields, fields};
use crate::facilitator::stage::Stage;

/// Our facilitator and the reference one, each on a chain in the same state.
pub(crate) struct Pair {
    pub(crate) stage: Stage,
    pub(crate) their_chain: Devnet,
    their_url: String,
    client: reqwest::Client,
    _script: Script,
}

/// A request of the comparison.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) path: &'static str,
    pub(crate) body: Value,
}

pub(crate) fn verify(name: impl Into<String>, body: Value) -> Case {
    Case { name: name.into(), path: "/verify", body }
}

pub(crate) fn settle(name: impl Into<String>, body: Value) -> Case {
    Case { name: name.into(), path: "/settle", body }
}

impl Pair {
    pub(crate) async fn set_up(chain: ChainId) -> Option<Self> {
        let stage = Stage::with_authorizer(chain).await?;
        let their_chain = full_chain_or_skip(chain).await?;
        let key = std::fs::read_to_string(stage.home.folder().join("signer0.key")).expect("read");
        let network = stage.network().caip2();
        let args = [their_chain.url(), &network, &format!("0x{key}")];
        let script = Script::start("facilitator.mjs", &args).await;
        let their_url = script.ready_text.clone();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Some(Self { stage, their_chain, their_url, client, _script: script })
    }

    /// Creates a payer that has this balance on both chains and has not approved Permit2.
    pub(crate) async fn payer_without_approval(&self, balance: u128) -> Payer {
        let payer = Payer::random();
        for chain in [&self.stage.chain, &self.their_chain] {
            chain.mint(payer.address(), balance).await.expect("minted");
        }
        payer
    }

    pub(crate) async fn payer(&self, balance: u128) -> Payer {
        let payer = self.payer_without_approval(balance).await;
        for chain in [&self.stage.chain, &self.their_chain] {
            let approved = chain.approve_as(payer.address(), self.stage.coin(), PERMIT2).await;
            approved.expect("approved");
        }
        payer
    }

    /// Returns the reference's offer of a scheme with its signer, and ours.
    pub(crate) async fn offers(&self, scheme: &str) -> [Value; 2] {
        let theirs = self.client.get(format!("{}/supported", self.their_url)).send().await;
        let theirs = theirs.expect("an answer").json().await.expect("JSON");
        let (_status, ours) = self.stage.facilitator.get("/supported").await;
        [theirs, ours].map(|answer| offer(&answer, scheme))
    }

    /// Returns the fields of the reference's answer and of ours.
    async fn answers(&self, case: &Case) -> [Fields; 2] {
        let body = with_checksums(&case.body);
        let theirs = self.client.post(format!("{}{}", self.their_url, case.path)).json(&body);
        let theirs = theirs.send().await.expect("an answer");
        let (status, theirs) = (theirs.status().as_u16(), theirs.json().await.expect("JSON"));
        let theirs = fields(status, &theirs);
        let (status, ours) = self.stage.facilitator.post(case.path, &body).await;
        [theirs, fields(status, &ours)]
    }

    /// Returns the fields of the reference's answers and of ours, in the order of the cases.
    pub(crate) async fn all_answers(&self, cases: &[Case]) -> Vec<(String, [Fields; 2])> {
        let mut answers = Vec::new();
        for case in cases {
            answers.push((case.name.clone(), self.answers(case).await));
        }
        answers
    }
}

/// Returns the kind of a scheme and the signer from an answer of `/supported`.
fn offer(answer: &Value, scheme: &str) -> Value {
    let kinds = answer["kinds"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
    let kinds: Vec<&Value> = kinds.filter(|kind| kind["scheme"] == scheme).collect();
    let signers = answer["signers"]["eip155:*"].as_array().expect("signers");
    assert_eq!((kinds.len(), signers.len()), (1, 1), "{answer}");
    json!({ "kinds": kinds[0], "signers": signers[0] })
}

/// Writes addresses with checksums, as official clients do.
pub(crate) fn with_checksums(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), with_checksums(value)));
            Value::Object(members.collect())
        }
        Value::Array(values) => values.iter().map(with_checksums).collect(),
        Value::String(text) => match text.parse::<Address>() {
            Ok(address) => json!(address.to_checksum(None)),
            Err(_other) => value.clone(),
        },
        other => other.clone(),
    }
}
