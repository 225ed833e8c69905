//! The HTTP server that agents call. It uses the core's handle and published views, never the state.

mod admit;
mod api;
pub mod auth;
mod balances;
mod body;
mod callback;
mod calls;
mod edge;
pub mod failed_auth;
mod guard;
mod health;
pub mod host;
pub mod lan;
mod lending_policy;
pub mod listen;
mod mandate;
pub mod message;
mod numbers;
mod objects;
pub mod openapi;
mod path_id;
mod plans;
mod position;
mod rate;
mod receipt;
pub mod reply;
mod router;
mod server;
mod sign;
mod texts;
mod trade;
mod venues;

pub use api::{Api, Lanes, ServerConfig};
pub use lan::Exposure;
pub use router::router;
pub use server::Server;
