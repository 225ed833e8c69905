//! Failures without an attacker: damaged files, a full disk, an unusable folder, a second engine. Each produces a
//! message that names the file and the remedy, and changes nothing on disk.

#[cfg(test)]
#[path = "failures/damage.rs"]
mod damage;
#[cfg(test)]
#[path = "failures/disk.rs"]
mod disk;
#[cfg(test)]
#[path = "failures/early_stop.rs"]
mod early_stop;
#[cfg(test)]
#[path = "failures/folder.rs"]
mod folder;
#[cfg(test)]
#[path = "failures/logs.rs"]
mod logs;
#[cfg(test)]
#[path = "failures/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "failures/stores.rs"]
mod stores;
#[cfg(test)]
#[path = "failures/transitions.rs"]
mod transitions;
#[cfg(test)]
#[path = "failures/wallet.rs"]
mod wallet;
