//! The engine as a guest of the machine: its data folder and the lock that makes it the only one there.

pub mod data_dir;
pub mod instance;
