//! Sells an OpenAI-compatible API per request: quotes x402 prices, takes payments, and delivers each answer once.

pub mod answer;
pub mod api;
pub mod book;
pub mod chat;
pub mod check;
pub mod config;
pub mod facilitator;
pub mod fault;
pub mod metrics;
pub mod models_list;
pub mod node;
pub mod offer;
pub mod payment;
pub mod penalties;
pub mod price;
pub mod pricing;
pub mod program;
pub mod redact;
pub mod sell;
pub mod service;
pub mod tokens;
pub mod unpaid;
mod upkeep;
pub mod upstream;
pub mod usage;
mod user_agent;
mod wait;
