//! Journeys of an operator in real terminals (tmux) with the shipped programs.
//!
//! The scripts are in `tests/journeys`. Each can also be run by hand, and reports how long each step took.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "an integration test's helpers stand outside #[test]")]

use std::path::Path;
use std::process::{Command, Stdio};

use bursar_devnet::report_skip;

/// Runs one journey, or reports why it is skipped.
fn journey(name: &str) {
    let skipped = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
    if skipped.split(',').any(|part| part.trim() == "tmux") {
        report_skip("BURSAR_TEST_SKIP names tmux");
        return;
    }
    let tmux = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
    assert!(
        tmux.is_ok_and(|status| status.success()),
        "journeys run in tmux: apt-get install -y tmux, or BURSAR_TEST_SKIP=tmux leaves them out"
    );
    let bin = Path::new(env!("CARGO_BIN_EXE_bursar")).parent().expect("a folder");
    for program in ["bursar-demo", "bursar-devnet", "bursar-test-engine"] {
        let built = bin.join(program).is_file();
        assert!(
            built,
            "{program} is not built: run cargo test --workspace, or cargo build --workspace"
        );
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/journeys").join(name);
    let mut command = Command::new("bash");
    let done = command.arg(script).env("BIN", bin).stdin(Stdio::null()).output().expect("bash");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    eprintln!("{said}");
}

#[test]
fn from_an_empty_folder_to_a_first_payment() {
    journey("first_payment.sh");
}

#[test]
fn hasty_keys_approve_nothing() {
    journey("haste.sh");
}

#[test]
fn console_survives_a_kill_of_the_engine_under_an_open_card() {
    journey("engine_killed.sh");
}

#[test]
fn on_the_smallest_screen_a_card_is_scrolled_before_it_is_approved() {
    journey("small_screen.sh");
}

#[test]
fn commands_without_an_engine_queue_for_the_folder_but_not_for_prompts() {
    journey("commands_wait.sh");
}

#[test]
fn lost_data_is_restored_from_a_backup_or_the_wallet_file() {
    journey("backup.sh");
}

#[test]
fn refusal_states_its_reason() {
    journey("refused.sh");
}

#[test]
fn row_window_dialogs_second_instance_panel_folder_server_and_boot_of_the_desktop_edition() {
    journey("desk.sh");
}

#[test]
fn row_launch_modes_instance_rule_and_pending_of_the_payments_only_edition() {
    journey("pay.sh");
}

#[test]
fn y_does_what_the_title_of_each_dialog_asks() {
    journey("keys.sh");
}

#[test]
fn console_without_a_screen_decides_line_by_line() {
    journey("plain.sh");
}

#[test]
fn first_of_two_operators_decides_and_the_second_is_informed() {
    journey("two_operators.sh");
}

#[test]
fn undecided_request_expires() {
    journey("expired.sh");
}

#[test]
fn shells_complete_names_and_run_none_of_them() {
    journey("completions.sh");
}

#[test]
fn terminal_is_restored_however_the_console_ends() {
    journey("manners.sh");
}

#[test]
fn transfer_needs_its_amount_typed_and_is_sent_once() {
    journey_with_a_chain("send.sh");
}

#[test]
fn swap_waits_for_the_operator_and_is_executed_once() {
    journey_with_a_chain("trade.sh");
}

/// Runs a journey that starts a local chain, unless tests with a chain are skipped.
fn journey_with_a_chain(name: &str) {
    let skipped = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
    if skipped.split(',').any(|part| part.trim() == "chain") {
        report_skip("BURSAR_TEST_SKIP names chain");
        return;
    }
    journey(name);
}

#[test]
fn three_editions_pay_next_to_each_other_on_one_chain() {
    journey_with_a_chain("editions.sh");
}
