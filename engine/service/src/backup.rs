//! The files of a backup: how one is written and read, and how restored files take the place of others. Knows no
//! engine; `operator::backup` runs the commands.

pub mod archive;
pub mod replace;
