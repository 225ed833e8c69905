//! `wallet …`: the file first, then the event that makes it count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_core::answers::{Answer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::WalletOrder;
use bursar_core::ids::Name;
use bursar_core::limits::PASSWORD_CHARS;
use bursar_core::wire::SecretPrompt;
use bursar_domain::Action;
use bursar_domain::event::LockCause;
use secrecy::{ExposeSecret, SecretString};

use super::{Done, act, describe, normalized, password};
use crate::control::Dialogue;
use crate::engine::{Mode, Shared, blocking};
use crate::journal::Head;
use crate::lanes::payments::execute;

pub(super) async fn run(
    engine: &Arc<Shared>,
    order: WalletOrder,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let mut warnings = Vec::new();
    match order {
        WalletOrder::Status => {}
        WalletOrder::Create { name } => warnings = create(engine, &name, dialogue).await?,
        WalletOrder::Open => {
            if engine.core.view().state.wallet.is_none() {
                return Err(no_wallet(engine));
            }
            let given = password(dialogue, SecretPrompt::Password).await?;
            warnings = open_with(engine, given).await?;
        }
        WalletOrder::Lock => lock(engine, LockCause::Operator).await,
        WalletOrder::Passwd => warnings = change_password(engine, dialogue).await?,
        WalletOrder::Backup { file } => return super::backup::make(engine, file, dialogue).await,
        WalletOrder::Restore { file } => {
            return super::backup::restore(engine, file, dialogue).await;
        }
        WalletOrder::Recover { name } => warnings = recover(engine, &name, dialogue).await?,
        WalletOrder::Delete { confirm } => return delete(engine, confirm, dialogue).await,
    }
    Ok(Done { answer: Answer::Wallet(describe::wallet(engine)), warnings, secret: None })
}

async fn create(
    engine: &Arc<Shared>,
    name: &Name,
    dialogue: &mut Dialogue,
) -> Result<Vec<Warning>, Fault> {
    if engine.core.view().state.wallet.is_some() {
        return Err(Fault::new(Code::WalletExists));
    }
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
        // Only what was refused is known not to be on disk.
        if matches!(fault.code, Code::WalletExists | Code::EngineDown) {
            let (vault, wallet) = (Arc::clone(&engine.vault), name.clone());
            blocking(move || vault.discard(&wallet)).await??;
        }
        return Err(fault);
    }
    let vault = Arc::clone(&engine.vault);
    let keys = blocking(move || vault.seal_keys()).await??;
    let sealed = engine.core.unlocked(keys, None).await?;
    admit(engine, sealed).await.map(|(warnings, _noted)| warnings)
}

/// A wallet file is in the way of a new wallet.
fn unknown_file(engine: &Shared, name: &Name) -> Fault {
    let found = engine.vault.file_names().into_iter().next().unwrap_or_else(|| name.clone());
    let file = engine.folder.file("wallets").join(format!("{found}.wallet"));
    Fault::because(
        Code::WalletExists,
        format!(
            "There is a wallet file, {}, that the journal does not know: `bursar wallet recover {found}` takes it \
             in; or move the file away.",
            file.display()
        ),
    )
}

/// The journal knows no wallet. If there is a wallet file, names the command that takes it in.
pub(super) fn no_wallet(engine: &Shared) -> Fault {
    match engine.vault.file_names().first() {
        None => Fault::new(Code::NoWallet),
        Some(name) => Fault::because(
            Code::NoWallet,
            format!(
                "The journal knows no wallet, and there is a file of {name}: `bursar wallet recover {name}` takes it \
                 in, `bursar wallet restore <file>` restores a backup."
            ),
        ),
    }
}

