//! The facilitator: verifies signed x402 payments and settles them on-chain, each once, paying gas.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use bursar_chain::failpoints::NoFailpoints;
//! use bursar_facilitator::config::Config;
//! use bursar_facilitator::service::{Running, load_keys};
//!
//! /// Verifies and settles payments until Ctrl-C.
//! async fn run(config: Config) -> Result<(), Box<dyn std::error::Error>> {
//!     let keys = load_keys(&config)?;
//!     let running = Running::start(config, keys, Arc::new(NoFailpoints)).await?;
//!     println!("http://{}", running.address);
//!     tokio::signal::ctrl_c().await?;
//!     running.stop().await;
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The environment overrides the file, which overrides the defaults.
//! let env = |name: &str| (name == "FACILITATOR_LISTEN").then(|| "127.0.0.1:8402".to_owned());
//! let config = Config::load(None, &env)?;
//! assert_eq!(config.listen.port(), 8402);
//! assert_eq!(config.wait_ms, Config::default().wait_ms);
//! # Ok(())
//! # }
//! ```

pub mod api;
pub mod batch;
pub mod book;
pub mod check;
pub mod clock_watch;
pub mod config;
pub mod contract_call;
pub mod contracts;
pub mod exact;
pub mod head;
pub mod health;
pub mod job;
pub mod job_key;
pub mod keys;
pub mod metrics;
pub mod mined_transaction;
pub mod network;
pub mod node;
pub mod payment;
pub mod program;
mod reads;
pub mod reason;
pub mod requester;
pub mod scheme;
pub mod schemes;
mod sent_transaction;
pub mod service;
pub mod settle;
pub mod signature;
pub mod store_probe;
pub mod transaction;
pub mod transfer;
pub mod ttl_map;
mod upkeep;
pub mod upto;
pub mod verify;
pub mod work;
