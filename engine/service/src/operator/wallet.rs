//! The command `wallet …`. A creation writes the wallet file, then records the event that makes it valid; a deletion
//! does the reverse. A new password is in effect once the file is written.

pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod seal;

use std::sync::Arc;

use bursar_control::answers::{Answer, Warning};
use bursar_control::grammar::WalletOrder;
use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_core::lock_cause::LockCause;
use bursar_domain::Action;

use self::lock::lock;
use self::open::{admit, open_with};
use self::seal::seal;
use super::dialogue::Dialogue;
use super::dry_run::{announce, announce_rule, will_ask};
use super::support::confirm::type_name;
use super::support::lookup::no_wallet;
use super::support::password::{new_password, next_attempt, password, prove_operator};
use super::support::{Done, act, describe, rehearse, require_trusted_journal};
use super::{backup, mandates};
use crate::blocking::blocking;
use crate::context::EngineContext;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: WalletOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let mut warnings = Vec::new();
    match order {
        WalletOrder::Status => {}
        WalletOrder::Create { name } => warnings = create(engine, &name, dialogue).await?,
        WalletOrder::Open => {
            if engine.core.view().state.wallet.is_none() {
                return Err(no_wallet(engine));
            }
            will_ask(SecretPrompt::Password);
            announce_rule(true, || "opens the wallet: agents are served".to_owned())?;
            let given = password(dialogue, SecretPrompt::Password).await?;
            warnings = open_with(engine, given, true).await?;
        }
        WalletOrder::Lock => {
            announce_rule(false, || "locks the wallet: agents are refused".to_owned())?;
            lock(engine, LockCause::Operator).await;
        }
        WalletOrder::Passwd => warnings = change_password(engine, dialogue).await?,
        WalletOrder::Backup { file } => return backup::make(engine, file, dialogue).await,
        WalletOrder::Restore { file } => {
            return backup::restore(engine, file, dialogue).await;
        }
        WalletOrder::Recover { name } => warnings = recover(engine, &name, dialogue).await?,
        WalletOrder::Delete { confirm } => return delete(engine, confirm, dialogue).await,
    }
    Ok(Done { answer: Answer::Wallet(describe::wallet(engine)), warnings, secret: None })
}

async fn create(
    engine: &Arc<EngineContext>,
    name: &Name,
    dialogue: &mut dyn Dialogue,
) -> Result<Vec<Warning>, Fault> {
    if engine.core.view().state.wallet.is_some() {
        return Err(Fault::new(Code::WalletExists));
    }
    will_ask(SecretPrompt::NewPassword);
    announce(|| format!("creates the wallet {name}, encrypted with a new password"))?;
    let given = new_password(dialogue).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let (vault, wallet) = (Arc::clone(&engine.vault), name.clone());
    let wallet_id = blocking(move || vault.create(&wallet, &given)).await?.map_err(|fault| {
        match fault.code {
            Code::WalletExists => unknown_file(engine, name),
            _other => fault,
        }
    })?;
    if let Err(fault) = act(engine, Action::CreateWallet { name: name.clone(), wallet_id }).await {
        // Keeps the file after any other failure: the event may be on disk.
        if fault.code == Code::WalletExists {
            let (vault, wallet) = (Arc::clone(&engine.vault), name.clone());
            blocking(move || vault.discard(&wallet)).await??;
        }
        return Err(fault);
    }
    let vault = Arc::clone(&engine.vault);
    let keys = blocking(move || vault.seal_keys()).await??;
    let sealed = engine.core.report_unlock(keys, None).await?;
    admit(engine, sealed).await.map(|(warnings, _noted)| warnings)
}

/// Returns the error for a new wallet if a wallet file exists that the journal does not name.
fn unknown_file(engine: &EngineContext, name: &Name) -> Fault {
    let found = engine.vault.file_names().into_iter().next().unwrap_or_else(|| name.clone());
    let file = engine.folder.file("wallets").join(format!("{found}.wallet"));
    Fault::because(
        Code::WalletExists,
        format!(
            "There is a wallet file, {}, that the journal does not know: adopt it with `wallet recover {found}`, or \
             move it away.",
            file.display()
        ),
    )
    .with_hint(format!("wallet recover {found}"))
}

/// Imports the contents of a wallet file into a journal without a wallet.
///
/// The file records the head of another journal, so no payment is automatic until the operator accepts this one.
async fn recover(
    engine: &Arc<EngineContext>,
    name: &Name,
    dialogue: &mut dyn Dialogue,
) -> Result<Vec<Warning>, Fault> {
    if engine.core.view().state.wallet.is_some() {
        return Err(Fault::because(
            Code::WalletExists,
            "This journal already has a wallet: run `wallet open`.",
        ));
    }
    let names = engine.vault.file_names();
    if !names.contains(name) {
        let there = names.first().map(|known| {
            format!(" The folder has the file of {known}: `wallet recover {known}` adopts it.")
        });
        let message = format!(
            "There is no wallet file of {name}.{} To get {name} back, restore a backup.",
            there.unwrap_or_default()
        );
        return Err(Fault::because(Code::NoWallet, message).with_hint("wallet restore <file>"));
    }
    will_ask(SecretPrompt::Password);
    announce(|| format!("adopts the wallet file of {name} into this journal"))?;
    let given = password(dialogue, SecretPrompt::Password).await?;
    let attempt = next_attempt(engine).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let (vault, name) = (Arc::clone(&engine.vault), name.clone());
    let found = blocking(move || vault.list_recoverable(&name, &given)).await?;
    let found = attempt.finish(found).await?;
    let view = engine.core.view();
    let is_empty = view.state.agents.is_empty() && view.state.policies.is_empty();
    let next = if is_empty {
        "Addresses, policies and the journal's settings are lost: run `audit accept`, `address create <label> 0` \
         and `policy create <name>`, then commission the agents again. Agents in bearer mode are not in the file: \
         register them again."
    } else {
        "The journal kept agents and policies: run `audit accept`, `address create <label> 0` with \
         the labels as before, and `agent resume <agent>`."
    };
    let message = format!(
        "Recovered from the wallet file: {} and {}. {next} The agents' allowances of today count as spent.",
        count_text(found.seeds.len(), "seed"),
        count_text(found.agents.len(), "agent")
    );
    act(engine, Action::RecoverWallet(Box::new(found))).await?;
    Ok(vec![Warning { code: "RECOVERED".to_owned(), message }])
}

