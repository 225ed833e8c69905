//! The service in a real systemd, which runs as the first process of a container: install, boot, kill, reboot, remove. Each
//! test says so and passes where the machine cannot run such a container.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers stand outside #[test]")]

mod accounts;
mod failures;
mod machine;
mod secrets;
mod survives;
mod tpm;
