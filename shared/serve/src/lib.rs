//! What every HTTP service of ours has around its edges, whatever it serves: how it is set, who
//! may call it how often, what it finds amiss before it starts, where it listens, where its log goes, when it is
//! to stop and what it exits with. Which
//! keys there are and what is answered over HTTP is each service's own.

pub mod access;
pub mod findings;
pub mod http;
pub mod listen;
pub mod logs;
pub mod program;
pub mod settings;
pub mod signals;
