//! The commands that run only in a shell, because they use files or print keys.

use bursar_control::grammar::{
    AddressOrder, CommandSet, HistoryOrder, MandateOrder, Order, ReceiptOrder, WalletOrder,
};
use bursar_core::edition::EditionName;

/// Returns the sentence that refuses a command which runs only in a shell.
pub(crate) fn refusal(order: &Order) -> Option<&'static str> {
    Some(match order {
        Order::History(HistoryOrder { export: Some(_), .. }) => {
            "To write a file, run `bursar history export` in a shell."
        }
        Order::Receipt(ReceiptOrder { proof: Some(_), .. }) => {
            "To write a proof, run `bursar receipt <id> --proof FILE` in a shell."
        }
        Order::Receipt(ReceiptOrder { html: Some(_), .. }) => {
            "To write a page, run `bursar receipt <id> --html FILE` in a shell."
        }
        Order::Receipt(ReceiptOrder { check: Some(_), .. }) => {
            "To check a proof, run `bursar receipt verify` in a shell."
        }
        Order::Wallet(WalletOrder::Backup { .. } | WalletOrder::Restore { .. }) => {
            "Backups are written and restored by `bursar wallet` in a shell."
        }
        Order::Address(AddressOrder::Export { .. }) => {
            "Private keys are shown by `bursar address export` in a shell."
        }
        Order::Mandate(MandateOrder::Verify { .. }) => {
            "To check a file, run `bursar mandate verify` in a shell."
        }
        _any => return None,
    })
}

/// The commands of the program that are not in the grammar of the console: they are about this machine.
const PROGRAM_COMMANDS: [&str; 9] = [
    "completions",
    "demo",
    "engine",
    "install-service",
    "man",
    "pay",
    "schema",
    "service",
    "uninstall-service",
];

/// Returns the sentence that refuses a line with a command about this machine.
pub(crate) fn program_refusal(
    line: &str,
    commands: &CommandSet,
    is_sealed: bool,
) -> Option<String> {
    let word = line.split_whitespace().next()?;
    let known = PROGRAM_COMMANDS.contains(&word) && !commands.lacks(word);
    known.then(|| match is_sealed {
        true => format!(
            "{} has no `{word}`: only {} has it.",
            commands.program,
            EditionName::default().text()
        ),
        false => format!("`{word}` runs in a shell: `{} {word}`.", commands.program),
    })
}
