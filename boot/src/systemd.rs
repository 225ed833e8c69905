//! The texts for systemd: the unit and its drop-ins.
//!
//! Sources: `systemd.unit(5)`, `systemd.service(5)`, `systemd.exec(5)`, `systemd.syntax(7)`.

use std::path::Path;

use crate::service::{Scope, Service, Tier};

/// The name of the unit.
pub const UNIT: &str = "bursar.service";

/// The name of the credential with the password.
///
/// The encryption of the password is bound to this name.
pub const CREDENTIAL: &str = "bursar.password";

/// The name of the credential with the tier, which is not secret.
pub const TIER_CREDENTIAL: &str = "bursar.tier";

/// The file with the encrypted password of a system service.
pub const SYSTEM_CREDENTIAL_FILE: &str = "/etc/bursar/password.cred";

/// The data folder of a system service.
pub const SYSTEM_DATA: &str = "/var/lib/bursar";

/// Protections of both scopes.
///
/// `ProcSubset=pid` is missing because it would hide the boot id, which the daily allowances need.
const PROTECTION: &str = "\
UMask=0077
ProtectSystem=strict
PrivateTmp=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictNamespaces=yes
KeyringMode=private
PrivateUsers=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
SystemCallArchitectures=native
SystemCallFilter=@system-service @memlock
SystemCallFilter=~@privileged @obsolete @mount @debug
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
PrivateDevices=yes
";

/// Limits of both scopes. An unlock needs 256 MiB, and only one runs at a time.
const LIMITS: &str = "\
LimitCORE=0
LimitMEMLOCK=512M
LimitNOFILE=8192
MemoryMax=1G
MemorySwapMax=0
";

/// Returns the text of the unit.
pub fn unit(service: &Service) -> String {
    let (data, program) = (quote_path(&service.data), quote_path(&service.program));
    // systemd repeats a failed start until it succeeds, because a full disk or a late home folder may be temporary.
    let order = match service.scope {
        Scope::System => {
            "Wants=network-online.target\n\
             After=network-online.target time-sync.target\n"
        }
        Scope::User => "",
    };
    let place = match service.scope {
        Scope::System => "User=bursar\n\
             Group=bursar\n\
             StateDirectory=bursar\n\
             StateDirectoryMode=0700\n\
             RuntimeDirectory=bursar\n\
             RuntimeDirectoryMode=0700\n\
             ProtectHome=yes\n\
             ProtectKernelLogs=yes\n\
             RemoveIPC=yes\n\
             OOMScoreAdjust=-500\n"
            .to_owned(),
        // `ProtectHome` hides /run/user, so the notification socket of the user's manager is mounted back.
        // `ProtectKernelLogs` is missing: an account cannot read the kernel's log anyway, and not every machine can
        // hide it.
        Scope::User => format!(
            "RuntimeDirectory=bursar\n\
             RuntimeDirectoryMode=0700\n\
             RuntimeDirectoryPreserve=yes\n\
             ProtectHome=tmpfs\n\
             BindPaths={data} %t/bursar\n\
             BindReadOnlyPaths={program} %t/systemd/notify\n"
        ),
    };
    let target = match service.scope {
        Scope::System => "multi-user.target",
        Scope::User => "default.target",
    };
    format!(
        "[Unit]\n\
         Description=Bursar, the wallet of AI agents\n\
         RequiresMountsFor={data}\n\
         {order}\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart=:{program} --data {data} engine\n\
         # Usage, a wrong password, a folder in use and damage need a person: a restart would not help.\n\
         RestartPreventExitStatus=2 5 10 13\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         # Restarts an engine whose core completes no turn.\n\
         WatchdogSec=60\n\
         TimeoutStartSec=600\n\
         # A transaction that is being sent may finish.\n\
         TimeoutStopSec=45\n\
         KillMode=mixed\n\
         \n\
         {place}{PROTECTION}\n\
         {LIMITS}\n\
         [Install]\n\
         WantedBy={target}\n"
    )
}

/// Returns the drop-in that passes the encrypted password in `file` to the engine.
pub fn unlock_drop_in(file: &Path, tier: Tier) -> String {
    // Both directives read the rest of the line literally, without quotes.
    let file = file.display().to_string().replace('%', "%%");
    let tier = tier.text();
    format!(
        "[Service]\n\
         LoadCredentialEncrypted={CREDENTIAL}:{file}\n\
         SetCredential={TIER_CREDENTIAL}:{tier}\n"
    )
}

/// Returns the tier that our unlock drop-in names.
pub(crate) fn tier_of(drop_in: &str) -> Tier {
    if drop_in.contains(Tier::Tpm.text()) { Tier::Tpm } else { Tier::HostKey }
}

/// Returns the drop-in that lets the engine use a Ledger, a device of the class hidraw.
pub fn ledger_drop_in() -> String {
    "[Service]\n\
     PrivateDevices=no\n\
     DevicePolicy=closed\n\
     DeviceAllow=char-hidraw rw\n\
     RestrictAddressFamilies=AF_NETLINK\n"
        .to_owned()
}

/// Returns a path in double quotes, with `%` doubled because systemd expands specifiers.
///
/// A path of a [`Service`] needs no other escape.
fn quote_path(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('%', "%%"))
}

/// Returns the data folder in a unit; `None` if the unit is not ours.
pub(crate) fn data_of(unit: &str) -> Option<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=:\""))?;
    let (_program, rest) = line.split_once("\" --data \"")?;
    let (data, _rest) = rest.split_once("\" engine")?;
    Some(data.replace("%%", "%"))
}

/// Returns the program in a unit; `None` if the unit is not ours.
pub(crate) fn program_of(unit: &str) -> Option<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=:\""))?;
    line.split_once("\" --data ").map(|(program, _rest)| program.replace("%%", "%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(scope: Scope) -> Service {
        let data = match scope {
            Scope::User => "/home/a b/100%/bursar",
            Scope::System => SYSTEM_DATA,
        };
        Service::new(scope, "/usr/local/bin/bursar".into(), data.into()).unwrap()
    }

    #[test]
    fn units() {
        crate::accept("system_unit", unit(&service(Scope::System)));
        crate::accept("user_unit", unit(&service(Scope::User)));
        crate::accept("ledger_drop_in", ledger_drop_in());
        let file = Path::new(SYSTEM_CREDENTIAL_FILE);
        crate::accept("unlock_drop_in", unlock_drop_in(file, Tier::Tpm));
    }

    #[test]
    fn a_unit_shows_what_it_runs() {
        let unit = unit(&service(Scope::User));
        assert_eq!(data_of(&unit).as_deref(), Some("/home/a b/100%/bursar"));
        assert_eq!(program_of(&unit).as_deref(), Some("/usr/local/bin/bursar"));
        assert_eq!(data_of("[Service]\nExecStart=/bin/true\n"), None);
    }
}
