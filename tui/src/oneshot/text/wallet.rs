//! Wallet, seeds and addresses.

use bursar_control::answers::{
    AddressAnswer, BackupAnswer, LedgerAddressAnswer, LedgerAddressesAnswer, RestoreAnswer,
    SecretField, SeedAnswer, WalletAnswer,
};
use bursar_core::text::approximate_duration;

use super::context::Context;
use super::qr;
use crate::oneshot::sheet::{Sheet, quote_shell_word};

pub(super) fn wallet(to: &mut Sheet, wallet: &WalletAnswer, context: Context<'_>) {
    if !wallet.exists {
        to.line(match &wallet.recoverable {
            None => "There is no wallet in this data folder yet.",
            Some(_name) => "The journal contains no wallet.",
        });
        let (what, command) = first(wallet);
        return to.next(&what, &command);
    }
    let locks = wallet.locks_in_s.filter(|_seconds| context.engine_running);
    let locks =
        locks.map_or_else(String::new, |s| format!(", locks in {}", approximate_duration(s)));
    to.rows(&[
        ("wallet", wallet.name.clone().unwrap_or_default()),
        ("state", format!("{}{locks}", state_after(wallet, context))),
        ("seeds", wallet.seeds.to_string()),
        ("addresses", wallet.addresses.to_string()),
    ]);
    // After `wallet lock` the operator needs no advice to open the wallet.
    if wallet.locked && context.command != "wallet.lock" {
        to.next("Open it with", "bursar wallet open");
    } else if !wallet.locked && wallet.seeds == 0 {
        to.next("Next", "bursar seed create   or: bursar seed import");
    } else if !wallet.locked && wallet.addresses == 0 {
        to.next("Next", "bursar address create <label> 0");
    }
}

/// Returns the first step towards a wallet in this data folder: a description and the command.
pub(super) fn first(wallet: &WalletAnswer) -> (String, String) {
    match &wallet.recoverable {
        None => ("Create a wallet with".to_owned(), "bursar wallet create <name>".to_owned()),
        Some(name) => (
            format!("Recover the wallet file of {name} with"),
            format!("bursar wallet recover {}", quote_shell_word(name)),
        ),
    }
}

/// Returns the state after the command. Without a running engine, an opened wallet is locked again after the command.
fn state_after(wallet: &WalletAnswer, context: Context<'_>) -> &'static str {
    if context.engine_running { state(wallet) } else { "locked" }
}

pub(super) fn state(wallet: &WalletAnswer) -> &'static str {
    if wallet.locked { "locked" } else { "unlocked" }
}

pub(super) fn seed(to: &mut Sheet, seed: &SeedAnswer, context: Context<'_>) {
    to.rows(&[
        ("seed", seed.id.clone()),
        ("words", seed.words.to_string()),
        ("created", seed.created.clone()),
    ]);
    let returned_secret =
        context.returned_secret.filter(|secret| secret.field == SecretField::Phrase);
    if let Some(phrase) = returned_secret.and_then(|secret| secret.text.as_deref()) {
        to.blank();
        if context.command == "seed.words" {
            to.line("Anyone who has these words can take the money.");
        } else {
            to.line("Write these words down now, in this order, on paper. Only these words or a");
            to.line("backup restore a wallet; anyone who has them can take the money.");
        }
        to.blank();
        to.words(phrase);
    }
    if context.command != "seed.words" {
        to.next("Next", "bursar address create <label> 0");
    }
}

pub(super) fn seeds(to: &mut Sheet, seeds: &[SeedAnswer]) {
    if seeds.is_empty() {
        to.line("The wallet has no seed yet.");
        return to.next("Next", "bursar seed create   or: bursar seed import");
    }
    let row = |seed: &SeedAnswer| [seed.id.clone(), seed.words.to_string(), seed.created.clone()];
    to.table(["SEED", "WORDS", "CREATED"], &seeds.iter().map(row).collect::<Vec<_>>());
}

pub(super) fn backup(to: &mut Sheet, backup: &BackupAnswer) {
    to.rows(&[
        ("backup", backup.file.clone()),
        ("wallet", backup.wallet.clone()),
        ("journal", format!("{} entries, checked and read back", backup.entries)),
        ("head", backup.head.clone()),
        ("size", format!("{} bytes", backup.bytes)),
    ]);
    to.line("It is protected by the wallet's password. Keep it on another machine.");
    to.next(
        "Restore it with",
        &format!("bursar wallet restore {}", quote_shell_word(&backup.file)),
    );
}

pub(super) fn restore_result(to: &mut Sheet, restored: &RestoreAnswer) {
    let mut rows = vec![
        ("wallet", restored.wallet.clone()),
        ("journal", format!("{} entries", restored.entries)),
    ];
    if let Some(replaced) = &restored.replaced {
        rows.push(("before", format!("moved to {replaced}")));
    }
    to.rows(&rows);
    to.next("Let payments be automatic again with", "bursar audit accept");
}

pub(super) fn address(to: &mut Sheet, address: &AddressAnswer, context: Context<'_>) {
    to.rows(&[
        ("label", address.label.clone()),
        ("address", address.address.clone()),
        ("path", address.path.clone()),
        ("backing", address.backing.clone()),
        ("description", address.description.clone()),
    ]);
    let returned_secret =
        context.returned_secret.filter(|secret| secret.field == SecretField::AddressKey);
    if let Some(key) = returned_secret.and_then(|secret| secret.text.as_deref()) {
        to.blank();
        to.line("Anyone who has this private key can take the money.");
        to.blank();
        to.secret("", key);
    }
    if let Some(uri) = &address.uri {
        to.blank();
        qr::draw(to, uri, context.ascii);
    }
    if context.command == "address.export" {
        return;
    }
    if address.confirmed {
        to.blank();
        to.line("Confirmed on the Ledger: it has the key of this address.");
    } else if address.backing.starts_with("Ledger") {
        let command = format!("bursar address ledger verify {}", quote_shell_word(&address.label));
        return to.next("Compare it on the Ledger before you fund it", &command);
    }
    if context.command == "address.show" {
        return;
    }
    let command =
        format!("bursar agent commission <agent> <policy> {}", quote_shell_word(&address.label));
    to.next("Let an agent pay from it with", &command);
}

pub(super) fn ledger_addresses(to: &mut Sheet, listed: &LedgerAddressesAnswer) {
    to.line(&listed.device);
    let row = |address: &LedgerAddressAnswer| {
        [
            address.index.to_string(),
            address.address.clone(),
            address.path.clone(),
            address.label.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = listed.addresses.iter().map(row).collect();
    to.table(["INDEX", "ADDRESS", "PATH", "LABEL"], &rows);
    let options = match (listed.layout.as_str(), &listed.template) {
        ("live", None) => String::new(),
        (layout, None) => format!(" --layout {layout}"),
        (layout, Some(template)) => {
            format!(" --layout {layout} --path {}", quote_shell_word(template))
        }
    };
    to.next("Add one with", &format!("bursar address ledger add <index> [label]{options}"));
}

pub(super) fn addresses(to: &mut Sheet, addresses: &[AddressAnswer]) {
    if addresses.is_empty() {
        to.line("There is no address yet.");
        return to.next("Next", "bursar address create <label> 0");
    }
    let row = |address: &AddressAnswer| {
        [
            address.label.clone(),
            address.address.clone(),
            address.path.clone(),
            address.backing.clone(),
            address.description.clone(),
        ]
    };
    let head = ["LABEL", "ADDRESS", "PATH", "BACKING", "DESCRIPTION"];
    to.table(head, &addresses.iter().map(row).collect::<Vec<_>>());
}
