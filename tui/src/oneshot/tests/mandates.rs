//! The texts about mandates.

use bursar_control::answers::*;
use serde_json::json;

use super::fixtures::PAYER;
use super::*;

async fn assert_text(name: &str, line: &'static str, answer: Answer) {
    let ran = Scene::of(line).run_with_reply(ok_reply(answer)).await;
    assert_snapshot(name, line, &ran);
}

fn mandate() -> MandateAnswer {
    MandateAnswer {
        agent_id: "ABC123".into(),
        agent: Some("report bot".into()),
        id: "01010101-0101-4101-8101-010101010101".into(),
        status: MandateStatus::InForce,
        registries: Vec::new(),
        stale_reasons: Vec::new(),
        issued: "2026-01-01T00:00:00Z".into(),
        policy: "small spender".into(),
        currency: "USDC".into(),
        daily: "10.00".into(),
        per_request: "5.00".into(),
        auto_below: "0.50".into(),
        networks: vec!["Base".into()],
        address: PAYER.into(),
        fingerprint: "0123456789abcdef".into(),
        digest: format!("0x{}", "12".repeat(32)),
        mandate: Some(json!({ "type": "IntentMandate", "version": "ap2.primer/v0.1" })),
    }
}

fn check() -> MandateCheckAnswer {
    MandateCheckAnswer {
        good: true,
        defects: Vec::new(),
        meaning: "The holder of the paying address's key signed these terms.".into(),
        id: Some("01010101-0101-4101-8101-010101010101".into()),
        issued: Some("2026-01-01T00:00:00Z".into()),
        issuer: Some("Vault 0.4.2".into()),
        agent: Some("ABC123".into()),
        fingerprint: Some("0123456789abcdef".into()),
        policy_id: Some("02020202-0202-4202-8202-020202020202".into()),
        currency: Some("USDG".into()),
        daily: Some("10.000000".into()),
        per_request: None,
        auto_below: Some("0.500000".into()),
        networks: vec!["eip155:4663".into(), "base".into()],
        wallet: Some(PAYER.into()),
        signer: Some(PAYER.into()),
        registry_id: None,
        registry_url: None,
    }
}

#[tokio::test]
async fn mandates_of_agents() {
    assert_text("mandate", "mandate create ABC123", Answer::Mandate(Box::new(mandate()))).await;
    let stale = MandateAnswer {
        status: MandateStatus::Stale,
        stale_reasons: vec!["Daily limit changed".into(), "Allowed networks changed".into()],
        networks: vec!["Robinhood Chain".into(), "Base".into()],
        currency: "USD".into(),
        ..mandate()
    };
    let show = |one: &MandateAnswer| Answer::Mandate(Box::new(one.clone()));
    assert_text("mandate_stale", "mandate show ABC123", show(&stale)).await;
    let unsigned = MandateAnswer { status: MandateStatus::Unsigned, mandate: None, ..mandate() };
    assert_text("mandate_unsigned", "mandate show ABC123", show(&unsigned)).await;
    let retired = MandateAnswer {
        status: MandateStatus::Retired,
        agent: None,
        daily: "0.00".into(),
        ..mandate()
    };
    let mandates = vec![mandate(), stale, unsigned, retired];
    assert_text("mandates", "mandate list", Answer::Mandates { mandates }).await;
    assert_text("mandates_none", "mandate list", Answer::Mandates { mandates: vec![] }).await;
}

#[tokio::test]
async fn mandates_of_other_issuers_are_quoted() {
    let line = "mandate verify mandate.json";
    assert_text("mandate_good", line, Answer::MandateCheck(Box::new(check()))).await;
    let hostile = MandateCheckAnswer {
        good: false,
        defects: vec!["it has no signature".into()],
        meaning: "This mandate proves nothing: do not rely on any of its terms.".into(),
        id: Some("\u{1b}[31mred".into()),
        issuer: Some("\u{202e}tluaV".into()),
        agent: None,
        networks: vec!["a\nb".into()],
        signer: None,
        registry_id: Some("=1+1".into()),
        registry_url: Some("javascript:alert(1)".into()),
        ..check()
    };
    assert_text("mandate_bad", line, Answer::MandateCheck(Box::new(hostile))).await;
}
