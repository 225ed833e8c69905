//! The service in a real systemd, which runs as the first process of a container: install, boot, kill, reboot, remove. Each
//! test says so and passes where the machine cannot run such a container.

#[path = "boot/machine.rs"]
mod machine;
#[path = "boot/survives.rs"]
mod survives;
