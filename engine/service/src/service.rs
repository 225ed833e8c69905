//! The engine on its machine: its data folder, and the lock that excludes a second engine there.

pub mod data_dir;
pub(crate) mod file_system;
pub mod instance;
