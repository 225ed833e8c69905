//! The commands that run only in a shell, because they use files or print keys.

use bursar_control::grammar::{AddressOrder, HistoryOrder, Order, WalletOrder};

/// Returns the sentence that refuses a command which runs only in a shell.
pub(crate) fn refusal(order: &Order) -> Option<&'static str> {
    Some(match order {
        Order::History(HistoryOrder { export: Some(_), .. }) => {
            "To write a file, run `bursar history export` in a shell."
        }
        Order::Wallet(WalletOrder::Backup { .. } | WalletOrder::Restore { .. }) => {
            "Backups are written and restored by `bursar wallet` in a shell."
        }
        Order::Address(AddressOrder::Export { .. }) => {
            "Private keys are shown by `bursar address export` in a shell."
        }
        _any => return None,
    })
}
