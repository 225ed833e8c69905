//! The engine of the Bursar wallet: journal, vault, lanes, agent server and control channel around the
//! pure rules of `bursar-domain`. ARCHITECTURE.md states which module may use which.

pub mod agent_api;
pub mod backup;
mod blocking;
pub mod chain_time;
pub mod config;
mod context;
pub mod control;
pub mod core;
mod device;
mod disk_room;
pub mod edition;
mod endpoints;
pub mod engine;
pub mod funds;
pub mod journal;
pub mod lanes;
pub mod operator;
pub mod ports;
pub mod proofs;
pub mod receipts;
pub mod redact;
pub mod rules;
pub mod service;
pub mod vault;
