//! The program, data folder and scope of the service, and the tiers of the unattended unlock.

use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use serde::Serialize;

/// The scope of the service: one account or the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Runs for the account that installs it, with that account's data folder.
    User,
    /// Runs for the machine, as the account `bursar`, with the data folder `/var/lib/bursar`.
    System,
}

/// The operating systems whose service files Bursar can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    Macos,
    Windows,
}

impl Platform {
    /// Returns the platform of this program; `None` if Bursar supports no service manager there.
    pub fn here() -> Option<Self> {
        match std::env::consts::OS {
            "linux" => Some(Self::Linux),
            "macos" => Some(Self::Macos),
            "windows" => Some(Self::Windows),
            _other => None,
        }
    }
}

/// The protection of the stored password that opens the wallet when the service starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// No password is stored: the wallet stays locked until a person opens it.
    None,
    /// The password is encrypted with a key that is stored on the same disk.
    HostKey,
    /// The password is encrypted with that key and a key inside the TPM of this machine.
    Tpm,
}

impl Tier {
    /// Describes the tier in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "none: locked after a boot",
            Self::HostKey => "host key",
            Self::Tpm => "host key and TPM",
        }
    }
}

/// A service: the program, its data folder and the scope.
///
/// [`Service::new`] accepts only paths that every service file can contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub scope: Scope,
    pub program: PathBuf,
    pub data: PathBuf,
}

impl Service {
    /// Creates a service whose paths every service manager reads unchanged.
    ///
    /// # Errors
    /// `BAD_INPUT` if a path is relative, is not UTF-8, or contains a control character, a quote, a backslash or a
    /// colon.
    pub fn new(scope: Scope, program: PathBuf, data: PathBuf) -> Result<Self, Fault> {
        check(&program, "program")?;
        check(&data, "data folder")?;
        Ok(Self { scope, program, data })
    }

    /// Creates a service for another platform, whose paths this machine cannot check.
    pub fn for_other_platform(scope: Scope, program: PathBuf, data: PathBuf) -> Self {
        Self { scope, program, data }
    }
}

fn check(path: &Path, what: &str) -> Result<(), Fault> {
    let refuse = |why: &str| {
        let shown = path.to_string_lossy().escape_debug().to_string();
        let message = format!(
            "The path of the {what} {why}, which a service file cannot contain: move it to another path ({shown})."
        );
        Err(Fault::because(Code::BadInput, message))
    };
    let Some(text) = path.to_str() else { return refuse("is not UTF-8") };
    if !path.is_absolute() {
        return refuse("is not absolute");
    }
    if text.chars().any(char::is_control) {
        return refuse("has a line break or another control character");
    }
    match text.chars().find(|one| matches!(one, '"' | '\'' | '\\' | ':')) {
        Some(one) => refuse(&format!("has the character {one}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_no_service_file_can_contain_are_refused() {
        let of = |data: &str| Service::new(Scope::User, "/usr/bin/bursar".into(), data.into());
        for fine in ["/home/a b/100%/$x;#", "/home/ä", "/home/a/[x]*"] {
            assert!(of(fine).is_ok(), "{fine}");
        }
        for bad in ["/a\nb", "/a\tb", "/a\"b", "/a'b", "/a\\b", "/a:b", "relative", ""] {
            let fault = of(bad).unwrap_err();
            assert_eq!(fault.code, Code::BadInput, "{bad}");
            assert!(!fault.message.contains('\n'), "{bad:?}");
        }
    }
}
