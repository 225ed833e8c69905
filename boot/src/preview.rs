//! The files of a service as text, for any platform.

use std::path::{Path, PathBuf};

use bursar_core::fault::Fault;

use crate::credential;
use crate::paths::Paths;
use crate::plan::InstallRequest;
use crate::service::{Platform, Scope, Service};
use crate::systemd;
use crate::{launchd, task_scheduler};

/// Returns the files of a service as text, without using the machine's service manager.
pub fn preview(platform: Platform, wanted: &InstallRequest) -> Result<String, Fault> {
    match platform {
        Platform::Linux => {
            let (service, paths) = (wanted.service()?, Paths::of(wanted.scope)?);
            let head = |path: &Path| format!("# {}\n", path.display());
            let mut text = head(&paths.unit) + &systemd::unit(&service);
            if wanted.unlock == Some(true) {
                let drop_in =
                    systemd::unlock_drop_in(&paths.credential, credential::strongest_tier());
                text.push_str(&format!("\n{}{drop_in}", head(&paths.unlock)));
            }
            if wanted.ledger == Some(true) {
                let drop_in = systemd::ledger_drop_in();
                text.push_str(&format!("\n{}{drop_in}", head(&paths.ledger)));
            }
            Ok(text)
        }
        Platform::Macos => {
            let home =
                std::env::var_os("HOME").map_or_else(|| PathBuf::from("/Users/you"), PathBuf::from);
            let service = Service::for_other_platform(
                Scope::User,
                wanted.program.clone(),
                wanted.data.clone(),
            );
            Ok(launchd::agent(&service, &home.join("Library/Logs/bursar")))
        }
        Platform::Windows => {
            let named = std::env::var("USERNAME").or_else(|_unset| std::env::var("USER"));
            let account = named.unwrap_or_else(|_unset| "you".to_owned());
            let service = Service::for_other_platform(
                wanted.scope,
                wanted.program.clone(),
                wanted.data.clone(),
            );
            Ok(task_scheduler::task(&service, &account))
        }
    }
}
