//! The engine on its machine: its data folder, and the lock that excludes a second engine there.

pub mod data_dir;
pub mod instance;
