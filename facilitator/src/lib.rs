//! The facilitator: verifies signed x402 payments and settles them on-chain, each once, paying gas.

pub mod book;
pub mod config;
pub mod exact;
pub mod memory;
pub mod network;
pub mod node;
pub mod payment;
pub mod reason;
pub mod settle;
pub mod signature;
pub mod verify;
