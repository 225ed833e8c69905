//! Failures without an attacker: damaged files, a full disk, an unusable folder, a second engine. Each produces a
//! message that names the file and the remedy, and changes nothing on disk.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod early_stop;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod transitions;
#[cfg(test)]
mod wallet;
