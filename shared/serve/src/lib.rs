//! The parts that every HTTP service of this workspace shares: settings, access control, startup checks, listeners, the
//! HTTP edge, logs, shutdown signals and exit codes. Each service defines its own keys and routes.

pub mod access;
pub mod findings;
pub mod http;
pub mod listen;
pub mod logs;
pub mod program;
pub mod settings;
pub mod signals;
