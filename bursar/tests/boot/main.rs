//! The service under a real systemd, the first process of a container: install, boot, kill, reboot, remove.
//!
//! Where the machine cannot run such a container, each test prints that and passes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers stand outside #[test]")]

mod accounts;
mod failures;
mod machine;
mod secrets;
mod survives;
mod tpm;
