//! Asks for passwords and slows down wrong ones.

use std::path::Path;
use std::sync::Arc;

use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::PASSWORD_CHARS_MIN;
use bursar_domain::Action;
use secrecy::{ExposeSecret, SecretString};
use unicode_normalization::UnicodeNormalization;

use super::act;
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::operator::dialogue::Dialogue;
use crate::operator::dry_run::{is_dry_run, will_ask};
use crate::ports::NoFailpoints;
use crate::vault::fault;
use crate::vault::file::WalletFiles;
use crate::vault::kdf::KdfBounds;

/// Asks for the password and normalizes it, so that every keyboard gives the same bytes.
pub(crate) async fn password(
    dialogue: &mut dyn Dialogue,
    what: SecretPrompt,
) -> Result<SecretString, Fault> {
    Ok(normalize(&dialogue.secret(what).await?))
}

/// Returns the password in Unicode NFC.
pub(crate) fn normalize(password: &SecretString) -> SecretString {
    // Reserves the exact length: a string that grows leaves parts of the password in freed memory.
    let text = password.expose_secret();
    let length = text.nfc().map(char::len_utf8).sum();
    let mut normal = String::with_capacity(length);
    normal.extend(text.nfc());
    SecretString::from(normal)
}

/// Checks a password against the wallet file of a data folder, without an engine.
///
/// It changes nothing. It does not count wrong passwords: a caller that can read the file can try passwords anyway.
///
/// # Errors
/// `WRONG_PASSWORD`, `NO_WALLET`, or those of reading the file.
pub fn check_password(folder: &Path, password: &SecretString) -> Result<(), Fault> {
    let files = WalletFiles::new(folder, KdfBounds::PRODUCTION, Arc::new(NoFailpoints));
    let names = files.names().map_err(fault)?;
    let name = names.first().ok_or(Fault::new(Code::NoWallet))?;
    files.open(name, &normalize(password)).map(|_opened| ()).map_err(fault)
}

/// Asks for a new password.
///
/// # Errors
/// `PASSWORD_TOO_SHORT`, or those of [`password`].
pub(crate) async fn new_password(dialogue: &mut dyn Dialogue) -> Result<SecretString, Fault> {
    let given = password(dialogue, SecretPrompt::NewPassword).await?;
    if given.expose_secret().chars().count() < PASSWORD_CHARS_MIN {
        return Err(Fault::new(Code::PasswordTooShort));
    }
    Ok(given)
}

/// Seconds to wait before the next try, by the number of consecutive wrong passwords.
const WAITS_S: [u64; 7] = [0, 1, 2, 4, 8, 16, 30];

/// The right to try a password, one at a time in the whole engine.
pub(crate) struct Attempt<'a> {
    engine: &'a EngineContext,
    /// The value of `passwords_refused` at the last correct password, 0 after a start. The wait depends on how many
    /// wrong passwords came after it.
    forgiven_count: tokio::sync::MutexGuard<'a, u32>,
}

/// Waits for the right to try a password. The wait grows with consecutive wrong passwords, across connections and
/// restarts.
///
/// # Errors
/// `ENGINE_DOWN` if the engine stops during the wait.
pub(crate) async fn next_attempt(engine: &EngineContext) -> Result<Attempt<'_>, Fault> {
    let forgiven = engine.password_tries.lock().await;
    let refused = engine.core.view().state.passwords_refused;
    let wrong = usize::try_from(refused.saturating_sub(*forgiven)).unwrap_or(usize::MAX);
    let wait_s = WAITS_S.get(wrong).or(WAITS_S.last()).copied().unwrap_or(0);
    if wait_s > 0 {
        let clock = &engine.ports.clock;
        let waited =
            clock.sleep_until(clock.mono_ms().saturating_add(wait_s.saturating_mul(1_000)));
        // cancel-safe: no password was tried yet.
        tokio::select! {
            () = waited => {}
            () = engine.stopping.cancelled() => return Err(Fault::new(Code::EngineDown)),
        }
    }
    Ok(Attempt { engine, forgiven_count: forgiven })
}

impl Attempt<'_> {
    /// Ends the attempt with its result. Records a wrong password in the journal, so that an attack is visible.
    pub(crate) async fn finish<T>(mut self, tried: Result<T, Fault>) -> Result<T, Fault> {
        *self.forgiven_count = match &tried {
            Ok(_right) => self.engine.core.view().state.passwords_refused,
            // An unlock during the try may have reset the journal's count.
            Err(_wrong) => {
                (*self.forgiven_count).min(self.engine.core.view().state.passwords_refused)
            }
        };
        record_wrong_password(self.engine, tried).await
    }
}

async fn record_wrong_password<T>(
    engine: &EngineContext,
    tried: Result<T, Fault>,
) -> Result<T, Fault> {
    if let Err(fault) = &tried
        && fault.code == Code::WrongPassword
        && let Err(unrecorded) = act(engine, Action::RecordWrongPassword).await
    {
        tracing::warn!(code = %unrecorded.code, "could not record a wrong password in the journal");
    }
    tried
}

/// Asks for the password of the open wallet again.
///
/// # Errors
/// `WALLET_LOCKED`, `WRONG_PASSWORD`, or those of [`next_attempt`] and of the dialogue.
pub(crate) async fn prove_operator(
    engine: &Arc<EngineContext>,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    if is_dry_run() {
        will_ask(SecretPrompt::Password);
        return Ok(());
    }
    let password = password(dialogue, SecretPrompt::Password).await?;
    let attempt = next_attempt(engine).await?;
    let vault = Arc::clone(&engine.vault);
    let verified = blocking(move || vault.verify_password(&password)).await?;
    attempt.finish(verified).await
}