/// Everything that the file of a wallet holds, into a journal that knows none. No payment is automatic until the
/// operator accepts the journal: the wallet remembers another one.
async fn recover(
    engine: &Arc<Shared>,
    name: &Name,
    dialogue: &mut Dialogue,
) -> Result<Vec<Warning>, Fault> {
    if engine.core.view().state.wallet.is_some() {
        return Err(Fault::because(
            Code::WalletExists,
            "The journal knows its wallet: `wallet open` opens it.",
        ));
    }
    let names = engine.vault.file_names();
    if !names.contains(name) {
        let there = names.first().map(|known| format!(" The folder has a file of {known}."));
        let message = format!(
            "There is no wallet file of {name}.{} `bursar wallet restore <file>` restores a backup.",
            there.unwrap_or_default()
        );
        return Err(Fault::because(Code::NoWallet, message));
    }
    let given = password(dialogue, SecretPrompt::Password).await?;
    let turn = turn(engine).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let (vault, name) = (Arc::clone(&engine.vault), name.clone());
    let found = blocking(move || vault.recoverable(&name, &given)).await?;
    let found = turn.over(found).await?;
    let view = engine.core.view();
    let is_empty = view.state.agents.is_empty() && view.state.policies.is_empty();
    let next = if is_empty {
        "Addresses, policies and settings are lost with the journal: run `bursar audit accept` and `bursar address \
         create <label> 0`, then commission the agents again. Agents in bearer mode are not in the file: register \
         them again."
    } else {
        "The journal kept agents and policies: run `bursar audit accept`, `bursar address create <label> 0` with \
         the labels as before, and `bursar agent resume <agent>`."
    };
    let message = format!(
        "The wallet file gave back {} and {}. {next} Their allowances of today count as spent.",
        counted(found.seeds.len(), "seed"),
        counted(found.agents.len(), "agent")
    );
    act(engine, Action::RecoverWallet(Box::new(found))).await?;
    Ok(vec![Warning { code: "RECOVERED".to_owned(), message }])
}

