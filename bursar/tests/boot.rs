//! The service in a real systemd, which runs as the first process of a container: install, boot, kill, reboot, remove. Each
//! test says so and passes where the machine cannot run such a container.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers stand outside #[test]")]

#[path = "boot/accounts.rs"]
mod accounts;
#[path = "boot/failures.rs"]
mod failures;
#[path = "boot/machine.rs"]
mod machine;
#[path = "boot/secrets.rs"]
mod secrets;
#[path = "boot/survives.rs"]
mod survives;
#[path = "boot/tpm.rs"]
mod tpm;
