//! Rollbacks: an attacker restores older copies of one file or of all files.

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_tests::files::copy_folder;
use bursar_tests::operator::{Expect, PASSWORD};

use crate::tampering::stage::{Stage, assert_untrusted_warning};

#[tokio::test]
async fn a_journal_older_than_the_wallets_note_is_untrusted() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let older = std::fs::read(stage.journal()).unwrap();
    assert!(stage.open().await.is_empty());
    for _payment in 0..3 {
        assert_eq!(stage.pay().await.0, 200);
    }
    // The wallet file notes the journal's head when it is locked.
    let warnings =
        stage.restart_after(|stage| std::fs::write(stage.journal(), &older).unwrap()).await;
    assert_untrusted_warning(&warnings, "which this journal does not contain");
    stage.assert_held_as_untrusted().await;
    let Answer::Audit(accepted) = stage.operator().must("audit accept").await else { panic!() };
    assert_eq!(accepted.untrusted, None);
    assert_eq!(stage.pay().await.0, 200);
    assert!(stage.restart_after(|_stage| ()).await.is_empty());
}

#[tokio::test]
async fn a_clock_that_jumps_while_locked_does_not_make_the_journal_untrusted() {
    let mut stage = Stage::new().await;
    stage.close().await;
    stage.start().await;
    let day = 86_400_000;
    stage.clock.advance(2 * day);
    for _turn in 0..20 {
        // Running a command lets the timers fire.
        stage.operator().must("status").await;
    }
    stage.clock.jump_back(2 * day);
    assert_eq!(stage.open_wallet().await, []);
    assert_eq!(stage.pay().await.0, 200);
}

/// The wallet's note dates from the last unlock, lock or save. An attacker with a later copy who kills the engine can
/// put that copy back; only a head noted by the operator reveals it.
#[tokio::test]
async fn a_rollback_to_after_the_last_note_is_detected_only_by_a_noted_head() {
    let mut stage = Stage::new().await;
    let _image = stage.copy("image");
    assert_eq!(stage.pay().await.0, 200);
    let (_seq, head) = stage.head().await;
    // A kill leaves this state: the wallet has not noted the later entries.
    let crashed = stage.copy("crashed");
    stage.close().await;
    let image = stage.folder().with_file_name("image");
    std::fs::copy(crashed.join("wallets/main.wallet"), stage.wallet()).unwrap();
    std::fs::copy(image.join("journal.redb"), stage.journal()).unwrap();
    assert!(stage.open().await.is_empty(), "now detected: update the test and SECURITY.md");
    let fault = stage.operator().run_refused(&format!("audit verify --head {head}")).await;
    assert_eq!(fault.code, Code::JournalDamaged);
}

#[tokio::test]
async fn a_wallet_older_than_the_journal_opens_and_names_the_agents_without_a_secret() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let older = std::fs::read(stage.wallet()).unwrap();
    assert!(stage.open().await.is_empty());
    let late = stage.engine().add_agent("late", "hmac").await;
    let warnings =
        stage.restart_after(|stage| std::fs::write(stage.wallet(), &older).unwrap()).await;
    let [warning, untrusted] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.message.contains(&late.id), "{}", warning.message);
    assert_untrusted_warning(
        std::slice::from_ref(untrusted),
        "the wallet file is older than the journal",
    );
    assert_eq!(stage.pay().await.0, 202);
    stage.operator().must("audit accept").await;
    let Answer::Agents { agents } = stage.operator().must("agent list").await else { panic!() };
    for agent in agents {
        let lost = agent.agent_id == late.id;
        assert_eq!(agent.problem.is_some(), lost, "{agent:?}");
        let way_out = "agent instructions <agent> --regenerate";
        assert!(agent.problem.is_none_or(|problem| problem.contains(way_out)));
    }
    let now = stage.engine().now_s();
    let body = late.ask(now, &bursar_tests::offers::offer(13_000, 99), None);
    assert_eq!(stage.engine().post("/sign", &body).await.0, 401);
    assert_eq!(stage.pay().await.0, 200);
    // The remedy that the message names works.
    let created = stage.operator().outcome("agent instructions late --regenerate").await;
    let renewed = bursar_tests::agent::Agent { token: created.secret.expect("a token"), ..late };
    let body = renewed.ask(now, &bursar_tests::offers::offer(13_000, 99), None);
    assert_eq!(stage.engine().post("/sign", &body).await.0, 200);
}

