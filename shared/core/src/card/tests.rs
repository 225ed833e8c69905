//! The digest of a card, and the texts of hold reasons.

use super::*;

fn terms() -> Terms {
    Terms {
        lane: Lane::Payment,
        agent: "ABC123".parse().unwrap(),
        address: "0x9858EfFD232B4033E47d90003D41EC34EcaEda94".into(),
        network: "eip155:8453".into(),
        asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".into(),
        payee: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C".into(),
        amount: "1500000".into(),
        valid_seconds: 60,
        request_url: Some("https://api.example.com/report".into()),
        resource_url: None,
        other_urls: Vec::new(),
        trade: None,
        loan: None,
    }
}

fn swap() -> TradeTerms {
    TradeTerms {
        token_out: "0x4200000000000000000000000000000000000006".into(),
        minimum_out: "7".into(),
        pool: "V3:0x01".into(),
    }
}

fn supply() -> LoanTerms {
    LoanTerms { action: "supply".into(), venue: "0x01".into(), unit: "assets".into() }
}

#[test]
fn hold_reasons_have_their_stable_text_in_json() {
    for reason in HoldReason::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.text());
    }
}

#[test]
fn card_digest_matches_the_published_value() {
    // Checked with Python: hashlib.sha256(json.dumps(..., separators=(',',':'), sort_keys=True)).
    assert_eq!(
        digest(&terms(), HoldReason::AboveThreshold, 7),
        "c1d171498fb02e01e507bc184a000778c78b4127a5d25d8da8a1f841576d3661"
    );
}

#[test]
fn every_term_changes_the_card_digest() {
    type Change = fn(&mut Terms);
    let before = digest(&terms(), HoldReason::AboveThreshold, 7);
    let changes: &[Change] = &[
        |t| t.agent = "ABC124".parse().unwrap(),
        |t| t.address = t.payee.clone(),
        |t| t.network = "eip155:1".into(),
        |t| t.asset = t.payee.clone(),
        |t| t.payee = t.address.clone(),
        |t| t.amount = "1500001".into(),
        |t| t.valid_seconds = 61,
        |t| t.request_url = None,
        |t| t.resource_url = Some(String::new()),
        |t| t.other_urls = vec![String::new()],
        |t| t.loan = Some(supply()),
        |t| t.loan = Some(LoanTerms { action: "withdraw".into(), ..supply() }),
        |t| t.loan = Some(LoanTerms { venue: "0x02".into(), ..supply() }),
        |t| t.loan = Some(LoanTerms { unit: "shares".into(), ..supply() }),
        |t| t.trade = Some(swap()),
        |t| t.trade = Some(TradeTerms { token_out: t.payee.clone(), ..swap() }),
        |t| t.trade = Some(TradeTerms { minimum_out: "8".into(), ..swap() }),
        |t| t.trade = Some(TradeTerms { pool: "V3:0x02".into(), ..swap() }),
    ];
    let mut digests = std::collections::BTreeSet::from([before.clone()]);
    for (index, change) in changes.iter().enumerate() {
        let mut changed = terms();
        change(&mut changed);
        let digest = digest(&changed, HoldReason::AboveThreshold, 7);
        assert!(digests.insert(digest), "change {index}");
    }
    assert_ne!(digest(&terms(), HoldReason::LongValidity, 7), before);
    assert_ne!(digest(&terms(), HoldReason::AboveThreshold, 8), before);
}