/// The event first: a file that no event names is found again by name, and what the journal names must have a file.
async fn delete(
    engine: &Arc<Shared>,
    confirm: Option<String>,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let known = engine.core.view().state.wallet.clone().ok_or_else(|| no_wallet(engine))?;
    let lost = engine.vault.file_names().is_empty();
    if !lost {
        super::prove_operator(engine, dialogue).await?;
        super::needs_trust(engine)?;
    }
    // What would be refused anyway is refused before anybody types a name for it.
    super::rehearse(engine, Action::DeleteWallet { lost })?;
    let mut lines = vec![format!(
        "wallet {}: {} and {}",
        known.name,
        counted(known.seeds.len(), "seed"),
        counted(known.addresses.len(), "address")
    )];
    lines.extend(
        known
            .addresses
            .values()
            .map(|at| format!("{} ({})", at.address.to_checksum(None), at.label)),
    );
    lines.push(
        "The money stays at these addresses. Without the words of the seeds or a backup it is lost for good."
            .to_owned(),
    );
    if lost {
        lines.push(
            "The wallet file is missing already: the journal forgets this wallet.".to_owned(),
        );
    }
    super::type_name(dialogue, lines, known.name.as_str(), confirm).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    act(engine, Action::DeleteWallet { lost }).await?;
    engine.core.locked(LockCause::Operator, None).await?;
    let (vault, name) = (Arc::clone(&engine.vault), known.name.clone());
    let removed = blocking(move || vault.discard(&name)).await?;
    let state = &engine.core.view().state;
    let mut warnings = vec![Warning {
        code: "JOURNAL_KEPT".to_owned(),
        message: format!(
            "The journal keeps the history, {} and {}. The agents are suspended. A new wallet in this folder needs `bursar audit accept`.",
            counted(state.agents.len(), "agent"),
            counted(state.policies.len(), "policy")
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

fn counted(number: usize, what: &str) -> String {
    match (number, what) {
        (1, what) => format!("1 {what}"),
        (number, "policy") => format!("{number} policies"),
        (number, "address") => format!("{number} addresses"),
        (number, what) => format!("{number} {what}s"),
    }
}

/// Opens the wallet's file, has the journal judged by it, and only then lets anything be signed.
pub(crate) async fn open_with(
    engine: &Arc<Shared>,
    given: SecretString,
) -> Result<Vec<Warning>, Fault> {
    // A wait for it must not keep a lock waiting.
    let turn = turn(engine).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    if engine.vault.is_unlocked() {
        let vault = Arc::clone(&engine.vault);
        let given = normalized(&given);
        let verified = blocking(move || vault.verify_password(&given)).await?;
        return turn.over(verified).await.map(|()| Vec::new());
    }
    let known = engine.core.view().state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    let (vault, given) = (Arc::clone(&engine.vault), normalized(&given));
    let prepared = blocking(move || vault.prepare(&known, &given)).await?;
    let prepared = turn.over(prepared).await?;
    let mut warnings = Vec::new();
    if let Some(why) = &prepared.fallback {
        warnings.push(Warning { code: "PREVIOUS_COPY".to_owned(), message: why.to_string() });
    }
    let opened = match engine.core.unlocked(prepared.seal_keys, prepared.note).await {
        Ok(sealed) => admit(engine, sealed).await,
        Err(fault) => Err(fault),
    };
    let opened = match opened {
        Ok((told, noted)) => act(engine, Action::NoteOpened { noted }).await.map(|_recorded| told),
        Err(fault) => Err(fault),
    };
    match opened {
        Ok(more) => warnings.extend(more),
        Err(fault) => {
            engine.vault.lock();
            return Err(fault);
        }
    }
    engine.unused_since_ms.store(engine.ports.clock.mono_ms(), Ordering::Relaxed);
    reissue(engine).await;
    warnings.extend(open_to_whom(engine).await);
    Ok(warnings)
}

/// The journal has been judged: its settings hold for the agent server from now on.
pub(super) async fn open_to_whom(engine: &Shared) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Err(fault) = engine.follow_exposure().await {
        warnings.push(Warning { code: fault.code.text().to_owned(), message: fault.message });
    }
    if engine.core.view().settings().allow_lan {
        warnings.push(Warning {
            code: "OPEN_TO_NETWORK".to_owned(),
            message: "Every machine of the network can call the agent server: `config set server.allow_lan false` closes it."
                .to_owned(),
        });
    }
    warnings
}

/// Opens the gate, by the state that the judged journal gives. Answers also which entry the wallet file names now.
async fn admit(
    engine: &Arc<Shared>,
    sealed: Option<Head>,
) -> Result<(Vec<Warning>, Option<u64>), Fault> {
    let (vault, view) = (Arc::clone(&engine.vault), engine.core.view());
    let untrusted = view.untrusted.clone();
    let admitted = blocking(move || vault.admit(&view.state, sealed)).await??;
    let warning = |message: String| Warning { code: "WALLET_FILE".to_owned(), message };
    let mut warnings: Vec<Warning> = admitted.warnings.into_iter().map(warning).collect();
    if let Some(why) = untrusted {
        warnings.push(Warning {
            code: Code::JournalUntrusted.text().to_owned(),
            message: format!(
                "The journal does not match the wallet: {why}. Every payment needs your approval until \
                 `audit accept`."
            ),
        });
    }
    Ok((warnings, admitted.noted))
}

/// How long a password waits after so many wrong ones, in seconds.
const WAITS_S: [u64; 7] = [0, 1, 2, 4, 8, 16, 30];

/// The right to try a password, one at a time in the whole engine.
pub(super) struct Turn<'a> {
    engine: &'a Shared,
    /// Wrong passwords before the last right one.
    forgiven: tokio::sync::MutexGuard<'a, u32>,
}

/// Waits for the turn; after wrong passwords longer, also on another connection and after a restart.
///
/// # Errors
/// The engine stops meanwhile.
pub(super) async fn turn(engine: &Shared) -> Result<Turn<'_>, Fault> {
    let forgiven = engine.password_tries.lock().await;
    let refused = engine.core.view().state.passwords_refused;
    let wrong = usize::try_from(refused.saturating_sub(*forgiven)).unwrap_or(usize::MAX);
    let wait_s = WAITS_S.get(wrong).or(WAITS_S.last()).copied().unwrap_or(0);
    if wait_s > 0 {
        let clock = &engine.ports.clock;
        let over = clock.sleep_until(clock.mono_ms().saturating_add(wait_s.saturating_mul(1_000)));
        // cancel-safe: nothing was tried yet.
        tokio::select! {
            () = over => {}
            () = engine.stopping.cancelled() => return Err(Fault::new(Code::EngineDown)),
        }
    }
    Ok(Turn { engine, forgiven })
}

impl Turn<'_> {
    /// What came of it. A wrong password leaves a trace in the journal: attempts must not go unseen.
    pub(super) async fn over<T>(mut self, tried: Result<T, Fault>) -> Result<T, Fault> {
        *self.forgiven = match &tried {
            Ok(_right) => self.engine.core.view().state.passwords_refused,
            // An opening since has set the count back.
            Err(_wrong) => (*self.forgiven).min(self.engine.core.view().state.passwords_refused),
        };
        note_refused(self.engine, tried).await
    }
}

async fn note_refused<T>(engine: &Shared, tried: Result<T, Fault>) -> Result<T, Fault> {
    if let Err(fault) = &tried
        && fault.code == Code::WrongPassword
        && let Err(untold) = act(engine, Action::NoteRefused).await
    {
        tracing::warn!(code = %untold.code, "a wrong password is not in the journal");
    }
    tried
}

