//! Runs the engine as a service that starts at boot: the texts for systemd, launchd and the Task Scheduler, and their
//! installation on Linux.
//!
//! [`systemd`], [`launchd`] and [`task_scheduler`] are pure. [`install`](fn@install), [`uninstall`](fn@uninstall) and
//! [`report`] read and change the machine through the commands of systemd, `getent` and `setpriv`. A password is
//! never passed as an argument, and only its encrypted form is written to a file.

mod account;
mod commands;
mod consent;
mod credential;
mod files;
mod install;
pub mod launchd;
mod limit;
mod lingering;
mod machine_wallet;
mod manager;
mod operator;
mod outlook;
mod paths;
mod plan;
mod preview;
mod relocation;
pub mod service;
mod status;
pub mod systemd;
pub mod task_scheduler;
mod uninstall;
mod work;
mod written;
mod xml;

pub use install::{InstallReport, install};
pub use machine_wallet::{MachineWallet, machine_wallet};
pub use operator::Operator;
pub use plan::InstallRequest;
pub use preview::preview;
pub use status::{ServiceReport, report};
pub use uninstall::{UninstallReport, uninstall};

/// Compares a text with its accepted snapshot.
#[cfg(test)]
fn accept(name: &str, text: String) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots/boot"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
