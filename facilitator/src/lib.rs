//! The facilitator: verifies signed x402 payments and settles them on-chain, each once, paying gas.

pub mod config;
pub mod keys;
