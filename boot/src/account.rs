//! The account of the machine's service, and the rule for the program that it may run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::commands::run;
use crate::files::Changes;

/// The account of the system service.
pub(crate) const ACCOUNT: &str = "bursar";

const DECLARATION: &str = "/etc/sysusers.d/bursar.conf";

/// The highest user id of a system account, which belongs to no person (login.defs(5), `SYS_UID_MAX`).
const LAST_SYSTEM_ACCOUNT: u32 = 999;

/// The ids of an account and of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) owner: Owner,
    pub(crate) home: PathBuf,
}

/// Finds an account by its name.
pub(crate) fn find(name: &str) -> Result<Option<Account>, Fault> {
    let Some(found) = run("getent", &["passwd", "--", name])? else { return Ok(None) };
    let mut fields = found.out.trim_end().split(':').skip(2);
    let mut number = || fields.next().and_then(|field| field.parse().ok());
    let (uid, gid) = (number(), number());
    let home = fields.nth(1).map(PathBuf::from);
    Ok(uid.zip(gid).zip(home).map(|((uid, gid), home)| Account { owner: Owner { uid, gid }, home }))
}

/// Returns the account of the service, and creates it if it is missing.
///
/// # Errors
/// `SERVICE_FAILED` if it cannot be created, or if it belongs to root or to a person.
pub(crate) fn ensure(changes: &mut Changes) -> Result<Account, Fault> {
    let failed = |why: String| {
        let message =
            format!("The account {ACCOUNT} {why}. Correct that, then run the command again.");
        Fault::because(Code::ServiceFailed, message)
    };
    if find(ACCOUNT)?.is_none() {
        let text = format!("u {ACCOUNT} - \"Bursar wallet\" {}\n", crate::systemd::SYSTEM_DATA);
        changes.write(Path::new(DECLARATION), &text, 0o644)?;
        match run("systemd-sysusers", &[DECLARATION])? {
            Some(outcome) if outcome.succeeded => {}
            Some(outcome) => {
                return Err(failed(format!("could not be created: {}", outcome.reason())));
            }
            None => {
                return Err(failed("could not be created: systemd-sysusers is missing".to_owned()));
            }
        }
    }
    let account = find(ACCOUNT)?.ok_or_else(|| failed("does not exist".to_owned()))?;
    if account.owner.uid == 0 || account.owner.uid > LAST_SYSTEM_ACCOUNT {
        return Err(failed(
            "belongs to a person or to root, and the service needs a separate one".to_owned(),
        ));
    }
    Ok(account)
}

/// Returns the name of the account that runs this process.
pub(crate) fn current_name() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let found = run("getent", &["passwd", "--", &uid]).ok().flatten()?;
    found.out.split(':').next().map(str::to_owned).filter(|name| !name.is_empty())
}

/// Returns the reason why the machine's service must not run this program; `None` if it may.
pub(crate) fn program_fault(program: &Path) -> Option<Fault> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    let is_hidden = hidden.iter().any(|folder| program.starts_with(folder));
    let is_changeable = program.ancestors().any(|path| {
        fs::metadata(path).map_or(true, |found| found.uid() != 0 || found.mode() & 0o022 != 0)
    });
    (is_hidden || is_changeable).then(|| {
        let message = format!(
            "A service of the machine must run a program that only root can change: run `sudo install {0} /usr/local/bin/bursar`, \
             then `sudo /usr/local/bin/bursar install-service --system`.",
            program.display()
        );
        Fault::because(Code::BadInput, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_home_folder_is_not_for_the_machine() {
        assert!(program_fault(Path::new("/home/a/.cargo/bin/bursar")).is_some());
        assert!(program_fault(Path::new("/tmp/bursar")).is_some());
    }
}
