//! A damaged, missing or foreign wallet file.

use std::os::unix::fs::PermissionsExt;

use bursar_core::codes::Code;
use bursar_tests::files::{inventory, persistent_inventory};
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};

use crate::failures::stage::{UsedFolder, assert_unchanged, start_refused_unchecked, text};

/// Opens the wallet, which must fail and leave the wallet files unchanged.
async fn assert_open_refused(
    used: &UsedFolder,
    operator: &mut Operator,
    code: Code,
    texts: &[&str],
) {
    let wallets = used.file("wallets");
    let before = inventory(&wallets);
    let fault = operator.run_refused("wallet open").await;
    assert_eq!(fault.code, code, "{fault}");
    for text in texts {
        assert!(fault.message.contains(text), "{text:?} is not in: {fault}");
    }
    assert_unchanged(&before, &inventory(&wallets), &fault.message);
}

#[tokio::test]
async fn a_wallet_file_with_a_flipped_byte_is_refused_and_left_unchanged() {
    let used = UsedFolder::new().await;
    let current = used.file("wallets/main.wallet");
    let previous = used.file("wallets/main.wallet.previous");
    let whole = (std::fs::read(&current).unwrap(), std::fs::read(&previous).unwrap());
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    let mut operator = engine.operator().await;
    for at in (0..whole.0.len()).step_by(61) {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            // Keeps the byte printable, so that the file may still parse.
            bytes[at % whole.1.len()] ^= 0x02;
            bytes
        };
        std::fs::write(&current, flip(&whole.0)).unwrap();
        std::fs::write(&previous, flip(&whole.1)).unwrap();
        let before = inventory(&used.file("wallets"));
        let fault = operator.run_refused("wallet open").await;
        // A changed version number has a different message, but the same code.
        let known = matches!(fault.code, Code::WalletDamaged);
        assert!(known, "byte {at}: {} {fault}", fault.code);
        assert!(fault.message.contains(&text(&current)), "byte {at}: {fault}");
        let way_out = ["backup", "program that saved it"];
        assert!(way_out.iter().any(|way| fault.message.contains(way)), "byte {at}: {fault}");
        assert_unchanged(&before, &inventory(&used.file("wallets")), &fault.message);
    }
    // The wallet opens with the original files.
    std::fs::write(&current, &whole.0).unwrap();
    std::fs::write(&previous, &whole.1).unwrap();
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.result.is_ok() && opened.warnings.is_empty(), "{opened:?}");
}

#[tokio::test]
async fn a_missing_truncated_foreign_or_public_wallet_file_is_refused_by_name() {
    let used = UsedFolder::new().await;
    let other = UsedFolder::new().await;
    let current = used.file("wallets/main.wallet");
    let previous = used.file("wallets/main.wallet.previous");
    let whole = (std::fs::read(&current).unwrap(), std::fs::read(&previous).unwrap());
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    let mut operator = engine.operator().await;
    let put = |bytes: &[u8]| {
        for file in [&current, &previous] {
            std::fs::write(file, bytes).unwrap();
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
        }
    };
    let file = text(&current);
    std::fs::remove_file(&current).unwrap();
    std::fs::remove_file(&previous).unwrap();
    assert_open_refused(&used, &mut operator, Code::NoWallet, &[&file, "restore a backup"]).await;
    for bytes in [&b""[..], &whole.0[..whole.0.len() / 2], b"\0\0\0\0"] {
        put(bytes);
        assert_open_refused(&used, &mut operator, Code::WalletDamaged, &[&file, "backup"]).await;
    }
    put(&std::fs::read(other.file("wallets/main.wallet")).unwrap());
    let way_out = "restore the right wallet file";
    assert_open_refused(&used, &mut operator, Code::WalletDamaged, &[way_out]).await;
    put(&whole.0);
    std::fs::set_permissions(&current, PermissionsExt::from_mode(0o644)).unwrap();
    let chmod = format!("chmod 600 '{file}'");
    assert_open_refused(&used, &mut operator, Code::DataFolder, &[&file, "0644", &chmod]).await;
    put(&whole.0);
    operator.must("wallet open").await;
}

#[tokio::test]
async fn a_foreign_wallet_is_reported_with_its_file() {
    let (used, other) = (UsedFolder::new().await, UsedFolder::new().await);
    let current = used.file("wallets/main.wallet");
    std::fs::copy(other.file("wallets/main.wallet"), &current).unwrap();
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    let mut operator = engine.operator().await;
    assert_open_refused(&used, &mut operator, Code::WalletDamaged, &[&text(&current)]).await;
}

#[tokio::test]
async fn at_start_a_damaged_wallet_exits_13_and_a_wrong_password_exits_5() {
    let used = UsedFolder::new().await;
    let env = vec![("BURSAR_TEST_PASSWORD".to_owned(), "not the password".to_owned())];
    let current = used.file("wallets/main.wallet");
    let wallets = inventory(&used.file("wallets"));
    let output =
        start_refused_unchecked(&used.folder(), &StartOptions { env, ..StartOptions::default() });
    output.assert_refusal(
        5,
        &["WRONG_PASSWORD", "The password does not open the wallet", "try again"],
    );
    assert_unchanged(&wallets, &inventory(&used.file("wallets")), &output.output);
    std::fs::write(&current, "no wallet").unwrap();
    std::fs::remove_file(used.file("wallets/main.wallet.previous")).unwrap();
    let wallets = inventory(&used.file("wallets"));
    let start = StartOptions { has_password: true, ..StartOptions::default() };
    let output = start_refused_unchecked(&used.folder(), &start);
    output.assert_refusal(13, &["WALLET_DAMAGED", &text(&current), "backup"]);
    assert_unchanged(&wallets, &inventory(&used.file("wallets")), &output.output);
}

#[tokio::test]
async fn a_damaged_wallet_file_falls_back_to_the_previous_copy_with_warnings() {
    let used = UsedFolder::new().await;
    std::fs::write(used.file("wallets/main.wallet"), "no wallet").unwrap();
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    let mut operator = engine.operator().await;
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.result.is_ok(), "{opened:?}");
    let [warning, older] = opened.warnings.as_slice() else { panic!("{:?}", opened.warnings) };
    assert_eq!(warning.code, "PREVIOUS_COPY");
    assert!(warning.message.ends_with("check your seeds and agents."), "{}", warning.message);
    assert_eq!(older.code, "JOURNAL_UNTRUSTED");
    assert!(older.message.contains("older than the journal"), "{}", older.message);
    operator.must("audit accept").await;
    // The file has been repaired, so there is no warning.
    operator.must("wallet lock").await;
    assert!(operator.outcome("wallet open").await.reply.warnings.is_empty());
}

#[test]
fn a_folder_of_wallets_that_is_open_to_others_is_refused_by_name() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let used = runtime.block_on(UsedFolder::new());
    std::fs::set_permissions(used.file("wallets"), PermissionsExt::from_mode(0o755)).unwrap();
    let before = persistent_inventory(&used.file("wallets"));
    let output = start_refused_unchecked(
        &used.folder(),
        &StartOptions { has_password: true, ..StartOptions::default() },
    );
    output.assert_refusal(13, &["DATA_FOLDER", &text(&used.file("wallets")), "chmod 700"]);
    assert_unchanged(&before, &persistent_inventory(&used.file("wallets")), &output.output);
}
