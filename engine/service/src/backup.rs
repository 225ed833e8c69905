//! The files of a backup: writes and reads a backup, and replaces the files of a data folder by restored files. Needs
//! no engine; `operator::backup` runs the commands.

pub mod archive;
pub(crate) mod guard;
pub mod replace;
