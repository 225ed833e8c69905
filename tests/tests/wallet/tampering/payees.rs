//! The payee rows: they have no seal and are rebuilt from the entries.

use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_core::card::Card;
use bursar_core::networks::ChainId;
use bursar_tests::doubles::InjectedFault;
use bursar_tests::offers::{BASE, PAY_TO};
use bursar_tests::operator::Expect;

use crate::tampering::forger::Forger;
use crate::tampering::stage::Stage;

/// Leaves one payment pending.
async fn hold(stage: &mut Stage) {
    stage.operator().must("policy edit p --auto 0").await;
    assert_eq!(stage.pay().await.0, 202);
}

async fn card(stage: &Stage) -> Card {
    let Answer::Requests { mut requests } = stage.operator().must("requests").await else {
        panic!("requests")
    };
    assert_eq!(requests.len(), 1);
    requests.remove(0).card.expect("a card")
}

async fn times(stage: &Stage) -> u64 {
    let card = card(stage).await;
    card.paid_before.unwrap_or_else(|| panic!("{:?}", card.paid_before_unknown_reason)).times
}

fn payee() -> [u8; 20] {
    PAY_TO.parse::<alloy_primitives::Address>().unwrap().into()
}

#[tokio::test]
async fn a_journal_without_payee_rows_is_opened_and_its_payees_counted() {
    let mut stage = Stage::new().await;
    hold(&mut stage).await;
    assert_eq!(times(&stage).await, 2);
    for since in [None, Some(1), Some(99)] {
        stage.close().await;
        Forger::open(&stage.journal()).without_payees(since);
        stage.start().await;
        assert_eq!(times(&stage).await, 2, "{since:?}");
        assert!(stage.open_wallet().await.is_empty(), "nothing is wrong with it");
        assert_eq!(times(&stage).await, 2, "{since:?}");
    }
}

#[tokio::test]
async fn payee_rows_that_cannot_be_written_are_unknown_and_all_else_works() {
    let mut stage = Stage::new().await;
    hold(&mut stage).await;
    stage.close().await;
    Forger::open(&stage.journal()).without_payees(None);
    stage.start_with(Arc::new(InjectedFault::parse("once:journal.before_commit:1").unwrap())).await;
    let unknown = async |stage: &Stage| {
        let card = card(stage).await;
        assert_eq!(card.paid_before, None);
        assert!(card.paid_before_unknown_reason.unwrap().contains("out of date"));
    };
    unknown(&stage).await;
    // A later commit does not complete the rows.
    stage.operator().must("freeze").await;
    unknown(&stage).await;
    assert!(stage.open_wallet().await.is_empty());
    assert_eq!(times(&stage).await, 2);
}

#[tokio::test]
async fn an_edited_payee_row_is_shown_while_locked_and_repaired_at_unlock() {
    let mut stage = Stage::new().await;
    hold(&mut stage).await;
    stage.close().await;
    Forger::open(&stage.journal()).set_payee_row(BASE.0, payee(), 14);
    stage.start().await;
    assert_eq!(times(&stage).await, 14, "nothing can be approved yet");
    assert!(stage.open_wallet().await.is_empty(), "it decides nothing");
    assert_eq!(times(&stage).await, 2);

    // Unlock also restores missing rows and removes those of payees that were never paid.
    stage.close().await;
    Forger::open(&stage.journal()).forget_payees();
    stage.start().await;
    assert_eq!(times(&stage).await, 0);
    assert!(stage.open_wallet().await.is_empty());
    assert_eq!(times(&stage).await, 2);
    stage.close().await;
    Forger::open(&stage.journal()).set_payee_row(ChainId(1).0, payee(), 14);
    assert!(stage.open().await.is_empty());
    stage.close().await;
    assert_eq!(Forger::open(&stage.journal()).payee_rows(), 1);
}

#[tokio::test]
async fn an_edited_payee_row_is_reported_by_the_audit() {
    let mut stage = Stage::new().await;
    hold(&mut stage).await;
    for (edit, right) in [(false, true), (true, false)] {
        stage.close().await;
        if edit {
            Forger::open(&stage.journal()).set_payee_row(BASE.0, payee(), 14);
        }
        stage.start().await;
        let answer = stage.operator().outcome("audit verify").await.reply;
        assert!(answer.result.is_ok());
        let codes: Vec<_> = answer.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(codes, if right { vec![] } else { vec!["PAYEES_WRONG"] });
    }
    assert!(stage.open_wallet().await.is_empty());
    assert!(stage.operator().outcome("audit verify").await.reply.warnings.is_empty());
}
