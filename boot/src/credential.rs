//! The unattended unlock: the password, encrypted by systemd for this machine.

use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::commands::{run_secret, run_with};
use crate::manager::{ENCRYPTING_FOR_USERS_VERSION, ENCRYPTING_VERSION, Manager};
use crate::service::{Scope, Tier};
use crate::systemd::CREDENTIAL;

/// The kernel's device file of a TPM 2.
const TPM: &str = "/dev/tpmrm0";

/// Returns the strongest tier of this machine.
///
/// # Errors
/// `NO_SERVICE_MANAGER` if its systemd cannot encrypt credentials for this scope.
pub(crate) fn tier(manager: &Manager, scope: Scope) -> Result<Tier, Fault> {
    let version = manager.version;
    if version < ENCRYPTING_VERSION {
        let message = format!(
            "systemd {version} cannot encrypt a password (250 or newer can), so the wallet stays locked after a boot: \
             run the command without --unlock."
        );
        return Err(Fault::because(Code::NoServiceManager, message));
    }
    if scope == Scope::User && version < ENCRYPTING_FOR_USERS_VERSION {
        let message = format!(
            "systemd {version} cannot encrypt a password for a service of one account (256 or newer can): use --system, \
             or run the command without --unlock."
        );
        return Err(Fault::because(Code::NoServiceManager, message));
    }
    Ok(strongest_tier())
}

/// Returns the strongest tier that this hardware offers.
pub(crate) fn strongest_tier() -> Tier {
    if Path::new(TPM).exists() { Tier::Tpm } else { Tier::HostKey }
}

/// Explains the consequences of an unattended unlock to the operator.
pub(crate) fn explanation(tier: Tier) -> Vec<String> {
    let mut lines = vec![
        "After a boot the wallet will open without you, and agents may spend within their policies.".to_owned(),
        "The password is stored encrypted; the engine gets it from systemd at each start. While the service runs, root and \
         the account of the service can read it."
            .to_owned(),
    ];
    lines.push(
        match tier {
            Tier::Tpm => {
                "The key is bound to the TPM of this machine: the disk alone does not open the wallet, but a person who can \
                 boot this machine, or who is root on it, can. A change of Secure Boot makes the stored password unusable."
            }
            Tier::HostKey => {
                "The key is on the same disk, because this machine shows no TPM: a person who has the disk, or who is \
                 root, can open the wallet."
            }
            Tier::None => "Nothing is stored.",
        }
        .to_owned(),
    );
    lines
}

/// Returns whether an encrypted text contains this password, and this machine can decrypt it.
///
/// The check works only for a service of the machine: an account cannot decrypt its credentials outside its service.
pub(crate) fn contains_password(encrypted: &str, password: &SecretString, scope: Scope) -> bool {
    let name = format!("--name={CREDENTIAL}");
    let arguments = ["decrypt", &*name, "-", "-"];
    scope == Scope::System
        && run_secret("systemd-creds", &arguments, encrypted.as_bytes())
            .is_some_and(|found| bool::from(found.ct_eq(password.expose_secret().as_bytes())))
}

/// Encrypts a password for this machine.
///
/// The password passes through a pipe, and only the encrypted text is returned.
///
/// # Errors
/// `SERVICE_FAILED` if systemd-creds fails, `NO_SERVICE_MANAGER` if it is missing.
pub(crate) fn encrypt(password: &SecretString, tier: Tier, scope: Scope) -> Result<String, Fault> {
    let key = match tier {
        Tier::Tpm => "--with-key=host+tpm2",
        Tier::HostKey | Tier::None => "--with-key=host",
    };
    let name = format!("--name={CREDENTIAL}");
    let mut arguments = vec!["encrypt", &name];
    match scope {
        // systemd binds the credential of an account to that account. It uses a key of the host, and of the TPM if
        // there is one.
        Scope::User => arguments.push("--user"),
        Scope::System => arguments.push(key),
    }
    arguments.extend(["-", "-"]);
    let input = password.expose_secret().as_bytes();
    let outcome = run_with("systemd-creds", &arguments, Some(input))?.ok_or_else(|| {
        let message = "The command systemd-creds is missing: install systemd's package, or run the command without --unlock.";
        Fault::because(Code::NoServiceManager, message)
    })?;
    if !outcome.succeeded || outcome.out.trim().is_empty() {
        let message = format!(
            "systemd-creds could not encrypt the password: {}. Correct that, or run the command without --unlock.",
            outcome.reason().trim_end_matches('.')
        );
        return Err(Fault::because(Code::ServiceFailed, message));
    }
    Ok(outcome.out)
}
