//! The files of a backup: writing and reading one, and replacing the files of a data folder by restored ones.
//! Needs no engine; `operator::backup` runs the commands.

pub mod archive;
pub(crate) mod guard;
pub mod replace;
