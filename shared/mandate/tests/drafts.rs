//! The mandates that we issue: the same text for the same terms, and good for every verifier.

#![expect(clippy::unwrap_used, reason = "helpers of an integration test stand outside #[test]")]

use alloy_primitives::Address;
use bursar_core::json::Value;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_mandate::{AgentMember, Draft, Fingerprint, Limits, MandateId, PolicyId, Terms, read};
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;
use proptest::prelude::*;

fn key(seed: [u8; 32]) -> Option<(SigningKey, Address)> {
    let key = SigningKey::from_slice(&seed).ok()?;
    let point = key.verifying_key().to_encoded_point(false);
    let address = Address::from_raw_public_key(&point.as_bytes()[1..]);
    Some((key, address))
}

fn sign(key: &SigningKey, draft: &Draft) -> Signature65 {
    let digest = draft.digest();
    let (scalars, parity) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let mut bytes = [0; 65];
    bytes[..64].copy_from_slice(&scalars.to_bytes());
    bytes[64] = 27 + parity.to_byte();
    Signature65::from_bytes(&bytes).unwrap()
}

prop_compose! {
    fn terms(wallet: Address)(
        agent in any::<[u8; 8]>(),
        fingerprint in any::<[u8; 8]>(),
        policy_id in any::<[u8; 16]>(),
        limits in [0..=1_000_000_000_000_000u64, 0..=10, 0..=10_000_000],
        networks in prop::collection::vec(1..10_000_000_000u64, 1..5),
    ) -> Terms {
        let [daily, per_request, auto_below] = limits.map(Usd);
        Terms {
            agent: bursar_core::ids::AgentId::from_entropy(agent),
            fingerprint: Fingerprint(fingerprint),
            policy_id: PolicyId::from_entropy(policy_id),
            limits: Limits { currency: "USDC".to_owned(), daily, per_request, auto_below },
            networks: networks.into_iter().map(ChainId).collect(),
            wallet,
        }
    }
}

#[test]
fn draft_has_the_form_of_the_original_wallet() {
    let draft = Draft {
        id: MandateId::from_entropy([1; 16]),
        issued: Utc::from_seconds(1_795_737_600),
        agent_member: AgentMember::Id,
        issuer_version: "0.1.0".to_owned(),
        terms: Terms {
            agent: "IXL290".parse().unwrap(),
            fingerprint: Fingerprint([0xab; 8]),
            policy_id: PolicyId::from_entropy([2; 16]),
            limits: Limits {
                currency: "USDC".to_owned(),
                daily: Usd(10_000_000),
                per_request: Usd(5_000_000),
                auto_below: Usd(0),
            },
            networks: vec![ChainId(4663), ChainId(8453)],
            wallet: Address::repeat_byte(0x11),
        },
    };
    let text = "{\"agent\":{\"authKeyFingerprint\":\"abababababababab\",\"id\":\"IXL290\"},\
        \"authorization\":{\"limits\":{\"autoApproveBelow\":0,\"currency\":\"USDC\",\"dailyLimit\":10000000,\
        \"decimals\":6,\"perRequestMax\":5000000},\"networks\":[\"eip155:4663\",\"eip155:8453\"],\
        \"policyId\":\"02020202-0202-4202-8202-020202020202\"},\"id\":\"01010101-0101-4101-8101-010101010101\",\
        \"issuedAt\":\"2026-11-27T00:00:00Z\",\"issuer\":{\"type\":\"Bursar\",\"version\":\"0.1.0\"},\
        \"type\":\"IntentMandate\",\"version\":\"ap2.primer/v0.1\",\
        \"wallet\":{\"address\":\"0x1111111111111111111111111111111111111111\"}}";
    assert_eq!(draft.text(), text);
    let pay = Draft { agent_member: AgentMember::Code, ..draft };
    assert_eq!(pay.text(), text.replace("\"id\":\"IXL290\"", "\"code\":\"IXL290\""));
}

proptest! {
    #[test]
    fn signed_draft_is_good_and_keeps_its_text(
        seed in any::<[u8; 32]>(),
        id in any::<[u8; 16]>(),
        seconds in 0..4_000_000_000i64,
        is_code in any::<bool>(),
        terms in terms(Address::ZERO),
        other in terms(Address::ZERO),
    ) {
        let Some((key, wallet)) = key(seed) else { return Ok(()) };
        let draft = Draft {
            id: MandateId::from_entropy(id),
            issued: Utc::from_seconds(seconds),
            agent_member: if is_code { AgentMember::Code } else { AgentMember::Id },
            issuer_version: "0.1.0".to_owned(),
            terms: Terms { wallet, ..terms },
        };
        let signature = sign(&key, &draft);
        let whole = Value::from(draft.signed(&signature)).to_compact();
        let found = read(whole.as_bytes()).unwrap();
        prop_assert_eq!(&found.defects, &[]);
        prop_assert_eq!(&found.text, &draft.text());
        prop_assert_eq!(found.signer, Some(wallet));
        let stored = postcard::to_allocvec(&draft).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Draft>(&stored).unwrap(), draft.clone());
        // The signature of one draft is not good for another.
        let other = Draft { terms: Terms { wallet, ..other }, ..draft.clone() };
        let forged = Value::from(other.signed(&signature)).to_compact();
        prop_assert_eq!(read(forged.as_bytes()).unwrap().is_good(), other == draft);
    }
}
