//! The facilitator: verifies signed x402 payments and settles them on-chain, each once, paying gas.

pub mod api;
pub mod book;
pub mod check;
pub mod config;
pub mod exact;
pub mod health;
pub mod keys;
pub mod metrics;
pub mod network;
pub mod node;
pub mod payment;
pub mod program;
pub mod reason;
pub mod service;
pub mod settle;
pub mod signature;
pub mod transaction;
pub mod ttl_map;
mod upkeep;
pub mod verify;