/// Deletes the wallet: records the event, then removes the file.
///
/// A crash in between leaves a file for `wallet recover`. In the other order, it would leave a journal that names a
/// wallet without a file.
async fn delete(
    engine: &Arc<EngineContext>,
    confirm: Option<String>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let known = engine.core.view().state.wallet.clone().ok_or_else(|| no_wallet(engine))?;
    let lost = engine.vault.file_names().is_empty();
    if !lost {
        prove_operator(engine, dialogue).await?;
        require_trusted_journal(engine)?;
    }
    // Check the deletion before the operator has to type the name.
    rehearse(engine, Action::DeleteWallet { is_file_gone: lost })?;
    let mut lines = vec![format!(
        "wallet {}: {} and {}",
        known.name,
        count_text(known.seeds.len(), "seed"),
        count_text(known.addresses.len(), "address")
    )];
    lines.extend(
        known
            .addresses
            .values()
            .map(|at| format!("{} ({})", at.address.to_checksum(None), at.label)),
    );
    lines.push(
        "The money stays at these addresses. Without the words of the seeds or a backup it is lost permanently."
            .to_owned(),
    );
    let state = &engine.core.view().state;
    let addresses = known.addresses.values();
    lines.extend(addresses.flat_map(|at| mandates::published_by(state, at.address)));
    if lost {
        lines.push(
            "The wallet file is already missing: only the journal's wallet is removed.".to_owned(),
        );
    }
    type_name(dialogue, lines, known.name.as_str(), confirm).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    act(engine, Action::DeleteWallet { is_file_gone: lost }).await?;
    engine.core.report_lock(LockCause::Operator, None).await?;
    let (vault, name) = (Arc::clone(&engine.vault), known.name.clone());
    let removed = blocking(move || vault.discard(&name)).await?;
    let state = &engine.core.view().state;
    let mut warnings = vec![Warning {
        code: "JOURNAL_KEPT".to_owned(),
        message: format!(
            "The journal keeps the history, {} and {}. The agents are suspended. A new wallet in this folder needs `audit accept`.",
            count_text(state.agents.len(), "agent"),
            count_text(state.policies.len(), "policy")
        ),
    }];
    if let Err(fault) = removed
        && !lost
    {
        let message = format!("A file of the wallet is still there: {}", fault.message);
        warnings.push(Warning { code: "WALLET_FILE".to_owned(), message });
    }
    let answer = Answer::Deleted { name: known.name.as_str().to_owned() };
    Ok(Done { answer, warnings, secret: None })
}

fn count_text(number: usize, what: &str) -> String {
    match (number, what) {
        (1, what) => format!("1 {what}"),
        (number, "policy") => format!("{number} policies"),
        (number, "address") => format!("{number} addresses"),
        (number, what) => format!("{number} {what}s"),
    }
}

/// Returns a warning if the engine opened the wallet at its start: it cannot do so again with the old password.
fn stale_start_password(engine: &EngineContext) -> Vec<Warning> {
    let Some(with) = &engine.start_unlock else { return Vec::new() };
    let message = format!(
        "This engine opened the wallet at its start ({with}) with the old password, so its next start fails: run \
         `install-service --unlock` again as you did, or give the new password where you start it."
    );
    vec![Warning { code: "STALE_PASSWORD".to_owned(), message }]
}

async fn change_password(
    engine: &Arc<EngineContext>,
    dialogue: &mut dyn Dialogue,
) -> Result<Vec<Warning>, Fault> {
    prove_operator(engine, dialogue).await?;
    will_ask(SecretPrompt::NewPassword);
    announce(|| "encrypts the wallet file with a new password".to_owned())?;
    let given = new_password(dialogue).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    require_trusted_journal(engine)?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.change_password(&given)).await??;
    // The new password is in effect from here on, so no error may suggest that the change failed.
    let sealed = match seal(engine).await {
        Ok(()) => act(engine, Action::RecordPasswordChange).await.map(|_noted| ()),
        Err(fault) => Err(fault),
    };
    match sealed {
        Ok(()) => Ok(stale_start_password(engine)),
        Err(fault) if fault.code == Code::JournalFailed => Err(Fault::because(
            fault.code,
            format!("The password was changed, but: {}", fault.message),
        )),
        Err(fault) => Ok(vec![Warning { code: "WALLET_FILE".to_owned(), message: fault.message }]),
    }
}