/// Signs what was authorized and is unsigned, now that it may be.
pub(super) async fn reissue(engine: &Arc<Shared>) {
    if engine.mode == Mode::Maintenance {
        return;
    }
    match act(engine, Action::Reissue).await {
        Ok(outcome) => {
            for slip in outcome.slips {
                let run = engine.execution.clone();
                engine.tasks.spawn(async move {
                    // What comes of it is recorded; a poll finds it.
                    let _recorded = execute(&run, slip).await;
                });
            }
        }
        Err(fault) => tracing::warn!(code = %fault.code, "unsigned authorizations wait on"),
    }
}

/// Locks, unless the journal has grown since it had `entries`: the wallet was opened or used meanwhile.
pub(crate) async fn lock_unless_used(engine: &Arc<Shared>, cause: LockCause, entries: u64) {
    let one_at_a_time = engine.wallet_changes.lock().await;
    if engine.core.view().head.seq == entries {
        tracing::info!(cause = cause.text(), "the wallet locks by itself");
        note_and_lock(engine, cause, one_at_a_time).await;
    }
}

/// Locks whatever happens. Locking never fails.
pub(crate) async fn lock(engine: &Arc<Shared>, cause: LockCause) {
    let one_at_a_time = engine.wallet_changes.lock().await;
    note_and_lock(engine, cause, one_at_a_time).await;
}

/// Notes in the wallet file where the journal stands, then locks.
async fn note_and_lock(
    engine: &Arc<Shared>,
    cause: LockCause,
    _one_at_a_time: tokio::sync::MutexGuard<'_, ()>,
) {
    let mut noted = None;
    if engine.vault.is_unlocked() {
        let view = engine.core.view();
        if view.untrusted.is_none() && view.failed.is_none() {
            let (vault, head) = (Arc::clone(&engine.vault), view.head);
            match blocking(move || vault.note_journal(head)).await {
                Ok(Ok(())) => noted = Some(head.seq),
                Err(fault) | Ok(Err(fault)) => {
                    tracing::warn!(code = %fault.code, "the wallet file was not told where the journal stands");
                }
            }
        }
        engine.vault.lock();
    }
    if let Err(fault) = engine.core.locked(cause, noted).await {
        tracing::debug!(code = %fault.code, "the core had stopped before the lock");
    }
}

async fn change_password(
    engine: &Arc<Shared>,
    dialogue: &mut Dialogue,
) -> Result<Vec<Warning>, Fault> {
    super::prove_operator(engine, dialogue).await?;
    let given = new_password(dialogue).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    super::needs_trust(engine)?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.change_password(&given)).await??;
    // From here on the new password is the one that opens: nothing may be told that denies it.
    let sealed = match seal(engine).await {
        Ok(()) => act(engine, Action::NotePassword).await.map(|_noted| ()),
        Err(fault) => Err(fault),
    };
    match sealed {
        Ok(()) => Ok(Vec::new()),
        Err(fault) if fault.code == Code::JournalFailed => Err(Fault::because(
            fault.code,
            format!("The password was changed, but: {}", fault.message),
        )),
        Err(fault) => Ok(vec![Warning { code: "WALLET_FILE".to_owned(), message: fault.message }]),
    }
}

/// Seals the journal's head with the wallet's newest key and notes it in the wallet file.
async fn seal(engine: &Arc<Shared>) -> Result<(), Fault> {
    let vault = Arc::clone(&engine.vault);
    let (keys, note) = blocking(move || {
        let keys = vault.seal_keys()?;
        Ok::<_, Fault>((keys, vault.journal_note()?))
    })
    .await??;
    if let Some(head) = engine.core.unlocked(keys, note).await? {
        let vault = Arc::clone(&engine.vault);
        blocking(move || vault.note_sealed(head)).await??;
    }
    Ok(())
}

/// Accepts a journal that did not fit, and seals it.
pub(super) async fn accept(engine: &Arc<Shared>) -> Result<(), Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let vault = Arc::clone(&engine.vault);
    let keys = blocking(move || vault.seal_keys()).await??;
    let key = keys.into_iter().next().ok_or(Fault::new(Code::InternalError))?;
    engine.core.accept(key).await?;
    let (vault, head) = (Arc::clone(&engine.vault), engine.core.view().head);
    blocking(move || vault.note_sealed(head)).await?
}

async fn new_password(dialogue: &mut Dialogue) -> Result<SecretString, Fault> {
    let given = password(dialogue, SecretPrompt::NewPassword).await?;
    if given.expose_secret().chars().count() < PASSWORD_CHARS {
        return Err(Fault::new(Code::PasswordTooShort));
    }
    Ok(given)
}
