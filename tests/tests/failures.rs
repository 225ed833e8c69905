//! What goes wrong without anybody's intent: damaged files, a full disk, a folder that cannot be used, a
//! second engine. Each is a message that names the file and the way out, and nothing is touched.

#[cfg(test)]
#[path = "failures/damage.rs"]
mod damage;
#[cfg(test)]
#[path = "failures/disk.rs"]
mod disk;
#[cfg(test)]
#[path = "failures/folder.rs"]
mod folder;
#[cfg(test)]
#[path = "failures/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "failures/standstill.rs"]
mod standstill;
#[cfg(test)]
#[path = "failures/wallet.rs"]
mod wallet;