#[tokio::test]
async fn a_secret_that_was_replaced_does_not_come_back_with_an_older_wallet() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let older = std::fs::read(stage.wallet()).unwrap();
    assert!(stage.open().await.is_empty());
    // The secret has leaked, so the operator issues another.
    stage.operator().must("agent instructions bot --regenerate").await;
    assert_eq!(stage.pay().await.0, 401);
    let warnings =
        stage.restart_after(|stage| std::fs::write(stage.wallet(), &older).unwrap()).await;
    let (status, answer) = stage.pay().await;
    assert!(status == 401 || !warnings.is_empty(), "{status} {answer}");
}

#[tokio::test]
async fn an_old_password_with_an_old_wallet_does_not_make_the_journal_trusted() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let older = std::fs::read(stage.wallet()).unwrap();
    assert!(stage.open().await.is_empty());
    let mut operator = stage.operator();
    operator.passwords.extend([PASSWORD.to_owned(), "another horse battery".to_owned()]);
    operator.must("wallet passwd").await;
    drop(operator);
    assert_eq!(stage.pay().await.0, 200);
    // The wallet opens with the replaced password.
    let warnings =
        stage.restart_after(|stage| std::fs::write(stage.wallet(), &older).unwrap()).await;
    assert_untrusted_warning(&warnings, "the seal does not match the entries");
    stage.assert_held_as_untrusted().await;
}

#[tokio::test]
async fn an_earlier_head_is_in_the_chain_but_not_in_a_shortened_one() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let shorter = std::fs::read(stage.journal()).unwrap();
    stage.start().await;
    let (first_seq, first) = stage.head().await;
    assert!(stage.open_wallet().await.is_empty());
    assert_eq!(stage.pay().await.0, 200);
    stage.operator().must("wallet lock").await;
    let (second_seq, second) = stage.head().await;
    assert!(second_seq > first_seq);
    for head in [&first, &second] {
        let line = format!("audit verify --head {head}");
        let Answer::Audit(audit) = stage.operator().must(&line).await else { panic!() };
        assert_eq!(audit.head, second);
    }
    let never = format!("audit verify --head {}", "ab".repeat(32));
    assert_eq!(stage.operator().run_refused(&never).await.code, Code::JournalDamaged);
    stage.close().await;
    std::fs::write(stage.journal(), &shorter).unwrap();
    stage.start().await;
    let line = format!("audit verify --head {first}");
    stage.operator().must(&line).await;
    let fault = stage.operator().run_refused(&format!("audit verify --head {second}")).await;
    assert_eq!(fault.code, Code::JournalDamaged);
    assert!(fault.message.contains("shortened or replaced"), "{fault}");
}

/// Documented in SECURITY.md: the folder has no memory outside itself.
#[tokio::test]
async fn a_rollback_of_the_whole_folder_is_detected_only_by_a_noted_head() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let image = stage.copy("image");
    assert!(stage.open().await.is_empty());
    assert_eq!(stage.pay().await.0, 200);
    stage.operator().must("wallet lock").await;
    let (_seq, head) = stage.head().await;
    stage.close().await;
    std::fs::remove_dir_all(stage.folder()).unwrap();
    copy_folder(&image, &stage.folder());
    assert!(stage.open().await.is_empty(), "now detected: update the test and SECURITY.md");
    assert_eq!(stage.pay().await.0, 200);
    let fault = stage.operator().run_refused(&format!("audit verify --head {head}")).await;
    assert_eq!(fault.code, Code::JournalDamaged);
}
