//! Information about an installed service: the effect of a reboot, and the command that opens the console.

use std::path::Path;

use crate::account;
use crate::lingering::is_lingering;
use crate::service::{Scope, Service, Tier};

/// Returns what happens after a reboot, as a sentence.
pub(crate) fn after_reboot(service: &Service, tier: Tier) -> String {
    let when = match service.scope {
        Scope::System => "the engine starts with the machine",
        Scope::User if is_lingering() => "the engine starts with the machine",
        Scope::User => "the engine starts when you log in",
    };
    let opened = match tier {
        Tier::None => format!("the wallet stays locked until `{} wallet open`", console(service)),
        Tier::HostKey | Tier::Tpm => format!("the wallet opens without you ({})", tier.text()),
    };
    format!("{when}, and {opened}.")
}

/// Returns the command that opens the console on the service's data folder.
pub(crate) fn console(service: &Service) -> String {
    let shown = |path: &Path| {
        let text = path.display().to_string();
        let is_plain = text.chars().all(|one| one.is_ascii_alphanumeric() || "/._-".contains(one));
        if is_plain { text } else { format!("'{text}'") }
    };
    match service.scope {
        Scope::System => {
            format!(
                "sudo -u {} {} --data {}",
                account::ACCOUNT,
                shown(&service.program),
                shown(&service.data)
            )
        }
        Scope::User => format!("bursar --data {}", shown(&service.data)),
    }
}
